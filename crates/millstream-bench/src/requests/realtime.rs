//! Realtime beside bulk: four readers of 64 KiB with pauses of 500 µs, alone and beside someone
//! who reads as much as he can.
//!
//! Measured in three phases of a run: the bulk alone, the readers alone, both. The figures are the
//! readers' p99 in both, and how much of its own rate the bulk keeps. The rival is what a program
//! without queues and priorities does: readers in `pread`, bulk in a bare ring.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::{Access, Priority, Queue, Ticket};

use super::ours::{Ready, read_of};
use super::rivals::work_of;
use crate::case::{Contender, Figures, Work};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::pread;
use crate::lend::{Loan, LoanBatch, one};
use crate::limits;
use crate::memory::Destination;
use crate::requests::cells::{Mode, PageHashes, WORKLOAD, random_jobs};
use crate::requests::systems::{BULK_BATCH_BYTES, BULK_REQUEST_BYTES, READERS, RealtimeSystem};
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::rows::Metric;
use crate::session::Session;
use crate::setup::{Setup, queue_for};
use crate::stats;

/// Readers' p99 without bulk.
const P99_ALONE: Metric = Metric::lower("p99-alone", "us");
/// Readers' p99 beside bulk.
const P99_BESIDE: Metric = Metric::lower("p99-beside", "us");
/// The one over the other.
const P99_RATIO: Metric = Metric::lower("p99-ratio", "x");
/// Rate of the bulk alone.
const BULK_RATE: Metric = Metric::higher("bulk-alone", "MB/s");
/// Part of its own rate that the bulk keeps beside the readers.
const BULK_KEPT: Metric = Metric::higher("bulk-kept", "x");
/// Bytes of a reader's request.
const REQUEST_BYTES: usize = 64 << 10;
/// Between a reader's requests.
const PAUSE: Duration = Duration::from_micros(500);
/// A phase of a run: 4 readers make about 5000 requests a second, so p99 stands on 75 of them.
const PHASE: Duration = Duration::from_millis(1500);
const QUICK_PHASE: Duration = Duration::from_millis(150);

/// `pread` readers beside a bare ring.
struct NoPriorities(OwnedFd);

impl RealtimeSystem for NoPriorities {
    fn read(&self, _reader: usize, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        pread(&self.0, into, job.offset)
    }

    fn bulk(
        &self,
        jobs: &[ReadJob],
        destination: &mut [u8],
        stop: &AtomicBool,
        bytes: &AtomicU64,
    ) -> Result<()> {
        let mut ring = BareRing::new(8)?;
        let style = ReadStyle {
            depth: 8,
            ..ReadStyle::default()
        };
        while !stop.load(Ordering::Relaxed) {
            ring.read_all(self.0.as_raw_fd(), jobs, destination, style)?;
            bytes.fetch_add(work_of(jobs).bytes, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Readers of priority realtime, each with a queue of its own, beside bulk of priority low.
struct Ours {
    ready: Ready,
    readers: Vec<Queue>,
}

impl Ours {
    fn new(file: &CorpusFile) -> Result<Ours> {
        let setup = Setup {
            access: Access::Direct,
            ..Setup::default()
        };
        let ready = Ready::new(&file.path, setup, false, 1)?;
        let readers = (0..READERS).map(|_| queue_for(&ready.storage, 1));
        Ok(Ours {
            readers: readers.collect::<Result<_>>()?,
            ready,
        })
    }
}

impl RealtimeSystem for Ours {
    fn read(&self, reader: usize, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        let request = read_of(self.ready.file, job).priority(Priority::Realtime);
        one(&self.readers[reader], request, into)
    }

    fn bulk(
        &self,
        jobs: &[ReadJob],
        destination: &mut [u8],
        stop: &AtomicBool,
        bytes: &AtomicU64,
    ) -> Result<()> {
        let queue = queue_for(&self.ready.storage, jobs.len())?;
        let loan = Loan::new(destination, vec![queue]);
        let mut batch = loan.batch(0);
        let add = |batch: &mut LoanBatch<'_>, job: &ReadJob| {
            let request = read_of(self.ready.file, job).priority(Priority::Low);
            batch.add(request, job.range())
        };
        let mut waiting: VecDeque<(usize, Ticket<()>)> = VecDeque::new();
        for (index, job) in jobs.iter().enumerate() {
            waiting.push_back((index, add(&mut batch, job)?));
        }
        batch.submit();
        while let Some((index, mut ticket)) = waiting.pop_front() {
            bytes.fetch_add(ticket.outcome().result?, Ordering::Relaxed);
            if !stop.load(Ordering::Relaxed) {
                // Its place is free again: the same read once more, so that as much as ever is
                // waiting.
                waiting.push_back((index, add(&mut batch, &jobs[index])?));
                batch.submit();
            }
        }
        drop(batch);
        loan.finish()
    }
}

/// Runs the case.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let Some(mut case) = session.begin(WORKLOAD, "realtime 64K beside bulk") else {
        return Ok(());
    };
    cold::drop_path(&file.path)?;
    case.warm_up = false;
    let rival = NoPriorities(Mode::Direct.open(file)?);
    let mut systems: Vec<(&str, Result<Arc<dyn RealtimeSystem>>)> =
        vec![("pread+ring", Ok(Arc::new(rival)))];
    systems.extend(session.peers.realtime(file, &bulk_jobs(file, 0)));
    systems.push(("millstream", Ok(Arc::new(Ours::new(file)?))));
    let phase = session.size(PHASE, QUICK_PHASE);
    let shared = Arc::new((file.clone(), pages.clone()));
    for (name, system) in systems {
        let shared = Arc::clone(&shared);
        let contender = system.map(|system| {
            let (params, mut seed) = (system.params(), 0);
            let contender = Contender::new(name, move |_| {
                seed += 1;
                limited_run(&system, &shared, phase, seed).map(Work::figures)
            });
            Contender {
                params,
                ..contender
            }
        });
        case.try_push(name, contender);
    }
    session.run(case, &mut Destination::new(0)?).map(drop)
}

/// One run on a thread of its own, so that a system that hangs is given up on; all that it may
/// still write to is its own.
fn limited_run(
    system: &Arc<dyn RealtimeSystem>,
    shared: &Arc<(CorpusFile, PageHashes)>,
    phase: Duration,
    seed: u64,
) -> Result<Figures> {
    let (system, shared) = (Arc::clone(system), Arc::clone(shared));
    let (ended, result) = std::sync::mpsc::channel();
    let run = move || {
        let (file, pages) = &*shared;
        let run = Run {
            system: system.as_ref(),
            file,
            pages,
            phase,
            seed,
        };
        // An error means that the receiver gave up after the time limit.
        let _ = ended.send(run.all_phases());
    };
    let thread = std::thread::Builder::new().name("realtime-run".into());
    thread.spawn(run).what("start a thread")?;
    result
        .recv_timeout(phase * 3 + limits::PEER_TIME_MAX)
        .unwrap_or_else(|_| Err(Error::new("gave no answer in time")))
}

/// The bulk's requests, of the first half of the file; readers keep to the second: neither warms
/// the other's pages.
fn bulk_jobs(file: &CorpusFile, seed: u64) -> Vec<ReadJob> {
    let count = BULK_BATCH_BYTES / BULK_REQUEST_BYTES;
    random_jobs(half_of(file), BULK_REQUEST_BYTES, count, seed)
}

fn half_of(file: &CorpusFile) -> u64 {
    file.stored_len / 2 / BULK_REQUEST_BYTES as u64 * BULK_REQUEST_BYTES as u64
}

/// One run of a system.
struct Run<'a> {
    system: &'a dyn RealtimeSystem,
    file: &'a CorpusFile,
    pages: &'a PageHashes,
    phase: Duration,
    seed: u64,
}

impl Run<'_> {
    fn all_phases(&self) -> Result<Figures> {
        // First, since who keeps bulk short for readers does so for a while after the last of them.
        let (_, bulk_alone) = self.one_phase(0, true)?;
        let (mut alone, _) = self.one_phase(READERS, false)?;
        let (mut beside, bulk_beside) = self.one_phase(READERS, true)?;
        let alone = stats::percentile(&mut alone, 0.99) as f64 / 1e3;
        let beside = stats::percentile(&mut beside, 0.99) as f64 / 1e3;
        Ok(vec![
            (P99_ALONE, alone),
            (P99_BESIDE, beside),
            (P99_RATIO, beside / alone),
            (BULK_RATE, bulk_alone),
            (BULK_KEPT, bulk_beside / bulk_alone),
        ])
    }

    /// One phase: the readers' times in nanoseconds, and the bulk's rate in MB/s.
    fn one_phase(&self, readers: usize, bulk: bool) -> Result<(Vec<u64>, f64)> {
        let jobs = bulk_jobs(self.file, self.seed);
        let mut destination = Destination::new(jobs.len() * BULK_REQUEST_BYTES)?;
        let (stop, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (jobs, destination) = (&jobs, &mut destination);
            let (stop, bytes) = (&stop, &bytes);
            let bulk_thread =
                bulk.then(|| scope.spawn(move || self.system.bulk(jobs, destination, stop, bytes)));
            let reader = |reader| scope.spawn(move || self.read_until(reader, stop));
            let reader_threads: Vec<_> = (0..readers).map(reader).collect();
            let start = Instant::now();
            std::thread::sleep(self.phase);
            let rate = bytes.load(Ordering::Relaxed) as f64 / 1e6 / start.elapsed().as_secs_f64();
            stop.store(true, Ordering::Relaxed);
            let mut times = Vec::new();
            for thread in reader_threads {
                times.extend(joined(thread)?);
            }
            bulk_thread.map_or(Ok(()), joined)?;
            Ok((times, rate))
        })
    }

    /// One reader: request, pause, request.
    fn read_until(&self, reader: usize, stop: &AtomicBool) -> Result<Vec<u64>> {
        let places =
            half_of(self.file) / REQUEST_BYTES as u64..self.file.stored_len / REQUEST_BYTES as u64;
        let mut destination = Destination::new(REQUEST_BYTES)?;
        let memory = &mut destination[..REQUEST_BYTES];
        let mut rng = Rng::with_seed(self.seed * READERS as u64 + reader as u64);
        let mut times = Vec::new();
        self.system.begin()?;
        while !stop.load(Ordering::Relaxed) {
            let offset = rng.u64(places.clone()) * REQUEST_BYTES as u64;
            let job = ReadJob::new(offset, 0, REQUEST_BYTES);
            memory[0] = !memory[0];
            let start = Instant::now();
            self.system.read(reader, &job, memory)?;
            times.push(start.elapsed().as_nanos() as u64);
            self.pages.check(&[job], memory)?;
            std::thread::sleep(PAUSE);
        }
        Ok(times)
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let gone = |_| Err(Error::new("a thread of the benchmark panicked"));
    thread.join().unwrap_or_else(gone)
}
