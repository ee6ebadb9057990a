//! io_uring as a device.
//!
//! `push` adds operations to a backlog; `submit` turns it into submission entries, at most
//! [`URING_SUBMIT_MAX`] per enter call, until it is empty or the kernel takes no more. Slots,
//! backlog and queues are allocated once. The ring's flags are found by trying; a [`FeatureMask`]
//! hides features, so that tests on new kernels run the code for old ones (5.10).
//!
//! Not used: registered files (about 20 ns less per operation, one call more per open and close),
//! SQPOLL (occupies a core) and IOPOLL (refused per read on ext4).
//!
//! # Safety
//! What an entry points to (lent memory and its list of segments, the doorbell's word, a timeout)
//! stays in place until its completion has been seen: the owner guarantees it for lent memory
//! ([`Device::push`]), this device for the rest, which it leaks if the kernel still holds it.

#![expect(
    unsafe_code,
    reason = "the ring takes raw pointers to memory lent to the kernel"
)]

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{EnterFlags, IoUring, opcode, squeue, types};

use super::{
    Abandoned, Completion, Device, DeviceKind, Doorbell, Operation, Segment, Segments, Verb,
};
use crate::error::{Errno, IoError};
use crate::fork::ForkGuard;
use crate::limits::{
    OPERATION_BYTES_MAX, URING_DEPTH_MAX, URING_INTERRUPTED_MAX, URING_RETRY_NS, URING_SUBMIT_MAX,
};
use crate::memory::Region;

mod close;
mod probe;
mod registered;
mod slots;

pub use super::FeatureMask;
pub use super::features::UringFeatures;
use registered::Registered;
use slots::{Slots, Staged};

/// `user_data` of the ring's own entries; a slot's `user_data` is below 2^63.
const USER_DATA_BELL: u64 = u64::MAX;
const USER_DATA_TIMEOUT: u64 = u64::MAX - 1;
const USER_DATA_OTHER: u64 = u64::MAX - 2;

/// About a year: longer sleeps end early.
const TIMEOUT_MAX: Duration = Duration::from_secs(1 << 25);

/// Options of a [`Uring`].
#[derive(Debug, Clone, Copy)]
pub struct UringOptions {
    /// Maximum number of operations pushed and not yet reaped; 1 to [`URING_DEPTH_MAX`].
    pub depth: u32,
    /// Only one thread will use the ring (another may make it): the kernel can then defer its work
    /// to that thread's calls, which is fastest. False if the owner may change: then operations
    /// that a thread had in flight when it exited complete with `ECANCELED` or `EINTR` (and so do
    /// those that would fail with `EFAULT`).
    pub single_issuer: bool,
    /// Features to leave unused.
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

/// A [`Device`] over one ring.
///
/// - `reap` makes no system call, unless the kernel has flagged completions that it posts only from
///   inside a call (deferred task work, an overflowed completion queue).
/// - A buffered read that is not offloaded and hits the page cache runs inside `submit`.
/// - Reads and writes of one segment inside a registered region use the `_FIXED` verbs.
/// - An operation completes with `ECANCELED` where the kernel needs a thread for it (a buffered
///   read that misses the page cache) and can start none: the process is at its limit of threads.
/// - `wait` sleeps in the enter call, with a read of the doorbell's eventfd in the ring. That read,
///   timeouts and cancels do not count against the depth; the completion queue has room for them.
///
/// # Threads
/// With `single_issuer` the thread that first submits, waits or registers owns the ring from then
/// on, whichever thread made it; calls of other threads fail with `EEXIST` and break the ring
/// (where the kernel has the flag).
///
/// # Broken ring
/// When a system call fails permanently, `submit` and `wait` return its error from then on. `reap`
/// still returns what the kernel has posted. `shutdown` completes what the kernel never took with
/// `ECANCELED` and reports the rest as abandoned.
///
/// # Hung operations
/// A thread that exits waits in the kernel for its ring operations, and a process for all of them.
/// After a `shutdown` that abandoned operations, do not join the owner's thread. Files on mounts
/// that can hang belong to the threads device.
///
/// # Fork
/// The ring's descriptor is close-on-exec and its memory is not inherited (`MADV_DONTFORK`). A
/// forked child may only drop or shut down the device, which has no effect there; other calls would
/// fault.
pub struct Uring {
    ring: ManuallyDrop<IoUring>,
    features: UringFeatures,
    /// The ring is made disabled; its future owner enables it.
    enabled: bool,
    slots: Slots,
    staged: Staged,
    depth: usize,
    /// As requested, whether or not the kernel has the flag: one thread submits.
    single_issuer: bool,
    in_flight: usize,
    /// Operations pushed that have no submission entry yet.
    backlog: VecDeque<Operation>,
    /// The kernel took fewer entries than were passed: the next sleep is short, to retry.
    refused: bool,
    /// Unreaped completions that were taken from the completion queue or bypassed it.
    ready: Vec<Completion>,
    registered: Registered,
    bell: Doorbell,
    /// The ring holds a read of the bell into `bell_word`.
    bell_read: bool,
    bell_word: ManuallyDrop<Box<u64>>,
    /// Timeouts in flight in the ring (kernels without `EXT_ARG`).
    timeouts: usize,
    time: ManuallyDrop<Box<types::Timespec>>,
    /// The error that broke the ring permanently.
    broken: Option<IoError>,
    guard: ForkGuard,
    closed: bool,
}

/// Returns the features that the ring uses.
#[must_use]
pub fn describe(uring: &Uring) -> UringFeatures {
    let mut features = uring.features.clone();
    features.registered_bytes = uring.registered.bytes();
    features.registered_why_not = uring.registered.why_not;
    features
}

/// Whether a failed enter call may be repeated: the timeout expired, a signal came, or the kernel
/// is out of memory or needs completions reaped first.
fn is_transient(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    matches!(
        errno,
        Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

impl Uring {
    /// Sets up a ring with the best flags that this kernel supports.
    ///
    /// # Errors
    /// io_uring is absent or forbidden; the error tells which, as far as the system does.
    pub fn new(options: UringOptions) -> Result<Uring, IoError> {
        let depth = options.depth.clamp(1, URING_DEPTH_MAX);
        let (ring, features) = probe::set_up(depth, options.single_issuer, options.mask)?;
        let bell = Doorbell::eventfd()?;
        Ok(Uring {
            ring: ManuallyDrop::new(ring),
            enabled: !features.single_issuer,
            registered: Registered::new(!features.resource_tags || options.mask.registration),
            slots: Slots::new(depth),
            staged: Staged::new(features.submission_entries),
            features,
            depth: depth as usize,
            single_issuer: options.single_issuer,
            in_flight: 0,
            backlog: VecDeque::with_capacity(depth as usize),
            refused: false,
            ready: Vec::new(),
            bell,
            bell_read: false,
            bell_word: ManuallyDrop::new(Box::new(0)),
            timeouts: 0,
            time: ManuallyDrop::new(Box::new(types::Timespec::new())),
            broken: None,
            guard: ForkGuard::new(),
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

    /// Marks the ring as broken, and returns the error to report from now on.
    fn breaks(&mut self, call: &'static str, error: &std::io::Error) -> IoError {
        let errno = Errno::from(error);
        let error = if errno.0 == libc::EEXIST {
            let cause = "a ring with a single issuer was used from a second thread";
            IoError::because(call, errno, cause)
        } else {
            IoError::new(call, errno)
        };
        self.broken.get_or_insert(error).clone()
    }

    fn check(&self) -> Result<(), IoError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Moves the backlog into free submission entries, up to the limit of one enter call; returns
    /// the number of entries in the queue.
    fn fill(&mut self) -> usize {
        let mut sq = self.ring.submission();
        while sq.len() < URING_SUBMIT_MAX {
            let Some(operation) = self.backlog.pop_front() else {
                break;
            };
            if i64::try_from(operation.offset).is_err() {
                let refused = Completion::failed(operation.id, Errno::INVALID);
                self.ready.push(refused);
                continue;
            }
            let slot = self.slots.begin(operation.id);
            let user_data = self.slots.user_data(slot);
            let entry = build_entry(&operation, user_data, &self.registered);
            // SAFETY: the entry points to memory and a list that the owner keeps in place until
            // the completion (Device::push).
            let pushed = unsafe { sq.push(&entry) };
            pushed.expect("the submission queue is larger than URING_SUBMIT_MAX");
            self.staged.push(Some(slot));
        }
        sq.len()
    }

    /// Submits the backlog. Keeps the rest for later where the kernel is out of memory or its
    /// completion queue is full.
    fn flush(&mut self) -> Result<(), IoError> {
        self.check()?;
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
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
                    interrupted_count += 1;
                    if interrupted_count > URING_INTERRUPTED_MAX {
                        self.refused = true;
                        return Ok(());
                    }
                }
                Err(error) if is_transient(&error) => {
                    self.refused = true;
                    return Ok(());
                }
                Err(error) => return Err(self.breaks("io_uring_enter", &error)),
            }
        }
    }

    fn enter(
        &self,
        to_submit: usize,
        wait_for: u32,
        flags: EnterFlags,
        arguments: Option<&types::SubmitArgs<'_, '_>>,
    ) -> std::io::Result<usize> {
        let (submitter, count) = (self.ring.submitter(), to_submit as u32);
        // SAFETY: `arguments` is the struct that EXT_ARG announces, or absent; what the submitted
        // entries point to stays in place (module Safety).
        unsafe { submitter.enter(count, wait_for, flags.bits(), arguments) }
    }

    /// Whether the kernel has completions that it posts only from inside a call.
    fn flagged(&mut self) -> bool {
        let sq = self.ring.submission();
        sq.cq_overflow() || (self.features.task_run_flag && sq.taskrun())
    }

    /// Moves up to `count_max` completions from the completion queue to `completions`, and handles
    /// the ring's own entries among them; returns the number moved.
    fn drain(&mut self, completions: &mut Vec<Completion>, count_max: usize) -> usize {
        let mut count = 0;
        // When a thread exits, copies in progress for it fault: the owner, by then another thread,
        // submits these operations again.
        let resubmit = !self.single_issuer && !self.closed;
        let mut cq = self.ring.completion();
        while count < count_max
            && let Some(cqe) = cq.next()
        {
            match cqe.user_data() {
                USER_DATA_BELL => self.bell_read = false,
                USER_DATA_TIMEOUT => self.timeouts -= 1,
                USER_DATA_OTHER => {}
                user_data => {
                    let result = match -cqe.result() {
                        libc::EFAULT if resubmit => -libc::EINTR,
                        _ => cqe.result(),
                    };
                    completions.push(Completion {
                        id: self.slots.end(user_data),
                        result: i64::from(result),
                    });
                    count += 1;
                }
            }
        }
        count
    }

    /// Whether the completion queue holds a completion. The kernel's flags are ignored: the
    /// sleeping call posts what is pending and returns if that is a completion, and the flag of
    /// task work may stay set with none pending. (It is set after the work is added, so the owner
    /// may take the work in between; nothing clears the flag before the next work.)
    fn has_completions(&mut self) -> bool {
        if self.ready.is_empty() {
            // An entry of the ring's own is no completion, so the queue is read up to the first
            // completion.
            let mut ready = std::mem::take(&mut self.ready);
            self.drain(&mut ready, 1);
            self.ready = ready;
        }
        !self.ready.is_empty()
    }

    /// Sleeps in the kernel with the bell armed.
    fn block(&mut self, mut timeout: Option<Duration>) -> Result<(), IoError> {
        self.enable()?;
        if self.refused {
            // Nothing else may wake the owner in time.
            let retry = Duration::from_nanos(URING_RETRY_NS);
            timeout = Some(timeout.map_or(retry, |timeout| timeout.min(retry)));
        }
        // The kernel adds it to the current time, in 64-bit nanoseconds.
        timeout = timeout.map(|timeout| timeout.min(TIMEOUT_MAX));
        if !self.bell_read {
            let word: *mut u64 = &raw mut **self.bell_word;
            let read = opcode::Read::new(types::Fd(self.bell.eventfd_raw()), word.cast(), 8);
            self.bell_read = self.push_own(read.build().user_data(USER_DATA_BELL));
        }
        let Some(timeout) = timeout else {
            return self.enter_waiting(None);
        };
        let timespec = types::Timespec::from(timeout);
        if self.features.ext_arg {
            return self.enter_waiting(Some(&types::SubmitArgs::new().timespec(&timespec)));
        }
        if self.timeouts > 0 {
            let remove = opcode::TimeoutRemove::new(USER_DATA_TIMEOUT).build();
            self.push_own(remove.user_data(USER_DATA_OTHER));
        }
        // A count of 1: the timeout ends with the next completion, so none remains for long.
        **self.time = timespec;
        let entry = opcode::Timeout::new(&raw const **self.time)
            .count(1)
            .build();
        if self.push_own(entry.user_data(USER_DATA_TIMEOUT)) {
            self.timeouts += 1;
        }
        self.enter_waiting(None)
    }

    fn enter_waiting(
        &mut self,
        arguments: Option<&types::SubmitArgs<'_, '_>>,
    ) -> Result<(), IoError> {
        let pending = self.ring.submission().len();
        let mut flags = EnterFlags::GETEVENTS;
        if arguments.is_some() {
            flags |= EnterFlags::EXT_ARG;
        }
        let entered = self.enter(pending, 1, flags, arguments);
        self.refused = !self.ring.submission().is_empty();
        match entered {
            Err(error) if !is_transient(&error) => Err(self.breaks("io_uring_enter", &error)),
            _ => Ok(()),
        }
    }

    /// Adds an entry of the ring's own; returns false if there is no room.
    fn push_own(&mut self, entry: squeue::Entry) -> bool {
        // SAFETY: own entries point to the bell's word or the time, which are freed only after
        // their completions (`close`).
        let pushed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        if pushed {
            self.staged.push(None);
        }
        pushed
    }
}

impl Device for Uring {
    pushes!(DeviceKind::Uring, backlog);

    fn submit(&mut self) -> Result<(), IoError> {
        self.flush()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let mut count = self.ready.len();
        completions.append(&mut self.ready);
        count += self.drain(completions, usize::MAX);
        // Each round but the last takes completions out, and there are at most `depth`.
        while self.enabled && self.broken.is_none() && self.flagged() {
            let posted = self.enter(0, 0, EnterFlags::GETEVENTS, None);
            let drained_count = self.drain(completions, usize::MAX);
            count += drained_count;
            match posted {
                Err(error) if !is_transient(&error) => {
                    self.breaks("io_uring_enter", &error);
                }
                Ok(_) if drained_count > 0 => continue,
                _ => break,
            }
        }
        self.in_flight -= count;
        count
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.check()?;
        // Usually a single call submits what was pushed and waits.
        if !self.refused && self.backlog.len() < URING_SUBMIT_MAX {
            self.fill();
        } else {
            self.flush()?;
        }
        if self.has_completions() || timeout == Some(Duration::ZERO) || !self.bell.arm() {
            return self.flush();
        }
        let result = if awake() {
            self.flush()
        } else {
            self.block(timeout)
        };
        self.bell.disarm();
        result
    }

    fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    fn register(&mut self, region: &Arc<Region>) -> usize {
        // Before 5.13 the kernel waits for everything in flight before it changes the table, and
        // the bell's read is in flight until the bell rings.
        let quiet = self.in_flight == 0 && !self.bell_read && self.timeouts == 0;
        self.registered.add(&self.ring, region, quiet)
    }

    /// See [`Device::shutdown`]. Operations not yet submitted complete with `ECANCELED`. In the
    /// second half of the time the kernel is asked to cancel the rest (it can cancel what no disk
    /// has begun).
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
            // Dropped without a shutdown: does not wait; what the kernel holds is leaked.
            self.close(Instant::now(), &mut Vec::new());
        }
    }
}

/// Returns the entry for an operation whose offset fits an `i64`. (An offset of all ones means the
/// file's own position to the kernel.)
fn build_entry(operation: &Operation, user_data: u64, registered: &Registered) -> squeue::Entry {
    debug_assert!(
        i64::try_from(operation.offset).is_ok(),
        "checked by the caller"
    );
    let entry = match operation.segments {
        Segments::One(segment) => plain_entry(operation, &segment, registered),
        Segments::Many { .. } => vectored_entry(operation),
    };
    let entry = entry.user_data(user_data);
    if operation.offload {
        entry.flags(squeue::Flags::ASYNC)
    } else {
        entry
    }
}

fn plain_entry(operation: &Operation, segment: &Segment, registered: &Registered) -> squeue::Entry {
    let (file, offset) = (types::Fd(operation.file.fd()), operation.offset);
    let pointer = segment.pointer();
    let len = segment.len().min(OPERATION_BYTES_MAX) as u32;
    match (operation.verb, registered.index_of(segment)) {
        (Verb::Read, None) => opcode::Read::new(file, pointer, len).offset(offset).build(),
        (Verb::Write, None) => opcode::Write::new(file, pointer, len)
            .offset(offset)
            .build(),
        (Verb::Read, Some(index)) => opcode::ReadFixed::new(file, pointer, len, index)
            .offset(offset)
            .build(),
        (Verb::Write, Some(index)) => opcode::WriteFixed::new(file, pointer, len, index)
            .offset(offset)
            .build(),
    }
}

/// Builds a vectored entry. The kernel refuses more than 1024 segments with `EINVAL`.
fn vectored_entry(operation: &Operation) -> squeue::Entry {
    let (file, offset) = (types::Fd(operation.file.fd()), operation.offset);
    let (vectors, count) = operation.segments.vectors();
    match operation.verb {
        Verb::Read => opcode::Readv::new(file, vectors, count)
            .offset(offset)
            .build(),
        Verb::Write => opcode::Writev::new(file, vectors, count)
            .offset(offset)
            .build(),
    }
}
