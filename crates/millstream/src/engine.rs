//! The engine: one thread per storage that takes entries, orders them, feeds the device and ends
//! requests.
//!
//! A round of the engine walks the data's way once: mail (entries, commands, results of jobs) →
//! [`intake`] → completions of the device → [`decode`] → timers → [`issue`] (the scheduler's picks
//! go to the device) → ends (FIFO entries, wakers) → [`copies`] (a little of what is to be copied
//! out of the page cache). It never opens, stats or decodes, copies for no longer than 30 µs at a
//! time, and calls no code of the application but wakers and the log hook, outside all locks.
//!
//! Ownership, which everything else rests on:
//! - All tables are the engine's alone. A request's end is decided here and nowhere else, so each
//!   ends exactly once.
//! - A request with operations or jobs out does not end, with one exception: its timeout has passed
//!   and its destination is owned. Then destination and windows move to the quarantine until the
//!   last of them is back.
//! - An operation keeps its file's descriptors open (`File::ops`); a request that waits keeps its
//!   file from being evicted (`File::users`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_codec::Scratch;
use millstream_io::{Arena, Completion, Descriptor, Device, DeviceKind, Doorbell, Segments};

use crate::error::Error;
use crate::job::{self, Job, Target};
use crate::limits;
use crate::options::PortableJob;
use crate::park::{self, Role};
use crate::queue::Submitted;
use crate::request::Priority;
use crate::scheduler::Scheduler;
use crate::stats::Stats;
use crate::storage::{CloseReport, Inbox, Reply, Shared};
use crate::trace::{EventKind, Lane, Trace, TraceEvent};

mod close;
mod complete;
mod copies;
mod decode;
pub(crate) mod device;
mod end;
mod files;
mod intake;
mod issue;
mod opens;
mod queues;
mod staged;
mod straight;
mod table;

use files::Files;
use queues::Queues;
use table::{Ops, Quarantine, Req};

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A request's timeout.
    Timeout(u32, u32),
    /// A queue may move bytes again.
    Bandwidth(u32),
}

pub(crate) struct Engine {
    shared: Arc<Shared>,
    device: Box<dyn Device>,
    /// For mounts that can hang, beside a ring; made when the first such file is opened.
    slow: Option<Box<dyn Device>>,
    slow_apart: bool,
    arena: Arena,
    /// Windows of staging taken so far; after some of them staging is registered.
    staged_windows: u64,
    requests: Vec<Req>,
    /// Their tags, side by side for the scan of a cancellation by mask.
    tags: Vec<u64>,
    free_requests: Vec<u32>,
    ops: Ops,
    /// Operations that a full device gave back, with their memory.
    ops_waiting: Vec<(u32, Segments)>,
    copies: copies::OwnCopies,
    /// Operations pushed since the last submit.
    unsubmitted: usize,
    scheduler: Scheduler,
    /// Requests whose stored bytes are in memory: they wait for workers, and for no device.
    memory_scheduler: Scheduler,
    files: Files,
    queues: Queues,
    quarantine: HashMap<Target, Quarantine>,
    /// Requests held by fences.
    gated: Vec<Target>,
    gated_bytes: u64,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    epoch: Instant,
    now_ns: u64,
    arrivals: u64,
    jobs_out: usize,
    /// Threads that do jobs.
    workers: usize,
    jobs: Vec<(Priority, Job)>,
    /// Descriptors to be closed by the round's end.
    closes: Vec<Descriptor>,
    inbox: Inbox,
    submitted: Submitted,
    completions: Vec<Completion>,
    /// Results of jobs that the engine did itself.
    own_results: Vec<job::JobResult>,
    wakers: Vec<Waker>,
    stats: Stats,
    trace: Option<Trace>,
    trace_start_ns: u64,
    /// Bytes per second while busy, smoothed.
    rate: u64,
    rate_bytes: u64,
    rate_busy_ns: u64,
    last_account_ns: u64,
    /// Whether anything waited for the device when time was last accounted for.
    waited: bool,
    repeat_bytes: u64,
    repeat_bytes_max: u64,
    closing: Option<(Instant, Reply<CloseReport>)>,
    scratch: Scratch,
    /// How long the last rest took.
    last_gap: Duration,
}

/// Starts the engine's thread; comes back once the device is made.
pub(crate) fn start(
    shared: &Arc<Shared>,
    maker: device::Maker,
) -> Result<(JoinHandle<()>, DeviceKind, String), Error> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let of_engine = Arc::clone(shared);
    let run = move || {
        park::set_role(Role::Storage);
        let threads = &of_engine.options.threads;
        threads.settle(&threads.engine, 0);
        let made = maker().and_then(|made| {
            let about = (made.device.kind(), made.reason.clone());
            Ok((Engine::new(&of_engine, made)?, about))
        });
        match made {
            Ok((mut engine, (kind, reason))) => {
                of_engine.set_doorbell(engine.doorbell());
                let _ = send.send(Ok((kind, reason)));
                or_abort(&of_engine, || engine.run());
            }
            Err(error) => {
                let _ = send.send(Err(error));
            }
        }
    };
    let no_thread = |_| {
        Error::new(
            crate::ErrorKind::OutOfMemory,
            "the system refused another thread",
        )
    };
    let thread = std::thread::Builder::new()
        .name("ms-engine".into())
        .spawn(run)
        .map_err(no_thread)?;
    match receive.recv() {
        Ok(Ok((kind, reason))) => Ok((thread, kind, reason)),
        Ok(Err(error)) => {
            let _ = thread.join();
            Err(error)
        }
        Err(_) => Err(Error::new(
            crate::ErrorKind::Io,
            "the engine's thread ended at its start",
        )),
    }
}

/// Lets the engine work, on its thread or on one that pumps. A broken invariant ends the process:
/// unwinding would free memory that the kernel may be writing to, and leave everyone who waits for
/// a request waiting for ever.
pub(crate) fn or_abort<T>(shared: &Shared, work: impl FnOnce() -> T) -> T {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    done.unwrap_or_else(|_| {
        let text = "the engine broke an invariant of its own; the process ends";
        shared.log(crate::LogLevel::Warning, text);
        std::process::abort();
    })
}

impl Engine {
    pub(crate) fn new(shared: &Arc<Shared>, made: device::Made) -> Result<Engine, Error> {
        let options = &shared.options;
        let arena = Arena::new(options.staging_bytes, options.allocator.clone())
            .map_err(|error| Error::from_io(&error))?;
        let device = made.device;
        let memory = rustix::system::sysinfo().totalram;
        Ok(Engine {
            device,
            slow: None,
            staged_windows: 0,
            slow_apart: made.slow_apart,
            requests: Vec::new(),
            tags: Vec::new(),
            free_requests: Vec::new(),
            ops: Ops::default(),
            ops_waiting: Vec::new(),
            copies: copies::OwnCopies::new(options),
            unsubmitted: 0,
            scheduler: Scheduler::new(options.block_bytes as u64),
            memory_scheduler: Scheduler::new(options.block_bytes as u64),
            files: Files::new(options.descriptors),
            queues: Queues::default(),
            quarantine: HashMap::new(),
            gated: Vec::new(),
            gated_bytes: 0,
            timers: BinaryHeap::new(),
            epoch: Instant::now(),
            now_ns: 0,
            arrivals: 0,
            jobs_out: 0,
            workers: options.threads.worker_count(),
            jobs: Vec::new(),
            closes: Vec::new(),
            inbox: Inbox::default(),
            submitted: Submitted::default(),
            completions: Vec::new(),
            own_results: Vec::new(),
            wakers: Vec::new(),
            stats: Stats {
                staging_capacity_bytes: arena.capacity() as u64,
                ..Stats::default()
            },
            trace: None,
            trace_start_ns: 0,
            rate: 2_000_000_000,
            rate_bytes: 0,
            rate_busy_ns: 0,
            last_account_ns: 0,
            waited: false,
            repeat_bytes: 0,
            repeat_bytes_max: memory / limits::REPEAT_MEMORY_FRACTION,
            closing: None,
            scratch: Scratch::default(),
            last_gap: Duration::MAX,
            arena,
            shared: Arc::clone(shared),
        })
    }

    pub(crate) fn doorbell(&self) -> Doorbell {
        self.device.doorbell()
    }

    /// The thread's loop: until the storage is closed.
    fn run(&mut self) {
        loop {
            let worked = self.round();
            if self.closing.is_some() && self.try_close() {
                return;
            }
            if !worked {
                self.rest();
            }
        }
    }

    /// Nothing to do: sleeps, after a short look for mail if the last came quickly. While the
    /// device or workers have something it sleeps at once: they wake it, and what comes together
    /// is then taken together.
    fn rest(&mut self) {
        if self.await_helpers() {
            return;
        }
        let started = Instant::now();
        let quick = Duration::from_nanos(limits::ENGINE_SPIN_NS);
        if self.last_gap < quick && self.jobs_out == 0 && self.ops.len() == 0 {
            while started.elapsed() < quick {
                if self.shared.has_mail() {
                    self.last_gap = started.elapsed();
                    return;
                }
                for _ in 0..16 {
                    std::hint::spin_loop();
                }
            }
        }
        let timeout = self.until_next_timer();
        let shared = Arc::clone(&self.shared);
        self.unsubmitted = 0;
        let awake = &mut || shared.has_mail() || shared.copies.has_done();
        self.device.wait(timeout, awake);
        self.last_gap = started.elapsed();
    }

    /// One round in pump mode, jobs included; whether anything was done.
    pub(crate) fn pump(&mut self) -> bool {
        let mut worked = self.round();
        self.submit();
        while let Some(job) = self.shared.jobs.try_pop() {
            worked = true;
            let result = job::run(job, self.shared.fs.as_ref(), &mut self.scratch);
            if let Some(result) = result {
                self.shared.job_result(result);
            }
        }
        if self.closing.is_some() {
            worked |= self.try_close();
        }
        worked
    }

    /// Sleeps in pump mode until something comes, at most `longest`.
    pub(crate) fn wait_pumped(&mut self, longest: Duration) {
        let timeout = self.until_next_timer().unwrap_or(longest).min(longest);
        let shared = Arc::clone(&self.shared);
        self.device.wait(Some(timeout), &mut || shared.has_mail());
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let next = self.timers.peek().map(|Reverse((at, _))| *at);
        let closing = self
            .closing
            .as_ref()
            .map(|(deadline, _)| self.to_ns(*deadline));
        let at = next.into_iter().chain(closing).min()?;
        let now = self.to_ns(Instant::now());
        Some(Duration::from_nanos(at.saturating_sub(now)))
    }

    fn to_ns(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.epoch);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// One round; whether anything was done.
    fn round(&mut self) -> bool {
        self.now_ns = self.to_ns(Instant::now());
        let mut worked = self.take_mail();
        worked |= self.reap() > 0 || !self.completions.is_empty();
        self.complete_all();
        worked |= self.fire_timers();
        self.start_opens();
        worked |= self.issue_all();
        while let Some(result) = self.own_results.pop() {
            self.take_result(result);
        }
        self.send_jobs();
        self.finish_round();
        worked | self.copy_own_share()
    }

    fn reap(&mut self) -> usize {
        let mut reaped = self.device.reap(&mut self.completions);
        if let Some(slow) = &mut self.slow {
            reaped += slow.reap(&mut self.completions);
        }
        reaped += self.shared.copies.reap(&mut self.completions);
        reaped
    }

    /// Wakes what waits: nothing is locked and all tables are consistent.
    fn finish_round(&mut self) {
        self.account_time();
        self.fire_fifos();
        let mut wakers = std::mem::take(&mut self.wakers);
        for waker in wakers.drain(..) {
            // A waker is code of an application's executor.
            let woken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
            if woken.is_err() {
                self.shared
                    .log(crate::LogLevel::Warning, "a waker panicked");
            }
        }
        self.wakers = wakers;
    }

    /// Adds the time since the last call to busy or idle, by how things stood then: what has come
    /// since did not wait all that time.
    fn account_time(&mut self) {
        let spent = self.now_ns.saturating_sub(self.last_account_ns);
        self.last_account_ns = self.now_ns;
        let in_flight = self.ops.len();
        let before = self
            .shared
            .in_flight
            .swap(in_flight as u64, Ordering::Relaxed);
        let waits = self.scheduler.waiting() + self.files.opening() > 0;
        let waited = std::mem::replace(&mut self.waited, waits);
        if before > 0 {
            self.stats.device_busy_ns += spent;
            self.rate_busy_ns += spent;
            if self.rate_busy_ns > 10_000_000 {
                let rate = u128::from(self.rate_bytes) * 1_000_000_000;
                let rate = u64::try_from(rate / u128::from(self.rate_busy_ns)).unwrap_or(u64::MAX);
                // Only periods that moved much say what the device can do.
                if self.rate_bytes > 1 << 20 {
                    self.rate = (self.rate * 3 + rate) / 4;
                }
                (self.rate_bytes, self.rate_busy_ns) = (0, 0);
            }
        } else if waited {
            self.stats.device_idle_ns += spent;
        }
    }

    fn send_jobs(&mut self) {
        if !self.closes.is_empty() {
            // One job for all files of a round: a wake costs more than a close.
            let descriptors = std::mem::take(&mut self.closes);
            self.jobs.push((Priority::Normal, Job::Close(descriptors)));
        }
        if self.jobs.is_empty() {
            return;
        }
        if let Some(system) = self.shared.options.job_system.clone() {
            let shared = Arc::clone(&self.shared);
            let decodes =
                |job: &mut (Priority, Job)| matches!(job.1, Job::Decode(_) | Job::Stream(_));
            for (_, job) in self.jobs.extract_if(.., decodes) {
                system.spawn(PortableJob::new(job, Arc::clone(&shared)));
            }
        }
        self.shared.jobs.push_all(&mut self.jobs);
    }

    fn fire_timers(&mut self) -> bool {
        let mut worked = false;
        while let Some(Reverse((at, timer))) = self.timers.peek().copied() {
            if at > self.now_ns {
                break;
            }
            self.timers.pop();
            worked = true;
            match timer {
                Timer::Timeout(request, generation) => {
                    self.timed_out(Target {
                        request,
                        generation,
                    });
                }
                Timer::Bandwidth(queue) => self.unhold(queue),
            }
        }
        worked
    }

    /// The live request of a target.
    fn live(&self, target: Target) -> Option<u32> {
        let req = self.requests.get(target.request as usize)?;
        let live = req.generation == target.generation && req.phase != table::Phase::Free;
        live.then_some(target.request)
    }

    fn req(&mut self, request: u32) -> &mut Req {
        &mut self.requests[request as usize]
    }

    fn trace_span(&mut self, lane: Lane, start_ns: u64, end_ns: u64, bytes: u64, request: u32) {
        if self.trace.is_none() {
            return;
        }
        let req = &self.requests[request as usize];
        let (offset, arrival, name) = (req.offset, req.arrival, self.name_of(request));
        let start_ns = start_ns.saturating_sub(self.trace_start_ns);
        let duration_ns = end_ns
            .saturating_sub(self.trace_start_ns)
            .saturating_sub(start_ns);
        let kind = EventKind::Span {
            lane,
            duration_ns,
            bytes,
            offset,
            request: arrival,
        };
        let counters = EventKind::Counters {
            staging_bytes: self.arena.in_use() as u64,
            in_flight_bytes: self.in_flight_bytes(),
        };
        if let Some(trace) = &mut self.trace {
            trace.push(TraceEvent {
                start_ns,
                name,
                kind,
            });
            if lane == Lane::Device {
                let start_ns = end_ns.saturating_sub(self.trace_start_ns);
                trace.push(TraceEvent {
                    start_ns,
                    name: None,
                    kind: counters,
                });
            }
        }
    }

    fn name_of(&self, request: u32) -> Option<Arc<str>> {
        let req = &self.requests[request as usize];
        req.name().or_else(|| {
            let path = self.files.path(req.file, req.file_generation)?;
            Some(path.file_name()?.to_string_lossy().into())
        })
    }

    fn in_flight_bytes(&self) -> u64 {
        let in_flight = self.scheduler.in_flight();
        in_flight.bytes()
    }
}
