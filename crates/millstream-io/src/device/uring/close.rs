//! Closes a ring: nothing is freed while the kernel may use it, the time is bounded, and everything
//! else is freed.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use io_uring::{EnterFlags, opcode};

use super::{USER_DATA_OTHER, USER_DATA_TIMEOUT, Uring};
use crate::device::{Abandoned, Completion, Device, Operation, poll_until, reap_until};
use crate::error::Errno;

/// How long the ring's own operations may take to end once nothing else is in flight. They normally
/// end at once; if the kernel is busier than this, eight bytes and a timeout are leaked.
const OWN_GRACE: Duration = Duration::from_millis(50);

impl Uring {
    /// See `shutdown`. The device cannot be used afterwards.
    pub(super) fn close(
        &mut self,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        self.closed = true;
        if self.guard.is_child() {
            // A forked child: the ring's memory is not mapped here, and the parent uses the rest.
            self.registered.leak();
            return Abandoned::default();
        }
        // Operations without a submission entry.
        let canceled = |one: Operation| Completion::canceled(&one);
        self.ready.extend(self.backlog.drain(..).map(canceled));
        self.reap(completions);
        let halfway = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        reap_until(self, halfway, completions);
        if self.in_flight > 0 && self.broken.is_none() {
            self.cancel_all(completions);
            reap_until(self, deadline, completions);
        }
        if self.broken.is_some() {
            self.close_broken(deadline, completions);
        }
        if self.in_flight > 0 {
            let operations = self.slots.held().map(|(_, id)| id).collect();
            // The ring, the bell's word and the time are in `ManuallyDrop`; the bell's descriptor
            // is held by the ring's read itself.
            self.registered.leak();
            return Abandoned { operations };
        }
        let retired = self.retire_own(completions);
        // SAFETY: `closed` is set, so nothing uses the ring again.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
        if retired {
            // SAFETY: as above; the kernel holds no operation that points to these.
            unsafe {
                ManuallyDrop::drop(&mut self.bell_word);
                ManuallyDrop::drop(&mut self.time);
            }
        }
        Abandoned::default()
    }

    /// Cancels the entries that the kernel never took (a broken ring is not entered again), and
    /// reaps the completions that it posts by itself.
    fn close_broken(&mut self, deadline: Instant, completions: &mut Vec<Completion>) {
        let unentered_count = self.ring.submission().len();
        for slot in self.staged.last(unentered_count) {
            let id = self.slots.take(slot);
            self.ready.push(Completion::failed(id, Errno::CANCELED));
        }
        self.reap(completions);
        // Deferred completions are posted only from inside calls, so waiting for them is useless.
        // Others are polled for, since no call can wait for them.
        if !self.features.defer_taskrun {
            poll_until(Some(deadline), || {
                self.reap(completions);
                self.in_flight == 0
            });
        }
    }

    /// Asks the kernel to cancel everything it holds. Does not wait for it.
    fn cancel_all(&mut self, completions: &mut Vec<Completion>) {
        let held: Vec<u64> = self.slots.held().map(|(user_data, _)| user_data).collect();
        for user_data in held {
            if !self.push_own(cancel_entry(user_data)) {
                let submitted = self.flush();
                self.reap(completions);
                if submitted.is_err() || !self.push_own(cancel_entry(user_data)) {
                    return;
                }
            }
        }
        // If this fails, the operations are waited for all the same.
        let _ = self.flush();
    }

    /// Ends the bell's read and the timeouts; returns whether they have ended. On a thread that is
    /// not the ring's owner they cannot end.
    fn retire_own(&mut self, completions: &mut Vec<Completion>) -> bool {
        let until = Instant::now() + OWN_GRACE;
        if self.bell_read {
            self.bell.wake();
        }
        while (self.bell_read || self.timeouts > 0) && self.broken.is_none() {
            if Instant::now() >= until {
                return false;
            }
            if self.timeouts > 0 {
                let remove = opcode::TimeoutRemove::new(USER_DATA_TIMEOUT).build();
                self.push_own(remove.user_data(USER_DATA_OTHER));
            }
            if self.enable().is_err() {
                return false;
            }
            let pending = self.ring.submission().len();
            if self.enter(pending, 0, EnterFlags::GETEVENTS, None).is_err() {
                return false;
            }
            self.reap(completions);
            if self.bell_read || self.timeouts > 0 {
                std::thread::yield_now();
            }
        }
        !self.bell_read && self.timeouts == 0
    }
}

fn cancel_entry(user_data: u64) -> io_uring::squeue::Entry {
    opcode::AsyncCancel::new(user_data)
        .build()
        .user_data(USER_DATA_OTHER)
}
