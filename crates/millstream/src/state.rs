//! Where a request stands with the engine, and what may move it. Pure.
//!
//! The table below is the whole state machine. A pair that is not in it is a broken invariant: the
//! engine logs it and ends the process, because unwinding would free memory that the kernel may be
//! writing to.

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum State {
    /// Not the engine's (yet, or any more).
    #[default]
    Free,
    /// Held back: by a fence, its order in the queue, a pause, bandwidth, earlier writes.
    Gated,
    /// Its file is being opened, or its length asked for.
    Opening,
    /// In the scheduler.
    Ready,
    /// Everything is issued for now; operations are out.
    InFlight,
    /// Jobs or calls are out, or landed data waits for its fence.
    Working,
    /// Why it ends is decided; memory is still out.
    Draining,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Event {
    /// Taken in.
    Arrived,
    /// Held back.
    Hold,
    /// It needs its file, the direct descriptor or the length.
    NeedsFile,
    /// The file is open, or failed to open: all checks again.
    FileReady,
    /// It can be served.
    Runnable,
    /// The scheduler has no more of it to issue for now.
    Issued,
    /// Jobs or calls go out, or it waits for windows that jobs have.
    Work,
    /// Failed, canceled or timed out while memory is out.
    Drain,
    /// It ends with nothing out.
    End,
}

const STATES: usize = 7;
const EVENTS: usize = 9;

const ROWS: &[(State, Event, State)] = {
    use Event as E;
    use State as S;
    &[
        (S::Free, E::Arrived, S::Gated),
        (S::Gated, E::Hold, S::Gated),
        (S::Gated, E::NeedsFile, S::Opening),
        (S::Gated, E::Runnable, S::Ready),
        (S::Gated, E::Work, S::Working),
        (S::Opening, E::FileReady, S::Gated),
        (S::Opening, E::Work, S::Working),
        (S::Ready, E::Hold, S::Gated),
        (S::Ready, E::NeedsFile, S::Opening),
        (S::Ready, E::Issued, S::InFlight),
        (S::Ready, E::Work, S::Working),
        (S::InFlight, E::Runnable, S::Ready),
        (S::InFlight, E::NeedsFile, S::Opening),
        (S::InFlight, E::Work, S::Working),
        (S::Working, E::Work, S::Working),
        (S::Working, E::Runnable, S::Ready),
        (S::Working, E::NeedsFile, S::Opening),
        (S::Working, E::FileReady, S::Gated),
        (S::Working, E::Hold, S::Gated),
        (S::Gated, E::Drain, S::Draining),
        (S::Opening, E::Drain, S::Draining),
        (S::Ready, E::Drain, S::Draining),
        (S::InFlight, E::Drain, S::Draining),
        (S::Working, E::Drain, S::Draining),
        (S::Gated, E::End, S::Free),
        (S::Opening, E::End, S::Free),
        (S::Ready, E::End, S::Free),
        (S::InFlight, E::End, S::Free),
        (S::Working, E::End, S::Free),
        (S::Draining, E::End, S::Free),
    ]
};

static TABLE: [[Option<State>; EVENTS]; STATES] = {
    let mut table = [[None; EVENTS]; STATES];
    let mut row = 0;
    while row < ROWS.len() {
        let (from, event, to) = ROWS[row];
        assert!(
            table[from as usize][event as usize].is_none(),
            "one row each"
        );
        table[from as usize][event as usize] = Some(to);
        row += 1;
    }
    table
};

impl State {
    /// The only way a state changes.
    ///
    /// # Panics
    /// The pair is not in the table.
    #[inline]
    pub(crate) fn on(&mut self, event: Event) {
        match TABLE[*self as usize][event as usize] {
            Some(next) => *self = next,
            None => panic!("a request in state {self:?} cannot take {event:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_live_state_can_end_and_only_a_free_slot_takes_a_request() {
        for state in [
            State::Gated,
            State::Opening,
            State::Ready,
            State::InFlight,
            State::Working,
            State::Draining,
        ] {
            let mut now = state;
            now.on(Event::End);
            assert_eq!(now, State::Free);
            assert!(TABLE[state as usize][Event::Arrived as usize].is_none());
        }
    }

    #[test]
    #[should_panic(expected = "cannot take")]
    fn a_pair_that_is_not_listed_is_a_broken_invariant() {
        State::Draining.on(Event::Runnable);
    }
}
