//! Windows of staging that only the application can free: device sinks that keep their parts, job
//! systems that keep their jobs, fences that are not signaled. Nothing else waits for them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use millstream::{
    Access, Backend, BlockTable, Buffer, Codec, CodecId, Decode, DevicePart, DeviceSink, ErrorKind,
    Fence, FileId, FileOp, FileOptions, Job, JobSystem, Priority, Queue, QueueOptions, Read,
    Storage, StorageOptions, Ticket, WaitsFor, Write,
};
use millstream_sim::{Sim, SimFileOptions, SimOptions};
use millstream_testing::{PATIENCE, wait_for};

use crate::decoding::rig::{Rig, bytes, each_backend_with, encoded};
use crate::support::{Keeper, landed, noise, over_sim};

const STAGING_BYTES: usize = 1 << 20;
/// One part, of one window.
const PART: usize = 60_000;

/// Parts that a sink may keep: half of staging, and one window outside.
const KEPT_MOST: usize = 9;

/// Little staging, which a few requests fill.
fn little() -> StorageOptions {
    let mut options = StorageOptions::default();
    options.staging_bytes = STAGING_BYTES;
    options.block_bytes = 64 << 10;
    options.threads.workers = Some(2);
    options
}

/// Requests that need nothing of the application.
struct Others {
    plain: (FileId, Vec<u8>),
    /// Of the library's codecs, of one window and of many.
    encoded: Vec<(FileId, CodecId, Vec<u8>)>,
}

impl Others {
    fn new(rig: &Rig) -> Others {
        let plain = noise(1, 300_000);
        let small = |codec| (bytes(200_000), codec);
        let all = [
            small(CodecId::ZLIB),
            small(CodecId::LZ4),
            small(CodecId::GDEFLATE),
            (noise(2, 2_000_000), CodecId::ZLIB),
            // All stored bytes at once: more than what foreign windows leave.
            (noise(3, 700_000), CodecId::LZ4_BLOCK),
        ];
        let file = |(index, (raw, codec)): (usize, (Vec<u8>, CodecId))| {
            let stored = encoded(codec, &raw);
            (rig.file_of(&format!("other{index}"), &stored), codec, raw)
        };
        Others {
            plain: (rig.file_of("plain", &plain), plain),
            encoded: all.into_iter().enumerate().map(file).collect(),
        }
    }

    /// Reads all of them in each priority, all at once.
    fn are_served(&self, queue: &Queue) {
        let (file, plain) = &self.plain;
        let submit = |read: Read| queue.submit(read).expect("accepted");
        let mut tickets: Vec<(Ticket<Buffer>, &[u8])> = Vec::new();
        let mut copied = Vec::new();
        for priority in Priority::ALL {
            let read = Read::whole(*file).priority(priority);
            tickets.push((submit(read), plain));
            let read = Read::range(*file, 0, 4096).priority(priority);
            tickets.push((submit(read), &plain[..4096]));
            // Memory that no device can read into directly goes through staging.
            let read = Read::whole(*file).into(vec![0; plain.len()]);
            copied.push(queue.submit(read.priority(priority)).expect("accepted"));
            for (file, codec, raw) in &self.encoded {
                let decode = Decode::codec(*codec).raw_len(raw.len() as u64);
                let read = Read::whole(*file).decode(decode).priority(priority);
                tickets.push((submit(read), raw));
            }
        }
        for (ticket, raw) in tickets {
            assert!(landed(ticket)[..] == *raw);
        }
        for ticket in copied {
            assert!(landed(ticket) == *plain);
        }
    }
}

/// Device reads of more parts than staging has room for, which their sink keeps.
fn keep(rig: &Rig, keeper: &Arc<Keeper>, count: usize) -> Vec<Ticket<()>> {
    let file = rig.file_of("kept", &noise(4, PART));
    let sink = || Arc::clone(keeper) as Arc<dyn DeviceSink>;
    let read = || Read::whole(file).into_device(sink());
    (0..count)
        .map(|_| rig.queue.submit(read()).expect("accepted"))
        .collect()
}

#[test]
fn a_sink_that_keeps_its_parts_stops_no_other_read() {
    each_backend_with(little, |rig| {
        let (keeper, others) = (Arc::new(Keeper::default()), Others::new(rig));
        let tickets = keep(rig, &keeper, 60);
        let is_full = || keeper.kept() == KEPT_MOST;
        assert!(wait_for(is_full));
        assert!(wait_for(|| rig.storage.stats().blocked_by_application > 0));
        let stats = rig.storage.stats();
        assert!(stats.staging_bytes <= STAGING_BYTES as u64 / 2);
        assert!(stats.windows_outside > 0);
        let last = tickets.last().expect("some");
        assert!(wait_for(|| last.waits_for() == Some(WaitsFor::Application)));
        others.are_served(&rig.queue);
        // It goes on keeping them while others come and go, as if its thread was suspended.
        others.are_served(&rig.queue);
        assert_eq!(keeper.kept(), KEPT_MOST);
        assert!(tickets.iter().all(|ticket| !ticket.is_complete()));
        keeper.let_go();
        tickets.into_iter().for_each(landed);
    });
}

/// Sends its parts to a thread.
struct Forward(Mutex<Sender<DevicePart>>);

impl Forward {
    fn to_here() -> (Arc<dyn DeviceSink>, Receiver<DevicePart>) {
        let (sender, parts) = channel();
        (Arc::new(Forward(Mutex::new(sender))), parts)
    }
}

impl DeviceSink for Forward {
    fn room(&self) -> u64 {
        u64::MAX
    }

    fn take(&self, part: DevicePart) {
        let sender = self.0.lock().expect("no panic");
        let _ = sender.send(part);
    }
}

/// Finishes each part once the other reads have completed.
fn finish_after(parts: &Receiver<DevicePart>, count: usize, others: impl Fn()) {
    for _ in 0..count {
        let part = parts.recv_timeout(PATIENCE).expect("a part comes");
        others();
        part.finish(Ok(()));
    }
}

#[test]
fn a_sink_may_wait_for_another_read_before_it_finishes_a_part() {
    const COUNT: usize = 30;
    each_backend_with(little, |rig| {
        let others = Others::new(rig);
        let file = rig.file_of("part", &noise(4, PART));
        let (sink, parts) = Forward::to_here();
        let read = || Read::whole(file).into_device(Arc::clone(&sink));
        let tickets: Vec<_> = (0..COUNT)
            .map(|_| rig.queue.submit(read()).expect("accepted"))
            .collect();
        finish_after(&parts, COUNT, || others.are_served(&rig.queue));
        tickets.into_iter().for_each(landed);
    });
}

#[test]
fn two_storages_whose_sinks_wait_for_reads_of_each_other_both_go_on() {
    const COUNT: usize = 30;
    each_backend_with(little, |rig| {
        let mut options = little();
        options.backend = Backend::Auto;
        options.abort_on_stall = true;
        let other = Storage::new(options).expect("a storage");
        let path = rig.path("raw");
        let raw = noise(5, PART);
        std::fs::write(&path, encoded(CodecId::ZLIB, &raw)).expect("written");
        let queue_of = |storage: &Storage| {
            let queue = storage.queue(QueueOptions::default()).expect("a queue");
            (queue, storage.open(&path, FileOptions::default()))
        };
        let sides = [queue_of(&rig.storage), queue_of(&other)];
        std::thread::scope(|scope| {
            for side in 0..2 {
                let ((queue, file), (from, encoded)) = (&sides[side], &sides[1 - side]);
                let raw = &raw;
                scope.spawn(move || {
                    let (sink, parts) = Forward::to_here();
                    let decode = || Decode::codec(CodecId::ZLIB).raw_len(PART as u64);
                    let read = || Read::whole(*file).into_device(Arc::clone(&sink));
                    let tickets: Vec<_> = (0..COUNT)
                        .map(|_| queue.submit(read()).expect("accepted"))
                        .collect();
                    finish_after(&parts, COUNT, || {
                        let read = Read::whole(*encoded).decode(decode());
                        let ticket = from.submit(read).expect("accepted");
                        assert!(landed(ticket)[..] == raw[..]);
                    });
                    tickets.into_iter().for_each(landed);
                });
            }
        });
        assert_eq!(other.stats().stalls, 0);
    });
}

#[test]
fn waiters_for_staging_leave_descriptors_for_a_new_file() {
    const COUNT: usize = 256;
    let few = || {
        let mut options = little();
        options.descriptors = 8;
        options
    };
    each_backend_with(few, |rig| {
        let keeper = Arc::new(Keeper::default());
        let content = noise(6, PART);
        let sink = || Arc::clone(&keeper) as Arc<dyn DeviceSink>;
        let files = (0..COUNT).map(|index| rig.file_of(&format!("file{index}"), &content));
        let tickets: Vec<_> = files
            .map(|file| Read::whole(file).into_device(sink()))
            .map(|read| rig.queue.submit(read).expect("accepted"))
            .collect();
        assert!(wait_for(|| rig.storage.stats().blocked_by_application > 0));
        // Each part that is finished lets another request have a window.
        for index in 0..COUNT / 4 {
            let file = rig.file_of(&format!("new{index}"), &content);
            let read = Read::whole(file).priority(Priority::Realtime);
            let ticket = rig.queue.submit(read).expect("accepted");
            assert!(landed(ticket)[..] == content[..]);
            assert!(rig.storage.stats().descriptors <= 8);
            assert!(wait_for(|| keeper.kept() > 0));
            keeper.finish_one();
        }
        keeper.let_go();
        tickets.into_iter().for_each(landed);
    });
}

/// Keeps its jobs.
#[derive(Clone, Default)]
struct KeepJobs(Arc<Mutex<Vec<Job>>>);

impl KeepJobs {
    fn kept(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    fn take(&self, which: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut kept = self.0.lock().expect("no panic");
        kept.extract_if(.., |job| which(job)).collect()
    }

    /// Runs all jobs until a request has ended.
    fn run_until_complete<T: 'static>(&self, ticket: Ticket<T>) -> T {
        let is_complete = wait_for(|| {
            self.take(|_| true).into_iter().for_each(Job::run);
            ticket.is_complete()
        });
        assert!(is_complete, "it waits for {:?}", ticket.waits_for());
        landed(ticket)
    }
}

impl JobSystem for KeepJobs {
    fn spawn(&self, job: Job) {
        self.0.lock().expect("no panic").push(job);
    }
}

impl Codec for KeepJobs {
    fn defer(&self, job: Job) -> Option<Job> {
        self.spawn(job);
        None
    }
}

/// Finishes a job that a codec has kept: its stored bytes are the raw ones.
fn copy(mut job: Job) {
    let (stored, raw) = job.stored_and_raw();
    raw.copy_from_slice(stored);
    let len = raw.len();
    job.finish(Ok(len));
}

#[test]
fn two_thousand_jobs_of_a_job_system_stop_neither_plain_reads_nor_one_that_it_waits_for() {
    const BLOCKS: usize = 2000;
    const WAITED_FOR: u64 = 7;
    let jobs = KeepJobs::default();
    let with_jobs = || {
        let mut options = little();
        options.job_system = Some(Arc::new(jobs.clone()));
        options
    };
    each_backend_with(with_jobs, |rig| {
        let (mut table, mut stored) = (BlockTable::new(), Vec::new());
        let block = encoded(CodecId::LZ4_BLOCK, &bytes(64));
        for _ in 0..BLOCKS {
            let at = stored.len() as u64;
            stored.extend_from_slice(&block);
            table.push(CodecId::LZ4_BLOCK, at..stored.len() as u64, 64);
        }
        let raw = bytes(50_000);
        let table_file = rig.file_of("table", &stored);
        let zlib = rig.file_of("zlib", &encoded(CodecId::ZLIB, &raw));
        let low = Read::whole(table_file).decode(Decode::table(table));
        let low = rig.queue.submit(low.priority(Priority::Low));
        let low = low.expect("accepted");
        // More than the bound: the jobs of a complete window are not held back.
        assert!(wait_for(|| jobs.kept() == BLOCKS));
        let plain = Read::range(table_file, 0, 100).priority(Priority::Realtime);
        let plain = rig.queue.submit(plain).expect("accepted");
        assert!(landed(plain)[..] == stored[..100]);
        let decode = || Decode::codec(CodecId::ZLIB).raw_len(50_000);
        let read = Read::whole(zlib).decode(decode()).user_data(WAITED_FOR);
        let ticket = rig.queue.submit(read).expect("accepted");
        let is_complete = wait_for(|| {
            let own = jobs.take(|job| job.user_data() == WAITED_FOR);
            own.into_iter().for_each(Job::run);
            ticket.is_complete()
        });
        assert!(is_complete, "it waits for {:?}", ticket.waits_for());
        assert!(landed(ticket)[..] == raw[..]);
        assert!(rig.storage.stats().windows_outside > 0);
        assert!(!low.is_complete());
        assert_eq!(jobs.run_until_complete(low).len(), 64 * BLOCKS);
    });
}

/// The windows behind that of the job are complete, and wait for it.
#[test]
fn a_canceled_request_whose_job_is_kept_gives_back_its_other_windows_at_once() {
    const WINDOW: u64 = 64 << 10;
    let jobs = KeepJobs::default();
    let with_jobs = || {
        let mut options = little();
        options.job_system = Some(Arc::new(jobs.clone()));
        options
    };
    each_backend_with(with_jobs, |rig| {
        let raw = noise(8, 2_000_000);
        let file = rig.file_of("zlib", &encoded(CodecId::ZLIB, &raw));
        let decode = || Decode::codec(CodecId::ZLIB).raw_len(raw.len() as u64);
        let mut ticket = rig.queue.submit(Read::whole(file).decode(decode()));
        let ticket = ticket.as_mut().expect("accepted");
        let is_ahead = || {
            let stats = rig.storage.stats();
            jobs.kept() == 1 && stats.staging_bytes == 4 * WINDOW && stats.in_flight == 0
        };
        assert!(wait_for(is_ahead), "{:?}", rig.storage.stats());
        ticket.cancel();
        let is_back = wait_for(|| rig.storage.stats().staging_bytes == WINDOW);
        assert!(is_back, "one window is out with the job");
        assert!(!ticket.is_complete(), "its memory is with the job");
        jobs.take(|_| true).into_iter().for_each(Job::run);
        let outcome = ticket.wait_timeout(PATIENCE).expect("not claimed before");
        let error = outcome.expect("it ends").result.expect_err("canceled");
        assert_eq!(error.kind(), ErrorKind::Canceled);
    });
}

#[test]
fn a_sync_behind_a_gated_write_leaves_descriptors_to_others() {
    let few = || {
        let mut options = little();
        options.descriptors = 2;
        options
    };
    each_backend_with(few, |rig| {
        let options = FileOptions {
            write: true,
            create: true,
            ..FileOptions::default()
        };
        let path = rig.path("written");
        let written = rig.storage.open(&path, options);
        let fence = Fence::new(0);
        let write = Write::at(written, 0, vec![5u8; 5000]).after(&fence, 1);
        let write = rig.queue.submit(write).expect("accepted");
        let sync = rig.queue.submit(FileOp::sync(written)).expect("accepted");
        assert!(wait_for(|| sync.waits_for() == Some(WaitsFor::Earlier)));
        let content = noise(9, PART);
        for index in 0..4 {
            let file = rig.file_of(&format!("new{index}"), &content);
            let ticket = rig.queue.submit(Read::whole(file)).expect("accepted");
            assert!(landed(ticket)[..] == content[..]);
        }
        fence.signal(1);
        landed(write);
        landed(sync);
        assert!(std::fs::read(&path).expect("readable") == [5; 5000]);
    });
}

#[test]
fn small_gated_windows_between_others_leave_room_for_a_large_one() {
    each_backend_with(little, |rig| {
        let content = noise(10, 480_000);
        let file = rig.file_of("gated", &content);
        let raw = noise(11, 900_000);
        let large = rig.file_of("large", &encoded(CodecId::LZ4_BLOCK, &raw));
        let between = rig.file_of("between", &encoded(CodecId::LZ4_BLOCK, &raw[..PART]));
        let block = |file, len: usize| {
            let decode = Decode::codec(CodecId::LZ4_BLOCK).raw_len(len as u64);
            rig.queue.submit(Read::whole(file).decode(decode))
        };
        for len in [30_000, 4096] {
            let fence = Fence::new(0);
            let (mut gated, mut others) = (Vec::new(), Vec::new());
            for at in 0..16 {
                let read = Read::range(file, at * 30_000, len).write_after(&fence, 1);
                gated.push(rig.queue.submit(read).expect("accepted"));
                others.push(block(between, PART).expect("accepted"));
            }
            for other in others {
                assert!(landed(other)[..] == raw[..PART]);
            }
            let large = block(large, raw.len()).expect("accepted");
            let small = rig.queue.submit(Read::range(file, 0, 4096));
            assert!(landed(small.expect("accepted"))[..] == content[..4096]);
            assert!(landed(large)[..] == raw[..]);
            assert!(gated.iter().all(|ticket| !ticket.is_complete()));
            fence.signal(1);
            for (ticket, at) in gated.into_iter().zip((0..).step_by(30_000)) {
                assert!(landed(ticket)[..] == content[at..at + len as usize]);
            }
        }
    });
}

#[test]
fn a_queue_dropped_behind_a_fence_that_is_never_signaled_gives_back_its_staging() {
    each_backend_with(little, |rig| {
        let others = Others::new(rig);
        let content = noise(12, 600_000);
        let file = rig.file_of("gated", &content);
        let zlib = rig.file_of("zlib", &encoded(CodecId::ZLIB, &content));
        let gated = rig.storage.queue(QueueOptions::default());
        let gated = gated.expect("a queue");
        let never = Fence::new(0);
        let submit = |read: Read| gated.submit(read.write_after(&never, 1));
        let decode = || Decode::codec(CodecId::ZLIB).raw_len(content.len() as u64);
        let tickets: Vec<_> = (0..20)
            .flat_map(|at| {
                [
                    submit(Read::range(file, at * 30_000, 30_000)),
                    submit(Read::whole(zlib).decode(decode())),
                ]
            })
            .map(|ticket| ticket.expect("accepted"))
            .collect();
        assert!(wait_for(|| rig.storage.stats().staging_bytes > 0));
        others.are_served(&rig.queue);
        drop(gated);
        for mut ticket in tickets {
            let outcome = ticket.wait_timeout(PATIENCE).expect("not claimed before");
            let error = outcome.expect("it ends").result.expect_err("canceled");
            assert_eq!(error.kind(), ErrorKind::Canceled);
        }
        assert!(wait_for(|| rig.storage.stats().staging_bytes == 0));
        others.are_served(&rig.queue);
    });
}

const PANICS: CodecId = CodecId(0x91);

struct Panics;

impl Codec for Panics {
    fn decode(&self, _: &[u8], _: &mut [u8]) -> Result<usize, &'static str> {
        panic!("a codec panics")
    }
}

#[test]
fn requests_whose_codec_panics_give_back_their_staging() {
    let with_codec = || {
        let mut options = little();
        options.codec(PANICS, Panics);
        options
    };
    each_backend_with(with_codec, |rig| {
        let others = Others::new(rig);
        let file = rig.file_of("whole", &noise(13, PART));
        let read = || Read::whole(file).decode(Decode::codec(PANICS).raw_len(PART as u64));
        let tickets: Vec<_> = (0..60)
            .map(|_| rig.queue.submit(read()).expect("accepted"))
            .collect();
        others.are_served(&rig.queue);
        for mut ticket in tickets {
            let outcome = ticket.wait_timeout(PATIENCE).expect("not claimed before");
            let error = outcome.expect("it ends").result.expect_err("a panic");
            assert_eq!(error.kind(), ErrorKind::Application);
        }
    });
}

/// A destination of a read of the next test.
enum Pending {
    Buffer(Ticket<Buffer>),
    Vec(Ticket<Vec<u8>>),
    Device(Ticket<()>),
}

#[test]
fn the_least_staging_serves_requests_of_every_size_and_class() {
    const KEPT: CodecId = CodecId(0x92);
    let jobs = KeepJobs::default();
    let least = || {
        let mut options = little();
        options.staging_bytes = millstream::limits::STAGING_BYTES_MIN;
        options.codec(KEPT, jobs.clone());
        options
    };
    each_backend_with(least, |rig| {
        let (keeper, fence) = (Arc::new(Keeper::default()), Fence::new(0));
        let sink = || Arc::clone(&keeper) as Arc<dyn DeviceSink>;
        let sizes = [1, 900, 7_000, 40_000, 300_000];
        let codecs = [
            CodecId::ZLIB,
            CodecId::LZ4,
            CodecId::GDEFLATE,
            CodecId::STORED,
            CodecId::LZ4_BLOCK,
            KEPT,
        ];
        let mut all = Vec::new();
        for (size, codec) in sizes
            .iter()
            .flat_map(|size| codecs.map(|codec| (*size, codec)))
        {
            // What must be in staging as a whole fits up to two pages less.
            if size > 7_000 && [CodecId::LZ4_BLOCK, KEPT].contains(&codec) {
                continue;
            }
            let raw = noise(size as u64, size);
            let stored = match codec {
                KEPT => raw.clone(),
                codec => encoded(codec, &raw),
            };
            let file = rig.file_of(&format!("{size}-{codec:?}"), &stored);
            all.push((file, codec, raw));
        }
        let mut pending = Vec::new();
        for (at, priority) in Priority::ALL.into_iter().enumerate() {
            for (index, (file, codec, raw)) in all.iter().enumerate() {
                let decode = Decode::codec(*codec).raw_len(raw.len() as u64);
                let read = Read::whole(*file).decode(decode).priority(priority);
                let queue = &rig.queue;
                let ticket = match (at + index) % 4 {
                    0 => Pending::Buffer(queue.submit(read).expect("accepted")),
                    1 => {
                        let read = read.into(vec![0; raw.len()]);
                        Pending::Vec(queue.submit(read).expect("accepted"))
                    }
                    2 => {
                        let read = read.into_device(sink());
                        Pending::Device(queue.submit(read).expect("accepted"))
                    }
                    _ => {
                        let read = read.write_after(&fence, 1);
                        Pending::Buffer(queue.submit(read).expect("accepted"))
                    }
                };
                pending.push((ticket, *codec, raw, (at + index) % 4));
            }
        }
        let is_ordinary = |codec: CodecId, kind: usize| codec != KEPT && kind < 2;
        // First those that need nothing of the application.
        let (ordinary, foreign): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .partition(|(_, codec, _, kind)| is_ordinary(*codec, *kind));
        let check = |ticket: Pending, raw: &[u8]| match ticket {
            Pending::Buffer(ticket) => assert!(landed(ticket)[..] == *raw),
            Pending::Vec(ticket) => assert!(landed(ticket) == raw),
            Pending::Device(ticket) => landed(ticket),
        };
        for (ticket, _, raw, _) in ordinary {
            check(ticket, raw);
        }
        fence.signal(1);
        keeper.let_go();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_done = || done.load(std::sync::atomic::Ordering::SeqCst);
                let _ = wait_for(|| {
                    jobs.take(|_| true).into_iter().for_each(copy);
                    is_done()
                });
            });
            for (ticket, _, raw, _) in foreign {
                check(ticket, raw);
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
    });
}

/// The request has more to read when it is canceled, and so has its file open.
#[test]
fn a_canceled_request_whose_job_is_kept_gives_back_its_descriptors_at_once() {
    let (sim, files) = Sim::new(SimOptions {
        depth: 1,
        ..SimOptions::default()
    });
    let (raw, content) = (noise(14, 600_000), noise(15, PART));
    let stored = encoded(CodecId::ZLIB, &raw);
    files.add("zlib", stored, SimFileOptions::default());
    files.add("other", content.clone(), SimFileOptions::default());
    let jobs = KeepJobs::default();
    let mut options = over_sim(sim, &files, Access::Auto);
    options.staging_bytes = STAGING_BYTES;
    options.block_bytes = 64 << 10;
    options.descriptors = 2;
    options.job_system = Some(Arc::new(jobs.clone()));
    let storage = Storage::new(options).expect("a storage");
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let open = |name| storage.open(name, FileOptions::default());
    let decode = Decode::codec(CodecId::ZLIB).raw_len(raw.len() as u64);
    let mut ticket = queue
        .submit(Read::whole(open("zlib")).decode(decode))
        .expect("accepted");
    let is_kept = wait_for(|| {
        storage.pump();
        jobs.kept() == 1
    });
    assert!(is_kept);
    assert!(storage.stats().operations < 4, "there are windows to read");
    ticket.cancel();
    let other = queue.submit(Read::whole(open("other"))).expect("accepted");
    assert!(landed(other)[..] == content[..]);
    assert!(!ticket.is_complete(), "its memory is with the job");
    jobs.take(|_| true).into_iter().for_each(Job::run);
    let outcome = ticket.wait_timeout(PATIENCE).expect("not claimed before");
    let error = outcome.expect("it ends").result.expect_err("canceled");
    assert_eq!(error.kind(), ErrorKind::Canceled);
    assert_eq!(storage.stats().stalls, 0);
}
