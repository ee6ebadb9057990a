//! The end of a storage while requests wait for staging, and mounts that hang with windows out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::{
    Buffer, CloseReport, CodecId, Decode, DeviceSink, ErrorKind, FileId, FileOptions, Read,
    StorageOptions, Ticket, WaitsFor,
};
use millstream_testing::fuse::{Call, Effect, FaultFs, Rule};
use millstream_testing::{or_skip, this_test, wait_for};

use crate::faults::rig::{PATIENCE, Rig, each, each_leaking, failure_kind, landed};
use crate::support::{Keeper, encoded, noise};

const SHORTLY: Duration = Duration::from_millis(50);
const PART: usize = 60_000;
/// Half of staging, and one window outside.
const KEPT_MOST: usize = 9;

fn little(mut options: StorageOptions) -> StorageOptions {
    options.staging_bytes = 1 << 20;
    options.block_bytes = 64 << 10;
    options
}

/// A storage whose staging a sink keeps, as far as it may.
struct Full {
    rig: Rig,
    keeper: Arc<Keeper>,
    /// Of the windows that are kept, and of those that wait.
    tickets: Vec<Ticket<()>>,
    folder: tempfile::TempDir,
}

impl Full {
    fn new(name: &'static str, options: StorageOptions) -> Full {
        let rig = Rig::new(name, little(options));
        let folder = tempfile::tempdir().expect("a folder");
        let keeper = Arc::new(Keeper::default());
        let mut full = Full {
            rig,
            keeper,
            tickets: Vec::new(),
            folder,
        };
        let file = full.file("kept", &noise(1, PART));
        let sink = || Arc::clone(&full.keeper) as Arc<dyn DeviceSink>;
        let reads = (0..30).map(|_| Read::whole(file).into_device(sink()));
        full.tickets = full.rig.submit_all(reads);
        let is_full = || {
            let is_blocked = full.rig.storage.stats().blocked_by_application > 0;
            is_blocked && full.keeper.kept() == KEPT_MOST
        };
        assert!(wait_for(is_full), "{name}");
        full
    }

    fn file(&self, file: &str, bytes: &[u8]) -> FileId {
        let path = self.folder.path().join(file);
        std::fs::write(&path, bytes).expect("written");
        self.rig.storage.open(path, FileOptions::default())
    }
}

/// The kind of error that a request of a closed storage ends with, if it ends.
fn end_of<T: 'static>(mut ticket: Ticket<T>) -> ErrorKind {
    match ticket.wait_timeout(PATIENCE) {
        Ok(Some(outcome)) => outcome.result.expect_err("the storage is closed").kind(),
        Ok(None) => panic!("the wait has no end: {ticket:?}"),
        Err(error) => error.kind(),
    }
}

#[test]
fn closing_while_a_sink_keeps_staging_returns_in_time_and_reports_its_parts() {
    each_leaking(this_test!(), |name, options| {
        let full = Full::new(name, options);
        let kept = full.keeper.kept();
        let last = full.tickets.last().expect("some");
        let waits = || last.waits_for() == Some(WaitsFor::Application);
        assert!(wait_for(waits), "{name}: {last:?}");
        let begin = Instant::now();
        let report = full.rig.storage.close(SHORTLY);
        assert!(begin.elapsed() < PATIENCE, "{name}: close is bounded");
        assert_eq!(report.operations, kept, "{name}: {report:?}");
        assert_eq!(report.bytes, 0, "{name}: {report:?}");
        let ends: Vec<_> = full.tickets.into_iter().map(end_of).collect();
        let canceled = ends.iter().filter(|kind| **kind == ErrorKind::Canceled);
        assert_eq!(canceled.count(), 30 - kept, "{name}: {ends:?}");
        // Its memory is the sink's to use: the request never ends, and a wait reports it.
        let held = ends.iter().filter(|kind| **kind == ErrorKind::StillHeld);
        assert_eq!(held.count(), kept, "{name}: {ends:?}");
        // The storage is gone when these parts are finished.
        full.keeper.let_go();
        drop(full.rig);
    });
}

#[test]
fn a_close_with_enough_time_waits_for_the_parts_of_a_sink() {
    each(this_test!(), |name, options| {
        let full = Full::new(name, options);
        let kept = full.keeper.kept();
        std::thread::scope(|scope| {
            let close = scope.spawn(|| full.rig.storage.close(PATIENCE));
            let last = full.tickets.last().expect("some");
            assert!(wait_for(|| last.is_complete()), "{name}");
            assert_eq!(full.keeper.kept(), kept, "{name}: no window was taken");
            full.keeper.let_go();
            let report = close.join().expect("no panic");
            assert_eq!(report, CloseReport::default(), "{name}");
        });
        for ticket in full.tickets {
            assert_eq!(end_of(ticket), ErrorKind::Canceled, "{name}");
        }
    });
}

/// A mount whose reads hang, and a file of one block there.
fn hung_mount(stored: &[u8]) -> Result<FaultFs, millstream_testing::Unavailable> {
    let mount = FaultFs::mount(&[("a", stored), ("b", stored)])?;
    mount.inject(Rule::on(Call::Read, Effect::Hang));
    Ok(mount)
}

fn block(rig: &Rig, file: FileId, len: usize) -> Ticket<Buffer> {
    let decode = Decode::codec(CodecId::LZ4_BLOCK).raw_len(len as u64);
    rig.submit(Read::whole(file).decode(decode))
}

#[test]
fn closing_with_an_open_window_on_a_mount_that_hangs_returns_in_time() {
    each_leaking(this_test!(), |name, options| {
        let raw = noise(2, 400_000);
        let stored = encoded(CodecId::LZ4_BLOCK, &raw);
        let mount = or_skip!(hung_mount(&stored));
        let rig = Rig::new(name, little(options));
        let file = |file| rig.storage.open(mount.path(file), FileOptions::default());
        let files = [file("a"), file("b")];
        // One window is open, one waits for the mount or for staging.
        let tickets = files.map(|file| block(&rig, file, raw.len()));
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        let begin = Instant::now();
        let report = rig.storage.close(SHORTLY);
        assert!(begin.elapsed() < PATIENCE, "{name}: close is bounded");
        assert!(report.operations > 0, "{name}: {report:?}");
        assert!(report.bytes > 0, "{name}: {report:?}");
        let is_of_mount = |path: &PathBuf| path.starts_with(mount.root());
        assert!(!report.files.is_empty(), "{name}");
        assert!(report.files.iter().all(is_of_mount), "{name}: {report:?}");
        for ticket in tickets {
            let kind = end_of(ticket);
            let is_end = matches!(kind, ErrorKind::Closed | ErrorKind::Canceled);
            assert!(is_end, "{name}: {kind:?}");
        }
        drop(rig);
        mount.heal();
    });
}

#[test]
fn windows_on_a_mount_that_hangs_leave_staging_to_others() {
    each(this_test!(), |name, options| {
        let raw = noise(3, 700_000);
        let hung = encoded(CodecId::LZ4_BLOCK, &raw[..480_000]);
        let mount = or_skip!(hung_mount(&hung));
        let rig = Rig::new(name, little(options));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("good");
        std::fs::write(&path, encoded(CodecId::LZ4_BLOCK, &raw)).expect("written");
        let good = rig.storage.open(path, FileOptions::default());
        let file = |file| rig.storage.open(mount.path(file), FileOptions::default());
        let files = [file("a"), file("b")];
        let late = files.map(|file| block(&rig, file, 480_000));
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        for _ in 0..4 {
            assert!(landed(block(&rig, good, raw.len()))[..] == raw, "{name}");
            let decode = Decode::codec(CodecId::LZ4_BLOCK).raw_len(480_000);
            let read = Read::whole(files[0]).decode(decode).timeout(SHORTLY);
            assert_eq!(
                failure_kind(rig.submit(read)),
                ErrorKind::TimedOut,
                "{name}"
            );
        }
        assert!(late.iter().all(|ticket| !ticket.is_complete()), "{name}");
        mount.heal();
        mount.release();
        for ticket in late {
            assert!(landed(ticket)[..] == raw[..480_000], "{name}");
        }
        rig.finish();
    });
}
