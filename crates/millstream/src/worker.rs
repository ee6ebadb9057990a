//! Workers: threads that open files and decode.
//!
//! One bounded list of jobs for each class, taken from by [`turns`](crate::turns): a job has the
//! class of its request; opens, which others wait for, are high. A worker takes several small jobs
//! at a time when many wait, and hands results over in batches. The engine is the only one who adds
//! jobs; it keeps to `limits::JOBS_MAX` by not issuing more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_codec::Scratch;
use millstream_io::{Completion, Operation};

use crate::copies::{self, Share};
use crate::job::{self, Job, JobResult};
use crate::limits;
use crate::park::{self, Role};
use crate::request::Priority;
use crate::storage::Shared;
use crate::turns::ByClass;
use crate::waiters::lock;

/// Jobs that a worker takes at a time, at most.
const TAKE_MAX: usize = 8;

#[derive(Default)]
struct Lanes {
    jobs: ByClass<Job>,
    sleeping: usize,
    running: usize,
    /// Helpers called to copy, and not yet come.
    helpers: usize,
    stop: bool,
}

/// What a worker is to do.
enum Taken {
    /// The jobs that it was given.
    Jobs,
    /// To copy what is cached.
    Help,
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
    /// Adds jobs (with their classes) and wakes as many sleeping workers as there is work for.
    pub(crate) fn push_all(&self, jobs: &mut Vec<(Priority, Job)>) {
        if jobs.is_empty() {
            return;
        }
        let mut lanes = lock(&self.lanes);
        for (class, job) in jobs.drain(..) {
            lanes.jobs.push(class, job);
        }
        let wake = lanes.sleeping.min(lanes.jobs.len());
        drop(lanes);
        for _ in 0..wake {
            self.work.notify_one();
        }
    }

    /// Engine: one worker more is to copy, once no job of a high class waits.
    pub(crate) fn call_helper(&self) {
        let mut lanes = lock(&self.lanes);
        lanes.helpers += 1;
        let wake = lanes.sleeping > 0;
        drop(lanes);
        if wake {
            self.work.notify_one();
        }
    }

    /// Whether jobs wait for a worker.
    fn wait(&self) -> bool {
        lock(&self.lanes).jobs.len() > 0
    }

    /// One job, for a thread of the application that pumps.
    pub(crate) fn try_pop(&self) -> Option<Job> {
        lock(&self.lanes).jobs.pop()
    }

    fn take(
        &self,
        workers: usize,
        into: &mut Vec<Job>,
        in_flight: &dyn Fn() -> bool,
    ) -> Option<Taken> {
        let mut lanes = lock(&self.lanes);
        loop {
            if lanes.helpers > 0 && !lanes.jobs.has_from(Priority::High) {
                lanes.helpers -= 1;
                lanes.running += 1;
                return Some(Taken::Help);
            }
            if lanes.jobs.len() > 0 {
                break;
            }
            if lanes.stop {
                return None;
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
        let count = (lanes.jobs.len() / (2 * workers)).clamp(1, TAKE_MAX);
        into.extend((0..count).map_while(|_| lanes.jobs.pop()));
        lanes.running += 1;
        Some(Taken::Jobs)
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
        while lanes.running > 0 || lanes.jobs.len() > 0 {
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
    let mut copies = CopyMemory::default();
    while let Some(taken) = shared.jobs.take(count, &mut jobs, &in_flight) {
        match taken {
            Taken::Jobs => {
                for job in jobs.drain(..) {
                    results.extend(job::run(job, shared.fs.as_ref(), &mut scratch));
                }
                shared.job_results(&mut results);
            }
            Taken::Help => help(shared, &mut copies),
        }
        shared.jobs.finished();
    }
}

/// What a worker copies at a time.
const SHARE: Share = Share {
    operations: limits::COPY_HELP_OPERATIONS_MAX,
    bytes: limits::COPY_HELP_BYTES_MAX,
};

/// Lists that a helper uses again.
#[derive(Default)]
struct CopyMemory {
    taken: Vec<Operation>,
    done: Vec<Completion>,
}

/// Copies as long as anything is to be copied, or may soon be, and no job waits.
fn help(shared: &Shared, memory: &mut CopyMemory) {
    let spin = Duration::from_nanos(limits::COPY_HELP_SPIN_NS);
    let mut idle_since = None;
    loop {
        let threads = shared.copies.helpers() + 1;
        shared.copies.take(SHARE, threads, &mut memory.taken);
        if !memory.taken.is_empty() {
            idle_since = None;
            let fs = shared.fs.as_ref();
            let done = memory
                .taken
                .drain(..)
                .map(|taken| copies::execute(fs, taken));
            memory.done.extend(done);
            shared.copies.finish(&mut memory.done);
            shared.wake_engine();
            if shared.jobs.wait() {
                break;
            }
        } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= spin {
            break;
        } else {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }
    shared.copies.helper_leaves();
}

#[cfg(test)]
mod tests {
    use millstream_io::Descriptor;

    use super::*;

    #[test]
    fn jobs_of_higher_classes_are_done_first() {
        let jobs = Jobs::default();
        let job = |number| Job::Close(vec![Descriptor(number)]);
        for class in Priority::ALL {
            let number = class as i32;
            jobs.push_all(&mut vec![(class, job(number)), (class, job(number + 10))]);
        }
        let popped = std::iter::from_fn(|| match jobs.try_pop()? {
            Job::Close(descriptors) => Some(descriptors[0].0),
            _ => None,
        });
        let popped: Vec<i32> = popped.collect();
        assert_eq!(popped, [3, 13, 2, 12, 1, 11, 0, 10]);
    }
}
