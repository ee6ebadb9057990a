//! Tickets: one request's completion, to be polled, waited for or awaited.
//!
//! Dropping a ticket detaches its request, which continues; [`Ticket::cancel_on_drop`] cancels
//! instead. If the request has completed, and its waker was not woken yet, that happens on the
//! thread that drops the ticket: not under a lock that the waker takes.
//!
//! ```no_run
//! # fn example(queue: &millstream::Queue, file: millstream::FileId)
//! # -> Result<(), millstream::Error> {
//! use millstream::Read;
//! let bytes = queue.submit(Read::range(file, 0, 4096))?.wait()?;
//! println!("{} bytes", bytes.len());
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::caller::queue::Mailbox;
use crate::caller::waits::WaitsFor;
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::Change;
use crate::handover::park;
use crate::handover::slots::{Completion, SlotTicket};
use crate::priority::Priority;

/// How a request completed, with its memory also on failure.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// The number of raw bytes that landed (or were written), or the error.
    pub result: Result<u64, Error>,
    /// The request's user data.
    pub user_data: u64,
    /// The request's memory; after a failure its content is unspecified. `None` if the system still
    /// holds it, if it was never taken (a library buffer of a request that failed early), or if the
    /// callback that supplies it was never called.
    pub memory: Option<T>,
}

impl<T: 'static> Outcome<T> {
    fn new(completion: Completion) -> Outcome<T> {
        Outcome {
            memory: completion.memory.into_type(completion.result.is_ok()).ok(),
            result: completion.result,
            user_data: completion.user_data,
        }
    }

    fn not_complete(error: Error) -> Outcome<T> {
        Outcome {
            result: Err(error),
            user_data: 0,
            memory: None,
        }
    }

    /// Returns the memory, or the error.
    ///
    /// # Errors
    /// The request's error.
    pub fn into_result(self) -> Result<T, Error> {
        self.result?;
        let gone = || Error::new(ErrorKind::Io, "the request's memory did not come back");
        self.memory.ok_or_else(gone)
    }
}

/// The completion of one request; `T` is the memory that comes back. May be sent to another thread.
/// Awaiting a ticket whose batch was not submitted fails with `NotSubmitted`. If the request fails,
/// awaiting the ticket drops the memory; [`Ticket::outcome`] returns it.
#[must_use = "dropping a ticket detaches its request; `Batch::detach` if that is meant"]
pub struct Ticket<T> {
    slot: SlotTicket<Arc<Mailbox>>,
    cancel_on_drop: bool,
    memory: PhantomData<fn() -> T>,
}

impl<T: 'static> Ticket<T> {
    #[inline(always)]
    pub(crate) fn new(slot: SlotTicket<Arc<Mailbox>>) -> Ticket<T> {
        Ticket {
            slot,
            cancel_on_drop: false,
            memory: PhantomData,
        }
    }

    /// Returns whether the request has completed. Costs one load.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.slot.is_claimed() || self.slot.is_ended()
    }

    /// Returns what the request waits for now; `None` if it has completed, its outcome was taken,
    /// or if it never completes ([`Ticket::is_still_held`], or a forked child). A snapshot, which
    /// may be outdated when the call returns. Costs a few loads, and does not wait for the engine.
    ///
    /// ```
    /// use millstream::{QueueOptions, Read, Storage, StorageOptions, WaitsFor};
    ///
    /// # fn main() -> Result<(), millstream::Error> {
    /// let storage = Storage::new(StorageOptions::default())?;
    /// let queue = storage.queue(QueueOptions::default())?;
    /// let mut batch = queue.batch();
    /// let mut ticket = batch.add(Read::memory(vec![1, 2, 3].into()))?;
    /// assert_eq!(ticket.waits_for(), Some(WaitsFor::Submission));
    /// batch.submit();
    /// while let Some(cause) = ticket.waits_for() {
    ///     println!("waits for {cause}");
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(ticket.wait()?.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn waits_for(&self) -> Option<WaitsFor> {
        if self.slot.is_claimed() {
            return None;
        }
        self.slot.shared().waits_for(self.slot.cause()?)
    }

    /// Blocks until the request has completed.
    ///
    /// # Errors
    /// The request's error. `NotSubmitted`, `OnStorageThread`, `StillHeld`, and `Closed` in a
    /// forked child, if it cannot be waited for: the ticket stays valid. `InvalidArgument`, here
    /// and in all methods that take the outcome, if it was taken before.
    #[inline(always)]
    pub fn wait(&mut self) -> Result<T, Error> {
        self.outcome().into_result()
    }

    /// As [`Ticket::wait`], with user data, and with the memory also on failure.
    #[inline(always)]
    pub fn outcome(&mut self) -> Outcome<T> {
        match self.try_take() {
            Some(outcome) => outcome,
            None => match self.block(None) {
                Ok(Some(outcome)) => outcome,
                Ok(None) => unreachable!("a wait without a deadline ends with an outcome"),
                Err(error) => Outcome::not_complete(error),
            },
        }
    }

    /// Blocks at most `timeout`; `None` if the request, which continues, has not completed by then.
    ///
    /// # Errors
    /// As [`Ticket::wait`], for a ticket that cannot be waited for.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Outcome<T>>, Error> {
        match self.try_take() {
            Some(outcome) => Ok(Some(outcome)),
            None => self.block(park::deadline(Some(timeout))),
        }
    }

    /// Returns the outcome if the request has completed.
    #[inline(always)]
    pub fn try_take(&mut self) -> Option<Outcome<T>> {
        if self.slot.is_claimed() {
            let cause = "the ticket's outcome was taken before";
            let error = Error::new(ErrorKind::InvalidArgument, cause);
            return Some(Outcome::not_complete(error));
        }
        self.slot.claim().map(Outcome::new)
    }

    #[cold]
    fn block(&mut self, deadline: Option<Instant>) -> Result<Option<Outcome<T>>, Error> {
        park::may_block()?;
        let mailbox = Arc::clone(self.slot.shared());
        let polled = mailbox.block_on(deadline, |waker| self.poll_with(waker));
        polled.transpose()
    }

    /// Polls for the outcome; `Err`: it will never complete.
    fn poll_with(&mut self, waker: &Waker) -> Poll<Result<Outcome<T>, Error>> {
        if let Some(outcome) = self.try_take() {
            return Poll::Ready(Ok(outcome));
        }
        if !self.slot.is_submitted() {
            let cause = "submit its batch first";
            return Poll::Ready(Err(Error::new(ErrorKind::NotSubmitted, cause)));
        }
        if self.slot.shared().is_forked() {
            return Poll::Ready(Err(still_held(self.slot.shared())));
        }
        self.slot.register(waker);
        match self.try_take() {
            Some(outcome) => Poll::Ready(Ok(outcome)),
            None if self.is_still_held() => Poll::Ready(Err(still_held(self.slot.shared()))),
            None => Poll::Pending,
        }
    }

    /// Polls for the whole outcome, as a future does. Each call replaces the waker.
    pub fn poll_outcome(&mut self, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        let polled = self.poll_with(context.waker());
        polled.map(|outcome| outcome.unwrap_or_else(Outcome::not_complete))
    }

    /// Changes its priority and deadline; what is in flight keeps its own.
    pub fn reprioritize(&self, priority: Priority, deadline: Option<Instant>) {
        if !self.is_complete() {
            let shared = self.slot.shared();
            shared.change(self.slot.id(), shared.reorder(priority, deadline));
        }
    }

    /// Returns whether the storage was closed while the system held the request's memory: the
    /// request never completes.
    #[must_use]
    pub fn is_still_held(&self) -> bool {
        // The engine sets `is_ended` before it wakes the waiters of requests that it leaves behind.
        !self.slot.is_claimed()
            && self.slot.shared().is_ended()
            && self.slot.is_submitted()
            && !self.slot.is_ended()
    }

    /// Registers `waker`, in place of an earlier one, to be woken when the request completes;
    /// returns whether it has completed already.
    pub fn wake_when_complete(&self, waker: &Waker) -> bool {
        if self.slot.is_claimed() || self.slot.shared().is_forked() {
            return self.is_complete();
        }
        self.slot.register(waker)
    }

    /// Turns the ticket into a number, for code that can only store integers.
    /// [`Storage::ticket`](crate::Storage::ticket) turns it back; until then the completed request
    /// keeps its memory, at most as long as the storage lives.
    #[must_use]
    pub fn into_bits(mut self) -> u64 {
        self.slot.keep().to_bits()
    }

    /// Makes dropping the ticket cancel its request.
    pub fn cancel_on_drop(mut self) -> Ticket<T> {
        self.cancel_on_drop = true;
        self
    }
}

impl<T> Ticket<T> {
    /// Requests cancellation. The request completes as canceled unless it completes otherwise
    /// first; a read that the kernel has begun completes when the kernel lets go. Does not block.
    pub fn cancel(&self) {
        if !self.slot.is_claimed() && self.slot.cancel() {
            self.slot.shared().change(self.slot.id(), Change::Cancel);
        }
    }

    /// Cancels the request unless its I/O has started: for a prefetch that is no longer needed, but
    /// may complete. A call that asks for the length of its file counts as I/O. If this,
    /// [`Ticket::cancel`] and [`Ticket::reprioritize`] are called before the engine processes any
    /// of them, a cancellation takes precedence; otherwise the last call does. Does not block.
    pub fn withdraw(&self) {
        if !self.slot.is_claimed() && !self.slot.is_ended() {
            self.slot.shared().change(self.slot.id(), Change::Withdraw);
        }
    }
}

fn still_held(mailbox: &Mailbox) -> Error {
    match mailbox.is_forked() {
        true => Error::new(
            ErrorKind::Closed,
            "a forked child has no engine: the storage belongs to its parent",
        ),
        false => Error::new(
            ErrorKind::StillHeld,
            "the storage was closed before the system let go of the request's memory, which must \
             stay valid for ever",
        ),
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if self.cancel_on_drop {
            self.cancel();
        }
    }
}

impl<T: 'static> Future for Ticket<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(context).map(Outcome::into_result)
    }
}

impl<T: 'static> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("complete", &self.is_complete())
            .finish_non_exhaustive()
    }
}
