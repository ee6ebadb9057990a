//! Opening and closing beside the engine: an id is good from the moment `open` returns it.

use std::path::Path;
use std::time::Duration;

use crate::support::{bytes, each_backend, each_backend_with, options, over_sim};
use millstream::{
    Access, Backend, Buffer, CodecId, Decode, Error, ErrorKind, Fence, FileId, FileOp, FileOptions,
    Queue, QueueOptions, Read, Storage, Ticket, Write,
};
use millstream_sim::{Sim, SimFileOptions, SimOptions};
use millstream_testing::wait_for;

fn open(storage: &Storage, path: impl AsRef<Path>) -> FileId {
    storage.open(path, FileOptions::default())
}

fn queue_of(storage: &Storage) -> Queue {
    storage.queue(QueueOptions::default()).expect("a queue")
}

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.map_err(|error| error.kind()).err()
}

fn read_and_close(queue: &Queue, file: FileId) -> Ticket<Buffer> {
    let mut batch = queue.batch();
    let ticket = batch.add(Read::whole(file)).expect("room");
    batch.close(file).expect("room");
    ticket
}

#[test]
fn a_file_is_closed_without_waiting_also_when_the_queue_is_full() {
    each_backend(|bench| {
        let path = bench.folder.path().join("file");
        std::fs::write(&path, b"bytes").expect("written");
        let mut options = QueueOptions::default();
        options.capacity = 1;
        let queue = bench.storage.queue(options).expect("a queue");
        queue.pause();
        // The read has the only room and cannot complete.
        let mut ticket = read_and_close(&queue, open(&bench.storage, &path));
        queue.resume();
        assert_eq!(&*ticket.wait().expect("read"), b"bytes");
    });
}

/// The request may reach the engine by way of a queue that it is just taking in, before the mail
/// that names the file.
#[test]
fn a_file_opened_while_the_engine_takes_its_queue_in_is_known_to_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths: Vec<_> = (0..64)
        .map(|index| folder.path().join(format!("{index}")))
        .collect();
    for path in &paths {
        std::fs::write(path, path.as_os_str().as_encoded_bytes()).expect("a file");
    }
    for backend in [Backend::Threads, Backend::Auto] {
        let storage = Storage::new(options(|o| o.backend = backend)).expect("a storage");
        let queue = queue_of(&storage);
        for _ in 0..100 {
            // Submitted one by one, so that the engine is always in the middle of taking some in.
            let tickets: Vec<_> = paths
                .iter()
                .map(|path| read_and_close(&queue, open(&storage, path)))
                .collect();
            for (path, mut ticket) in paths.iter().zip(tickets) {
                let bytes = ticket.wait().expect("the file is there");
                assert_eq!(&*bytes, path.as_os_str().as_encoded_bytes());
            }
        }
    }
}

/// Freshly written files are cached. Pumped, so that the requests are there before the opens begin.
#[test]
fn a_cached_file_is_read_with_its_open_into_every_kind_of_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let content: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
    let storage = Storage::new(options(|o| o.threads.pumped = true)).expect("a storage");
    let queue = queue_of(&storage);
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, &content).expect("a file");
        open(&storage, path)
    };
    let len = content.len();
    let buffer = storage.buffer(len + 5).expect("memory");
    let mut batch = queue.batch();
    let mut library = batch.add(Read::whole(file("library"))).expect("room");
    let range = Read::range(file("range"), 777, 9_000);
    let mut range = batch.add(range).expect("room");
    let own = Read::whole(file("buffer")).into(buffer);
    let mut own = batch.add(own).expect("room");
    let vector = Read::whole(file("vector")).into(vec![0u8; len]);
    let mut vector = batch.add(vector).expect("room");
    // What cannot be served so takes the ordinary route, and fails there.
    let small = Read::whole(file("too small")).into(vec![0u8; len - 1]);
    let mut small = batch.add(small).expect("room");
    let declared = Decode::codec(CodecId::STORED).raw_len(3);
    let declared = Read::whole(file("declared")).decode(declared);
    let mut declared = batch.add(declared).expect("room");
    let past = Read::range(file("past the end"), 1, len as u64);
    let mut past = batch.add(past).expect("room");
    batch.submit();
    assert!(library.wait().expect("read")[..] == content);
    assert!(range.wait().expect("read")[..] == content[777..9_777]);
    assert!(own.wait().expect("read")[..] == content);
    assert!(vector.wait().expect("read") == content);
    assert_eq!(kind(small.wait()), Some(ErrorKind::DestinationTooSmall));
    assert_eq!(kind(declared.wait()), Some(ErrorKind::RawSize));
    assert_eq!(kind(past.wait()), Some(ErrorKind::PastEnd));
    match storage.stats().read_with_open {
        0 => println!("SKIP: this file system reads nothing without waiting"),
        with_open => assert_eq!(with_open, 4),
    }
}

/// Where more files are read than may be open, each is closed by the thread that opened and read
/// it, and opened again when it is needed again.
#[test]
fn more_small_files_than_descriptors_are_read_and_read_again() {
    let few = || options(|options| options.descriptors = 16);
    each_backend_with(few, |bench| {
        let content = |nth: usize| bytes(100 + nth);
        let files = (0..100).map(|nth| bench.file_of(&format!("file {nth}"), &content(nth)));
        let files: Vec<FileId> = files.collect();
        let queue = bench.queue();
        let read_all = || {
            let mut batch = queue.batch();
            let add = |file: &FileId| batch.add(Read::whole(*file)).expect("room");
            let tickets: Vec<_> = files.iter().map(add).collect();
            batch.submit();
            for (nth, mut ticket) in tickets.into_iter().enumerate() {
                assert!(ticket.wait().expect("read")[..] == content(nth));
            }
        };
        read_all();
        read_all();
        let stats = bench.storage.stats();
        assert!(stats.descriptors <= 16, "{stats:?}");
        assert_eq!((stats.close_errors, stats.done), (0, 200));
        // A handle means its file, and says so if it cannot be had any more.
        let path = |nth: usize| bench.folder.path().join(format!("file {nth}"));
        for nth in 0..20 {
            std::fs::rename(path(nth + 20), path(nth)).expect("renamed");
        }
        for (nth, file) in files[..20].iter().enumerate() {
            let read = queue
                .submit(Read::whole(*file))
                .and_then(|mut it| it.wait());
            match read {
                Ok(read) => assert!(read[..] == content(nth)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::StaleFile),
            }
        }
    });
}

/// The queue that closes a file knows nothing of requests in flight on another: they complete, and
/// so does what is held back by a fence meanwhile.
#[test]
fn requests_of_one_queue_outlive_a_close_by_another() {
    for write_only in [false, true] {
        closed_by_another_queue(write_only);
    }
}

fn closed_by_another_queue(write_only: bool) {
    let (sim, files) = Sim::new(SimOptions::default());
    let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    files.add("f", content.clone(), SimFileOptions::default());
    let mut options = over_sim(sim, &files, Access::Auto);
    options.merge = true;
    let storage = Storage::new(options).expect("a storage");
    let (reads, closes) = (queue_of(&storage), queue_of(&storage));
    let gate = Fence::new(0);
    let file = open(&storage, "f");
    storage.opened(file).expect("room").wait().expect("open");
    let read = |offset| Read::range(file, offset, 50_000);
    let gated = match write_only {
        true => read(200_000).write_after(&gate, 1),
        false => read(200_000).after(&gate, 1),
    };
    let mut batch = reads.batch();
    let mut begun = batch.add(read(0)).expect("room");
    let mut gated = batch.add(gated).expect("room");
    batch.submit();
    storage.pump();
    assert!(!begun.is_complete(), "its operations are in flight");
    closes.batch().close(file).expect("room");
    storage.pump();
    assert_eq!(&*begun.wait().expect("read"), &content[..50_000]);
    let late = reads.submit(read(0)).expect("room").wait();
    assert_eq!(kind(late), Some(ErrorKind::StaleFile));
    // Its index may be another file's now, but the request still means the first.
    let other = storage.opened(open(&storage, "none")).expect("room").wait();
    assert_eq!(kind(other), Some(ErrorKind::NotFound));
    gate.signal(1);
    let bytes = gated.wait().expect("read");
    assert_eq!(&*bytes, &content[200_000..250_000]);
    while files.open_count() > 0 {
        storage.pump();
    }
}

/// A write that never began counts for no sync.
#[test]
fn a_write_canceled_before_it_is_submitted_holds_up_no_sync_and_no_close() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.open_for_writing("written");
        let write = || Write::at(file, 0, vec![7u8; 5_000]);
        let mut batch = queue.batch();
        let mut never = batch.add(write()).expect("room");
        never.cancel();
        let mut written = batch.add(write()).expect("room");
        let mut synced = batch.add(FileOp::sync(file)).expect("room");
        batch.close(file).expect("room");
        batch.submit();
        assert_eq!(kind(never.wait()), Some(ErrorKind::Canceled));
        written.wait().expect("written");
        synced.wait().expect("synced");
    });
}

#[test]
fn files_that_are_opened_while_the_storage_closes_are_closed() {
    for _ in 0..50 {
        let (sim, files) = Sim::new(SimOptions::default());
        let mut options = over_sim(sim, &files, Access::Auto);
        options.threads.pumped = false;
        let storage = Storage::new(options).expect("a storage");
        for index in 0..64 {
            let path = index.to_string();
            files.add(&path, vec![1; 10], SimFileOptions::default());
            open(&storage, path);
        }
        storage.close(Duration::ZERO);
        // A thread that is late closes what it opens.
        let are_closed = wait_for(|| files.open_count() == 0);
        assert!(are_closed, "{} leaked", files.open_count());
    }
}

fn changing(change: usize) -> FileOptions {
    FileOptions {
        write: true,
        create: change == 0 || change == 1,
        exclusive: change == 1,
        truncate: change == 2,
        ..FileOptions::default()
    }
}

#[test]
fn each_open_that_creates_or_truncates_a_file_does_so() {
    each_backend(|bench| {
        let path = |name: &str| bench.folder.path().join(name);
        let storage = &bench.storage;
        let opened = |file| storage.opened(file).expect("accepted").wait();
        // Of two exclusive opens one fails, whichever comes second.
        let locks = [(); 2].map(|()| storage.open(path("lock"), changing(1)));
        let locked = locks.map(|lock| opened(lock).is_ok());
        assert_eq!(locked.iter().filter(|locked| **locked).count(), 1);
        // The second truncation removes what the first id wrote.
        std::fs::write(path("file"), b"before").expect("written");
        let first = storage.open(path("file"), changing(2));
        let queue = queue_of(storage);
        let mut write = queue
            .submit(Write::at(first, 0, vec![1u8; 100]))
            .expect("accepted");
        write.wait().expect("written");
        assert!(opened(storage.open(path("file"), changing(2))).is_ok());
        assert_eq!(std::fs::read(path("file")).expect("there"), b"");
    });
}

#[test]
fn a_file_that_is_closed_at_once_was_created_or_truncated() {
    each_backend(|bench| {
        let queue = queue_of(&bench.storage);
        let paths: Vec<_> = (0..200)
            .map(|index| bench.folder.path().join(format!("touched{index}")))
            .collect();
        for path in &paths {
            std::fs::write(path.with_extension("old"), b"old").expect("written");
            let created = bench.storage.open(path, changing(0));
            queue.close(created).expect("closed");
            let truncated = bench.storage.open(path.with_extension("old"), changing(2));
            queue.close(truncated).expect("closed");
        }
        let is_empty = |path: &Path| std::fs::metadata(path).is_ok_and(|about| about.len() == 0);
        for path in &paths {
            assert!(wait_for(|| is_empty(path)), "{path:?}");
            assert!(
                wait_for(|| is_empty(&path.with_extension("old"))),
                "{path:?}"
            );
        }
    });
}

#[test]
fn a_path_that_could_not_be_opened_is_tried_again_by_the_next_open() {
    each_backend(|bench| {
        let path = bench.folder.path().join("late");
        let queue = queue_of(&bench.storage);
        let read = |file| queue.submit(Read::whole(file)).expect("accepted").wait();
        let early = open(&bench.storage, &path);
        assert_eq!(kind(read(early)), Some(ErrorKind::NotFound));
        std::fs::write(&path, b"here").expect("written");
        let late = open(&bench.storage, &path);
        assert_eq!(&*read(late).expect("read"), b"here");
        assert_eq!(kind(read(early)), Some(ErrorKind::NotFound));
    });
}
