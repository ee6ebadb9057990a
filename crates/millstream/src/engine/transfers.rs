//! Operations in flight: what they move for which requests, and what their completions mean.
//!
//! A short or interrupted operation continues under the same number. A direct operation that the
//! system rejects as invalid is repeated through the page cache. A merged operation that did not
//! bring everything is taken apart: its members are issued again, each alone.
//!
//! Invariants: the memory of an operation belongs to its members (or to the quarantine) until its
//! completion; the list of segments of a merged one, and the copies of appends, are owned here for
//! as long. Memory whose request
//! has ended is kept in quarantine until the last operation and job are back.

use std::collections::HashMap;

use millstream_io::{
    Buffer, Completion, Descriptor, Errno, IoError, Operation, Segment, Segments, Verb,
};

use crate::caller::destination::Memory;
use crate::engine::files::InLine;
use crate::engine::staged::Staged;
use crate::error::{Error, ErrorKind};
use crate::ids::Id;
use crate::priority::Priority;

/// Maximum number of tries of an operation that comes back short or interrupted each time.
const TRIES_MAX: u16 = 1000;

/// Consecutive direct tries that bring no whole block, before the file counts as truncated.
const FRUITLESS_MAX: u8 = 3;

/// No window: an operation of a request that is not staged.
pub(crate) const NO_WINDOW: u64 = u64::MAX;

/// Which device serves an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The ring, or threads.
    Main = 0,
    /// Copies from the page cache.
    Cached = 1,
    /// Threads for mounts that can hang, beside a ring.
    Slow = 2,
    /// Blocking calls: what the main device canceled, because the kernel could start no thread for
    /// it (a process at its limit of threads), or the thread that submitted it has exited.
    Blocking = 3,
}

pub(crate) const LANES: usize = 4;

/// Which requests an operation serves.
pub(crate) enum Members {
    One(Id),
    Many(Box<Merged>),
    Copied(Box<Copied>),
}

/// Appends that are written together, and the copy of their bytes.
pub(crate) struct Copied {
    pub(crate) requests: Vec<InLine>,
    pub(crate) _buffer: Buffer,
}

/// Requests of a merged operation with their bytes, in file order, and their memory.
pub(crate) struct Merged {
    pub(crate) requests: Vec<(Id, u64)>,
    memory: Box<[Segment]>,
}

impl Members {
    /// The memory of a merged operation.
    fn segments(&self) -> Option<Segments> {
        match self {
            Members::One(_) | Members::Copied(_) => None,
            Members::Many(merged) => Some(Segments::list(&merged.memory)),
        }
    }

    fn any(&self, is: impl Fn(Id) -> bool) -> bool {
        match self {
            Members::One(id) => is(*id),
            Members::Many(merged) => merged.requests.iter().any(|(id, _)| is(*id)),
            Members::Copied(copied) => copied.requests.iter().any(|one| is(one.id)),
        }
    }
}

/// What an operation is to move.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) verb: Verb,
    pub(crate) file: u32,
    pub(crate) descriptor: Descriptor,
    pub(crate) offset: u64,
    pub(crate) want: u64,
    /// Bytes without which it has failed.
    pub(crate) need: u64,
    pub(crate) direct: bool,
    /// It writes to the end of its file.
    pub(crate) append: bool,
    pub(crate) lane: Lane,
    pub(crate) priority: Priority,
    /// The serial number of the window, of a staged request.
    pub(crate) window: u64,
    /// The number of a mount that can hang, or 0.
    pub(crate) mount: u64,
    pub(crate) memory: Segment,
}

/// An operation in flight.
pub(crate) struct Transfer {
    pub(crate) members: Members,
    pub(crate) block: Block,
    /// Bytes that earlier tries brought.
    pub(crate) done: u64,
    pub(crate) started_ns: u64,
    tries: u16,
    /// Tries in a row that came short and brought no whole logical block.
    fruitless: u8,
}

/// What a completion means.
pub(crate) enum Meaning {
    Continued,
    /// The file system refuses direct reads: continued through the page cache.
    DirectRefused,
    /// Its bytes did not come, and its members try again, each alone.
    Apart,
    Failed(Error),
}

/// Memory whose request has ended while the system or a worker still had it.
#[derive(Default)]
pub(crate) struct Quarantine {
    pub(crate) operations: u32,
    pub(crate) jobs: u32,
    pub(crate) bytes: u64,
    /// Freed when the last operation and job are back.
    pub(crate) memory: Memory,
    pub(crate) staged: Option<Box<Staged>>,
}

#[derive(Default)]
pub(crate) struct Transfers {
    transfers: Vec<Option<Transfer>>,
    free: Vec<u32>,
    outgoing: [Vec<Operation>; LANES],
    out: [usize; LANES],
    /// Bytes of copies from the page cache in flight.
    copy_bytes: u64,
    lost: usize,
    quarantine: HashMap<Id, Quarantine>,
    pub(crate) quarantined_bytes: u64,
}

impl Transfers {
    pub(crate) fn out(&self) -> usize {
        self.out.iter().sum()
    }

    /// Operations of a lane, including those not yet pushed.
    #[inline]
    pub(crate) fn out_in(&self, lane: Lane) -> usize {
        self.out[lane as usize]
    }

    /// Bytes of copies from the page cache in flight.
    #[inline]
    pub(crate) fn copy_bytes(&self) -> u64 {
        self.copy_bytes
    }

    #[inline]
    fn count_out(&mut self, block: &Block) {
        self.out[block.lane as usize] += 1;
        if block.lane == Lane::Cached {
            self.copy_bytes += block.want;
        }
    }

    #[inline]
    fn count_back(&mut self, block: &Block) {
        self.out[block.lane as usize] -= 1;
        if block.lane == Lane::Cached {
            self.copy_bytes -= block.want;
        }
    }

    /// Operations to be pushed to a lane's device.
    pub(crate) fn outgoing(&mut self, lane: Lane) -> &mut Vec<Operation> {
        &mut self.outgoing[lane as usize]
    }

    /// Begins an operation of one request.
    #[inline(always)]
    pub(crate) fn begin(&mut self, id: Id, block: Block, now_ns: u64) {
        let segments = Segments::One(block.memory);
        self.add(Members::One(id), block, segments, now_ns);
    }

    /// Begins an operation of requests that follow one another in the file; `block` spans them all.
    pub(crate) fn begin_merged(
        &mut self,
        requests: Vec<(Id, u64)>,
        memory: Box<[Segment]>,
        block: Block,
        now_ns: u64,
    ) {
        // The list is on the heap, owned by the entry until the completion.
        let segments = Segments::list(&memory);
        let members = Members::Many(Box::new(Merged { requests, memory }));
        self.add(members, block, segments, now_ns);
    }

    /// Begins the operation of appends that were copied.
    pub(crate) fn begin_copied(&mut self, copied: Copied, block: Block, now_ns: u64) {
        let segments = Segments::One(block.memory);
        self.add(Members::Copied(Box::new(copied)), block, segments, now_ns);
    }

    #[inline(always)]
    fn add(&mut self, members: Members, block: Block, segments: Segments, now_ns: u64) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() as u32 - 1
        });
        let place = &mut self.transfers[number as usize];
        assert!(place.is_none(), "a free number has no operation");
        *place = Some(Transfer {
            members,
            block,
            done: 0,
            started_ns: now_ns,
            tries: 0,
            fruitless: 0,
        });
        self.count_out(&block);
        self.outgoing[block.lane as usize].push(operation(number, &block, segments));
    }

    #[inline]
    fn transfer(&mut self, number: u32) -> &mut Transfer {
        let transfer = self.transfers[number as usize].as_mut();
        transfer.expect("a completion is of an operation under way")
    }

    /// The operation of a completion, and whether that brought everything needed.
    #[inline]
    pub(crate) fn look(&mut self, completion: &Completion) -> (&Block, bool) {
        let transfer = self.transfer(number_of(completion.id));
        let moved = completion.moved();
        let whole = moved.is_ok_and(|moved| transfer.done + moved >= transfer.block.need);
        (&transfer.block, whole)
    }

    /// What a completion that lacks bytes means; operations that continue are pushed again.
    /// `wanted` says whether any of its requests still waits for the bytes, `way` the logical block
    /// of direct reads and the descriptor through the page cache; `blocking` whether the main
    /// device's operations can be made as blocking calls.
    pub(crate) fn complete(
        &mut self,
        completion: &Completion,
        blocking: bool,
        way: impl FnOnce() -> (u64, Option<Descriptor>),
        wanted: impl Fn(Id) -> bool,
    ) -> Meaning {
        let number = number_of(completion.id);
        let transfer = self.transfer(number);
        let is_wanted = transfer.members.any(wanted);
        if transfer.block.lane == Lane::Cached {
            if !is_wanted {
                return Meaning::Apart;
            }
            // The device brings what the copy lacks. A merged operation has its pieces in a list
            // and is read anew as a whole.
            self.push_to(Lane::Main, number, completion.moved().unwrap_or(0));
            return Meaning::Continued;
        }
        // A call on a mount that can hang might be made on this thread.
        if completion.moved() == Err(Errno::CANCELED)
            && (blocking && transfer.block.lane == Lane::Main && transfer.block.mount == 0)
            && is_wanted
        {
            self.push_to(Lane::Blocking, number, 0);
            return Meaning::Continued;
        }
        let merged = matches!(transfer.members, Members::Many(_));
        let (align, buffered) = way();
        match transfer.meaning(align, completion.moved()) {
            Meaning::Continued | Meaning::DirectRefused if merged || !is_wanted => Meaning::Apart,
            Meaning::Failed(_) if merged => Meaning::Apart,
            Meaning::Continued => {
                self.push_rest(number);
                Meaning::Continued
            }
            Meaning::DirectRefused => {
                let transfer = self.transfer(number);
                transfer.block.direct = false;
                if let Some(buffered) = buffered {
                    transfer.block.descriptor = buffered;
                }
                self.push_rest(number);
                Meaning::DirectRefused
            }
            other => other,
        }
    }

    /// Pushes an operation, less `moved` more bytes if it has one segment, to another lane.
    fn push_to(&mut self, lane: Lane, number: u32, moved: u64) {
        let transfer = self.transfer(number);
        let segments = transfer.members.segments();
        let before = transfer.block;
        transfer.block.lane = lane;
        if segments.is_none() {
            transfer.done += moved;
        }
        let block = transfer.block;
        self.count_back(&before);
        self.count_out(&block);
        match segments {
            Some(segments) => {
                let operation = operation(number, &block, segments);
                self.outgoing[lane as usize].push(operation);
            }
            None => self.push_rest(number),
        }
    }

    /// Pushes the rest of an operation of one request again.
    fn push_rest(&mut self, number: u32) {
        let transfer = self.transfer(number);
        let (block, done) = (transfer.block, transfer.done);
        let skip = usize::try_from(done).expect("within the block");
        let memory = Segment::new(
            block.memory.pointer().wrapping_add(skip),
            block.memory.len() - skip,
        );
        let rest = Block {
            offset: block.offset + done,
            want: block.want - done,
            ..block
        };
        let operation = operation(number, &rest, Segments::One(memory));
        self.outgoing[block.lane as usize].push(operation);
    }

    /// Pushes again what a broken device never began, to the main lane.
    pub(crate) fn push_again(&mut self, id: u64) {
        self.push_to(Lane::Main, number_of(id), 0);
    }

    /// Whether an operation writes to the end of its file.
    #[inline(always)]
    pub(crate) fn appends(&mut self, id: u64) -> bool {
        self.transfer(number_of(id)).block.append
    }

    #[inline(always)]
    pub(crate) fn finish(&mut self, id: u64) -> Transfer {
        let number = number_of(id);
        let finished = self.transfers[number as usize].take();
        let finished = finished.expect("a completion is of an operation under way");
        self.free.push(number);
        self.count_back(&finished.block);
        finished
    }

    /// Gives up an operation that never comes back; returns its block and requests. Its number is
    /// not used again, and its memory stays.
    pub(crate) fn lose(&mut self, id: u64) -> (Block, Vec<Id>) {
        let number = number_of(id);
        let transfer = self.transfer(number);
        let block = transfer.block;
        let members = match &transfer.members {
            Members::One(id) => vec![*id],
            Members::Many(merged) => merged.requests.iter().map(|(id, _)| *id).collect(),
            Members::Copied(copied) => copied.requests.iter().map(|one| one.id).collect(),
        };
        self.count_back(&block);
        self.lost += 1;
        (block, members)
    }

    pub(crate) fn lost(&self) -> usize {
        self.lost
    }

    /// Bytes and file of each operation in flight or lost.
    pub(crate) fn held(&self) -> impl Iterator<Item = (u64, u32)> {
        let live = self.transfers.iter().flatten();
        live.map(|transfer| (transfer.block.want, transfer.block.file))
    }

    /// Puts memory whose request has ended into quarantine.
    pub(crate) fn quarantine(&mut self, id: Id, held: Quarantine) {
        assert!(held.operations + held.jobs > 0, "something has the memory");
        self.quarantined_bytes += held.bytes;
        let before = self.quarantine.insert(id, held);
        assert!(before.is_none(), "a request ends once");
    }

    /// The staged part of a request in quarantine.
    pub(crate) fn quarantined(&mut self, id: Id) -> Option<&mut Staged> {
        self.quarantine.get_mut(&id)?.staged.as_deref_mut()
    }

    /// Takes back operations and jobs of a request that has ended; returns its windows once nothing
    /// uses them any more.
    pub(crate) fn quarantine_back(
        &mut self,
        id: Id,
        operations: u32,
        jobs: u32,
    ) -> Option<Box<Staged>> {
        let held = self.quarantine.get_mut(&id)?;
        held.operations -= operations;
        held.jobs -= jobs;
        if held.operations + held.jobs > 0 {
            return None;
        }
        let held = self.quarantine.remove(&id)?;
        self.quarantined_bytes -= held.bytes;
        held.memory.discard();
        held.staged
    }

    /// Leaks what is in quarantine, which may be written to forever. Returns whether there was
    /// anything.
    pub(crate) fn leak_quarantine(&mut self) -> bool {
        let held = std::mem::take(&mut self.quarantine);
        let any = !held.is_empty();
        if any {
            std::mem::forget(held);
        }
        any
    }

    /// Leaks the segment lists of operations that never come back.
    pub(crate) fn leak(self) {
        std::mem::forget(self);
    }
}

fn number_of(id: u64) -> u32 {
    u32::try_from(id).expect("operations have small numbers")
}

#[inline(always)]
fn operation(number: u32, block: &Block, segments: Segments) -> Operation {
    Operation {
        id: u64::from(number),
        verb: block.verb,
        file: block.descriptor,
        offset: block.offset,
        segments,
        // Likely to block, or to copy many bytes.
        offload: block.verb == Verb::Write
            || (!block.direct && block.want >= crate::limits::OFFLOAD_BYTES_MIN),
        mount: block.mount,
    }
}

impl Transfer {
    /// What a result that is short, or an error, means; counts the bytes that came.
    fn meaning(&mut self, align: u64, result: Result<u64, Errno>) -> Meaning {
        self.tries = self.tries.saturating_add(1);
        let reads = self.block.verb == Verb::Read;
        let call = if reads { "read" } else { "write" };
        match result {
            Ok(moved) => {
                // Direct reads continue at an aligned place.
                let at = (self.done + moved) / align * align;
                // Repeatedly no further whole block: the file ends there.
                self.fruitless = match at > self.done {
                    true => 0,
                    false => self.fruitless + 1,
                };
                self.done = at.max(self.done);
                if moved == 0 || self.fruitless >= FRUITLESS_MAX {
                    return Meaning::Failed(match reads {
                        true => Error::new(
                            ErrorKind::PastEnd,
                            "the file has fewer bytes than its length says: it was truncated \
                             while it was read, or is made while it is read, as those of sysfs",
                        ),
                        false => Error::new(ErrorKind::Io, "the system wrote nothing"),
                    });
                }
                match self.tries > TRIES_MAX {
                    true => Meaning::Failed(Error::from(IoError::new(call, Errno::IO))),
                    false => Meaning::Continued,
                }
            }
            Err(Errno::INTERRUPTED | Errno::AGAIN) if self.tries <= TRIES_MAX => Meaning::Continued,
            Err(Errno::INVALID) if self.block.direct => Meaning::DirectRefused,
            Err(errno) => Meaning::Failed(Error::from(IoError::new(call, errno))),
        }
    }
}
