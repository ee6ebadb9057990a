//! Lends parts of a destination to requests.
//!
//! # Safety
//! Borrowed memory must stay until its request has completed. A [`Loan`] holds the destination's
//! mutable borrow and its queues; every request goes through a [`LoanBatch`], which borrows the
//! loan and submits at the latest when it is dropped; and the loan drains its queues before the
//! borrow ends, on every path. (Neither is ever leaked: no code of this crate forgets values.)
//! Parts that are lent at the same time must not overlap: callers take disjoint parts of a plan.
#![expect(
    unsafe_code,
    reason = "lends raw memory to requests that outlive the call"
)]

use std::marker::PhantomData;
use std::ops::Range;

use millstream::{Batch, Queue, Read, Ticket};

use crate::prelude::*;

/// A destination lent to requests of some queues.
pub(crate) struct Loan<'a> {
    base: *mut u8,
    len: usize,
    queues: Vec<Queue>,
    destination: PhantomData<&'a mut [u8]>,
}

// SAFETY: the pointer is only passed to requests, whose memory any thread may write; methods return
// no reference to it.
unsafe impl Send for Loan<'_> {}
// SAFETY: as above.
unsafe impl Sync for Loan<'_> {}

impl<'a> Loan<'a> {
    pub(crate) fn new(destination: &'a mut [u8], queues: Vec<Queue>) -> Loan<'a> {
        Loan {
            base: destination.as_mut_ptr(),
            len: destination.len(),
            queues,
            destination: PhantomData,
        }
    }

    pub(crate) fn batch(&self, queue: usize) -> LoanBatch<'_> {
        LoanBatch {
            batch: self.queues[queue].batch(),
            loan: self,
        }
    }

    pub(crate) fn drain(&self) -> Result<()> {
        for queue in &self.queues {
            queue.drain(None)?;
        }
        Ok(())
    }

    /// Waits until everything has completed; returns an error if a request failed.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.drain()?;
        let drained = std::mem::take(&mut self.queues);
        let first = drained.iter().find_map(|queue| queue.take_errors().1);
        first.map_or(Ok(()), |error| Err(Error::from(error)))
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if self.drain().is_err() {
            // The destination's memory would be reused while requests may still write to it.
            std::process::abort();
        }
    }
}

/// A batch whose requests land in a [`Loan`].
pub(crate) struct LoanBatch<'a> {
    batch: Batch,
    loan: &'a Loan<'a>,
}

impl LoanBatch<'_> {
    fn lent(&self, request: Read, place: Range<usize>) -> Read<()> {
        assert!(
            place.start <= place.end && place.end <= self.loan.len,
            "{place:?} is outside of the destination"
        );
        // SAFETY: the place lies in the destination, whose borrow the loan holds; its `drop` drains
        // the queues before it ends, and this batch is submitted before that.
        unsafe { request.borrowed(self.loan.base.add(place.start), place.len()) }
    }

    /// Adds a request into `place`, without a ticket.
    pub(crate) fn detach(&mut self, request: Read, place: Range<usize>) -> Result<()> {
        let request = self.lent(request, place);
        Ok(self.batch.detach(request)?)
    }

    pub(crate) fn add(&mut self, request: Read, place: Range<usize>) -> Result<Ticket<()>> {
        let request = self.lent(request, place);
        Ok(self.batch.add(request)?)
    }

    pub(crate) fn submit(&mut self) {
        self.batch.submit();
    }
}

/// Submits one request into `into` and waits for it.
pub(crate) fn one(queue: &Queue, request: Read, into: &mut [u8]) -> Result<()> {
    // SAFETY: the memory is borrowed until this function returns. The request is either refused,
    // and dropped, or waited for, which this thread may do and which its storage, alive as long as
    // its readers, does not refuse.
    let request = unsafe { request.borrowed(into.as_mut_ptr(), into.len()) };
    Ok(queue.submit(request)?.wait()?)
}
