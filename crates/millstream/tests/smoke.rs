//! First steps, over every backend: real files, real kernels.

use millstream::{Backend, QueueOptions, Request, Storage, StorageOptions};

fn backends() -> Vec<Backend> {
    vec![Backend::Auto, Backend::Threads]
}

#[test]
fn a_file_is_read_whole_and_in_parts() {
    for backend in backends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i * 7 % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("written");
        let storage = Storage::new(StorageOptions {
            backend,
            ..Default::default()
        })
        .expect("a storage");
        eprintln!("{:?} {}", storage.device_kind(), storage.device_reason());
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let file = storage.open(&path);
        let whole = queue.enqueue(Request::read_file(file)).expect("enqueued");
        let part = queue
            .enqueue(Request::read(file, 1234, 777))
            .expect("enqueued");
        let tail = queue
            .enqueue(Request::read(file, 3_000_000, 1))
            .expect("enqueued");
        let past = queue
            .enqueue(Request::read(file, 3_000_000, 2))
            .expect("enqueued");
        queue.submit();
        assert!(*whole.wait().expect("read").into_buffer() == bytes[..]);
        assert!(*part.wait().expect("read").into_buffer() == bytes[1234..1234 + 777]);
        assert!(*tail.wait().expect("read").into_buffer() == bytes[3_000_000..]);
        let error = past.wait().expect_err("past the end");
        assert_eq!(error.error.kind(), millstream::ErrorKind::PastEnd);
        let missing = storage.open(folder.path().join("none"));
        let ticket = queue
            .enqueue(Request::read_file(missing))
            .expect("enqueued");
        eprintln!("{}", ticket.wait().expect_err("missing"));
        let report = storage.close(std::time::Duration::from_secs(5));
        assert_eq!(report, Default::default());
    }
}
