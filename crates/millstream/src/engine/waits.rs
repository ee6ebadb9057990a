//! What a request waits for, recorded in its slot at each change of its state: its ticket says so
//! without asking the engine ([`Ticket::waits_for`](crate::Ticket::waits_for)).

use super::Engine;
use crate::caller::destination::{Memory, MemoryKind};
use crate::caller::waits::WaitsFor;
use crate::engine::staged::Staged;

impl Engine {
    #[inline(always)]
    pub(super) fn waits(&mut self, index: u32, cause: WaitsFor) {
        self.side.set_waits(index, cause);
    }

    /// Records what is out of a request that waits in no scheduler: operations, jobs, or landed
    /// bytes that its fence holds.
    pub(super) fn waits_for_out(&mut self, index: u32) {
        let col = &self.cols[index as usize];
        let is_held = self.staged(index).is_some_and(|staged| staged.held);
        let cause = match (col.operations > 0, col.jobs > 0) {
            (true, _) if self.is_on_mount_that_can_hang(index) => WaitsFor::Mount,
            (true, _) => WaitsFor::Device,
            // First, as an ending request waits for its jobs and not for its fence.
            (false, true) if self.has_call_out(index) => WaitsFor::File,
            (false, true) if self.has_jobs_elsewhere(index) => WaitsFor::Application,
            (false, true) => WaitsFor::Job,
            (false, false) if is_held => WaitsFor::Fence,
            (false, false) => return,
        };
        self.waits(index, cause);
    }

    /// Whether what is counted among the jobs of a request is a call on its file or on names.
    fn has_call_out(&mut self, index: u32) -> bool {
        if self.staged(index).is_some() {
            return false;
        }
        // Of the requests that are not staged, only those have jobs that asked for memory.
        self.memory_kind(index) != MemoryKind::Supply
            || matches!(self.side.memory(index), Memory::Supply(_))
    }

    /// Records why requests of a queue are held, after a change of its pause or bandwidth.
    pub(super) fn note_held(&mut self, queue: u32) {
        let Some(state) = self.queues.get(queue) else {
            return;
        };
        let cause = match state.paused {
            true => WaitsFor::Pause,
            false => WaitsFor::Bandwidth,
        };
        for id in state.held.values() {
            // One that ends waits for what is out of it.
            if self.cols[id.index() as usize].ending.is_none() {
                self.side.set_waits(id.index(), cause);
            }
        }
    }

    /// Whether jobs of a staged request are with the application.
    fn has_jobs_elsewhere(&self, index: u32) -> bool {
        let kind = self.memory_kind(index);
        let own = |staged: &Staged| staged.needs_application || staged.supplying;
        self.staged(index).is_some_and(own)
            || self.shared.options.job_system.is_some()
            || matches!(kind, MemoryKind::Device | MemoryKind::Supply)
    }
}
