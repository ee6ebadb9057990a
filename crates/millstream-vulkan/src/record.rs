//! Batches whose commands the application submits.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use millstream::Error;

use crate::commands::Timeline;
use crate::context::Context;
use crate::error::lost;
use crate::filled::Filled;
use crate::queue::GpuPoint;

/// See the header.
pub(crate) struct Recorder {
    timeline: Timeline,
    state: Mutex<State>,
}

struct State {
    waiting: Vec<Filled>,
    /// Where recorded batches go; none, once it is closed.
    done: Option<Sender<Filled>>,
    /// The last value that a submission was to reach.
    value: u64,
}

impl Recorder {
    pub(crate) fn new(context: &Arc<Context>, done: Sender<Filled>) -> Result<Recorder, Error> {
        Ok(Recorder {
            timeline: Timeline::new(context)?,
            state: Mutex::new(State {
                waiting: Vec::new(),
                done: Some(done),
                value: 0,
            }),
        })
    }

    /// Takes a batch in; once it is closed, the batch comes back.
    pub(crate) fn offer(&self, filled: Filled) -> Option<Filled> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.done.is_none() {
            return Some(filled);
        }
        state.waiting.push(filled);
        None
    }

    /// Records what waits; the point that the submission of the commands must reach, if it is
    /// anything.
    pub(crate) fn record(&self, commands: vk::CommandBuffer) -> Option<GpuPoint> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.waiting.is_empty() {
            return None;
        }
        state.value += 1;
        let point = GpuPoint {
            semaphore: self.timeline.semaphore,
            value: state.value,
        };
        for mut filled in std::mem::take(&mut state.waiting) {
            filled.batch.hand_over(commands, point);
            let done = state
                .done
                .as_ref()
                .expect("nothing waits once it is closed");
            if let Err(back) = done.send(filled) {
                // Its thread is gone, and the device is going to use the memory.
                back.0.fail(&lost());
            }
        }
        Some(point)
    }

    /// Takes no more; what was not recorded.
    pub(crate) fn close(&self) -> Vec<Filled> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done = None;
        std::mem::take(&mut state.waiting)
    }
}
