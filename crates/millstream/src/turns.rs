//! Turns of classes: the highest first, and none starves.
//!
//! Whatever the storage serves by class (blocks for the device, copies, jobs of workers) goes by
//! one rule: the highest class that has something, except that a class that was passed over 15
//! times gets the 16th turn. [`Turns`] is that rule, [`ByClass`] lists that keep to it.

use std::collections::VecDeque;

use crate::limits;
use crate::request::Priority;

/// Number of classes.
pub(crate) const CLASSES: usize = Priority::ALL.len();

/// How often each class was passed over while it waited.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    passed_over: [u32; CLASSES],
}

impl Turns {
    /// Whether a class has been passed over so often that the next turn is its own.
    pub(crate) fn is_due(&self, class: Priority) -> bool {
        self.passed_over[class as usize] >= limits::STARVATION_SHARE - 1
    }

    /// Whose turn it is among classes that are `open`: the lowest that is due, else the highest.
    pub(crate) fn next(&self, open: impl Fn(Priority) -> bool) -> Option<Priority> {
        let due = |class: &Priority| self.is_due(*class) && open(*class);
        let mut classes = Priority::ALL.into_iter();
        let starved = classes.find(due);
        starved.or_else(|| Priority::ALL.into_iter().rev().find(|class| open(*class)))
    }

    /// A class has had its turn, while others `waited`.
    pub(crate) fn served(&mut self, class: Priority, waited: impl Fn(Priority) -> bool) {
        for lower in Priority::ALL.into_iter().filter(|&lower| lower < class) {
            let passed_over = &mut self.passed_over[lower as usize];
            *passed_over = if waited(lower) { *passed_over + 1 } else { 0 };
        }
        self.passed_over[class as usize] = 0;
    }
}

/// A list for each class, taken from by turns.
#[derive(Debug)]
pub(crate) struct ByClass<T> {
    lists: [VecDeque<T>; CLASSES],
    turns: Turns,
}

impl<T> Default for ByClass<T> {
    fn default() -> ByClass<T> {
        ByClass {
            lists: Default::default(),
            turns: Turns::default(),
        }
    }
}

impl<T> ByClass<T> {
    pub(crate) fn push(&mut self, class: Priority, item: T) {
        self.lists[class as usize].push_back(item);
    }

    /// The next item, in the order in which those of its class came.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let ByClass { lists, turns } = self;
        let class = turns.next(|class| !lists[class as usize].is_empty())?;
        let item = lists[class as usize].pop_front();
        turns.served(class, |lower| !lists[lower as usize].is_empty());
        item
    }

    pub(crate) fn len(&self) -> usize {
        self.lists.iter().map(VecDeque::len).sum()
    }

    /// Whether anything of this class, or a higher one, waits.
    pub(crate) fn has_from(&self, class: Priority) -> bool {
        self.lists[class as usize..]
            .iter()
            .any(|list| !list.is_empty())
    }

    /// Takes everything.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.lists.iter_mut().flat_map(|list| list.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_class_goes_first_and_within_it_what_came_first() {
        let mut lists = ByClass::default();
        for (at, class) in [0, 3, 1, 3, 2, 0, 2].into_iter().enumerate() {
            lists.push(Priority::ALL[class], at);
        }
        assert_eq!(lists.len(), 7);
        assert!(lists.has_from(Priority::Realtime));
        let order: Vec<usize> = std::iter::from_fn(|| lists.pop()).collect();
        assert_eq!(order, [1, 3, 4, 6, 2, 0, 5]);
        assert!(!lists.has_from(Priority::Low));
    }

    #[test]
    fn in_a_flood_of_a_higher_class_the_others_get_a_turn_in_sixteen() {
        let mut lists = ByClass::default();
        for at in 0..100 {
            lists.push(Priority::Low, at);
            lists.push(Priority::Normal, 1000 + at);
        }
        let (mut low, mut normal) = (0, 0);
        for at in 0..1600 {
            lists.push(Priority::High, 10_000 + at);
            match lists.pop() {
                Some(..1000) => low += 1,
                Some(..10_000) => normal += 1,
                _ => {}
            }
        }
        assert_eq!(low, 1600 / 16);
        assert!(
            normal >= (1600 - 16) / 17,
            "{normal}: only low comes between"
        );
    }

    #[test]
    fn a_class_that_did_not_wait_has_no_turn_saved_up() {
        let mut lists = ByClass::default();
        for at in 0..100 {
            lists.push(Priority::High, at);
            lists.pop();
        }
        lists.push(Priority::Low, 1000);
        lists.push(Priority::High, 1001);
        assert_eq!(lists.pop(), Some(1001));
    }
}
