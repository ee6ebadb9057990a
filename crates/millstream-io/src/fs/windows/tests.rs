//! Behavior of Windows that differs from Unix, on real files; failing servers and volumes are
//! simulated.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation as codes;

use super::*;
use crate::device::Doorbell;
use crate::device::calls::{Call, CallAnswer, Calls, CallsOptions, OpenCall};
use crate::fs::{Access, AtomicFile, remove_leftovers};
use crate::thread::ThreadSettings;

const READ: OpenMode = OpenMode {
    write: false,
    create: false,
    truncate: false,
    exclusive: false,
    direct: false,
};

fn folder_with(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, content).unwrap();
    (folder, path)
}

fn refused(path: &Path, mode: OpenMode) -> IoError {
    OsFileSystem::new()
        .open(path, mode)
        .expect_err("that cannot be opened")
}

fn content(files: &OsFileSystem, opened: &Opened) -> Vec<u8> {
    let mut into = vec![0; 100];
    let read = files.read_at(*opened.descriptor, 0, &mut into).unwrap();
    into.truncate(read);
    into
}

#[test]
fn names_that_windows_changes_or_redirects_are_refused_with_the_reason() {
    let (folder, _) = folder_with(b"");
    for (name, reason) in [
        ("con", "device"),
        ("aux.txt", "device"),
        ("name.", "end of a name"),
        ("name ", "end of a name"),
        ("what?", "forbids"),
        ("file:stream", "forbids"),
    ] {
        let error = refused(&folder.path().join(name), READ);
        assert_eq!(error.errno.0, codes::ERROR_INVALID_NAME as i32, "{name}");
        assert!(error.cause.contains(reason), "{name}: {error}");
    }
    let relative = refused(Path::new("C:file"), READ);
    assert!(
        relative
            .cause
            .contains("relative to the current folder of a drive"),
        "{relative}"
    );
    let device = refused(Path::new(r"\\.\pipe\millstream"), READ);
    assert_eq!(device.errno, Errno::NOT_A_FILE, "{device}");
    assert!(refused(Path::new("a\0b"), READ).cause.contains("zero"));
}

#[test]
fn verbatim_and_long_names_are_opened() {
    let (folder, path) = folder_with(b"abc");
    let files = OsFileSystem::new();
    let verbatim = files.open(&fs::canonicalize(&path).unwrap(), READ).unwrap();
    assert_eq!(content(&files, &verbatim), b"abc");
    files.close(verbatim.descriptor).unwrap();
    let mut deep = name::verbatim(folder.path()).unwrap();
    for _ in 0..4 {
        deep.push("x".repeat(100));
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), b"deep").unwrap();
    let long: PathBuf = folder.path().join(
        deep.strip_prefix(name::verbatim(folder.path()).unwrap())
            .unwrap(),
    );
    let opened = files.open(&long.join("file"), READ).unwrap();
    assert_eq!(content(&files, &opened), b"deep");
    files.close(opened.descriptor).unwrap();
}

#[test]
fn errors_of_opening_say_what_stands_there() {
    let (folder, path) = folder_with(b"abc");
    let cases = [
        (folder.path().join("none"), Errno::NOT_FOUND, "no such name"),
        (
            folder.path().join("none/file"),
            Errno(3),
            "a folder on the path",
        ),
        (folder.path().to_owned(), Errno::IS_FOLDER, "it is a folder"),
    ];
    for (path, errno, cause) in cases {
        let error = refused(&path, READ);
        assert_eq!(error.errno, errno, "{error}");
        assert!(error.cause.contains(cause), "{error}");
    }
    let alone = OpenOptions::new()
        .read(true)
        .share_mode(0)
        .open(&path)
        .unwrap();
    let error = refused(&path, READ);
    assert_eq!(error.errno.0, codes::ERROR_SHARING_VIOLATION as i32);
    assert!(error.cause.contains("for itself alone"), "{error}");
    drop(alone);
    let exclusive = OpenMode {
        write: true,
        create: true,
        exclusive: true,
        ..READ
    };
    assert_eq!(refused(&path, exclusive).errno, Errno::EXISTS);
}

#[test]
fn an_open_file_may_be_deleted_and_replaced_by_others() {
    let (folder, path) = folder_with(b"old");
    let files = OsFileSystem::new();
    let opened = files.open(&path, READ).unwrap();
    files.replace(&path, b"new").unwrap();
    assert_eq!(
        content(&files, &opened),
        b"old",
        "the open file stays what it was"
    );
    let again = files.open(&path, READ).unwrap();
    assert_eq!(content(&files, &again), b"new");
    assert_ne!(opened.identity.inode, again.identity.inode);
    assert_eq!(opened.identity.device, again.identity.device);
    files.close(opened.descriptor).unwrap();
    files.remove(&path).unwrap();
    assert_eq!(content(&files, &again), b"new", "deleted while open");
    files.close(again.descriptor).unwrap();
    assert!(!path.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn modes_create_truncate_and_write() {
    let (folder, path) = folder_with(b"content");
    let files = OsFileSystem::new();
    let create = OpenMode {
        write: true,
        create: true,
        truncate: true,
        ..READ
    };
    let opened = files.open(&path, create).unwrap();
    assert_eq!((opened.len, files.len(*opened.descriptor).unwrap()), (0, 0));
    files.write_at(*opened.descriptor, 3, b"abc").unwrap();
    files.sync(*opened.descriptor, true).unwrap();
    assert_eq!(content(&files, &opened), b"\0\0\0abc");
    files.close(opened.descriptor).unwrap();
    let to = folder.path().join("other");
    fs::write(&to, b"x").unwrap();
    files.rename(&path, &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"\0\0\0abc");
    let truncate = OpenMode {
        truncate: true,
        ..READ
    };
    assert_eq!(refused(&to, truncate).errno, Errno::INVALID);
}

#[test]
fn leftovers_of_the_dead_go_and_a_named_file_replaces_another() {
    let (folder, path) = folder_with(b"old");
    let (file, named) = AtomicFile::create_named(&path).unwrap();
    let dead = folder.path().join(".millstream-4294967292-1.tmp");
    fs::write(&dead, b"").unwrap();
    remove_leftovers(folder.path());
    assert!(named.exists() && !dead.exists());
    file.write_and_commit(b"new", AtomicFile::KEEP_ALL).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_is_entered_but_never_through_what_is_none() {
    let (folder, _) = folder_with(b"");
    let root = Folder::open(folder.path()).unwrap();
    let inner = Arc::new(
        root.enter("a".as_ref())
            .unwrap()
            .enter("b".as_ref())
            .unwrap(),
    );
    assert!(folder.path().join("a/b").is_dir());
    for none in ["file", "..", "con", "a/b", ""] {
        assert!(root.enter(none.as_ref()).is_err(), "{none}");
    }
    let (mut file, temporary) = crate::fs::TemporaryFile::create(&inner, 0).unwrap();
    file.write_all(b"abc").unwrap();
    temporary.rename(&root, "here".as_ref()).unwrap();
    assert_eq!(fs::read(folder.path().join("here")).unwrap(), b"abc");
}

fn open_removed(_: &[u16], _: OpenMode) -> Result<OwnedHandle, Errno> {
    Err(Errno(codes::ERROR_NOT_READY as i32))
}

fn open_hung(_: &[u16], _: OpenMode) -> Result<OwnedHandle, Errno> {
    loop {
        std::thread::park();
    }
}

fn open_call(path: &Path) -> Call {
    Call::Open(Box::new(OpenCall {
        path: Arc::from(path),
        mode: READ,
        buffered: true,
        access: Access::Auto,
        direct_from: u64::MAX,
        expected: None,
        renew: Vec::new(),
        offer: None,
        close_read: false,
    }))
}

/// Opens a file with test functions for the system's calls; returns the answer and the hung calls.
fn opened_with(
    open: fn(&[u16], OpenMode) -> Result<OwnedHandle, Errno>,
) -> (Vec<IoError>, Vec<u64>) {
    let files = OsFileSystem::with_functions(calls::Functions { open });
    let mut calls = Calls::new(CallsOptions {
        fs: Arc::new(files),
        bell: Doorbell::condvar(),
        threads: ThreadSettings::default(),
        inline: false,
    });
    #[expect(unsafe_code, reason = "lends no memory")]
    // SAFETY: an open without an offer names no memory.
    unsafe {
        calls.push(1, false, open_call(Path::new(r"\\server\share\file")));
    }
    calls.submit();
    let (mut answers, begun) = (Vec::new(), Instant::now());
    while calls.reap(&mut answers) == 0 && begun.elapsed() < Duration::from_millis(300) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let hung = calls.shutdown(Instant::now() + Duration::from_millis(100), &mut answers);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "the deadline holds"
    );
    let errors = answers.into_iter().filter_map(|done| match done.answer {
        CallAnswer::Opened(answer) => answer.opened?.err(),
        _ => None,
    });
    (errors.collect(), hung)
}

#[test]
fn a_removed_volume_is_an_error_and_a_hung_server_keeps_nobody() {
    let (errors, hung) = opened_with(open_removed);
    assert!(
        errors[0].cause.contains("volume was removed") && hung.is_empty(),
        "{errors:?}"
    );
    let (errors, hung) = opened_with(open_hung);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(hung, [1]);
}
