//! Priorities, and the starvation guard that every list served by priority shares.

use crate::limits::STARVATION_SHARE;

/// Importance of a request. Within a priority the earliest deadline is served first, then arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Priority {
    /// Background.
    Low = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// Before normal.
    High = 2,
    /// Before everything else; bulk in flight is kept small while such requests arrive.
    Realtime = 3,
}

/// Number of priorities.
pub(crate) const PRIORITIES: usize = Priority::ALL.len();

impl Priority {
    /// All priorities, lowest first.
    pub const ALL: [Priority; 4] = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Realtime,
    ];

    /// The priority of a number below [`PRIORITIES`].
    pub(crate) fn from_index(index: usize) -> Priority {
        Priority::ALL[index]
    }
}

/// The starvation guard: how often each priority was skipped while it waited. The highest priority
/// that waits is served, except that one skipped 15 times gets the 16th turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guard {
    skipped: [u32; PRIORITIES],
}

impl Guard {
    /// Whether a priority was skipped so often that the next turn is its own.
    pub(crate) fn is_due(&self, priority: Priority) -> bool {
        self.skipped[priority as usize] >= STARVATION_SHARE - 1
    }

    /// The priority to serve among those that are `open`: the lowest that is due, else the highest.
    pub(crate) fn next(&self, open: impl Fn(Priority) -> bool) -> Option<Priority> {
        let due = |priority: &Priority| self.is_due(*priority) && open(*priority);
        let starved = Priority::ALL.into_iter().find(due);
        starved.or_else(|| Priority::ALL.into_iter().rev().find(|other| open(*other)))
    }

    /// A priority was served while those for which `waited` holds waited.
    #[inline]
    pub(crate) fn served(&mut self, priority: Priority, waited: impl Fn(Priority) -> bool) {
        for lower in &Priority::ALL[..priority as usize] {
            let skipped = &mut self.skipped[*lower as usize];
            *skipped = if waited(*lower) { *skipped + 1 } else { 0 };
        }
        self.skipped[priority as usize] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_is_served_and_each_other_gets_a_sixteenth() {
        let mut guard = Guard::default();
        let mut served = [0; PRIORITIES];
        for _ in 0..1600 {
            let next = guard.next(|priority| priority != Priority::Realtime);
            let next = next.expect("three are open");
            guard.served(next, |lower| lower < next);
            served[next as usize] += 1;
        }
        assert_eq!(served[Priority::Low as usize], 100);
        assert!(served[Priority::Normal as usize] >= 93);
        assert_eq!(served[Priority::Realtime as usize], 0);
    }

    #[test]
    fn a_priority_that_did_not_wait_has_no_turn_saved_up() {
        let mut guard = Guard::default();
        for _ in 0..100 {
            guard.served(Priority::High, |_| false);
        }
        assert_eq!(guard.next(|_| true), Some(Priority::Realtime));
    }
}
