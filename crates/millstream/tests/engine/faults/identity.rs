//! Files that were closed to make room for others, and whose names mean other files by now: no byte
//! is ever read from or written to the wrong one.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use millstream::{Error, ErrorKind, FileId, FileOptions, LocalFile, Read, Write};
use millstream_io::fs::OsFileSystem;
use millstream_io::{FileSystem, OpenMode};
use millstream_testing::{FaultFs, or_skip, this_test};

use crate::faults::rig::{Rig, WRITING, each, landed, result};

const LEN: usize = 4096;

/// Reads other files, so that the storage closes those that it has open.
fn evict(rig: &Rig, folder: &Path) {
    for index in 0..4 {
        let path = folder.join(format!("evicting{index}"));
        std::fs::write(&path, [b'E'; LEN]).expect("written");
        let file = rig.storage.open(&path, FileOptions::default());
        assert!(landed(rig.submit(Read::whole(file)))[..] == [b'E'; LEN]);
    }
}

/// Makes `path` mean another file, as the save of an editor does. The first file stays, under the
/// name that is returned.
fn replace(path: &Path) -> std::path::PathBuf {
    let kept = path.with_extension("kept");
    std::fs::hard_link(path, &kept).expect("linked");
    let other = path.with_extension("other");
    std::fs::write(&other, [b'O'; LEN]).expect("written");
    std::fs::rename(&other, path).expect("renamed");
    kept
}

fn write(rig: &Rig, file: FileId, text: &[u8; 4]) -> Result<Vec<u8>, Error> {
    result(rig.submit(Write::at(file, 0, text.to_vec())))
}

/// Writes and reads through `file`, which was evicted and whose name means another file: either
/// reaches the first file or fails.
fn reaches_the_first_or_fails(rig: &Rig, file: FileId, path: &Path, kept: &Path) {
    let name = rig.name;
    match write(rig, file, b"MINE") {
        Ok(_) => {
            let first = std::fs::read(kept).expect("there");
            assert_eq!(
                first[..4],
                *b"MINE",
                "{name}: the write is reported as done"
            );
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::StaleFile, "{name}: {error}");
            assert_eq!(error.path(), Some(path), "{name}: {error}");
        }
    }
    let other = std::fs::read(path).expect("there");
    assert!(other == [b'O'; LEN], "{name}: written to the wrong file");
    match result(rig.submit(Read::range(file, 8, 16))) {
        Ok(bytes) => assert!(bytes[..] == [b'A'; 16], "{name}: read from the wrong file"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::StaleFile, "{name}: {error}"),
    }
}

#[test]
fn an_adopted_file_that_was_evicted_is_not_mistaken_for_the_one_that_has_its_name_now() {
    each(this_test!(), |name, mut options| {
        options.descriptors = 2;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, [b'A'; LEN]).expect("written");
        let rig = Rig::new(name, options);
        let local = rig.storage.open_local(&path, WRITING).expect("opened");
        let file = rig.storage.adopt(local).expect("adopted");
        evict(&rig, folder.path());
        let kept = replace(&path);
        reaches_the_first_or_fails(&rig, file, &path, &kept);
        // A descriptor of another file system may mean any file in this one.
        let other: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
        let stray = LocalFile::open(other, &path, OpenMode::default()).expect("opened");
        let refused = rig.storage.adopt(stray).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}");
        rig.finish();
    });
}

#[test]
fn a_file_that_was_evicted_is_not_mistaken_for_the_one_that_has_its_name_now() {
    each(this_test!(), |name, mut options| {
        options.descriptors = 2;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, [b'A'; LEN]).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(&path, WRITING);
        write(&rig, file, b"1111").expect("written");
        let kept = replace(&path);
        evict(&rig, folder.path());
        reaches_the_first_or_fails(&rig, file, &path, &kept);
        rig.finish();
    });
}

#[test]
fn a_file_that_was_evicted_and_only_changed_is_opened_again() {
    each(this_test!(), |name, mut options| {
        options.descriptors = 2;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, [b'A'; LEN]).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(&path, WRITING);
        write(&rig, file, b"1111").expect("written");
        evict(&rig, folder.path());
        write(&rig, file, b"2222").expect("written again");
        let bytes = std::fs::read(&path).expect("there");
        assert_eq!(bytes[..5], *b"2222A", "{name}");
        rig.finish();
    });
}

#[test]
fn on_a_mount_without_inode_numbers_of_its_own_an_evicted_file_is_known_by_its_state() {
    each(this_test!(), |name, mut options| {
        options.descriptors = 2;
        let folder = tempfile::tempdir().expect("a folder");
        let content = [b'A'; LEN];
        let mount = or_skip!(FaultFs::mount(&[
            ("same", &content),
            ("changed", &content),
            ("written", &content)
        ]));
        let rig = Rig::new(name, options);
        let open = |file: &str, options| rig.storage.open(mount.path(file), options);
        let same = open("same", FileOptions::default());
        let changed = open("changed", FileOptions::default());
        let written = open("written", WRITING);
        assert!(landed(rig.submit(Read::whole(same)))[..] == content);
        assert!(landed(rig.submit(Read::whole(changed)))[..] == content);
        write(&rig, written, b"1111").expect("written");
        evict(&rig, folder.path());
        // It stays open, since its close could fail.
        write(&rig, written, b"2222").expect("written again");
        assert_eq!(mount.content("written").expect("there")[..5], *b"2222A");
        let inode = || mount.path("same").metadata().expect("there").ino();
        let before = inode();
        mount.renumber();
        assert_ne!(inode(), before, "{name}");
        mount.resize("changed", LEN + 1);
        assert!(
            landed(rig.submit(Read::whole(same)))[..] == content,
            "{name}"
        );
        let stale = result(rig.submit(Read::whole(changed))).expect_err("another file");
        assert_eq!(stale.kind(), ErrorKind::StaleFile, "{name}: {stale}");
        rig.finish();
    });
}
