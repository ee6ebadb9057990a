//! A base file whose reads hang: only the requests that need it wait.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use millstream::{
    BlockSource, BlockTable, Buffer, CodecId, Decode, Error, ErrorKind, FileId, FileOptions, Read,
    StorageOptions, Ticket,
};
use millstream_testing::{this_test, wait_for};

use crate::faults::rig::{PATIENCE, Rig, each, each_leaking, failure, landed, pattern};

const SHORTLY: Duration = Duration::from_millis(50);
const BLOCK: usize = 4096;
const TAG: u64 = 9;

/// More external blocks than are read at a time, and than there may be jobs.
const MANY: usize = millstream::limits::JOBS_MAX + 76;
const READ_AT_A_TIME: usize =
    (millstream::limits::EXTERNAL_BYTES_MAX / millstream::limits::EXTERNAL_READ_BYTES_MIN) as usize;

#[derive(Default)]
struct Gate {
    is_open: bool,
    reads: usize,
}

/// A base of sevens that hangs until it is released.
#[derive(Default)]
struct Hung {
    gate: Mutex<Gate>,
    changed: Condvar,
}

impl Hung {
    fn reads(&self) -> usize {
        self.gate.lock().expect("no panic").reads
    }

    fn await_reads(&self, count: usize) {
        assert!(wait_for(|| self.reads() >= count), "{} reads", self.reads());
    }

    fn release(&self) {
        self.gate.lock().expect("no panic").is_open = true;
        self.changed.notify_all();
    }
}

impl BlockSource for Hung {
    fn read_at(&self, _: u64, into: &mut [u8]) -> Result<(), Error> {
        let mut gate = self.gate.lock().expect("no panic");
        gate.reads += 1;
        let opened = self
            .changed
            .wait_timeout_while(gate, 2 * PATIENCE, |gate| !gate.is_open);
        assert!(opened.expect("no panic").0.is_open, "never released");
        into.fill(7);
        Ok(())
    }

    fn path(&self) -> Option<Arc<Path>> {
        Some(Arc::from(Path::new("base")))
    }
}

/// A storage with one worker, a base that hangs, and a file.
struct Bench {
    rig: Rig,
    base: Arc<Hung>,
    file: FileId,
    content: Vec<u8>,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(name: &'static str, mut options: StorageOptions) -> Bench {
        options.threads.workers = Some(1);
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(2 * BLOCK);
        let mut bench = Bench {
            base: Arc::default(),
            file: rig.storage.open("none", FileOptions::default()),
            rig,
            content,
            folder,
        };
        bench.file = bench.file_of("a", &bench.content);
        bench
    }

    fn file_of(&self, name: &str, content: &[u8]) -> FileId {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        self.rig.storage.open(path, FileOptions::default())
    }

    /// A read of a block of its own and one of the base.
    fn read(&self) -> Read {
        let block = BLOCK as u64;
        let mut table = BlockTable::new();
        table.push(CodecId::STORED, 0..block, BLOCK as u32);
        table.push(CodecId::STORED, 0..block, BLOCK as u32);
        table.external_block();
        let base: Arc<dyn BlockSource> = Arc::clone(&self.base) as _;
        let decode = Decode::table(table.external(base));
        Read::range(self.file, 0, block).decode(decode).tag(TAG)
    }

    fn hung(&self, count: usize) -> Vec<Ticket<Buffer>> {
        let tickets = self.rig.submit_all((0..count).map(|_| self.read()));
        self.base.await_reads(count.min(READ_AT_A_TIME));
        tickets
    }

    fn check(&self, bytes: &[u8]) {
        let name = self.rig.name;
        assert!(bytes[..BLOCK] == self.content[..BLOCK], "{name}");
        assert_eq!(bytes[BLOCK..], [7; BLOCK], "{name}");
    }

    /// Checks that reads that need nothing of the base are served.
    fn others_are_served(&self) {
        let Bench { rig, content, .. } = self;
        let plain = landed(rig.submit(Read::whole(self.file)));
        assert!(plain[..] == content[..], "{}", rig.name);
        let mut stored = Vec::new();
        let mut scratch = millstream_codec::Scratch::default();
        let level = millstream_codec::default_level(CodecId::ZLIB);
        let raw = pattern(300_000);
        millstream_codec::encode_block(CodecId::ZLIB, level, &mut scratch, &raw, &mut stored)
            .expect("encoded");
        // A new file: its open and its length are calls, too.
        let file = self.file_of("encoded", &stored);
        let read = Read::whole(file).decode(Decode::codec(CodecId::ZLIB).raw_len(300_000));
        assert!(landed(rig.submit(read))[..] == raw, "{}", rig.name);
        let mut table = BlockTable::new();
        table.push(CodecId::ZLIB, 0..stored.len() as u64, 300_000);
        let read = Read::whole(file).decode(Decode::table(table));
        assert!(landed(rig.submit(read))[..] == raw, "{}", rig.name);
    }
}

#[test]
fn a_base_that_hangs_stops_only_the_requests_that_need_it() {
    each(this_test!(), |name, options| {
        let bench = Bench::new(name, options);
        let mut tickets = bench.hung(MANY);
        bench.others_are_served();
        assert_eq!(bench.base.reads(), READ_AT_A_TIME, "{name}: bounded");
        assert!(tickets.iter_mut().all(|ticket| !ticket.is_complete()));
        bench.base.release();
        for ticket in tickets {
            bench.check(&landed(ticket));
        }
        assert_eq!(bench.base.reads(), MANY, "{name}: each block is read once");
        bench.rig.finish();
    });
}

#[test]
fn requests_end_by_cancel_and_timeout_while_their_base_hangs() {
    each(this_test!(), |name, options| {
        let bench = Bench::new(name, options);
        let tickets = bench.hung(MANY);
        bench.rig.queue.cancel_tagged(!0, TAG);
        for ticket in tickets {
            assert_eq!(failure(ticket).kind(), ErrorKind::Canceled, "{name}");
        }
        // The canceled reads still hang, so this one waits for its turn.
        let timed_out = bench.read().timeout(SHORTLY);
        let memory = bench.read().timeout(SHORTLY).into(vec![0; 2 * BLOCK]);
        let timed_out = bench.rig.submit(timed_out);
        let error = failure(bench.rig.submit(memory));
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{name}: {error}");
        assert_eq!(failure(timed_out).kind(), ErrorKind::TimedOut, "{name}");
        let is_free = wait_for(|| bench.rig.storage.stats().staging_bytes == 0);
        assert!(is_free, "{name}: a read that hangs holds no staging");
        bench.others_are_served();
        assert_eq!(bench.base.reads(), READ_AT_A_TIME, "{name}");
        bench.base.release();
        bench.check(&landed(bench.rig.submit(bench.read())));
        bench.rig.finish();
    });
}

/// A read of the base that has begun hangs; the request ends at its timeout.
#[test]
fn a_timeout_ends_a_request_whose_base_is_being_read() {
    each(this_test!(), |name, options| {
        let bench = Bench::new(name, options);
        let ticket = bench.rig.submit(bench.read().timeout(6 * SHORTLY));
        let error = failure(ticket);
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{name}: {error}");
        bench.base.release();
        bench.check(&landed(bench.rig.submit(bench.read())));
        bench.rig.finish();
    });
}

#[test]
fn closing_while_a_base_hangs_returns_in_time_and_reports_it() {
    each_leaking(this_test!(), |name, options| {
        let bench = Bench::new(name, options);
        let tickets = bench.hung(READ_AT_A_TIME + 5);
        let begin = Instant::now();
        let report = bench.rig.storage.close(SHORTLY);
        assert!(begin.elapsed() < PATIENCE, "{name}: close is bounded");
        assert_eq!(report.operations, READ_AT_A_TIME, "{name}: {report:?}");
        for ticket in tickets {
            let kind = failure(ticket).kind();
            assert_eq!(kind, ErrorKind::Canceled, "{name}");
        }
        assert!(bench.rig.queue.submit(bench.read()).is_err(), "{name}");
        bench.base.release();
        drop(bench.rig);
    });
}

#[test]
fn a_close_with_enough_time_waits_for_a_base() {
    each(this_test!(), |name, options| {
        let bench = Bench::new(name, options);
        let mut tickets = bench.hung(1);
        std::thread::scope(|scope| {
            let close = scope.spawn(|| bench.rig.storage.close(PATIENCE));
            let ticket = tickets.remove(0);
            assert_eq!(failure(ticket).kind(), ErrorKind::Canceled, "{name}");
            bench.base.release();
            let report = close.join().expect("no panic");
            assert_eq!(report.operations, 0, "{name}: {report:?}");
        });
    });
}
