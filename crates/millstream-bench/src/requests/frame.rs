//! A frame thread on a busy machine: 16 requests in one batch each frame, while threads spin on
//! every core. The figures are what the frame is held for: all adds and the submit.
//!
//! With every core busy, waking the engine may preempt the frame thread, which then loses a time
//! slice of milliseconds. `millstream-preempting` has threads of the ordinary scheduling policy;
//! the default's do not preempt.

use std::time::{Duration, Instant};

use millstream::Access;

use super::ours::{Ready, read_of};
use crate::busy::Hogs;
use crate::case::{Contender, Work};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::lend::Loan;
use crate::memory::Destination;
use crate::requests::cells::{PageHashes, WORKLOAD, percentiles, random_jobs};
use crate::rows::Metric;
use crate::session::Session;
use crate::setup::Setup;

/// Median over the frames of a run.
const P50: Metric = Metric::lower("submit-p50", "us");
/// 99th percentile over the frames of a run.
const P99: Metric = Metric::lower("submit-p99", "us");
/// Requests of a frame.
const REQUESTS: usize = 16;
/// Bytes of a request.
const REQUEST_BYTES: usize = 64 << 10;
const FRAMES_PER_SECOND: u32 = 120;
/// Frames of a run: p99 stands on ten of them.
const FRAMES: usize = 1000;
const QUICK_FRAMES: usize = 80;
/// Frames ahead of the counted ones.
const WARM_UP_FRAMES: usize = 16;
/// A run takes more than eight seconds.
const RUNS_MAX: usize = 5;

/// Runs the case.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let name = "frame submits 16 x 64K, busy cores";
    let Some(mut case) = session.begin(WORKLOAD, name) else {
        return Ok(());
    };
    cold::drop_path(&file.path)?;
    case.runs = case.runs.min(RUNS_MAX);
    case.warm_up = false;
    let frames = session.size(FRAMES, QUICK_FRAMES);
    let hogs = Hogs::start()?;
    for (name, preempting) in [("millstream", false), ("millstream-preempting", true)] {
        let setup = Setup {
            access: Access::Direct,
            preempting,
            ..Setup::default()
        };
        let ready = Ready::new(&file.path, setup, false, REQUESTS)?;
        let (file, pages) = (file.clone(), pages.clone());
        let mut seed = 0;
        let contender = Contender::new(name, move |_| {
            seed += 1;
            let mut held_ns = frame_thread(&ready, &file, &pages, frames, seed)?;
            Ok(Work::figures(percentiles(P50, P99, &mut held_ns)))
        });
        let contender = contender.with("requests", REQUESTS).with("frames", frames);
        let contender = contender.with("frames_per_second", FRAMES_PER_SECOND);
        case.push(contender.with("spinning_threads", hogs.count()));
    }
    session.run(case, &mut Destination::new(0)?).map(drop)
}

/// One run; returns the nanoseconds that each frame was held.
fn frame_thread(
    ready: &Ready,
    file: &CorpusFile,
    pages: &PageHashes,
    frames: usize,
    seed: u64,
) -> Result<Vec<u64>> {
    let mut destination = Destination::new(REQUESTS * REQUEST_BYTES)?;
    let mut held_ns = Vec::with_capacity(frames);
    let mut all = random_jobs(file.stored_len, REQUEST_BYTES, REQUESTS * frames, seed);
    for (number, job) in all.iter_mut().enumerate() {
        // Every frame's requests land in the same memory.
        job.place = number % REQUESTS * REQUEST_BYTES;
    }
    let frame_time = Duration::from_secs(1) / FRAMES_PER_SECOND;
    let mut next = Instant::now();
    for frame in 0..WARM_UP_FRAMES + frames {
        let jobs = &all[frame % (all.len() / REQUESTS) * REQUESTS..][..REQUESTS];
        next += frame_time;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let loan = Loan::new(&mut destination, vec![ready.queue.clone()]);
        let start = Instant::now();
        let mut batch = loan.batch(0);
        for job in jobs {
            batch.detach(read_of(ready.file, job), job.range())?;
        }
        batch.submit();
        let held = start.elapsed();
        drop(batch);
        loan.finish()?;
        if frame >= WARM_UP_FRAMES {
            held_ns.push(held.as_nanos() as u64);
        }
        if frame == 0 {
            pages.check(jobs, &destination)?;
        }
    }
    Ok(held_ns)
}
