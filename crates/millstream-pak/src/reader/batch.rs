//! Batches: many entries in one call, with as few reads as their places in the file allow.
//!
//! Entries that lie close together become one read, and a block that several share is decoded once:
//! a start-up of two thousand small files takes a few hundred requests. The entries of a read share
//! its memory, which is freed when the last of them is dropped.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use millstream::{Buffer, CodecId, ErrorKind, Group, Priority, Queue, Read, Ticket};

use super::{Package, plan};
use crate::error::{Error, Result};
use crate::format::BlockRecord;
use crate::limits::{RUN_BYTES_MAX, RUN_GAP_MAX, RUN_RAW_BYTES_MAX, SHARED_BLOCK_BYTES};
use crate::memory;

/// A range of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The entry.
    pub index: u32,
    /// First raw byte.
    pub offset: u64,
    /// Raw bytes.
    pub len: u64,
}

/// What the requests of a batch have in common.
#[derive(Clone, Default)]
pub struct BatchOptions {
    /// Their priority, instead of the queue's.
    pub priority: Option<Priority>,
    /// Their tag.
    pub tag: u64,
    /// The timeout of each request.
    pub timeout: Option<Duration>,
    /// The group that they belong to.
    pub group: Option<Group>,
}

/// The raw bytes of a piece; dereferences to them. Pieces of one read share its memory.
#[derive(Debug, Clone)]
pub struct Loaded {
    buffer: Arc<Buffer>,
    start: usize,
    len: usize,
}

impl Deref for Loaded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }
}

/// Pieces in flight, from [`Package::enqueue_pieces`]. Dropping it detaches the requests.
pub struct Batch {
    package: Package,
    /// In the order of the pieces.
    members: Vec<Member>,
    runs: RefCell<Vec<Run>>,
    requests: usize,
}

/// Where a piece is: its run, and its place in the run's raw bytes.
#[derive(Clone, Copy, Default)]
struct Member {
    /// The entry.
    index: u32,
    run: usize,
    start: usize,
    len: usize,
}

/// A read of one piece or of several.
enum Run {
    Pending(Ticket<Buffer>),
    /// [`Batch::wait`] is waiting for it; only a callback on the same thread can see this.
    Waiting,
    Done(Arc<Buffer>),
    Failed(Error),
}

/// A piece with its blocks.
struct Planned {
    nth: usize,
    /// The number of the first block.
    first: u32,
    blocks: Vec<BlockRecord>,
    /// Raw bytes of the blocks before the piece.
    skip: u64,
    len: u64,
    /// Some of its blocks lie in a base, so their offsets say nothing about distances in this file.
    in_base: bool,
    /// It is empty, or is read into its memory without the copy that a merged read needs.
    alone: bool,
}

impl Planned {
    fn new(package: &Package, nth: usize, piece: &Piece) -> Result<Planned> {
        let tables = package.tables();
        let span = plan::span(tables, piece.index, piece.offset, piece.len)?;
        let blocks = plan::blocks_of(tables, &span)?;
        let is_stored = |block: &BlockRecord| block.codec == CodecId::STORED.0;
        let mut one = Planned {
            nth,
            first: span.first,
            in_base: blocks.iter().any(BlockRecord::in_base),
            alone: !package.0.options.verify && blocks.iter().all(is_stored),
            blocks,
            skip: span.skip,
            len: piece.len,
        };
        one.alone = one.len == 0 || one.alone && one.blocks_raw() > SHARED_BLOCK_BYTES as u64;
        Ok(one)
    }

    /// The first byte of its blocks in the file.
    fn start(&self) -> u64 {
        self.blocks.first().map_or(0, |block| block.offset.get())
    }

    /// One past their last byte.
    fn end(&self) -> u64 {
        self.blocks.last().map_or(0, BlockRecord::end)
    }

    fn blocks_raw(&self) -> u64 {
        let raw = |block: &BlockRecord| u64::from(block.raw_bytes.get());
        self.blocks.iter().map(raw).sum()
    }
}

impl Package {
    /// Enqueues whole entries and submits them; see [`Package::enqueue_pieces`].
    ///
    /// # Errors
    /// As [`Package::enqueue_pieces`]; or there is no such entry.
    pub fn enqueue_all(
        &self,
        queue: &Queue,
        entries: &[u32],
        options: &BatchOptions,
    ) -> Result<Batch> {
        let mut pieces = memory::room(entries.len())?;
        for &index in entries {
            let (offset, len) = (0, self.info(index)?.raw_bytes);
            pieces.push(Piece { index, offset, len });
        }
        self.enqueue_pieces(queue, &pieces, options)
    }

    /// Enqueues pieces as one batch, with neighbors merged, and submits them. A piece that cannot
    /// be requested does not hold up the others: waiting for it returns its error. May block while
    /// the queue is full.
    ///
    /// # Errors
    /// `OutOfMemory`: there is no memory for a list of the pieces. Nothing is enqueued then.
    pub fn enqueue_pieces(
        &self,
        queue: &Queue,
        pieces: &[Piece],
        options: &BatchOptions,
    ) -> Result<Batch> {
        self.enqueue(queue, pieces, options, true)
    }

    /// As [`Package::enqueue_pieces`]; without `merges`, only pieces of the same blocks become one
    /// read.
    pub(super) fn enqueue(
        &self,
        queue: &Queue,
        pieces: &[Piece],
        options: &BatchOptions,
        merges: bool,
    ) -> Result<Batch> {
        let member = |piece: &Piece| Member {
            index: piece.index,
            ..Member::default()
        };
        let mut members = memory::collect(pieces.iter().map(member))?;
        let mut runs = memory::room(pieces.len())?;
        let mut planned = memory::room(pieces.len())?;
        for (nth, piece) in pieces.iter().enumerate() {
            match Planned::new(self, nth, piece) {
                Ok(one) => planned.push(one),
                Err(error) => {
                    members[nth].run = runs.len();
                    runs.push(Run::Failed(error));
                }
            }
        }
        planned.sort_unstable_by_key(|one| (one.start(), one.first, one.blocks.len(), one.nth));
        let mut requests = queue.batch();
        let refused = runs.len();
        let mut rest = &planned[..];
        // If a run cannot be requested, each of its members is tried by itself.
        let mut apart = 0;
        while !rest.is_empty() {
            let len = if apart > 0 { 1 } else { run_len(rest, merges) };
            let (run, later) = rest.split_at(len);
            let made = match self.run_request(run, runs.len(), &mut members) {
                Err(_) if len > 1 => {
                    apart = len;
                    continue;
                }
                made => made,
            };
            rest = later;
            apart = apart.saturating_sub(1);
            let ticket = made.and_then(|mut request| {
                if self.0.options.name_requests && (len == 1 || queue.is_traced()) {
                    // Only for traces and messages: without memory for it, there is no name.
                    let names = self.names_of(run, pieces);
                    if let Some(names) = names.ok().filter(|it| !it.is_empty()) {
                        request = request.name(names);
                    }
                }
                Ok(requests.add(with_options(request, options))?)
            });
            runs.push(match ticket {
                Ok(ticket) => Run::Pending(ticket),
                Err(error) => Run::Failed(error),
            });
        }
        requests.submit();
        Ok(Batch {
            package: self.clone(),
            members,
            requests: runs.len() - refused,
            runs: RefCell::new(runs),
        })
    }

    /// Returns the names of a run's entries, in the order of the pieces, separated by NUL.
    fn names_of(&self, run: &[Planned], pieces: &[Piece]) -> Result<String> {
        let mut order = memory::collect(run.iter().map(|one| one.nth))?;
        order.sort_unstable();
        order.dedup_by_key(|nth| pieces[*nth].index);
        let mut names = Vec::new();
        for nth in order {
            let Ok(name) = self.name(pieces[nth].index) else {
                continue;
            };
            let name = String::from_utf8_lossy(name);
            memory::reserve(&mut names, name.len() + 1)?;
            if !names.is_empty() {
                names.push(0);
            }
            names.extend_from_slice(name.as_bytes());
        }
        Ok(String::from_utf8(names).unwrap_or_default())
    }

    /// Returns the request of a run, and notes where in its raw bytes each member lies.
    fn run_request(&self, run: &[Planned], nth_run: usize, members: &mut [Member]) -> Result<Read> {
        let mut place = |one: &Planned, start: u64| {
            let member = &mut members[one.nth];
            member.run = nth_run;
            member.start = usize::try_from(start).unwrap_or(usize::MAX);
            member.len = usize::try_from(one.len).unwrap_or(usize::MAX);
        };
        if let [one] = run {
            place(one, 0);
            return plan::request_of(self, &one.blocks, one.skip, one.len);
        }
        let mut blocks: Vec<BlockRecord> = Vec::new();
        let (mut raw, mut last) = (0, None);
        for one in run {
            // Members are in the order of their blocks: the first has added those that are shared.
            let at = match last {
                Some((first, at)) if first == one.first => at,
                _ => {
                    let at = raw;
                    raw += one.blocks_raw();
                    memory::reserve(&mut blocks, one.blocks.len())?;
                    blocks.extend_from_slice(&one.blocks);
                    last = Some((one.first, at));
                    at
                }
            };
            place(one, at + one.skip);
        }
        plan::request_of(self, &blocks, 0, raw)
    }
}

/// Returns the request with the options of its batch.
pub(crate) fn with_options(request: Read, options: &BatchOptions) -> Read {
    let mut request = request.tag(options.tag);
    if let Some(priority) = options.priority {
        request = request.priority(priority);
    }
    if let Some(timeout) = options.timeout {
        request = request.timeout(timeout);
    }
    if let Some(group) = &options.group {
        request = request.group(group);
    }
    request
}

/// Returns how many pieces, from the first on, become one read.
fn run_len(rest: &[Planned], merges: bool) -> usize {
    let first = &rest[0];
    let (mut before, mut end, mut raw) = (first, first.end(), first.blocks_raw());
    for (nth, one) in rest.iter().enumerate().skip(1) {
        let shares = one.first == before.first && one.blocks.len() == before.blocks.len();
        // If a piece shares only some blocks with the one before, they would be in the table twice.
        let is_behind = one.first >= before.first + before.blocks.len() as u32;
        let is_near = || {
            one.start() <= end.saturating_add(RUN_GAP_MAX)
                && one.end().max(end) - first.start() <= RUN_BYTES_MAX
        };
        if !shares {
            raw += one.blocks_raw();
        }
        let joins = match merges && !first.in_base {
            true => shares || (is_behind && !one.in_base && is_near()),
            false => shares,
        };
        if first.alone || one.alone || !joins || raw > RUN_RAW_BYTES_MAX {
            return nth;
        }
        end = end.max(one.end());
        before = one;
    }
    rest.len()
}

impl Batch {
    /// Returns the number of pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether the batch has no pieces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the number of requests that the pieces became.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Blocks until a piece is loaded, and returns it; pieces are numbered in the order in which
    /// they were given. May be called again for the same piece.
    ///
    /// # Errors
    /// That of its request; `OnStorageThread`, if the piece is not loaded yet; `Closed`, also in a
    /// forked child.
    ///
    /// # Panics
    /// There is no such piece.
    pub fn wait(&self, nth: usize) -> Result<Loaded> {
        let member = self.members[nth];
        let put = |run| std::mem::replace(&mut self.runs.borrow_mut()[member.run], run);
        let ended = match put(Run::Waiting) {
            Run::Pending(mut ticket) => match ticket.wait() {
                Ok(buffer) => Ok(Arc::new(buffer)),
                // The request stays in flight.
                Err(error) if error == ErrorKind::OnStorageThread => {
                    put(Run::Pending(ticket));
                    return Err(error.into());
                }
                Err(error) => Err(error.into()),
            },
            Run::Waiting => {
                let cause = "a callback waits for what its thread waits for";
                return Err(millstream::Error::new(ErrorKind::OnStorageThread, cause).into());
            }
            Run::Done(buffer) => Ok(buffer),
            Run::Failed(error) => Err(error),
        };
        put(match &ended {
            Ok(buffer) => Run::Done(Arc::clone(buffer)),
            Err(error) => Run::Failed(error.clone()),
        });
        // A piece that could not be requested is at fault itself; a read may fail for a neighbor.
        let buffer = ended.map_err(|error| match error.engine() {
            None => self.package.blame(member.index, error),
            Some(_) => error,
        });
        Ok(Loaded {
            buffer: buffer?,
            start: member.start,
            len: member.len,
        })
    }

    /// Cancels the requests that have not completed; waiting for them then fails with `Canceled`.
    pub fn cancel(&self) {
        for run in self.runs.borrow().iter() {
            if let Run::Pending(ticket) = run {
                ticket.cancel();
            }
        }
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("pieces", &self.len())
            .field("requests", &self.requests())
            .finish()
    }
}
