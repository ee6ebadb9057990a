//! Streams against the standard library's: the same random operations must give the same bytes,
//! positions and ends. Views are compared with a cursor over the same bytes.

use std::fs::File;
use std::io::{BufRead, Cursor, Read, Seek, SeekFrom, Write};

use fastrand::Rng;
use millstream::{Backend, Storage, StorageOptions};
use millstream_stream::{
    ErrorKind, MemoryStream, Mode, OpenOptions, StreamView, Streams, WriteStream,
};

/// Longer than two buffers of a file stream, so that windows change under the operations.
const FILE_BYTES: usize = 700_000;

#[derive(Debug, Clone)]
enum Step {
    Read(usize),
    ReadExact(usize),
    FillAndConsume(usize),
    Write(usize, u8),
    Seek(SeekFrom),
    Flush,
}

/// A length that is mostly short.
fn length(random: &mut Rng, most: usize) -> usize {
    match random.u8(..9) {
        0..6 => random.usize(..40),
        6..8 => random.usize(..most / 8 + 1),
        _ => random.usize(..most + most / 4 + 1),
    }
}

fn seek(random: &mut Rng, most: i64) -> SeekFrom {
    match random.u8(..4) {
        0 => SeekFrom::Start(random.u64(..most as u64 + 50)),
        1 => SeekFrom::End(random.i64(-most..50)),
        2 => SeekFrom::Current(random.i64(-most / 2..most / 2)),
        _ => SeekFrom::Current(random.i64(-60..60)),
    }
}

fn steps(random: &mut Rng, len: usize, writes: bool) -> Vec<Step> {
    let most = i64::try_from(len).expect("short");
    let count = random.usize(1..40);
    let step = |_| match random.u8(..15) {
        0..3 => Step::Read(length(random, len)),
        3..6 => Step::ReadExact(length(random, len)),
        6 => Step::FillAndConsume(length(random, len)),
        // Nothing written beyond the end is nothing for a file, and zeroes for a cursor.
        7..11 if writes => Step::Write(length(random, len).max(1), random.u8(..)),
        11..14 => Step::Seek(seek(random, most)),
        _ => Step::Flush,
    };
    (0..count).map(step).collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 * 13) as u8).collect()
}

/// Reads until `len` bytes or the end: what one call gives depends on buffers.
fn read_up_to(stream: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream
        .take(len as u64)
        .read_to_end(&mut bytes)
        .expect("a read");
    bytes
}

/// Takes both through the steps; `window` is where the window ends, if writes may not pass it.
fn compare(
    ours: &mut (impl BufRead + Write + Seek),
    theirs: &mut (impl Read + Write + Seek),
    steps: &[Step],
    window: Option<u64>,
) {
    for (index, step) in steps.iter().enumerate() {
        let before = theirs.stream_position().expect("a position");
        match step {
            Step::Read(len) => {
                let (a, b) = (read_up_to(ours, *len), read_up_to(theirs, *len));
                assert!(
                    a == b,
                    "step {index}: {step:?}: {} and {} bytes",
                    a.len(),
                    b.len()
                );
            }
            Step::ReadExact(len) => {
                let (mut a, mut b) = (vec![0; *len], vec![0; *len]);
                let (ra, rb) = (ours.read_exact(&mut a), theirs.read_exact(&mut b));
                assert_eq!(
                    ra.is_ok(),
                    rb.is_ok(),
                    "step {index}: {step:?} at {before}: {ra:?}"
                );
                if rb.is_ok() {
                    assert!(a == b, "step {index}: {step:?}");
                } else {
                    // Ours has not moved; theirs may be anywhere.
                    assert_eq!(ours.stream_position().expect("a position"), before);
                    theirs.seek(SeekFrom::Start(before)).expect("a seek");
                }
            }
            Step::FillAndConsume(len) => {
                let window = ours.fill_buf().expect("a window");
                let count = window.len().min(*len);
                let a = window[..count].to_vec();
                ours.consume(count);
                let mut b = vec![0; count];
                theirs.read_exact(&mut b).expect("as many bytes");
                assert!(a == b, "step {index}: {step:?}");
            }
            Step::Write(len, byte) => {
                let fits = window.is_none_or(|end| before + *len as u64 <= end);
                let written = ours.write_all(&vec![*byte; *len]);
                assert_eq!(written.is_ok(), fits, "step {index}: {step:?} at {before}");
                if fits {
                    theirs.write_all(&vec![*byte; *len]).expect("written");
                }
            }
            Step::Seek(to) => {
                let (a, b) = (ours.seek(*to), theirs.seek(*to));
                assert_eq!(a.is_ok(), b.is_ok(), "step {index}: {step:?}: {a:?} {b:?}");
            }
            Step::Flush => {
                ours.flush().expect("flushed");
                theirs.flush().expect("flushed");
            }
        }
        let here = ours.stream_position().expect("a position");
        assert_eq!(
            here,
            theirs.stream_position().expect("a position"),
            "step {index}: {step:?}"
        );
    }
}

/// Runs a body with sequences of steps over `len` bytes.
fn each_sequence(count: usize, len: usize, writes: bool, body: impl Fn(&[Step])) {
    let mut random = millstream_testing::random();
    for _ in 0..count {
        body(&steps(&mut random, len, writes));
    }
}

#[test]
fn memory_is_a_cursor_over_a_vector() {
    each_sequence(256, 3000, true, |steps| {
        let mut ours = MemoryStream::from_vec(pattern(3000));
        let mut theirs = Cursor::new(pattern(3000));
        compare(&mut ours, &mut theirs, steps, None);
        assert!(ours.into_vec() == theirs.into_inner(), "{steps:?}");
    });
}

#[test]
fn a_view_is_a_cursor_over_its_window() {
    each_sequence(256, 1000, true, |steps| {
        let mut stream = MemoryStream::from_vec(pattern(3000));
        let mut ours = StreamView::new(&mut stream, 700, 1000, Mode::ReadWrite).unwrap();
        let mut bytes = pattern(3000);
        let mut theirs = Cursor::new(&mut bytes[700..1700]);
        compare(&mut ours, &mut theirs, steps, Some(1000));
        assert!(stream.into_vec() == bytes, "outside of the window, too");
    });
}

#[test]
fn a_view_of_a_view_is_one_window_within_the_other() {
    each_sequence(256, 600, true, |steps| {
        let mut stream = MemoryStream::from_vec(pattern(3000));
        let mut outer = StreamView::new(&mut stream, 700, 1000, Mode::ReadWrite).unwrap();
        let mut ours = StreamView::new(&mut outer, 150, 600, Mode::ReadWrite).unwrap();
        let mut bytes = pattern(3000);
        let mut theirs = Cursor::new(&mut bytes[850..1450]);
        compare(&mut ours, &mut theirs, steps, Some(600));
        assert!(stream.into_vec() == bytes, "{steps:?}");
    });
}

fn storages() -> Vec<Storage> {
    let mut storages = Vec::new();
    for (name, backend) in [("uring", Backend::Uring), ("threads", Backend::Threads)] {
        let mut options = StorageOptions::default();
        options.backend = backend;
        match Storage::new(options) {
            Ok(storage) => storages.push(storage),
            Err(error) => println!("SKIP: {name}: {error}"),
        }
    }
    storages
}

/// Runs a body with sequences of steps over each backend.
fn each_backend(count: usize, writes: bool, body: impl Fn(&Streams, &[Step])) {
    for storage in storages() {
        let streams = Streams::new(&storage).expect("streams");
        each_sequence(count, FILE_BYTES, writes, |steps| body(&streams, steps));
    }
}

#[test]
fn a_file_that_is_read_is_the_system_s_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    std::fs::write(&path, pattern(FILE_BYTES)).expect("written");
    each_backend(60, false, |streams, steps| {
        let mut ours = streams.open(&path).expect("opened");
        let mut theirs = File::open(&path).expect("opened");
        compare(&mut ours, &mut theirs, steps, None);
        ours.close().expect("closed");
    });
}

#[test]
fn a_file_that_is_read_and_written_is_the_system_s_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    each_backend(60, true, |streams, steps| {
        std::fs::write(&a, pattern(FILE_BYTES)).expect("written");
        std::fs::write(&b, pattern(FILE_BYTES)).expect("written");
        let options = OpenOptions {
            mode: Mode::ReadWrite,
            ..OpenOptions::default()
        };
        let mut ours = streams.open_with(&a, options).expect("opened");
        let mut theirs = File::options()
            .read(true)
            .write(true)
            .open(&b)
            .expect("opened");
        compare(&mut ours, &mut theirs, steps, None);
        ours.close().expect("closed");
        assert!(std::fs::read(&a).expect("there") == std::fs::read(&b).expect("there"));
    });
}

#[test]
fn a_view_over_a_file_is_a_cursor_over_its_window() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    let (start, len) = (100_001, 400_003);
    each_backend(40, true, |streams, steps| {
        let mut bytes = pattern(FILE_BYTES);
        std::fs::write(&path, &bytes).expect("written");
        let options = OpenOptions {
            mode: Mode::ReadWrite,
            ..OpenOptions::default()
        };
        let mut file = streams.open_with(&path, options).expect("opened");
        let mut ours =
            StreamView::new(&mut file, start as u64, len as u64, Mode::ReadWrite).expect("a view");
        let mut theirs = Cursor::new(&mut bytes[start..start + len]);
        compare(&mut ours, &mut theirs, steps, Some(len as u64));
        ours.flush_all().expect("flushed");
        file.close().expect("closed");
        assert!(std::fs::read(&path).expect("there") == bytes);
    });
}

#[test]
fn a_stream_in_memory_is_bounded_also_within_the_memory_that_it_began_with() {
    let mut stream = MemoryStream::from_vec(vec![0; 100]);
    stream.clear();
    let mut stream = stream.len_max(10);
    stream.write_slice(&[1; 10]).expect("within the bound");
    let beyond = (0..100).find_map(|_| stream.put([1]).err());
    assert_eq!(beyond.map(|error| error.kind()), Some(ErrorKind::Limit));
    assert_eq!(stream.into_vec(), [1; 10]);
}

#[test]
#[should_panic(expected = "no more than what was shown")]
fn what_was_not_shown_is_not_passed_over() {
    let mut stream = MemoryStream::from_vec(vec![1; 100]).len_max(200);
    stream.seek(SeekFrom::End(-1)).expect("a seek");
    stream.consume(2);
}
