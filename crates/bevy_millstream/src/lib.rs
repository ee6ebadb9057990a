//! Bevy assets from packages, archives and folders, loaded by Millstream.
//!
//! [`MillstreamAssetPlugin`] makes an asset source read through Millstream: `AssetServer`, loaders,
//! `.meta` files, `load_folder` and hot reload work as before. The resource [`Millstream`] changes
//! how urgent a handle is, at any time, and shows what is outstanding. Bytes in flight are bounded.
//! Dropping the last handle of an asset cancels its read, at the latest in the second frame.
//!
//! ```no_run
//! # use std::time::{Duration, Instant};
//! # use bevy_asset::{AssetServer, Handle, LoadedUntypedAsset as Chunk};
//! # use bevy_ecs::system::Res;
//! use bevy_millstream::{Millstream, Priority};
//!
//! fn load(server: Res<AssetServer>, millstream: Res<Millstream>) {
//!     let near: Handle<Chunk> = server.load("chunks/3.bin");
//!     let soon = Instant::now() + Duration::from_secs(2);
//!     millstream.reprioritize(near.clone(), Priority::High, Some(soon));
//! }
//! ```
//!
//! Limits: a load cannot be canceled before its `.meta` file is read. Loose files are looked up on
//! Bevy's I/O threads. While more urgent reads arrive, others wait. Hot reload sees loose files
//! that were looked up, neither new files of a loaded folder nor packages that are replaced.

#[cfg(test)]
millstream_testing::watch!();

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod reader;
mod scheduler;
mod watch;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bevy_app::{App, Plugin, PreUpdate};
use bevy_asset::io::file::FileAssetReader;
use bevy_asset::io::{AssetSourceBuilder, AssetSourceId, ErasedAssetReader};
use bevy_asset::{AssetApp as _, UntypedHandle};
use bevy_diagnostic::{Diagnostic, DiagnosticPath, Diagnostics, RegisterDiagnostic as _};
use bevy_ecs::prelude::{Local, Res, Resource};
use millstream::{Queue, QueueOptions, Storage, StorageOptions, limits};
use millstream_pak::{Mounts, is_package};

pub use millstream::Priority;
pub use millstream_pak::Error;
pub use scheduler::LoadStats;

use reader::Entries;
use scheduler::{Bounds, Scheduler};
use watch::watch;

/// What a disk delivers in 30 ms at 2 GB/s, and as many reads as a storage has operations: more
/// would not load faster, and each is ahead of an urgent one in Bevy's list of tasks.
const BOUNDS: Bounds = (64 << 20, limits::DEPTH_DEFAULT as u64);

/// Makes an asset source read packages, archives and folders through Millstream. To be added before
/// `AssetPlugin`; several plugins may be added, each with a source of its own.
pub struct MillstreamAssetPlugin {
    source: AssetSourceId<'static>,
    storage: Storage,
    queue: Queue,
    mounts: Arc<Mounts>,
    /// Those among the mounts that the system is asked to watch.
    folders: Vec<PathBuf>,
    bounds: Bounds,
}

impl MillstreamAssetPlugin {
    /// Opens packages, archives and folders, each over those before it, for the default asset
    /// source. Relative paths begin where Bevy's do. Blocks until tables are read.
    ///
    /// # Errors
    /// A file cannot be opened or is neither a package nor an archive; a patch without its base.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, Error> {
        let storage = Storage::new(StorageOptions::default())?;
        let (mut mounts, mut folders) = (Mounts::new(), Vec::new());
        for path in paths {
            let (path, mut head) = (FileAssetReader::get_base_path().join(path), [0; 8]);
            // What cannot be read is reported when it is mounted.
            let _ = File::open(&path).and_then(|mut file| file.read_exact(&mut head));
            if path.is_dir() {
                mounts.mount_folder(&storage, &path)?;
                folders.push(path);
            } else if is_package(&head) {
                mounts.mount_package(&storage, &path)?;
            } else {
                mounts.mount_archive(&storage, &path)?;
            }
        }
        let plugin = Self::with_mounts(&storage, mounts)?;
        Ok(Self { folders, ..plugin })
    }

    /// Takes mounts of the application, opened with `storage`. Changes of their loose files are
    /// looked for once a second even with the feature `notify`.
    ///
    /// # Errors
    /// The storage is closing, or has too many queues.
    pub fn with_mounts(storage: &Storage, mounts: Mounts) -> Result<Self, Error> {
        let mut options = QueueOptions::default();
        options.name = String::from("assets");
        Ok(Self {
            source: AssetSourceId::Default,
            storage: storage.clone(),
            queue: storage.queue(options)?,
            mounts: Arc::new(mounts),
            folders: Vec::new(),
            bounds: BOUNDS,
        })
    }

    /// Sets the asset source: `dlc` serves the paths `dlc://...`.
    #[must_use]
    pub fn source(mut self, source: impl Into<AssetSourceId<'static>>) -> Self {
        self.source = source.into();
        self
    }

    /// Sets the bounds on what is read and not yet taken by loaders: bytes, 64 MiB by default, and
    /// reads, 128 by default and at most 8192. A larger asset is read alone.
    #[must_use]
    pub fn in_flight(mut self, bytes: u64, reads: u64) -> Self {
        self.bounds = (bytes, reads.min(u64::from(limits::QUEUE_CAPACITY_DEFAULT)));
        self
    }

    /// The source's reader and watcher, of raw assets and of processed ones.
    fn builder(&self, entries: &Entries) -> AssetSourceBuilder {
        let reader = || {
            let entries = entries.clone();
            move || -> Box<dyn ErasedAssetReader> { Box::new(entries.clone()) }
        };
        let watcher = || {
            let (mounts, folders) = (Arc::clone(&self.mounts), self.folders.clone());
            move |sender| watch(Arc::clone(&mounts), &folders, sender)
        };
        AssetSourceBuilder::new(reader())
            .with_watcher(watcher())
            .with_processed_reader(reader())
            .with_processed_watcher(watcher())
    }
}

impl Plugin for MillstreamAssetPlugin {
    fn build(&self, app: &mut App) {
        let entries = Entries {
            storage: self.storage.clone(),
            mounts: Arc::clone(&self.mounts),
            scheduler: Scheduler::new(self.queue.clone(), self.bounds),
        };
        app.register_asset_source(self.source.clone(), self.builder(&entries));
        if !app.world().contains_resource::<Millstream>() {
            app.init_resource::<Millstream>();
            for path in Millstream::DIAGNOSTICS {
                app.register_diagnostic(Diagnostic::new(path));
            }
            app.add_systems(PreUpdate, publish);
        }
        let mut millstream = app.world_mut().resource_mut::<Millstream>();
        millstream.sources.insert(self.source.clone(), entries);
    }

    fn is_unique(&self) -> bool {
        false
    }
}

/// Controls the loads of all sources of [`MillstreamAssetPlugin`]. A clone is another handle.
#[derive(Resource, Clone, Default)]
pub struct Millstream {
    sources: HashMap<AssetSourceId<'static>, Entries>,
}

impl Millstream {
    /// Diagnostic: milliseconds since a load last completed while others are outstanding; else 0.
    pub const STALL: DiagnosticPath = DiagnosticPath::const_new("millstream/stall_ms");
    /// Diagnostic: reads that wait for room.
    pub const WAITING: DiagnosticPath = DiagnosticPath::const_new("millstream/waiting");
    /// Diagnostic: bytes in flight.
    pub const BYTES: DiagnosticPath = DiagnosticPath::const_new("millstream/bytes_in_flight");
    /// Diagnostic: reads that completed after their deadline.
    pub const LATE: DiagnosticPath = DiagnosticPath::const_new("millstream/deadlines_missed");
    /// Diagnostic: faults of the engine ([`stalls`](millstream::Stats::stalls)).
    pub const FAULTS: DiagnosticPath = DiagnosticPath::const_new("millstream/engine_stalls");

    const DIAGNOSTICS: [DiagnosticPath; 5] = [
        Self::STALL,
        Self::WAITING,
        Self::BYTES,
        Self::LATE,
        Self::FAULTS,
    ];

    /// Sets how urgent the reads of a handle's asset are: those that wait or are queued in the
    /// engine, and those to come while the handle lives; `Priority::Normal` by default. Within a
    /// priority the earliest deadline is read first; a missed one is counted, never an error.
    /// Returns whether the handle is of a file of Millstream's sources. Does not block.
    pub fn reprioritize(
        &self,
        handle: impl Into<UntypedHandle>,
        priority: Priority,
        deadline: Option<Instant>,
    ) -> bool {
        let handle = handle.into();
        if let UntypedHandle::Strong(strong) = &handle
            && let Some(path) = handle.path()
            && let Some(entries) = self.sources.get(path.source())
        {
            let urgency = (Reverse(priority), Reverse(deadline.map(Reverse)));
            let change = (Arc::from(path.path()), Arc::downgrade(strong), urgency);
            entries.scheduler.reprioritize(change);
            return true;
        }
        false
    }

    /// Returns counts of the loads of all sources; the peak is the sum of theirs.
    #[must_use]
    pub fn load_stats(&self) -> LoadStats {
        let mut sum = LoadStats::default();
        for entries in self.sources.values() {
            let stats = entries.scheduler.stats();
            sum.waiting += stats.waiting;
            sum.in_flight += stats.in_flight;
            sum.bytes_in_flight += stats.bytes_in_flight;
            sum.bytes_in_flight_peak += stats.bytes_in_flight_peak;
            sum.loaded += stats.loaded;
            sum.failed += stats.failed;
            sum.canceled += stats.canceled;
        }
        sum
    }
}

/// How many reads had ended, and since when.
type Last = Option<(u64, Instant)>;

fn publish(millstream: Res<Millstream>, mut diagnostics: Diagnostics, mut last: Local<Last>) {
    let loads = millstream.load_stats();
    let ended = loads.loaded + loads.failed + loads.canceled;
    let is_idle = loads.waiting + loads.in_flight == 0;
    let since = match *last {
        Some((before, since)) if before == ended && !is_idle => since,
        _ => Instant::now(),
    };
    *last = Some((ended, since));
    let (mut late, mut faults) = (0, 0);
    for entries in millstream.sources.values() {
        let stats = entries.storage.stats();
        (late, faults) = (late + stats.deadlines_missed, faults + stats.stalls);
    }
    let stall = since.elapsed().as_millis() as u64;
    let values = [stall, loads.waiting, loads.bytes_in_flight, late, faults];
    for (path, value) in Millstream::DIAGNOSTICS.iter().zip(values) {
        diagnostics.add_measurement(path, || value as f64);
    }
}
