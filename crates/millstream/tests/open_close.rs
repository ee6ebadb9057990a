//! Opening and closing beside the engine: an id is good from the moment `open` gives it.

use millstream::{
    Backend, ErrorKind, FileId, Landed, Landing, Queue, QueueOptions, Request, Storage,
    StorageOptions,
};

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
