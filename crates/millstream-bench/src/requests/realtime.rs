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
use millstream_peers::{Peer, Plan, Read, Rival, rivals};

use crate::case::{Figures, Work};
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::files::{drop_path, forget};
use crate::memory::Destination;
use crate::metric::Metric;
use crate::ours::{Ours, Setup};
use crate::peers::{self, NO_SEEKS, bare};
use crate::requests::cells::{Mode, PageHashes, random_reads_below};
use crate::rows::Params;
use crate::session::Session;
use crate::stats;
use crate::threads::joined;

const READERS: usize = 4;
const REQUEST_BYTES: usize = 64 << 10;
const PAUSE: Duration = Duration::from_micros(500);
/// Bytes of bulk reads submitted at a time.
const BULK_BATCH_BYTES: usize = 32 << 20;
const BULK_REQUEST_BYTES: usize = 1 << 20;
/// Depths that are tried for the bulk of a rival.
const BULK_DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// Share of the best depth's rate with which a smaller depth is good enough.
const ENOUGH: f64 = 0.95;

/// Creates a peer; the flag is set for the bulk, and not for a reader.
type Start<'a> = Box<dyn Fn(bool) -> Result<Box<dyn Peer>> + Sync + 'a>;

/// A system with readers that are in a hurry and a bulk reader that is not.
struct System<'a> {
    mode: Mode,
    params: Params,
    start: Start<'a>,
}

/// `pread` readers beside a bare ring.
fn no_priorities<'a>() -> Result<System<'a>> {
    let (pread, ring) = (bare("pread"), bare("ring-plain"));
    let start = move |is_bulk| {
        Ok(if is_bulk {
            ring.start(8)
        } else {
            pread.start(1)
        }?)
    };
    Ok(System {
        mode: Mode::Direct,
        params: Params::new(),
        start: Box::new(start),
    })
}

/// Readers of realtime priority, each with a queue of its own, beside bulk of low priority.
fn ours<'a>() -> Result<System<'a>> {
    let storage = Setup::direct().storage()?;
    let start = move |is_bulk| {
        let priority = if is_bulk {
            Priority::Low
        } else {
            Priority::Realtime
        };
        let ours = Ours::sharing(&storage, priority);
        Ok(Box::new(ours) as Box<dyn Peer>)
    };
    Ok(System {
        mode: Mode::Direct,
        params: Params::new(),
        start: Box::new(start),
    })
}

fn library<'a>(rival: Rival, file: &CorpusFile) -> Result<System<'a>> {
    if !rival.seeks {
        return Err(Error::new(NO_SEEKS));
    }
    let mode = match rival.accesses.first() {
        Some(millstream_peers::Access::Direct) => Mode::Direct,
        _ => Mode::Cold,
    };
    let bulk = bulk_reads(file, 0)?;
    let time = |depth| peers::read_time(rival, file, mode, &bulk, depth);
    let times: Vec<f64> = BULK_DEPTHS.into_iter().map(time).collect::<Result<_>>()?;
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let good = times.iter().position(|time| *time <= best / ENOUGH);
    let depth = BULK_DEPTHS[good.unwrap_or(0)];
    let params = [
        ("version".into(), rival.version.into()),
        ("bulk_depth".into(), depth.into()),
    ];
    let start = move |is_bulk| Ok(rival.start(if is_bulk { depth } else { 1 })?);
    Ok(System {
        mode,
        params: Params::from(params),
        start: Box::new(start),
    })
}

pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    for instance in session.cases("requests", "realtime") {
        let phase = Duration::from_millis(instance.get("milliseconds"));
        drop_path(&file.path)?;
        let mut case = session.begin(&instance);
        let mut systems = vec![("pread+ring", no_priorities())];
        systems.extend(rivals().iter().map(|it| (it.name, library(*it, file))));
        systems.push(("millstream", ours()));
        for (name, system) in systems {
            let mut seed = 0;
            let run = system.map(|system| {
                let params = system.params.clone();
                let run = move |_: &mut Destination| {
                    seed += 1;
                    let run = Run {
                        system: &system,
                        file,
                        pages,
                        phase,
                        seed,
                    };
                    run.all_phases().map(Work::figures)
                };
                (run, params)
            });
            match run {
                Ok((run, params)) => case.add(name, run).params = params,
                Err(why) => case.skip(name, &why.to_string()),
            }
        }
        session.run(case)?;
    }
    Ok(())
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

struct Run<'a> {
    system: &'a System<'a>,
    file: &'a CorpusFile,
    pages: &'a PageHashes,
    phase: Duration,
    seed: u64,
}

impl Run<'_> {
    fn all_phases(&self) -> Result<Figures> {
        // First: a system that keeps bulk short for readers does so for a while after the last one.
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
        let (mut peer, access) = ((self.system.start)(true)?, self.system.mode.access());
        peer.open(plan, access)?;
        let (start, mut megabytes) = (Instant::now(), 0.0);
        loop {
            peer.read(plan, into)?;
            megabytes += plan.destination_len() as f64 / 1e6;
            if stop.load(Ordering::Relaxed) {
                return Ok(megabytes / start.elapsed().as_secs_f64());
            }
            if self.system.mode == Mode::Cold {
                // Makes the pages cold again. The readers may have mapped some of the other half of
                // the file, so it is not checked that all pages are gone.
                peer.open(&Plan::new(Vec::new(), Vec::new())?, access)?;
                forget(&self.file.path)?;
                peer.open(plan, access)?;
            }
        }
    }

    /// Runs one reader: request, pause, request.
    fn read_until(&self, nth: usize, stop: &AtomicBool) -> Result<Vec<u64>> {
        let size = REQUEST_BYTES as u64;
        let places = half_of(self.file) / size..self.file.stored_len / size;
        let mut destination = Destination::new(REQUEST_BYTES)?;
        let memory = &mut destination[..REQUEST_BYTES];
        let mut rng = Rng::with_seed(self.seed * READERS as u64 + nth as u64);
        let mut times = Vec::new();
        let mut peer = (self.system.start)(false)?;
        let file = vec![self.file.path.clone()];
        peer.open(
            &Plan::new(file.clone(), Vec::new())?,
            self.system.mode.access(),
        )?;
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
            peer.read(&plan, memory)?;
            times.push(start.elapsed().as_nanos() as u64);
            self.pages.check(plan.reads(), memory)?;
            std::thread::sleep(PAUSE);
        }
        Ok(times)
    }
}
