//! One call that loads a file, or reads a range, and waits.

use std::time::Duration;

use millstream::limits::{LOAD_BYTES_MAX, LOAD_CACHED_BYTES_MAX, LOCAL_FILES_MAX};
use millstream::{Access, Error, ErrorKind, FileId, FileOptions};
use millstream_io::MountKind;

use crate::support::{Bench, bytes, each_backend_and_pumped, each_backend_with, options};

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

/// Reads a range until a read of it is none of the storage's, which the third may be.
fn is_read_by_its_caller(bench: &Bench, file: FileId, content: &[u8]) -> bool {
    let range = 10..4000;
    (0..4).any(|_| {
        let before = bench.storage.stats().done;
        let read = bench.storage.read(file, range.clone()).expect("read");
        assert!(read[..] == content[10..4000]);
        let after = bench.storage.stats().done;
        after == before
    })
}

#[test]
fn a_file_that_is_read_again_is_read_by_its_caller() {
    each_backend_and_pumped(|bench| {
        let content = bytes(9000);
        let file = bench.file_of("file", &content);
        let is_stable = is_read_by_its_caller(bench, file, &content);
        let longer = bench.storage.read(file, 0..9001);
        assert_eq!(kind(longer), Some(ErrorKind::PastEnd));
        // A new file of its path is another one, which the handle does not mean.
        let path = bench.folder.path().join("file");
        std::fs::rename(&path, path.with_extension("old")).expect("renamed");
        std::fs::write(&path, bytes(1)).expect("written");
        assert_eq!(is_read_by_its_caller(bench, file, &content), is_stable);
        let again = bench.storage.open(&path, FileOptions::default());
        let read = || bench.storage.read(again, 0..1).expect("read");
        assert!((0..4).all(|_| read()[..] == bytes(1)));
        let queue = bench.queue();
        queue.close(file).expect("it is open");
        assert!(queue.drain(None).expect("it may block"));
        assert_eq!(
            kind(bench.storage.read(file, 0..1)),
            Some(ErrorKind::StaleFile)
        );
    });
}

#[test]
fn a_handle_whose_path_leads_elsewhere_is_read_by_the_storage() {
    each_backend_and_pumped(|bench| {
        let content = bytes(9000);
        let file = bench.file_of("file", &content);
        bench.storage.read(file, 0..1).expect("it is open now");
        let path = bench.folder.path().join("file");
        std::fs::rename(&path, path.with_extension("old")).expect("renamed");
        std::fs::write(&path, bytes(9000)).expect("written");
        assert!(!is_read_by_its_caller(bench, file, &content));
    });
}

#[test]
fn only_so_many_files_are_read_by_their_callers_until_some_are_closed() {
    each_backend_and_pumped(|bench| {
        let content = bytes(5000);
        let open = |nth: usize| bench.file_of(&format!("file {nth}"), &content);
        let files: Vec<FileId> = (0..LOCAL_FILES_MAX + 4).map(open).collect();
        let by_callers = |files: &[FileId]| {
            let files = files.iter();
            files
                .filter(|file| is_read_by_its_caller(bench, **file, &content))
                .count()
        };
        let count = by_callers(&files);
        // None, where numbers do not name files for certain.
        assert!([0, LOCAL_FILES_MAX].contains(&count), "{count}");
        let queue = bench.queue();
        queue.close(files[0]).expect("it is open");
        assert!(queue.drain(None).expect("it may block"));
        assert_eq!(by_callers(&files[1..]), count, "another takes its place");
    });
}

// Of NTFS the number of a file alone is compared, which no later file has; files of Wine have those
// of Linux.
#[cfg(target_os = "linux")]
#[test]
fn a_later_file_of_the_same_number_and_time_is_another() {
    let few = || options(|options| options.descriptors = 40);
    each_backend_with(few, |bench| {
        let content = bytes(5000);
        let file = bench.file_of("file", &content);
        bench.storage.read(file, 0..10).expect("it is open now");
        for nth in 0..200 {
            let other = bench.file_of(&format!("other {nth}"), b"other");
            bench.storage.read(other, 0..5).expect("read");
        }
        let path = bench.folder.path().join("file");
        let about = std::fs::metadata(&path).expect("it is there");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, vec![0xEE; 5000]).expect("written");
        let new = std::fs::File::options().write(true).open(&path);
        let modified = about.modified().expect("it has a time");
        new.and_then(|new| new.set_modified(modified)).expect("set");
        for _ in 0..4 {
            match bench.storage.read(file, 0..10) {
                Ok(read) => assert!(read[..] == content[..10], "the bytes of a later file"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::StaleFile, "{error}"),
            }
        }
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
