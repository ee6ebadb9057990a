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

/// The batches of a queue that only the application submits to.
pub(crate) struct Recorder {
    timeline: Timeline,
    /// Returns batches that were recorded but not submitted to the sending thread.
    back: Sender<Message>,
    state: Mutex<State>,
}

struct State {
    waiting: Vec<Filled>,
    /// Whether a recording is not settled yet.
    recorded: bool,
    /// Receives batches that were submitted; `None` once the recorder is closed.
    done: Option<Sender<Filled>>,
    /// The value of the last recording's point.
    value: u64,
}

/// Commands that [`Gpu::record`](crate::Gpu::record) has recorded. Settle them before the next
/// recording: by [`Recorded::submitted`], or by dropping this value, which declares that they are
/// never submitted, and fails their requests with `NotSubmitted`. If it is leaked
/// ([`std::mem::forget`]), it is never settled: nothing is recorded any more, its requests do not
/// complete, and dropping the [`Gpu`](crate::Gpu) waits for them forever.
#[must_use = "requests whose commands are not submitted fail"]
pub struct Recorded<'a> {
    recorder: &'a Recorder,
    pub(crate) point: GpuPoint,
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

    /// Queues a batch to be recorded; returns it if the recorder is closed.
    pub(crate) fn offer(&self, filled: Filled) -> Option<Filled> {
        let mut state = self.state();
        if state.done.is_none() {
            return Some(filled);
        }
        state.waiting.push(filled);
        None
    }

    /// Records the waiting batches, if there are any and the last recording is settled: which
    /// transitions images need depends on which earlier batches run.
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

    /// Closes the recorder, and returns the batches that were not recorded.
    pub(crate) fn close(&self) -> Vec<Filled> {
        let mut state = self.state();
        state.done = None;
        std::mem::take(&mut state.waiting)
    }
}

impl Recorded<'_> {
    /// Returns the point that this submission, or a later one to the queue, must signal.
    #[must_use]
    pub fn point(&self) -> GpuPoint {
        self.point
    }

    /// Reports that the commands have been submitted.
    pub fn submitted(mut self) {
        for filled in std::mem::take(&mut self.filled) {
            if let Err(back) = self.done.send(filled) {
                // The thread is gone, and the device uses the memory.
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
            // If the sending thread is gone, the batch is not needed any more.
            let _ = self.recorder.back.send(Message::Retired(Some(batch)));
        }
        self.recorder.state().recorded = false;
    }
}
