//! The engine's own tables: requests and operations.
//!
//! Only the engine's thread touches them. A request's slot is reused under a new generation, so
//! that late results of jobs and operations of an earlier life are told apart.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_codec::{CodecId, StreamDecoder, UnitScanner};
use millstream_io::{Block, Buffer, Verb};

use crate::cells::CellId;
use crate::destination::Destination;
use crate::error::Error;
use crate::group::{Counter, Group};
use crate::job::{Stored, Target};
use crate::offer::Token;
use crate::request::{BlockEntry, Memory, NameWork, Priority, Rare};
use crate::view::MappedView;

/// No file.
pub(crate) const NO_FILE: u32 = u32::MAX;

/// Where a request stands on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// A fence holds back its source.
    Gated,
    /// Its file is being opened.
    Opening,
    /// Waits for entries before it, or for a job that must come first.
    Pending,
    /// In the scheduler.
    Waiting,
    /// Taken out of the scheduler: its queue is paused or over its bandwidth.
    Held,
    /// Everything is issued; operations or jobs are out.
    Active,
}

/// What it does.
pub(crate) enum Work {
    Read,
    Memory(Memory),
    Write,
    Append,
    Sync { data_only: bool },
    Names(Box<NameWork>),
    Replace(Box<std::path::PathBuf>),
    Warm(Arc<MappedView>),
}

/// A request of the engine.
pub(crate) struct Req {
    pub(crate) generation: u32,
    pub(crate) phase: Phase,
    pub(crate) queue: u32,
    pub(crate) sequence: u64,
    pub(crate) cell: Option<CellId>,
    pub(crate) class: Priority,
    pub(crate) deadline_ns: u64,
    pub(crate) arrival: u64,
    pub(crate) user_data: u64,
    pub(crate) submitted_ns: u64,
    pub(crate) work: Work,
    pub(crate) file: u32,
    pub(crate) file_generation: u32,
    /// The state of the file that the range was checked against.
    pub(crate) file_version: u32,
    /// A read of stored bytes into one piece of memory, without anything that few requests have:
    /// what the shorter ways through intake and issue are for.
    pub(crate) usual: bool,
    /// Counted among the requests of its file, which is there until this one ends.
    pub(crate) found: bool,
    /// Counted among the users of its file.
    pub(crate) attached: bool,
    /// First stored byte.
    pub(crate) offset: u64,
    /// Stored bytes; `u64::MAX` until the file is open for a whole file.
    pub(crate) len: u64,
    pub(crate) raw_len: Option<u64>,
    pub(crate) codec: CodecId,
    pub(crate) destination: Destination,
    pub(crate) straight: Straight,
    /// Bytes of the range that were issued (straight way).
    pub(crate) issued: u64,
    pub(crate) ops_out: u32,
    pub(crate) jobs_out: u32,
    /// Its memory is offered to the job that opens its file (counted in `jobs_out`).
    pub(crate) offer: Option<Arc<Token>>,
    pub(crate) failure: Option<Error>,
    pub(crate) cancelled: bool,
    /// Operations of it may be merged with others.
    pub(crate) merge: bool,
    /// Its length was asked for again after the range lay past the known end.
    pub(crate) length_asked: bool,
    /// Its write epoch.
    pub(crate) epoch: u64,
    /// Bytes it holds of the budget for write-gated requests.
    pub(crate) gated_bytes: u64,
    pub(crate) decode: Option<Box<Decode>>,
    pub(crate) group: Option<Group>,
    pub(crate) counter: Option<Counter>,
    pub(crate) rare: Option<Box<Rare>>,
}

/// The straight way: the device writes into the destination.
#[derive(Clone, Copy)]
pub(crate) struct Straight {
    /// Where the first byte of the range lands; null before the destination is there.
    pub(crate) base: *mut u8,
    /// Bytes of the memory before `base` that may be overwritten.
    pub(crate) slack_before: u64,
    /// Bytes of the memory behind the range that may be overwritten.
    pub(crate) slack_after: u64,
}

#[expect(
    unsafe_code,
    reason = "the engine moves to its thread together with the addresses it keeps"
)]
// SAFETY: the address is used by whoever owns the request: one thread at a time.
unsafe impl Send for Straight {}

impl Straight {
    pub(crate) const NOWHERE: Straight = Straight {
        base: std::ptr::null_mut(),
        slack_before: 0,
        slack_after: 0,
    };
}

impl Req {
    /// A slot that no request has yet.
    pub(crate) fn free() -> Req {
        Req {
            generation: 0,
            phase: Phase::Free,
            queue: 0,
            sequence: 0,
            cell: None,
            class: Priority::Low,
            deadline_ns: 0,
            arrival: 0,
            user_data: 0,
            submitted_ns: 0,
            work: Work::Read,
            file: NO_FILE,
            file_generation: 0,
            file_version: 0,
            usual: false,
            found: false,
            attached: false,
            offset: 0,
            len: 0,
            raw_len: None,
            codec: CodecId::STORED,
            destination: Destination::Nothing,
            straight: Straight::NOWHERE,
            issued: 0,
            ops_out: 0,
            jobs_out: 0,
            offer: None,
            failure: None,
            cancelled: false,
            merge: false,
            length_asked: false,
            epoch: 0,
            gated_bytes: 0,
            decode: None,
            group: None,
            counter: None,
            rare: None,
        }
    }

    pub(crate) fn target(&self, index: u32) -> Target {
        Target {
            request: index,
            generation: self.generation,
        }
    }

    /// Whether a new request is a usual one, see [`Req::usual`].
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        let one_piece = !matches!(
            self.destination,
            Destination::Pieces(_) | Destination::Supply(_) | Destination::Nothing
        );
        let stored = self.codec == CodecId::STORED && matches!(self.work, Work::Read);
        one_piece && stored && self.file != NO_FILE && self.rare.is_none()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.cancelled || self.failure.is_some()
    }

    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.rare.as_ref().and_then(|rare| rare.name.clone())
    }

    pub(crate) fn blocks(&self) -> Option<&Arc<[BlockEntry]>> {
        self.rare.as_ref().and_then(|rare| rare.blocks.as_ref())
    }

    /// Of the raw bytes of its blocks, which land: left out in front, landed.
    pub(crate) fn trim(&self) -> Option<(u64, u64)> {
        self.rare.as_ref().and_then(|rare| rare.trim)
    }

    /// Bytes that land: all raw bytes, unless they are trimmed.
    pub(crate) fn landed_len(&self) -> u64 {
        let all = self.raw_len.unwrap_or(0);
        self.trim().map_or(all, |(_, take)| take)
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self.work, Work::Write | Work::Append)
    }
}

/// How staged bytes become raw bytes.
pub(crate) enum Mode {
    /// Not decided before the first window is there.
    Undecided,
    /// Copied as they are.
    Copy,
    /// All stored bytes in one window, decoded at once.
    Whole,
    /// The blocks of a table; the next one's index.
    Table(usize),
    /// Units that a scanner finds.
    Units(Box<dyn UnitScanner>),
    /// A stream; the decoder is away while a job has it.
    Stream(Option<Box<dyn StreamDecoder>>),
}

/// What comes after all raw bytes are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Decoding,
    Verifying,
    Scattering,
    Finished,
}

/// The staged way: windows of stored bytes, then jobs.
pub(crate) struct Decode {
    pub(crate) mode: Mode,
    pub(crate) stage: Stage,
    /// Never cut into units again (a unit could not be decoded alone).
    pub(crate) force_stream: bool,
    /// Units failed to decode alone: start again as a stream when all is back.
    pub(crate) restart: bool,
    /// A gate holds the destination: no jobs yet.
    pub(crate) held: bool,
    /// The destination is being supplied by the application.
    pub(crate) supplying: bool,
    /// Windows in stored order; the front is the next to be looked at.
    pub(crate) windows: VecDeque<Window>,
    pub(crate) front_serial: u64,
    /// Windows whose memory jobs have.
    pub(crate) windows_out: usize,
    /// Stored bytes for which windows were made.
    pub(crate) windowed: u64,
    /// Bytes before a window's data that the rest of the window before may fill.
    pub(crate) headroom: usize,
    /// Stored bytes of a usual window.
    pub(crate) window_bytes: u64,
    /// Rest of the last window that the scanner has not taken, copied in front of the next.
    pub(crate) carry: Vec<u8>,
    /// Raw bytes given out to jobs (or made, in a stream).
    pub(crate) raw_given: u64,
    pub(crate) at_end: bool,
    /// Where raw bytes land.
    pub(crate) base: *mut u8,
    /// For scattered destinations: decoded here first.
    pub(crate) gathered: Option<Buffer>,
}

#[expect(
    unsafe_code,
    reason = "the engine moves to its thread together with the addresses it keeps"
)]
// SAFETY: as for Straight; the boxes inside are Send.
unsafe impl Send for Decode {}

/// A window of stored bytes.
pub(crate) struct Window {
    pub(crate) memory: WindowMemory,
    /// Index of the window's first stored byte in its memory.
    pub(crate) start: usize,
    /// Stored bytes.
    pub(crate) len: usize,
    /// First stored byte, relative to the request's offset.
    pub(crate) stored_at: u64,
    /// Read past the page cache.
    pub(crate) direct: bool,
    /// Bytes (from the memory's data on, lead included) that were issued.
    pub(crate) issued: u64,
    /// Operations out.
    pub(crate) ops_out: u32,
}

pub(crate) enum WindowMemory {
    /// Being filled: nobody reads it yet.
    Filling(Block),
    /// Complete: jobs read it.
    Ready(Stored),
}

impl Window {
    /// Bytes between the aligned start of its read and its first stored byte. Headrooms are whole
    /// pages, and no logical block is longer than one.
    pub(crate) fn lead(&self) -> u64 {
        (self.start % millstream_io::limits::MEMORY_ALIGNMENT) as u64
    }

    /// Bytes that its operations must bring: lead and stored bytes.
    pub(crate) fn total(&self) -> u64 {
        self.lead() + self.len as u64
    }

    /// Whether operations are still to be issued for it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.memory, WindowMemory::Filling(_)) && self.issued < self.total()
    }
}

/// Which requests an operation serves.
pub(crate) enum Members {
    One(Target),
    /// Merged: requests with their bytes, in file order.
    Many(Box<[(Target, u64)]>),
}

impl Members {
    /// Of a number that is free.
    pub(crate) const NONE: Members = Members::One(Target {
        request: u32::MAX,
        generation: 0,
    });
}

/// No window: an operation of the straight way.
pub(crate) const NO_WINDOW: u64 = u64::MAX;

/// An operation in flight. There is one for most requests, so it is kept small: what few operations
/// need (memory that waits for a full device) lies beside the table.
pub(crate) struct Op {
    /// Whether there is one under this number.
    live: bool,
    pub(crate) members: Members,
    pub(crate) offset: u64,
    /// Bytes asked for.
    pub(crate) want: u64,
    /// Bytes without which it has failed.
    pub(crate) need: u64,
    /// Bytes that earlier tries brought.
    pub(crate) done: u64,
    /// Of a staged request: the window's serial number; else `NO_WINDOW`.
    pub(crate) window: u64,
    pub(crate) started_ns: u64,
    pub(crate) file: u32,
    pub(crate) tries: u16,
    /// Tries in a row that came short and brought no whole block.
    pub(crate) fruitless: u8,
    pub(crate) verb: Verb,
    pub(crate) class: Priority,
    pub(crate) direct: bool,
    pub(crate) slow: bool,
    /// Waits to be copied out of the page cache, or is being copied.
    pub(crate) copied: bool,
}

/// Operations by their numbers. They are written, read and given up where they lie: to move one in
/// or out costs more than all that is done with it.
#[derive(Default)]
pub(crate) struct Ops {
    ops: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    /// A free number, and its operation to be filled in.
    #[inline]
    pub(crate) fn take(&mut self) -> (u32, &mut Op) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.ops.push(Op::free());
            u32::try_from(self.ops.len() - 1).expect("fewer than 2^32 operations")
        });
        let op = &mut self.ops[number as usize];
        op.live = true;
        (number, op)
    }

    /// An operation is over.
    #[inline]
    pub(crate) fn give_up(&mut self, number: u32) {
        let op = &mut self[number];
        op.live = false;
        self.free.push(number);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter().filter(|op| op.live)
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len() - self.free.len()
    }
}

impl std::ops::Index<u32> for Ops {
    type Output = Op;

    #[inline]
    fn index(&self, number: u32) -> &Op {
        let op = &self.ops[number as usize];
        assert!(op.live, "a live number");
        op
    }
}

impl std::ops::IndexMut<u32> for Ops {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Op {
        let op = &mut self.ops[number as usize];
        assert!(op.live, "a live number");
        op
    }
}

impl Op {
    fn free() -> Op {
        Op {
            live: false,
            members: Members::NONE,
            offset: 0,
            want: 0,
            need: 0,
            done: 0,
            window: NO_WINDOW,
            started_ns: 0,
            file: NO_FILE,
            tries: 0,
            fruitless: 0,
            verb: Verb::Read,
            class: Priority::Low,
            direct: false,
            slow: false,
            copied: false,
        }
    }
}

/// Memory whose request has ended while the kernel or a worker still had it.
#[derive(Default)]
pub(crate) struct Quarantine {
    pub(crate) ops_out: u32,
    pub(crate) jobs_out: u32,
    /// Freed when the last operation and job are back.
    pub(crate) _destination: Option<Destination>,
    pub(crate) decode: Option<Box<Decode>>,
}
