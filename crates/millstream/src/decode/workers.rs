//! Worker threads: a [crew](millstream_io::crew) with one bounded list of jobs, served by priority
//! with the starvation guard.
//!
//! A worker takes several small jobs at a time when many wait, and hands their results over one
//! after the other; the engine is woken once for those it has not looked at. The engine is the only
//! one that adds jobs; it keeps to `limits::JOBS_MAX` by not issuing more.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use millstream_codec::Scratch;
use millstream_io::ThreadSettings;
use millstream_io::crew::{Crew, CrewOptions, Work};
use millstream_io::fs::reserve_descriptors;

use crate::decode::jobs::{Job, JobSink, JobTask, run_job};
use crate::handover::park::StorageThread;
use crate::priority::PriorityLists;

/// Jobs that a worker takes at a time, at most.
const TAKE_MAX: usize = 8;

/// What the workers do.
struct Decode {
    workers: usize,
    /// For how many descriptors the last one has the system make room.
    descriptors: Option<usize>,
    settings: ThreadSettings,
    /// Nanoseconds that workers slept while operations were in flight: they waited for data.
    starved_ns: AtomicU64,
    /// Operations in flight, for workers to know what they wait for.
    in_flight: AtomicU64,
}

impl Work for Decode {
    type List = PriorityLists<Job>;
    type Task = Job;
    type Done = Infallible;
    type Local = (StorageThread, Scratch);

    fn begin(&self, number: usize) -> (StorageThread, Scratch) {
        self.settings.apply(number);
        if let Some(count) = self.descriptors
            && number > 0
            && number + 1 == self.workers
        {
            reserve_descriptors(count);
        }
        (StorageThread::enter(), Scratch::default())
    }

    fn waiting(list: &PriorityLists<Job>) -> usize {
        list.len()
    }

    fn take(&self, list: &mut PriorityLists<Job>, _: usize, share: &mut Vec<Job>) {
        let count = (list.len() / (2 * self.workers).max(1)).clamp(1, TAKE_MAX);
        share.extend((0..count).map_while(|_| list.pop()));
    }

    /// Jobs are never reported.
    fn id(_: &Job) -> u64 {
        0
    }

    fn run(
        &self,
        (_, scratch): &mut (StorageThread, Scratch),
        share: &mut Vec<Job>,
        _: &mut Vec<Infallible>,
    ) {
        for job in share.drain(..) {
            run_job(job, scratch);
        }
    }

    fn idle_ns(&self) -> Option<&AtomicU64> {
        let waits_for_data = self.in_flight.load(Ordering::Relaxed) > 0;
        waits_for_data.then_some(&self.starved_ns)
    }
}

/// The jobs of a storage, and the threads that wait for them.
pub(crate) struct Workers(Crew<Decode>);

impl Workers {
    /// Starts `count` workers. The last one has the system make room for so many descriptors.
    pub(crate) fn start(
        count: usize,
        settings: &ThreadSettings,
        descriptors: Option<usize>,
    ) -> std::io::Result<Workers> {
        let options = CrewOptions {
            name: "ms-work-",
            base: count,
            most: count,
            calls: count.max(1),
            ..CrewOptions::default()
        };
        let decode = Decode {
            workers: count,
            descriptors,
            settings: settings.clone(),
            starved_ns: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        };
        let crew = Crew::new(&options, decode);
        for _ in 0..count {
            crew.start()
                .inspect_err(|_| drop(crew.end(std::mem::take)))?;
        }
        Ok(Workers(crew))
    }

    /// Takes the tasks as jobs, and wakes as many sleeping workers as there is work for. Without
    /// memory for its lists it takes none.
    pub(crate) fn push_all(&self, tasks: &mut Vec<JobTask>, sink: &Arc<dyn JobSink>) {
        self.0.add(|list| {
            if list.try_reserve(tasks.len()).is_err() {
                return;
            }
            for task in tasks.drain(..) {
                let job = Job::new(task, Arc::clone(sink));
                list.push(job.priority(), job);
            }
        });
    }

    /// Takes one job, for a storage without threads.
    pub(crate) fn pop(&self) -> Option<Job> {
        self.0.with(|list, _| list.pop())
    }

    /// How many nanoseconds workers waited for data.
    pub(crate) fn starved_ns(&self) -> u64 {
        self.0.work().starved_ns.load(Ordering::Relaxed)
    }

    /// Notes how many operations are in flight.
    pub(crate) fn note_in_flight(&self, count: u64) {
        self.0.work().in_flight.store(count, Ordering::Relaxed);
    }

    /// Ends the workers once the list is empty.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }

    /// Waits for waiting and running jobs until `deadline`, and ends the workers: those that still
    /// run a job after it. Jobs that none has begun are dropped, which fails their requests.
    pub(crate) fn end(&self, deadline: Option<Instant>) {
        self.0.stop();
        if self.0.threads() > 0 {
            let _ = self.0.await_idle(deadline);
        }
        self.0.end(std::mem::take);
    }
}
