//! Cells: where a request's end meets its ticket.
//!
//! Each queue owns chunks of cells that never move. A cell belongs to one ticket at a time; its
//! generation goes up at every reuse, so that an id of an earlier life names nothing.
//!
//! Life of a cell: free → (caller takes it at enqueue) live → (engine) ended → (ticket claims or is
//! dropped) free; a ticket dropped before the end detaches: then the engine frees the cell. The
//! cell's lock decides between the two, so each request ends exactly once and each outcome is seen
//! by the ticket or dropped, never both. The lock is held for a few stores only.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::task::{Poll, Waker};

use crate::ticket::Outcome;
use crate::waiters::lock;

const CHUNK: usize = 256;

/// No request of the engine.
pub(crate) const NO_REQUEST: u32 = u32::MAX;

pub(crate) struct Cell {
    ended: AtomicBool,
    overdue: AtomicBool,
    /// The engine's number of the request while it is live.
    request: AtomicU32,
    /// Its life; changes under the lock, when the cell becomes free. Who takes a free cell from the
    /// list needs no lock to read it.
    generation: AtomicU32,
    inner: Mutex<Inner>,
}

struct Inner {
    detached: bool,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// A cell's number and life, in one word: it is handed on often, and a value that is written in
/// halves and read as a whole soon after makes the processor wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CellId(u64);

impl CellId {
    pub(crate) fn new(index: u32, generation: u32) -> CellId {
        CellId(u64::from(generation) << 32 | u64::from(index))
    }

    fn index(self) -> u32 {
        (self.0 & u64::from(u32::MAX)) as u32
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

pub(crate) struct Cells {
    chunks: Box<[OnceLock<Box<[Cell; CHUNK]>>]>,
    count_max: u32,
    made: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl Cells {
    pub(crate) fn new(count_max: u32) -> Cells {
        let chunks = (count_max as usize).div_ceil(CHUNK);
        Cells {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            count_max,
            made: AtomicU32::new(0),
            free: Mutex::default(),
        }
    }

    /// The cell `index`; its chunk was made when the index was first given out.
    fn cell(&self, index: u32) -> &Cell {
        let chunk = self.chunks[index as usize / CHUNK].get_or_init(|| {
            let cells: Vec<Cell> = (0..CHUNK).map(|_| Cell::new()).collect();
            cells
                .into_boxed_slice()
                .try_into()
                .unwrap_or_else(|_| unreachable!("CHUNK cells"))
        });
        &chunk[index as usize % CHUNK]
    }

    /// Takes a free cell, first from the caller's cache. `None`: all are live or unclaimed.
    pub(crate) fn take(&self, cache: &mut Vec<u32>) -> Option<CellId> {
        if cache.is_empty() {
            std::mem::swap(cache, &mut *lock(&self.free));
        }
        let index = match cache.pop() {
            Some(index) => index,
            None => {
                let made = self.made.load(Ordering::Relaxed);
                if made >= self.count_max {
                    return None;
                }
                // Only called under the queue's lock: no other thread makes cells meanwhile.
                self.made.store(made + 1, Ordering::Relaxed);
                made
            }
        };
        let generation = self.cell(index).generation();
        Some(CellId::new(index, generation))
    }

    fn release(&self, index: u32, inner: &mut Inner) {
        let cell = self.cell(index);
        let next = cell.generation().wrapping_add(1);
        cell.generation.store(next, Ordering::Relaxed);
        inner.detached = false;
        inner.outcome = None;
        inner.waker = None;
        cell.request.store(NO_REQUEST, Ordering::Relaxed);
        cell.overdue.store(false, Ordering::Relaxed);
        cell.ended.store(false, Ordering::Relaxed);
        lock(&self.free).push(index);
    }

    /// Engine: the request now has this number.
    pub(crate) fn bind(&self, id: CellId, request: u32) {
        self.cell(id.index())
            .request
            .store(request, Ordering::Relaxed);
    }

    /// Engine: which request a ticket means, if it is live.
    pub(crate) fn request_of(&self, id: CellId) -> Option<u32> {
        let cell = self.cell(id.index());
        let inner = lock(&cell.inner);
        let request = cell.request.load(Ordering::Relaxed);
        (cell.generation() == id.generation() && inner.outcome.is_none() && request != NO_REQUEST)
            .then_some(request)
    }

    /// Engine: the request has ended. The outcome goes to the ticket, or is given back to be
    /// dropped if nobody holds one.
    pub(crate) fn end(
        &self,
        id: CellId,
        outcome: Outcome,
        wakers: &mut Vec<Waker>,
    ) -> Option<Outcome> {
        let cell = self.cell(id.index());
        let mut inner = lock(&cell.inner);
        assert_eq!(
            cell.generation(),
            id.generation(),
            "a cell ends in the life it was taken in"
        );
        assert!(inner.outcome.is_none(), "a request ends once");
        if inner.detached {
            self.release(id.index(), &mut inner);
            return Some(outcome);
        }
        inner.outcome = Some(outcome);
        wakers.extend(inner.waker.take());
        cell.ended.store(true, Ordering::Release);
        None
    }

    pub(crate) fn set_overdue(&self, id: CellId) {
        self.cell(id.index()).overdue.store(true, Ordering::Release);
    }

    pub(crate) fn is_overdue(&self, id: CellId) -> bool {
        self.cell(id.index()).overdue.load(Ordering::Acquire)
    }

    /// Ticket: whether it has ended.
    pub(crate) fn is_ended(&self, id: CellId) -> bool {
        self.cell(id.index()).ended.load(Ordering::Acquire)
    }

    /// Ticket: the outcome (the cell is free then), or the waker is kept.
    pub(crate) fn claim(&self, id: CellId, waker: Option<&Waker>) -> Poll<Outcome> {
        let cell = self.cell(id.index());
        let mut inner = lock(&cell.inner);
        debug_assert_eq!(cell.generation(), id.generation(), "a ticket claims once");
        match inner.outcome.take() {
            Some(outcome) => {
                self.release(id.index(), &mut inner);
                Poll::Ready(outcome)
            }
            None => {
                if let Some(waker) = waker {
                    match &mut inner.waker {
                        Some(known) => known.clone_from(waker),
                        none => *none = Some(waker.clone()),
                    }
                }
                Poll::Pending
            }
        }
    }

    /// Ticket: nobody will claim.
    pub(crate) fn detach(&self, id: CellId) -> Option<Outcome> {
        let cell = self.cell(id.index());
        let mut inner = lock(&cell.inner);
        debug_assert_eq!(cell.generation(), id.generation(), "a ticket detaches once");
        let outcome = inner.outcome.take();
        if outcome.is_some() {
            self.release(id.index(), &mut inner);
        } else {
            inner.detached = true;
            inner.waker = None;
        }
        outcome
    }
}

impl Cell {
    fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    fn new() -> Cell {
        Cell {
            ended: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            request: AtomicU32::new(NO_REQUEST),
            generation: AtomicU32::new(0),
            inner: Mutex::new(Inner {
                detached: false,
                outcome: None,
                waker: None,
            }),
        }
    }
}
