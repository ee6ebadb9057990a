//! Held calls: calls whose answer is delayed or withheld, in one list, with one thread that answers
//! them when they are due. (The serving thread never waits, so a slow call delays no other.)

use std::time::Instant;

use super::{Shared, State};

/// Answers a held call. The flag is set if the mount goes away: the answer must then be an error.
pub(crate) type Answer = Box<dyn FnOnce(&mut State, bool) + Send>;

/// A call whose answer is delayed.
pub(crate) struct Held {
    /// Time at which it is answered.
    pub(crate) due: Instant,
    pub(crate) answer: Answer,
}

/// Answers held calls when they are due; when the mount goes away, answers all that are left.
pub(crate) fn release_when_due(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        let now = Instant::now();
        let closing = state.closing;
        let (due, later): (Vec<Held>, Vec<Held>) = std::mem::take(&mut state.held)
            .into_iter()
            .partition(|held| closing || held.due <= now);
        state.held = later;
        for held in due {
            (held.answer)(&mut state, closing);
        }
        if closing {
            return;
        }
        let next = state.held.iter().map(|held| held.due).min();
        state = match next {
            None => shared.changed.wait(state),
            Some(due) => shared
                .changed
                .wait_timeout(state, due.saturating_duration_since(now))
                .map(|(state, _)| state)
                .map_err(|error| std::sync::PoisonError::new(error.into_inner().0)),
        }
        .expect("nothing panics with the state locked");
    }
}
