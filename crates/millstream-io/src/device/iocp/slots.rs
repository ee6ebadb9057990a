//! Operations in flight: one slot each, with an `OVERLAPPED` per transfer.
//!
//! An `OVERLAPPED` has a fixed address. From the start of its transfer until its packet, or the
//! result of the call, it belongs to the system. Behind it are the numbers of slot and transfer,
//! which only [`Slots::add`] and [`Slots::failed`] write.
//!
//! # Safety
//! Blocks are made by [`Slots::add`] and freed when the slots are dropped, which their owner does
//! only while nothing is in the system.

use std::collections::VecDeque;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::IO::OVERLAPPED;

use crate::device::system::overlapped_at;
use crate::device::{Completion, Descriptor, OperationId};
use crate::error::Errno;

/// The slot number of retired blocks, which are not used again.
const RETIRED: u32 = u32::MAX;
/// Number of retired blocks kept: packets of calls before this many failures have been taken.
const RETIRED_MAX: usize = 1024;

/// The memory that the system holds for one transfer.
#[repr(C)]
struct Block {
    /// First, so that its address is the block's.
    overlapped: OVERLAPPED,
    slot: u32,
    transfer: u32,
}

/// One transfer of an operation.
struct Issued {
    block: *mut Block,
    handle: HANDLE,
    len: usize,
    /// `None` while the transfer is in the system.
    result: Option<Result<u32, Errno>>,
}

#[derive(Default)]
struct Slot {
    id: OperationId,
    live: bool,
    /// Number of parts of the operation; those beyond are kept for reuse.
    parts_used: usize,
    /// Number of transfers in the system.
    waiting: usize,
    parts: Vec<Issued>,
}

/// The slots of a device, as many as were ever in use at once.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_system: usize,
    /// Blocks of calls that failed at once, oldest first.
    retired: VecDeque<*mut Block>,
}

// SAFETY: the blocks are plain memory of the slots' owner, and of the system.
unsafe impl Send for Slots {}

impl Slots {
    /// Number of transfers in the system.
    pub(super) fn in_system(&self) -> usize {
        self.in_system
    }

    /// Takes a slot for an operation.
    pub(super) fn begin(&mut self, id: OperationId) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        assert!(
            !slot.live && slot.waiting == 0,
            "a free slot is of no operation"
        );
        (slot.id, slot.live, slot.parts_used) = (id, true, 0);
        index
    }

    /// Returns the `OVERLAPPED` of the next transfer of an operation, which from now on counts as
    /// in the system.
    pub(super) fn add(
        &mut self,
        slot: u32,
        file: Descriptor,
        offset: u64,
        len: usize,
    ) -> *mut OVERLAPPED {
        let number = slot;
        let slot = &mut self.slots[slot as usize];
        let index = slot.parts_used;
        let block = Block {
            overlapped: overlapped_at(offset, std::ptr::null_mut()),
            slot: number,
            transfer: index as u32,
        };
        if index == slot.parts.len() {
            slot.parts.push(Issued {
                block: Box::into_raw(Box::new(block)),
                handle: file.handle(),
                len,
                result: None,
            });
        } else {
            let part = &mut slot.parts[index];
            assert!(
                part.result.is_some(),
                "a transfer ended before its block is used again"
            );
            (part.handle, part.len, part.result) = (file.handle(), len, None);
            // SAFETY: a block of these slots that is not in the system.
            unsafe { part.block.write(block) };
        }
        slot.parts_used += 1;
        slot.waiting += 1;
        self.in_system += 1;
        slot.parts[index].block.cast()
    }

    /// Returns the slot of a transfer that has ended.
    pub(super) fn slot_of(overlapped: *mut OVERLAPPED) -> u32 {
        // SAFETY: an `OVERLAPPED` of a port's file is the first field of a block, which lives as
        // long as the slots; the system does not write its numbers.
        unsafe { (*overlapped.cast::<Block>()).slot }
    }

    /// Records that a transfer has left the system.
    pub(super) fn ended(&mut self, overlapped: *mut OVERLAPPED, result: Result<u32, Errno>) {
        let slot = &mut self.slots[Slots::slot_of(overlapped) as usize];
        // SAFETY: as in `slot_of`.
        let transfer = unsafe { (*overlapped.cast::<Block>()).transfer };
        let part = &mut slot.parts[transfer as usize];
        assert!(slot.live && part.result.is_none(), "a transfer ends once");
        part.result = Some(result);
        slot.waiting -= 1;
        self.in_system -= 1;
    }

    /// Records that a transfer failed inside the call that started it. Normally no packet follows,
    /// but a driver's warning status may have queued one, so no other transfer uses its block.
    pub(super) fn failed(&mut self, overlapped: *mut OVERLAPPED, result: Result<u32, Errno>) {
        self.ended(overlapped, result);
        let block: *mut Block = overlapped.cast();
        // SAFETY: as in `slot_of`; the call has ended, and the system writes to neither number.
        let (slot, transfer) = unsafe { ((*block).slot, (*block).transfer) };
        // SAFETY: as above.
        unsafe { (*block).slot = RETIRED };
        let fresh = Block {
            overlapped: overlapped_at(0, std::ptr::null_mut()),
            slot,
            transfer,
        };
        let parts = &mut self.slots[slot as usize].parts;
        parts[transfer as usize].block = Box::into_raw(Box::new(fresh));
        self.retired.push_back(block);
        if self.retired.len() > RETIRED_MAX
            && let Some(oldest) = self.retired.pop_front()
        {
            // SAFETY: made by `add` or above, and not in the system.
            drop(unsafe { Box::from_raw(oldest) });
        }
    }

    /// Whether a packet belongs to a transfer that has already failed.
    pub(super) fn is_retired(overlapped: *mut OVERLAPPED) -> bool {
        Slots::slot_of(overlapped) == RETIRED
    }

    /// Returns the completion of an operation whose transfers have all ended, and frees its slot.
    /// The bytes up to the first gap count.
    pub(super) fn take_if_ended(&mut self, slot: u32) -> Option<Completion> {
        let number = slot;
        let slot = &mut self.slots[slot as usize];
        if slot.waiting > 0 {
            return None;
        }
        slot.live = false;
        self.free.push(number);
        let mut moved = 0;
        for part in &slot.parts[..slot.parts_used] {
            match part.result.expect("no transfer is in the system") {
                Ok(bytes) => {
                    moved += i64::from(bytes);
                    if (bytes as usize) < part.len {
                        break;
                    }
                }
                Err(errno) if moved == 0 => return Some(Completion::failed(slot.id, errno)),
                Err(_) => break,
            }
        }
        Some(Completion {
            id: slot.id,
            result: moved,
        })
    }

    /// Returns the transfers in the system.
    pub(super) fn transfers(&self) -> Vec<(HANDLE, *mut OVERLAPPED)> {
        let parts = self.slots.iter().flat_map(|slot| &slot.parts);
        parts
            .filter(|part| part.result.is_none())
            .map(|part| (part.handle, part.block.cast()))
            .collect()
    }

    /// Returns the operations with transfers in the system.
    pub(super) fn held(&self) -> impl Iterator<Item = OperationId> + '_ {
        let held = self
            .slots
            .iter()
            .filter(|slot| slot.live && slot.waiting > 0);
        held.map(|slot| slot.id)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        assert!(
            self.in_system == 0,
            "what the system may write to is leaked"
        );
        for part in self.slots.iter().flat_map(|slot| &slot.parts) {
            // SAFETY: made by `add`, and not in the system.
            drop(unsafe { Box::from_raw(part.block) });
        }
        for block in self.retired.drain(..) {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}
