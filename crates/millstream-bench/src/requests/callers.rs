//! What the caller of the library feels: the time of one request alone, and how long its calls
//! hold it.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use crate::case::{Case, Method, Work, fresh};
use crate::corpus::CorpusFile;
use crate::error::{Context, Result};
use crate::lend::{Loan, one};
use crate::memory::Destination;
use crate::ours::{Ready, Setup, read_of};
use crate::peers;
use crate::requests::cells::{
    Mode, PAGE_BYTES, PageHashes, held as held_by, percentiles, random_jobs,
};
use crate::requests::systems::Reader;
use crate::ring::{BareRing, ReadJob};
use crate::session::Session;
use crate::threads::{self, Disturber};

/// Bytes between two single requests, farther apart than any read-ahead of a random read, so that
/// none finds pages that another has read: the default read-ahead of Linux is 128 KiB.
const STEP_BYTES: u64 = 128 << 10;
/// Single requests ahead of the counted ones.
const WARM_UP_COUNT: usize = 16;

/// One request alone, from handing it over to having its bytes; cold ones find their page not in
/// the cache.
pub(super) fn single(
    session: &mut Session<'_>,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    for instance in session.cases("requests", "single") {
        let mode: Mode = instance.get("mode");
        let mut destination = Destination::new(PAGE_BYTES)?;
        let places = random_jobs(file.stored_len / STEP_BYTES, 1, usize::MAX, 0);
        let count = places
            .len()
            .min(instance.get::<usize>("requests") + WARM_UP_COUNT);
        let places = &places[..count];
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let read: Reader<'_> = match name {
                "pread" => {
                    let fd = mode.open(file)?;
                    Box::new(move |job, into| fd.read_exact_at(into, job.offset).what("pread"))
                }
                _ => {
                    let ready = Ready::new(&file.path, Setup::named(name), false, 1)?;
                    Box::new(move |job, into| {
                        // All of it moves in: its storage lives as long as its queue.
                        let ready = &ready;
                        one(&ready.queue, read_of(ready.file, job), into)
                    })
                }
            };
            let run = one_by_one(read, places, pages);
            case.push(name, run).with("requests", count - WARM_UP_COUNT);
        }
        case.prepare(|| mode.make_state(file));
        session.run(case, &mut destination)?;
    }
    Ok(())
}

/// Reads a page at each of these places, one at a time, and checks it.
fn one_by_one(
    mut read: impl FnMut(&ReadJob, &mut [u8]) -> Result<()>,
    places: &[ReadJob],
    pages: &PageHashes,
) -> impl Method {
    move |into: &mut Destination| {
        let memory = &mut into[..PAGE_BYTES];
        let mut times_ns = Vec::with_capacity(places.len());
        for place in places {
            let job = ReadJob::new(place.offset * STEP_BYTES, 0, PAGE_BYTES);
            memory[0] = !memory[0];
            let start = Instant::now();
            read(&job, memory)?;
            times_ns.push(start.elapsed().as_nanos() as u64);
            pages.check(&[job], memory)?;
        }
        let counted = times_ns.get_mut(WARM_UP_COUNT..).unwrap_or_default();
        Ok(Work::figures(percentiles(["p50 us", "p99 us"], counted)))
    }
}

/// Reads whose hand-over is timed, in a quick run as well: the 99th percentile of fewer would be
/// the longest.
const READS: usize = 100;
const READ_BYTES: usize = 1 << 20;

/// How long the caller is held by a hundred reads of 1 MiB, added one by one; also on a busy
/// machine, where a wake may preempt it. Only the calls that the caller's own thread makes count,
/// not the time until the bytes are there; but they are awaited and checked.
pub(super) fn held(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let jobs = random_jobs(file.stored_len, READ_BYTES, READS, 3);
    let mut destination = Destination::new(READS * READ_BYTES)?;
    for instance in session.cases("requests", "held") {
        let mode: Mode = instance.get("mode");
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            match name {
                "millstream" => add_adds(&mut case, file, &jobs),
                _ => {
                    let ring = ring_calls(file, mode, &jobs, name == "ring-async");
                    case.try_push(name, ring);
                }
            }
        }
        peers::hand_over(&mut case, file, mode, &jobs);
        case.prepare(|| mode.make_state(file));
        case.check(READS * READ_BYTES, |bytes, _| pages.check(&jobs, bytes));
        let busy_cores = match instance.name.ends_with(", busy cores") {
            true => threads::cores(),
            false => 0,
        };
        let hog = |_| Disturber::start("while :; do :; done", Path::new(""));
        let _hogs = (0..busy_cores).map(hog).collect::<Result<Vec<_>>>()?;
        session.run(case, &mut destination)?;
    }
    Ok(())
}

/// The bare ring, submitted read by read.
fn ring_calls(
    file: &CorpusFile,
    mode: Mode,
    jobs: &[ReadJob],
    offload: bool,
) -> Result<impl Method> {
    let (fd, mut ring) = (mode.open(file)?, BareRing::new(jobs.len())?);
    Ok(move |into: &mut Destination| {
        let held_ns = ring.submit_each(fd.as_raw_fd(), jobs, into, offload)?;
        Ok(Work::of(0, jobs.len()).with(held_by(held_ns)))
    })
}

/// Adds ours: reads added one by one, then submitted.
fn add_adds<'a>(case: &mut Case<'a>, file: &'a CorpusFile, jobs: &'a [ReadJob]) {
    let make = move || Ready::new(&file.path, Setup::default(), false, jobs.len());
    let run = move |ready: &mut Ready, into: &mut Destination| {
        let loan = Loan::new(into, vec![ready.queue.clone()]);
        let mut batch = loan.batch(0);
        let mut held_ns = Vec::with_capacity(jobs.len() + 1);
        for job in jobs {
            let start = Instant::now();
            batch.detach(read_of(ready.file, job), job.range())?;
            held_ns.push(start.elapsed().as_nanos() as u64);
        }
        let start = Instant::now();
        batch.submit();
        held_ns.push(start.elapsed().as_nanos() as u64);
        drop(batch);
        loan.finish()?;
        Ok(Work::of(0, jobs.len()).with(held_by(held_ns)))
    };
    case.push("millstream", fresh(make, run));
}
