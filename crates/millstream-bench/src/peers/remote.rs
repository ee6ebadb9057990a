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

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use millstream_peers::{Access, Peer, Plan, Rival};

use crate::clock::{Moment, Span};
use crate::error::{Context, Error, Result};
use crate::limits::PEER_TIME_MAX;
use crate::memory::Destination;

/// What a rival is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Open the plan's files.
    Open(Access),
    /// Read of the open files.
    Read,
    /// Open the plan's files and read.
    OpenAndRead(Access),
    /// Open, read and close a file for every read.
    Load,
    /// Hand the reads over one by one.
    HandOver,
}

struct Order {
    task: Task,
    plan: Plan,
    memory: Memory,
}

struct Memory(*mut u8, usize);

// SAFETY: see the module: the memory is the order's alone until it is answered, or for ever.
unsafe impl Send for Memory {}

/// What came of an order: the time that it took, and how long each call held its caller.
pub(super) type Answer = std::io::Result<(Span, Vec<u64>)>;

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
        std::thread::Builder::new()
            .name(rival.name.into())
            .spawn(move || match rival.start(depth) {
                Ok(peer) => {
                    let started = Ok((Moment::now().elapsed(), Vec::new()));
                    if answer.send(started).is_ok() {
                        serve(peer, &taken, &answer);
                    }
                }
                Err(error) => {
                    // An error means that the receiver is gone.
                    let _ = answer.send(Err(error));
                }
            })
            .what("start a thread")?;
        let remote = Remote { orders, answers };
        remote.answer()??;
        Ok(remote)
    }

    /// The next answer; an outer error if there will be none.
    fn answer(&self) -> Result<Answer> {
        match self.answers.recv_timeout(PEER_TIME_MAX) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                let limit = PEER_TIME_MAX.as_secs();
                Err(Error::new(format!("gave no answer in {limit} s")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::new("its thread is gone")),
        }
    }

    /// Closes the files that are open.
    pub(super) fn close(&mut self) -> Result<()> {
        let none = Plan::new(Vec::new(), Vec::new())?;
        // Nothing is read: any memory will do.
        let mut nowhere = Destination::new(0)?;
        let task = Task::Open(Access::Buffered);
        self.run(task, &none, &mut nowhere).map(|_| ())
    }

    /// Has a task done.
    pub(super) fn run(
        &mut self,
        task: Task,
        plan: &Plan,
        destination: &mut Destination,
    ) -> Result<(Span, Vec<u64>)> {
        let order = Order {
            task,
            plan: plan.clone(),
            memory: Memory(destination.as_mut_ptr(), destination.len()),
        };
        if self.orders.send(order).is_err() {
            return Err(Error::new("its thread is gone"));
        }
        match self.answer() {
            Ok(answer) => answer.map_err(Error::from),
            Err(error) => {
                let len = destination.len();
                let fresh = Destination::new(len).unwrap_or_else(|_| {
                    // Without fresh memory the old one would be used under a write.
                    std::process::abort()
                });
                std::mem::forget(std::mem::replace(destination, fresh));
                Err(error)
            }
        }
    }
}

fn serve(mut peer: Box<dyn Peer>, orders: &Receiver<Order>, answers: &Sender<Answer>) {
    while let Ok(Order { task, plan, memory }) = orders.recv() {
        // SAFETY: see the module.
        let destination = unsafe { std::slice::from_raw_parts_mut(memory.0, memory.1) };
        let start = Moment::now();
        let held = |result: std::io::Result<()>| result.map(|()| Vec::new());
        let result = match task {
            Task::Open(access) => held(peer.open(&plan, access)),
            Task::Read => held(peer.read(&plan, destination)),
            Task::OpenAndRead(access) => {
                let opened = peer.open(&plan, access);
                held(opened.and_then(|()| peer.read(&plan, destination)))
            }
            Task::Load => held(peer.load(&plan, destination)),
            Task::HandOver => peer.hand_over(&plan, destination),
        };
        let span = start.elapsed();
        if answers.send(result.map(|held| (span, held))).is_err() {
            return;
        }
    }
}
