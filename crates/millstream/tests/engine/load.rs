//! One call that loads a file, or reads a range, and waits.

use std::time::Duration;

use millstream::limits::{LOAD_BYTES_MAX, LOAD_CACHED_BYTES_MAX};
use millstream::{Access, Error, ErrorKind, FileOptions};

use crate::support::{bytes, each_backend_and_pumped, each_backend_with, options};

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.map_err(|error| error.kind()).err()
}

#[test]
fn a_file_of_any_size_is_loaded_whole() {
    each_backend_and_pumped(|bench| {
        let limits = [LOAD_BYTES_MAX, LOAD_CACHED_BYTES_MAX];
        for len in [
            0,
            1,
            limits[0],
            limits[0] + 1,
            limits[1],
            limits[1] + 1,
            5_000_001,
        ] {
            let path = bench.folder.path().join(format!("{len}"));
            let content = bytes(len as usize);
            std::fs::write(&path, &content).expect("written");
            let loaded = bench.storage.load(&path).expect("loaded");
            assert!(loaded[..] == content, "{len} bytes");
        }
        let stats = bench.storage.stats();
        assert!(stats.done >= 2, "by the storage");
        assert!(stats.done < 5, "by the caller itself");
    });
}

#[test]
fn direct_io_that_was_asked_for_is_done_by_the_storage() {
    let direct = || options(|options| options.access = Access::Direct);
    each_backend_with(direct, |bench| {
        let path = bench.folder.path().join("file");
        std::fs::write(&path, bytes(4096)).expect("written");
        match bench.storage.load(&path) {
            Ok(loaded) => assert!(loaded[..] == bytes(4096)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}"),
        }
    });
}

#[test]
fn a_range_of_an_open_file_is_read() {
    each_backend_and_pumped(|bench| {
        let content = bytes(100_000);
        let file = bench.file_of("file", &content);
        let read = bench.storage.read(file, 7..90_000).expect("read");
        assert!(read[..] == content[7..90_000]);
        assert_eq!(bench.storage.read(file, 5..5).expect("read").len(), 0);
        let past = bench.storage.read(file, 99_999..100_001);
        assert_eq!(kind(past), Some(ErrorKind::PastEnd));
    });
}

#[test]
fn what_cannot_be_loaded_is_an_error_that_names_it() {
    each_backend_and_pumped(|bench| {
        let storage = &bench.storage;
        let missing = bench.folder.path().join("missing");
        let error = storage.load(&missing).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("missing"), "{error}");
        let folder = storage.load(bench.folder.path());
        assert_eq!(kind(folder), Some(ErrorKind::IsDirectory));
        std::fs::write(&missing, b"bytes").expect("written");
        let file = storage.open(&missing, FileOptions::default());
        storage.close(Duration::from_secs(5));
        assert_eq!(kind(storage.load(&missing)), Some(ErrorKind::Closed));
        assert_eq!(kind(storage.read(file, 0..1)), Some(ErrorKind::Closed));
    });
}
