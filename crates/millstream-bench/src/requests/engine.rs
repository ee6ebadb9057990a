//! What the engine costs and does by itself, without a real disk.
//!
//! - On a device that does nothing, the processor time per request over the caller's and the
//!   engine's thread, and how long a caller of `stats()` is held.
//! - On a simulated rotating disk, how far the head travels for requests in random order, against
//!   one sweep.
//! - Over very many requests, whether staging stays in its limit and resident memory stays flat.

use std::time::Instant;

use millstream::Read;
use millstream_io::device::sim::{Sim, SimFileOptions, SimOptions};

use super::ours::read_of;
use crate::case::{Contender, Figures, Work};
use crate::error::{Context, Error, Result};
use crate::lend::Loan;
use crate::memory::Destination;
use crate::null_device::{
    self, BATCH_REQUESTS, COST, Delivery, FILE_BYTES, NullDeviceBench, PATH, REQUEST_BYTES,
};
use crate::requests::cells::{WORKLOAD, percentiles, random_jobs};
use crate::ring::ReadJob;
use crate::rows::Metric;
use crate::session::Session;
use crate::setup::queue_for;

/// 99th percentile of one call.
const STATS_P99: Metric = Metric::lower("call-p99", "us");
/// Median of one call.
const STATS_P50: Metric = Metric::lower("call-p50", "us");
/// Distance that the head travels.
const HEAD_TRAVEL: Metric = Metric::lower("head-travel", "MB");
/// Most staging in use over its limit.
const STAGING_PEAK: Metric = Metric::lower("staging-peak", "of bound");
/// Resident memory gained between the first tenth and the end.
const GROWTH: Metric = Metric::lower("growth", "MiB");
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
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let batches = session.size(BATCHES, QUICK_BATCHES);
    let null_cost = |delivery| {
        let mut bench = None;
        move || {
            let bench = match &mut bench {
                Some(bench) => bench,
                none => none.insert(NullDeviceBench::new()?),
            };
            let span = bench.run(delivery, batches)?;
            let requests = batches * BATCH_REQUESTS;
            Ok(vec![(COST, span.cpu * 1e9 / requests as f64)])
        }
    };
    let (mut ours, mut elevator) = (0, 0);
    let seek_order = move || {
        ours += 1;
        head_travel(ours)
    };
    let one_sweep = move || {
        elevator += 1;
        // From the start of the disk to the last request; bytes read are not travel.
        let last = seek_jobs(elevator).iter().map(|job| job.offset).max();
        Ok(vec![(HEAD_TRAVEL, last.unwrap_or(0) as f64 / 1e6)])
    };
    let requests = batches * BATCH_REQUESTS;
    type Take = Box<dyn FnMut() -> Result<Figures>>;
    let cases: [(&str, &str, usize, Take); 6] = [
        (
            "null device, detached",
            "millstream",
            requests,
            Box::new(null_cost(Delivery::Detached)),
        ),
        (
            "null device, tickets claimed",
            "millstream",
            requests,
            Box::new(null_cost(Delivery::Claimed)),
        ),
        (
            "stats() while requests are served",
            "millstream",
            requests,
            Box::new(move || stats_calls(batches)),
        ),
        (SEEK_CASE, "millstream", SEEK_REQUESTS, Box::new(seek_order)),
        (SEEK_CASE, "elevator", SEEK_REQUESTS, Box::new(one_sweep)),
        (
            FLAT_CASE,
            "millstream",
            requests,
            Box::new(move || flat_memory(batches)),
        ),
    ];
    let mut destination = Destination::new(0)?;
    for (name, contender, requests, mut take) in cases {
        let Some(mut case) = session.begin(WORKLOAD, name) else {
            continue;
        };
        if name == FLAT_CASE {
            (case.runs, case.warm_up) = (1, false);
        }
        let run = move |_: &mut Destination| take().map(Work::figures);
        let contender = Contender::new(contender, run);
        case.push(contender.with("requests", requests));
        session.run(case, &mut destination)?;
    }
    through_c(session, batches)
}

/// The same requests through the library for C, beside the library itself.
fn through_c(session: &mut Session<'_>, batches: usize) -> Result<()> {
    let mut destination = Destination::new(0)?;
    for delivery in [Delivery::Detached, Delivery::Claimed, Delivery::Posted] {
        let name = format!("null device through C, {}", delivery.name());
        let Some(mut case) = session.begin(WORKLOAD, name) else {
            continue;
        };
        let requests = batches * BATCH_REQUESTS;
        for (contender, through_c) in [("millstream", false), ("millstream-c", true)] {
            let run = move |bench: &mut NullDeviceBench, _: &mut Destination| {
                let span = match through_c {
                    true => bench.through_c()?.run(delivery, batches)?,
                    false => bench.run(delivery, batches)?,
                };
                Ok(Work::figures(vec![(
                    COST,
                    span.cpu * 1e9 / requests as f64,
                )]))
            };
            let contender = Contender::prepared(contender, NullDeviceBench::new, run);
            case.push(contender.with("requests", requests));
        }
        session.run(case, &mut destination)?;
    }
    Ok(())
}

/// Order of requests on a simulated rotating disk.
const SEEK_CASE: &str = "seek order on a simulated disk";
/// Memory over very many requests.
const FLAT_CASE: &str = "memory over many requests";

/// Snapshots right after a batch was submitted, while the engine works on it.
fn stats_calls(batches: usize) -> Result<Figures> {
    let (storage, file) = null_device::storage(None)?;
    let mut destination = Destination::new(BATCH_REQUESTS * REQUEST_BYTES)?;
    let loan = Loan::new(&mut destination, vec![queue_for(&storage, BATCH_REQUESTS)?]);
    let mut batch = loan.batch(0);
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
    drop(batch);
    loan.finish()?;
    Ok(percentiles(STATS_P50, STATS_P99, &mut calls_ns))
}

fn seek_jobs(run: u64) -> Vec<ReadJob> {
    random_jobs(FILE_BYTES, REQUEST_BYTES, SEEK_REQUESTS, run)
}

/// How far the head travels for random requests that are all there at once.
fn head_travel(run: u64) -> Result<Figures> {
    let (sim, files) = Sim::new(SimOptions {
        seed: run,
        ..SimOptions::default()
    });
    let file = SimFileOptions {
        rotating: true,
        position: Some(0),
        ..SimFileOptions::default()
    };
    files.add_generated(PATH, 1, FILE_BYTES, file);
    let counts = files.clone();
    let (storage, file) = null_device::storage_on(move || Box::new(sim), files, None)?;
    let jobs = seek_jobs(run);
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
    Ok(vec![(HEAD_TRAVEL, travelled as f64 / 1e6)])
}

/// Unaligned requests, which go through staging, many times over.
fn flat_memory(batches: usize) -> Result<Figures> {
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
    let growth = grown as f64 / f64::from(1 << 20);
    Ok(vec![(STAGING_PEAK, peak), (GROWTH, growth)])
}

/// Resident memory of this process.
fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").what("read /proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|it| it.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| Error::new("/proc/self/statm is not as expected"))?;
    Ok(pages * rustix::param::page_size() as u64)
}
