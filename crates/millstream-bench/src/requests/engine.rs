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

use crate::case::{Figures, Work, fresh};
use crate::cases::Instance;
use crate::error::Result;
use crate::lend::Loan;
use crate::memory::{Destination, resident_kib};
use crate::metric::Metric;
use crate::null_device::{self, BATCH_REQUESTS, FILE_BYTES, NullDeviceBench, PATH, REQUEST_BYTES};
use crate::ours::{queue_for, read_of, serve};
use crate::requests::cells::{percentiles, random_jobs};
use crate::ring::ReadJob;
use crate::session::Session;

/// Calls of `stats()` while one batch is served.
const STATS_CALLS: usize = 10;
/// Requests on the simulated rotating disk.
const SEEK_REQUESTS: usize = 1000;
/// Staging of the case about memory: little, so that its limit is reached.
const FLAT_STAGING_BYTES: usize = 1 << 20;

/// Runs the cases.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    for instance in session.cases("requests", "null") {
        null_cost(session, &instance)?;
    }
    for instance in session.cases("requests", "engine") {
        let batches: usize = instance.find("batches").unwrap_or(1);
        let requests = batches * BATCH_REQUESTS;
        let mut case = session.begin(&instance);
        for contender in instance.contenders() {
            let mut run = 0;
            let name = instance.name.as_str();
            let take = move |_: &mut Destination| {
                run += 1;
                let figures = match (name, contender) {
                    ("stats() while requests are served", _) => stats_calls(batches),
                    ("memory over many requests", _) => flat_memory(batches),
                    (_, "elevator") => Ok(one_sweep(run)),
                    _ => head_travel(run),
                };
                figures.map(Work::figures)
            };
            case.add(contender, take).with("requests", requests);
        }
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}

/// Requests on a device that does nothing; also through the library for C.
fn null_cost(session: &mut Session<'_>, instance: &Instance) -> Result<()> {
    let (batches, delivery) = (instance.get("batches"), instance.get("delivery"));
    let requests = batches * BATCH_REQUESTS;
    let mut case = session.begin(instance);
    for name in instance.contenders() {
        let run = move |bench: &mut NullDeviceBench, _: &mut Destination| {
            let span = match name {
                "millstream-c" => bench.through_c()?.run(delivery, batches)?,
                _ => bench.run(delivery, batches)?,
            };
            Ok(Work::figures(null_device::cost(&span, requests)))
        };
        case.push(name, fresh(NullDeviceBench::new, run))
            .with("requests", requests);
    }
    session.run(case, &mut Destination::new(0)?).map(drop)
}

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
    Ok(percentiles(["call-p50 us", "call-p99 us"], &mut calls_ns))
}

fn seek_jobs(run: u64) -> Vec<ReadJob> {
    random_jobs(FILE_BYTES, REQUEST_BYTES, SEEK_REQUESTS, run)
}

fn travelled(bytes: u64) -> Figures {
    vec![(Metric::of("head-travel MB"), bytes as f64 / 1e6)]
}

/// From the start of the disk to the last request; bytes read are not travel.
fn one_sweep(run: u64) -> Figures {
    let last = seek_jobs(run).iter().map(|job| job.offset).max();
    travelled(last.unwrap_or(0))
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
    // At once: the elevator orders what it has.
    let loan = Loan::new(&mut destination, vec![queue_for(&storage, jobs.len())?]);
    let mut batch = loan.batch(0);
    for job in &jobs {
        batch.detach(read_of(file, job), job.range())?;
    }
    drop(batch);
    loan.finish()?;
    Ok(travelled(counts.counts().head_travel_bytes - before))
}

/// Unaligned requests, which go through staging, many times over.
fn flat_memory(batches: usize) -> Result<Figures> {
    let (storage, file) = null_device::storage(Some(FLAT_STAGING_BYTES))?;
    let mut destination = Destination::new(BATCH_REQUESTS * REQUEST_BYTES)?;
    let queue = queue_for(&storage, BATCH_REQUESTS)?;
    let mut settled = 0;
    for number in 0..batches {
        let requests = (0..BATCH_REQUESTS).map(|index| {
            let place = index * REQUEST_BYTES..(index + 1) * REQUEST_BYTES;
            let offset = (index * 2 * REQUEST_BYTES) as u64 + 1;
            (Read::range(file, offset, REQUEST_BYTES as u64), place)
        });
        serve(&queue, &mut destination, requests)?;
        if number == batches / 10 {
            settled = resident_kib("VmRSS:")?;
        }
    }
    let grown = resident_kib("VmRSS:")?.saturating_sub(settled);
    let counts = storage.stats();
    let peak = counts.staging_peak_bytes as f64 / counts.staging_capacity_bytes as f64;
    Ok(vec![
        (Metric::of("staging-peak of bound"), peak),
        (Metric::of("growth MiB"), grown as f64 / 1024.0),
    ])
}
