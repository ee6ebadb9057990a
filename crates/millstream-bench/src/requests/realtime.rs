//! Realtime beside bulk: four readers of 64 KiB with pauses of 500 µs, alone and beside someone
//! who reads as much as he can.
//!
//! Measured in three phases of a run: the readers alone, the bulk alone, both. The figures are the
//! readers' p99 in both, and how much of its own rate the bulk keeps. The rival is what a program
//! without queues and priorities does: readers in `pread`, bulk in a bare ring.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::ring_reads::open_for;
use super::{Mode, PageHashes, WORKLOAD, pool, random_jobs};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::limits;
use crate::memory::Destination;
use crate::ours;
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::rows::{Metric, Params, Row};
use crate::stats;
use crate::workload::Session;

/// Readers' p99 without bulk.
pub(crate) const P99_ALONE: Metric = Metric::lower("p99-alone", "us");
/// Readers' p99 beside bulk.
pub(crate) const P99_BESIDE: Metric = Metric::lower("p99-beside", "us");
/// The one over the other.
pub(crate) const P99_RATIO: Metric = Metric::lower("p99-ratio", "x");
/// Rate of the bulk alone.
pub(crate) const BULK_RATE: Metric = Metric::higher("bulk-alone", "MB/s");
/// Part of its own rate that the bulk keeps beside the readers.
pub(crate) const BULK_KEPT: Metric = Metric::higher("bulk-kept", "x");

/// Name of the case.
pub(crate) const CASE: &str = "realtime 64K beside bulk";

/// Readers.
pub(crate) const READERS: usize = 4;
/// Bytes of a reader's request.
const REQUEST_BYTES: usize = 64 << 10;
/// Between a reader's requests.
const PAUSE: Duration = Duration::from_micros(500);
/// A phase of a run: 4 readers make about 5000 requests a second, so p99 stands on 75 of them.
const PHASE: Duration = Duration::from_millis(1500);
const QUICK_PHASE: Duration = Duration::from_millis(250);
/// Bulk reads are handed over so many bytes at a time.
pub(crate) const BULK_BATCH_BYTES: usize = 32 << 20;
/// Bytes of a bulk request.
pub(crate) const BULK_REQUEST_BYTES: usize = 1 << 20;

/// A system with readers that are in a hurry and a bulk reader that is not.
pub(crate) trait RealtimeSystem: Send + Sync {
    /// Its name in rows.
    fn name(&self) -> String;
    /// How it is set up.
    fn params(&self) -> Params {
        Params::new()
    }
    /// What a reader does once on its thread, before its first read.
    ///
    /// # Errors
    /// It cannot run.
    fn begin(&self) -> Result<()> {
        Ok(())
    }
    /// Reads one request of reader number `reader`; called from one thread per reader.
    fn read(&self, reader: usize, job: &ReadJob, into: &mut [u8]) -> Result<()>;
    /// Reads the jobs over and over until `stop`, as fast as it can, and adds the bytes that have
    /// arrived to `bytes`.
    fn bulk(
        &self,
        jobs: &[ReadJob],
        destination: &mut [u8],
        stop: &AtomicBool,
        bytes: &AtomicU64,
    ) -> Result<()>;
}

/// `pread` readers beside a bare ring.
struct NoPriorities(OwnedFd);

impl RealtimeSystem for NoPriorities {
    fn name(&self) -> String {
        "pread+ring".into()
    }

    fn read(&self, _reader: usize, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        pool::pread(&self.0, job, into)
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
            ring.read_all(&[self.0.as_raw_fd()], jobs, destination, style)?;
            let read: u64 = jobs.iter().map(|job| u64::from(job.len)).sum();
            bytes.fetch_add(read, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Runs the case.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    if !session.wants(CASE) {
        return Ok(());
    }
    session.say(&format!("{WORKLOAD}: {CASE}"));
    cold::drop_path(&file.path)?;
    let mut systems: Vec<Arc<dyn RealtimeSystem>> =
        vec![Arc::new(NoPriorities(open_for(file, Mode::Direct)?))];
    let bulk = bulk_jobs(file, 0);
    let skipped = session.peers.realtime(&mut systems, file, &bulk);
    session.keep(skipped)?;
    ours::realtime_systems(&mut systems, file)?;
    let phase = session.size(PHASE, QUICK_PHASE);
    let shared = Arc::new((file.clone(), pages.clone()));
    let mut figures: Vec<Vec<(Metric, Vec<f64>)>> = vec![Vec::new(); systems.len()];
    let mut failed: Vec<Option<String>> = vec![None; systems.len()];
    for run in 0..session.runs() {
        for (index, system) in systems.iter().enumerate() {
            if failed[index].is_some() {
                continue;
            }
            match limited_run(system, &shared, phase, run as u64) {
                Ok(run) if figures[index].is_empty() => {
                    figures[index] = run.into_iter().map(|(m, value)| (m, vec![value])).collect();
                }
                Ok(run) => {
                    for ((_, values), (_, value)) in figures[index].iter_mut().zip(run) {
                        values.push(value);
                    }
                }
                Err(error) => failed[index] = Some(error.to_string()),
            }
        }
    }
    let mut rows = Vec::new();
    for (index, system) in systems.iter().enumerate() {
        let name = system.name();
        if let Some(why) = &failed[index] {
            if crate::rows::is_ours(&name) {
                session.fail(format!("{WORKLOAD} {CASE} {name}: {why}"));
            }
            rows.push(Row::skipped(WORKLOAD, CASE, &name, why));
            continue;
        }
        for (metric, values) in std::mem::take(&mut figures[index]) {
            let params = system.params();
            rows.push(Row::figures(WORKLOAD, CASE, &name, metric, values, params));
        }
    }
    session.keep(rows)
}

/// One run on a thread of its own, so that a system that hangs is given up on; all that it may
/// still write to is its own.
fn limited_run(
    system: &Arc<dyn RealtimeSystem>,
    shared: &Arc<(CorpusFile, PageHashes)>,
    phase: Duration,
    seed: u64,
) -> Result<Vec<(Metric, f64)>> {
    let (system, shared) = (Arc::clone(system), Arc::clone(shared));
    let (ended, result) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("realtime-run".into())
        .spawn(move || {
            let (file, pages) = &*shared;
            // Nobody listens any more if this took too long.
            let _ = ended.send(one_run(system.as_ref(), file, pages, phase, seed));
        })
        .map_err(|error| Error::io("start a thread", error))?;
    result
        .recv_timeout(phase * 3 + limits::PEER_TIME_MAX)
        .unwrap_or_else(|_| Err(Error::new("gave no answer in time")))
}

/// The bulk's requests, of the first half of the file; readers keep to the second.
fn bulk_jobs(file: &CorpusFile, seed: u64) -> Vec<ReadJob> {
    let count = BULK_BATCH_BYTES / BULK_REQUEST_BYTES;
    random_jobs(half_of(file), BULK_REQUEST_BYTES, count, seed)
}

fn half_of(file: &CorpusFile) -> u64 {
    file.stored_len / 2 / BULK_REQUEST_BYTES as u64 * BULK_REQUEST_BYTES as u64
}

fn one_run(
    system: &dyn RealtimeSystem,
    file: &CorpusFile,
    pages: &PageHashes,
    phase: Duration,
    seed: u64,
) -> Result<Vec<(Metric, f64)>> {
    // First, since who keeps bulk short for readers does so for a while after the last of them.
    let (_, bulk_alone) = one_phase(system, file, pages, phase, seed, false, true)?;
    let (mut alone, _) = one_phase(system, file, pages, phase, seed, true, false)?;
    let (mut beside, bulk_beside) = one_phase(system, file, pages, phase, seed, true, true)?;
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
fn one_phase(
    system: &dyn RealtimeSystem,
    file: &CorpusFile,
    pages: &PageHashes,
    phase: Duration,
    seed: u64,
    readers: bool,
    bulk: bool,
) -> Result<(Vec<u64>, f64)> {
    // Bulk in the first half of the file, readers in the second: nobody warms the other's way.
    let half = half_of(file);
    let jobs = bulk_jobs(file, seed);
    let mut destination = Destination::new(jobs.len() * BULK_REQUEST_BYTES)?;
    let stop = AtomicBool::new(false);
    let bytes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (jobs, destination) = (&jobs, &mut destination);
        let (stop, bytes) = (&stop, &bytes);
        let bulk_thread =
            bulk.then(|| scope.spawn(move || system.bulk(jobs, destination, stop, bytes)));
        let reader_threads: Vec<_> = (0..if readers { READERS } else { 0 })
            .map(|reader| {
                let places = (half, file.stored_len);
                scope.spawn(move || read_until(system, reader, places, pages, seed, stop))
            })
            .collect();
        let start = Instant::now();
        std::thread::sleep(phase);
        let rate = bytes.load(Ordering::Relaxed) as f64 / 1e6 / start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for thread in reader_threads {
            times.extend(joined(thread)?);
        }
        if let Some(thread) = bulk_thread {
            joined(thread)?;
        }
        Ok((times, rate))
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread
        .join()
        .unwrap_or_else(|_| Err(Error::new("a thread of the benchmark panicked")))
}

/// One reader: request, pause, request.
fn read_until(
    system: &dyn RealtimeSystem,
    reader: usize,
    (from, to): (u64, u64),
    pages: &PageHashes,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Vec<u64>> {
    let mut destination = Destination::new(REQUEST_BYTES)?;
    let memory = &mut destination[..REQUEST_BYTES];
    let mut rng = Rng::with_seed(seed * READERS as u64 + reader as u64);
    let mut times = Vec::new();
    system.begin()?;
    while !stop.load(Ordering::Relaxed) {
        let place = rng.u64(from / REQUEST_BYTES as u64..to / REQUEST_BYTES as u64);
        let job = ReadJob {
            file: 0,
            offset: place * REQUEST_BYTES as u64,
            place: 0,
            len: REQUEST_BYTES as u32,
            need: REQUEST_BYTES as u32,
        };
        memory[0] = !memory[0];
        let start = Instant::now();
        system.read(reader, &job, memory)?;
        times.push(start.elapsed().as_nanos() as u64);
        pages.check(&[job], memory)?;
        std::thread::sleep(PAUSE);
    }
    Ok(times)
}
