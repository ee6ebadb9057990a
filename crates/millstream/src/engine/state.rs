//! Where a request stands with the engine, and what may move it. Pure.
//!
//! [`State::after`] is the whole state machine. A pair that is not in it is a broken invariant: the
//! engine logs it and ends the process, because unwinding would free memory that the kernel may be
//! writing to.

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum State {
    /// The engine has no request in the slot.
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
    /// It is ending, and its memory is still out.
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
    /// It needs its file, the direct descriptor, the length or the content.
    NeedsFile,
    /// The file is open, or failed to open: all checks again.
    FileReady,
    /// It can be served.
    Runnable,
    /// The scheduler has no more of it to issue for now.
    Issued,
    /// Jobs or calls go out, or it waits for windows that jobs have.
    Work,
    /// Fails, or is canceled or timed out, while memory is out.
    Drain,
    /// It ends with nothing out.
    End,
}

impl State {
    /// The state after an event; `None` if the state cannot take it.
    #[inline(always)]
    fn after(self, event: Event) -> Option<State> {
        use Event as E;
        use State as S;
        Some(match (event, self) {
            (E::Arrived, S::Free) => S::Gated,
            (E::Hold, S::Gated | S::Ready | S::Working) => S::Gated,
            (E::NeedsFile, S::Gated | S::Ready | S::InFlight | S::Working) => S::Opening,
            (E::FileReady, S::Opening | S::Working) => S::Gated,
            (E::Runnable, S::Gated | S::InFlight | S::Working) => S::Ready,
            (E::Issued, S::Ready) => S::InFlight,
            (E::Work, S::Gated | S::Opening | S::Ready | S::InFlight | S::Working) => S::Working,
            (E::Drain, S::Gated | S::Opening | S::Ready | S::InFlight | S::Working) => S::Draining,
            (E::End, S::Free) => return None,
            (E::End, _) => S::Free,
            _ => return None,
        })
    }

    /// Changes the state; there is no other way.
    ///
    /// # Panics
    /// If the state cannot take the event.
    #[inline]
    pub(crate) fn on(&mut self, event: Event) {
        match self.after(event) {
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
            assert_eq!(state.after(Event::End), Some(State::Free));
            assert_eq!(state.after(Event::Arrived), None);
        }
        assert_eq!(State::Free.after(Event::End), None);
    }

    #[test]
    #[should_panic(expected = "cannot take")]
    fn a_pair_that_is_not_listed_is_a_broken_invariant() {
        State::Draining.on(Event::Runnable);
    }
}
