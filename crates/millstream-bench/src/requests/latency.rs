//! One request alone: from handing it over to having its bytes.
//!
//! Contenders take turns request by request, each at places of its own, so that both see the same
//! machine. A cold request finds its page not in the cache; places are farther apart than any
//! read-ahead of a random read, so that nobody finds the other's leavings.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use super::ring_reads::open_for;
use super::{Mode, PAGE_BYTES, PageHashes, WORKLOAD, pool};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::ours;
use crate::ring::ReadJob;
use crate::rows::{Metric, Params, Row};
use crate::stats;
use crate::workload::Session;

/// Median of one run.
pub(crate) const P50: Metric = Metric::lower("p50", "us");
/// 99th percentile of one run.
pub(crate) const P99: Metric = Metric::lower("p99", "us");

/// Bytes between two requests: the default read-ahead of Linux is 128 KiB.
const STEP_BYTES: u64 = 128 << 10;
/// Requests of one contender in a run.
const COUNT: usize = 2000;
const QUICK_COUNT: usize = 300;
/// Requests ahead of the counted ones.
const WARM_UP_COUNT: usize = 16;

/// Reads single requests, one at a time, waiting for each.
pub(crate) trait SingleReader {
    /// Its name in rows.
    fn name(&self) -> String;
    /// Reads one request into `into`.
    fn read(&mut self, job: &ReadJob, into: &mut [u8]) -> Result<()>;
}

/// A bare `pread`.
struct Pread(OwnedFd);

impl SingleReader for Pread {
    fn name(&self) -> String {
        "pread".into()
    }

    fn read(&mut self, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        pool::pread(&self.0, job, into)
    }
}

/// A `pread` by another thread, with the channels of the standard library: the least that handing
/// a request over and waiting for it costs here. (Waking an idle core takes 5 to 50 µs.)
struct HandedOver {
    jobs: SyncSender<(ReadJob, Vec<u8>)>,
    done: Receiver<(Result<()>, Vec<u8>)>,
    memory: Vec<u8>,
}

impl HandedOver {
    fn new(file: OwnedFd) -> Result<HandedOver> {
        let (jobs, taken) = sync_channel::<(ReadJob, Vec<u8>)>(1);
        let (ended, done) = sync_channel(1);
        let serve = move || {
            while let Ok((job, mut memory)) = taken.recv() {
                let result = pool::pread(&file, &job, &mut memory);
                if ended.send((result, memory)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("pread-thread".into())
            .spawn(serve)
            .map_err(|error| Error::io("start a thread", error))?;
        Ok(HandedOver {
            jobs,
            done,
            memory: vec![0; PAGE_BYTES],
        })
    }
}

impl SingleReader for HandedOver {
    fn name(&self) -> String {
        "pread-thread".into()
    }

    fn read(&mut self, job: &ReadJob, into: &mut [u8]) -> Result<()> {
        let gone = || Error::new("the reading thread is gone");
        let memory = std::mem::take(&mut self.memory);
        self.jobs.send((*job, memory)).map_err(|_| gone())?;
        let (result, memory) = self.done.recv().map_err(|_| gone())?;
        into.copy_from_slice(&memory);
        self.memory = memory;
        result
    }
}

/// Runs the cases.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    for mode in [Mode::Cold, Mode::Warm] {
        if !session.wants(&case_name(mode)) {
            continue;
        }
        let mut readers: Vec<Box<dyn SingleReader>> = vec![
            Box::new(Pread(open_for(file, mode)?)),
            Box::new(HandedOver::new(open_for(file, mode)?)?),
        ];
        ours::single_readers(&mut readers, file)?;
        case(session, mode, file, pages, &mut readers)?;
    }
    Ok(())
}

pub(super) fn case_name(mode: Mode) -> String {
    format!("single 4K {}", mode.name())
}

fn case(
    session: &mut Session<'_>,
    mode: Mode,
    file: &CorpusFile,
    pages: &PageHashes,
    readers: &mut [Box<dyn SingleReader>],
) -> Result<()> {
    let name = case_name(mode);
    session.say(&format!("{WORKLOAD}: {name}"));
    let count = session.size(COUNT, QUICK_COUNT) + WARM_UP_COUNT;
    let places = (file.stored_len / STEP_BYTES) as usize;
    let count = count.min(places / readers.len());
    let runs = session.runs();
    let mut destination = Destination::new(PAGE_BYTES)?;
    let mut samples = vec![(Vec::new(), Vec::new()); readers.len()];
    let mut failed: Vec<Option<String>> = vec![None; readers.len()];
    for run in 0..runs {
        match mode {
            Mode::Warm => cold::warm_path(&file.path)?,
            _ => cold::drop_path(&file.path)?,
        }
        let mut order: Vec<u64> = (0..places as u64).collect();
        fastrand::Rng::with_seed(run as u64).shuffle(&mut order);
        let mut times = vec![Vec::with_capacity(count); readers.len()];
        let mut order = order.into_iter();
        for _ in 0..count {
            for (index, reader) in readers.iter_mut().enumerate() {
                let Some(place) = order.next() else { break };
                if failed[index].is_none() {
                    match single(reader.as_mut(), place, pages, &mut destination) {
                        Ok(ns) => times[index].push(ns),
                        Err(error) => failed[index] = Some(error.to_string()),
                    }
                }
            }
        }
        for (times, (p50, p99)) in times.iter_mut().zip(&mut samples) {
            let counted = times.get_mut(WARM_UP_COUNT..).unwrap_or_default();
            p50.push(stats::percentile(counted, 0.5) as f64 / 1e3);
            p99.push(stats::percentile(counted, 0.99) as f64 / 1e3);
        }
    }
    let mut rows = Vec::new();
    for (index, (p50, p99)) in samples.into_iter().enumerate() {
        let reader = readers[index].name();
        if let Some(why) = &failed[index] {
            session.fail(format!("{WORKLOAD} {name} {reader}: {why}"));
            rows.push(Row::skipped(WORKLOAD, &name, &reader, why));
            continue;
        }
        let params = Params::from([("requests".into(), (count - WARM_UP_COUNT).into())]);
        rows.push(Row::figures(
            WORKLOAD,
            &name,
            &reader,
            P50,
            p50,
            params.clone(),
        ));
        rows.push(Row::figures(WORKLOAD, &name, &reader, P99, p99, params));
    }
    session.keep(rows)
}

/// Nanoseconds of one checked request.
fn single(
    reader: &mut dyn SingleReader,
    place: u64,
    pages: &PageHashes,
    destination: &mut Destination,
) -> Result<u64> {
    let job = ReadJob {
        file: 0,
        offset: place * STEP_BYTES,
        place: 0,
        len: PAGE_BYTES as u32,
        need: PAGE_BYTES as u32,
    };
    let memory = &mut destination[..PAGE_BYTES];
    memory[0] = !memory[0];
    let start = Instant::now();
    reader.read(&job, memory)?;
    let ns = start.elapsed().as_nanos() as u64;
    pages.check(&[job], memory)?;
    Ok(ns)
}
