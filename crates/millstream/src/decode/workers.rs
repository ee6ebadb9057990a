//! Worker threads: one bounded list of jobs, served by priority with the starvation guard.
//!
//! A worker takes several small jobs at a time when many wait, and hands their results over one
//! after the other; the engine is woken once for those it has not looked at. The engine is the only
//! one that adds jobs; it keeps to `limits::JOBS_MAX` by not issuing more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_codec::Scratch;
use millstream_io::ThreadSettings;

use crate::decode::jobs::{Job, JobSink, JobTask, run_job};
use crate::park::StorageThread;
use crate::priority::PriorityLists;

/// Jobs that a worker takes at a time, at most.
const TAKE_MAX: usize = 8;

#[derive(Default)]
struct State {
    waiting: PriorityLists<Job>,
    sleeping: usize,
    running: usize,
    stop: bool,
}

/// The jobs of a storage, and the threads that wait for them.
#[derive(Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    work: Condvar,
    ended: Condvar,
    /// Nanoseconds that workers slept while operations were in flight: they waited for data.
    pub(crate) starved_ns: AtomicU64,
    /// Operations in flight, for workers to know what they wait for.
    pub(crate) in_flight: AtomicU64,
}

impl Jobs {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the tasks as jobs, and wakes as many sleeping workers as there is work for. Without
    /// memory for its lists it takes none.
    pub(crate) fn push_all(&self, tasks: &mut Vec<JobTask>, sink: &Arc<dyn JobSink>) {
        let mut state = self.lock();
        if state.waiting.try_reserve(tasks.len()).is_err() {
            return;
        }
        for task in tasks.drain(..) {
            let job = Job::new(task, Arc::clone(sink));
            state.waiting.push(job.priority(), job);
        }
        let wake = state.sleeping.min(state.waiting.len());
        drop(state);
        for _ in 0..wake {
            self.work.notify_one();
        }
    }

    /// Takes one job, for a storage without threads.
    pub(crate) fn pop(&self) -> Option<Job> {
        self.lock().waiting.pop()
    }

    /// Moves a worker's share into `into`, sleeping until there is work; false at the end.
    fn take(&self, workers: usize, into: &mut Vec<Job>) -> bool {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.stop {
                return false;
            }
            state.sleeping += 1;
            let waits_for_data = self.in_flight.load(Ordering::Relaxed) > 0;
            let started = Instant::now();
            let woken = self.work.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
            if waits_for_data {
                let slept = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.starved_ns.fetch_add(slept, Ordering::Relaxed);
            }
        }
        let count = (state.waiting.len() / (2 * workers)).clamp(1, TAKE_MAX);
        into.extend((0..count).map_while(|_| state.waiting.pop()));
        state.running += 1;
        true
    }

    fn done(&self) {
        self.lock().running -= 1;
        self.ended.notify_all();
    }

    /// Ends the workers once the list is empty.
    pub(crate) fn end(&self) {
        self.lock().stop = true;
        self.work.notify_all();
    }

    /// As [`Jobs::end`]; waits for running jobs until `deadline`. Returns whether all ended.
    pub(crate) fn stop(&self, deadline: Option<Instant>) -> bool {
        self.end();
        let mut state = self.lock();
        while state.running > 0 || !state.waiting.is_empty() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let longest = Duration::from_millis(50);
            let waited = self
                .ended
                .wait_timeout(state, left.unwrap_or(longest).min(longest));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

pub(crate) fn start(
    jobs: &Arc<Jobs>,
    count: usize,
    settings: &ThreadSettings,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::with_capacity(count);
    for index in 0..count {
        let (own, settings) = (Arc::clone(jobs), settings.clone());
        let started = std::thread::Builder::new()
            .name(format!("ms-work-{index}"))
            .spawn(move || work(&own, index, count, &settings));
        match started {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                jobs.stop(None);
                threads.into_iter().for_each(|thread| {
                    let _ = thread.join();
                });
                return Err(error);
            }
        }
    }
    Ok(threads)
}

fn work(jobs: &Jobs, index: usize, count: usize, settings: &ThreadSettings) {
    let _on = StorageThread::enter();
    settings.apply(index);
    let mut scratch = Scratch::default();
    let mut taken = Vec::with_capacity(TAKE_MAX);
    while jobs.take(count, &mut taken) {
        for job in taken.drain(..) {
            run_job(job, &mut scratch);
        }
        jobs.done();
    }
}
