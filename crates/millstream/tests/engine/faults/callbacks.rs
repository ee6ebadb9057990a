//! Code of the application that misbehaves: decoders that lie, sources, suppliers, wakers and log
//! hooks that panic, callbacks that wait for the storage that runs them.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use millstream::{
    BlockSource, BlockTable, Buffer, Codec, CodecError, CodecId, Decode, Destination, Error,
    ErrorKind, Fence, FileId, FileOp, FileOptions, Group, LogHook, Place, Progress, Queue,
    QueueOptions, Read, Storage, StreamDecoder, Ticket,
};
use millstream_testing::{this_test, wait_for};

use crate::faults::rig::{PATIENCE, Rig, each, failure, landed, pattern};

const CODEC: CodecId = CodecId(0x90);

/// Opens a file that the test writes into `folder`.
fn file_of(rig: &Rig, folder: &tempfile::TempDir, content: &[u8]) -> FileId {
    let path = folder.path().join("a");
    std::fs::write(&path, content).expect("written");
    rig.storage.open(path, FileOptions::default())
}

/// Reports bytes that it neither took nor wrote.
#[derive(Clone, Copy)]
enum Lie {
    Produced,
    ProducedAndEnded,
    Consumed,
    Overflow,
    Nothing,
    Panic,
}

struct Liar {
    lie: Lie,
    longest: Arc<AtomicUsize>,
}

impl StreamDecoder for Liar {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        self.longest.fetch_max(raw.len(), Ordering::SeqCst);
        let (consumed, produced, at_end) = match self.lie {
            Lie::Produced => (stored.len(), raw.len() + 1000, false),
            Lie::ProducedAndEnded => (stored.len(), raw.len() + 1000, true),
            Lie::Consumed => (stored.len() + 1, 0, false),
            Lie::Overflow => (usize::MAX, usize::MAX, true),
            Lie::Nothing => (0, 0, false),
            Lie::Panic => panic!("a decoder panics"),
        };
        Ok(Progress {
            consumed,
            produced,
            at_end,
        })
    }
}

struct Liars {
    lie: Lie,
    longest: Arc<AtomicUsize>,
}

impl Codec for Liars {
    fn is_stream(&self) -> bool {
        true
    }

    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        let (lie, longest) = (self.lie, Arc::clone(&self.longest));
        Some(Box::new(Liar { lie, longest }))
    }
}

#[test]
fn a_stream_decoder_that_lies_fails_its_request_and_gets_no_memory_beyond_it() {
    const RAW_LEN: usize = 100_000;
    each(this_test!(), |name, mut options| {
        let lies = [
            (Lie::Produced, ErrorKind::Application),
            (Lie::ProducedAndEnded, ErrorKind::Application),
            (Lie::Consumed, ErrorKind::Application),
            (Lie::Overflow, ErrorKind::Application),
            (Lie::Nothing, ErrorKind::RawSize),
            (Lie::Panic, ErrorKind::Application),
        ];
        let longest = Arc::new(AtomicUsize::new(0));
        let id = |index| CodecId(CODEC.0 + index as u8);
        for (index, (lie, _)) in lies.iter().enumerate() {
            let (lie, longest) = (*lie, Arc::clone(&longest));
            options.codec(id(index), Liars { lie, longest });
        }
        options.block_bytes = 64 << 10;
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        // Several windows, so that a second call would follow the first.
        let content = pattern(8 << 20);
        let file = file_of(&rig, &folder, &content);
        for (index, (_, kind)) in lies.into_iter().enumerate() {
            let decode = Decode::codec(id(index)).raw_len(RAW_LEN as u64);
            let error = failure(rig.submit(Read::whole(file).decode(decode)));
            assert_eq!(error.kind(), kind, "{name} {index}: {error}");
        }
        let longest = longest.load(Ordering::SeqCst);
        assert!(longest <= RAW_LEN, "{name}: a slice of {longest} bytes");
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        rig.finish();
    });
}

struct PanickingSource;

impl BlockSource for PanickingSource {
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), Error> {
        panic!("a source panics")
    }

    fn path(&self) -> Option<Arc<Path>> {
        panic!("a source panics")
    }
}

#[test]
fn a_panic_of_a_block_source_or_supplier_fails_its_request_and_no_worker() {
    each(this_test!(), |name, mut options| {
        options.threads.workers = Some(2);
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(8192);
        let file = file_of(&rig, &folder, &content);
        let mut table = BlockTable::new();
        table.push(CodecId::STORED, 0..4096, 4096);
        table.push(CodecId::STORED, 0..4096, 4096);
        table.external_block();
        let decode = Decode::table(table.external(Arc::new(PanickingSource)));
        // More than there are workers.
        for _ in 0..4 {
            let read = Read::range(file, 0, 4096).decode(decode.clone());
            let error = failure(rig.submit(read));
            assert_eq!(error.kind(), ErrorKind::Application, "{name}: {error}");
            let supply = |_| -> Option<Vec<u8>> { panic!("a supplier panics") };
            let error = failure(rig.submit(Read::range(file, 0, 4096).supplied(supply)));
            assert_eq!(error.kind(), ErrorKind::Application, "{name}: {error}");
        }
        let mut table = BlockTable::new();
        table.push(CodecId::STORED, 0..4096, 4096);
        table.push(CodecId::STORED, 4096..8192, 4096);
        let read = Read::whole(file).decode(Decode::table(table));
        assert!(landed(rig.submit(read))[..] == content, "{name}");
        rig.finish();
    });
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics")
    }
}

#[test]
fn a_panicking_waker_and_a_panicking_log_hook_stop_nothing() {
    each(this_test!(), |name, mut options| {
        let lines = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&lines);
        let hook: LogHook = Arc::new(move |_, _| {
            seen.fetch_add(1, Ordering::SeqCst);
            panic!("a log hook panics");
        });
        options.log = Some(hook);
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(8192);
        let file = file_of(&rig, &folder, &content);
        let fence = Fence::new(0);
        let gated = Read::range(file, 0, 4096).after(&fence, 1);
        let mut tickets = [0; 2].map(|_| rig.submit(Read::whole(file).after(&fence, 1)));
        let waker = Waker::from(Arc::new(PanickingWaker));
        let mut polled = rig.submit(gated);
        let context = &mut Context::from_waker(&waker);
        assert!(polled.poll_outcome(context).is_pending(), "{name}");
        for ticket in &mut tickets {
            assert!(ticket.poll_outcome(context).is_pending(), "{name}");
        }
        fence.signal(1);
        assert!(landed(polled)[..] == content[..4096], "{name}");
        for ticket in tickets {
            assert!(landed(ticket)[..] == content, "{name}");
        }
        for line in 0..10 {
            let text = format!("line {line}");
            rig.storage.log(millstream::LogLevel::Warning, text);
        }
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        let are_logged = wait_for(|| lines.load(Ordering::SeqCst) >= 10);
        assert!(are_logged, "{name}: a panic ends the log");
        rig.finish();
    });
}

/// What the callback below waits for. `group` has one request, which waits for `fence`.
struct Handles {
    storage: Storage,
    queue: Queue,
    full: Queue,
    fence: Fence,
    group: Group,
    file: FileId,
}

/// The results of the waits, and a ticket that was waited for.
type Waited = (Vec<(&'static str, Option<ErrorKind>)>, Ticket<Buffer>);

/// A codec that waits for its own storage in every way there is.
struct Waiting {
    handles: Arc<Mutex<Option<Handles>>>,
    results: Mutex<Sender<Waited>>,
}

impl Waiting {
    fn wait(handles: &Handles) -> Waited {
        let Handles {
            storage,
            queue,
            full,
            fence,
            group,
            file,
        } = handles;
        let read = || Read::range(*file, 0, 16);
        // Held: a request that has completed can be claimed on any thread.
        let mut ticket = queue.submit(read().after(fence, 1)).expect("there is room");
        let fence_at = storage.wait(fence.at(1), None);
        let results = vec![
            ("Ticket::wait", ticket.wait().map(drop)),
            ("Queue::drain", queue.drain(None).map(drop)),
            (
                "Queue::wait_completions",
                queue.wait_completions(None).map(drop),
            ),
            ("Fence::wait", fence.wait(1, None).map(drop)),
            ("Group::wait", group.wait(None).map(drop)),
            ("Storage::wait", fence_at.map(drop)),
            ("Queue::submit", full.submit(read()).map(drop)),
        ];
        let kinds = results.into_iter();
        let kind = |result: Result<(), Error>| result.err().map(|error| error.kind());
        let kinds = kinds.map(|(what, result)| (what, kind(result)));
        (kinds.collect(), ticket)
    }
}

impl Codec for Waiting {
    fn decode(&self, _: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        let handles = self.handles.lock().expect("no panic");
        let waited = Waiting::wait(handles.as_ref().expect("set by the test"));
        let sender = self.results.lock().expect("no panic");
        sender.send(waited).expect("received");
        Ok(raw.len())
    }
}

fn wait_in_a_callback(name: &'static str, mut options: millstream::StorageOptions) {
    let handles = Arc::new(Mutex::new(None));
    let (sender, results) = channel();
    let codec = Waiting {
        handles: Arc::clone(&handles),
        results: Mutex::new(sender),
    };
    options.codec(CODEC, codec);
    let rig = Rig::new(name, options);
    let folder = tempfile::tempdir().expect("a folder");
    let content = pattern(8192);
    let file = file_of(&rig, &folder, &content);
    let (fence, group) = (Fence::new(0), Group::new());
    let mut one = QueueOptions::default();
    one.capacity = 1;
    let full = rig.storage.queue(one).expect("a queue");
    let held = Read::range(file, 0, 16).after(&fence, 1).group(&group);
    let held = full.submit(held).expect("accepted");
    *handles.lock().expect("no panic") = Some(Handles {
        storage: rig.storage.clone(),
        queue: rig.queue.clone(),
        full,
        fence: fence.clone(),
        group,
        file,
    });
    let decode = Decode::codec(CODEC).raw_len(100);
    let decoded = landed(rig.submit(Read::whole(file).decode(decode)));
    assert_eq!(decoded.len(), 100, "{name}");
    let (kinds, ticket) = results.recv().expect("the callback has run");
    for (what, kind) in kinds {
        let wanted = match what {
            "Queue::submit" => ErrorKind::QueueFull,
            _ => ErrorKind::OnStorageThread,
        };
        assert_eq!(kind, Some(wanted), "{name}: {what}");
    }
    fence.signal(1);
    assert!(
        landed(ticket)[..] == content[..16],
        "{name}: it stays valid"
    );
    assert!(landed(held)[..] == content[..16], "{name}");
    *handles.lock().expect("no panic") = None;
    assert!(rig.queue.drain(Some(PATIENCE)).expect("drained"), "{name}");
    rig.finish();
}

#[test]
fn a_callback_that_waits_for_its_storage_gets_an_error_instead_of_a_deadlock() {
    each(this_test!(), wait_in_a_callback);
}

#[test]
fn a_callback_of_a_pumped_storage_that_waits_for_it_gets_an_error_instead_of_a_deadlock() {
    each(this_test!(), |name, mut options| {
        options.threads.pumped = true;
        wait_in_a_callback(name, options);
    });
}

/// Opens a file when it is dropped.
struct OpensWhenDropped(Storage, std::path::PathBuf);

impl Drop for OpensWhenDropped {
    fn drop(&mut self) {
        self.0.open(&self.1, FileOptions::default());
    }
}

#[test]
fn a_job_that_ended_before_a_sync_is_taken_in_is_not_forgotten_when_more_mail_comes_meanwhile() {
    each(this_test!(), |name, mut options| {
        options.threads.pumped = true;
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4096);
        let file = file_of(&rig, &folder, &content);
        let gate = Fence::new(0);
        let opens = OpensWhenDropped(rig.storage.clone(), folder.path().join("a"));
        let held = Read::whole(file).after(&gate, 1).tag(9);
        let held = held.supplied(move |len| {
            let _opens = &opens;
            Some(vec![0; len])
        });
        rig.queue.detach(held).expect("accepted");
        while rig.storage.pump() {}
        let asked = Arc::new(AtomicBool::new(false));
        let called = Arc::clone(&asked);
        let mut ticket = rig.submit(Read::whole(file).supplied(move |len| {
            called.store(true, Ordering::Relaxed);
            Some(vec![0; len])
        }));
        // A pump ends with the jobs: what comes of them is mail.
        while !asked.load(Ordering::Relaxed) {
            rig.storage.pump();
        }
        // The drop posts mail in the round in which the sync is taken in, which takes mail again.
        rig.queue.cancel_tagged(!0, 9);
        rig.queue.detach(FileOp::sync(file)).expect("accepted");
        let landed = ticket.wait_timeout(PATIENCE).expect("it may wait");
        let landed = landed.map(|outcome| outcome.memory);
        assert!(landed == Some(Some(content)), "{name}");
        rig.finish();
    });
}

#[test]
fn a_slow_log_hook_holds_up_no_request() {
    each(this_test!(), |name, mut options| {
        let (release, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let hook: LogHook = Arc::new(move |_, _| {
            let gate = gate.lock().unwrap_or_else(|error| error.into_inner());
            let _ = gate.recv_timeout(PATIENCE);
        });
        options.log = Some(hook);
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(8192);
        let file = file_of(&rig, &folder, &content);
        rig.storage.log(millstream::LogLevel::Warning, "a line");
        let read = Read::whole(file).timeout(Duration::from_secs(30));
        assert!(landed(rig.submit(read))[..] == content, "{name}");
        drop(release);
        rig.finish();
    });
}

/// Panics when it is dropped.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn memory_of_the_application_whose_drop_panics_ends_no_thread() {
    each(this_test!(), |name, options| {
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4096);
        let file = file_of(&rig, &folder, &content);
        let gate = Fence::new(0);
        for _ in 0..4 {
            let bomb = PanicsWhenDropped;
            let read = Read::whole(file).after(&gate, 1).tag(9);
            let read = read.supplied(move |len| {
                let _bomb = &bomb;
                Some(vec![0; len])
            });
            rig.queue.detach(read).expect("accepted");
        }
        rig.queue.cancel_tagged(!0, 9);
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        rig.finish();
    });
}

/// A decoder that copies, and panics when it is dropped.
struct DoomedDecoder;

impl StreamDecoder for DoomedDecoder {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        let count = stored.len().min(raw.len());
        raw[..count].copy_from_slice(&stored[..count]);
        Ok(Progress {
            consumed: count,
            produced: count,
            at_end: true,
        })
    }
}

impl Drop for DoomedDecoder {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

struct DoomedDecoders;

impl Codec for DoomedDecoders {
    fn is_stream(&self) -> bool {
        true
    }

    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(DoomedDecoder))
    }
}

/// A source of ones that panics when it is dropped.
struct DoomedSource;

impl BlockSource for DoomedSource {
    fn read_at(&self, _: u64, into: &mut [u8]) -> Result<(), Error> {
        into.fill(1);
        Ok(())
    }

    fn path(&self) -> Option<Arc<Path>> {
        None
    }
}

impl Drop for DoomedSource {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_decoder_or_block_source_whose_drop_panics_ends_no_thread() {
    each(this_test!(), |name, mut options| {
        options.codec(CODEC, DoomedDecoders);
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4 << 20);
        let file = file_of(&rig, &folder, &content);
        let decoded = |raw_len| {
            let decode = Decode::codec(CODEC).raw_len(raw_len);
            rig.submit(Read::whole(file).decode(decode))
        };
        for _ in 0..2 {
            assert!(landed(decoded(4 << 20))[..] == content, "{name}");
            assert_eq!(failure(decoded(100)).kind(), ErrorKind::RawSize, "{name}");
            let mut table = BlockTable::new();
            table.push(CodecId::STORED, 0..4096, 4096);
            table.push(CodecId::STORED, 0..4096, 4096);
            table.external_block();
            let decode = Decode::table(table.external(Arc::new(DoomedSource)));
            let bytes = landed(rig.submit(Read::range(file, 0, 4096).decode(decode)));
            assert!(bytes[..4096] == content[..4096], "{name}");
            assert!(bytes[4096..].iter().all(|&byte| byte == 1), "{name}");
        }
        rig.finish();
    });
}

/// Memory that says once where it is, and panics when it is asked again.
struct AskedOnce {
    bytes: Vec<u8>,
    asked: bool,
}

#[expect(unsafe_code, reason = "a destination of the application")]
// SAFETY: the vector's memory is its own, and neither grown nor moved while the value lives.
unsafe impl Destination for AskedOnce {
    fn place(&mut self) -> Place {
        assert!(!std::mem::replace(&mut self.asked, true), "asked again");
        self.bytes.place()
    }
}

#[test]
fn memory_of_the_application_is_asked_once_where_it_is() {
    each(this_test!(), |name, options| {
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(1 << 20);
        let file = file_of(&rig, &folder, &content);
        let memory = |len| AskedOnce {
            bytes: vec![0; len],
            asked: false,
        };
        let mut table = BlockTable::new();
        table.push(CodecId::STORED, 0..8192, 8192);
        let trimmed = Decode::table(table.trim(100, 5000));
        for _ in 0..2 {
            let whole = landed(rig.submit(Read::whole(file).into(memory(1 << 20))));
            assert!(whole.bytes == content, "{name}");
            let read = Read::range(file, 0, 8192).decode(trimmed.clone());
            let some = landed(rig.submit(read.into(memory(5000))));
            assert!(some.bytes == content[100..5100], "{name}");
            let read = Read::range(file, 7, 5000).supplied(move |len| Some(memory(len)));
            let supplied = landed(rig.submit(read));
            assert!(supplied.bytes == content[7..5007], "{name}");
        }
        rig.finish();
    });
}

/// Memory that panics when it is dropped.
struct DoomedMemory(Vec<u8>);

#[expect(unsafe_code, reason = "a destination of the application")]
// SAFETY: as above.
unsafe impl Destination for DoomedMemory {
    fn place(&mut self) -> Place {
        self.0.place()
    }
}

impl Drop for DoomedMemory {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn memory_supplied_too_late_whose_drop_panics_ends_no_thread() {
    each(this_test!(), |name, options| {
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4096);
        let file = file_of(&rig, &folder, &content);
        let mut timeout = Duration::from_millis(10);
        let release = loop {
            let (release, gate) = channel::<()>();
            let (started, begun) = channel();
            let supply = move |len| {
                let _ = started.send(());
                let _ = gate.recv_timeout(PATIENCE);
                Some(DoomedMemory(vec![0; len]))
            };
            let read = Read::whole(file).supplied(supply).timeout(timeout);
            assert_eq!(failure(rig.submit(read)).kind(), ErrorKind::TimedOut);
            if begun.try_recv().is_ok() {
                break release;
            }
            timeout *= 2;
        };
        let jobs = rig.storage.stats().jobs;
        drop(release);
        let has_come = wait_for(|| rig.storage.stats().jobs != jobs);
        assert!(has_come, "{name}: the memory does not come");
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        rig.finish();
    });
}

#[test]
fn a_wait_inside_a_polled_future_loses_no_wake_up() {
    each(this_test!(), |name, options| {
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let file = file_of(&rig, &folder, &pattern(1 << 20));
        for round in 0..200 {
            let fence = Fence::new(0);
            let mut ticket = Some(rig.submit(Read::whole(file)));
            let mut reached = Box::pin(fence.at(1));
            let waited = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_micros(10 * (round % 16)));
                    fence.signal(1);
                });
                let both = std::future::poll_fn(|context| {
                    let polled = reached.as_mut().poll(context);
                    if let Some(mut ticket) = ticket.take() {
                        ticket.wait().expect("read");
                    }
                    polled
                });
                rig.storage.wait(both, Some(PATIENCE))
            });
            assert_eq!(waited.ok(), Some(Some(())), "{name}: round {round}");
        }
        rig.finish();
    });
}
