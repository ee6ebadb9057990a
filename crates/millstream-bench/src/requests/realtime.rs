//! Realtime beside bulk: four readers of 64 KiB with pauses of 500 µs, alone and beside a bulk
//! reader that reads as fast as it can.
//!
//! A run has three phases: the bulk alone, the readers alone, both. The figures are the readers'
//! p99 alone and with bulk, and the share of its own rate that the bulk keeps. No rival has
//! priorities, so each is set up as well as a program could without: every reader has an instance
//! of its own on its own thread, which waits for bulk only at the device, and the bulk has the
//! smallest depth that still gives nearly its best rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::Priority;
use millstream_peers::{Access, Peer, Plan, Read, Rival, rivals};

use crate::ours::{self, Ours};
use crate::peers::{self, bare};
use crate::prelude::*;
use crate::requests::cells::{Mode, PageHashes, random_reads_below};
use crate::stats;
use crate::threads::joined;

const READERS: usize = 4;
const REQUEST_BYTES: usize = 64 << 10;
const PAUSE: Duration = Duration::from_micros(500);
const BULK_BATCH_BYTES: usize = 32 << 20;
const BULK_REQUEST_BYTES: usize = 1 << 20;
const BULK_DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// Share of the best depth's rate with which a smaller depth is good enough.
const ENOUGH: f64 = 0.95;

/// Creates a peer; the flag is set for the bulk, and not for a reader.
type Start = Box<dyn Fn(bool) -> Result<Box<dyn Peer>> + Sync>;

pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    for instance in session.cases("requests", "realtime") {
        let phase = Duration::from_millis(instance.get("milliseconds"));
        drop_path(&file.path)?;
        let mut case = session.begin(&instance);
        let mut add = |name: &str, mode, start: Result<Start>| {
            let method = start.map(|start| {
                let mut bench = Bench {
                    start,
                    mode,
                    file,
                    pages,
                    phase,
                    seed: 0,
                };
                move |_: &mut Destination| bench.all_phases().map(Work::figures)
            });
            case.try_push(name, method);
        };
        let pread = pair(bare("pread"), bare("ring-plain"), 8);
        add("pread+ring", Mode::Direct, Ok(pread));
        for rival in rivals() {
            let mode = match rival.accesses[0] {
                Access::Direct => Mode::Direct,
                Access::Buffered => Mode::Cold,
            };
            let depth = bulk_depth(rival, file, mode);
            add(
                rival.name,
                mode,
                depth.map(|depth| pair(rival, rival, depth)),
            );
        }
        let ours = ours::direct().map(|storage| {
            // Each reader has a queue of its own.
            let ours = move |is_bulk| {
                let priority = if is_bulk {
                    Priority::Low
                } else {
                    Priority::Realtime
                };
                let storage = storage.clone();
                let mut ours = Ours::new(move || Ok(storage.clone()));
                ours.priority = priority;
                Ok(Box::new(ours) as Box<dyn Peer>)
            };
            Box::new(ours) as Start
        });
        add("millstream", Mode::Direct, ours);
        session.run(case)?;
    }
    Ok(())
}

/// Starts a rival for each reader, and one with `depth` reads in flight for the bulk.
fn pair(reader: Rival, bulk: Rival, depth: usize) -> Start {
    Box::new(move |is_bulk| match is_bulk {
        true => Ok(bulk.start(depth)?),
        false => Ok(reader.start(1)?),
    })
}

/// Returns the smallest depth with which a rival reads nearly as fast as with any.
fn bulk_depth(rival: Rival, file: &CorpusFile, mode: Mode) -> Result<usize> {
    let bulk = bulk_reads(file, 0)?;
    let time = |depth| peers::read_time(rival, file, mode, &bulk, depth);
    let times: Vec<f64> = BULK_DEPTHS.into_iter().map(time).collect::<Result<_>>()?;
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let good = times.iter().position(|time| *time <= best / ENOUGH);
    Ok(BULK_DEPTHS[good.unwrap_or(0)])
}

/// Returns the bulk's requests, from the first half of the file; readers use the second: neither
/// warms the other's pages.
fn bulk_reads(file: &CorpusFile, seed: u64) -> Result<Plan> {
    let count = BULK_BATCH_BYTES / BULK_REQUEST_BYTES;
    random_reads_below(file, half_of(file), BULK_REQUEST_BYTES, count, seed)
}

fn half_of(file: &CorpusFile) -> u64 {
    file.stored_len / 2 / BULK_REQUEST_BYTES as u64 * BULK_REQUEST_BYTES as u64
}

struct Bench<'a> {
    start: Start,
    mode: Mode,
    file: &'a CorpusFile,
    pages: &'a PageHashes,
    phase: Duration,
    seed: u64,
}

impl Bench<'_> {
    fn all_phases(&mut self) -> Result<Figures> {
        self.seed += 1;
        // First: a system that keeps bulk short for readers does so for a while after the last one.
        let (_, bulk_alone) = self.one_phase(0, true)?;
        let (alone, _) = self.one_phase(READERS, false)?;
        let (beside, bulk_beside) = self.one_phase(READERS, true)?;
        let p99 = |mut times: Vec<u64>| stats::percentile(&mut times, 0.99) as f64 / 1e3;
        let (alone, beside) = (p99(alone), p99(beside));
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

    /// Runs one phase; returns the readers' times in nanoseconds, and the bulk's rate in MB/s.
    fn one_phase(&self, readers: usize, with_bulk: bool) -> Result<(Vec<u64>, f64)> {
        let (stop, plan) = (&AtomicBool::new(false), &bulk_reads(self.file, self.seed)?);
        let into = &mut Destination::new(plan.destination_len())?;
        std::thread::scope(|scope| {
            let bulk = with_bulk.then(|| scope.spawn(move || self.bulk_until(plan, into, stop)));
            let reader = |reader| scope.spawn(move || self.read_until(reader, stop));
            let readers: Vec<_> = (0..readers).map(reader).collect();
            std::thread::sleep(self.phase);
            stop.store(true, Ordering::Relaxed);
            let times = readers.into_iter().map(joined);
            let times = times.collect::<Result<Vec<_>>>()?.concat();
            Ok((times, bulk.map_or(Ok(0.0), joined)?))
        })
    }

    /// Reads the bulk's requests repeatedly, as fast as possible; returns the rate up to the end of
    /// the round in which it was stopped.
    fn bulk_until(&self, plan: &Plan, into: &mut [u8], stop: &AtomicBool) -> Result<f64> {
        let (mut peer, access) = ((self.start)(true)?, self.mode.access());
        peer.open(plan, access)?;
        let (start, mut megabytes) = (Instant::now(), 0.0);
        loop {
            peer.read(plan, into)?;
            megabytes += plan.destination_len() as f64 / 1e6;
            if stop.load(Ordering::Relaxed) {
                return Ok(megabytes / start.elapsed().as_secs_f64());
            }
            if self.mode == Mode::Cold {
                // Makes the pages cold again. The readers may have mapped some of the other half of
                // the file, so it is not checked that all pages are gone.
                peer.open(&Plan::new(Vec::new(), Vec::new())?, access)?;
                forget(&self.file.path)?;
                peer.open(plan, access)?;
            }
        }
    }

    fn read_until(&self, nth: usize, stop: &AtomicBool) -> Result<Vec<u64>> {
        let size = REQUEST_BYTES as u64;
        let places = half_of(self.file) / size..self.file.stored_len / size;
        let mut memory = Destination::new(REQUEST_BYTES)?;
        let mut rng = Rng::with_seed(self.seed * READERS as u64 + nth as u64);
        let mut times = Vec::new();
        let mut peer = (self.start)(false)?;
        let file = vec![self.file.path.clone()];
        peer.open(&Plan::new(file.clone(), Vec::new())?, self.mode.access())?;
        while !stop.load(Ordering::Relaxed) {
            let read = Read {
                file: 0,
                offset: rng.u64(places.clone()) * size,
                place: 0,
                len: REQUEST_BYTES as u32,
            };
            let plan = Plan::new(file.clone(), vec![read])?;
            memory[0] = !memory[0];
            let start = Instant::now();
            peer.read(&plan, &mut memory)?;
            times.push(start.elapsed().as_nanos() as u64);
            self.pages.check(plan.reads(), &memory)?;
            std::thread::sleep(PAUSE);
        }
        Ok(times)
    }
}
