//! Lending parts of a destination to requests.
//!
//! # Safety
//! Borrowed memory must stay until its request has ended. A [`Loan`] holds the destination's
//! mutable borrow and its queues; its requests go through its own methods only, and it drains its
//! queues before the borrow ends, on every way out (a `Loan` is never leaked: nobody in this crate
//! forgets values). Parts that are lent at the same time must not overlap; callers hand out
//! disjoint places of a plan.
#![expect(
    unsafe_code,
    reason = "lends raw memory to requests that outlive the call"
)]

use std::marker::PhantomData;
use std::ops::Range;

use millstream::{Done, Queue, Request, Ticket};

use super::failed;
use crate::error::Result;

/// A destination lent to requests of some queues.
pub(crate) struct Loan<'a> {
    base: *mut u8,
    len: usize,
    queues: Vec<Queue>,
    destination: PhantomData<&'a mut [u8]>,
}

// SAFETY: the pointer is only carried to requests, whose memory any thread may write; methods hand
// out no reference to it.
unsafe impl Send for Loan<'_> {}
// SAFETY: as above.
unsafe impl Sync for Loan<'_> {}

impl<'a> Loan<'a> {
    /// Lends `destination` to requests of `queues`.
    pub(crate) fn new(destination: &'a mut [u8], queues: Vec<Queue>) -> Loan<'a> {
        Loan {
            base: destination.as_mut_ptr(),
            len: destination.len(),
            queues,
            destination: PhantomData,
        }
    }

    fn lent(&self, request: Request, place: Range<usize>) -> Request {
        assert!(
            place.start <= place.end && place.end <= self.len,
            "{place:?} is out of place"
        );
        // SAFETY: the place lies in the destination, whose borrow `self` holds; `drop` drains the
        // queues before it ends.
        unsafe { request.into_borrowed(self.base.add(place.start), place.len()) }
    }

    /// Enqueues a request into `place`, without a ticket.
    pub(crate) fn detached(
        &self,
        queue: usize,
        request: Request,
        place: Range<usize>,
    ) -> Result<()> {
        self.queues[queue]
            .enqueue_detached(self.lent(request, place))
            .map_err(|error| failed(&error))
    }

    /// Enqueues a request into `place`.
    pub(crate) fn enqueue(
        &self,
        queue: usize,
        request: Request,
        place: Range<usize>,
    ) -> Result<Ticket> {
        self.queues[queue]
            .enqueue(self.lent(request, place))
            .map_err(|error| failed(&error))
    }

    /// The queue itself, to submit.
    pub(crate) fn queue(&self, index: usize) -> &Queue {
        &self.queues[index]
    }

    /// Waits until all has ended; an error if a request failed.
    pub(crate) fn finish(self) -> Result<()> {
        for queue in &self.queues {
            queue.drain();
        }
        for queue in &self.queues {
            if let Some(error) = queue.take_errors().first {
                return Err(failed(&error));
            }
        }
        Ok(())
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.drain();
        }
    }
}

/// Enqueues one request into `into` and waits for it.
pub(crate) fn one(queue: &Queue, request: Request, into: &mut [u8]) -> Result<Done> {
    // SAFETY: the memory is borrowed until this function returns. The request is either rejected,
    // and dropped, or waited for.
    let request = unsafe { request.into_borrowed(into.as_mut_ptr(), into.len()) };
    let ticket = queue.enqueue(request).map_err(|error| failed(&error))?;
    ticket.wait().map_err(|error| failed(&error))
}
