//! Realtime beside bulk: four readers of 64 KiB with pauses of 500 µs, alone and beside someone
//! who reads as much as he can.
//!
//! Measured in three phases of a run: the bulk alone, the readers alone, both. The figures are the
//! readers' p99 in both, and how much of its own rate the bulk keeps. The rival is what a program
//! without queues and priorities does: readers in `pread`, bulk in a bare ring.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::{Priority, Queue, Ticket};

use crate::case::{Figures, Work};
use crate::corpus::CorpusFile;
use crate::error::{Context, Result};
use crate::files::drop_path;
use crate::lend::{Loan, LoanBatch, one};
use crate::memory::Destination;
use crate::metric::Metric;
use crate::ours::{Ready, Setup, queue_for, read_of};
use crate::peers;
use crate::requests::cells::{Mode, PageHashes, random_jobs};
use crate::requests::systems::{Bulk, Reader, System};
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::session::Session;
use crate::stats;
use crate::threads::joined;

const READERS: usize = 4;
/// Bytes of a reader's request.
const REQUEST_BYTES: usize = 64 << 10;
/// Between a reader's requests.
const PAUSE: Duration = Duration::from_micros(500);
/// Bulk reads are handed over so many bytes at a time.
const BULK_BATCH_BYTES: usize = 32 << 20;
const BULK_REQUEST_BYTES: usize = 1 << 20;

/// `pread` readers beside a bare ring.
struct NoPriorities(File);

impl System for NoPriorities {
    fn reader(&self, _: usize) -> Result<Reader<'_>> {
        Ok(Box::new(|job, into| {
            self.0.read_exact_at(into, job.offset).what("pread")
        }))
    }

    fn bulk(&self, bulk: &Bulk<'_>, into: &mut [u8]) -> Result<()> {
        let mut ring = BareRing::new(8)?;
        let style = ReadStyle::plain(8);
        while bulk.goes_on() {
            ring.read_all(self.0.as_raw_fd(), bulk.jobs, into, style)?;
            bulk.arrived(bulk.batch_bytes());
        }
        Ok(())
    }
}

/// Readers of priority realtime, each with a queue of its own, beside bulk of priority low.
struct Ours {
    ready: Ready,
    readers: Vec<Queue>,
}

impl System for Ours {
    fn reader(&self, nth: usize) -> Result<Reader<'_>> {
        Ok(Box::new(move |job, into| {
            let request = read_of(self.ready.file, job).priority(Priority::Realtime);
            one(&self.readers[nth], request, into)
        }))
    }

    fn bulk(&self, bulk: &Bulk<'_>, into: &mut [u8]) -> Result<()> {
        let queue = queue_for(&self.ready.storage, bulk.jobs.len())?;
        let loan = Loan::new(into, vec![queue]);
        let mut batch = loan.batch(0);
        let add = |batch: &mut LoanBatch<'_>, job: &ReadJob| {
            let request = read_of(self.ready.file, job).priority(Priority::Low);
            batch.add(request, job.range())
        };
        let mut waiting: VecDeque<(usize, Ticket<()>)> = VecDeque::new();
        for (index, job) in bulk.jobs.iter().enumerate() {
            waiting.push_back((index, add(&mut batch, job)?));
        }
        batch.submit();
        while let Some((index, mut ticket)) = waiting.pop_front() {
            bulk.arrived(ticket.outcome().result?);
            if bulk.goes_on() {
                // Its place is free again: the same read once more, so that as much as ever is
                // waiting.
                waiting.push_back((index, add(&mut batch, &bulk.jobs[index])?));
                batch.submit();
            }
        }
        drop(batch);
        loan.finish()
    }
}

/// Runs the case.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    for instance in session.cases("requests", "realtime") {
        let phase = Duration::from_millis(instance.get("milliseconds"));
        drop_path(&file.path)?;
        let mut case = session.begin(&instance);
        let ready = Ready::new(&file.path, Setup::direct(), false, 1)?;
        let readers = (0..READERS).map(|_| queue_for(&ready.storage, 1));
        let readers = readers.collect::<Result<_>>()?;
        let rival = NoPriorities(Mode::Direct.open(file)?);
        let mut systems: Vec<(&str, Result<Box<dyn System + '_>>)> =
            vec![("pread+ring", Ok(Box::new(rival)))];
        systems.extend(peers::realtime::systems(file, &bulk_jobs(file, 0)));
        systems.push(("millstream", Ok(Box::new(Ours { ready, readers }))));
        for (name, system) in systems {
            let system = match system {
                Ok(system) => system,
                Err(why) => {
                    case.skip(name, &why.to_string());
                    continue;
                }
            };
            let (params, mut seed) = (system.params(), 0);
            let run = move |_: &mut Destination| {
                seed += 1;
                let run = Run {
                    system: system.as_ref(),
                    file,
                    pages,
                    phase,
                    seed,
                };
                run.all_phases().map(Work::figures)
            };
            case.add(name, run).params = params;
        }
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
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
    system: &'a dyn System,
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
        let figures = [
            ("p99-alone us", alone),
            ("p99-beside us", beside),
            ("p99-ratio x", beside / alone),
            ("bulk-alone MB/s", bulk_alone),
            ("bulk-kept x", bulk_beside / bulk_alone),
        ];
        Ok(figures
            .map(|(text, figure)| (Metric::of(text), figure))
            .into())
    }

    /// One phase: the readers' times in nanoseconds, and the bulk's rate in MB/s.
    fn one_phase(&self, readers: usize, with_bulk: bool) -> Result<(Vec<u64>, f64)> {
        let jobs = &bulk_jobs(self.file, self.seed);
        let destination = &mut Destination::new(jobs.len() * BULK_REQUEST_BYTES)?;
        let (stop, bytes) = (&AtomicBool::new(false), &AtomicU64::new(0));
        std::thread::scope(|scope| {
            let bulk = Bulk { jobs, stop, bytes };
            let bulk = with_bulk.then(|| scope.spawn(move || self.system.bulk(&bulk, destination)));
            let reader = |reader| scope.spawn(move || self.read_until(reader, stop));
            let readers: Vec<_> = (0..readers).map(reader).collect();
            let start = Instant::now();
            std::thread::sleep(self.phase);
            let rate = bytes.load(Ordering::Relaxed) as f64 / 1e6 / start.elapsed().as_secs_f64();
            stop.store(true, Ordering::Relaxed);
            let times = readers.into_iter().map(joined);
            let times = times.collect::<Result<Vec<_>>>()?.concat();
            bulk.map_or(Ok(()), joined)?;
            Ok((times, rate))
        })
    }

    /// One reader: request, pause, request.
    fn read_until(&self, nth: usize, stop: &AtomicBool) -> Result<Vec<u64>> {
        let size = REQUEST_BYTES as u64;
        let places = half_of(self.file) / size..self.file.stored_len / size;
        let mut destination = Destination::new(REQUEST_BYTES)?;
        let memory = &mut destination[..REQUEST_BYTES];
        let mut rng = Rng::with_seed(self.seed * READERS as u64 + nth as u64);
        let mut times = Vec::new();
        let mut read = self.system.reader(nth)?;
        while !stop.load(Ordering::Relaxed) {
            let job = ReadJob::new(rng.u64(places.clone()) * size, 0, REQUEST_BYTES);
            memory[0] = !memory[0];
            let start = Instant::now();
            read(&job, memory)?;
            times.push(start.elapsed().as_nanos() as u64);
            self.pages.check(&[job], memory)?;
            std::thread::sleep(PAUSE);
        }
        Ok(times)
    }
}
