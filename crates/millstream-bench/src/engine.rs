//! What the engine costs and does by itself, without a real disk: cases of workload `requests`.
//!
//! - On a device that does nothing, the processor time per request over the caller's and the
//!   engine's thread, and how long a caller of `stats()` is held.
//! - On a simulated rotating disk, how far the head travels for requests in random order, against
//!   one sweep.
//! - Over very many requests, whether staging stays in its limit and resident memory stays flat.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream::{Access, Backend, DeviceMaker, FileOptions, Read, Storage, StorageOptions};
use millstream_io::device::sim::{Sim, SimFileOptions, SimOptions};

use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::null_device::{
    self, BATCH_REQUESTS, COST, Delivery, FILE_BYTES, NullDeviceBench, PATH, REQUEST_BYTES,
};
use crate::ours::{Loan, opened, queue_for, read_of};
use crate::requests::{WORKLOAD, random_jobs};
use crate::rows::{Metric, Params, Row};
use crate::stats;
use crate::workload::Session;

/// Requests over a device that does nothing, without tickets.
pub(crate) const DETACHED_CASE: &str = "null device, detached";
/// The same, each waited for by its ticket.
pub(crate) const CLAIMED_CASE: &str = "null device, tickets claimed";

/// Snapshots of the counts.
pub(crate) const STATS_CASE: &str = "stats() while requests are served";
/// 99th percentile of one call.
pub(crate) const STATS_P99: Metric = Metric::lower("call-p99", "us");
/// Median of one call.
pub(crate) const STATS_P50: Metric = Metric::lower("call-p50", "us");

/// Order of requests on a simulated rotating disk.
pub(crate) const SEEK_CASE: &str = "seek order on a simulated disk";
/// Distance that the head travels.
pub(crate) const HEAD_TRAVEL: Metric = Metric::lower("head-travel", "MB");

/// Memory over very many requests.
pub(crate) const FLAT_CASE: &str = "memory over many requests";
/// Most staging in use over its limit.
pub(crate) const STAGING_PEAK: Metric = Metric::lower("staging-peak", "of bound");
/// Resident memory gained between the first tenth and the end.
pub(crate) const GROWTH: Metric = Metric::lower("growth", "MiB");

/// Batches of one run on the device that does nothing.
const BATCHES: usize = 1000;
const QUICK_BATCHES: usize = 100;
/// Calls of `stats()` while one batch is served.
const STATS_CALLS: usize = 10;
/// Requests on the simulated rotating disk.
const SEEK_REQUESTS: usize = 1000;
/// Staging of the case about memory: little, so that its limit is reached.
const FLAT_STAGING_BYTES: usize = 1 << 20;

/// Runs the cases.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let batches = session.size(BATCHES, QUICK_BATCHES);
    let runs = session.runs();
    for case in [
        DETACHED_CASE,
        CLAIMED_CASE,
        STATS_CASE,
        SEEK_CASE,
        FLAT_CASE,
    ] {
        if !session.wants(case) {
            continue;
        }
        session.say(&format!("{WORKLOAD}: {case}"));
        let rows = match case {
            DETACHED_CASE => null_cost(case, Delivery::Detached, runs, batches),
            CLAIMED_CASE => null_cost(case, Delivery::Claimed, runs, batches),
            STATS_CASE => stats_calls(runs, batches),
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

fn null_cost(case: &str, delivery: Delivery, runs: usize, batches: usize) -> Result<Vec<Row>> {
    let mut bench = NullDeviceBench::new()?;
    let requests = batches * BATCH_REQUESTS;
    let mut samples = Vec::new();
    // One run goes ahead: it grows the tables.
    for run in 0..=runs {
        let span = bench.run(delivery, batches)?;
        if run > 0 {
            samples.push(span.cpu * 1e9 / requests as f64);
        }
    }
    Ok(vec![row(case, "millstream", COST, samples, requests)])
}

/// Snapshots right after a batch was submitted, while the engine works on it.
fn stats_calls(runs: usize, batches: usize) -> Result<Vec<Row>> {
    let (storage, file) = null_device::storage(None)?;
    let mut destination = Destination::new(BATCH_REQUESTS * REQUEST_BYTES)?;
    let loan = Loan::new(&mut destination, vec![queue_for(&storage, BATCH_REQUESTS)?]);
    let mut batch = loan.batch(0);
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let mut calls_ns = Vec::with_capacity(batches * STATS_CALLS);
        for _ in 0..batches {
            for index in 0..BATCH_REQUESTS {
                let (request, place) = null_device::request(file, index);
                batch.detach(request, place)?;
            }
            batch.submit();
            for _ in 0..STATS_CALLS {
                let start = Instant::now();
                std::hint::black_box(storage.stats());
                calls_ns.push(start.elapsed().as_nanos() as u64);
            }
            loan.drain()?;
        }
        p50.push(stats::percentile(&mut calls_ns, 0.5) as f64 / 1e3);
        p99.push(stats::percentile(&mut calls_ns, 0.99) as f64 / 1e3);
    }
    drop(batch);
    loan.finish()?;
    let requests = batches * BATCH_REQUESTS;
    Ok(vec![
        row(STATS_CASE, "millstream", STATS_P50, p50, requests),
        row(STATS_CASE, "millstream", STATS_P99, p99, requests),
    ])
}

fn seek_order(runs: usize) -> Result<Vec<Row>> {
    let (mut ours, mut ideal) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let (sim, files) = Sim::new(SimOptions {
            seed: run as u64,
            ..SimOptions::default()
        });
        let file = SimFileOptions {
            rotating: true,
            position: Some(0),
            ..SimFileOptions::default()
        };
        files.add_generated(PATH, 1, FILE_BYTES, file);
        let counts = files.clone();
        let mut options = StorageOptions::default();
        let maker = DeviceMaker::new(move || Ok(Box::new(sim)));
        options.backend = Backend::Custom(maker, Arc::new(files));
        options.access = Access::Direct;
        let storage = Storage::new(options)?;
        let file = opened(&storage, Path::new(PATH), FileOptions::default())?;
        let jobs = random_jobs(FILE_BYTES, REQUEST_BYTES, SEEK_REQUESTS, run as u64);
        let mut destination = Destination::new(SEEK_REQUESTS * REQUEST_BYTES)?;
        let before = counts.counts().head_travel_bytes;
        let loan = Loan::new(&mut destination, vec![queue_for(&storage, jobs.len())?]);
        let mut batch = loan.batch(0);
        for job in &jobs {
            batch.detach(read_of(file, job), job.range())?;
        }
        drop(batch);
        loan.finish()?;
        let travelled = counts.counts().head_travel_bytes - before;
        // One sweep from the start of the disk to the last request; bytes read are not travel.
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
    let (storage, file) = null_device::storage(Some(FLAT_STAGING_BYTES))?;
    let mut destination = Destination::new(BATCH_REQUESTS * REQUEST_BYTES)?;
    let loan = Loan::new(&mut destination, vec![queue_for(&storage, BATCH_REQUESTS)?]);
    let mut batch = loan.batch(0);
    let mut settled = 0;
    for number in 0..batches {
        for index in 0..BATCH_REQUESTS {
            let place = index * REQUEST_BYTES..(index + 1) * REQUEST_BYTES;
            let offset = (index * 2 * REQUEST_BYTES) as u64 + 1;
            batch.detach(Read::range(file, offset, REQUEST_BYTES as u64), place)?;
        }
        batch.submit();
        loan.drain()?;
        if number == batches / 10 {
            settled = resident_bytes()?;
        }
    }
    let grown = resident_bytes()?.saturating_sub(settled);
    drop(batch);
    loan.finish()?;
    let counts = storage.stats();
    let peak = counts.staging_peak_bytes as f64 / counts.staging_capacity_bytes as f64;
    let requests = batches * BATCH_REQUESTS;
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
