//! Mail: submissions, letters, and what is asked of queues and requests besides them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::columns::{flag, held_key, is_known};
use super::{Engine, What};
use crate::caller::queue::{NO_INDEX, QueueShared, Selection, Wishes};
use crate::engine::staged::Staged;
use crate::engine::state::State;
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::{Change, Letter, NewOrder};
use crate::ids::Id;
use crate::limits;

impl Engine {
    /// Takes submissions, letters and results.
    pub(super) fn take_mail(&mut self) -> bool {
        if !self.shared.take_mail_flag() {
            return false;
        }
        self.shared.take_dirty(&mut self.dirty, &mut self.results);
        self.each(
            |engine| &mut engine.dirty,
            |engine, queue| {
                if queue.index.load(Ordering::Relaxed) == NO_INDEX {
                    // The letter that announces it was put before.
                    engine.take_letters();
                }
                engine.take_queue(&queue);
            },
        );
        // Letters put before a submission are handled before its intake.
        self.take_letters();
        self.grant_all();
        if self.shared.take_fences_flag() {
            let gated = std::mem::take(&mut self.gated);
            let open = gated.into_iter().map(|id| (id, What::GateOpen));
            self.events.extend(open);
        }
        true
    }

    /// Applies what was asked of queues.
    pub(super) fn grant_all(&mut self) {
        self.each(|engine| &mut engine.wishes, Engine::grant);
    }

    pub(super) fn take_queue(&mut self, queue: &Arc<QueueShared>) {
        let index = queue.index.load(Ordering::Relaxed);
        // A wish may still arrive for a queue that was dropped and removed.
        if let Some(state) = self.queues.get(index) {
            let wishes = state.take();
            self.wishes.push((index, wishes));
        }
    }

    pub(super) fn take_letters(&mut self) {
        let changes = self.shared.take_letters(&mut self.letters);
        self.each(|engine| &mut engine.letters, Engine::letter);
        for (id, change) in changes {
            match change {
                _ if self.is_known(id) => self.change(id.index(), change),
                // A request that has not arrived is canceled at intake, by its `interest`.
                Change::Cancel => {}
                Change::Reorder(_) | Change::Withdraw if self.side.is_pending(id) => {
                    self.early.insert(id, change);
                }
                Change::Reorder(_) | Change::Withdraw => {}
            }
        }
    }

    pub(super) fn letter(&mut self, letter: Letter<QueueShared>) {
        match letter {
            Letter::File(file, new) => self.files.add(file, *new),
            Letter::Queue(queue) => {
                if self.closing.is_some() {
                    queue.close();
                }
                self.queues.add(queue);
            }
            Letter::Close(deadline) => self.begin_close(deadline),
        }
    }

    /// Whether a request has arrived and has not ended.
    pub(super) fn is_known(&self, id: Id) -> bool {
        is_known(&self.cols, id)
    }

    /// Applies the wishes of a queue.
    fn grant(&mut self, (queue, asked): (u32, Wishes)) {
        if !asked.selections.is_empty() {
            self.select(queue, asked.selections);
        }
        let now_ns = self.now_ns;
        let state = self.queues.state(queue);
        if let Some(paused) = asked.paused {
            state.paused = paused;
        }
        if let Some(limit) = asked.bandwidth {
            state.set_bandwidth(limit, now_ns);
        }
        if asked.paused.is_some() || asked.bandwidth.is_some() {
            self.queues.note_limits();
            self.unhold(queue);
            self.note_held(queue);
        }
        if asked.dropped {
            self.queue_dropped(queue);
        }
    }

    /// No handle of a queue is left: cancels what a fence holds back, and ends a pause.
    pub(super) fn queue_dropped(&mut self, queue: u32) {
        let state = self.queues.touch(queue);
        state.dropped = true;
        state.paused = false;
        self.queues.note_limits();
        self.unhold(queue);
        self.note_held(queue);
        for index in self.live_of(queue) {
            if self.waits_for_fence(index) {
                self.change(index, Change::Cancel);
            }
        }
    }

    /// Slots of a queue's live requests.
    pub(super) fn live_of(&mut self, queue: u32) -> Vec<u32> {
        let chunks = self.queues.state(queue).shared.pool.chunks();
        let slots = chunks
            .into_iter()
            .flat_map(|first| first..first + limits::SLOT_CHUNK);
        let live = |index: &u32| {
            let col = self.cols.get(*index as usize);
            col.is_some_and(|col| col.state != State::Free && u32::from(col.queue) == queue)
        };
        slots.filter(live).collect()
    }

    pub(super) fn select(&mut self, queue: u32, mut selections: Vec<Selection>) {
        for index in self.live_of(queue) {
            if self.is_canceled(index, &selections) {
                self.change(index, Change::Cancel);
            }
        }
        // The others concern entries that have not arrived: they stay until intake is past those.
        let state = self.queues.state(queue);
        selections.retain(|one| one.before > state.next_sequence);
        state.selections.append(&mut selections);
    }

    /// Whether selections cancel a request; otherwise changes its priority as they say.
    pub(super) fn is_canceled(&mut self, index: u32, selections: &[Selection]) -> bool {
        for one in selections {
            let tag = self.side.tag(index);
            let col = &self.cols[index as usize];
            let group = match col.has(flag::USUAL) {
                true => self.side.usual(index).group.as_ref(),
                false => None,
            };
            match one.change {
                _ if !one.matches(col.sequence, tag, group) => {}
                Change::Reorder(order) => self.reorder(index, order),
                Change::Cancel | Change::Withdraw => return true,
            }
        }
        false
    }

    /// Releases held requests of a queue, as far as it may; at their turn they may be held again.
    pub(super) fn unhold(&mut self, queue: u32) {
        let now_ns = self.now_ns;
        let Some(state) = self.queues.get(queue) else {
            return;
        };
        if state.paused || state.held.is_empty() {
            return;
        }
        let until = state.held_until(now_ns);
        let most = match (&state.bucket, until) {
            (None, _) => usize::MAX,
            (Some(_), Some(_)) => 0,
            // What is issued of these releases more, as long as the bandwidth lasts.
            (Some(_), None) => limits::HELD_RELEASED,
        };
        for _ in 0..most {
            let Some((_, id)) = self.queues.state(queue).held.pop_first() else {
                break;
            };
            self.let_go(id);
        }
        if !self.queues.state(queue).held.is_empty() {
            let again = until.unwrap_or(now_ns + limits::HELD_RETRY_NS);
            self.holds.remove(queue);
            self.holds.insert(again, 0, queue);
        }
    }

    fn change(&mut self, index: u32, change: Change) {
        match change {
            Change::Cancel => self.drive(index, What::End(Error::new(ErrorKind::Canceled, ""))),
            Change::Withdraw => {
                self.withdraw_offer(index);
                if !self.has_begun(index) {
                    self.change(index, Change::Cancel);
                }
            }
            Change::Reorder(order) => self.reorder(index, order),
        }
    }

    /// Whether any of a request's bytes were read or written, or may be at this moment.
    fn has_begun(&self, index: u32) -> bool {
        let col = &self.cols[index as usize];
        col.is_out() || col.issued > 0 || self.staged(index).is_some_and(Staged::has_begun)
    }

    pub(super) fn reorder(&mut self, index: u32, order: NewOrder) {
        let usual = self.usual(index);
        if order.number < usual.changed {
            return;
        }
        (usual.deadline, usual.changed) = (order.deadline, order.number);
        let (id, priority) = (self.id(index), order.priority);
        let col = &mut self.cols[index as usize];
        let before = held_key(std::mem::replace(&mut col.priority, priority), col.arrival);
        let after = held_key(priority, col.arrival);
        let state = self.queues.state(u32::from(col.queue));
        if state.held.remove(&before).is_some() {
            state.held.insert(after, id);
        }
        self.reschedule(index);
    }
}
