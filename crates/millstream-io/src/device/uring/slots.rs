//! The operations that the ring holds, from the building of their entry to their completion.
//!
//! An entry carries its slot's index and generation as `user_data`, so that a completion for an
//! earlier operation of the slot is detected. [`Staged`] records the slots of the latest entries of
//! the submission queue: if the ring breaks, those that the kernel never took are known.

use crate::device::OperationId;

/// Generations have 31 bits, so that no slot's `user_data` equals one of the ring's own.
const GENERATION_MASK: u32 = 0x7fff_ffff;

#[derive(Clone, Copy)]
struct Slot {
    id: OperationId,
    /// Odd while the slot is held.
    generation: u32,
}

/// The slots, and the indices of the free ones.
pub(super) struct Slots {
    slots: Box<[Slot]>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new(depth: u32) -> Slots {
        let slot = Slot {
            id: 0,
            generation: 0,
        };
        Slots {
            slots: vec![slot; depth as usize].into_boxed_slice(),
            // A stack: the slot used last is the one most likely in the processor's cache.
            free: (0..depth).rev().collect(),
        }
    }

    /// Takes a slot for the operation, and returns its index.
    ///
    /// # Panics
    /// If no slot is free: more operations than the depth.
    pub(super) fn begin(&mut self, id: OperationId) -> u32 {
        let index = self
            .free
            .pop()
            .expect("at most `depth` operations are in flight");
        let slot = &mut self.slots[index as usize];
        slot.id = id;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        debug_assert!(
            slot.generation % 2 == 1,
            "a free slot has an even generation"
        );
        index
    }

    pub(super) fn user_data(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// Frees the slot of a completion, and returns the operation's id.
    ///
    /// # Panics
    /// If the slot is free or holds a later operation: the kernel completed an operation twice.
    pub(super) fn end(&mut self, user_data: u64) -> OperationId {
        let index = user_data as u32;
        let expected = self.user_data(index);
        assert_eq!(expected, user_data, "a completion for an earlier operation");
        self.take(index)
    }

    /// Frees a held slot, and returns the operation's id.
    pub(super) fn take(&mut self, index: u32) -> OperationId {
        let slot = &mut self.slots[index as usize];
        assert!(slot.generation % 2 == 1, "an operation completes once");
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index);
        slot.id
    }

    /// Returns `user_data` and id of the held operations.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, OperationId)> {
        (0u32..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.generation % 2 == 1)
            .map(|(index, slot)| (self.user_data(index), slot.id))
    }
}

/// The slots of the latest submission entries, by their position in the queue.
pub(super) struct Staged {
    slots: Box<[Option<u32>]>,
    pushed_count: u32,
}

impl Staged {
    /// Makes it for a submission queue of `entries` entries.
    pub(super) fn new(entries: u32) -> Staged {
        assert!(entries.is_power_of_two(), "positions wrap around at 2^32");
        Staged {
            slots: vec![None; entries as usize].into_boxed_slice(),
            pushed_count: 0,
        }
    }

    /// Records an entry pushed to the queue; `None` is an entry of the ring's own.
    pub(super) fn push(&mut self, slot: Option<u32>) {
        let at = self.pushed_count as usize & (self.slots.len() - 1);
        self.slots[at] = slot;
        self.pushed_count = self.pushed_count.wrapping_add(1);
    }

    /// Returns the slots of the last `count` entries, which the kernel has not taken.
    pub(super) fn last(&self, count: usize) -> Vec<u32> {
        assert!(
            count <= self.slots.len(),
            "the queue is no longer than this"
        );
        let first = self.pushed_count.wrapping_sub(count as u32);
        (0..count as u32)
            .filter_map(|step| {
                let at = first.wrapping_add(step) as usize & (self.slots.len() - 1);
                self.slots[at]
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_held_from_begin_to_end() {
        let mut slots = Slots::new(2);
        let (first, second) = (slots.begin(10), slots.begin(11));
        let held: Vec<_> = slots.held().map(|(_, id)| id).collect();
        assert_eq!(held, [10, 11]);
        let user_data = slots.user_data(first);
        assert_eq!(slots.end(user_data), 10);
        assert_eq!(slots.take(second), 11);
        assert_eq!(slots.held().count(), 0);
        assert_ne!(slots.begin(12), first, "the slot freed last is used first");
    }

    #[test]
    #[should_panic(expected = "earlier operation")]
    fn a_second_completion_is_noticed() {
        let mut slots = Slots::new(1);
        let slot = slots.begin(1);
        let user_data = slots.user_data(slot);
        slots.end(user_data);
        slots.begin(2);
        slots.end(user_data);
    }

    #[test]
    fn generations_wrap_around_as_free() {
        let mut slots = Slots::new(1);
        slots.slots[0].generation = GENERATION_MASK - 1;
        let slot = slots.begin(1);
        let user_data = slots.user_data(slot);
        assert!(
            user_data < 1 << 63,
            "no slot's number equals one of the ring's own"
        );
        assert_eq!(slots.end(user_data), 1);
        assert_eq!(slots.held().count(), 0);
        slots.begin(2);
        assert_eq!(slots.held().count(), 1);
    }

    #[test]
    fn the_last_entries_are_remembered_over_the_wrap() {
        let mut staged = Staged::new(4);
        staged.pushed_count = u32::MAX - 1;
        for slot in [Some(1), Some(2), None, Some(3)] {
            staged.push(slot);
        }
        assert_eq!(staged.last(0), []);
        assert_eq!(staged.last(3), [2, 3]);
        assert_eq!(staged.last(4), [1, 2, 3]);
        staged.push(Some(4));
        assert_eq!(staged.last(4), [2, 3, 4]);
    }
}
