//! The requests of [`NullDeviceBench`](super::NullDeviceBench) through the library for C, called as
//! a program in C calls it.
//!
//! # Safety
//! Handles are freed once, by `drop`, and used by one thread. The destination is borrowed as long
//! as they live, and every request lands in a part of its own. `drop` waits for what an error of
//! [`ThroughC::run`] left under way.
#![expect(unsafe_code, reason = "calls the library for C")]

use std::marker::PhantomData;
use std::mem::zeroed;
use std::ptr::null_mut;

use millstream::{FileId, Storage};
use millstream_capi::*;

use super::{BATCH_REQUESTS, Delivery, REQUEST_BYTES};
use crate::clock::{Moment, Span};
use crate::error::{Error, Result};
use crate::memory::Destination;

/// A storage shared with the library for C.
pub(crate) struct ThroughC<'a> {
    storage: *mut mst_storage,
    queue: *mut mst_queue,
    batch: *mut mst_batch,
    file: mst_file,
    memory: *mut u8,
    borrowed: PhantomData<&'a mut Destination>,
}

impl<'a> ThroughC<'a> {
    pub(super) fn new(
        storage: &Storage,
        file: FileId,
        destination: &'a mut Destination,
    ) -> Result<ThroughC<'a>> {
        let mut made = ThroughC {
            storage: mst_storage::share(storage.clone()),
            queue: null_mut(),
            batch: null_mut(),
            file: file.to_bits(),
            memory: destination.as_mut_ptr(),
            borrowed: PhantomData,
        };
        // SAFETY: see the module.
        unsafe {
            checked(mst_queue_create(made.storage, null_mut(), &mut made.queue))?;
            checked(mst_batch_create(made.queue, &mut made.batch))?;
        }
        Ok(made)
    }

    /// Submits so many batches and waits for each; the time that all of them take.
    pub(crate) fn run(&mut self, delivery: Delivery, batches: usize) -> Result<Span> {
        let mut tickets = vec![0; BATCH_REQUESTS];
        let mut completions = Vec::new();
        // SAFETY: zeroes are a completion without memory.
        completions.resize_with(BATCH_REQUESTS, || unsafe { zeroed() });
        let start = Moment::now();
        for _ in 0..batches {
            self.add(delivery, &mut tickets)?;
            // SAFETY: see the module.
            checked(unsafe { mst_batch_submit(self.batch) })?;
            self.wait(delivery, &tickets, &mut completions)?;
        }
        Ok(start.elapsed())
    }

    fn add(&mut self, delivery: Delivery, tickets: &mut [mst_ticket]) -> Result<()> {
        for (index, ticket) in tickets.iter_mut().enumerate() {
            // SAFETY: zeroes are a value, as in C.
            let mut desc: mst_read_desc = unsafe { zeroed() };
            desc.size = size_of::<mst_read_desc>();
            desc.file = self.file;
            desc.offset = (index * 2 * REQUEST_BYTES) as u64;
            desc.length = REQUEST_BYTES as u64;
            desc.memory = self.memory.wrapping_add(index * REQUEST_BYTES).cast();
            desc.memory_size = REQUEST_BYTES;
            let mut claimed: *mut mst_ticket = null_mut();
            match delivery {
                Delivery::Detached => desc.options.flags = MST_REQUEST_DETACHED,
                Delivery::Claimed => claimed = ticket,
                Delivery::Posted => {}
            }
            // SAFETY: see the module.
            checked(unsafe { mst_batch_read(self.batch, &desc, claimed) })?;
        }
        Ok(())
    }

    fn wait(
        &mut self,
        delivery: Delivery,
        tickets: &[mst_ticket],
        completions: &mut [mst_completion],
    ) -> Result<()> {
        // SAFETY: see the module; completions have room for as many as are asked for.
        unsafe {
            match delivery {
                Delivery::Detached => checked(mst_queue_wait_idle(self.queue, MST_FOREVER)),
                Delivery::Claimed => tickets.iter().try_for_each(|ticket| {
                    let completion = null_mut();
                    let wait = mst_ticket_wait(self.storage, *ticket, MST_FOREVER, completion);
                    checked(wait)
                }),
                Delivery::Posted => self.take(completions),
            }
        }
    }

    /// Takes so many completions as there is room for, which are on their way.
    ///
    /// # Safety
    /// As for the module.
    unsafe fn take(&mut self, completions: &mut [mst_completion]) -> Result<()> {
        let mut taken = 0;
        while taken < completions.len() {
            let room = &mut completions[taken..];
            let mut count = 0;
            // SAFETY: see the module.
            unsafe {
                let (first, capacity) = (room.as_mut_ptr(), room.len());
                checked(mst_queue_drain(self.queue, first, capacity, &mut count))?;
                for completion in &mut room[..count] {
                    checked(completion.result)?;
                    mst_completion_free(completion);
                }
                if count == 0 {
                    checked(mst_queue_wait(self.queue, MST_FOREVER))?;
                }
            }
            taken += count;
        }
        Ok(())
    }
}

impl Drop for ThroughC<'_> {
    fn drop(&mut self) {
        // SAFETY: see the module. Without a queue nothing was submitted.
        unsafe {
            // Submits what it holds.
            mst_batch_free(self.batch);
            let idle = mst_queue_wait_idle(self.queue, MST_FOREVER);
            if idle != MST_OK && !self.queue.is_null() {
                // The destination would be used again while requests may still write to it.
                std::process::abort();
            }
            mst_queue_free(self.queue);
            mst_storage_free(self.storage);
        }
    }
}

fn checked(result: mst_result) -> Result<()> {
    match result {
        MST_OK => Ok(()),
        failed => Err(Error::new(format!("the library for C returned {failed}"))),
    }
}
