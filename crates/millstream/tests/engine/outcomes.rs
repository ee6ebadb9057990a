//! Outcomes: memory comes back however a request completes, and errors are ordinary errors.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::support::{Bench, each_backend, each_backend_and_pumped};
use millstream::{
    Buffer, CodecId, Decode, Error, ErrorKind, Fence, FileId, FileOp, FileOptions, Outcome, Queue,
    Read, Refused, Request, Ticket, Write,
};

fn outcome<R: Request>(queue: &Queue, request: R) -> Outcome<R::Output> {
    queue.submit(request).expect("room").outcome()
}

/// The memory of a request that fails with a kind.
fn memory_of_failure<R: Request>(queue: &Queue, request: R, kind: ErrorKind) -> R::Output {
    let outcome = outcome(queue, request);
    assert_eq!(outcome.result.expect_err("fails").kind(), kind);
    outcome
        .memory
        .unwrap_or_else(|| panic!("the memory of a request that failed with {kind:?}"))
}

#[test]
fn memory_comes_back_with_a_failure() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let missing = bench.open("missing");
        let buffer = |len| bench.storage.buffer(len).expect("memory");
        let vector = Read::range(file, 999, 2).into(vec![0u8; 11]);
        assert_eq!(
            memory_of_failure(&queue, vector, ErrorKind::PastEnd).len(),
            11
        );
        let own = Read::whole(missing).into(buffer(12));
        assert!(memory_of_failure(&queue, own, ErrorKind::NotFound).capacity() >= 12);
        let small = Read::whole(file).into(vec![0u8; 999].into_boxed_slice());
        let small = memory_of_failure(&queue, small, ErrorKind::DestinationTooSmall);
        assert_eq!(small.len(), 999);
        let write = Write::at(file, 0, vec![3u8; 15]);
        let memory = memory_of_failure(&queue, write, ErrorKind::PermissionDenied);
        assert_eq!(memory, [3; 15], "what is written is not changed");
        let nowhere = bench.folder.path().join("no folder").join("file");
        let replace = FileOp::replace(nowhere, vec![4u8; 16]);
        let memory = memory_of_failure(&queue, replace, ErrorKind::NotFound);
        assert_eq!(memory, [4; 16], "what is written is not changed");
        let early = outcome(&queue, Read::whole(missing)).memory;
        assert!(early.is_none(), "no buffer of the library was taken");
    });
}

#[test]
fn memory_that_was_supplied_comes_back_when_decoding_fails() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let raw = bench.bytes(100_000);
        let mut stored = crate::support::encoded(CodecId::ZSTD, &raw);
        stored.truncate(stored.len() / 2);
        let file = bench.file_of("damaged", &stored);
        let decode = || Decode::codec(CodecId::ZSTD).raw_len(raw.len() as u64);
        let supplied = Read::whole(file)
            .decode(decode())
            .supplied(|len| Some(vec![0u8; len]));
        let memory = memory_of_failure(&queue, supplied, ErrorKind::Corrupt);
        assert_eq!(memory.len(), raw.len());
        let own = Read::whole(file)
            .decode(decode())
            .into(vec![0u8; raw.len()]);
        let memory = memory_of_failure(&queue, own, ErrorKind::Corrupt);
        assert_eq!(memory.len(), raw.len());
    });
}

#[test]
fn memory_comes_back_with_a_cancellation_a_timeout_and_a_close() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let writable = bench.open_for_writing("writable");
        let gate = Fence::new(0);
        let held = || Read::whole(file).into(vec![0u8; 1000]).after(&gate, 1);
        let mut read = queue.submit(held()).expect("room");
        let write = Write::at(writable, 0, vec![5u8; 17]).after(&gate, 1);
        let mut write = queue.submit(write).expect("room");
        let buffer = bench.storage.buffer(1000).expect("memory");
        let staged = Read::whole(file).into(buffer).write_after(&gate, 1);
        let mut staged = queue.submit(staged).expect("room");
        read.cancel();
        write.cancel();
        staged.cancel();
        let outcome = read.outcome();
        assert_eq!(
            outcome.result.expect_err("canceled").kind(),
            ErrorKind::Canceled
        );
        assert_eq!(outcome.memory.expect("the vector").len(), 1000);
        assert_eq!(write.outcome().memory.expect("the vector"), [5; 17]);
        assert!(staged.outcome().memory.expect("the buffer").capacity() >= 1000);
        let timed = held().timeout(std::time::Duration::from_millis(2));
        let memory = memory_of_failure(&queue, timed, ErrorKind::TimedOut);
        assert_eq!(memory.len(), 1000);
        let mut closed = queue.submit(held()).expect("room");
        bench.storage.close(crate::support::PATIENCE);
        let outcome = closed.outcome();
        assert!(
            outcome.result.is_err(),
            "held back when the storage was closed"
        );
        assert_eq!(outcome.memory.expect("the vector").len(), 1000);
    });
}

fn read_with_io(queue: &Queue, file: FileId) -> io::Result<Buffer> {
    Ok(queue.submit(Read::whole(file))?.wait()?)
}

fn read_with_box(queue: &Queue, file: FileId) -> Result<usize, Box<dyn std::error::Error>> {
    let mut batch = queue.batch();
    let mut ticket = batch.try_add(Read::whole(file)).map_err(Error::from)?;
    batch.submit();
    Ok(ticket.wait()?.len())
}

fn read_with_threads(
    queue: &Queue,
    file: FileId,
) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    Ok(queue.submit(Read::whole(file))?.wait()?.len())
}

#[test]
fn the_question_mark_works_with_io_errors_and_boxed_errors() {
    each_backend(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        assert_eq!(read_with_io(&queue, file).expect("read").len(), 1000);
        assert_eq!(read_with_box(&queue, file).expect("read"), 1000);
        assert_eq!(read_with_threads(&queue, file).expect("read"), 1000);
        let missing = bench.open("missing");
        let error = read_with_io(&queue, missing).expect_err("missing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let own = error
            .get_ref()
            .and_then(|error| error.downcast_ref::<Error>());
        let own = own.expect("the whole error travels in the io::Error");
        assert_eq!(own.kind(), ErrorKind::NotFound);
        assert!(own.path().is_some_and(|path| path.ends_with("missing")));
        let error = read_with_box(&queue, missing).expect_err("missing");
        let own = error.downcast_ref::<Error>().expect("the error itself");
        assert_eq!(own.kind(), ErrorKind::NotFound);
        let error = read_with_threads(&queue, missing).expect_err("missing");
        let text = std::thread::spawn(move || error.to_string()).join();
        assert!(text.expect("no panic").contains("missing"));
    });
}

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// An error and its sources, as reports of errors print them.
fn chain(error: &Error) -> String {
    let first: &dyn std::error::Error = error;
    let all = std::iter::successors(Some(first), |error| error.source());
    all.map(|error| format!("{error}\n")).collect()
}

#[test]
fn a_refused_request_is_an_error_like_others_and_gives_the_request_back() {
    fn submit(queue: &Queue, read: Read) -> Result<Ticket<Buffer>, Boxed> {
        Ok(queue.try_submit(read)?)
    }
    each_backend(|bench| {
        let queue = bench.queue_with(|options| options.capacity = 1);
        let (file, gate) = (bench.file("data", 100), Fence::new(0));
        let mut first = submit(&queue, Read::whole(file).after(&gate, 1)).expect("room");
        let error = submit(&queue, Read::range(file, 10, 20)).expect_err("full");
        assert_eq!(error.to_string().matches("queue").count(), 2, "{error}");
        let refused = error.downcast::<Refused<Read>>().expect("the error itself");
        gate.signal(1);
        first.wait().expect("read");
        let mut again = queue.submit(refused.request).expect("room");
        assert_eq!(again.wait().expect("read").len(), 20);
    });
}

#[test]
fn an_outcome_that_was_taken_is_an_error_for_whoever_takes_it_again() {
    each_backend_and_pumped(|bench| {
        let (queue, file) = (bench.queue(), bench.file("data", 100));
        let mut ticket = queue.submit(Read::whole(file)).expect("room");
        ticket.wait().expect("read");
        let taken = |result: Result<u64, Error>| {
            assert_eq!(
                result.expect_err("taken").kind(),
                ErrorKind::InvalidArgument
            );
        };
        taken(ticket.wait().map(|_| 0));
        taken(ticket.outcome().result);
        taken(ticket.try_take().expect("complete").result);
        let timed = ticket
            .wait_timeout(Duration::from_secs(1))
            .expect("complete");
        taken(timed.expect("complete").result);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match ticket.poll_outcome(&mut context) {
            std::task::Poll::Ready(outcome) => taken(outcome.result),
            std::task::Poll::Pending => panic!("it never completes again"),
        }
        assert!(ticket.is_complete());
    });
}

#[test]
fn an_error_says_once_what_the_system_or_the_codec_said() {
    fn travels<T: Send + Sync + 'static>() {}
    travels::<Error>();
    each_backend(|bench| {
        let queue = bench.queue();
        let missing = Read::whole(bench.open("missing"));
        let error = outcome(&queue, missing).result.expect_err("missing");
        assert_eq!(error.errno(), Some(millstream_io::Errno::NOT_FOUND.0));
        assert_eq!(chain(&error).matches("os error").count(), 1);
        let mut stored = crate::support::encoded(CodecId::ZLIB, &bench.bytes(10_000));
        stored.truncate(stored.len() - 10);
        let damaged = bench.file_of("damaged", &stored);
        let decode = Decode::codec(CodecId::ZLIB).raw_len(10_000);
        let damaged = outcome(&queue, Read::whole(damaged).decode(decode));
        let error = damaged.result.expect_err("truncated");
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Corrupt, None));
        assert_eq!(chain(&error).matches("at stored offset").count(), 1);
    });
}

#[test]
fn a_read_past_the_end_names_the_length_of_the_file() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 12_345);
        for (offset, len) in [(12_000, 346), (12_345, 1), (1 << 40, 10)] {
            let past = outcome(&queue, Read::range(file, offset, len));
            let error = past.result.expect_err("past the end");
            assert_eq!(error.kind(), ErrorKind::PastEnd);
            assert_eq!((error.offset(), error.len()), (offset, len));
            let text = error.to_string();
            assert!(
                text.contains("12345"),
                "the file's length is missing: {text}"
            );
            assert!(text.contains(&offset.to_string()), "{text}");
            assert!(text.contains("data"), "{text}");
        }
        let end = outcome(&queue, Read::range(file, 12_345, 0));
        assert_eq!(end.result.expect("no byte at the end"), 0);
    });
}

fn names(path: &Path, error: &Error) {
    let name = path.file_name().expect("a name").to_string_lossy();
    assert_eq!(error.path(), Some(path), "{error}");
    assert!(error.to_string().contains(&*name), "{error}");
}

/// Fails with an error that names a file of the folder.
fn fails_at<R: Request>(bench: &Bench, queue: &Queue, name: &str, request: R) {
    let error = outcome(queue, request).result.expect_err(name);
    names(&bench.folder.path().join(name), &error);
}

fn fails_locally<T>(path: &Path, result: Result<T, Error>) {
    let error = result.map(|_| "no failure").expect_err("fails");
    names(path, &error);
}

#[test]
fn every_error_that_concerns_a_path_names_it() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let path = |name: &str| bench.folder.path().join(name);
        let file = bench.file("data", 1000);
        std::fs::create_dir(path("folder")).expect("a folder");
        let damaged = Read::whole(file).decode(Decode::codec(CodecId::ZSTD).raw_len(5));
        let declared = Read::whole(file).decode(Decode::codec(CodecId::STORED).raw_len(5));
        let refused = Read::whole(file).supplied(|_| None::<Vec<u8>>);
        fails_at(bench, &queue, "missing", Read::whole(bench.open("missing")));
        fails_at(bench, &queue, "folder", Read::whole(bench.open("folder")));
        fails_at(bench, &queue, "data", Read::range(file, 1000, 1));
        fails_at(bench, &queue, "data", Read::range(file, u64::MAX, 2));
        fails_at(
            bench,
            &queue,
            "data",
            Read::whole(file).into(vec![0u8; 999]),
        );
        fails_at(bench, &queue, "data", damaged);
        fails_at(bench, &queue, "data", declared);
        fails_at(bench, &queue, "data", refused);
        fails_at(bench, &queue, "data", Write::at(file, 0, vec![1u8; 10]));
        fails_at(bench, &queue, "data", Write::append(file, vec![1u8; 10]));
        fails_at(bench, &queue, "missing", FileOp::remove(path("missing")));
        let rename = FileOp::rename(path("missing"), path("other"));
        fails_at(bench, &queue, "missing", rename);
        fails_at(
            bench,
            &queue,
            "folder",
            FileOp::replace(path("folder"), vec![1u8; 10]),
        );
        let opened = bench
            .storage
            .opened(bench.open("missing"))
            .expect("room")
            .wait();
        fails_locally(&path("missing"), opened);
        let missing = path("missing");
        let opened = bench.storage.open_local(&missing, FileOptions::default());
        fails_locally(&missing, opened);
    });
}

#[test]
#[expect(unsafe_code, reason = "lends memory")]
fn borrowed_bytes_are_written_appended_and_replace_a_file() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.open_for_writing("own");
        let (head, tail) = (bench.bytes(70_000), b"the end");
        // SAFETY: both outlive their requests, which are waited for.
        let requests = unsafe {
            [
                Write::borrowed(file, Some(0), head.as_ptr(), head.len()),
                Write::borrowed(file, None, tail.as_ptr(), tail.len()),
            ]
        };
        for request in requests {
            let len = queue.submit(request).expect("room").outcome().result;
            assert!(len.is_ok_and(|len| [head.len(), tail.len()].contains(&(len as usize))));
        }
        let path = bench.folder.path().join("own");
        let written = std::fs::read(&path).expect("written above");
        assert!(written == [&head[..], tail].concat());
        // SAFETY: as above.
        let replace = unsafe { FileOp::replace_borrowed(&path, tail.as_ptr(), tail.len()) };
        queue
            .submit(replace)
            .expect("room")
            .wait()
            .expect("replaced");
        assert_eq!(std::fs::read(&path).expect("replaced above"), tail);
    });
}
