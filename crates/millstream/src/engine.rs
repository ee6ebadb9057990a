//! The engine: one loop that owns all state on which decisions depend.
//!
//! A round follows the data once: mail → intake → completions, answers, results → timers → events →
//! opens → issue → jobs → events → push → settle. Only this module sees all components, which own
//! their fields and return values. Handlers look at one request and return a [`Flow`];
//! [`Engine::follow`] acts on it and comes last. A request ends in [`Engine::finish`] and nowhere
//! else, and nothing looks at its slot afterwards; effects on other requests go into `events`,
//! checked when they are popped.
//!
//! A request with operations, jobs or calls out does not end, with one exception: its timeout has
//! passed, its device broke or the storage closes, and its memory is owned: then that moves to
//! quarantine. A broken invariant ends the process (`or_abort`): unwinding would free memory that
//! the kernel may be writing to.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use millstream_codec::Scratch;
use millstream_io::device::calls::CallDone;
use millstream_io::error::guard;
use millstream_io::{Arena, Completion};

use crate::caller::destination::MemoryKind;
use crate::caller::group::Group;
use crate::caller::queue::{EngineSide, Mailbox, QueueShared, Wishes};
use crate::caller::request::Verb;
use crate::caller::waits::WaitsFor;
use crate::decode::jobs::{Job, JobResult, JobSink, JobTask, Task, run_job, run_task};
use crate::decode::workers::Workers;
use crate::engine::files::Files;
use crate::engine::heap::Heap;
use crate::engine::lanes::{Lanes, Start};
use crate::engine::scheduler::{NO_DEADLINE, Order, Scheduler};
use crate::engine::staging::Staging;
use crate::engine::state::Event;
use crate::engine::transfers::{Lane, Transfers};
use crate::error::{Error, ErrorKind};
use crate::handover::complete::Queues;
use crate::handover::mailbox::{Change, Letter, Pump};
use crate::ids::Id;
use crate::limits;
use crate::trace::{Span, Track};

mod appends;
mod back;
mod calls;
mod close;
mod columns;
mod earlier;
mod external;
pub(crate) mod files;
mod finish;
mod heap;
mod intake;
mod issue;
pub(crate) mod lanes;
mod mail;
mod route;
mod scheduler;
mod staged;
pub(crate) mod staging;
mod state;
mod transfers;
mod waits;
mod windows;

use calls::CallTable;
use columns::{Col, Extra, flag};
use earlier::Barrier;
use external::Externals;

/// An event of a request that was caused elsewhere: by a fence, a file or another request.
enum What {
    /// A fence may have been reached.
    GateOpen,
    /// It was held by its queue, its mount or earlier writes, and may be served again.
    Released,
    /// Its file is open, or failed to open.
    FileReady,
    End(Error),
}

/// What becomes of a request, as a handler decides.
enum Flow {
    Wait,
    Runnable,
    /// It ends now, successfully or with an error.
    End(Option<Error>),
}

/// Requests wait, and nothing of the library will release them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stall {
    /// A fault of the engine.
    Fault,
    /// The application holds all that is out of staging.
    Blocked,
}

/// Bytes per second of the devices while busy, smoothed; and how time was spent.
struct Rate {
    bytes_per_second: u64,
    bytes: u64,
    busy_ns: u64,
    last_ns: u64,
    /// Anything was in flight, and anything waited, when time was last accounted for.
    in_flight: bool,
    waited: bool,
    /// A bound on low priority held requests back in the period.
    held_low: bool,
}

pub(crate) struct Engine {
    shared: Arc<Mailbox>,
    side: EngineSide,
    cols: Vec<Col>,
    extras: Vec<Option<Box<Extra>>>,
    lanes: Lanes,
    staging: Staging,
    scheduler: Scheduler,
    /// Requests that wait for staging, by the class of their windows.
    waiters: [Scheduler; 2],
    /// Requests whose stored bytes are in memory: they wait for workers, and for no device.
    memory_scheduler: Scheduler,
    files: Files,
    queues: Queues,
    transfers: Transfers,
    calls: CallTable,
    /// Timeouts by slot.
    timers: Heap,
    /// Ends of bandwidth holds by queue.
    holds: Heap,
    barriers: Vec<Barrier>,
    /// What precedes the parcel that is taken in, if it has a sync or a close: queues, with the
    /// sequence number after the last such entry.
    ends_before: Vec<(u32, u64)>,
    /// Requests that wait for fences.
    gated: Vec<Id>,
    gated_bytes: u64,
    /// Changes of requests that have not arrived.
    early: HashMap<Id, Change>,
    events: VecDeque<(Id, What)>,
    workers: Arc<Workers>,
    new_jobs: Vec<JobTask>,
    externals: Externals,
    wakers: Vec<Waker>,
    /// Groups of requests that ended in this round, notified once the outcomes are available.
    groups: Vec<(Group, Option<ErrorKind>, u64)>,
    /// Lists that are reused.
    dirty: Vec<Arc<QueueShared>>,
    results: Vec<JobResult>,
    letters: Vec<Letter<QueueShared>>,
    wishes: Vec<(u32, Wishes)>,
    completions: Vec<Completion>,
    answers: Vec<CallDone>,
    now_ns: u64,
    arrivals: u64,
    rate: Rate,
    repeat_bytes: u64,
    closing: Option<Option<Instant>>,
    closed: bool,
    stalled: Option<Stall>,
    scratch: Scratch,
    /// How long the last sleep took.
    last_gap: Duration,
}

/// Runs code of the engine. A panic is a broken invariant, and ends the process.
pub(crate) fn or_abort<T>(shared: &Mailbox, work: impl FnOnce() -> T) -> T {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| {
        let cause = panic.downcast_ref::<String>().map(String::as_str);
        let cause = cause.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = "the engine broke an invariant of its own; the process ends";
        shared.warn(format!("{text}: {}", cause.unwrap_or("unknown")));
        shared.log.flush(Duration::from_millis(200));
        std::process::abort();
    })
}

impl Engine {
    pub(crate) fn new(
        shared: &Arc<Mailbox>,
        side: EngineSide,
        lanes: Lanes,
        workers: Arc<Workers>,
    ) -> Result<Engine, Error> {
        let options = &shared.options;
        let arena = Arena::new(options.staging_bytes, options.allocator.clone())?;
        shared.set_staging(arena.region());
        let capacity = arena.capacity() as u64;
        shared.counters.staging_capacity_bytes.set(capacity);
        let block_bytes = options.block_bytes as u64;
        let low_wait_ns = u64::try_from(options.low_wait.as_nanos()).unwrap_or(u64::MAX);
        Ok(Engine {
            side,
            cols: Vec::new(),
            extras: Vec::new(),
            lanes,
            staging: Staging::new(arena, Arc::clone(&shared.buffers)),
            scheduler: Scheduler::new(block_bytes, low_wait_ns),
            waiters: [
                Scheduler::new(block_bytes, low_wait_ns),
                Scheduler::new(block_bytes, low_wait_ns),
            ],
            memory_scheduler: Scheduler::new(block_bytes, low_wait_ns),
            files: Files::new(options.descriptors, options.access),
            queues: Queues::default(),
            transfers: Transfers::default(),
            calls: CallTable::default(),
            timers: Heap::default(),
            holds: Heap::default(),
            barriers: Vec::new(),
            ends_before: Vec::new(),
            gated: Vec::new(),
            gated_bytes: 0,
            early: HashMap::new(),
            events: VecDeque::new(),
            workers,
            new_jobs: Vec::new(),
            externals: Externals::default(),
            wakers: Vec::new(),
            groups: Vec::new(),
            dirty: Vec::new(),
            results: Vec::new(),
            letters: Vec::new(),
            wishes: Vec::new(),
            completions: Vec::new(),
            answers: Vec::new(),
            now_ns: 0,
            arrivals: 0,
            rate: Rate {
                bytes_per_second: 2_000_000_000,
                bytes: 0,
                busy_ns: 0,
                last_ns: 0,
                in_flight: false,
                waited: false,
                held_low: false,
            },
            repeat_bytes: 0,
            closing: None,
            closed: false,
            stalled: None,
            scratch: Scratch::default(),
            last_gap: Duration::MAX,
            shared: Arc::clone(shared),
        })
    }

    /// The engine thread's loop: until the storage is closed.
    pub(crate) fn run(&mut self) {
        while !self.closed {
            let worked = self.round();
            if !self.try_close() && !worked {
                self.sleep(None);
            }
        }
    }

    /// Runs one round; returns whether anything was done.
    fn round(&mut self) -> bool {
        self.now_ns = self.shared.now_ns();
        let mut worked = self.take_mail();
        worked |= self.intake();
        // On a rotating disk, ordering all requests is worth more than cache locality.
        while self.scheduler.has_positions() && self.intake() {}
        self.lanes.reap(&mut self.completions, &mut self.answers);
        worked |= self.complete_all();
        worked |= self.answer_all();
        worked |= self.each(|engine| &mut engine.results, Engine::job_back);
        worked |= self.fire_timers();
        worked |= self.handle_events();
        self.start_opens();
        worked |= self.issue_all();
        worked |= self.send_jobs();
        worked |= self.handle_events();
        worked |= self.push_all(worked);
        self.settle();
        if !worked {
            self.look_for_stall();
        }
        worked
    }

    /// Whether nothing is in flight: no operation, call or job.
    fn is_idle(&self) -> bool {
        self.staging.jobs_out() == 0 && self.transfers.out() == 0 && self.lanes.calls_out() == 0
    }

    /// Counts a stall once, when it begins: requests wait, and there is nothing that will release
    /// them. What waits for a fence, a pause, a bandwidth or a mount is in no scheduler.
    fn look_for_stall(&mut self) {
        let moves = self.transfers.out() > 0
            || self.lanes.calls_out() > 0
            || self.staging.library_jobs() > 0
            || self.files.retry_at(self.now_ns).is_some()
            || self.shared.has_mail();
        let waits = self.scheduler.has_waiting() || self.memory_scheduler.has_waiting();
        let stall = match self.has_waiters() || self.files.opening() > 0 {
            _ if moves => None,
            _ if waits => Some(Stall::Fault),
            true if self.has_waiters() && self.staging.is_foreign_alone() => Some(Stall::Blocked),
            true => Some(Stall::Fault),
            false => None,
        };
        let before = std::mem::replace(&mut self.stalled, stall);
        match stall {
            Some(Stall::Blocked) if before != stall => {
                self.shared.counters.blocked_by_application.add(1);
            }
            Some(Stall::Fault) if before != stall => self.count_stall(),
            _ => {}
        }
    }

    #[cold]
    fn count_stall(&self) {
        let counters = &self.shared.counters;
        counters.stalls.add(1);
        let text = format!(
            "requests wait and nothing is in flight: this is a fault of Millstream (for a device: \
             {}; for staging: {}, {} bytes of it in use; opens: {}, descriptors: {})",
            self.scheduler.has_waiting() || self.memory_scheduler.has_waiting(),
            self.has_waiters(),
            self.staging.in_use(),
            self.files.opening(),
            self.files.descriptors,
        );
        assert!(!self.shared.options.abort_on_stall, "{text}");
        if counters.stalls.get() == 1 {
            self.shared.warn(text);
        }
    }

    /// Handles each item of a list, which is reused; returns whether there was any.
    #[inline(always)]
    fn each<T>(
        &mut self,
        list: impl Fn(&mut Engine) -> &mut Vec<T>,
        handle: impl Fn(&mut Engine, T),
    ) -> bool {
        let mut taken = std::mem::take(list(self));
        let any = !taken.is_empty();
        for one in taken.drain(..) {
            handle(self, one);
        }
        debug_assert!(list(self).is_empty(), "what was added now would be lost");
        *list(self) = taken;
        any
    }

    /// Handles queued events until none is left; returns whether there was any.
    fn handle_events(&mut self) -> bool {
        let mut worked = false;
        while let Some((id, what)) = self.events.pop_front() {
            worked = true;
            if self.is_known(id) {
                self.drive(id.index(), what);
            }
        }
        worked
    }

    /// Handles an event of a request.
    fn drive(&mut self, index: u32, what: What) {
        let flow = match what {
            What::GateOpen => self.gate_open(index),
            What::Released => self.released(index),
            What::FileReady => self.file_ready(index),
            What::End(error) => self.end_wanted(index, error),
        };
        self.follow(index, flow);
    }

    /// Acts on what a handler returned; nothing comes after.
    #[inline(always)]
    fn follow(&mut self, index: u32, flow: Flow) {
        match flow {
            Flow::Wait => {}
            Flow::Runnable => {
                self.cols[index as usize].state.on(Event::Runnable);
                self.schedule(index);
            }
            Flow::End(error) => self.finish(index, error),
        }
    }

    #[inline(always)]
    fn scheduler_of(&mut self, index: u32) -> &mut Scheduler {
        match self.cols[index as usize].verb {
            Verb::Memory => &mut self.memory_scheduler,
            _ => &mut self.scheduler,
        }
    }

    #[inline(always)]
    fn schedule(&mut self, index: u32) {
        let (order, now_ns) = (self.order(index), self.now_ns);
        let (scheduler, cause) = match self.cols[index as usize].verb {
            Verb::Memory => (&mut self.memory_scheduler, WaitsFor::Job),
            _ => (&mut self.scheduler, WaitsFor::Device),
        };
        scheduler.add(index, order, now_ns);
        self.waits(index, cause);
    }

    /// What the place of a request in a scheduler depends on.
    #[inline(always)]
    fn order(&mut self, index: u32) -> Order {
        let position = match self.files.have_positions() {
            true => self.position(index),
            false => None,
        };
        let is_plain = self.cols[index as usize].flags & (flag::USUAL | flag::EXTRA) == 0;
        let (deadline_ns, pinned) = match is_plain {
            true => (NO_DEADLINE, false),
            false => (self.deadline_ns(index), self.has_open_window(index)),
        };
        let col = &self.cols[index as usize];
        Order {
            priority: col.priority,
            deadline_ns,
            arrival: col.arrival,
            position,
            pinned,
        }
    }

    /// Where the next block of a request is, on a rotating disk.
    #[cold]
    fn position(&self, index: u32) -> Option<u64> {
        let col = &self.cols[index as usize];
        let body = self.side.peek(index);
        let file = self.files.peek(body.file)?;
        match col.verb {
            Verb::Memory => None,
            _ => file.position(body.offset + col.issued),
        }
    }

    #[inline(always)]
    fn deadline_ns(&mut self, index: u32) -> u64 {
        if !self.cols[index as usize].has(flag::USUAL) {
            return NO_DEADLINE;
        }
        let deadline = self.side.usual(index).deadline;
        deadline.map_or(NO_DEADLINE, |at| self.shared.to_ns(at))
    }

    /// Adds the time since the last call to busy or idle, by the state at that call.
    fn account(&mut self) {
        let counters = &self.shared.counters;
        let spent = self.now_ns.saturating_sub(self.rate.last_ns);
        self.rate.last_ns = self.now_ns;
        let out = self.transfers.out();
        counters.in_flight.set(out as u64);
        counters
            .in_flight_bytes
            .set(self.scheduler.in_flight_bytes());
        counters.descriptors.set(self.files.descriptors as u64);
        counters.staging_bytes.set(self.staging.in_use() as u64);
        counters.staging_peak_bytes.set(self.staging.peak() as u64);
        counters.worker_starved_ns.set(self.workers.starved_ns());
        let before = std::mem::replace(&mut self.rate.in_flight, out > 0);
        if before != self.rate.in_flight {
            self.workers.note_in_flight(out as u64);
        }
        let waits = self.has_waiting() || self.files.opening() > 0;
        let waited = std::mem::replace(&mut self.rate.waited, waits);
        if before {
            counters.device_busy_ns.add(spent);
            self.rate.held_low |= self.scheduler.take_held_low();
            self.rate.busy(spent);
        } else if waited {
            counters.device_idle_ns.add(spent);
        }
    }

    /// Hands jobs to workers, and does small copies itself.
    fn send_jobs(&mut self) -> bool {
        let reads = self.read_externals();
        if self.new_jobs.is_empty() {
            return reads;
        }
        let mut tasks = std::mem::take(&mut self.new_jobs);
        let mut own = Vec::new();
        for task in tasks.extract_if(.., |task| crate::engine::staged::is_inline(task)) {
            own.push(run_task(task, &mut self.scratch));
        }
        let sink: Arc<dyn JobSink> = Arc::clone(&self.shared) as Arc<dyn JobSink>;
        if let Some(system) = self.shared.options.job_system.clone() {
            let decodes =
                |task: &mut JobTask| matches!(task.task, Task::Decode(_) | Task::Stream { .. });
            for task in tasks.extract_if(.., decodes) {
                let job = Job::new(task, Arc::clone(&sink));
                if guard(|| system.spawn(job)).is_none() {
                    self.shared.warn("the job system panicked".into());
                }
            }
        }
        if !tasks.is_empty() {
            self.workers.push_all(&mut tasks, &sink);
        }
        // If there was no memory for the list of jobs, they are run here.
        for task in tasks.drain(..) {
            run_job(Job::new(task, Arc::clone(&sink)), &mut self.scratch);
        }
        self.new_jobs = tasks;
        for result in own {
            self.job_back(result);
        }
        true
    }

    fn fire_timers(&mut self) -> bool {
        let mut worked = false;
        while let Some((at, _, index)) = self.timers.first()
            && at <= self.now_ns
        {
            worked = true;
            self.timers.remove(index);
            self.timed_out(index);
        }
        while let Some((at, _, queue)) = self.holds.first()
            && at <= self.now_ns
        {
            worked = true;
            self.holds.remove(queue);
            self.unhold(queue);
        }
        worked
    }

    /// Pushes and starts what is outgoing; returns whether the device broke, which leaves events.
    fn push_all(&mut self, worked: bool) -> bool {
        let carried = self.lanes.has_unsubmitted();
        for lane in [Lane::Main, Lane::Cached, Lane::Slow, Lane::Blocking] {
            self.lanes.push(lane, self.transfers.outgoing(lane));
        }
        // What the device did not take now it may take once it has begun the others. What an
        // earlier round left unsubmitted is submitted if this one does not lead to sleep either.
        let awake = self.has_outgoing() || self.shared.has_mail() || self.queues.have_backlog();
        let awake = awake || (carried && worked);
        let when = match awake {
            true => Start::BeforeDry,
            false => Start::AsleepSoon,
        };
        if let Err(error) = self.lanes.submit(when) {
            self.main_broke(&error.into());
            return true;
        }
        false
    }

    /// Sleeps until something arrives, at most `longest`; after a short spin for mail if the last
    /// came quickly. While the device or workers have work it sleeps at once: they wake it, and
    /// what arrives together is then taken together.
    fn sleep(&mut self, longest: Option<Duration>) {
        let shared = Arc::clone(&self.shared);
        let awake = &mut || shared.has_mail();
        if self.lanes.stays_awake(awake) || self.has_outgoing() {
            return;
        }
        let started = Instant::now();
        let quick = Duration::from_nanos(limits::ENGINE_SPIN_NS);
        if self.last_gap < quick && self.is_idle() {
            while started.elapsed() < quick {
                if shared.has_mail() {
                    self.last_gap = started.elapsed();
                    return;
                }
                for _ in 0..16 {
                    std::hint::spin_loop();
                }
            }
        }
        let timeout = self.until_next_timer().into_iter().chain(longest).min();
        if let Err(error) = self.lanes.wait(timeout, awake) {
            self.main_broke(&error.into());
            self.settle();
        }
        self.last_gap = started.elapsed();
    }

    /// Whether operations wait to be pushed to the main lane, which has room.
    fn has_outgoing(&mut self) -> bool {
        let room = self.transfers.out_in(Lane::Main) < self.lanes.depth();
        room && !self.transfers.outgoing(Lane::Main).is_empty()
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let timer = self.timers.first().map(|(at, ..)| at);
        let hold = self.holds.first().map(|(at, ..)| at);
        let closing = self.closing.flatten().map(|at| self.shared.to_ns(at));
        let retry = self.files.retry_at(self.now_ns);
        let times = [timer, hold, closing, retry];
        let at = times.into_iter().flatten().min()?;
        Some(Duration::from_nanos(
            at.saturating_sub(self.shared.now_ns()),
        ))
    }

    #[cold]
    fn trace(&mut self, track: Track, start_ns: u64, end_ns: u64, bytes: u64, index: u32) {
        let name = self.rare(index).and_then(|rare| rare.name.clone());
        let body = self.side.peek(index);
        let file = self.files.peek(body.file);
        let file_name = || Some(file?.path.file_name()?.to_string_lossy().into());
        let span = Span {
            track,
            name: name.or_else(file_name),
            start_ns,
            end_ns,
            bytes,
            offset: body.offset,
            request: self.cols[index as usize].arrival,
            memory: (
                self.staging.in_use() as u64,
                self.scheduler.in_flight_bytes(),
            ),
        };
        self.shared.recorder.add(span);
    }

    #[inline]
    fn memory_kind(&self, index: u32) -> MemoryKind {
        self.side.head(index).memory
    }

    fn id(&self, index: u32) -> Id {
        self.side.id(index, self.cols[index as usize].generation)
    }
}

impl Pump for Engine {
    fn pump(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        or_abort(&shared, || {
            if self.closed {
                return false;
            }
            let mut worked = self.round();
            if let Err(error) = self.lanes.submit(Start::Now) {
                self.main_broke(&error.into());
                self.settle();
                worked = true;
            }
            let workers = Arc::clone(&self.workers);
            while let Some(job) = workers.pop() {
                worked = true;
                run_job(job, &mut self.scratch);
            }
            worked | self.try_close()
        })
    }

    fn rest(&mut self, longest: Duration) {
        let shared = Arc::clone(&self.shared);
        or_abort(&shared, || {
            if !self.closed {
                self.sleep(Some(longest));
            }
        });
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

impl Rate {
    fn busy(&mut self, spent_ns: u64) {
        self.busy_ns += spent_ns;
        if self.busy_ns <= 10_000_000 {
            return;
        }
        let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(self.busy_ns);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        // Only periods that moved much measure what the device can do. Where a bound that follows
        // the rate held requests back, the device can do more: the rate would drop by itself.
        let held_low = std::mem::take(&mut self.held_low);
        if self.bytes > 1 << 20 && (rate > self.bytes_per_second || !held_low) {
            self.bytes_per_second = (self.bytes_per_second / 4 * 3).saturating_add(rate / 4);
        }
        (self.bytes, self.busy_ns) = (0, 0);
    }
}
