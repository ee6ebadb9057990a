//! One call that loads a file, or reads a range, and waits.

use std::time::Duration;

use millstream::limits::{LOAD_BYTES_MAX, LOAD_CACHED_BYTES_MAX};
use millstream::{Access, Error, ErrorKind, FileOptions};
use millstream_io::MountKind;

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
        // The caller reads small files on local disks itself.
        let path = bench.folder.path().join("1");
        let local = bench.storage.open_local(path, FileOptions::default());
        let is_local = local.expect("open").opened().mount_kind == MountKind::Local;
        let done = bench.storage.stats().done;
        assert!(
            done >= 3 && (done < 6 || !is_local),
            "{done} by the storage"
        );
    });
}

#[test]
fn direct_io_that_was_asked_for_is_done_by_the_storage() {
    let direct = || options(|options| options.access = Access::Direct);
    each_backend_with(direct, |bench| {
        let path = bench.folder.path().join("file");
        std::fs::write(&path, bytes(4096)).expect("written");
        match bench.storage.load(&path) {
            Ok(loaded) => {
                assert!(loaded[..] == bytes(4096));
                assert_eq!(bench.storage.stats().done, 1);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoDirectIo, "{error}"),
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
        #[expect(clippy::reversed_empty_ranges, reason = "it is what must be refused")]
        let reversed = bench.storage.read(file, 9..3);
        assert_eq!(kind(reversed), Some(ErrorKind::InvalidArgument));
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

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_reports_no_length_is_loaded_to_its_end() {
    each_backend_and_pumped(|bench| {
        let content = std::fs::read("/proc/version").expect("it is there");
        let loaded = bench.storage.load("/proc/version").expect("loaded");
        assert!(loaded[..] == content);
    });
}
