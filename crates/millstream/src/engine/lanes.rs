//! The devices of a storage. The main lane is the ring or a pool of threads, and the engine sleeps
//! in it; the others ring its doorbell.
//!
//! # Safety
//! Memory named by an operation or a call lies in a request's memory or a window, which the engine
//! keeps (in the slot or in quarantine) until the completion, and leaks if a device reports it as
//! abandoned. Lists of segments are owned by `transfers` for as long. Files count their operations
//! and stay open.
#![expect(unsafe_code, reason = "lends memory to devices")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_io::device::cached::{Cached, CachedOptions};
use millstream_io::device::calls::{Call, CallAnswer, CallDone, Calls, CallsOptions};
use millstream_io::device::modeled::{ModelClock, Modeled};
use millstream_io::device::null::NullDevice;
use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::limits::IO_THREADS_DEFAULT;
use millstream_io::{
    Completion, Device, DeviceKind, Doorbell, FileSystem, IoError, Operation, Region,
    ThreadSettings,
};

use crate::engine::transfers::Lane;
use crate::limits::{SLOW_MOUNT_THREADS, SLOW_MOUNTS_MAX};
use crate::options::StorageOptions;

pub(crate) struct Lanes {
    main: Box<dyn Device>,
    cached: Cached,
    /// Pools of threads for mounts that can hang, with the mount that each was made for: one that
    /// hangs holds up no other.
    slow: Vec<(u64, Box<dyn Device>)>,
    /// The main lane took the place of one that broke, and sleeps without hearing the bell: it
    /// looks for mail and its own completions alone.
    replaced: bool,
    calls: Calls,
    /// Operations among the calls.
    blocking: usize,
    fs: Arc<dyn FileSystem>,
    clock: Option<ModelClock>,
    /// Mounts that can hang need threads beside the main lane.
    pub(crate) slow_apart: bool,
    /// The main lane may cancel operations, which can be made as blocking calls instead.
    pub(crate) cancels: bool,
    depth: u32,
    io_threads: usize,
    bell: Doorbell,
    /// Operations pushed to the main lane since its last submit.
    unsubmitted: usize,
}

/// The bit that tells operations among the calls from the engine's calls, which are counted up.
const TRANSFER: u64 = 1 << 63;

/// Operations that may be pushed and not submitted at the end of a round: what is pushed in the
/// last rounds before the engine sleeps goes to the device with the call that sleeps.
const UNSUBMITTED_MAX: usize = 16;

/// When operations pushed to the main lane are started; many are started in any case. Those left
/// go to the device with the call that sleeps, which saves a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Now,
    /// Before the device runs out of operations: the engine has other work first.
    BeforeDry,
    /// With the call that sleeps, which comes next.
    AsleepSoon,
}

impl Lanes {
    pub(crate) fn new(
        device: Box<dyn Device>,
        slow_apart: bool,
        options: &StorageOptions,
        fs: Arc<dyn FileSystem>,
    ) -> Lanes {
        let clock = options.disk_model.clone().map(ModelClock::new);
        let bell = device.doorbell();
        let cancels = matches!(device.kind(), DeviceKind::Uring | DeviceKind::Iocp);
        let main = modeled(device, clock.as_ref());
        let pumped = options.threads.pumped;
        let cores = millstream_io::available_cores();
        let helpers = match pumped {
            true => 0,
            // The engine copies, too: with it at most as many threads as the depth.
            false => (cores - 1).min(options.depth as usize - 1),
        };
        let settings = &options.threads.worker;
        Lanes {
            main,
            cached: copies(&fs, &bell, helpers, settings.clone()),
            slow: Vec::new(),
            replaced: false,
            calls: blocking(&fs, &bell, pumped, settings.clone()),
            blocking: 0,
            fs,
            clock,
            slow_apart,
            cancels,
            depth: options.depth,
            io_threads: options.threads.io_threads.unwrap_or(IO_THREADS_DEFAULT),
            bell,
            unsubmitted: 0,
        }
    }

    pub(crate) fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    /// Whether completions are delayed by a disk model: then the page cache counts as empty.
    pub(crate) fn is_modeled(&self) -> bool {
        self.clock.is_some()
    }

    pub(crate) fn depth(&self) -> usize {
        self.main.depth()
    }

    /// The lane for files on a mount that can hang, whose pool is made for the first read. Beyond
    /// the maximum number of pools, a mount takes over an idle pool, or shares one.
    pub(crate) fn slow_lane(&mut self, mount: u64) -> Result<Lane, IoError> {
        if !self.slow_apart {
            return Ok(Lane::Main);
        }
        if self.slow.iter().any(|(of, _)| *of == mount) {
            return Ok(Lane::Slow);
        }
        if self.slow.len() < SLOW_MOUNTS_MAX {
            match self.threads(SLOW_MOUNT_THREADS, true) {
                Ok(pool) => {
                    self.slow.push((mount, pool));
                    return Ok(Lane::Slow);
                }
                Err(error) if self.slow.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        let mut pools = self.slow.iter_mut();
        if let Some((of, _)) = pools.find(|(_, pool)| pool.in_flight() == 0) {
            *of = mount;
        }
        Ok(Lane::Slow)
    }

    /// A pool of threads beside the main lane.
    fn threads(&self, threads: usize, single: bool) -> Result<Box<dyn Device>, IoError> {
        let pool = Threads::new(ThreadsOptions {
            threads,
            depth: self.depth as usize,
            doorbell: Some(self.bell.clone()),
            single,
        })?;
        Ok(modeled(Box::new(pool), self.clock.as_ref()))
    }

    /// Pushes `operations` to a lane, and removes those that its device or its pools took.
    #[inline]
    pub(crate) fn push(&mut self, lane: Lane, operations: &mut Vec<Operation>) {
        if operations.is_empty() {
            return;
        }
        let device: &mut dyn Device = match lane {
            Lane::Cached => &mut self.cached,
            Lane::Slow => return self.push_slow(operations),
            Lane::Blocking => return self.push_blocking(operations),
            Lane::Main => self.main.as_mut(),
        };
        // SAFETY: see the header of this file.
        let taken = unsafe { device.push(operations) };
        if lane == Lane::Main {
            self.unsubmitted += taken;
        }
        operations.drain(..taken);
    }

    #[cold]
    fn push_slow(&mut self, operations: &mut Vec<Operation>) {
        operations.retain(|operation| {
            let own = self.slow.iter().position(|(of, _)| *of == operation.mount);
            let at = own.unwrap_or(operation.mount as usize % self.slow.len());
            // SAFETY: see the header of this file.
            let taken = unsafe { self.slow[at].1.push(std::slice::from_ref(operation)) };
            taken == 0
        });
    }

    #[cold]
    fn push_blocking(&mut self, operations: &mut Vec<Operation>) {
        self.blocking += operations.len();
        for operation in operations.drain(..) {
            let id = TRANSFER | operation.id;
            // SAFETY: see the header of this file.
            unsafe { self.calls.push(id, false, Call::Transfer(operation)) };
        }
    }

    /// Pushes a call.
    #[inline]
    pub(crate) fn call(&mut self, id: u64, urgent: bool, call: Call) {
        // SAFETY: see the header of this file.
        unsafe { self.calls.push(id, urgent, call) };
    }

    /// Has an open overtake others.
    pub(crate) fn hurry(&mut self, id: u64) {
        self.calls.hurry(id);
    }

    /// Starts what was pushed; the main lane's operations as `when` says.
    pub(crate) fn submit(&mut self, when: Start) -> Result<(), IoError> {
        // The other lanes never break: they have no ring.
        let _ = self.cached.submit();
        for (_, slow) in &mut self.slow {
            let _ = slow.submit();
        }
        self.calls.submit();
        let with_device = self.main.in_flight().saturating_sub(self.unsubmitted);
        let now = match when {
            Start::Now => true,
            Start::BeforeDry => with_device <= 2 * self.unsubmitted,
            // Copies keep the engine awake.
            Start::AsleepSoon => self.cached.in_flight() > 0,
        };
        if self.unsubmitted > 0 && (now || self.unsubmitted >= UNSUBMITTED_MAX) {
            self.unsubmitted = 0;
            return self.main.submit();
        }
        Ok(())
    }

    /// Whether operations of the main lane wait to be started.
    pub(crate) fn has_unsubmitted(&self) -> bool {
        self.unsubmitted > 0
    }

    /// Appends operations and calls that have completed.
    pub(crate) fn reap(&mut self, into: &mut Vec<Completion>, answers: &mut Vec<CallDone>) {
        self.main.reap(into);
        if self.cached.in_flight() > 0 {
            self.cached.reap(into);
        }
        for (_, slow) in &mut self.slow {
            slow.reap(into);
        }
        if self.calls.in_flight() > 0 {
            self.calls.reap(answers);
            self.sort_out(into, answers);
        }
    }

    /// Moves the completions of operations among the answers of calls.
    fn sort_out(&mut self, into: &mut Vec<Completion>, answers: &mut Vec<CallDone>) {
        if self.blocking == 0 {
            return;
        }
        answers.retain(|done| match &done.answer {
            CallAnswer::Moved(completion) => {
                into.push(*completion);
                self.blocking -= 1;
                false
            }
            _ => true,
        });
    }

    /// Number of calls in flight, operations not counted.
    pub(crate) fn calls_out(&self) -> usize {
        self.calls.in_flight() - self.blocking
    }

    /// Whether the engine must not sleep now: copies wait, or helpers still copy and will be done
    /// within microseconds.
    pub(crate) fn stays_awake(&mut self, awake: &mut dyn FnMut() -> bool) -> bool {
        if self.cached.in_flight() == 0 {
            return false;
        }
        self.cached.waiting() > 0 || self.cached.spin(awake)
    }

    /// Sleeps until something completes, the bell rings, or the time has passed.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.unsubmitted = 0;
        let slow = self.slow.iter().map(|(_, slow)| slow);
        let due = slow.chain([&self.main]);
        let due = due.filter_map(|lane| lane.next_completion_at()).min();
        let due = due.map(|at| at.saturating_duration_since(Instant::now()));
        let unheard = self.replaced && self.slow.iter().any(|(_, slow)| slow.in_flight() > 0);
        let look = unheard.then_some(Duration::from_millis(1));
        let timeout = timeout.into_iter().chain(due).chain(look).min();
        let Lanes {
            main,
            cached,
            calls,
            ..
        } = self;
        main.wait(timeout, &mut || {
            awake() || cached.has_done() || calls.has_done()
        })
    }

    pub(crate) fn register(&mut self, region: &Arc<Region>) {
        self.main.register(region);
    }

    /// Replaces a main lane that broke by threads. Completions of what it never began, with
    /// `ECANCELED`, are appended; the ids of what the system still holds are returned.
    pub(crate) fn replace_main(
        &mut self,
        completions: &mut Vec<Completion>,
    ) -> Result<Vec<u64>, IoError> {
        // The threads ring the bell of the ring, which callers have; the engine then looks once in
        // a millisecond, which is good enough for a storage whose ring broke.
        let threads = self.threads(self.io_threads, false)?;
        let broken = std::mem::replace(&mut self.main, threads);
        self.unsubmitted = 0;
        self.replaced = true;
        Ok(broken.shutdown(Instant::now(), completions).operations)
    }

    /// Ends all lanes; completions and answers are appended. Returns how many operations and calls
    /// the system still holds.
    pub(crate) fn shutdown(
        &mut self,
        deadline: Instant,
        completions: &mut Vec<Completion>,
        answers: &mut Vec<CallDone>,
    ) -> usize {
        let nothing: Box<dyn Device> = Box::new(NullDevice::new(1));
        let main = std::mem::replace(&mut self.main, nothing);
        let cached: Box<dyn Device> = Box::new(std::mem::replace(
            &mut self.cached,
            copies(&self.fs, &self.bell, 0, ThreadSettings::default()),
        ));
        let calls = std::mem::replace(
            &mut self.calls,
            blocking(&self.fs, &self.bell, true, ThreadSettings::default()),
        );
        let mut held = calls.shutdown(deadline, answers).len();
        self.sort_out(completions, answers);
        self.blocking = 0;
        let slow = self.slow.drain(..).map(|(_, slow)| slow);
        for lane in [main, cached].into_iter().chain(slow) {
            held += lane.shutdown(deadline, completions).operations.len();
        }
        held
    }
}

fn copies(
    fs: &Arc<dyn FileSystem>,
    bell: &Doorbell,
    threads: usize,
    settings: ThreadSettings,
) -> Cached {
    Cached::new(CachedOptions {
        fs: Arc::clone(fs),
        bell: bell.clone(),
        threads,
        settings,
        depth: crate::limits::COPIES_MAX,
    })
}

fn blocking(
    fs: &Arc<dyn FileSystem>,
    bell: &Doorbell,
    inline: bool,
    threads: ThreadSettings,
) -> Calls {
    Calls::new(CallsOptions {
        fs: Arc::clone(fs),
        bell: bell.clone(),
        threads,
        inline,
    })
}

fn modeled(device: Box<dyn Device>, clock: Option<&ModelClock>) -> Box<dyn Device> {
    match clock {
        Some(clock) => Box::new(Modeled::new(device, clock.clone())),
        None => device,
    }
}
