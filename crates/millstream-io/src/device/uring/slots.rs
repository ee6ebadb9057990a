//! Operations in flight, in slots that never move.
//!
//! The list of segments of a vectored operation must stay where it is while the kernel reads it; it
//! is on the heap, owned by the operation, and the operation stays in its slot until its end. A
//! generation in the completion's `user_data` tells a slot's present operation from earlier ones.

use crate::device::{Operation, OperationId};

struct Slot {
    operation: Option<Operation>,
    generation: u32,
}

/// The slots. A slot is free exactly if its number is in `free`.
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new(depth: u32) -> Slots {
        let slot = |_| Slot {
            operation: None,
            generation: 0,
        };
        Slots {
            slots: (0..depth).map(slot).collect(),
            // The last is taken first: begin with 0, and then with what was used last.
            free: (0..depth).rev().collect(),
        }
    }

    /// Gives the operation a slot, or gives it back if none is free.
    pub(super) fn begin(&mut self, operation: Operation) -> Result<u32, Operation> {
        let Some(index) = self.free.pop() else {
            return Err(operation);
        };
        let slot = &mut self.slots[index as usize];
        assert!(slot.operation.is_none(), "a free slot is empty");
        slot.operation = Some(operation);
        // 31 bits: no slot's user_data reaches the ring's own.
        slot.generation = (slot.generation + 1) & 0x7fff_ffff;
        Ok(index)
    }

    pub(super) fn operation(&self, index: u32) -> &Operation {
        let operation = self.slots[index as usize].operation.as_ref();
        operation.expect("a slot in the backlog holds an operation")
    }

    pub(super) fn user_data(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// Takes the operation of a completion out of its slot.
    pub(super) fn end(&mut self, user_data: u64) -> Operation {
        let index = user_data as u32;
        assert_eq!(
            self.user_data(index),
            user_data,
            "a completion for an earlier operation"
        );
        self.take(index)
    }

    pub(super) fn take(&mut self, index: u32) -> Operation {
        let operation = self.slots[index as usize].operation.take();
        self.free.push(index);
        operation.expect("an operation ends once")
    }

    /// What is still held: `user_data` and operation.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, OperationId)> {
        (0u32..).zip(&self.slots).filter_map(|(index, slot)| {
            let operation = slot.operation.as_ref()?;
            Some((self.user_data(index), operation.id))
        })
    }

    /// Gives up what is held without freeing anything of it.
    pub(super) fn leak(&mut self) {
        for slot in &mut self.slots {
            std::mem::forget(slot.operation.take());
        }
    }
}
