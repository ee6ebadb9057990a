//! The ring: io_uring as a device.
//!
//! # Shape
//! `push` puts the operation in a slot and its number in a backlog; `submit` turns the backlog into
//! submission entries, at most [`URING_SUBMIT_MAX`] for each enter, until it is empty or the kernel
//! takes no more. A completion entry carries the slot's number and generation. Slots, backlog and
//! queues are made once: in the steady state nothing is allocated.
//!
//! - `reap` makes no system call, unless the kernel has flagged completions that it can only post
//!   from inside a call (deferred task work, an overflown completion queue).
//! - A buffered read that is not offloaded and hits the cache runs inside `submit`.
//! - Reads and writes of one segment inside a registered region use the `_FIXED` verbs.
//! - `wait` sleeps in the enter call, with a read of the doorbell's eventfd in the ring. That read,
//!   timeouts and cancels do not count against the depth; the completion queue has room for them.
//! - Which flags the ring has is found by trying; a [`FeatureMask`] hides features, so
//!   that the paths of old kernels (down to 5.10) run in the tests of new ones.
//!
//! Not used, for now: registered files (a lookup of a descriptor saves about 20 ns, and each
//! open and close would cost a call), SQPOLL (a busy core), IOPOLL (refused per read on ext4).
//!
//! # Threads
//! With `single_issuer` the thread that first submits, waits or registers owns the ring for good,
//! whichever thread made it; calls of others fail with `EEXIST` (where the kernel has the flag).
//!
//! # A hung operation
//! The kernel waits for a thread's ring operations when that thread ends, and for all of them when
//! the process ends. An operation that hangs uninterruptibly therefore holds the *exit* of the
//! thread that submitted it: after a `shutdown` that abandoned something, do not join the owner's
//! thread. Keep mounts that can hang off the ring; the threads device is for those.
//!
//! # Fork
//! The ring's descriptor is close-on-exec and its memory is not inherited (`MADV_DONTFORK`). A
//! forked child must not use the device (it would fault); dropping it, or ending, does no harm
//! there.
//!
//! # Safety
//! Two invariants carry the unsafe code here. What an entry points to (segments, the list of
//! segments, the doorbell's word, a time) is owned by this device and neither moved nor freed until
//! the completion entry has come; what cannot be got back at the end is leaked. And the kernel
//! fills only what the caller has lent by the contract of [`Device::push`].

#![expect(
    unsafe_code,
    reason = "the ring takes raw pointers to memory lent to the kernel"
)]

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{EnterFlags, IoUring, opcode, squeue, types};

use super::{Abandoned, Completion, Device, DeviceKind, Doorbell, Operation};
use crate::error::{Errno, IoError};
use crate::limits::{URING_DEPTH_MAX, URING_INTERRUPTED_MAX, URING_RETRY_NS, URING_SUBMIT_MAX};
use crate::memory::Region;

mod close;
mod entry;
mod probe;
mod registered;
mod slots;

pub use probe::{FeatureMask, UringFeatures};
use registered::Registered;
use slots::Slots;

/// `user_data` of the ring's own entries; no slot number reaches these.
const USER_DATA_BELL: u64 = u64::MAX;
const USER_DATA_TIMEOUT: u64 = u64::MAX - 1;
const USER_DATA_OTHER: u64 = u64::MAX - 2;

/// How to make a [`Uring`].
#[derive(Debug, Clone, Copy)]
pub struct UringOptions {
    /// Most operations pushed and not yet reaped; 1 to [`URING_DEPTH_MAX`].
    pub depth: u32,
    /// Only one thread will ever use the ring (it may be made by another): the kernel can then
    /// defer its work to that thread's calls, which is the fastest. False if the owner may change.
    pub single_issuer: bool,
    /// Features to do without.
    pub mask: FeatureMask,
}

impl Default for UringOptions {
    fn default() -> UringOptions {
        UringOptions {
            depth: 128,
            single_issuer: true,
            mask: FeatureMask::default(),
        }
    }
}

/// The device. See the module.
pub struct Uring {
    ring: ManuallyDrop<IoUring>,
    features: UringFeatures,
    /// The ring was made disabled, to be enabled by the thread that will own it.
    enabled: bool,
    slots: Slots,
    depth: usize,
    in_flight: usize,
    /// Slots pushed and not yet entered into the ring.
    backlog: VecDeque<u32>,
    /// The kernel took fewer entries than it was given: the next sleep ends soon, to try again.
    refused: bool,
    /// Ended, not yet reaped: refused before the kernel saw them, or taken out by `wait`.
    ready: Vec<Completion>,
    registered: Registered,
    bell: Doorbell,
    /// The ring holds a read of the bell into `bell_word`.
    bell_read: bool,
    bell_word: ManuallyDrop<Box<u64>>,
    /// Timeouts in the ring (kernels without `EXT_ARG`).
    timeouts: usize,
    time: ManuallyDrop<Box<types::Timespec>>,
    /// The ring failed for good.
    broken: Option<IoError>,
    process: u32,
    closed: bool,
}

/// What stands in `features`, for people.
#[must_use]
pub fn describe(uring: &Uring) -> UringFeatures {
    let mut features = uring.features.clone();
    features.registered_bytes = uring.registered.bytes();
    features.registered_why_not = uring.registered.why_not();
    features
}

impl Uring {
    /// Sets a ring up with the best flags that this kernel takes.
    ///
    /// # Errors
    /// io_uring is absent or forbidden; the error says which, as far as the system tells.
    pub fn new(options: UringOptions) -> Result<Uring, IoError> {
        let depth = options.depth.clamp(1, URING_DEPTH_MAX);
        let (ring, features) = probe::set_up(depth, options.single_issuer, options.mask)?;
        let bell = Doorbell::eventfd()?;
        Ok(Uring {
            ring: ManuallyDrop::new(ring),
            enabled: !features.single_issuer,
            registered: Registered::new(!features.resource_tags || options.mask.registration),
            features,
            slots: Slots::new(depth),
            depth: depth as usize,
            in_flight: 0,
            backlog: VecDeque::with_capacity(depth as usize),
            refused: false,
            ready: Vec::with_capacity(depth as usize),
            bell,
            bell_read: false,
            bell_word: ManuallyDrop::new(Box::new(0)),
            timeouts: 0,
            time: ManuallyDrop::new(Box::new(types::Timespec::new())),
            broken: None,
            process: std::process::id(),
            closed: false,
        })
    }

    fn enable(&mut self) -> Result<(), IoError> {
        if !self.enabled {
            let enabled = self.ring.submitter().register_enable_rings();
            enabled.map_err(|error| self.breaks("io_uring_register(ENABLE_RINGS)", &error))?;
            self.enabled = true;
        }
        Ok(())
    }

    fn breaks(&mut self, call: &'static str, error: &std::io::Error) -> IoError {
        let errno = Errno(error.raw_os_error().unwrap_or(libc::EIO));
        let error = if errno.0 == libc::EEXIST {
            let cause = "a ring with a single issuer was used from a second thread";
            IoError::because(call, errno, cause)
        } else {
            IoError::new(call, errno)
        };
        self.broken.get_or_insert(error).clone()
    }

    /// Moves the backlog into free submission entries, as far as one enter takes.
    fn fill(&mut self) -> usize {
        let mut sq = self.ring.submission();
        while sq.len() < URING_SUBMIT_MAX {
            let Some(slot) = self.backlog.pop_front() else {
                break;
            };
            let Some(entry) = entry::build(&self.slots, slot, &self.registered) else {
                let operation = self.slots.take(slot);
                self.ready.push(completion(operation, Err(Errno::INVALID)));
                continue;
            };
            // SAFETY: the entry points to lent memory and to the segment list in the slot; both
            // stay until the completion entry (module invariant). There is room: SUBMIT_MAX is
            // below the size.
            unsafe { sq.push(&entry) }.expect("the submission queue is larger than a batch");
        }
        sq.len()
    }

    /// Submits the backlog. Leaves the rest for later where the kernel is out of memory or its
    /// completion queue is full.
    fn flush(&mut self) -> Result<(), IoError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let mut interrupted_count = 0;
        self.refused = false;
        loop {
            let pending = self.fill();
            if pending == 0 {
                return Ok(());
            }
            self.enable()?;
            match self.enter(pending, 0, EnterFlags::empty(), None) {
                Ok(0) => {
                    self.refused = true;
                    return Ok(());
                }
                Ok(_) => interrupted_count = 0,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) if interrupted_count < URING_INTERRUPTED_MAX => {
                        interrupted_count += 1;
                    }
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => {
                        self.refused = true;
                        return Ok(());
                    }
                    _ => return Err(self.breaks("io_uring_enter", &error)),
                },
            }
        }
    }

    /// A ring that breaks here says so at the next `submit`.
    fn flush_before_return(&mut self) {
        let _ = self.flush();
    }

    fn enter(
        &self,
        to_submit: usize,
        wait_for: u32,
        flags: EnterFlags,
        arguments: Option<&types::SubmitArgs<'_, '_>>,
    ) -> std::io::Result<usize> {
        let (submitter, count) = (self.ring.submitter(), to_submit as u32);
        // SAFETY: `arguments` is the struct that EXT_ARG announces, or absent; the entries
        // submitted fulfil the module's invariant.
        unsafe { submitter.enter(count, wait_for, flags.bits(), arguments) }
    }

    /// Whether completions wait for a call to be posted.
    fn flagged(&mut self) -> bool {
        let sq = self.ring.submission();
        sq.cq_overflow() || (self.features.task_run_flag && sq.taskrun())
    }

    /// Moves completion entries from the queue to `ready`.
    fn drain(&mut self) -> usize {
        let before = self.ready.len();
        for cqe in self.ring.completion() {
            match cqe.user_data() {
                USER_DATA_BELL => self.bell_read = false,
                USER_DATA_TIMEOUT => self.timeouts -= 1,
                USER_DATA_OTHER => {}
                user_data => {
                    let result = usize::try_from(cqe.result()).map_err(|_| Errno(-cqe.result()));
                    self.ready
                        .push(completion(self.slots.end(user_data), result));
                }
            }
        }
        self.ready.len() - before
    }

    /// Sleeps in the kernel; the bell is armed.
    fn block(&mut self, mut timeout: Option<Duration>) {
        if self.enable().is_err() {
            return;
        }
        if self.refused {
            // It may be that nothing else will wake us.
            let retry = Duration::from_nanos(URING_RETRY_NS);
            timeout = Some(timeout.map_or(retry, |timeout| timeout.min(retry)));
        }
        if !self.bell_read {
            let word: *mut u64 = &raw mut **self.bell_word;
            let read = opcode::Read::new(types::Fd(self.bell.eventfd_raw()), word.cast(), 8);
            self.bell_read = self.push_own(read.build().user_data(USER_DATA_BELL));
        }
        let Some(timeout) = timeout else {
            self.enter_waiting(None);
            return;
        };
        let timespec = types::Timespec::from(timeout);
        if self.features.ext_arg {
            self.enter_waiting(Some(&types::SubmitArgs::new().timespec(&timespec)));
            return;
        }
        if self.timeouts > 0 {
            let remove = opcode::TimeoutRemove::new(USER_DATA_TIMEOUT).build();
            self.push_own(remove.user_data(USER_DATA_OTHER));
        }
        // A count of 1: the timeout ends with the next completion, so none stays behind for long.
        **self.time = timespec;
        let entry = opcode::Timeout::new(&raw const **self.time)
            .count(1)
            .build();
        if self.push_own(entry.user_data(USER_DATA_TIMEOUT)) {
            self.timeouts += 1;
        }
        self.enter_waiting(None);
    }

    fn enter_waiting(&mut self, arguments: Option<&types::SubmitArgs<'_, '_>>) {
        let pending = self.ring.submission().len();
        let mut flags = EnterFlags::GETEVENTS;
        if arguments.is_some() {
            flags |= EnterFlags::EXT_ARG;
        }
        let entered = self.enter(pending, 1, flags, arguments);
        self.refused = !self.ring.submission().is_empty();
        if let Err(error) = entered {
            match error.raw_os_error() {
                // The time has passed; a signal came; or the kernel needs us to reap first.
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => {}
                _ => {
                    self.breaks("io_uring_enter", &error);
                }
            }
        }
    }

    /// Adds an entry of the ring's own; false if there is no room.
    fn push_own(&mut self, entry: squeue::Entry) -> bool {
        // SAFETY: own entries point to the bell's word or the time, which are freed only after
        // their completions (`close`).
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// Whether `reap` would find something. Entries of the ring's own do not count.
    fn has_completions(&mut self) -> bool {
        self.drain();
        !self.ready.is_empty() || self.flagged()
    }
}

fn completion(operation: Operation, result: Result<usize, Errno>) -> Completion {
    Completion {
        id: operation.id,
        result,
        segments: operation.segments,
    }
}

impl Device for Uring {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Uring
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    unsafe fn push(&mut self, operation: Operation) -> Result<(), Operation> {
        let slot = self.slots.begin(operation)?;
        self.backlog.push_back(slot);
        self.in_flight += 1;
        Ok(())
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.flush()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        self.drain();
        // Each turn but the last takes completions out, and there are at most `depth`.
        while self.flagged() && self.enabled {
            let posted = self.enter(0, 0, EnterFlags::GETEVENTS, None);
            if self.drain() == 0 || posted.is_err() {
                break;
            }
        }
        let count = self.ready.len();
        self.in_flight -= count;
        completions.append(&mut self.ready);
        count
    }

    fn wait(&mut self, timeout: Option<Duration>, awake: &mut dyn FnMut() -> bool) {
        // Usually one call submits what was pushed and waits.
        let together = !self.refused && self.backlog.len() < URING_SUBMIT_MAX;
        if together && self.broken.is_none() {
            self.fill();
        } else if self.flush().is_err() {
            return;
        }
        if self.has_completions() || timeout == Some(Duration::ZERO) || !self.bell.arm() {
            self.flush_before_return();
            return;
        }
        if awake() {
            self.flush_before_return();
        } else {
            self.block(timeout);
        }
        self.bell.disarm();
    }

    fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    fn register(&mut self, region: &Arc<Region>) -> usize {
        // Before 5.13 the kernel waits for everything in flight before it changes the table, and
        // the bell's read is in flight until somebody rings.
        let quiet = self.in_flight == 0 && !self.bell_read && self.timeouts == 0;
        self.registered.add(&self.ring, region, quiet)
    }

    /// See [`Device::shutdown`]. What was not yet submitted ends with `ECANCELED`. In the second
    /// half of the time the kernel is asked to cancel what is left (it can what no disk has begun).
    fn shutdown(
        mut self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        self.close(deadline, completions)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if !self.closed {
            // Dropped without a shutdown: no waiting; what the kernel holds is leaked.
            self.close(Instant::now(), &mut Vec::new());
        }
    }
}
