//! Hot reload: a thread that looks for changed files and reports them to the asset server.
//!
//! The mounts compare each name that was looked up with its file, by a system call for each. So the
//! thread does that once the system has reported a change below a folder (feature `notify`), or
//! else once a second.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use async_channel::Sender;
use bevy_asset::io::{AssetSourceEvent, AssetWatcher};
use millstream_pak::Mounts;
use tracing::warn;

use crate::reader::META_SUFFIX;

/// Time between two checks, where the system reports no changes and where it may have lost some.
const INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Time between a report and a check: programs write files in several steps.
const SETTLE: Duration = Duration::from_millis(100);

/// A watcher of the system.
type System = Option<Box<dyn Any + Send + Sync>>;

/// The thread ends once this sender and the system's are dropped.
struct Watch(#[expect(dead_code, reason = "dropped")] (SyncSender<()>, System));

impl AssetWatcher for Watch {}

/// Starts a thread that sends changes of mounts to `to`. `None` if the system refuses it.
pub(crate) fn watch(
    mounts: Arc<Mounts>,
    folders: &[PathBuf],
    to: Sender<AssetSourceEvent>,
) -> Option<Box<dyn AssetWatcher>> {
    // One signal waiting stands for any number.
    let (sender, signals) = mpsc::sync_channel(1);
    let system = system_watcher(folders, &sender);
    let interval = INTERVALS[usize::from(system.is_some())];
    let run = move || {
        while signals.recv_timeout(interval) != Err(RecvTimeoutError::Disconnected) {
            thread::sleep(SETTLE);
            report_changes(&mounts, &to);
        }
    };
    let started = thread::Builder::new().name("asset watch".into()).spawn(run);
    let started = started.inspect_err(|error| warn!("cannot watch assets: {error}"));
    started.ok()?;
    Some(Box::new(Watch((sender, system))))
}

fn report_changes(mounts: &Mounts, to: &Sender<AssetSourceEvent>) {
    let changed = mounts.changes().unwrap_or_else(|error| {
        warn!("cannot look for changed assets: {error}");
        Vec::new()
    });
    for name in changed.iter().filter_map(|name| str::from_utf8(name).ok()) {
        let exists = mounts.exists(name.as_bytes()).unwrap_or(true);
        let event = match (name.strip_suffix(META_SUFFIX), exists) {
            (Some(asset), true) => AssetSourceEvent::ModifiedMeta(asset.into()),
            (Some(asset), false) => AssetSourceEvent::RemovedMeta(asset.into()),
            (None, true) => AssetSourceEvent::ModifiedAsset(name.into()),
            (None, false) => AssetSourceEvent::RemovedAsset(name.into()),
        };
        // Fails if the asset server has dropped the receiver; then it drops the watcher, too.
        let _ = to.try_send(event);
    }
}

#[cfg(not(feature = "notify"))]
fn system_watcher(_: &[PathBuf], _: &SyncSender<()>) -> System {
    None
}

/// Has the system report changes below the folders; `None` if there are none or it refuses one.
#[cfg(feature = "notify")]
fn system_watcher(folders: &[PathBuf], sender: &SyncSender<()>) -> System {
    use notify::{Event, RecursiveMode, Result, Watcher as _, recommended_watcher};
    let sender = sender.clone();
    // An error may stand for lost events.
    let handler = move |event: Result<Event>| match event {
        Ok(event) if event.kind.is_access() => {}
        _ => drop(sender.try_send(())),
    };
    let watcher = recommended_watcher(handler).and_then(|mut watcher| {
        let watch = |folder: &PathBuf| watcher.watch(folder, RecursiveMode::Recursive);
        folders.iter().try_for_each(watch).map(|()| watcher)
    });
    let refused = |error: &notify::Error| warn!("checks for changes each second: {error}");
    let watcher = watcher.inspect_err(refused).ok();
    let watcher = watcher.filter(|_| !folders.is_empty())?;
    Some(Box::new(watcher))
}
