//! What becomes of errors: file systems and disks that fail.

use std::sync::Mutex;
use std::time::Duration;

use millstream::Storage;
use millstream_stream::{
    ErrorKind, Mode, ReadStream, ReadTyped, Stream, StreamView, WriteStream, WriteTyped, limits,
};
use millstream_testing::{Call, Effect, FaultFs, LoopExt4, Rule, or_skip, wait_at_most};

use super::{logged, storage};

/// What the log says was lost.
fn lost(storage: &Storage, lines: &Mutex<Vec<String>>) -> Vec<String> {
    logged(storage, lines, "lost")
}

/// Most requests that were in flight at once.
fn in_flight_max(storage: &Storage) -> usize {
    let mut json = Vec::new();
    storage.take_trace().write_json(&mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    let mut edges = Vec::new();
    // One event on each line; the lane of requests is number 1.
    for line in json.lines() {
        let number = |key: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
            let len = rest.find([',', '}'])?;
            rest[..len].parse::<f64>().ok()
        };
        if let (Some(start), Some(duration)) = (number("ts"), number("dur"))
            && number("tid") == Some(1.0)
            && number("bytes").is_some_and(|bytes| bytes > 0.0)
        {
            edges.push((start, 1i32));
            edges.push((start + duration, -1));
        }
    }
    edges.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let mut now = 0;
    let levels = edges.iter().map(|(_, change)| {
        now += change;
        now
    });
    levels.max().unwrap_or(0) as usize
}

#[test]
fn at_least_two_requests_are_in_flight_while_the_caller_works() {
    // A mount whose calls take their time, so that requests are seen together.
    let fs = or_skip!(FaultFs::mount(&[("a", &vec![7; 3 << 20])]));
    let delay = Duration::from_millis(3);
    fs.inject(Rule::on(Call::Read, Effect::Delay(delay)));
    fs.inject(Rule::on(Call::Write, Effect::Delay(delay)));
    let (storage, streams, _) = storage();
    storage.start_trace();
    let mut input = streams.open(fs.path("a")).unwrap();
    for _ in 0..(3 << 20) / 8 {
        input.read_u64_le().unwrap();
    }
    assert!(in_flight_max(&storage) >= 2, "reads ahead");
    storage.start_trace();
    let mut out = streams.create(fs.path("b")).unwrap();
    for value in 0..(6u64 << 20) / 8 {
        out.write_u64_le(value).unwrap();
    }
    out.close().unwrap();
    assert!(in_flight_max(&storage) >= 2, "writes behind");
    assert_eq!(fs.content("b").unwrap().len(), 6 << 20);
}

#[test]
fn a_full_disk_shows_at_the_next_call_at_flush_and_at_close_with_its_place() {
    let disk = or_skip!(LoopExt4::new(8 << 20));
    let (storage, streams, lines) = storage();
    // Small pieces, written behind; and pieces of a buffer and more, written straight.
    for piece in [4096, 1 << 20] {
        let path = disk.root().join("big");
        let mut out = streams.create(&path).unwrap();
        let bytes = vec![7; piece];
        let mut result = Ok(());
        for _ in 0..(64 << 20) / piece {
            result = out.write_slice(&bytes);
            if result.is_err() {
                break;
            }
        }
        let error = result.expect_err("8 MiB do not hold 64");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.position() < 8 << 20, "{error}");
        assert_eq!(error.path(), Some(path.as_path()));
        for again in [
            out.write_u8(1),
            out.flush_all(),
            out.seek_to(0),
            out.close(),
        ] {
            let again = again.expect_err("it stays failed");
            assert_eq!(
                (again.kind(), again.position()),
                (ErrorKind::NoSpace, error.position())
            );
        }
        assert!(lost(&storage, &lines).is_empty(), "told, and so not logged");
        // A replacement that does not fit leaves the old file, and nothing beside it.
        std::fs::write(&path, b"old").unwrap();
        let mut out = streams.replace(&path).unwrap();
        while out.write_slice(&bytes).is_ok() {}
        assert_eq!(out.commit().unwrap_err().kind(), ErrorKind::NoSpace);
        assert!(std::fs::read(&path).unwrap() == b"old");
        let names = std::fs::read_dir(disk.root()).unwrap().count();
        assert_eq!(names, 2, "the file and lost+found");
    }
}

#[test]
fn an_error_behind_the_writer_is_not_lost_whoever_looks() {
    let fs = or_skip!(FaultFs::mount(&[]));
    let (storage, streams, lines) = storage();
    let buffer = limits::FILE_BUFFER_BYTES as u64;
    // What is written here, and three buffers; the second of them fails behind the writer's back.
    let bad = limits::LOCAL_BYTES_MAX + buffer;
    let write = |name: &str| {
        let mut out = streams.create(fs.path(name)).unwrap();
        let values = (limits::LOCAL_BYTES_MAX + 3 * buffer) / 8;
        let result = (0..values).try_for_each(|value| out.write_u64_le(value));
        (out, result)
    };
    fs.inject(Rule::on(Call::Write, Effect::Fail(libc::EIO)).touching(bad..bad + 1));
    let (mut out, _) = write("a");
    let error = out.flush_all().expect_err("the second buffer failed");
    assert_eq!(
        (error.kind(), error.position()),
        (ErrorKind::Storage, bad),
        "{error}"
    );
    assert_eq!(error.storage().unwrap().errno(), Some(libc::EIO));
    assert_eq!(out.close().unwrap_err().position(), bad);
    let (mut out, _) = write("b");
    assert_eq!(out.close().unwrap_err().position(), bad);
    assert!(lost(&storage, &lines).is_empty());
    // Dropped without a close: logged.
    let (out, _) = write("c");
    drop(out);
    let logged = lost(&storage, &lines);
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0].contains("/c") && logged[0].contains(&bad.to_string()),
        "{logged:?}"
    );
    // What fits in one buffer, too; and a sync.
    fs.heal();
    fs.inject(Rule::on(Call::Write, Effect::Fail(libc::EIO)));
    let mut out = streams.create(fs.path("d")).unwrap();
    out.write_u8(1).unwrap();
    drop(out);
    assert_eq!(lost(&storage, &lines).len(), 2);
    fs.heal();
    fs.inject(Rule::on(Call::Sync, Effect::Fail(libc::EIO)));
    let mut out = streams.create(fs.path("e")).unwrap();
    out.write_u8(1).unwrap();
    assert_eq!(out.sync().unwrap_err().kind(), ErrorKind::Storage);
    assert_eq!(out.close().unwrap_err().kind(), ErrorKind::Storage);
    fs.heal();
    let (mut out, result) = write("f");
    result.unwrap();
    out.close().unwrap();
    let len = fs.content("f").unwrap().len() as u64;
    assert_eq!(len, limits::LOCAL_BYTES_MAX + 3 * buffer);
    drop(storage);
}

#[test]
fn an_error_behind_the_writer_shows_at_the_next_call_of_four_bytes() {
    let fs = or_skip!(FaultFs::mount(&[]));
    let (storage, streams, lines) = storage();
    let buffer = limits::FILE_BUFFER_BYTES as u64;
    fs.inject(Rule::on(Call::Write, Effect::Fail(libc::EIO)).touching(bad_at()..bad_at() + 1));
    for through_view in [false, true] {
        let mut out = streams.create(fs.path("a")).unwrap();
        // The buffer that fails is handed over; the next one has room for thousands of calls.
        let values = (bad_at() + buffer) / 4;
        let filled = (0..values).try_for_each(|value| out.write_u32_le(value as u32));
        let shown = if let Err(early) = filled {
            // The write had failed before the buffer behind it was full.
            early
        } else if through_view {
            let len = bad_at() + 2 * buffer;
            let view = StreamView::new(out, 0, len, Mode::Write);
            let told = view.and_then(|mut view| {
                view.seek_to(bad_at() + buffer)?;
                Ok(until_error(|| view.write_u32_le(7)))
            });
            told.unwrap_or_else(|early| early)
        } else {
            until_error(|| out.write_u32_le(7))
        };
        assert_eq!(
            (shown.kind(), shown.position()),
            (ErrorKind::Storage, bad_at())
        );
    }
    // The streams were told; their drops say so again to whoever reads the log.
    assert!(lost(&storage, &lines).len() <= 2);
}

/// Where the buffer begins that the test above has fail: the second that goes to the engine.
fn bad_at() -> u64 {
    limits::LOCAL_BYTES_MAX + limits::FILE_BUFFER_BYTES as u64
}

/// The error of a call that is made again and again, far fewer times than fill a buffer.
fn until_error(
    mut call: impl FnMut() -> millstream_stream::Result<()>,
) -> millstream_stream::Error {
    let mut error = None;
    let has_failed = wait_at_most(Duration::from_secs(20), || {
        error = call().err();
        error.is_some()
    });
    assert!(
        has_failed,
        "the error of a write that ended long ago is not told"
    );
    error.expect("failed")
}

#[test]
fn a_failed_read_can_be_tried_again_and_a_cut_file_is_an_error() {
    let bytes: Vec<u8> = (0..700_000).map(|at| (at % 251) as u8).collect();
    let fs = or_skip!(FaultFs::mount(&[("a", &bytes)]));
    let (_storage, streams, _) = storage();
    let mut input = streams.open(fs.path("a")).unwrap();
    let rule = fs.inject(Rule::on(Call::Read, Effect::Fail(libc::EIO)).touching(300_000..300_001));
    let mut seen = vec![0; 700_000];
    let error = input.read_slice(&mut seen).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(
        error.position() <= 300_000 && error.position() + error.len() > 300_000,
        "{error}"
    );
    assert_eq!(input.position(), 0);
    fs.lift(rule);
    input.read_slice(&mut seen).unwrap();
    assert!(seen == bytes);
    fs.resize("a", 400_000);
    input.seek_to(350_000).unwrap();
    let cut = input.read_slice(&mut seen[..300_000]).unwrap_err();
    assert!(
        matches!(cut.kind(), ErrorKind::PastEnd | ErrorKind::Storage),
        "{cut}"
    );
}
