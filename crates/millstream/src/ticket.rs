//! Tickets: one request's completion, to be polled, waited for or awaited.
//!
//! Dropping a ticket detaches: the request goes on, its result is dropped. [`CancelOnDrop`] cancels
//! instead.
//!
//! ```no_run
//! # fn example(queue: &millstream::Queue, file: millstream::FileId) -> Result<(),
//! millstream::Failed> { let ticket = queue.enqueue(millstream::Request::read(file, 0, 4096))?; let
//! done = ticket.wait()?; println!("{} bytes", done.bytes);
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millstream_io::Buffer;

use crate::cells::CellId;
use crate::destination::Landed;
use crate::error::{Error, ErrorKind};
use crate::park;
use crate::queue::QueueShared;
use crate::request::Priority;

/// A request that ended well.
#[derive(Debug)]
#[non_exhaustive]
pub struct Done {
    /// Raw bytes that landed (or were written).
    pub bytes: u64,
    /// The request's user data.
    pub user_data: u64,
    /// The destination, back with its owner.
    pub landed: Landed,
}

impl Done {
    /// The buffer; an empty one if the request had another kind of destination.
    #[must_use]
    pub fn into_buffer(self) -> Buffer {
        match self.landed {
            Landed::Buffer(buffer) => buffer,
            _ => Buffer::empty(),
        }
    }
}

/// A request that failed or was cancelled (its kind says which).
#[derive(Debug)]
#[non_exhaustive]
pub struct Failed {
    /// Why.
    pub error: Error,
    /// The request's user data.
    pub user_data: u64,
    /// The destination, back with its owner, with unspecified content. [`Landed::Nothing`] if the
    /// kernel still holds it.
    pub landed: Landed,
}

impl Failed {
    /// Whether it was cancelled, which is no failure.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.error.kind() == ErrorKind::Cancelled
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failed {}

pub(crate) type Outcome = Result<Done, Failed>;

/// One request's completion. May be sent to another thread.
#[must_use = "dropping a ticket detaches its request; use `enqueue_detached` if that is meant"]
pub struct Ticket {
    queue: Arc<QueueShared>,
    cell: CellId,
    claimed: bool,
}

impl Ticket {
    pub(crate) fn new(queue: Arc<QueueShared>, cell: CellId) -> Ticket {
        Ticket {
            queue,
            cell,
            claimed: false,
        }
    }

    /// Whether the request has ended. Costs one load.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.queue.cells.is_ended(self.cell)
    }

    /// Whether its timeout has passed while the kernel holds its borrowed memory.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.queue.cells.is_overdue(self.cell)
    }

    /// Blocks until the request has ended. Submits its queue first, so that it can.
    ///
    /// # Errors
    /// How the request failed, or that it was cancelled.
    ///
    /// # Panics
    /// On a thread of a storage (in a callback or a codec), where waiting could never end.
    pub fn wait(mut self) -> Result<Done, Failed> {
        match self.wait_until(None) {
            Some(outcome) => outcome,
            None => unreachable!("a wait without a deadline ends with an outcome"),
        }
    }

    /// Blocks at most `timeout`; the ticket comes back if the request has not ended. (The request
    /// goes on.)
    ///
    /// # Errors
    /// The ticket.
    ///
    /// # Panics
    /// As [`Ticket::wait`].
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Result<Done, Failed>, Ticket> {
        match self.wait_until(Some(Instant::now() + timeout)) {
            Some(outcome) => Ok(outcome),
            None => Err(self),
        }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Outcome> {
        if !self.is_ended() {
            assert!(
                park::role() == park::Role::Application,
                "a storage's thread must not wait"
            );
            self.queue.submit();
        }
        let (queue, cell) = (&self.queue, self.cell);
        let outcome = queue
            .storage
            .clone()
            .block_on(deadline, |waker| queue.cells.claim(cell, Some(waker)));
        self.claimed |= outcome.is_some();
        outcome
    }

    /// The outcome if the request has ended, else the ticket.
    ///
    /// # Errors
    /// The ticket.
    pub fn try_take(mut self) -> Result<Result<Done, Failed>, Ticket> {
        match self.queue.cells.claim(self.cell, None) {
            Poll::Ready(outcome) => {
                self.claimed = true;
                Ok(outcome)
            }
            Poll::Pending => Err(self),
        }
    }

    /// Asks for cancellation. The request ends as cancelled, unless it ends otherwise before; a
    /// read that the kernel has begun ends when the kernel lets go. Does not block.
    pub fn cancel(&self) {
        self.queue.cancel_cell(self.cell);
    }

    /// Changes its class and deadline, if it has not been served yet.
    pub fn reprioritise(&self, class: Priority, deadline: Option<Instant>) {
        self.queue.reprioritise(self.cell, class, deadline);
    }

    /// A wrapper that cancels when it is dropped.
    #[must_use]
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop(Some(self))
    }
}

impl Future for Ticket {
    type Output = Result<Done, Failed>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(
            !self.claimed,
            "a ticket must not be polled after it was ready"
        );
        let poll = self.queue.cells.claim(self.cell, Some(context.waker()));
        self.claimed = poll.is_ready();
        poll
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.claimed {
            drop(self.queue.cells.detach(self.cell));
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("ended", &self.is_ended())
            .finish_non_exhaustive()
    }
}

/// A ticket that cancels its request when it is dropped before the end.
pub struct CancelOnDrop(Option<Ticket>);

impl CancelOnDrop {
    /// The plain ticket again.
    ///
    /// # Panics
    /// After it was awaited to its end.
    pub fn into_inner(mut self) -> Ticket {
        self.0.take().expect("not awaited to its end")
    }
}

impl Future for CancelOnDrop {
    type Output = Result<Done, Failed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self
            .0
            .as_mut()
            .expect("a ticket must not be polled after it was ready");
        let poll = Pin::new(ticket).poll(context);
        if poll.is_ready() {
            self.0 = None;
        }
        poll
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(ticket) = &self.0 {
            ticket.cancel();
        }
    }
}
