//! Opening and closing beside the engine: an id is good from the moment `open` gives it.

mod support;

use std::sync::Arc;

use millstream::options::DeviceMaker;
use millstream::{
    Backend, ErrorKind, Fence, FileId, FileOptions, Gate, Landed, Landing, Queue, QueueOptions,
    Request, Storage, StorageOptions,
};
use millstream_io::device::sim::{Sim, SimFileOptions, SimOptions};
use millstream_io::{Device, IoError};
use support::each_backend;

fn read_and_close(queue: &Queue, file: FileId) -> millstream::Ticket {
    let ticket = queue
        .enqueue(Request::read_file(file))
        .expect("there is room");
    queue.enqueue_close(file);
    queue.submit();
    ticket
}

/// The request may reach the engine by way of a queue that it is just taking, before the mail that
/// tells of the file.
#[test]
fn a_file_opened_while_the_engine_takes_its_queue_is_known_to_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths: Vec<_> = (0..64)
        .map(|index| folder.path().join(format!("{index}")))
        .collect();
    for path in &paths {
        std::fs::write(path, path.as_os_str().as_encoded_bytes()).expect("a file");
    }
    for backend in [Backend::Threads, Backend::Auto] {
        let options = StorageOptions {
            backend,
            ..StorageOptions::default()
        };
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        for _ in 0..100 {
            // Submitted one by one, so that the engine is always in the middle of taking some.
            let tickets: Vec<_> = paths
                .iter()
                .map(|path| read_and_close(&queue, storage.open(path)))
                .collect();
            for (path, ticket) in paths.iter().zip(tickets) {
                let bytes = ticket.wait().expect("the file is there").into_buffer();
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
    let open = |storage: &Storage, name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, &content).expect("a file");
        storage.open(path)
    };
    let mut options = StorageOptions::default();
    options.threads.pumped = true;
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let file = |name| open(&storage, name);
    let whole = content.len();
    let buffer = storage.buffer(whole + 5).expect("memory");
    let memory: Box<dyn Landing> = Box::new(vec![0u8; whole]);
    let short: Box<dyn Landing> = Box::new(vec![0u8; whole - 1]);
    let requests = [
        (Request::read_file(file("library")), 0..whole),
        (Request::read(file("range"), 777, 9_000), 777..9_777),
        (
            Request::read_file(file("buffer")).into_buffer(buffer),
            0..whole,
        ),
        (
            Request::read_file(file("landing")).into_landing(memory),
            0..whole,
        ),
    ];
    let read = requests.map(|(request, range)| (queue.enqueue(request).expect("taken"), range));
    // What cannot be served so goes the usual way, and fails there.
    let failing = [
        Request::read_file(file("too small")).into_landing(short),
        Request::read_file(file("declared")).raw_len(3),
        Request::read(file("past the end"), 1, whole as u64),
    ];
    let failing = failing.map(|request| queue.enqueue(request).expect("taken"));
    queue.submit();
    for (ticket, range) in read {
        let done = ticket.wait().expect("read");
        assert_eq!(done.bytes as usize, range.len());
        match done.landed {
            Landed::Buffer(buffer) => assert!(buffer[..] == content[range]),
            Landed::Landing(memory) => {
                let memory: Box<dyn std::any::Any> = memory;
                assert!(*memory.downcast::<Vec<u8>>().expect("the vector") == content[range]);
            }
            other => panic!("{other:?}"),
        }
    }
    let kinds = failing.map(|ticket| ticket.wait().expect_err("wrong").error.kind());
    assert_eq!(
        kinds,
        [
            ErrorKind::DestinationTooSmall,
            ErrorKind::RawSize,
            ErrorKind::PastEnd
        ]
    );
    let with_open = storage.stats().read_with_open;
    if with_open == 0 {
        println!("SKIP: this file system reads nothing without waiting");
    } else {
        assert_eq!(with_open, 4);
    }
}

/// The queue that closes a file knows nothing of requests that are out on another: they come, and
/// what waits for a gate meanwhile too.
#[test]
fn requests_of_one_queue_outlive_a_close_by_another() {
    for kind in [Gate::Source, Gate::Destination] {
        closed_by_another_queue(kind);
    }
}

fn closed_by_another_queue(kind: Gate) {
    let (sim, files) = Sim::new(SimOptions::default());
    let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    files.add("f", content.clone(), SimFileOptions::default());
    let file_system = Arc::new(files.clone());
    let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(sim)) };
    let mut options = StorageOptions {
        backend: Backend::Custom(DeviceMaker::new(make), file_system),
        ..StorageOptions::default()
    };
    options.threads.pumped = true;
    let storage = Storage::new(options).expect("a storage");
    let queue = || storage.queue(QueueOptions::default()).expect("a queue");
    let (reads, closes) = (queue(), queue());
    let gate = Fence::new(0);
    let file = storage.open("f");
    storage.opened(file).wait().expect("it is there");
    let read = |offset| Request::read(file, offset, 50_000);
    let begun = reads.enqueue(read(0)).expect("taken");
    let gated = reads.enqueue(read(200_000).gate(kind, &gate, 1));
    let gated = gated.expect("taken");
    reads.submit();
    storage.pump();
    assert!(!begun.is_ended(), "its operations are out");
    closes.enqueue_close(file);
    closes.submit();
    storage.pump();
    let bytes = begun.wait().expect("read").into_buffer();
    assert_eq!(&*bytes, &content[..50_000]);
    let late = reads.enqueue(read(0)).expect("taken");
    let late = late.wait().expect_err("closed").error.kind();
    assert_eq!(late, ErrorKind::StaleFile);
    // Its number may be another file's now, but the request still means the first.
    let other = storage.open("none");
    storage.opened(other).wait().expect_err("there is none");
    gate.signal(1);
    let bytes = gated.wait().expect("read").into_buffer();
    assert_eq!(&*bytes, &content[200_000..250_000]);
    while files.open_count() > 0 {
        storage.pump();
    }
}

/// A write that never began counts for no sync.
#[test]
fn a_write_cancelled_before_it_is_submitted_holds_up_no_sync_and_no_close() {
    each_backend(|bench| {
        let (storage, queue) = (&bench.storage, bench.queue());
        let path = bench.folder.path().join("written");
        let options = FileOptions {
            write: true,
            create: true,
            ..FileOptions::default()
        };
        let file = storage.open_with(path, options);
        let write = || {
            let bytes: Box<dyn Landing> = Box::new(vec![7; 5_000]);
            let request = Request::write_from(file, 0, bytes);
            queue.enqueue(request).expect("taken")
        };
        let never = write();
        never.cancel();
        let written = write();
        let synced = queue.enqueue(Request::sync(file)).expect("taken");
        queue.enqueue_close(file);
        queue.submit();
        let kind = never.wait().expect_err("cancelled").error.kind();
        assert_eq!(kind, ErrorKind::Cancelled);
        written.wait().expect("written");
        synced.wait().expect("synced");
    });
}
