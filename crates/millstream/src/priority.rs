//! Priorities, and the starvation guard that every list served by priority shares.

use std::collections::{TryReserveError, VecDeque};

use crate::limits::STARVATION_SHARE;

/// Importance of a request. Within a priority the earliest deadline is served first, then arrival;
/// a window of staging that is half filled is filled first.
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
const _: () = assert!(PRIORITIES == 4, "two bits of a slot's word");
const _: () = assert!(Priority::Realtime as usize == PRIORITIES - 1, "last");

impl Priority {
    /// All priorities, lowest first.
    pub const ALL: [Priority; 4] = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Realtime,
    ];

    /// The priority of the two low bits of a number.
    #[inline(always)]
    pub(crate) fn from_bits(bits: usize) -> Priority {
        Priority::ALL[bits & (PRIORITIES - 1)]
    }
}

/// A set of priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Priorities(u8);

impl Priorities {
    /// The priorities for which `is_in` holds.
    pub(crate) fn of(is_in: impl Fn(Priority) -> bool) -> Priorities {
        let mut all = Priorities::default();
        for priority in Priority::ALL {
            all.set(priority, is_in(priority));
        }
        all
    }

    #[inline]
    pub(crate) fn insert(&mut self, priority: Priority) {
        self.0 |= 1 << priority as u8;
    }

    #[inline]
    pub(crate) fn remove(&mut self, priority: Priority) {
        self.0 &= !(1 << priority as u8);
    }

    pub(crate) fn set(&mut self, priority: Priority, is_in: bool) {
        match is_in {
            true => self.insert(priority),
            false => self.remove(priority),
        }
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn or(self, other: Priorities) -> Priorities {
        Priorities(self.0 | other.0)
    }

    #[inline]
    pub(crate) fn without(self, other: Priorities) -> Priorities {
        Priorities(self.0 & !other.0)
    }

    /// The members above `priority` and below realtime.
    #[inline]
    pub(crate) fn above_bulk(self, priority: Priority) -> Priorities {
        let bulk = (1 << Priority::Realtime as u8) - 1;
        Priorities(self.0 & bulk & !((2 << priority as u8) - 1))
    }

    #[inline]
    pub(crate) fn below(self, priority: Priority) -> Priorities {
        Priorities(self.0 & ((1 << priority as u8) - 1))
    }

    #[inline]
    fn contains(self, priority: Priority) -> bool {
        self.0 >> priority as u8 & 1 != 0
    }
}

/// The starvation guard: how often each priority was skipped while it waited. The highest priority
/// that waits is served, except that one skipped 15 times gets the 16th turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guard {
    skipped: [u32; PRIORITIES],
    /// Priorities skipped so often that the next turn is theirs.
    due: Priorities,
}

impl Guard {
    /// Whether a priority was skipped so often that the next turn belongs to it.
    pub(crate) fn is_due(&self, priority: Priority) -> bool {
        self.due.contains(priority)
    }

    /// The priority to serve among those that wait and are `open`: the lowest that is due, else the
    /// highest.
    #[inline]
    pub(crate) fn next(
        &self,
        waiting: Priorities,
        open: impl Fn(Priority) -> bool,
    ) -> Option<Priority> {
        let is_due = |other: &Priority| self.is_due(*other) && waiting.contains(*other);
        if !self.due.is_empty()
            && let Some(starved) = Priority::ALL
                .into_iter()
                .find(|other| is_due(other) && open(*other))
        {
            return Some(starved);
        }
        let mut downwards = Priority::ALL.into_iter().rev();
        downwards.find(|other| waiting.contains(*other) && open(*other))
    }

    /// Records that a priority was served while those of `waiting` waited.
    #[inline]
    pub(crate) fn served(&mut self, priority: Priority, waiting: Priorities) {
        if self.skipped == [0; PRIORITIES] && waiting.below(priority).is_empty() {
            return;
        }
        for lower in Priority::ALL
            .into_iter()
            .take_while(|lower| *lower < priority)
        {
            let skipped = &mut self.skipped[lower as usize];
            *skipped = match waiting.contains(lower) {
                true => *skipped + 1,
                false => 0,
            };
            self.due.set(lower, *skipped >= STARVATION_SHARE - 1);
        }
        self.skipped[priority as usize] = 0;
        self.due.set(priority, false);
    }
}

/// Lists served by priority with the starvation guard, each in order.
pub(crate) struct PriorityLists<T> {
    lists: [VecDeque<T>; PRIORITIES],
    guard: Guard,
    len: usize,
}

impl<T> Default for PriorityLists<T> {
    fn default() -> PriorityLists<T> {
        PriorityLists {
            lists: Default::default(),
            guard: Guard::default(),
            len: 0,
        }
    }
}

impl<T> PriorityLists<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reserves room for `more` items of any priority.
    pub(crate) fn try_reserve(&mut self, more: usize) -> Result<(), TryReserveError> {
        let mut lists = self.lists.iter_mut();
        lists.try_for_each(|list| list.try_reserve(more))
    }

    pub(crate) fn push(&mut self, priority: Priority, item: T) {
        self.lists[priority as usize].push_back(item);
        self.len += 1;
    }

    /// Inserts an item before the first one for which `is_later` holds; if that holds for one, it
    /// holds for all behind it.
    pub(crate) fn insert(&mut self, priority: Priority, item: T, is_later: impl Fn(&T) -> bool) {
        let list = &mut self.lists[priority as usize];
        match list.back().is_some_and(&is_later) {
            true => list.insert(list.partition_point(|one| !is_later(one)), item),
            false => list.push_back(item),
        }
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let PriorityLists { lists, guard, .. } = self;
        let waiting = Priorities::of(|priority| !lists[priority as usize].is_empty());
        let priority = guard.next(waiting, |_| true)?;
        let item = lists[priority as usize].pop_front();
        guard.served(priority, waiting);
        self.len -= 1;
        item
    }

    /// Removes and returns the items for which `is_wanted` holds.
    pub(crate) fn extract(&mut self, mut is_wanted: impl FnMut(&mut T) -> bool) -> Vec<T> {
        let mut wanted = Vec::new();
        for list in &mut self.lists {
            for mut item in std::mem::take(list) {
                match is_wanted(&mut item) {
                    true => wanted.push(item),
                    false => list.push_back(item),
                }
            }
        }
        self.len -= wanted.len();
        wanted
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
            let all = Priorities::of(|_| true);
            let next = guard.next(all, |priority| priority != Priority::Realtime);
            let next = next.expect("three are open");
            guard.served(next, all);
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
            guard.served(Priority::High, Priorities::default());
        }
        let all = Priorities::of(|_| true);
        assert_eq!(guard.next(all, |_| true), Some(Priority::Realtime));
    }
}
