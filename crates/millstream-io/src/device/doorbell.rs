//! The doorbell, with which other threads wake a device's owner.
//!
//! One atomic with three states: awake, asleep, rung. The owner moves awake → asleep before it
//! blocks; a ringer swaps in "rung" and makes a system call only if it swapped out "asleep". A ring
//! costs one atomic operation while the owner is awake, and all rings during one sleep make at most
//! one system call.
//!
//! A ring is remembered: if the owner is awake, its next wait returns at once, so no ring is lost,
//! whatever the order. Threads whose work the owner checks after arming use `wake_if_sleeping`,
//! which is not remembered and saves the owner an idle pass.
//!
//! The owner sleeps in a ring that reads an eventfd (`uring`), in a completion port (`iocp`), or on
//! a condition variable.

#[cfg(loom)]
use loom::sync as primitives;
#[cfg(shuttle)]
use shuttle::sync as primitives;
#[cfg(not(model))]
use std::sync as primitives;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use primitives::atomic::{AtomicU32, Ordering, fence};
use primitives::{Condvar, Mutex};

#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

#[cfg(windows)]
use super::system::Port;
#[cfg(target_os = "linux")]
use crate::error::IoError;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const RUNG: u32 = 2;

/// Wakes a sleeping device owner. Clones ring the same bell; a clone may outlive the device.
#[derive(Clone)]
pub struct Doorbell {
    shared: Arc<Bell>,
}

debug!(Doorbell, _it:);

struct Bell {
    state: AtomicU32,
    sleeper: Sleeper,
}

enum Sleeper {
    Condvar {
        lock: Mutex<()>,
        condvar: Condvar,
    },
    #[cfg(target_os = "linux")]
    Eventfd(OwnedFd),
    #[cfg(windows)]
    Port(Arc<Port>),
}

impl Doorbell {
    /// Makes a bell for a device of the application, whose owner sleeps in [`Doorbell::sleep`].
    #[must_use]
    pub fn condvar() -> Doorbell {
        Doorbell::with(Sleeper::Condvar {
            lock: Mutex::new(()),
            condvar: Condvar::new(),
        })
    }

    /// Makes a bell whose owner sleeps in a ring that reads [`Doorbell::eventfd_raw`].
    #[cfg(target_os = "linux")]
    pub(crate) fn eventfd() -> Result<Doorbell, IoError> {
        // Blocking on purpose: on a non-blocking descriptor the ring's read would fail with EAGAIN
        // instead of waiting. A ringer's write does not block, since the counter stays small.
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        let fd =
            rustix::event::eventfd(0, flags).map_err(|error| IoError::new("eventfd", error))?;
        Ok(Doorbell::with(Sleeper::Eventfd(fd)))
    }

    /// Makes a bell whose owner sleeps in a completion port.
    #[cfg(windows)]
    pub(crate) fn port(port: Arc<Port>) -> Doorbell {
        Doorbell::with(Sleeper::Port(port))
    }

    fn with(sleeper: Sleeper) -> Doorbell {
        Doorbell {
            shared: Arc::new(Bell {
                state: AtomicU32::new(AWAKE),
                sleeper,
            }),
        }
    }

    /// Ends the owner's current `wait`, or else its next one. Never blocks; called from any thread.
    pub fn ring(&self) {
        // SeqCst, as in `arm`: either the owner sees the work that was added before this ring, or
        // this swap sees it asleep.
        if self.shared.state.swap(RUNG, Ordering::SeqCst) == ASLEEP {
            self.wake();
        }
    }

    /// Like `ring`, but not remembered if the owner is awake. Correct only where the owner checks
    /// for the caller's work between arming and sleeping, and the work is already published.
    pub(crate) fn wake_if_sleeping(&self) {
        fence(Ordering::SeqCst);
        if self.shared.state.load(Ordering::Relaxed) == ASLEEP {
            self.ring();
        }
    }

    /// Announces that the owner is about to sleep. Returns false if the bell was rung before: that
    /// ring counts as received, and the owner must not sleep. For the device whose bell it is, in
    /// [`Device::wait`](super::Device::wait) on its owner's thread: where another calls it, rings
    /// are lost.
    #[must_use]
    pub fn arm(&self) -> bool {
        let state = &self.shared.state;
        let armed = state
            .compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        if !armed {
            self.disarm();
        }
        armed
    }

    /// Announces that the owner is awake. Earlier rings count as received. As [`Doorbell::arm`].
    pub fn disarm(&self) {
        self.shared.state.swap(AWAKE, Ordering::SeqCst);
    }

    /// Whether the bell was rung since it was armed.
    pub(crate) fn is_rung(&self) -> bool {
        self.shared.state.load(Ordering::SeqCst) == RUNG
    }

    /// Sleeps, armed, until the bell rings or the timeout passes. As [`Doorbell::arm`].
    ///
    /// # Panics
    /// If the bell was not made by [`Doorbell::condvar`].
    pub fn sleep(&self, timeout: Option<Duration>) {
        let (lock, condvar) = match &self.shared.sleeper {
            Sleeper::Condvar { lock, condvar } => (lock, condvar),
            #[cfg(target_os = "linux")]
            Sleeper::Eventfd(_) => unreachable!("the owner of an eventfd bell sleeps in its ring"),
            #[cfg(windows)]
            Sleeper::Port(_) => unreachable!("the owner of a port's bell sleeps in its port"),
        };
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.shared.state.load(Ordering::SeqCst) == ASLEEP {
            guard = match until {
                None => condvar.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    let woken = condvar.wait_timeout(guard, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Returns the eventfd, of which the owner's ring reads eight bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn eventfd_raw(&self) -> RawFd {
        match &self.shared.sleeper {
            Sleeper::Eventfd(fd) => fd.as_raw_fd(),
            Sleeper::Condvar { .. } => unreachable!("only the ring's bell has a descriptor"),
        }
    }

    /// Wakes the sleeper, whatever the state.
    pub(crate) fn wake(&self) {
        match &self.shared.sleeper {
            Sleeper::Condvar { lock, condvar } => {
                // From here on the sleeper has either not read the state yet or waits on the
                // condition variable.
                drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
                condvar.notify_one();
            }
            #[cfg(target_os = "linux")]
            Sleeper::Eventfd(fd) => {
                // At a counter of 2^64 - 2 this would block; the counter never comes near that.
                let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
            }
            #[cfg(windows)]
            Sleeper::Port(port) => port.wake(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_sleep_is_remembered_once() {
        let bell = Doorbell::condvar();
        bell.ring();
        bell.ring();
        assert!(!bell.arm(), "rung: must not sleep");
        assert!(bell.arm(), "received: may sleep");
        bell.disarm();
    }

    #[test]
    fn wake_if_sleeping_is_not_remembered() {
        let bell = Doorbell::condvar();
        bell.wake_if_sleeping();
        assert!(bell.arm());
        bell.wake_if_sleeping();
        bell.sleep(None);
        bell.disarm();
    }

    #[test]
    fn no_ring_is_lost_between_two_threads() {
        use std::sync::atomic::AtomicU64;
        const ROUNDS: u64 = 20_000;
        let bell = Doorbell::condvar();
        let work = Arc::new(AtomicU64::new(0));
        let ringer = std::thread::spawn({
            let (bell, work) = (bell.clone(), Arc::clone(&work));
            move || {
                for _ in 0..ROUNDS {
                    work.fetch_add(1, Ordering::Relaxed);
                    bell.ring();
                }
            }
        });
        let mut seen = 0;
        while seen < ROUNDS {
            if bell.arm() {
                if work.load(Ordering::Relaxed) == seen {
                    bell.sleep(None);
                }
                bell.disarm();
            }
            seen = work.load(Ordering::Relaxed);
        }
        ringer.join().unwrap();
    }
}
