//! Appends: where they land and in which order, whatever fails, ends, waits or races.

use std::fs;
use std::ops::Deref;
use std::path::Path;

use millstream::{Access, FileId, Queue, QueueOptions, Ticket, WaitsFor, Write};
use millstream_io::Errno;
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use millstream_testing::wait_for;

use crate::faults::rig::{Rig, WRITING, failure, landed};
use crate::support::{options, over_sim};

/// A storage over the simulated disk, with its file "log" open.
struct Log {
    files: SimFiles,
    rig: Rig,
    file: FileId,
}

impl Deref for Log {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Log {
    fn new() -> Log {
        Log::on(SimOptions::default(), false)
    }

    fn on(disk: SimOptions, pumped: bool) -> Log {
        let (sim, files) = Sim::new(disk);
        files.add("log", b"0123456789".to_vec(), SimFileOptions::default());
        let mut options = over_sim(sim, &files, Access::Auto);
        options.threads.pumped = pumped;
        let rig = Rig::new("sim", options);
        let file = rig.storage.open("log", WRITING);
        rig.opened(file);
        Log { files, rig, file }
    }

    fn queue(&self) -> Queue {
        let mut options = QueueOptions::default();
        options.capacity = 1 << 14;
        self.storage.queue(options).expect("a queue")
    }

    fn append_to(&self, queue: &Queue, byte: u8, len: usize) -> Ticket<Vec<u8>> {
        let append = Write::append(self.file, vec![byte; len]);
        queue.submit(append).expect("accepted")
    }

    /// The next `count` writes of the log hang.
    fn hang(&self, count: u64) {
        self.files.hang(Path::new("log"), 0..1 << 30, Some(count));
    }

    fn hangs(&self) {
        assert!(wait_for(|| self.files.hung_count() == 1));
    }

    fn content(&self) -> String {
        let content = self.files.content(Path::new("log")).expect("there");
        String::from_utf8_lossy(&content).into_owned()
    }
}

/// Waits until a request waits for a cause.
fn waits(ticket: &Ticket<Vec<u8>>, cause: WaitsFor) {
    let is_cause = wait_for(|| ticket.waits_for() == Some(cause));
    assert!(is_cause, "it waits for {:?}", ticket.waits_for());
}

#[test]
fn small_appends_that_wait_are_one_operation_of_up_to_a_mebibyte() {
    let log = Log::new();
    log.hang(1);
    let first = log.append_to(&log.queue, b'A', 4096);
    log.hangs();
    let before = log.storage.stats();
    let queue = log.queue();
    let lined: Vec<_> = (0..512)
        .map(|_| log.append_to(&queue, b'B', 4096))
        .collect();
    waits(&lined[511], WaitsFor::Earlier);
    log.files.release_hung();
    landed(first);
    lined.into_iter().for_each(|ticket| drop(landed(ticket)));
    let after = log.storage.stats();
    assert_eq!(after.operations - before.operations, 2);
    assert_eq!(after.merged_operations - before.merged_operations, 2);
    assert_eq!(log.content().len(), 10 + 513 * 4096);
}

#[test]
fn an_append_behind_many_canceled_ones_ends() {
    let log = Log::new();
    let queue = log.queue();
    log.hang(1);
    let mut all = vec![log.append_to(&queue, b'A', 8)];
    log.hangs();
    // It fills the next operation.
    all.push(log.append_to(&queue, b'A', 1 << 20));
    let canceled: Vec<_> = (0..4000).map(|_| log.append_to(&queue, b'C', 8)).collect();
    all.push(log.append_to(&queue, b'A', 8));
    waits(&all[2], WaitsFor::Earlier);
    canceled.iter().for_each(Ticket::cancel);
    for ticket in canceled {
        failure(ticket);
    }
    log.files.release_hung();
    for ticket in all {
        landed(ticket);
    }
}

#[test]
fn an_append_follows_a_write_that_landed_where_an_append_failed() {
    for seed in 0..40 {
        let disk = SimOptions {
            seed,
            latency_min_ns: 1000,
            latency_max_ns: 1_000_000,
            reorder: true,
            ..SimOptions::default()
        };
        let log = Log::on(disk, true);
        log.files
            .fail(Path::new("log"), 100..101, Errno::IO, Some(1));
        let mut batch = log.queue.batch();
        let append = batch.add(Write::append(log.file, vec![b'A'; 200]));
        let write = batch.add(Write::at(log.file, 10, vec![b'W'; 50]));
        batch.submit();
        landed(write.expect("accepted"));
        failure(append.expect("accepted"));
        log.append(log.file, b"NNNNN");
        let text = log.content();
        assert!(
            !text.contains("NW"),
            "{seed}: it has overwritten a write: {text}"
        );
    }
}

#[test]
fn an_append_follows_a_write_that_was_canceled_too_late() {
    let log = Log::new();
    log.hang(1);
    let write = log.submit(Write::at(log.file, 10, vec![b'W'; 50]));
    log.hangs();
    write.cancel();
    log.files.release_hung();
    failure(write);
    log.append(log.file, b"NNNNN");
    assert!(log.content().ends_with("NNNNN"), "{}", log.content());
}

#[test]
fn appends_in_line_wait_while_their_queue_is_paused() {
    let log = Log::new();
    let other = log.queue();
    log.hang(1);
    let first = log.append_to(&log.queue, b'A', 5);
    log.hangs();
    let lined: Vec<_> = (0..100).map(|_| log.append_to(&other, b'B', 5)).collect();
    waits(&lined[99], WaitsFor::Earlier);
    other.pause();
    log.files.release_hung();
    landed(first);
    waits(&lined[99], WaitsFor::Pause);
    assert_eq!(log.content(), "0123456789AAAAA");
    other.resume();
    lined.into_iter().for_each(|ticket| drop(landed(ticket)));
    assert_eq!(log.content().len(), 15 + 500);
}

#[test]
fn an_append_whose_queue_was_paused_goes_before_later_ones_of_its_queue() {
    let log = Log::on(SimOptions::default(), true);
    let pumped = |what: &dyn Fn() -> bool| {
        assert!(wait_for(|| {
            log.storage.pump();
            what()
        }));
    };
    let other = log.queue();
    log.hang(1);
    let mut all = vec![log.append_to(&log.queue, b'A', 5)];
    pumped(&|| log.files.hung_count() == 1);
    let paused = log.append_to(&other, b'1', 5);
    // Too long to be written with others.
    all.push(log.append_to(&log.queue, b'A', 100_000));
    all.push(log.append_to(&other, b'2', 5));
    pumped(&|| all[2].waits_for() == Some(WaitsFor::Earlier));
    other.pause();
    log.files.release_hung();
    log.hang(1);
    pumped(&|| paused.waits_for() == Some(WaitsFor::Pause) && log.files.hung_count() == 1);
    other.resume();
    pumped(&|| paused.waits_for() == Some(WaitsFor::Earlier));
    log.files.release_hung();
    all.push(paused);
    all.into_iter().for_each(|ticket| drop(landed(ticket)));
    let text = log.content();
    assert!(text.ends_with("1111122222"), "{}", &text[text.len() - 20..]);
}

#[test]
fn the_first_append_goes_to_the_end_that_the_file_has_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    fs::write(&path, b"0123456789").expect("written");
    let rig = Rig::new("auto", options(|_| {}));
    let file = rig.storage.open(&path, WRITING);
    assert_eq!(rig.opened(file), 10);
    fs::write(&path, b"0123456789-others-").expect("written");
    rig.append(file, b"own");
    let found = fs::read_to_string(&path).expect("there");
    assert_eq!(found, "0123456789-others-own");
}

#[test]
fn a_fast_log_is_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let rig = Rig::new("auto", options(|_| {}));
    let mut options = QueueOptions::default();
    options.capacity = 1 << 16;
    let queue = rig.storage.queue(options).expect("a queue");
    let file = rig.storage.open(&path, WRITING);
    let mut random = fastrand::Rng::with_seed(3);
    for number in 0..100_000u32 {
        let len = random.usize(8..800);
        let mut record = number.to_le_bytes().to_vec();
        record.extend((len as u32).to_le_bytes());
        record.resize(len, 0);
        queue.detach(Write::append(file, record)).expect("accepted");
    }
    assert!(queue.drain(None).expect("drained"));
    let bytes = fs::read(&path).expect("there");
    let (mut rest, mut next) = (&bytes[..], 0);
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four"));
        let (own, len) = (number(0), number(4) as usize);
        assert_eq!(own, next, "in order");
        next = own + 1;
        rest = &rest[len..];
    }
    assert_eq!(next, 100_000);
}
