//! Opening and closing beside the engine: an id is good from the moment `open` gives it.

use millstream::{Backend, FileId, Queue, QueueOptions, Request, Storage, StorageOptions};

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
