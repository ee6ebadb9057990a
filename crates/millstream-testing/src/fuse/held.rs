//! Calls whose answer waits: late ones and hung ones, in one list with one thread that answers
//! them when they are due. (The serving thread never waits, so one slow call delays no other.)

use std::time::Instant;

use super::{Shared, State};

/// What answers a held call. Told whether the mount goes away, where the answer must be an error.
pub(crate) type Answer = Box<dyn FnOnce(&mut State, bool) + Send>;

/// A call whose answer waits.
pub(crate) struct Held {
    /// When it is answered.
    pub(crate) due: Instant,
    pub(crate) answer: Answer,
}

/// Answers held calls when they are due, until the mount goes away; then all that are left.
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
