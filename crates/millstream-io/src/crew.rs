//! Threads that take work from a list: the one kind of thread pool of the library. Each of its
//! instances ([`threads`](crate::device::threads), [`calls`](crate::device::calls),
//! [`cached`](crate::device::cached), and the workers of a storage) says by a [`Work`] what waits,
//! what a thread takes of it at a time, and where what it did goes.
//!
//! - **Threads** start when there is work, one after the other: each that takes a share and leaves
//!   work behind calls the next ([`CrewOptions::calls`] at a time). So only as many run as are
//!   useful. They stay.
//! - **Hung tasks.** With [`CrewOptions::hung`], a task that has run for so long no longer counts
//!   against [`CrewOptions::base`]: another thread takes its place, up to [`CrewOptions::most`],
//!   and the surplus thread ends when the task does. While work waits behind busy threads, one more
//!   thread sleeps until the next of their tasks would count as hung: nothing is polled.
//! - **Without threads.** Where none can be started, or none may, the crew is *stranded*: the owner
//!   does the work ([`Crew::stranded`]).
//! - **The owner is woken** ([`Work::ring`]) when [`Work::is_ring_due`] says so: after a share, and
//!   before a thread sleeps or ends.
//!
//! Invariants. Each task is in the list, in the hands of a thread, published, or discarded. A
//! thread takes its share, and publishes what it did, under the crew's lock; so at [`Crew::end`] a
//! task either waits, or runs, and is discarded later, or is published. While anything waits, a
//! thread is awake or coming, or as many run as may and one of them or the one that watches will
//! look, or the crew is stranded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use primitives::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};

use crate::device::poll_until;
use crate::fork::ForkGuard;
use roster::{Help, Roster, Step};

mod roster;

/// From the standard library, or from a model checker.
mod primitives {
    #[cfg(loom)]
    use loom as from;
    #[cfg(shuttle)]
    use shuttle as from;
    #[cfg(not(model))]
    use std as from;

    pub(super) use from::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use from::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use from::thread::{Builder, JoinHandle};
}

/// What a crew does.
pub trait Work: Send + Sync + 'static {
    /// What waits; only changed under the crew's lock.
    type List: Default + Send;
    /// A part of it.
    type Task: Send;
    /// What comes of a task.
    type Done: Send;
    /// What each thread has of its own.
    type Local;

    /// Begins thread `number`, on that thread.
    fn begin(&self, number: usize) -> Self::Local;

    /// Number of tasks that wait.
    fn waiting(list: &Self::List) -> usize;

    /// Moves one thread's share of a list that is not empty into `share`, at least one task;
    /// `awake` threads of the crew do not sleep.
    fn take(&self, list: &mut Self::List, awake: usize, share: &mut Vec<Self::Task>);

    /// The name of a task, by which [`Crew::end`] reports it.
    fn id(task: &Self::Task) -> u64;

    /// Does a share of the work, outside the lock. Must not panic: such a task runs for ever.
    fn run(&self, local: &mut Self::Local, share: &mut Vec<Self::Task>, done: &mut Vec<Self::Done>);

    /// Whether another thread would help with what waits, beside `awake` ones.
    fn wants_more(&self, list: &Self::List, awake: usize) -> bool {
        let _ = (list, awake);
        true
    }

    /// Hands over what came of a share, under the lock.
    fn publish(&self, done: &mut Vec<Self::Done>) {
        done.clear();
    }

    /// Throws away what came of a share after [`Crew::end`], outside the lock.
    fn discard(&self, late: &mut Vec<Self::Done>) {
        late.clear();
    }

    /// Whether what was published suffices to wake the owner while so many tasks wait;
    /// `is_full`: all threads there may be exist, and may all hang in their next tasks.
    fn is_ring_due(&self, waiting: usize, is_full: bool) -> bool {
        let _ = (waiting, is_full);
        false
    }

    /// Wakes the owner.
    fn ring(&self) {}

    /// Before a thread sleeps: where the nanoseconds that it sleeps are counted, if at all.
    fn idle_ns(&self) -> Option<&std::sync::atomic::AtomicU64> {
        None
    }
}

/// How many threads a crew has.
#[derive(Debug, Clone)]
pub struct CrewOptions {
    /// Prefix of their names, followed by their number.
    pub name: &'static str,
    /// Maximum number of threads that run tasks at a time, not counting hung ones.
    pub base: usize,
    /// Maximum number of threads; 0: the owner does all.
    pub most: usize,
    /// How many threads may be on their way at a time, at least 1.
    pub calls: usize,
    /// How long a task runs until it counts as hung.
    pub hung: Option<Duration>,
    /// How long a thread polls for work before it sleeps.
    pub spin: Duration,
}

impl Default for CrewOptions {
    fn default() -> CrewOptions {
        CrewOptions {
            name: "ms-crew-",
            base: 1,
            most: 1,
            calls: 1,
            hung: None,
            spin: Duration::ZERO,
        }
    }
}

struct Inner<W: Work> {
    list: W::List,
    roster: Roster,
}

/// Threads that hang keep it alive.
struct Core<W: Work> {
    work: W,
    inner: Mutex<Inner<W>>,
    /// Idle threads sleep here.
    idle: Condvar,
    waiting: AtomicUsize,
    is_stranded: AtomicBool,
    name: &'static str,
    spin: Duration,
}

/// A list of work, and the threads that do it. See the module.
///
/// In a forked child the threads do not exist, and one of them may hold the lock: the child may
/// only ask [`Crew::is_child`] and drop it.
pub struct Crew<W: Work> {
    shared: Arc<Core<W>>,
    guard: ForkGuard,
}

impl<W: Work> Crew<W> {
    /// Makes a crew with an empty list. Starts no thread yet.
    pub fn new(options: &CrewOptions, work: W) -> Crew<W> {
        let list = W::List::default();
        let roster = Roster::new(options);
        Crew {
            shared: Arc::new(Core {
                work,
                inner: Mutex::new(Inner { list, roster }),
                idle: Condvar::new(),
                waiting: AtomicUsize::new(0),
                is_stranded: AtomicBool::new(false),
                name: options.name,
                spin: options.spin,
            }),
            guard: ForkGuard::new(),
        }
    }

    /// What the crew does.
    pub fn work(&self) -> &W {
        &self.shared.work
    }

    /// Whether this process is a forked child of the one that made the crew.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.guard.is_child()
    }

    /// Starts a thread, which stays.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn start(&self) -> std::io::Result<()> {
        let number = self.shared.lock().roster.starts();
        self.shared.start(number)
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shared.lock().roster.threads
    }

    /// Has `put` add work to the list, and calls threads for it.
    pub fn add(&self, put: impl FnOnce(&mut W::List)) {
        let mut inner = self.shared.lock();
        put(&mut inner.list);
        self.shared.call(inner, false);
    }

    /// Has the owner change the list: take a share of its own, or cancel tasks. The closure gets
    /// the number of threads that do not sleep.
    pub fn with<R>(&self, change: impl FnOnce(&mut W::List, usize) -> R) -> R {
        let mut inner = self.shared.lock();
        let awake = inner.roster.awake();
        let result = change(&mut inner.list, awake);
        self.shared.note_waiting(&inner);
        result
    }

    /// Number of tasks that no thread has begun.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Whether work waits that the owner must do, by [`Crew::stranded`].
    #[must_use]
    pub fn is_stranded(&self) -> bool {
        self.shared.is_stranded.load(Ordering::Acquire) && {
            let inner = self.shared.lock();
            inner.roster.threads == 0 && W::waiting(&inner.list) > 0
        }
    }

    /// Tries once more to start a thread for work that found none. If there is none at all, has the
    /// owner do the work: appends what it takes to `share`; else nothing.
    pub fn stranded(&self, share: &mut Vec<W::Task>) {
        if !self.shared.is_stranded.swap(false, Ordering::AcqRel) {
            return;
        }
        self.shared.call(self.shared.lock(), false);
        let mut inner = self.shared.lock();
        while inner.roster.threads == 0 && W::waiting(&inner.list) > 0 {
            self.shared.work.take(&mut inner.list, 0, share);
        }
        if W::waiting(&inner.list) == 0 {
            self.shared.is_stranded.store(false, Ordering::Release);
        }
        self.shared.note_waiting(&inner);
    }

    /// Keeps everybody off the crew, as a thread may during a fork.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.shared.lock()
    }

    /// Whether nothing waits or runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let inner = self.shared.lock();
        W::waiting(&inner.list) == 0 && inner.roster.is_idle()
    }

    /// Nothing will be added: threads end when nothing waits.
    pub fn stop(&self) {
        self.shared.lock().roster.stopping = true;
        self.shared.idle.notify_all();
    }

    /// Waits until nothing waits or runs, or the time has passed; returns whether nothing does.
    #[must_use]
    pub fn await_idle(&self, until: Option<Instant>) -> bool {
        poll_until(until, || self.is_idle());
        self.is_idle()
    }

    /// Ends the crew: what comes of tasks from now on is discarded. `rest` takes what shall not be
    /// begun out of the list; threads do what it leaves, and end. If it leaves nothing, joins the
    /// threads that run nothing, which end at once. Returns what `rest` has made of the list, and
    /// the ids of the tasks that run.
    pub fn end<R>(&self, rest: impl FnOnce(&mut W::List) -> R) -> (R, Vec<u64>) {
        let (rest, running, free) = self.shared.end(rest);
        for thread in free {
            // Nothing else would report a panic of such a thread.
            thread.join().expect("a thread of the library panicked");
        }
        (rest, running)
    }
}

impl<W: Work> Drop for Crew<W> {
    fn drop(&mut self) {
        if !self.guard.is_child() && !self.shared.lock().roster.ended {
            self.shared.end(std::mem::take);
        }
    }
}

/// A panic of a [`Work`] under the lock leaves the crew sound.
fn recover<T>(locked: std::sync::LockResult<T>) -> T {
    locked.unwrap_or_else(std::sync::PoisonError::into_inner)
}

type Ended<R> = (R, Vec<u64>, Vec<primitives::JoinHandle<()>>);

impl<W: Work> Core<W> {
    fn lock(&self) -> MutexGuard<'_, Inner<W>> {
        recover(self.inner.lock())
    }

    fn note_waiting(&self, inner: &Inner<W>) {
        let waiting = W::waiting(&inner.list);
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Unlocks, wakes the owner if `ring` says so, and calls threads for what waits.
    fn call(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner<W>>, ring: bool) {
        self.note_waiting(&inner);
        let mut wakes = 0;
        let start = loop {
            match inner.help(&self.work) {
                Help::Wake => wakes += 1,
                Help::Start(number) => break Some(number),
                Help::None => break None,
            }
        };
        if start.is_none() && W::waiting(&inner.list) > 0 && inner.roster.is_stranded() {
            self.is_stranded.store(true, Ordering::Release);
        }
        drop(inner);
        if ring {
            self.work.ring();
        }
        for _ in 0..wakes {
            self.idle.notify_one();
        }
        if let Some(number) = start {
            // Without it the crew is stranded, or has other threads.
            let _ = self.start(number);
        }
    }

    fn start(self: &Arc<Self>, number: usize) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        let started = primitives::Builder::new()
            .name(format!("{}{number}", self.name))
            .spawn(move || run(&shared, number));
        let mut inner = self.lock();
        match started {
            Ok(handle) => {
                inner.roster.members[number].started(handle);
                Ok(())
            }
            Err(error) => {
                inner.roster.not_started(number);
                // The owner does the work if there is no thread, and hears of what was done if all
                // threads that there are may hang.
                let is_due = self.work.is_ring_due(0, true);
                let ring = inner.roster.threads == 0 || is_due;
                self.call(inner, ring);
                Err(error)
            }
        }
    }

    fn end<R>(&self, rest: impl FnOnce(&mut W::List) -> R) -> Ended<R> {
        let mut inner = self.lock();
        let Inner { list, roster } = &mut *inner;
        // The second time, threads that run nothing may still throw away what they did.
        let may_join = !roster.ended;
        (roster.stopping, roster.ended) = (true, true);
        let rest = rest(list);
        let (mut running, mut free) = (Vec::new(), Vec::new());
        for member in &mut roster.members {
            match member.tasks.is_empty() {
                true => free.extend(member.handle.take()),
                false => running.extend(&member.tasks),
            }
        }
        if W::waiting(list) > 0 || !may_join {
            free.clear();
        }
        self.note_waiting(&inner);
        drop(inner);
        self.idle.notify_all();
        (rest, running, free)
    }

    /// Takes a share and does it; the lock is released meanwhile.
    fn run_share<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, Inner<W>>,
        number: usize,
        thread: &mut Thread<W>,
    ) -> MutexGuard<'a, Inner<W>> {
        inner.take(&self.work, number, &mut thread.share);
        let ring = inner.is_ring_due(&self.work);
        self.call(inner, ring);
        self.work
            .run(&mut thread.local, &mut thread.share, &mut thread.done);
        let mut inner = self.lock();
        inner.roster.ran(number);
        if inner.roster.ended {
            drop(inner);
            self.work.discard(&mut thread.done);
            return self.lock();
        }
        self.work.publish(&mut thread.done);
        inner
    }

    /// Polls until something waits, or a thread should have slept for long.
    fn spin(&self) {
        let began = Instant::now();
        while self.waiting.load(Ordering::Relaxed) == 0 && began.elapsed() < self.spin {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    /// Sleeps until woken, or until a task counts as hung; returns whether that time has come.
    fn sleep<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<W>>,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, Inner<W>>, bool) {
        inner.roster.sleeps(until.is_some());
        let counter = self.work.idle_ns();
        let began = counter.map(|_| Instant::now());
        let is_due = match until {
            None => {
                inner = recover(self.idle.wait(inner));
                false
            }
            Some(until) => {
                let most = until.saturating_duration_since(Instant::now());
                let timeout;
                (inner, timeout) = recover(self.idle.wait_timeout(inner, most));
                inner.roster.watched();
                timeout.timed_out()
            }
        };
        inner.roster.arrives();
        if let (Some(counter), Some(began)) = (counter, began) {
            let slept = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            counter.fetch_add(slept, std::sync::atomic::Ordering::Relaxed);
        }
        (inner, is_due)
    }
}

impl<W: Work> Inner<W> {
    fn help(&mut self, work: &W) -> Help {
        let waiting = W::waiting(&self.list);
        match waiting > 0 && work.wants_more(&self.list, self.roster.awake()) {
            true => self.roster.help(waiting),
            false => Help::None,
        }
    }

    fn take(&mut self, work: &W, number: usize, share: &mut Vec<W::Task>) {
        work.take(&mut self.list, self.roster.awake(), share);
        assert!(!share.is_empty(), "a share has a task");
        self.roster.begins(number, share.iter().map(W::id));
    }

    fn is_ring_due(&self, work: &W) -> bool {
        work.is_ring_due(W::waiting(&self.list), self.roster.is_full())
    }
}

/// What a thread keeps from share to share.
struct Thread<W: Work> {
    local: W::Local,
    share: Vec<W::Task>,
    done: Vec<W::Done>,
}

/// Does work as thread `number`, until it is surplus or the crew ends.
fn run<W: Work>(shared: &Arc<Core<W>>, number: usize) {
    // Now, since no other thread is called while one is coming.
    shared.lock().roster.arrives();
    let mut thread = Thread::<W> {
        local: shared.work.begin(number),
        share: Vec::new(),
        done: Vec::new(),
    };
    let mut inner = shared.lock();
    // Since this thread's last share or sleep: whether the owner was woken, and polling is over.
    let (mut rung, mut spun) = (false, false);
    loop {
        let until = match inner.roster.next(number, W::waiting(&inner.list)) {
            Step::Run => {
                inner = shared.run_share(inner, number, &mut thread);
                (rung, spun) = (false, false);
                continue;
            }
            Step::End => {
                let ring = shared.work.is_ring_due(0, true);
                inner.roster.ends(number);
                shared.call(inner, ring);
                return;
            }
            Step::Sleep => None,
            Step::Watch(until) => Some(until),
        };
        // A thread that goes to sleep holds nothing back, unless tasks still wait.
        let ring = !rung && inner.is_ring_due(&shared.work);
        let spin = !spun && until.is_none() && !shared.spin.is_zero();
        if ring || spin {
            // The lock is released: it checks again before it sleeps.
            drop(inner);
            match ring {
                true => shared.work.ring(),
                false => shared.spin(),
            }
            (rung, spun) = (rung || ring, spun || !ring);
            inner = shared.lock();
            continue;
        }
        let is_due;
        (inner, is_due) = shared.sleep(inner, until);
        (rung, spun) = (false, false);
        if is_due && shared.work.is_ring_due(0, true) {
            // Tasks hang: what was done before is not held back any longer.
            drop(inner);
            shared.work.ring();
            inner = shared.lock();
        }
    }
}
