//! Staged requests: stored bytes pass through windows of staging memory, windows become jobs.
//!
//! A request has at most `limits::WINDOWS_AHEAD` windows at a time, in stored order, each one piece
//! of memory from `staging`:
//!
//! ```text
//! | headroom (rest of the window before) | lead | stored bytes ... | tail |
//!   only for codecs with units                  ^ start
//! ```
//!
//! Lead and tail are what alignment adds to a direct read. A window is filled by operations of at
//! most one block each, and looked at once it is complete and the first in order. Windows of a
//! table begin and end with blocks; what lies between blocks is not read if it is between windows.
//!
//! Invariant: a window's memory belongs to its operations while it is filled, then to its jobs; the
//! last of them gives it back to staging.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_codec::CodecId;
use millstream_io::error::guard;
use millstream_io::{Buffer, BufferPool};

use crate::caller::request::Stored;
use crate::caller::sink::{DevicePlace, DeviceSink, PartForm};
use crate::decode::growing::Growing;
use crate::decode::jobs::{
    BlockPlace, DecodeTask, JobOutcome, JobSource, JobTask, Lent, Method, StreamRaw, Task,
};
use crate::decode::plan::{
    Codecs, Mode, NotCut, Piece, Plan, View, check_known, check_table, no_memory,
};
use crate::decode::spec::{self, BlockTable, RequestDecoder};
use crate::engine::route::Via;
use crate::engine::staging::{Class, Held, Staging, WindowMemory};
use crate::error::{Error, ErrorKind};
use crate::ids::Id;
use crate::limits;
use crate::priority::Priority;

/// A window of stored bytes.
struct Window {
    memory: Filled,
    /// Index of the first stored byte in its memory.
    start: usize,
    len: usize,
    /// First stored byte, relative to the request's offset.
    stored_at: u64,
    /// How its bytes are read.
    via: Via,
    /// Bytes, lead included, that were issued.
    issued: u64,
    /// Operations in flight.
    operations: u32,
}

enum Filled {
    /// Being filled: nothing reads it yet.
    Filling(WindowMemory),
    /// Stored bytes in memory.
    Ready(JobSource),
    /// Given back: everything is to be decoded anew.
    Given,
}

impl Window {
    /// Bytes between the aligned start of its read and its first stored byte. Headrooms are whole
    /// pages, and no logical block is longer than one.
    fn lead(&self) -> u64 {
        (self.start % millstream_io::limits::MEMORY_ALIGNMENT) as u64
    }

    /// Bytes that its operations must bring: lead and stored bytes.
    fn total(&self) -> u64 {
        self.lead() + self.len as u64
    }

    /// Whether operations are still to be issued for it.
    fn is_open(&self) -> bool {
        matches!(self.memory, Filled::Filling(_)) && self.issued < self.total()
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Filled::Filling(memory) => &memory.as_slice()[self.start..self.start + self.len],
            Filled::Ready(source) => source.slice(self.start, self.len),
            Filled::Given => &[],
        }
    }
}

/// What a request still has to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Decoding,
    Verifying,
    Delivering,
    Landed,
    Finished,
}

/// What a staged request needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Operations or jobs are in flight, or its fence holds it.
    Wait,
    /// To be served again: there is room for another window.
    More,
    /// It needs memory for this many raw bytes.
    Land(u64),
    /// It needs memory for raw bytes whose number is not known yet.
    LandUnknown,
    /// Its memory holds all raw bytes.
    Done,
}

/// How to serve a staged request that the scheduler picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serve {
    /// Issue an operation of the open window.
    Fill,
    /// Make a new window: first stored byte (relative to the request), and bytes.
    Window(u64, u64),
    /// Nothing for now.
    Leave,
}

/// The next operation of the open window.
pub(crate) struct Fill {
    /// First byte, relative to the request's offset; before it by the lead of a direct window.
    pub(crate) at: i64,
    pub(crate) pointer: *mut u8,
    pub(crate) need: u64,
    pub(crate) via: Via,
    pub(crate) serial: u64,
    /// No operation follows in this window.
    pub(crate) last: bool,
}

/// Where raw bytes land.
pub(crate) struct RawMemory {
    pub(crate) base: *mut u8,
    /// Decoded here first, for trimmed destinations without room, and devices that do not decode it
    /// themselves.
    pub(crate) gathered: Option<Buffer>,
    pub(crate) device: Option<Arc<dyn DeviceSink>>,
}

impl RawMemory {
    /// Whether raw bytes are decoded into memory of the processor.
    fn is_here(&self) -> bool {
        self.device.is_none() || self.gathered.is_some()
    }
}

/// What the engine lends to `advance`.
pub(crate) struct Context<'a> {
    pub(crate) request: Id,
    pub(crate) priority: Priority,
    pub(crate) class: Class,
    pub(crate) user_data: u64,
    /// The request's offset in its file.
    pub(crate) offset: u64,
    pub(crate) operations: u32,
    pub(crate) jobs_out: u32,
    pub(crate) staging: &'a mut Staging,
    pub(crate) codecs: &'a Codecs,
    pub(crate) jobs: &'a mut Vec<JobTask>,
}

pub(crate) struct Staged {
    plan: Plan,
    stage: Stage,
    stored_len: u64,
    /// A fence holds the destination: no jobs yet.
    pub(crate) held: bool,
    /// Units failed to decode alone: starts again as a stream when all is back.
    pub(crate) restart: bool,
    /// The application supplies memory.
    pub(crate) supplying: bool,
    windows: VecDeque<Window>,
    /// The windows whose memory it has, those of jobs included, and who frees them.
    held_windows: Held,
    pub(crate) class: Class,
    /// Its jobs need the application: a codec of its own may keep them, or blocks are elsewhere.
    pub(crate) needs_application: bool,
    /// Its timeout has passed, or it ended, while something of it was out.
    pub(crate) overdue: bool,
    /// It had to open its file again when its turn for staging came: if its class is ordinary, it
    /// keeps it open until it has its window.
    pub(crate) keeps_file: bool,
    front_serial: u64,
    /// Windows whose memory jobs have.
    windows_out: usize,
    /// Stored bytes for which windows were made.
    windowed: u64,
    /// The first block of the table that is in no window yet.
    next_block: usize,
    headroom: usize,
    window_bytes: u64,
    /// Rest of the last window that was not cut, to be put before the next.
    carry: Vec<u8>,
    memory: Option<RawMemory>,
    /// Raw bytes of a stream of unknown size, until memory is found for them.
    growing: Option<Growing>,
    /// Raw bytes to skip in front, and to land.
    trim: Option<(u64, u64)>,
    /// Bytes of one operation, and a window's share of staging.
    block_bytes: u64,
    share: u64,
    /// Bytes counted in the budget of gated destinations.
    pub(crate) gated_bytes: u64,
}

#[expect(
    unsafe_code,
    reason = "the engine moves to its thread together with the addresses it keeps"
)]
// SAFETY: the address is used by the owner of the request: one thread at a time.
unsafe impl Send for Staged {}

impl Staged {
    /// Checks the request, and lays its windows out. `in_memory`: stored bytes need no window.
    pub(crate) fn new(
        codec: CodecId,
        (table, decoder): (Option<Arc<BlockTable>>, Option<Arc<dyn RequestDecoder>>),
        (stored_len, declared, raw_len_max): (u64, Option<u64>, u64),
        in_memory: bool,
        (capacity, block_bytes): (u64, u64),
        codecs: &Codecs,
    ) -> Result<Staged, Error> {
        let raw_len = match &table {
            Some(table) => Some(check_table(table, codecs, stored_len, declared)?),
            None => {
                if decoder.is_none() {
                    check_known(codecs, codec)?;
                }
                declared
            }
        };
        let stored = codec == CodecId::STORED && table.is_none();
        if stored_len == 0 && !stored {
            return Err(Error::new(ErrorKind::Corrupt, "there are no stored bytes"));
        }
        let needs_application = match &table {
            Some(table) => {
                let mut blocks = table.blocks.iter();
                blocks.any(|block| block.external || codecs.contains_key(&block.codec.0))
            }
            None => codecs.get(&codec.0).is_some_and(|codec| !codec.is_stream),
        };
        let mut staged = Staged {
            trim: table.as_ref().and_then(|table| table.trim),
            plan: Plan::new(
                codec,
                (table, decoder),
                (if stored { Some(stored_len) } else { raw_len }, raw_len_max),
            ),
            stage: Stage::Decoding,
            stored_len,
            held: false,
            restart: false,
            supplying: false,
            windows: VecDeque::new(),
            held_windows: Held::default(),
            class: Class::Ordinary,
            needs_application,
            overdue: false,
            keeps_file: false,
            front_serial: 0,
            windows_out: 0,
            windowed: 0,
            next_block: 0,
            headroom: 0,
            window_bytes: stored_len.max(1),
            carry: Vec::new(),
            memory: None,
            growing: None,
            block_bytes,
            // Several requests share staging: a window takes at most an eighth of it (a sixteenth
            // with headroom), unless it must hold more at once.
            share: (capacity / 8).max(4096).next_power_of_two() / 2,
            gated_bytes: 0,
        };
        if !in_memory {
            staged.lay_out(codecs, capacity)?;
        }
        Ok(staged)
    }

    /// Decides the bytes of a window and of the headroom before it.
    fn lay_out(&mut self, codecs: &Codecs, capacity: u64) -> Result<(), Error> {
        let whole = |len: u64| match len + 8192 <= capacity {
            true => Ok((len, 0)),
            false => {
                let cause = "the codec needs all stored bytes at once, and staging is smaller";
                Err(Error::new(ErrorKind::Limit, cause))
            }
        };
        let (block, share, len) = (self.block_bytes, self.share, self.stored_len.max(1));
        let plain = Ok((block.min(share).min(len), 0));
        let layout = match (&self.plan.table, self.plan.codec) {
            (Some(table), _) => {
                let own = table.blocks.iter().filter(|block| !block.external);
                let longest = own.map(|block| u64::from(block.stored_len)).max();
                let window = block.min(share).max(longest.unwrap_or(0)).min(len);
                match window + 8192 <= capacity {
                    true => Ok((window, 0)),
                    false => whole(u64::MAX / 2),
                }
            }
            (None, _) if self.plan.decoder.is_some() => plain,
            (None, codec) if codec.facts().scanner.is_some() => {
                if len <= block.min(share) {
                    plain
                } else {
                    let most = limits::UNIT_WINDOW_BYTES as u64;
                    let window = if len >= 8 * most { most } else { block };
                    let window = window.min(share / 2).max(4096).min(len);
                    Ok((window, most.min(share / 2).max(4096) & !4095))
                }
            }
            (None, codec) => match codecs.get(&codec.0) {
                Some(codec) if !codec.is_stream => whole(len),
                None if codec != CodecId::STORED && codec.facts().stream.is_none() => whole(len),
                _ => plain,
            },
        };
        let (window_bytes, headroom) = layout?;
        self.window_bytes = window_bytes;
        self.headroom = usize::try_from(headroom).unwrap_or(usize::MAX);
        Ok(())
    }

    /// Bytes of staging that its windows may take before any of them is decoded.
    pub(crate) fn bytes_ahead(&self) -> u64 {
        let windows = match self.plan.is_decided() {
            true => limits::WINDOWS_AHEAD as u64,
            false => 1,
        };
        let bytes = self.window_bytes.saturating_mul(windows);
        bytes.min(self.stored_len) + self.headroom as u64 + 8192
    }

    /// Raw bytes that land: all, unless they are trimmed. `None` before the first window.
    pub(crate) fn landed_len(&self) -> Option<u64> {
        self.trim.map(|(_, take)| take).or(self.plan.raw_len)
    }

    /// Raw bytes in all, and those to skip in front.
    pub(crate) fn raw_and_skip(&self) -> (u64, u64) {
        let skip = self.trim.map_or(0, |(skip, _)| skip);
        (self.plan.raw_len(), skip)
    }

    /// Whether operations are still to be issued for its newest window.
    pub(crate) fn has_open_window(&self) -> bool {
        self.windows.back().is_some_and(Window::is_open)
    }

    /// Whether a window was made.
    pub(crate) fn has_begun(&self) -> bool {
        self.windowed > 0 || self.next_block > 0
    }

    /// Whether operations for all stored bytes were issued.
    pub(crate) fn is_read(&self) -> bool {
        self.windowed == self.stored_len && !self.has_open_window()
    }

    /// How the open window is read.
    pub(crate) fn open_via(&self) -> Option<Via> {
        let window = self.windows.back().filter(|window| window.is_open());
        window.map(|window| window.via)
    }

    /// How to serve the request now that the scheduler picked it.
    pub(crate) fn serve(&self) -> Serve {
        if self.restart {
            return Serve::Leave;
        }
        if self.has_open_window() {
            return Serve::Fill;
        }
        if !self.wants_window() {
            return Serve::Leave;
        }
        let (at, len) = self.next_window();
        Serve::Window(at, len)
    }

    /// The stored bytes of the next window: first byte, relative to the request, and length.
    fn next_window(&self) -> (u64, u64) {
        let left = self.stored_len - self.windowed;
        let Some(table) = &self.plan.table else {
            return (self.windowed, self.window_bytes.min(left));
        };
        let mut own = table.blocks[self.next_block..]
            .iter()
            .filter(|block| !block.external)
            .map(|block| block.stored_offset..block.stored_offset + u64::from(block.stored_len));
        match own.next() {
            Some(first) => {
                let whole = own.take_while(|next| next.end - first.start <= self.window_bytes);
                let end = whole.last().map_or(first.end, |last| last.end);
                (first.start, end - first.start)
            }
            // All blocks are elsewhere: the window is only what leads to them.
            None => (self.windowed, self.window_bytes.min(left)),
        }
    }

    /// Whether stored bytes are left for another window, and there may be one.
    fn wants_window(&self) -> bool {
        self.windowed < self.stored_len
            && self.windows.len() + self.windows_out < limits::WINDOWS_AHEAD
            && (self.plan.is_decided() || self.windows.is_empty())
    }

    /// Bytes of staging for the next window, which [`Serve::Window`] asked for. `align` is the
    /// logical block of a direct read, else 1.
    pub(crate) fn window_room(&self, (at, len): (u64, u64), offset: u64, align: u64) -> usize {
        let lead = (offset + at) % align;
        let span = (lead + len).next_multiple_of(align);
        self.headroom_at(at) + usize::try_from(span).expect("no longer than staging")
    }

    fn headroom_at(&self, at: u64) -> usize {
        if at == 0 { 0 } else { self.headroom }
    }

    /// Adds the next window, in memory of [`Staged::window_room`] bytes.
    pub(crate) fn add_window(
        &mut self,
        memory: WindowMemory,
        (at, len): (u64, u64),
        offset: u64,
        via: Via,
        align: u64,
    ) {
        let lead = (offset + at) % align;
        // Windows end aligned, so that no later one has a lead; those of tables end with a block.
        let end = offset + at + len;
        let last = at + len == self.stored_len || self.plan.table.is_some();
        let aligned_end = end / align * align;
        let len = match last || aligned_end <= offset + at {
            true => len,
            false => aligned_end - (offset + at),
        };
        self.windowed = at + len;
        if let Some(table) = &self.plan.table {
            let mut rest = table.blocks[self.next_block..].iter();
            let behind = |block: &spec::Block| !block.external && block.stored_offset >= at + len;
            match rest.position(behind) {
                Some(count) => self.next_block += count,
                // No stored bytes are needed any more.
                None => self.windowed = self.stored_len,
            }
        }
        self.held_windows.add(Held::of(&memory));
        self.windows.push_back(Window {
            memory: Filled::Filling(memory),
            start: self.headroom_at(at) + usize::try_from(lead).expect("less than a block"),
            len: usize::try_from(len).expect("no longer than staging"),
            stored_at: at,
            via,
            issued: 0,
            operations: 0,
        });
    }

    /// Changes the class of the request, and of its windows.
    pub(crate) fn set_class(&mut self, id: Id, class: Class, staging: &mut Staging) {
        if self.class != class {
            staging.reclass(id, self.held_windows, self.class, class);
            self.class = class;
        }
    }

    /// Adds stored bytes in memory as one window.
    pub(crate) fn add_memory(&mut self, stored: Stored) {
        let len = stored.as_slice().len();
        self.windowed = self.stored_len;
        self.windows.push_back(Window {
            memory: Filled::Ready(JobSource::Memory(stored)),
            start: 0,
            len,
            stored_at: 0,
            via: Via::Buffered,
            issued: len as u64,
            operations: 0,
        });
    }

    /// The next operation of the open window: at most `most` bytes; from the page cache, one copy.
    pub(crate) fn fill(&mut self, most: u64) -> Fill {
        let serial = self.front_serial + self.windows.len() as u64 - 1;
        let window = self.windows.back_mut().expect("a window is open");
        let (lead, total) = (window.lead(), window.total());
        let data = window.start - usize::try_from(lead).expect("less than a page");
        let Filled::Filling(memory) = &mut window.memory else {
            unreachable!("only windows being filled are open")
        };
        let pointer = memory.pointer();
        let within = usize::try_from(window.issued).expect("within the window");
        let most = match window.via {
            Via::CachedCopy => most.min(limits::COPY_BLOCK_BYTES),
            _ => most,
        };
        let need = (total - window.issued).min(most);
        let fill = Fill {
            at: (window.stored_at + window.issued).cast_signed() - lead.cast_signed(),
            pointer: pointer.wrapping_add(data + within),
            need,
            via: window.via,
            serial,
            last: window.issued + need == total,
        };
        window.issued += need;
        window.operations += 1;
        fill
    }

    pub(crate) fn operation_back(&mut self, serial: u64) {
        // A restart waits for all operations, so the window is still here.
        let place = usize::try_from(serial - self.front_serial).expect("a window's place");
        let window = &mut self.windows[place];
        assert!(window.operations > 0, "a window counts its operations");
        window.operations -= 1;
    }

    pub(crate) fn set_memory(&mut self, memory: RawMemory) {
        assert!(self.memory.is_none(), "memory lands once");
        self.memory = Some(memory);
    }

    /// Sets where a stream of unknown size lands: in memory of the caller, or in memory that grows.
    pub(crate) fn set_memory_unknown(
        &mut self,
        callers: Option<(*mut u8, u64)>,
        pool: &Arc<BufferPool>,
    ) -> Result<(), Error> {
        let (declared, raw_len_max) = (self.plan.declared, self.plan.raw_len_max);
        if let Some((base, room)) = callers {
            check_room(declared.unwrap_or(0), room)?;
            self.plan.raw_len_max = room;
            self.set_memory(RawMemory {
                base,
                gathered: None,
                device: None,
            });
            return Ok(());
        }
        self.plan.raw_len_max = u64::MAX;
        let growing = Growing::new(pool, declared, self.stored_len, raw_len_max)?;
        self.growing = Some(growing);
        Ok(())
    }

    /// Returns the size of a stream that was unknown before it ended.
    pub(crate) fn found_len(&self) -> Option<usize> {
        let found = self.plan.raw_len.filter(|_| self.plan.is_found);
        found.and_then(|len| usize::try_from(len).ok())
    }

    /// Takes the raw bytes of a stream whose size was unknown.
    pub(crate) fn take_grown(&mut self) -> Option<Buffer> {
        self.growing.take().map(Growing::into_buffer)
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Turns complete windows into jobs; returns what the request needs next.
    pub(crate) fn advance(&mut self, context: &mut Context<'_>) -> Result<Step, Error> {
        let outside = context.operations + context.jobs_out;
        let mut given = 0;
        loop {
            if self.restart {
                self.give_back_idle(context.staging);
                return match outside + given == 0 {
                    true => {
                        self.restart_as_stream();
                        Ok(Step::More)
                    }
                    false => Ok(Step::Wait),
                };
            }
            if self.held || self.supplying {
                return Ok(Step::Wait);
            }
            let ready = self.windows.front();
            let ready = ready.is_some_and(|window| window.operations == 0 && !window.is_open());
            if self.stage != Stage::Decoding || !ready || self.plan.is_away() {
                break;
            }
            if let Some(step) = self.decide(context)? {
                return Ok(step);
            }
            let before = context.jobs.len();
            self.take_window(context)?;
            given += (context.jobs.len() - before) as u32;
        }
        if self.wants_window() {
            return Ok(Step::More);
        }
        if self.windowed < self.stored_len || !self.windows.is_empty() || outside + given > 0 {
            return Ok(Step::Wait);
        }
        if self.memory.is_none() && self.stage == Stage::Decoding {
            // Stored bytes of length 0, or a stream whose size is known only now.
            self.plan.check_complete(self.stored_len)?;
            return Ok(Step::Land(self.plan.raw_len()));
        }
        self.next_stage(context)
    }

    /// Decides how the first window is decoded; the memory for it comes next.
    fn decide(&mut self, context: &Context<'_>) -> Result<Option<Step>, Error> {
        if !self.plan.is_decided() {
            let window = self.windows.front().expect("looked at by the caller");
            let view = view(window, self.stored_len);
            self.plan.decide(context.codecs, &view, self.stored_len)?;
        }
        let land = || self.landed_len().map_or(Step::LandUnknown, Step::Land);
        Ok((self.memory.is_none() && self.growing.is_none()).then(land))
    }

    /// Turns the first window, which is complete, into jobs.
    fn take_window(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        self.front_serial += 1;
        let mut window = self.windows.pop_front().expect("looked at by the caller");
        if !self.put_carry(&mut window) {
            self.discard(window, context.staging);
            self.restart = true;
            return Ok(());
        }
        let raw_len = self.plan.raw_len();
        let last = window.stored_at + window.len as u64 == self.stored_len;
        match &mut self.plan.mode {
            Mode::Undecided => unreachable!("decided before"),
            Mode::Stream(decoder) => {
                let decoder = decoder.take().expect("looked at by the caller");
                let made = self.plan.raw_given;
                let (start, len) = (window.start, window.len);
                let raw = match self.growing.take() {
                    Some(growing) => StreamRaw::Growing(growing),
                    None => StreamRaw::Lent(self.lent(made, raw_len - made)),
                };
                let source = self.ready(window);
                let task = Task::Stream {
                    decoder,
                    source,
                    start,
                    len,
                    raw,
                    last,
                };
                context.give(task);
                Ok(())
            }
            Mode::Copy | Mode::Whole => {
                let bytes = match self.plan.mode {
                    Mode::Copy => window.len as u64,
                    _ => raw_len,
                };
                let part = Piece {
                    codec: self.plan.codec,
                    start: 0,
                    len: window.len,
                    raw_start: self.plan.take_raw(bytes)?,
                    raw_len: bytes,
                    method: self.plan.method_of(context.codecs, self.plan.codec),
                    block: None,
                };
                self.give_parts(window, vec![part], context);
                Ok(())
            }
            Mode::Table(_) | Mode::Units(_) => self.cut_window(window, context),
        }
    }

    /// Puts the rest of the window before in front of this one's bytes; false: there is no room for
    /// it, and the stored bytes must be decoded as a stream.
    fn put_carry(&mut self, window: &mut Window) -> bool {
        let carried = self.carry.len();
        if carried == 0 {
            return true;
        }
        let Filled::Filling(memory) = &mut window.memory else {
            unreachable!("stored bytes in memory are one window")
        };
        if carried > window.start {
            return false;
        }
        let front = window.start - carried;
        memory.as_mut_slice()[front..window.start].copy_from_slice(&self.carry);
        self.carry.clear();
        window.start = front;
        window.len += carried;
        window.stored_at -= carried as u64;
        true
    }

    fn cut_window(&mut self, window: Window, context: &mut Context<'_>) -> Result<(), Error> {
        let mut parts = Vec::new();
        let view = view(&window, self.stored_len);
        match self.plan.cut(context.codecs, &view, &mut parts) {
            Ok(taken) => {
                let rest = &view.bytes[taken..];
                let room = self.carry.try_reserve(rest.len());
                if room.and(context.jobs.try_reserve(parts.len())).is_err() {
                    self.discard(window, context.staging);
                    return Err(no_memory());
                }
                // Empty: what the window before left is in front of this one's bytes.
                self.carry.extend_from_slice(rest);
                self.give_parts(window, parts, context);
                Ok(())
            }
            Err(NotCut::AsStream) => {
                self.discard(window, context.staging);
                self.restart = true;
                Ok(())
            }
            Err(NotCut::Failed(error)) => {
                self.discard(window, context.staging);
                Err(error)
            }
        }
    }

    fn give_parts(&mut self, window: Window, parts: Vec<Piece>, context: &mut Context<'_>) {
        let start = window.start;
        let source = self.ready(window);
        let table = self.plan.table.clone();
        let external = table.as_ref().and_then(|table| table.source.as_ref());
        for part in parts {
            let outside = part.block.filter(|block| block.external);
            let (source, at) = match (outside, external) {
                (Some(block), Some(external)) => {
                    let external = Arc::clone(external);
                    (JobSource::External(external, block.stored_offset, None), 0)
                }
                _ => (source.clone(), start + part.start),
            };
            let offset = context.offset;
            let block = part.block.map(|block| BlockPlace {
                offset: match block.external {
                    true => block.stored_offset,
                    false => offset + block.stored_offset,
                },
                checksum: block.checksum,
            });
            let task = DecodeTask {
                codec: part.codec,
                method: self.method_for(&part),
                source,
                start: at,
                len: part.len,
                raw: self.lent(part.raw_start, part.raw_len),
                user_data: context.user_data,
                block,
            };
            context.give(Task::Decode(task));
        }
        self.give_back(source, context.staging);
    }

    /// How a part is decoded, or that a device takes it.
    fn method_for(&self, part: &Piece) -> Method {
        let memory = self.memory.as_ref().expect("memory came before jobs");
        match (&memory.device, &memory.gathered) {
            (Some(sink), None) => Method::Device(DevicePlace {
                sink: Arc::clone(sink),
                form: match part.method {
                    Method::Copy => PartForm::Raw,
                    Method::Unit(_) => PartForm::Tile,
                    _ => PartForm::Encoded(part.codec),
                },
                raw: part.raw_start..part.raw_start + part.raw_len,
            }),
            _ => part.method.clone(),
        }
    }

    /// Whether a device can take every part as it is stored. Asked once the plan is decided.
    pub(crate) fn suits(&self, sink: &dyn DeviceSink) -> bool {
        let decodes = |codec| codec == CodecId::STORED || sink.decodes(codec);
        let codec = self.plan.codec;
        let table = self.plan.table.as_ref();
        self.trim.is_none()
            && self.plan.decoder.is_none()
            && match &self.plan.mode {
                Mode::Undecided | Mode::Stream(_) => false,
                Mode::Copy => true,
                Mode::Whole => decodes(codec),
                Mode::Units(_) => codec == CodecId::GDEFLATE && decodes(codec),
                // Of external blocks see `limits::OTHER_BLOCK_BYTES_MAX`.
                Mode::Table(_) => table.is_some_and(|table| {
                    let mut blocks = table.blocks.iter();
                    blocks.all(|block| !block.external && decodes(block.codec))
                }),
            }
    }

    /// A range of the destination, for one job.
    fn lent(&self, start: u64, len: u64) -> Lent {
        let memory = self.memory.as_ref().expect("memory came before jobs");
        let len = usize::try_from(len).expect("inside the destination");
        Lent::new(moved(memory.base, start), len)
    }

    /// Makes a window's memory readable by jobs.
    fn ready(&mut self, window: Window) -> JobSource {
        match window.memory {
            Filled::Filling(memory) => {
                self.windows_out += 1;
                JobSource::Window(Arc::new(memory))
            }
            Filled::Ready(source) => source,
            Filled::Given => unreachable!("what was given back has no jobs"),
        }
    }

    fn discard(&mut self, window: Window, staging: &mut Staging) {
        if let Filled::Filling(memory) = window.memory {
            staging.give(memory, &mut self.held_windows, self.class);
        }
    }

    /// Drops one holder of a window's memory; the last gives it back.
    pub(crate) fn give_back(&mut self, source: JobSource, staging: &mut Staging) {
        if let JobSource::Window(memory) = source
            && let Some(memory) = Arc::into_inner(memory)
        {
            staging.give(memory, &mut self.held_windows, self.class);
            self.windows_out -= 1;
        }
    }

    /// Gives back the windows that no operation fills: they will be read anew, or not be needed.
    pub(crate) fn give_back_idle(&mut self, staging: &mut Staging) {
        let idle = self.windows.iter_mut().filter(|one| one.operations == 0);
        for window in idle {
            if let Filled::Filling(memory) = std::mem::replace(&mut window.memory, Filled::Given) {
                staging.give(memory, &mut self.held_windows, self.class);
            }
        }
    }

    /// Takes back a job: its window and its outcome.
    pub(crate) fn job_back(
        &mut self,
        outcome: JobOutcome,
        source: Option<JobSource>,
        staging: &mut Staging,
    ) -> Result<(), Error> {
        if let Some(source) = source {
            self.give_back(source, staging);
        }
        match outcome {
            JobOutcome::NotAlone => {
                self.restart = true;
                Ok(())
            }
            JobOutcome::Streamed(decoder, raw, result) => {
                if let StreamRaw::Growing(growing) = raw {
                    self.growing = Some(growing);
                }
                self.plan.streamed(decoder, result)
            }
            JobOutcome::Done(result) => result,
            JobOutcome::Supplied(result) => result.map(drop),
        }
    }

    fn restart_as_stream(&mut self) {
        self.front_serial += self.windows.len() as u64;
        self.windows.clear();
        let none = Held::default();
        assert_eq!(self.held_windows, none, "a restart waits for everything");
        self.plan.restart();
        self.restart = false;
        self.windowed = 0;
        self.headroom = 0;
        self.window_bytes = self.block_bytes.min(self.share).min(self.stored_len);
        self.carry = Vec::new();
        // A device that was given units gets the stream's raw bytes at the end, from memory here.
        self.memory = self.memory.take().filter(RawMemory::is_here);
    }

    /// All raw bytes are given out and all jobs are back: what remains is checked and done.
    fn next_stage(&mut self, context: &mut Context<'_>) -> Result<Step, Error> {
        if self.stage == Stage::Decoding {
            self.plan.check_complete(self.stored_len)?;
            self.stage = Stage::Verifying;
            let is_here = self.memory.as_ref().is_some_and(RawMemory::is_here);
            let mode = &mut self.plan.mode;
            if is_here
                && matches!(mode, Mode::Units(_))
                && let Mode::Units(scanner) = std::mem::replace(mode, Mode::Copy)
            {
                let raw = self.lent(0, self.plan.raw_len());
                context.give(Task::Verify(scanner, raw));
                return Ok(Step::Wait);
            }
        }
        if self.stage == Stage::Verifying {
            self.stage = Stage::Delivering;
            let memory = self.memory.as_ref();
            if memory.is_some_and(|memory| memory.gathered.is_some()) {
                // The engine makes the job: it knows the memory.
                return Ok(Step::Done);
            }
            self.stage = Stage::Landed;
        }
        if self.stage == Stage::Landed {
            self.stage = Stage::Finished;
            if let Some(task) = self.last_part(context.user_data) {
                context.give(task);
                return Ok(Step::Wait);
            }
        }
        Ok(Step::Done)
    }

    /// The last part of a request, for a device that wants it.
    fn last_part(&self, user_data: u64) -> Option<Task> {
        let sink = self.memory.as_ref()?.device.as_ref()?;
        // After a panic it is given the part, which can fail the request.
        guard(|| sink.wants_last()).unwrap_or(true).then_some(())?;
        let landed = self.landed_len().unwrap_or(0);
        let place = DevicePlace {
            sink: Arc::clone(sink),
            form: PartForm::Last,
            raw: 0..landed,
        };
        let nothing = Stored::Shared(Arc::from([]));
        Some(device_task(place, nothing, (0, 0), user_data))
    }

    /// Whether raw bytes were gathered, and are still to be delivered.
    pub(crate) fn is_gathered(&self) -> bool {
        self.stage == Stage::Delivering
    }

    /// Moves raw bytes that were gathered to their destination: a device, or `to`.
    pub(crate) fn deliver(&mut self, user_data: u64, to: Lent) -> Task {
        self.stage = Stage::Landed;
        let (raw_len, skip) = self.raw_and_skip();
        let shown = self.landed_len().unwrap_or(raw_len);
        let memory = self.memory.as_mut().expect("it was gathered there");
        let Some(sink) = memory.device.clone() else {
            return Task::Move(self.lent(skip, shown), to);
        };
        let gathered = memory.gathered.take().expect("looked at by the caller");
        let place = DevicePlace {
            sink,
            form: PartForm::Raw,
            raw: 0..shown,
        };
        let stored = Stored::Buffer(Arc::new(gathered));
        device_task(place, stored, (skip as usize, shown as usize), user_data)
    }

    /// Gives its windows back; all operations and jobs are back.
    pub(crate) fn release(mut self: Box<Self>, staging: &mut Staging) {
        for window in std::mem::take(&mut self.windows) {
            self.discard(window, staging);
        }
        // The decoder and the block source are the application's.
        let _ = guard(|| drop(self));
    }
}

impl Context<'_> {
    fn give(&mut self, task: Task) {
        let task = JobTask::new(self.request, self.priority, self.class, task);
        self.jobs.push(task);
    }
}

/// A task that gives a device `len` bytes in memory, from `start` on.
fn device_task(
    place: DevicePlace,
    stored: Stored,
    (start, len): (usize, usize),
    user_data: u64,
) -> Task {
    Task::Decode(DecodeTask {
        codec: CodecId::STORED,
        method: Method::Device(place),
        source: JobSource::Memory(stored),
        start,
        len,
        raw: Lent::new(std::ptr::null_mut(), len),
        user_data,
        block: None,
    })
}

/// Fails unless memory has room for the bytes that must land in it.
pub(crate) fn check_room(landed: u64, room: u64) -> Result<(), Error> {
    if landed <= room {
        return Ok(());
    }
    let cause = format!("{landed} bytes must land, and the destination has room for {room}");
    Err(Error::new(ErrorKind::DestinationTooSmall, cause))
}

fn view(window: &Window, stored_len: u64) -> View<'_> {
    View {
        bytes: window.bytes(),
        stored_at: window.stored_at,
        last: window.stored_at + window.len as u64 == stored_len,
    }
}

/// `pointer` moved forward within its memory.
pub(crate) fn moved(pointer: *mut u8, by: u64) -> *mut u8 {
    pointer.wrapping_add(usize::try_from(by).expect("inside the memory"))
}

/// Whether a task is a copy that the engine makes itself: handing it to a worker costs more.
pub(crate) fn is_inline(task: &JobTask) -> bool {
    match &task.task {
        Task::Decode(task) => {
            matches!(task.method, Method::Copy)
                && task.block.is_none()
                && task.len <= limits::INLINE_COPY_BYTES_MAX
        }
        _ => false,
    }
}
