//! Millstream fences that follow Vulkan timeline semaphores, and the reverse.
//!
//! One thread waits for all of them: `vkWaitSemaphores` waits for semaphores, together with one of
//! the thread's own, the bell, which a fence's waker signals. So a request that is to write only
//! once the device has reached a point is gated by an ordinary fence, and delays no batch.
#![expect(unsafe_code, reason = "waits for and signals semaphores")]

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Poller, Wake, Waker};
use std::thread::JoinHandle;

use ash::vk;
use millstream::{Error, Fence, Reached};

use crate::commands::Timeline;
use crate::context::Context;
use crate::error::is_short;
use crate::limits;
use crate::queue::GpuPoint;

/// The thread, and what it waits for. Dropping it stops the thread; what has not been reached by
/// then is never signaled.
pub(crate) struct Points {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    context: Arc<Context>,
    state: Mutex<State>,
}

struct State {
    /// Signaled whenever something changes. `None` once the thread has ended: a waker may be called
    /// later, when the device is gone.
    bell: Option<Timeline>,
    rung: u64,
    /// Whether the thread has ended or must end.
    stopped: bool,
    added: Waited,
}

/// The points and fences that the thread waits for.
#[derive(Default)]
struct Waited {
    /// Fences that reach 1 once the device has reached a point.
    points: Vec<(GpuPoint, Fence)>,
    /// Points that are signaled once a fence has reached a value.
    fences: Vec<(Reached, GpuPoint)>,
}

impl Points {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Points, Error> {
        let shared = Arc::new(Shared {
            context: Arc::clone(context),
            state: Mutex::new(State {
                bell: Some(Timeline::new(context)?),
                rung: 0,
                stopped: false,
                added: Waited::default(),
            }),
        });
        let for_thread = Arc::clone(&shared);
        let named = std::thread::Builder::new().name("ms-gpu-points".into());
        let thread = named.spawn(move || {
            run(&for_thread);
            for_thread.state().bell = None;
        });
        Ok(Points {
            thread: Some(thread.map_err(|error| Error::from_os("starting a thread", &error))?),
            shared,
        })
    }

    /// Returns a fence that reaches 1 once the device has reached a point, or is lost.
    pub(crate) fn fence(&self, point: GpuPoint) -> Fence {
        let fence = Fence::new(0);
        let mut state = self.shared.state();
        if state.stopped {
            fence.signal(1);
            return fence;
        }
        state.added.points.push((point, fence.clone()));
        self.shared.ring(&mut state);
        fence
    }

    /// Signals a point once a fence has reached a value.
    pub(crate) fn signal(&self, fence: &Fence, value: u64, point: GpuPoint) {
        let mut state = self.shared.state();
        if !state.stopped {
            state.added.fences.push((fence.at(value), point));
            self.shared.ring(&mut state);
        }
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopped = true;
        self.shared.ring(&mut state);
        drop(state);
        let own = std::thread::current().id();
        // A waker that the thread calls may drop the handle.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|thread| thread.thread().id() != own)
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread. Needs the lock, because the values of a semaphore must only grow. If it
    /// fails, the thread still checks after [`limits::WAIT_SLICE`].
    fn ring(&self, state: &mut State) {
        let Some(bell) = &state.bell else { return };
        let bell = GpuPoint {
            semaphore: bell.semaphore,
            value: state.rung + 1,
        };
        if self.signal(bell).is_ok() {
            state.rung += 1;
        }
    }

    fn signal(&self, point: GpuPoint) -> Result<(), Error> {
        let info = vk::SemaphoreSignalInfo::default()
            .semaphore(point.semaphore)
            .value(point.value);
        // SAFETY: a timeline semaphore below that value: the thread's own, or as the application
        // promises of its own.
        let signaled = unsafe { self.context.device.signal_semaphore(&info) };
        signaled.map_err(|error| self.context.failed("vkSignalSemaphore", error))
    }

    /// Waits until the bell or a point is reached, for [`limits::WAIT_SLICE`] at most.
    fn wait(&self, bell: GpuPoint, points: &[(GpuPoint, Fence)]) {
        let (mut semaphores, mut values) = (vec![bell.semaphore], vec![bell.value]);
        semaphores.extend(points.iter().map(|(point, _)| point.semaphore));
        values.extend(points.iter().map(|(point, _)| point.value));
        let info = vk::SemaphoreWaitInfo::default()
            .flags(vk::SemaphoreWaitFlags::ANY)
            .semaphores(&semaphores)
            .values(&values);
        let slice = limits::WAIT_SLICE.as_nanos() as u64;
        // SAFETY: semaphores of this device, which live.
        let waited = unsafe { self.context.device.wait_semaphores(&info, slice) };
        match waited {
            Ok(()) | Err(vk::Result::TIMEOUT) => {}
            Err(error) if is_short(error) => std::thread::sleep(limits::WAIT_PAUSE),
            Err(error) => {
                self.context.lose("vkWaitSemaphores", error);
            }
        }
    }

    fn has_reached(&self, point: GpuPoint) -> bool {
        let device = &self.context.device;
        // SAFETY: as above.
        let value = unsafe { device.get_semaphore_counter_value(point.semaphore) };
        match value {
            Ok(value) => value >= point.value,
            Err(error) => {
                let _ = self.context.failed("vkGetSemaphoreCounterValue", error);
                false
            }
        }
    }
}

/// Called when a fence has changed.
impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.ring(&mut self.state());
    }
}

fn run(shared: &Arc<Shared>) {
    let waker = Waker::from(Arc::clone(shared));
    let mut waited = Waited::default();
    loop {
        let mut state = shared.state();
        let mut stopped = state.stopped;
        let bell = GpuPoint {
            semaphore: state.bell.as_ref().expect("it runs").semaphore,
            value: state.rung + 1,
        };
        waited.points.append(&mut state.added.points);
        waited.fences.append(&mut state.added.fences);
        let is_lost = shared.context.is_lost();
        state.stopped |= is_lost;
        drop(state);
        if is_lost {
            // Requests that wait for these points then fail, because their device is lost.
            waited.points.iter().for_each(|(_, fence)| fence.signal(1));
        }
        if stopped || is_lost {
            return;
        }
        waited.points.retain(|(point, fence)| {
            if stopped || !shared.has_reached(*point) {
                return true;
            }
            fence.signal(1);
            // A waker may drop the handle, and destroy the other semaphores.
            stopped = shared.state().stopped;
            false
        });
        if stopped {
            return;
        }
        // Not under the lock, which the waker takes.
        let mut poller = Poller::from_waker(&waker);
        waited.fences.retain_mut(|(reached, point)| {
            let is_reached = Pin::new(reached).poll(&mut poller).is_ready();
            // A signal that fails, for lack of memory, is tried again.
            !(is_reached && shared.signal(*point).is_ok())
        });
        shared.wait(bell, &waited.points);
    }
}
