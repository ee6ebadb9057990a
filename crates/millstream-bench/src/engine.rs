//! What the engine costs and does by itself, without a real disk: cases of workload `requests`.
//!
//! - On a device that does nothing, the processor time per request over the caller's and the
//!   engine's thread.
//! - On a simulated rotating disk, how far the head travels for requests in random order, against
//!   one sweep.
//! - Over very many requests, whether staging stays in its bound and resident memory stays flat.

use std::path::Path;
use std::sync::Arc;

use millstream::options::DeviceMaker;
use millstream::{Access, Backend, FileId, QueueOptions, Request, Storage, StorageOptions};
use millstream_io::device::null::NullDevice;
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use millstream_io::fs::DirectAlignment;

use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::ours::{Loan, failed, queue_for};
use crate::requests::{WORKLOAD, random_jobs};
use crate::rows::{Metric, Params, Row};
use crate::workload::Session;

/// Requests through the whole engine over a device that does nothing.
pub(crate) const NULL_CASE: &str = "null device, batches of 1000";
/// Processor time of both threads per request.
pub(crate) const COST: Metric = Metric::lower("cost", "ns/request");

/// Order of requests on a simulated rotating disk.
pub(crate) const SEEK_CASE: &str = "seek order on a simulated disk";
/// Distance that the head travels.
pub(crate) const HEAD_TRAVEL: Metric = Metric::lower("head-travel", "MB");

/// Memory over very many requests.
pub(crate) const FLAT_CASE: &str = "memory over many requests";
/// Most staging in use over its bound.
pub(crate) const STAGING_PEAK: Metric = Metric::lower("staging-peak", "of bound");
/// Resident memory gained between the first tenth and the end.
pub(crate) const GROWTH: Metric = Metric::lower("growth", "MiB");

/// Requests of a batch.
const BATCH: usize = 1000;
/// Batches of one run on the device that does nothing.
const BATCHES: usize = 1000;
const QUICK_BATCHES: usize = 100;
/// Bytes of a request.
const REQUEST_BYTES: usize = 4096;
/// Bytes of the simulated files.
const FILE_BYTES: u64 = 1 << 30;
/// Requests on the simulated rotating disk.
const SEEK_REQUESTS: usize = 1000;
/// Staging of the case about memory: little, so that its bound is felt.
const FLAT_STAGING_BYTES: usize = 1 << 20;

/// Runs the cases.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let batches = session.size(BATCHES, QUICK_BATCHES);
    let runs = session.runs();
    for case in [NULL_CASE, SEEK_CASE, FLAT_CASE] {
        if !session.wants(case) {
            continue;
        }
        session.say(&format!("{WORKLOAD}: {case}"));
        let rows = match case {
            NULL_CASE => null_cost(runs, batches),
            SEEK_CASE => seek_order(runs),
            _ => flat_memory(batches),
        };
        match rows {
            Ok(rows) => session.keep(rows)?,
            Err(error) => {
                session.fail(format!("{WORKLOAD} {case} millstream: {error}"));
                let why = error.to_string();
                session.keep(vec![Row::skipped(WORKLOAD, case, "millstream", &why)])?;
            }
        }
    }
    Ok(())
}

fn row(case: &str, who: &str, metric: Metric, samples: Vec<f64>, requests: usize) -> Row {
    let params = Params::from([("requests".into(), requests.into())]);
    Row::figures(WORKLOAD, case, who, metric, samples, params)
}

const PATH: &str = "simulated.bin";

/// The simulated file system with one file.
fn files(options: SimOptions, file: SimFileOptions) -> (Sim, SimFiles) {
    let (sim, files) = Sim::new(options);
    files.add_generated(PATH, 1, FILE_BYTES, file);
    (sim, files)
}

fn plain_file() -> SimFileOptions {
    SimFileOptions {
        direct: Some(DirectAlignment {
            memory: 512,
            offset: 512,
        }),
        ..SimFileOptions::default()
    }
}

/// A storage over a device that does nothing, with its file open.
pub(crate) fn null_storage(staging_bytes: Option<usize>) -> Result<(Storage, FileId)> {
    let (_, files) = files(SimOptions::default(), plain_file());
    let mut options = StorageOptions::default();
    let depth = options.depth as usize;
    let maker = DeviceMaker::new(move || Ok(Box::new(NullDevice::new(depth))));
    options.backend = Backend::Custom(maker, Arc::new(files));
    options.access = Access::Direct;
    options.staging_bytes = staging_bytes.unwrap_or(options.staging_bytes);
    opened(options)
}

fn opened(options: StorageOptions) -> Result<(Storage, FileId)> {
    let storage = Storage::new(options).map_err(|error| failed(&error))?;
    let file = storage.open(Path::new(PATH));
    storage
        .opened(file)
        .wait()
        .map_err(|error| failed(&error))?;
    Ok((storage, file))
}

fn null_cost(runs: usize, batches: usize) -> Result<Vec<Row>> {
    let (storage, file) = null_storage(None)?;
    let mut destination = Destination::new(BATCH * REQUEST_BYTES)?;
    let mut samples = Vec::new();
    // One run goes ahead: it grows the tables.
    for run in 0..=runs {
        let queue = queue_for(&storage, BATCH)?;
        let loan = Loan::new(&mut destination, vec![queue]);
        let start = Moment::now();
        for _ in 0..batches {
            for index in 0..BATCH {
                let place = index * REQUEST_BYTES..(index + 1) * REQUEST_BYTES;
                let offset = (index * 2 * REQUEST_BYTES) as u64;
                loan.detached(0, Request::read(file, offset, REQUEST_BYTES as u64), place)?;
            }
            loan.queue(0).drain();
        }
        let span = start.elapsed();
        loan.finish()?;
        if run > 0 {
            samples.push(span.cpu * 1e9 / (batches * BATCH) as f64);
        }
    }
    Ok(vec![row(
        NULL_CASE,
        "millstream",
        COST,
        samples,
        batches * BATCH,
    )])
}

fn seek_order(runs: usize) -> Result<Vec<Row>> {
    let (mut ours, mut ideal) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let options = SimOptions {
            seed: run as u64,
            ..SimOptions::default()
        };
        let file = SimFileOptions {
            rotating: true,
            position: Some(0),
            ..plain_file()
        };
        let (sim, files) = files(options, file);
        let counts = files.clone();
        let mut options = StorageOptions::default();
        let maker = DeviceMaker::new(move || Ok(Box::new(sim)));
        options.backend = Backend::Custom(maker, Arc::new(files));
        options.access = Access::Direct;
        let (storage, file) = opened(options)?;
        let jobs = random_jobs(FILE_BYTES, REQUEST_BYTES, SEEK_REQUESTS, run as u64);
        let mut destination = Destination::new(SEEK_REQUESTS * REQUEST_BYTES)?;
        let before = counts.counts().head_travel_bytes;
        let loan = Loan::new(&mut destination, vec![queue_for(&storage, jobs.len())?]);
        for job in &jobs {
            let request = Request::read(file, job.offset, u64::from(job.len));
            loan.detached(0, request, job.place..job.place + job.len as usize)?;
        }
        loan.finish()?;
        let travelled = counts.counts().head_travel_bytes - before;
        // From the disk's begin to the last request, once; what is read on the way is no travel.
        let last = jobs.iter().map(|job| job.offset).max().unwrap_or(0);
        ours.push(travelled as f64 / 1e6);
        ideal.push(last as f64 / 1e6);
    }
    Ok(vec![
        row(SEEK_CASE, "millstream", HEAD_TRAVEL, ours, SEEK_REQUESTS),
        row(SEEK_CASE, "elevator", HEAD_TRAVEL, ideal, SEEK_REQUESTS),
    ])
}

/// Unaligned requests, which go through staging, many times over.
fn flat_memory(batches: usize) -> Result<Vec<Row>> {
    let (storage, file) = null_storage(Some(FLAT_STAGING_BYTES))?;
    let queue = storage
        .queue(QueueOptions::default())
        .map_err(|error| failed(&error))?;
    let mut destination = Destination::new(BATCH * REQUEST_BYTES)?;
    let loan = Loan::new(&mut destination, vec![queue]);
    let mut settled = 0;
    for batch in 0..batches {
        for index in 0..BATCH {
            let place = index * REQUEST_BYTES..(index + 1) * REQUEST_BYTES;
            let offset = (index * 2 * REQUEST_BYTES) as u64 + 1;
            loan.detached(0, Request::read(file, offset, REQUEST_BYTES as u64), place)?;
        }
        loan.queue(0).drain();
        if batch == batches / 10 {
            settled = resident_bytes()?;
        }
    }
    let grown = resident_bytes()?.saturating_sub(settled);
    loan.finish()?;
    let stats = storage.stats();
    let peak = stats.staging_peak_bytes as f64 / stats.staging_capacity_bytes as f64;
    let requests = batches * BATCH;
    let growth = grown as f64 / f64::from(1 << 20);
    Ok(vec![
        row(FLAT_CASE, "millstream", STAGING_PEAK, vec![peak], requests),
        row(FLAT_CASE, "millstream", GROWTH, vec![growth], requests),
    ])
}

/// Resident memory of this process.
fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")
        .map_err(|error| Error::io("read /proc/self/statm", error))?;
    text.split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .map(|pages| pages * rustix::param::page_size() as u64)
        .ok_or_else(|| Error::new("/proc/self/statm is not as expected"))
}
