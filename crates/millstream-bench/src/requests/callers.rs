//! What the caller of the library feels: the time of one request alone, how long its calls hold
//! it, and what a frame of a busy machine loses.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use millstream::{FileOptions, Storage};

use crate::case::{Case, Method, Work, fresh};
use crate::cases::Instance;
use crate::corpus::CorpusFile;
use crate::error::{Context, Result, ensure};
use crate::files::{drop_path, open_buffered};
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
use crate::threads::Hogs;

/// Bytes between two single requests, farther apart than any read-ahead of a random read, so that
/// none finds pages that another has read: the default read-ahead of Linux is 128 KiB.
const STEP_BYTES: u64 = 128 << 10;
/// Single requests, and frames, ahead of the counted ones.
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

/// Requests of a frame, and bytes of each.
const FRAME_REQUESTS: usize = 16;
const FRAME_REQUEST_BYTES: usize = 64 << 10;
const FRAMES_PER_SECOND: u32 = 120;

/// A frame thread on a busy machine: 16 requests in one batch each frame, while threads spin on
/// every core. The figures are what the frame is held for: all adds and the submit. With every core
/// busy, waking the engine may preempt the frame thread, which then loses a time slice of
/// milliseconds. `millstream-preempting` has threads of the ordinary scheduling policy; the
/// default's do not preempt.
pub(super) fn frame(
    session: &mut Session<'_>,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    for instance in session.cases("requests", "frame") {
        let frames: usize = instance.get("frames");
        drop_path(&file.path)?;
        let mut case = session.begin(&instance);
        let hogs = Hogs::start()?;
        for name in instance.contenders() {
            let setup = Setup {
                access: millstream::Access::Direct,
                ..Setup::named(name)
            };
            let ready = Ready::new(&file.path, setup, false, FRAME_REQUESTS)?;
            let mut seed = 0;
            let run = move |into: &mut Destination| {
                seed += 1;
                let mut held_ns = frames_held(&ready, file, pages, frames, seed, into)?;
                let metrics = ["submit-p50 us", "submit-p99 us"];
                Ok(Work::figures(percentiles(metrics, &mut held_ns)))
            };
            let contender = case.add(name, run);
            contender
                .with("requests", FRAME_REQUESTS)
                .with("frames", frames);
            contender.with("frames_per_second", FRAMES_PER_SECOND);
            contender.with("spinning_threads", hogs.count());
        }
        session.run(
            case,
            &mut Destination::new(FRAME_REQUESTS * FRAME_REQUEST_BYTES)?,
        )?;
    }
    Ok(())
}

/// One run; returns the nanoseconds that each frame was held.
fn frames_held(
    ready: &Ready,
    file: &CorpusFile,
    pages: &PageHashes,
    frames: usize,
    seed: u64,
    into: &mut Destination,
) -> Result<Vec<u64>> {
    let mut held_ns = Vec::with_capacity(frames);
    let count = FRAME_REQUESTS * frames;
    let mut all = random_jobs(file.stored_len, FRAME_REQUEST_BYTES, count, seed);
    for (number, job) in all.iter_mut().enumerate() {
        // Every frame's requests land in the same memory.
        job.place = number % FRAME_REQUESTS * FRAME_REQUEST_BYTES;
    }
    let frame_time = Duration::from_secs(1) / FRAMES_PER_SECOND;
    let mut next = Instant::now();
    let jobs = all.chunks_exact(FRAME_REQUESTS).cycle();
    for (frame, jobs) in jobs.take(WARM_UP_COUNT + frames).enumerate() {
        next += frame_time;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let loan = Loan::new(into, vec![ready.queue.clone()]);
        let start = Instant::now();
        let mut batch = loan.batch(0);
        for job in jobs {
            batch.detach(read_of(ready.file, job), job.range())?;
        }
        batch.submit();
        let held = start.elapsed();
        drop(batch);
        loan.finish()?;
        if frame >= WARM_UP_COUNT {
            held_ns.push(held.as_nanos() as u64);
        }
        if frame == 0 {
            pages.check(jobs, into)?;
        }
    }
    Ok(held_ns)
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
        let _hogs = busy(&instance)?;
        session.run(case, &mut destination)?;
    }
    Ok(())
}

/// Spinning threads for a case on a busy machine.
fn busy(instance: &Instance) -> Result<Option<Hogs>> {
    let is_busy = instance.name.ends_with(", busy cores");
    is_busy.then(Hogs::start).transpose()
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

/// How long the caller is held by thousands of opens.
pub(super) fn opens(session: &mut Session<'_>) -> Result<()> {
    for instance in session.cases("requests", "opens") {
        let count: usize = instance.get("count");
        let small = session.corpus.small(count)?;
        let mut case = session.begin(&instance);
        case.add("std", |_| {
            let mut held_ns = Vec::with_capacity(count);
            for file in &small {
                let start = Instant::now();
                let opened = open_buffered(&file.path)?;
                held_ns.push(start.elapsed().as_nanos() as u64);
                // Closed at once, untimed: descriptors are few.
                drop(opened);
            }
            Ok(Work::of(0, held_ns.len()).with(held_by(held_ns)))
        });
        let opens = |storage: &mut Storage, _: &mut Destination| {
            let (mut held_ns, mut files) = (Vec::with_capacity(count), Vec::with_capacity(count));
            for file in &small {
                let start = Instant::now();
                files.push(storage.open(&file.path, FileOptions::default()));
                held_ns.push(start.elapsed().as_nanos() as u64);
            }
            for file in &files {
                storage.opened(*file)?.wait()?;
            }
            Ok(Work::of(0, files.len()).with(held_by(held_ns)))
        };
        case.push("millstream", fresh(|| Setup::default().storage(), opens));
        case.check(0, |_, work| {
            ensure(work.requests == count as u64, "not every file was opened")
        });
        let _hogs = busy(&instance)?;
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}
