//! Workers: threads that open files and decode.
//!
//! One bounded list of jobs, two lanes: urgent (opens, and jobs of high and realtime requests)
//! before the rest. A worker takes several small jobs at a time when many wait, and hands results
//! over in batches. The engine is the only one who adds jobs; it keeps to `limits::JOBS_MAX` by not
//! issuing more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_codec::Scratch;

use crate::job::{self, Job, JobResult};
use crate::park::{self, Role};
use crate::storage::Shared;
use crate::waiters::lock;

/// Jobs that a worker takes at a time, at most.
const TAKE_MAX: usize = 8;

#[derive(Default)]
struct Lanes {
    urgent: VecDeque<Job>,
    rest: VecDeque<Job>,
    sleeping: usize,
    running: usize,
    stop: bool,
}

impl Lanes {
    fn len(&self) -> usize {
        self.urgent.len() + self.rest.len()
    }

    fn pop(&mut self) -> Option<Job> {
        self.urgent.pop_front().or_else(|| self.rest.pop_front())
    }
}

/// The jobs of a storage, and who waits for them.
#[derive(Default)]
pub(crate) struct Jobs {
    lanes: Mutex<Lanes>,
    work: Condvar,
    ended: Condvar,
    /// Nanoseconds that workers slept while operations were in flight: they waited for data.
    pub(crate) starved_ns: AtomicU64,
}

impl Jobs {
    /// Adds jobs (with their urgency) and wakes as many sleeping workers as there is work for.
    pub(crate) fn push_all(&self, jobs: &mut Vec<(bool, Job)>) {
        if jobs.is_empty() {
            return;
        }
        let mut lanes = lock(&self.lanes);
        for (urgent, job) in jobs.drain(..) {
            if urgent {
                &mut lanes.urgent
            } else {
                &mut lanes.rest
            }
            .push_back(job);
        }
        let wake = lanes.sleeping.min(lanes.len());
        drop(lanes);
        for _ in 0..wake {
            self.work.notify_one();
        }
    }

    /// One job, for a thread of the application that pumps.
    pub(crate) fn try_pop(&self) -> Option<Job> {
        lock(&self.lanes).pop()
    }

    fn take(&self, workers: usize, into: &mut Vec<Job>, in_flight: &dyn Fn() -> bool) -> bool {
        let mut lanes = lock(&self.lanes);
        while lanes.len() == 0 {
            if lanes.stop {
                return false;
            }
            lanes.sleeping += 1;
            let waited_for_data = in_flight();
            let started = Instant::now();
            lanes = self
                .work
                .wait(lanes)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            lanes.sleeping -= 1;
            if waited_for_data {
                let slept = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.starved_ns.fetch_add(slept, Ordering::Relaxed);
            }
        }
        let count = (lanes.len() / (2 * workers)).clamp(1, TAKE_MAX);
        into.extend((0..count).map_while(|_| lanes.pop()));
        lanes.running += 1;
        true
    }

    fn finished(&self) {
        lock(&self.lanes).running -= 1;
        self.ended.notify_all();
    }

    /// Ends the workers once the list is empty; waits for running jobs until `deadline`. Whether
    /// all came to an end.
    pub(crate) fn stop(&self, deadline: Instant) -> bool {
        let mut lanes = lock(&self.lanes);
        lanes.stop = true;
        self.work.notify_all();
        while lanes.running > 0 || lanes.len() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self
                .ended
                .wait_timeout(lanes, left.min(Duration::from_millis(50)));
            lanes = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        true
    }
}

/// Starts the workers of a storage.
pub(crate) fn start(shared: &Arc<Shared>, count: usize) -> std::io::Result<Vec<JoinHandle<()>>> {
    (0..count)
        .map(|index| {
            let shared = Arc::clone(shared);
            let name = format!("ms-work-{index}");
            std::thread::Builder::new()
                .name(name)
                .spawn(move || work(&shared, index, count))
        })
        .collect()
}

fn work(shared: &Arc<Shared>, index: usize, count: usize) {
    park::set_role(Role::Storage);
    shared
        .options
        .threads
        .settle(&shared.options.threads.worker, index);
    let mut scratch = Scratch::default();
    let mut jobs = Vec::with_capacity(TAKE_MAX);
    let mut results: Vec<JobResult> = Vec::with_capacity(TAKE_MAX);
    let in_flight = || shared.in_flight.load(Ordering::Relaxed) > 0;
    while shared.jobs.take(count, &mut jobs, &in_flight) {
        for job in jobs.drain(..) {
            results.extend(job::run(job, shared.fs.as_ref(), &mut scratch));
        }
        shared.job_results(&mut results);
        shared.jobs.finished();
    }
}
