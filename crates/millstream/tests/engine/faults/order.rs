//! What waits, and what takes effect in its place: fences, pauses, bandwidth, ordered work on
//! names, the room of a queue, waits that end with the storage.

use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::{
    BlockSource, BlockTable, Codec, CodecError, CodecId, Decode, Error, ErrorKind, Fence, FileOp,
    FileOptions, Priority, QueueOptions, Read, RequestDecoder, Scratch, StreamDecoder, Write,
};
use millstream_testing::this_test;

use crate::faults::rig::{PATIENCE, Rig, WRITING, each, failure_kind, landed, pattern, result};

/// A file with this content, named for its length.
fn file_of(rig: &Rig, folder: &tempfile::TempDir, content: &[u8]) -> millstream::FileId {
    let path = folder.path().join(content.len().to_string());
    fs::write(&path, content).expect("written");
    rig.storage.open(path, FileOptions::default())
}

#[test]
fn work_on_names_that_ends_before_its_turn_holds_up_nothing() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let file = file_of(&rig, &folder, &pattern(4096));
        let victim = folder.path().join("victim");
        fs::write(&victim, b"stays").expect("written");
        for timeout in [None, Some(Duration::from_millis(1))] {
            let (gate, reached) = (Fence::new(0), Fence::new(0));
            let mut batch = rig.queue.batch();
            let first = batch.add(Read::range(file, 0, 16).after(&gate, 1));
            let remove = FileOp::remove(&victim);
            let remove = match timeout {
                Some(timeout) => remove.timeout(timeout),
                None => remove,
            };
            let remove = batch.add(remove).expect("accepted");
            batch.signal(&reached, 1).expect("accepted");
            batch.submit();
            // Taken in before it is canceled: a later request has completed.
            landed(rig.submit(Read::range(file, 0, 16)));
            match timeout {
                Some(_) => assert_eq!(failure_kind(remove), ErrorKind::TimedOut, "{name}"),
                None => {
                    remove.cancel();
                    assert_eq!(failure_kind(remove), ErrorKind::Canceled, "{name}");
                }
            }
            gate.signal(1);
            landed(first.expect("accepted"));
            assert_eq!(reached.wait(1, Some(PATIENCE)).ok(), Some(true), "{name}");
            assert_eq!(rig.queue.drain(Some(PATIENCE)).ok(), Some(true), "{name}");
            assert!(victim.exists(), "{name}");
        }
        rig.finish();
    });
}

#[test]
fn appends_behind_one_fence_keep_their_order() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let path = folder.path().join("log");
        let file = rig.storage.open(&path, WRITING);
        let gate = Fence::new(0);
        let lines = (0..100u8).map(|line| Write::append(file, vec![line; 3]).after(&gate, 1));
        let tickets = rig.submit_all(lines);
        // They wait: what was submitted after them has completed.
        let other = file_of(&rig, &folder, &pattern(64));
        landed(rig.submit(Read::whole(other)));
        gate.signal(1);
        for ticket in tickets {
            landed(ticket);
        }
        let expected: Vec<u8> = (0..100u8).flat_map(|line| [line; 3]).collect();
        assert!(fs::read(&path).expect("there") == expected, "{name}");
        rig.finish();
    });
}

#[test]
fn a_drain_that_times_out_takes_no_room() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let file = file_of(&rig, &folder, &pattern(4096));
        let mut small = QueueOptions::default();
        small.capacity = 4;
        let queue = rig.storage.queue(small).expect("a queue");
        let gate = Fence::new(0);
        let held = queue.submit(Read::range(file, 0, 16).after(&gate, 1));
        for _ in 0..20 {
            assert_eq!(
                queue.drain(Some(Duration::ZERO)).ok(),
                Some(false),
                "{name}"
            );
        }
        assert_eq!(queue.live(), 1, "{name}");
        let other = queue.try_submit(Read::range(file, 0, 16)).expect("room");
        landed(other);
        gate.signal(1);
        landed(held.expect("accepted"));
        assert_eq!(queue.drain(Some(PATIENCE)).ok(), Some(true), "{name}");
        rig.finish();
    });
}

#[test]
fn a_request_larger_than_the_byte_budget_does_not_break_its_count() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4096);
        let rig = Rig::new(name, options);
        let file = file_of(&rig, &folder, &content);
        let mut small = QueueOptions::default();
        small.bytes = Some(1 << 20);
        let queue = rig.storage.queue(small).expect("a queue");
        let gate = Fence::new(0);
        let huge = Read::range(file, 0, u64::MAX - 1).after(&gate, 1);
        let huge = queue.submit(huge).expect("accepted");
        let whole = queue.submit(Read::whole(file)).expect("accepted");
        assert!(landed(whole)[..] == content, "{name}");
        gate.signal(1);
        assert_eq!(failure_kind(huge), ErrorKind::PastEnd, "{name}");
        let again = queue.submit(Read::whole(file)).expect("accepted");
        assert!(landed(again)[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn a_thread_that_waits_for_the_byte_budget_sleeps() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4096);
        let rig = Rig::new(name, options);
        let file = file_of(&rig, &folder, &content);
        let mut small = QueueOptions::default();
        small.bytes = Some(4096);
        let queue = rig.storage.queue(small).expect("a queue");
        let gate = Fence::new(0);
        let held = queue.submit(Read::range(file, 0, 4096).after(&gate, 1));
        let spent = std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let before = processor_time();
                let ticket = queue.submit(Read::range(file, 0, 4096));
                let spent = processor_time() - before;
                landed(ticket.expect("accepted"));
                spent
            });
            std::thread::sleep(Duration::from_millis(300));
            gate.signal(1);
            waits.join().expect("no panic")
        });
        landed(held.expect("accepted"));
        // It looks for a moment before it sleeps; spinning would have taken all of the time.
        assert!(spent < Duration::from_millis(150), "{name}: {spent:?}");
        rig.finish();
    });
}

/// Processor time of the calling thread.
fn processor_time() -> Duration {
    let line = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let spent = line.split(' ').next().expect("time on a processor");
    Duration::from_nanos(spent.parse().expect("nanoseconds"))
}

#[test]
fn waits_for_completions_and_drains_end_with_the_storage() {
    each(this_test!(), |name, options| {
        let rig = Rig::new(name, options);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| rig.queue.wait_completions(None));
            std::thread::sleep(Duration::from_millis(20));
            rig.storage.close(PATIENCE);
            let waited = waits.join().expect("no panic");
            assert_eq!(waited.map_err(|error| error.kind()), Err(ErrorKind::Closed));
        });
        let after = rig.queue.wait_completions(None);
        assert_eq!(after.map_err(|error| error.kind()), Err(ErrorKind::Closed));
        assert_eq!(
            rig.queue.drain(None).ok(),
            Some(true),
            "{name}: all completed"
        );
    });
}

/// 4 MiB that compress well, in one frame of several blocks, or in many frames.
fn compressed(frames: bool) -> (Vec<u8>, Vec<u8>) {
    let mut random = fastrand::Rng::with_seed(7);
    let raw: Vec<u8> = (0..8 << 20).map(|_| random.u8(0..40)).collect();
    let part = if frames { 256 << 10 } else { raw.len() };
    let frame = |part: &[u8]| {
        let (mut stored, mut scratch) = (Vec::new(), Scratch::default());
        millstream_codec::encode_block(CodecId::ZSTD, 1, &mut scratch, part, &mut stored)
            .expect("encodes");
        stored
    };
    (raw.chunks(part).flat_map(frame).collect(), raw)
}

#[test]
fn staged_reads_of_limited_and_paused_queues_complete() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        for frames in [false, true] {
            let (stored, raw) = compressed(frames);
            let file = file_of(&rig, &folder, &stored);
            let decode = || Decode::codec(CodecId::ZSTD).raw_len(raw.len() as u64);
            landed(rig.submit(Read::whole(file).decode(decode())));
            for round in 0..8u64 {
                let mut limited = QueueOptions::default();
                limited.bandwidth = Some(100_000_000 * (1 + round));
                let queue = rig.storage.queue(limited).expect("a queue");
                let tickets: Vec<_> = (0..3)
                    .map(|_| queue.submit(Read::whole(file).decode(decode())))
                    .collect();
                for pause in 0..round {
                    queue.pause();
                    std::thread::sleep(Duration::from_micros(100 * pause));
                    queue.resume();
                }
                for ticket in tickets {
                    assert!(landed(ticket.expect("accepted"))[..] == raw, "{name}");
                }
            }
        }
        rig.finish();
    });
}

#[test]
fn requests_of_a_limited_queue_are_served_by_priority_and_the_rest_may_be_canceled() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(1 << 20);
        let rig = Rig::new(name, options);
        let file = file_of(&rig, &folder, &content);
        landed(rig.submit(Read::whole(file)));
        let mut limited = QueueOptions::default();
        limited.bandwidth = Some(10_000);
        let queue = rig.storage.queue(limited).expect("a queue");
        let mut batch = queue.batch();
        let low: Vec<_> = (0..2000)
            .map(|at| batch.add(Read::range(file, at * 512, 512).tag(1)))
            .collect();
        let urgent = Read::range(file, 0, 4096).priority(Priority::Realtime);
        let urgent = batch.add(urgent).expect("accepted");
        batch.submit();
        landed(urgent);
        let unlimited = low.iter().flatten().filter(|ticket| ticket.is_complete());
        assert!(unlimited.count() < 2000, "{name}: the limit holds");
        queue.cancel_tagged(!0, 1);
        for ticket in low {
            if let Err(error) = result(ticket.expect("accepted")) {
                assert_eq!(error.kind(), ErrorKind::Canceled, "{name}");
            }
        }
        rig.finish();
    });
}

/// Decodes nothing: its stored bytes are the raw ones, all at once.
struct Whole;

impl Codec for Whole {
    fn raw_len(&self, _: &[u8], stored_len: u64) -> Result<Option<u64>, &'static str> {
        Ok(Some(stored_len))
    }

    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        raw.copy_from_slice(stored);
        Ok(raw.len())
    }
}

#[test]
fn reads_held_by_a_fence_leave_staging_for_the_read_that_raises_it() {
    each(this_test!(), |name, mut options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(15 << 20);
        options.staging_bytes = 64 << 20;
        options.codec(CodecId(0x90), Whole);
        let rig = Rig::new(name, options);
        let file = file_of(&rig, &folder, &content);
        let gate = Fence::new(0);
        let whole = || Read::whole(file).decode(Decode::codec(CodecId(0x90)));
        let held = rig.submit_all((0..8).map(|_| whole().write_after(&gate, 1)));
        let free = rig.submit(whole());
        assert!(landed(free)[..] == content, "{name}");
        gate.signal(1);
        for ticket in held {
            assert!(landed(ticket)[..] == content, "{name}");
        }
        rig.finish();
    });
}

#[test]
fn a_held_read_whose_file_was_closed_to_make_room_goes_on() {
    each(this_test!(), |name, mut options| {
        let folder = tempfile::tempdir().expect("a folder");
        options.descriptors = 4;
        let rig = Rig::new(name, options);
        let (stored, raw) = compressed(false);
        let file = file_of(&rig, &folder, &stored);
        let gate = Fence::new(0);
        let decode = Decode::codec(CodecId::ZSTD).raw_len(raw.len() as u64);
        let held = rig.submit(Read::whole(file).decode(decode).write_after(&gate, 1));
        for index in 0..20 {
            let path = folder.path().join(format!("other{index}"));
            fs::write(&path, pattern(64 << 10)).expect("written");
            let other = rig.storage.open(path, FileOptions::default());
            landed(rig.submit(Read::whole(other)));
        }
        gate.signal(1);
        assert!(landed(held)[..] == raw, "{name}");
        rig.finish();
    });
}

#[test]
fn a_table_of_a_hundred_thousand_tiny_blocks_is_decoded() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(300_000);
        let rig = Rig::new(name, options);
        let file = file_of(&rig, &folder, &content);
        let mut table = BlockTable::new();
        for at in (0..content.len() as u64).step_by(3) {
            table.push(CodecId::STORED, at..at + 3, 3);
        }
        let table = Arc::new(table);
        let read = || Read::whole(file).decode(Decode::table(Arc::clone(&table)));
        let tickets = rig.submit_all((0..3).map(|_| read()));
        for ticket in tickets {
            assert!(landed(ticket)[..] == content, "{name}");
        }
        rig.finish();
    });
}

/// A decoder that calls the application when it is dropped.
struct OnDrop(Box<dyn Fn() + Send + Sync>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl RequestDecoder for OnDrop {
    fn decode(&self, _: &mut Scratch, _: &[u8], _: &mut [u8]) -> Result<usize, CodecError> {
        Ok(0)
    }

    fn stream(&self) -> Result<Box<dyn StreamDecoder>, CodecError> {
        unreachable!("its request waits for a fence")
    }
}

/// The second request is canceled, and so its decoder dropped, after the close was found and before
/// the queues are looked at once more for what was submitted before that.
#[test]
fn a_read_of_a_file_that_is_opened_while_a_close_is_taken_in_finds_the_file() {
    each(this_test!(), |name, mut options| {
        options.threads.pumped = true;
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let (low, high) = low_and_high(&rig);
        let file = file_of(&rig, &folder, b"closed");
        landed(rig.submit(Read::whole(file)));
        let path = folder.path().join("opened");
        fs::write(&path, b"content").expect("written");
        let never = Fence::new(0);
        let hold = |tag, call: Box<dyn Fn() + Send + Sync>| {
            let decode = Decode::by(Arc::new(OnDrop(call)), 1);
            let held = Read::whole(file).decode(decode).after(&never, 1).tag(tag);
            low.detach(held).expect("accepted");
        };
        let queue = low.clone();
        hold(1, Box::new(move || queue.cancel_tagged(!0, 2)));
        let (storage, queue, slot) = (rig.storage.clone(), high.clone(), Arc::default());
        let ticket: Arc<Mutex<Option<_>>> = Arc::clone(&slot);
        let open_and_read = move || {
            let opened = storage.open(&path, FileOptions::default());
            let read = queue.submit(Read::whole(opened)).expect("accepted");
            *slot.lock().expect("no panic") = Some(read);
        };
        hold(2, Box::new(open_and_read));
        while rig.storage.pump() {}
        low.cancel_tagged(!0, 1);
        low.close(file).expect("accepted");
        assert_eq!(low.drain(Some(PATIENCE)).ok(), Some(true), "{name}");
        let ticket = ticket.lock().expect("no panic").take();
        let read = ticket.expect("the second request was canceled");
        assert_eq!(landed(read)[..], *b"content", "{name}");
        rig.finish();
    });
}

/// Queues of two priorities: what the second submits is taken in first.
fn low_and_high(rig: &Rig) -> (millstream::Queue, millstream::Queue) {
    let queue = |priority| {
        let mut options = QueueOptions::default();
        options.priority = priority;
        rig.storage.queue(options).expect("a queue")
    };
    (queue(Priority::Low), queue(Priority::High))
}

#[test]
fn a_sync_waits_for_writes_that_lower_queues_submitted_before_it_and_for_no_later_ones() {
    each(this_test!(), |name, mut options| {
        options.threads.pumped = true;
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let (low, high) = low_and_high(&rig);
        let path = folder.path().join("file");
        let file = rig.storage.open(&path, WRITING);
        let opened = rig.storage.opened(file).expect("accepted");
        result(opened).expect("opened");
        low.pause();
        while rig.storage.pump() {}
        let synced = Fence::new(0);
        let write = |at| Write::at(file, at, vec![7u8; 100]);
        let before = low.submit(write(0)).expect("accepted");
        let mut sync = high.submit(FileOp::sync(file)).expect("accepted");
        let after = low.submit(write(100).after(&synced, 1)).expect("accepted");
        let same = high.submit(write(200).after(&synced, 1)).expect("accepted");
        for _ in 0..1000 {
            rig.storage.pump();
        }
        assert!(!sync.is_complete(), "{name}: the write before it is paused");
        low.resume();
        sync.wait().expect("synced");
        assert!(before.is_complete(), "{name}");
        assert_eq!(fs::read(&path).expect("there"), [7u8; 100], "{name}");
        synced.signal(1);
        assert_eq!(result(after).expect("written").len(), 100);
        assert_eq!(result(same).expect("written").len(), 100);
        rig.finish();
    });
}

#[test]
fn with_threads_no_sync_overtakes_a_write_that_was_submitted_before_it() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let (low, high) = low_and_high(&rig);
        let file = rig.storage.open(folder.path().join("file"), WRITING);
        for round in 0..30u64 {
            let mut batch = low.batch();
            let writes: Vec<_> = (0..64u64)
                .map(|at| Write::at(file, (round * 64 + at) * 4096, vec![1u8; 4096]))
                .map(|write| batch.add(write).expect("accepted"))
                .collect();
            batch.submit();
            let sync = high.submit(FileOp::sync_data(file)).expect("accepted");
            result(sync).expect("synced");
            let are_done = writes.iter().all(millstream::Ticket::is_complete);
            assert!(are_done, "{name}: in round {round}");
        }
        rig.finish();
    });
}

#[test]
fn a_close_waits_for_reads_that_lower_queues_submitted_before_it_and_refuses_later_ones() {
    each(this_test!(), |name, mut options| {
        options.threads.pumped = true;
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let (low, high) = low_and_high(&rig);
        let file = file_of(&rig, &folder, &pattern(4096));
        let opened = rig.storage.opened(file).expect("accepted");
        result(opened).expect("opened");
        let before = low.submit(Read::range(file, 0, 100)).expect("accepted");
        let mut batch = high.batch();
        let own = batch.add(Read::range(file, 0, 10)).expect("accepted");
        batch.close(file).expect("accepted");
        batch.submit();
        let after = low.submit(Read::range(file, 0, 100)).expect("accepted");
        assert_eq!(landed(before)[..], pattern(100)[..], "{name}");
        assert_eq!(landed(own)[..], pattern(10)[..], "{name}");
        assert_eq!(failure_kind(after), ErrorKind::StaleFile, "{name}");
        rig.finish();
    });
}

#[test]
fn appends_by_several_ids_of_one_file_follow_one_another() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let path = folder.path().join("log");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        let open = |path: &std::path::Path, create| {
            let options = FileOptions { create, ..WRITING };
            let file = rig.storage.open(path, options);
            result(rig.storage.opened(file).expect("accepted")).expect("opened");
            file
        };
        let files = [open(&path, true), open(&path, false), open(&link, false)];
        for (file, byte) in files.into_iter().zip(b'a'..) {
            let append = Write::append(file, vec![byte; 5]);
            result(rig.submit(append)).expect("appended");
        }
        assert_eq!(
            fs::read(&path).expect("there"),
            b"aaaaabbbbbccccc",
            "{name}"
        );
        // Another id truncates the file: the next append is its first byte.
        let truncating = FileOptions {
            truncate: true,
            ..WRITING
        };
        let again = rig.storage.open(&path, truncating);
        result(rig.storage.opened(again).expect("accepted")).expect("opened");
        result(rig.submit(Write::append(files[0], b"d".to_vec()))).expect("appended");
        assert_eq!(fs::read(&path).expect("there"), b"d", "{name}");
        rig.finish();
    });
}

#[test]
fn an_append_that_was_canceled_before_it_began_leaves_no_hole() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let path = folder.path().join("log");
        let file = rig.storage.open(&path, WRITING);
        let paused = rig.storage.queue(QueueOptions::default()).expect("a queue");
        paused.pause();
        let never = paused
            .submit(Write::append(file, b"never".to_vec()))
            .expect("accepted");
        // Taken in before it is canceled: a later request has completed.
        result(rig.submit(Write::append(file, b"one".to_vec()))).expect("appended");
        never.cancel();
        assert_eq!(failure_kind(never), ErrorKind::Canceled, "{name}");
        result(rig.submit(Write::append(file, b"two".to_vec()))).expect("appended");
        assert_eq!(fs::read(&path).expect("there"), b"onetwo", "{name}");
        rig.finish();
    });
}

/// A source of blocks that has a test act while the engine drops it.
struct Drops(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl BlockSource for Drops {
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn path(&self) -> Option<Arc<std::path::Path>> {
        None
    }
}

impl Drop for Drops {
    fn drop(&mut self) {
        if let Some((dropping, go_on)) = self.0.get_mut().expect("nothing panics").take() {
            dropping.send(()).expect("the test waits");
            go_on.recv_timeout(PATIENCE).expect("the test goes on");
        }
    }
}

#[test]
fn a_sync_that_is_canceled_while_the_entries_before_it_are_taken_in_ends_as_canceled() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(folder.path().join("file"), WRITING);
        result(rig.submit(Write::at(file, 0, vec![1u8; 10]))).expect("written");
        let closed = file_of(&rig, &folder, &pattern(10));
        rig.queue.close(closed).expect("closed");
        let (dropping, is_dropping) = channel();
        let (goes_on, go_on) = channel();
        let source = Drops(Mutex::new(Some((dropping, go_on))));
        let mut table = BlockTable::new().external(Arc::new(source));
        table.push(CodecId::STORED, 0..10, 10);
        let mut batch = rig.queue.batch();
        // Refused at its intake, which drops its table.
        let stale = Read::range(closed, 0, 10).decode(Decode::table(table));
        let stale = batch.add(stale).expect("accepted");
        let sync = batch.add(FileOp::sync(file).tag(7)).expect("accepted");
        batch.submit();
        is_dropping.recv_timeout(PATIENCE).expect("taken in");
        rig.queue.cancel_tagged(u64::MAX, 7);
        goes_on.send(()).expect("the engine waits");
        assert_eq!(failure_kind(stale), ErrorKind::StaleFile, "{name}");
        // It was canceled before it began, or had begun.
        if let Err(error) = result(sync) {
            assert_eq!(error.kind(), ErrorKind::Canceled, "{name}: {error}");
        }
        rig.finish();
    });
}
