//! A rival on a thread of its own, with a bound on how long it may take.
//!
//! # Safety
//! Orders carry the destination as a pointer. `Remote` holds the destination's mutable borrow
//! until the answer has come; if none comes in time, it takes the destination out of its owner's
//! hands, puts a fresh one in its place and never frees the old one, so that whatever the rival
//! still writes hits no memory in use.
#![expect(
    unsafe_code,
    reason = "lends memory to a thread that may be given up on"
)]

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use millstream_peers::{Access, Peer, Plan, Rival};

use crate::clock::{Moment, Span};
use crate::error::{Context, Error, Result};
use crate::limits::PEER_TIME_MAX;
use crate::memory::Destination;

/// What a rival is to do; the nanoseconds that each call held its caller, where it takes them.
type Task = dyn FnOnce(&mut dyn Peer, &mut [u8]) -> io::Result<Vec<u64>> + Send;

struct Order {
    task: Box<Task>,
    memory: Memory,
}

struct Memory(*mut u8, usize);

// SAFETY: see the module: the memory is the order's alone until it is answered, or for ever.
unsafe impl Send for Memory {}

/// What came of an order: the time that it took, and how long each call held its caller.
type Answer = io::Result<(Span, Vec<u64>)>;

/// A rival at work.
pub(super) struct Remote {
    orders: Sender<Order>,
    answers: Receiver<Answer>,
}

impl Remote {
    /// Starts a rival for up to `depth` reads in flight.
    pub(super) fn start(rival: Rival, depth: usize) -> Result<Remote> {
        let (orders, taken) = channel();
        let (answer, answers) = channel();
        let thread = std::thread::Builder::new().name(rival.name.into());
        let serve = move || match rival.start(depth) {
            Ok(peer) => {
                let started = Ok((Moment::now().elapsed(), Vec::new()));
                if answer.send(started).is_ok() {
                    serve(peer, &taken, &answer);
                }
            }
            // An error of `send` means that the receiver is gone.
            Err(error) => drop(answer.send(Err(error))),
        };
        thread.spawn(serve).what("start a thread")?;
        let remote = Remote { orders, answers };
        remote.answer()??;
        Ok(remote)
    }

    /// The next answer; an outer error if there will be none.
    fn answer(&self) -> Result<Answer> {
        self.answers
            .recv_timeout(PEER_TIME_MAX)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    Error::new(format!("gave no answer in {} s", PEER_TIME_MAX.as_secs()))
                }
                RecvTimeoutError::Disconnected => Error::new("its thread is gone"),
            })
    }

    /// Opens the plan's files in place of those that were open.
    pub(super) fn open(&mut self, plan: &Plan, access: Access) -> Result<()> {
        let plan = plan.clone();
        let open =
            move |peer: &mut dyn Peer, _: &mut [u8]| peer.open(&plan, access).map(|()| Vec::new());
        // Nothing is read: any memory will do.
        self.run(&mut Destination::new(0)?, open).map(drop)
    }

    /// Closes the files that are open.
    pub(super) fn close(&mut self) -> Result<()> {
        let none = Plan::new(Vec::new(), Vec::new())?;
        self.open(&none, Access::Buffered)
    }

    /// Reads what the plan says of the files that are open.
    pub(super) fn read(&mut self, plan: &Plan, into: &mut Destination) -> Result<Span> {
        let plan = plan.clone();
        let read =
            move |peer: &mut dyn Peer, into: &mut [u8]| peer.read(&plan, into).map(|()| Vec::new());
        Ok(self.run(into, read)?.0)
    }

    /// Has a task done.
    pub(super) fn run(
        &mut self,
        into: &mut Destination,
        task: impl FnOnce(&mut dyn Peer, &mut [u8]) -> io::Result<Vec<u64>> + Send + 'static,
    ) -> Result<(Span, Vec<u64>)> {
        let order = Order {
            task: Box::new(task),
            memory: Memory(into.as_mut_ptr(), into.len()),
        };
        if self.orders.send(order).is_err() {
            return Err(Error::new("its thread is gone"));
        }
        self.answer()
            .map(|answer| answer.map_err(Error::from))
            .unwrap_or_else(|error| {
                let fresh = Destination::new(into.len()).unwrap_or_else(|_| {
                    // Without fresh memory the old one would be used under a write.
                    std::process::abort()
                });
                std::mem::forget(std::mem::replace(into, fresh));
                Err(error)
            })
    }
}

fn serve(mut peer: Box<dyn Peer>, orders: &Receiver<Order>, answers: &Sender<Answer>) {
    while let Ok(Order { task, memory }) = orders.recv() {
        // SAFETY: see the module.
        let into = unsafe { std::slice::from_raw_parts_mut(memory.0, memory.1) };
        let start = Moment::now();
        let result = task(peer.as_mut(), into);
        let span = start.elapsed();
        if answers.send(result.map(|held| (span, held))).is_err() {
            return;
        }
    }
}
