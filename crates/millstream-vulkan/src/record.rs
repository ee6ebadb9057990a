//! Batches whose commands the application submits.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use millstream::{Error, ErrorKind};

use crate::commands::Timeline;
use crate::context::Context;
use crate::error::lost;
use crate::message::{Filled, Message};
use crate::queue::GpuPoint;

/// See the header.
pub(crate) struct Recorder {
    timeline: Timeline,
    /// Where batches go that were not.
    back: Sender<Message>,
    state: Mutex<State>,
}

struct State {
    waiting: Vec<Filled>,
    /// Batches were recorded of which it is not known yet whether they are submitted.
    recorded: bool,
    /// Where batches go that were submitted; none, once it is closed.
    done: Option<Sender<Filled>>,
    /// The last value that a submission was to reach.
    value: u64,
}

/// Commands that [`Gpu::record`](crate::Gpu::record) has recorded. To be settled before the next
/// recording: by [`Recorded::submitted`], or by dropping it, which says that the commands are never
/// submitted, and fails the requests in them with `NotSubmitted`. One that is leaked
/// ([`std::mem::forget`]) is never settled: nothing is recorded any more, its requests do not
/// complete, and dropping the [`Gpu`](crate::Gpu) waits for them without end.
#[must_use = "requests whose commands are not submitted fail"]
pub struct Recorded<'a> {
    recorder: &'a Recorder,
    point: GpuPoint,
    filled: Vec<Filled>,
    done: Sender<Filled>,
}

impl Recorder {
    pub(crate) fn new(
        context: &Arc<Context>,
        done: Sender<Filled>,
        back: Sender<Message>,
    ) -> Result<Recorder, Error> {
        Ok(Recorder {
            timeline: Timeline::new(context)?,
            back,
            state: Mutex::new(State {
                waiting: Vec::new(),
                recorded: false,
                done: Some(done),
                value: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a batch in; once it is closed, the batch comes back.
    pub(crate) fn offer(&self, filled: Filled) -> Option<Filled> {
        let mut state = self.state();
        if state.done.is_none() {
            return Some(filled);
        }
        state.waiting.push(filled);
        None
    }

    /// Records what waits, if it is anything and the last recording is settled: the transitions of
    /// images follow from which batches before it run.
    pub(crate) fn record(&self, commands: vk::CommandBuffer) -> Option<Recorded<'_>> {
        let mut state = self.state();
        let done = state.done.clone()?;
        if state.recorded || state.waiting.is_empty() {
            return None;
        }
        state.recorded = true;
        state.value += 1;
        let point = GpuPoint {
            semaphore: self.timeline.semaphore,
            value: state.value,
        };
        let mut filled = std::mem::take(&mut state.waiting);
        for one in &mut filled {
            one.batch.hand_over(commands, point);
        }
        Some(Recorded {
            recorder: self,
            point,
            filled,
            done,
        })
    }

    /// Takes no more; what was not recorded.
    pub(crate) fn close(&self) -> Vec<Filled> {
        let mut state = self.state();
        state.done = None;
        std::mem::take(&mut state.waiting)
    }
}

impl Recorded<'_> {
    /// The point that the submission of the commands must signal, or a later one to the queue.
    #[must_use]
    pub fn point(&self) -> GpuPoint {
        self.point
    }

    /// The commands have been submitted.
    pub fn submitted(mut self) {
        for filled in std::mem::take(&mut self.filled) {
            if let Err(back) = self.done.send(filled) {
                // Its thread is gone, and the device uses the memory.
                back.0.fail(&lost());
            }
        }
    }
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        let cause = "the commands that were recorded for it were not submitted";
        let error = Error::new(ErrorKind::NotSubmitted, cause);
        for filled in std::mem::take(&mut self.filled) {
            let batch = Box::new(filled.refuse(&error));
            // Without its thread nothing is sent any more.
            let _ = self.recorder.back.send(Message::Retired(Some(batch)));
        }
        self.recorder.state().recorded = false;
    }
}

impl std::fmt::Debug for Recorded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded")
            .field("point", &self.point)
            .finish_non_exhaustive()
    }
}
