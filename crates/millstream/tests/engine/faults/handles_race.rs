//! Handles, appends and syncs that race: with each other, with closes, and with the end of the
//! storage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::{
    Access, Backend, DeviceMaker, FileId, FileOp, FileOptions, Queue, QueueOptions, Read, Storage,
    Write,
};
use millstream_io::device::sim::{Sim, SimFileOptions, SimOptions};
use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::fs::OsFileSystem;
use millstream_io::{
    Descriptor, Device, Errno, FileSystem, IoError, Known, Numbering, OpenMode, Opened,
    OwnedDescriptor,
};
use millstream_testing::{Child, this_test, wait_for};

use crate::support::over_sim;

const READ: FileOptions = FileOptions {
    write: false,
    ..DEFAULT
};
const WRITE: FileOptions = FileOptions {
    write: true,
    ..DEFAULT
};
const DEFAULT: FileOptions = FileOptions {
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    access: None,
    package: false,
};

/// Runs a test in a process of its own: at the end of a storage, what a call that hangs holds is
/// leaked on purpose.
fn leaking(test: &'static str, body: impl Fn()) {
    let outcome = Child::of(test).leaks_on_purpose().run(body);
    if let Err(unavailable) = outcome {
        unavailable.announce();
    }
}

/// A place where threads are held while it is shut.
#[derive(Default)]
struct Gate {
    shut: AtomicBool,
    inside: AtomicUsize,
}

impl Gate {
    fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
    }
    fn open(&self) {
        self.shut.store(false, Ordering::SeqCst);
    }
    fn pass(&self) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        while self.shut.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
    fn holds(&self, count: usize) {
        assert!(
            wait_for(|| self.inside.load(Ordering::SeqCst) >= count),
            "held: {}",
            self.inside.load(Ordering::SeqCst)
        );
    }
}

/// The system's files, with gates behind opens and before looks.
#[derive(Default)]
struct Hooked {
    fs: OsFileSystem,
    numbering: Option<Numbering>,
    opened: Gate,
    known: Gate,
    looked: Gate,
    closed: Mutex<Vec<u64>>,
    /// Closes are only counted.
    keeps: AtomicBool,
}

impl FileSystem for Hooked {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        let mut opened = self.fs.open(path, mode);
        if let (Ok(opened), Some(numbering)) = (&mut opened, self.numbering) {
            opened.numbering = numbering;
        }
        self.opened.pass();
        opened
    }
    fn close(&self, file: OwnedDescriptor) -> Result<(), IoError> {
        self.closed.lock().unwrap().push(file.raw());
        match self.keeps.load(Ordering::SeqCst) {
            true => Ok(()),
            false => self.fs.close(file),
        }
    }
    fn known(&self, file: Descriptor) -> Result<Known, IoError> {
        self.known.pass();
        self.fs.known(file)
    }
    fn known_at(&self, path: &Path) -> Result<Known, IoError> {
        self.looked.pass();
        self.fs.known_at(path)
    }
    fn anchored(&self, path: &Path) -> Option<PathBuf> {
        self.fs.anchored(path)
    }
    fn cached(&self, file: Descriptor, offset: u64, len: u64) -> Option<u64> {
        self.fs.cached(file, offset, len)
    }
    fn len(&self, file: Descriptor) -> Result<u64, IoError> {
        self.fs.len(file)
    }
    fn read_at(&self, file: Descriptor, at: u64, into: &mut [u8]) -> Result<usize, IoError> {
        self.fs.read_at(file, at, into)
    }
    fn read_cached(&self, file: Descriptor, at: u64, into: &mut [u8]) -> Option<usize> {
        self.fs.read_cached(file, at, into)
    }
    fn write_at(&self, file: Descriptor, at: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.fs.write_at(file, at, bytes)
    }
    fn sync(&self, file: Descriptor, data_only: bool) -> Result<(), IoError> {
        self.fs.sync(file, data_only)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.fs.rename(from, to)
    }
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        self.fs.replace(path, content)
    }
    fn remove(&self, path: &Path) -> Result<(), IoError> {
        self.fs.remove(path)
    }
}

struct Bed {
    folder: tempfile::TempDir,
    fs: Arc<Hooked>,
    storage: Storage,
    queue: Queue,
}

impl Bed {
    fn new(numbering: Option<Numbering>, descriptors: usize) -> Bed {
        let fs = Arc::new(Hooked {
            numbering,
            ..Hooked::default()
        });
        let make = || -> Result<Box<dyn Device>, IoError> {
            Ok(Box::new(Threads::new(ThreadsOptions::default())?))
        };
        let mut options = crate::support::options(|options| options.descriptors = descriptors);
        options.backend = Backend::Custom(DeviceMaker::new(make), fs.clone());
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let folder = tempfile::tempdir().expect("a folder");
        Bed {
            folder,
            fs,
            storage,
            queue,
        }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        fs::write(self.path(name), content).expect("written");
        self.path(name)
    }
    fn opened(&self, file: FileId) -> u64 {
        let info = self.storage.opened(file).expect("accepted").wait();
        info.expect("open").len
    }
    fn append(&self, file: FileId, bytes: &[u8]) {
        let mut ticket = self
            .queue
            .submit(Write::append(file, bytes.to_vec()))
            .expect("accepted");
        ticket.wait().expect("appended");
    }
    fn whole(&self, file: FileId) -> Vec<u8> {
        let mut ticket = self.queue.submit(Read::whole(file)).expect("accepted");
        let outcome = ticket
            .wait_timeout(Duration::from_secs(10))
            .expect("a ticket");
        let outcome = outcome.unwrap_or_else(|| panic!("it waits for {:?}", ticket.waits_for()));
        outcome.into_result().expect("read").to_vec()
    }
    fn close(&self, file: FileId) {
        self.queue.close(file).expect("open");
        assert!(self.queue.drain(None).expect("drained"));
    }
}

#[test]
fn a_handle_closed_while_it_is_opened_and_another_waits_to_share_it() {
    // Also on ext4, if the open fails.
    let bed = Bed::new(Some(Numbering::Other), 64);
    let path = bed.file("a", b"content");
    bed.fs.opened.shut();
    let first = bed.storage.open(&path, READ);
    bed.fs.opened.holds(1);
    let second = bed.storage.open(&path, READ);
    bed.close(first);
    bed.fs.opened.open();
    assert_eq!(bed.whole(second), b"content");
}

#[test]
fn handles_of_a_missing_file_the_first_of_which_is_closed_at_once() {
    let storage = Storage::new(crate::support::options(|_| {})).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    for round in 0..20_000 {
        let path = format!("/tmp/missing/{round}");
        let first = storage.open(&path, READ);
        for _ in 0..(round % 64) {
            std::hint::spin_loop();
        }
        let second = storage.open(&path, READ);
        queue.close(first).expect("open");
        let mut read = queue.submit(Read::whole(second)).expect("accepted");
        assert!(read.wait().is_err());
        queue.close(second).expect("open");
    }
}

#[test]
fn an_open_for_writing_that_ends_after_an_append_does_not_move_the_end_back() {
    let bed = Bed::new(None, 64);
    let path = bed.file("log", b"0123456789");
    let first = bed.storage.open(&path, WRITE);
    assert_eq!(bed.opened(first), 10);
    bed.fs.opened.shut();
    let second = bed.storage.open(&path, WRITE);
    bed.fs.opened.holds(1);
    bed.append(first, b"-appended-");
    bed.fs.opened.open();
    bed.opened(second);
    bed.append(first, b"MORE");
    let found = fs::read(&path).expect("there");
    assert_eq!(String::from_utf8_lossy(&found), "0123456789-appended-MORE");
}

#[test]
fn appends_to_a_log_that_was_rotated_go_to_their_own_file() {
    // As on overlay, FUSE, NFS.
    let bed = Bed::new(Some(Numbering::Other), 64);
    let path = bed.file("log", b"0123456789");
    let old = bed.storage.open(&path, WRITE);
    bed.opened(old);
    fs::rename(&path, bed.path("log.1")).expect("renamed");
    let new = bed.storage.open(
        &path,
        FileOptions {
            create: true,
            ..WRITE
        },
    );
    bed.opened(new);
    bed.append(old, b"tail");
    bed.append(new, b"head");
    let content = |name: &str| {
        String::from_utf8_lossy(&fs::read(bed.path(name)).expect("there")).into_owned()
    };
    assert_eq!(
        (&*content("log.1"), &*content("log")),
        ("0123456789tail", "head")
    );
}

#[test]
fn a_reader_on_overlay_whose_path_was_replaced_keeps_its_file_when_that_is_opened_for_writing() {
    let bed = Bed::new(Some(Numbering::Layered), 64);
    let path = bed.file("a", b"one one");
    let reader = bed.storage.open(&path, READ);
    assert_eq!(bed.whole(reader), b"one one");
    let new = bed.file("new", b"two two");
    fs::rename(new, &path).expect("renamed");
    let writer = bed.storage.open(&path, WRITE);
    bed.opened(writer);
    assert_eq!(String::from_utf8_lossy(&bed.whole(reader)), "one one");
}

#[test]
fn a_storage_ends_while_closes_to_make_room_wait() {
    leaking(this_test!(), || {
        let bed = Bed::new(None, 128);
        let mut files = Vec::new();
        for number in 0..60 {
            let path = bed.file(&format!("{number}"), b"x");
            files.push(bed.storage.open(&path, READ));
            bed.whole(files[number]);
        }
        bed.fs.known.shut();
        for number in 0..60 {
            let path = bed.file(&format!("more{number}"), b"x");
            let file = bed.storage.open(&path, READ);
            bed.queue.detach(Read::whole(file)).expect("accepted");
        }
        bed.fs.known.holds(1);
        let fs = Arc::clone(&bed.fs);
        drop(bed.queue);
        let report = bed.storage.close(Duration::ZERO);
        assert!(report.operations > 0);
        fs.known.open();
    });
}

#[test]
fn a_storage_that_ends_while_a_close_to_make_room_hangs_closes_each_descriptor_once() {
    leaking(this_test!(), || {
        let bed = Bed::new(None, 4);
        let path = bed.file("direct", &vec![7; 1 << 20]);
        let direct = FileOptions {
            access: Some(Access::Direct),
            ..READ
        };
        let file = bed.storage.open(&path, direct);
        assert_eq!(bed.whole(file).len(), 1 << 20);
        assert_eq!(bed.storage.stats().descriptors, 2);
        bed.fs.keeps.store(true, Ordering::SeqCst);
        bed.fs.known.shut();
        for number in 0..3 {
            let path = bed.file(&format!("{number}"), b"x");
            let file = bed.storage.open(&path, READ);
            bed.queue.detach(Read::whole(file)).expect("accepted");
        }
        bed.fs.known.holds(1);
        let fs = Arc::clone(&bed.fs);
        drop(bed.queue);
        let _ = bed.storage.close(Duration::from_millis(100));
        fs.known.open();
        std::thread::sleep(Duration::from_millis(500));
        let mut closed = fs.closed.lock().unwrap().clone();
        closed.sort_unstable();
        let all = closed.len();
        closed.dedup();
        assert_eq!(
            all,
            closed.len(),
            "a descriptor was closed twice: {closed:?}"
        );
    });
}

#[test]
fn a_sync_of_a_handle_that_another_queue_has_closed_before_it_shares_ends() {
    let bed = Bed::new(None, 64);
    let path = bed.file("a", b"content");
    let owner = bed.storage.open(&path, READ);
    bed.whole(owner);
    bed.fs.looked.shut();
    let shared = bed.storage.open(&path, READ);
    let mut sync = bed.queue.submit(FileOp::sync(shared)).expect("accepted");
    bed.fs.looked.holds(1);
    let other = bed.storage.queue(QueueOptions::default()).expect("a queue");
    other.close(shared).expect("open");
    assert!(other.drain(None).expect("drained"));
    bed.fs.looked.open();
    let ended = sync.wait_timeout(Duration::from_secs(3)).expect("a ticket");
    assert!(ended.is_some(), "it waits for {:?}", sync.waits_for());
}

#[test]
fn a_write_of_a_reader_that_another_queue_has_closed_before_it_shares_fails() {
    let bed = Bed::new(None, 64);
    let path = bed.file("a", b"content");
    let owner = bed.storage.open(&path, READ);
    bed.whole(owner);
    bed.fs.looked.shut();
    let shared = bed.storage.open(&path, READ);
    let mut write = bed
        .queue
        .submit(Write::at(shared, 0, vec![1u8; 10]))
        .expect("accepted");
    bed.fs.looked.holds(1);
    let other = bed.storage.queue(QueueOptions::default()).expect("a queue");
    other.close(shared).expect("open");
    assert!(other.drain(None).expect("drained"));
    bed.fs.looked.open();
    assert!(write.wait().is_err());
}

#[test]
fn the_first_whole_read_of_a_handle_sees_what_another_handle_has_appended() {
    let bed = Bed::new(None, 64);
    let path = bed.file("log", b"0123456789");
    let reader = bed.storage.open(&path, READ);
    assert_eq!(bed.opened(reader), 10);
    let writer = bed.storage.open(&path, WRITE);
    bed.append(writer, b"-appended-");
    assert_eq!(
        String::from_utf8_lossy(&bed.whole(reader)),
        "0123456789-appended-"
    );
}

#[test]
fn two_handles_that_look_in_vain_for_an_owner_that_was_closed() {
    let (sim, files) = Sim::new(SimOptions::default());
    files.add("log", b"one".to_vec(), SimFileOptions::default());
    // Pumped: all that comes before a wait is one round.
    let storage = Storage::new(over_sim(sim, &files, Access::Auto)).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let whole = |file| {
        let mut read = queue.submit(Read::whole(file)).expect("accepted");
        read.wait().expect("read").to_vec()
    };
    let owner = storage.open("log", READ);
    assert_eq!(whole(owner), b"one");
    let more = [0, 1].map(|_| storage.open("log", READ));
    files.add("log", b"two".to_vec(), SimFileOptions::default());
    queue.close(owner).expect("open");
    for file in more {
        assert_eq!(whole(file), b"two");
    }
}

#[test]
fn a_new_handle_tells_the_length_of_its_own_open() {
    let bed = Bed::new(None, 64);
    let path = bed.file("a", b"0123456789");
    let owner = bed.storage.open(&path, READ);
    assert_eq!(bed.opened(owner), 10);
    fs::write(&path, b"0123456789, and more").expect("written");
    let new = bed.storage.open(&path, READ);
    assert_eq!(bed.opened(new), 20);
}

#[test]
fn a_read_of_at_most_so_many_bytes_of_a_file_without_length() {
    let bed = Bed::new(None, 64);
    let file = bed.storage.open("/proc/version", READ);
    assert!(bed.whole(file).len() > 10);
    let mut read = bed
        .queue
        .submit(Read::at_most(file, 0, 10))
        .expect("accepted");
    assert_eq!(read.wait().expect("read").len(), 10);
}

#[test]
fn a_relative_path_in_a_folder_that_is_gone_means_nothing_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    for name in ["gone", "other"] {
        fs::create_dir(place(name)).expect("made");
    }
    fs::write(place("other").join("x"), b"another file").expect("written");
    let options = crate::support::options(|options| options.threads.pumped = true);
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    std::env::set_current_dir(place("gone")).expect("there");
    fs::remove_dir(place("gone")).expect("removed");
    let file = storage.open("x", READ);
    std::env::set_current_dir(place("other")).expect("there");
    let mut read = queue.submit(Read::whole(file)).expect("accepted");
    let outcome = read.wait();
    std::env::set_current_dir("/").expect("there");
    assert!(
        outcome.is_err(),
        "{:?}",
        outcome.map(|bytes| bytes.to_vec())
    );
}

#[test]
fn the_first_append_goes_to_the_end_that_the_file_has_then() {
    let bed = Bed::new(None, 64);
    let path = bed.file("log", b"0123456789");
    let file = bed.storage.open(&path, WRITE);
    assert_eq!(bed.opened(file), 10);
    fs::write(&path, b"0123456789-others-").expect("written");
    bed.append(file, b"own");
    let found = fs::read(&path).expect("there");
    assert_eq!(String::from_utf8_lossy(&found), "0123456789-others-own");
}

struct SimBed {
    files: millstream_io::device::sim::SimFiles,
    storage: Storage,
    queue: Queue,
}

fn sim() -> SimBed {
    let (sim, files) = Sim::new(SimOptions::default());
    files.add("log", b"0123456789".to_vec(), SimFileOptions::default());
    let mut options = over_sim(sim, &files, Access::Auto);
    options.threads.pumped = false;
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    SimBed {
        files,
        storage,
        queue,
    }
}

#[test]
fn a_sync_reports_the_failed_write_of_another_handle_that_was_closed() {
    let bed = sim();
    let (one, other) = (
        bed.storage.open("log", WRITE),
        bed.storage.open("log", WRITE),
    );
    for file in [one, other] {
        bed.storage
            .opened(file)
            .expect("accepted")
            .wait()
            .expect("open");
    }
    bed.files.fail(Path::new("log"), 0..10, Errno::IO, Some(1));
    let mut write = bed
        .queue
        .submit(Write::at(other, 0, vec![1u8; 4]))
        .expect("accepted");
    assert!(write.wait().is_err());
    bed.queue.close(other).expect("open");
    assert!(bed.queue.drain(None).expect("drained"));
    assert!(wait_for(|| bed.storage.stats().descriptors == 1));
    let sync = bed
        .queue
        .submit(FileOp::sync(one))
        .expect("accepted")
        .wait();
    assert!(
        sync.is_err(),
        "a write of the path has failed, and nobody was told"
    );
}

#[test]
fn a_sync_of_a_path_waits_for_writes_of_a_handle_with_a_close_under_way() {
    let bed = sim();
    let paused = bed.storage.queue(QueueOptions::default()).expect("a queue");
    paused.pause();
    let first = bed.storage.open("log", WRITE);
    let mut write = paused
        .submit(Write::at(first, 0, vec![1u8; 4]))
        .expect("accepted");
    paused.close(first).expect("open");
    let second = bed.storage.open("log", WRITE);
    let mut sync = bed.queue.submit(FileOp::sync(second)).expect("accepted");
    let early = sync
        .wait_timeout(Duration::from_millis(500))
        .expect("a ticket");
    paused.resume();
    write.wait().expect("written");
    assert!(early.is_none(), "the sync ended before the write");
}

#[test]
fn syncs_of_two_readers_that_share_both_report_an_error() {
    let bed = sim();
    let one = bed.storage.open("log", READ);
    let mut read = bed.queue.submit(Read::whole(one)).expect("accepted");
    read.wait().expect("read");
    let two = bed.storage.open("log", READ);
    bed.storage
        .opened(two)
        .expect("accepted")
        .wait()
        .expect("open");
    let writer = bed.storage.open("log", WRITE);
    bed.files.fail(Path::new("log"), 0..10, Errno::IO, Some(1));
    let mut write = bed
        .queue
        .submit(Write::at(writer, 0, vec![1u8; 4]))
        .expect("accepted");
    assert!(write.wait().is_err());
    let sync = |file| {
        bed.queue
            .submit(FileOp::sync(file))
            .expect("accepted")
            .wait()
    };
    let results = [one, two].map(|file| sync(file).is_err());
    assert_eq!(results, [true, true]);
}

#[test]
fn an_append_behind_many_canceled_ones_ends() {
    let bed = sim();
    let log = Path::new("log");
    let queue = bed
        .storage
        .queue({
            let mut options = QueueOptions::default();
            options.capacity = 1 << 14;
            options
        })
        .expect("a queue");
    let file = bed.storage.open(log, WRITE);
    bed.storage
        .opened(file)
        .expect("accepted")
        .wait()
        .expect("open");
    bed.files.hang(log, 0..1 << 30, Some(1));
    let append = |len: usize| {
        queue
            .submit(Write::append(file, vec![1u8; len]))
            .expect("accepted")
    };
    let mut all = vec![append(8)];
    assert!(wait_for(|| bed.files.hung_count() == 1));
    // The line is full.
    all.push(append(1 << 20));
    let mut canceled: Vec<_> = (0..4000).map(|_| append(8)).collect();
    all.push(append(8));
    std::thread::sleep(Duration::from_millis(100));
    canceled.iter_mut().for_each(|ticket| ticket.cancel());
    for ticket in &mut canceled {
        assert!(ticket.wait().is_err());
    }
    bed.files.release_hung();
    for (number, ticket) in all.iter_mut().enumerate() {
        let ended = ticket
            .wait_timeout(Duration::from_secs(3))
            .expect("a ticket");
        assert!(
            ended.is_some(),
            "{number} waits for {:?}",
            ticket.waits_for()
        );
    }
}

#[test]
fn an_append_follows_a_write_that_landed_where_an_append_failed() {
    for seed in 0..40 {
        let (sim, files) = Sim::new(SimOptions {
            seed,
            latency_min_ns: 1000,
            latency_max_ns: 1_000_000,
            reorder: true,
            ..SimOptions::default()
        });
        let log = Path::new("log");
        files.add("log", b"0123456789".to_vec(), SimFileOptions::default());
        let storage = Storage::new(over_sim(sim, &files, Access::Auto)).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let file = storage.open("log", WRITE);
        storage
            .opened(file)
            .expect("accepted")
            .wait()
            .expect("open");
        files.fail(log, 100..101, Errno::IO, Some(1));
        let mut batch = queue.batch();
        let mut append = batch
            .add(Write::append(file, vec![b'A'; 200]))
            .expect("accepted");
        let mut write = batch
            .add(Write::at(file, 10, vec![b'W'; 50]))
            .expect("accepted");
        batch.submit();
        write.wait().expect("written");
        assert!(append.wait().is_err());
        let mut next = queue
            .submit(Write::append(file, vec![b'N'; 5]))
            .expect("accepted");
        next.wait().expect("appended");
        let found = files.content(log).expect("there");
        let text = String::from_utf8_lossy(&found).into_owned();
        assert!(
            !text.contains("NW"),
            "{seed}: it has overwritten a write: {text}"
        );
    }
}

#[test]
fn an_append_follows_a_write_that_was_canceled_too_late() {
    let bed = sim();
    let log = Path::new("log");
    let file = bed.storage.open(log, WRITE);
    bed.storage
        .opened(file)
        .expect("accepted")
        .wait()
        .expect("open");
    bed.files.hang(log, 0..100, Some(1));
    let mut write = bed
        .queue
        .submit(Write::at(file, 10, vec![b'W'; 50]))
        .expect("accepted");
    assert!(wait_for(|| bed.files.hung_count() == 1));
    write.cancel();
    bed.files.release_hung();
    assert!(write.wait().is_err());
    let mut next = bed
        .queue
        .submit(Write::append(file, vec![b'N'; 5]))
        .expect("accepted");
    next.wait().expect("appended");
    let found = bed.files.content(log).expect("there");
    let text = String::from_utf8_lossy(&found).into_owned();
    assert!(text.ends_with("NNNNN"), "not at the end: {text}");
}

#[test]
fn appends_in_line_wait_while_their_queue_is_paused() {
    let bed = sim();
    let log = Path::new("log");
    let other = bed.storage.queue(QueueOptions::default()).expect("a queue");
    let file = bed.storage.open(log, WRITE);
    bed.storage
        .opened(file)
        .expect("accepted")
        .wait()
        .expect("open");
    bed.files.hang(log, 0..1000, Some(1));
    let mut first = bed
        .queue
        .submit(Write::append(file, vec![b'A'; 5]))
        .expect("accepted");
    assert!(wait_for(|| bed.files.hung_count() == 1));
    let mut lined: Vec<_> = (0..100)
        .map(|_| {
            other
                .submit(Write::append(file, vec![b'B'; 5]))
                .expect("accepted")
        })
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    other.pause();
    std::thread::sleep(Duration::from_millis(100));
    bed.files.release_hung();
    first.wait().expect("appended");
    std::thread::sleep(Duration::from_millis(300));
    let found = bed.files.content(log).expect("there").len();
    other.resume();
    for ticket in &mut lined {
        ticket.wait().expect("appended");
    }
    assert_eq!(found, 15, "appends of a paused queue were written");
}

#[test]
fn a_fast_log_is_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = Storage::new(crate::support::options(|_| {})).expect("a storage");
    let mut options = QueueOptions::default();
    options.capacity = 1 << 16;
    let queue = storage.queue(options).expect("a queue");
    let path = folder.path().join("log");
    let file = storage.open(
        &path,
        FileOptions {
            create: true,
            ..WRITE
        },
    );
    let mut random = fastrand::Rng::with_seed(3);
    let count = 100_000u32;
    for number in 0..count {
        let len = random.usize(8..800);
        let mut record = number.to_le_bytes().to_vec();
        record.extend((len as u32).to_le_bytes());
        record.resize(len, 0);
        queue.detach(Write::append(file, record)).expect("accepted");
    }
    assert!(queue.drain(None).expect("drained"));
    let bytes = fs::read(&path).expect("there");
    let (mut rest, mut next, mut misplaced) = (&bytes[..], 0, 0);
    let mut first = None;
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four"));
        let (own, len) = (number(0), number(4) as usize);
        if own != next {
            misplaced += 1;
            first = first.or(Some((next, own)));
        }
        next = own + 1;
        rest = &rest[len..];
    }
    assert_eq!(
        (misplaced, first),
        (0, None),
        "records out of order (expected, found)"
    );
}
