//! A frame thread on a busy machine: 16 requests in one batch each frame, while threads spin on
//! every core. The figures are what the frame is held for: all adds and the submit.
//!
//! With every core busy, waking the engine may preempt the frame thread, which then loses a time
//! slice of milliseconds. `millstream-preempting` has threads of the ordinary scheduling policy;
//! the default's do not preempt.

use std::time::{Duration, Instant};

use millstream::Access;

use super::{PageHashes, WORKLOAD, random_jobs};
use crate::busy::Hogs;
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::memory::Destination;
use crate::ours::{Loan, Ready, Setup, read_of};
use crate::rows::{Metric, Params, Row};
use crate::stats;
use crate::workload::Session;

/// Median over the frames of a run.
pub(crate) const P50: Metric = Metric::lower("submit-p50", "us");
/// 99th percentile over the frames of a run.
pub(crate) const P99: Metric = Metric::lower("submit-p99", "us");

/// Name of the case.
pub(crate) const CASE: &str = "frame submits 16 x 64K, busy cores";

/// Requests of a frame.
const REQUESTS: usize = 16;
/// Bytes of a request.
const REQUEST_BYTES: usize = 64 << 10;
const FRAMES_PER_SECOND: u32 = 120;
/// Frames of a run: p99 stands on ten of them.
const FRAMES: usize = 1000;
const QUICK_FRAMES: usize = 200;
/// Frames ahead of the counted ones.
const WARM_UP_FRAMES: usize = 16;
/// A run takes more than eight seconds.
const RUNS_MAX: usize = 5;

/// Runs the case.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    if !session.wants(CASE) {
        return Ok(());
    }
    session.say(&format!("{WORKLOAD}: {CASE}"));
    cold::drop_path(&file.path)?;
    let frames = session.size(FRAMES, QUICK_FRAMES);
    let mut systems = Vec::new();
    for (name, preempting) in [("millstream", false), ("millstream-preempting", true)] {
        let setup = Setup {
            access: Access::Direct,
            preempting,
            ..Setup::default()
        };
        let ready = Ready::new(&file.path, setup, false, REQUESTS)?;
        systems.push((name, ready, Vec::new(), Vec::new()));
    }
    let hogs = Hogs::start()?;
    let params = Params::from([
        ("requests".into(), REQUESTS.into()),
        ("frames".into(), frames.into()),
        ("frames_per_second".into(), FRAMES_PER_SECOND.into()),
        ("spinning_threads".into(), hogs.count().into()),
    ]);
    for run in 0..session.runs().min(RUNS_MAX) {
        for (_, ready, p50, p99) in &mut systems {
            let mut held_ns = frame_thread(ready, file, pages, frames, run as u64)?;
            p50.push(stats::percentile(&mut held_ns, 0.5) as f64 / 1e3);
            p99.push(stats::percentile(&mut held_ns, 0.99) as f64 / 1e3);
        }
    }
    drop(hogs);
    let rows = systems.into_iter().flat_map(|(name, _, p50, p99)| {
        [(P50, p50), (P99, p99)].map(|(metric, samples)| {
            Row::figures(WORKLOAD, CASE, name, metric, samples, params.clone())
        })
    });
    session.keep(rows.collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Form};

    #[test]
    fn every_counted_frame_has_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let file = corpus.big(3 << 20, Form::Stored).unwrap();
        let pages = PageHashes::of(&file.path).unwrap();
        let ready = Ready::new(&file.path, Setup::default(), false, REQUESTS).unwrap();
        let held_ns = frame_thread(&ready, &file, &pages, 4, 0).unwrap();
        assert_eq!(held_ns.len(), 4);
        assert!(held_ns.iter().all(|ns| *ns > 0));
    }
}
