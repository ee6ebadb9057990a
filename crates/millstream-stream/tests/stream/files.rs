//! File streams: how they go through the engine, and what becomes of errors.

use std::sync::{Arc, Mutex};

use millstream::{LogLevel, Storage, StorageOptions};
use millstream_stream::{
    ErrorKind, Mode, OpenOptions, ReadTyped, Stream, StreamView, Streams, WriteStream, WriteTyped,
};
use millstream_testing::wait_for;

/// File systems of our own, which fail.
#[cfg(target_os = "linux")]
mod faults;

/// A storage whose log is kept.
fn storage() -> (Storage, Streams, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let mut options = StorageOptions::default();
    options.log = Some(Arc::new(move |_, text: &str| {
        log.lock().unwrap().push(text.to_owned());
    }));
    let storage = Storage::new(options).expect("a storage");
    let streams = Streams::new(&storage).expect("streams");
    (storage, streams, lines)
}

/// The lines of the log with `word`. The log has a thread of its own: waits for a last line.
fn logged(storage: &Storage, lines: &Mutex<Vec<String>>, word: &str) -> Vec<String> {
    const LAST: &str = "the last line";
    storage.log(LogLevel::Info, LAST);
    let is_last = |line: &String| line == LAST;
    let has_come = wait_for(|| lines.lock().unwrap().iter().any(is_last));
    assert!(has_come, "the log delivers its lines");
    let mut lines = lines.lock().unwrap();
    lines.retain(|line| !is_last(line));
    let found = lines.iter().filter(|line| line.contains(word));
    found.cloned().collect()
}

#[test]
fn modes_closing_and_ends_are_checked_on_every_call_through_views_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, [1, 2, 3, 4, 5]).unwrap();
    let (_storage, streams, _) = storage();
    let kind = |error: millstream_stream::Error| error.kind();

    let mut input = streams.open(&path).unwrap();
    assert_eq!(kind(input.write_u8(1).unwrap_err()), ErrorKind::WrongMode);
    input.seek_to(3).unwrap();
    let past = input.read_u32_le().unwrap_err();
    assert_eq!(
        (past.kind(), past.position(), past.len()),
        (ErrorKind::PastEnd, 3, 4)
    );
    assert_eq!(past.path(), Some(path.as_path()));
    assert_eq!(input.read_u8().unwrap(), 4, "the position has not moved");

    let mut view = StreamView::new(&mut input, 1, 3, Mode::Read).unwrap();
    let mut inner = StreamView::new(&mut view, 1, 2, Mode::Read).unwrap();
    assert_eq!((inner.read_u8().unwrap(), inner.read_u8().unwrap()), (3, 4));
    assert_eq!((inner.position(), inner.len().unwrap()), (2, 2));
    assert_eq!(kind(inner.read_u8().unwrap_err()), ErrorKind::PastEnd);
    input.close().unwrap();
    for _ in 0..2 {
        let closed = input.read_u8().unwrap_err();
        assert_eq!((closed.kind(), closed.position()), (ErrorKind::Closed, 4));
    }
    assert_eq!(kind(input.seek_to(0).unwrap_err()), ErrorKind::Closed);
    let refused = StreamView::new(&mut input, 0, 1, Mode::Read);
    assert_eq!(kind(refused.unwrap_err()), ErrorKind::Closed);

    let mut out = streams.create(folder.path().join("b")).unwrap();
    assert_eq!(kind(out.read_u8().unwrap_err()), ErrorKind::WrongMode);
    let refused = StreamView::new(&mut out, 0, 4, Mode::Read).unwrap_err();
    assert_eq!(kind(refused), ErrorKind::WrongMode);
    let mut view = StreamView::new(&mut out, 0, 4, Mode::Write).unwrap();
    view.write_u32_le(9).unwrap();
    assert_eq!(kind(view.write_u8(1).unwrap_err()), ErrorKind::PastEnd);
    out.close().unwrap();
    out.close().unwrap();
    assert_eq!(kind(out.write_u8(1).unwrap_err()), ErrorKind::Closed);
    assert_eq!(
        std::fs::read(folder.path().join("b")).unwrap(),
        9u32.to_le_bytes()
    );
    assert_eq!(
        kind(streams.open(folder.path().join("none")).unwrap_err()),
        ErrorKind::NotFound
    );
}

#[test]
fn what_is_appended_and_replaced_is_there_and_links_stay_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let (storage, streams, lines) = storage();
    std::fs::write(&path, b"one ").unwrap();
    let options = OpenOptions {
        mode: Mode::Write,
        append: true,
        ..OpenOptions::default()
    };
    let mut out = streams.open_with(&path, options).unwrap();
    out.write_slice(b"two").unwrap();
    out.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"one two");

    #[cfg(unix)]
    let link = {
        use std::os::unix::fs::PermissionsExt as _;
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        link
    };
    #[cfg(not(unix))]
    let link = path.clone();
    let mut out = streams.replace(&link).unwrap();
    out.write_slice(&vec![3; 1_000_000]).unwrap();
    assert_eq!(
        std::fs::read(&path).unwrap(),
        b"one two",
        "until the commit"
    );
    out.commit().unwrap();
    assert!(std::fs::read(&path).unwrap() == vec![3; 1_000_000]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert!(link.is_symlink());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    // Given up, by a close or a drop: nothing has happened.
    let mut out = streams.replace(&path).unwrap();
    out.write_u8(1).unwrap();
    out.close().unwrap();
    let mut out = streams.replace(&path).unwrap();
    out.write_u8(1).unwrap();
    drop(out);
    let warnings = logged(&storage, &lines, "without a commit");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1_000_000);
    let names = if cfg!(unix) { 2 } else { 1 };
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), names);
}
