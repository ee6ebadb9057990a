//! Issuing: the scheduler's picks become operations.
//!
//! A request whose newest window of staging is open (not all of its operations are issued) is
//! pinned: the first of its priority, and held back by no pause and no bandwidth. Only its own
//! operations can complete the window, and only a complete window is decoded and freed. Behind a
//! request that waits for staging, it would wait for itself. The same holds for an append under way
//! (`appends.rs`): others wait for its end.

use millstream_codec::CodecId;
use millstream_io::error::guard;
use millstream_io::fs::mostly;
use millstream_io::{Access, Descriptor, Segment, Verb as IoVerb};

use super::Engine;
use super::columns::{flag, held_key, push_waiting, staged_of};
use crate::caller::destination::{Memory, MemoryKind};
use crate::caller::request::{Body, Verb, Work};
use crate::caller::waits::WaitsFor;
use crate::decode::jobs::Task;
use crate::engine::files::{Direct, File};
use crate::engine::route::{self, AskCache, Cache, FileFacts, Hits, Layout, ReadFacts, Route, Via};
use crate::engine::staged::{Serve, Staged, moved};
use crate::engine::staging::Class;
use crate::engine::state::Event;
use crate::engine::transfers::{Block, Lane, NO_WINDOW};
use crate::error::{Error, ErrorKind};
use crate::ids::Id;
use crate::limits;
use crate::priority::{Priorities, Priority};

/// The outcome of a pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issue {
    /// A block was issued; the request still waits if it has more.
    Issued,
    /// The request left what it waited in.
    Left,
    /// What it needs now, a place in a device or room in staging, is taken.
    Full,
}

/// How the next block of a request is read or written.
enum Planned {
    /// Into the memory of the request; the block covers this many bytes of the range.
    Plain(Block, u64),
    /// The whole request goes through staging.
    Staged,
}

/// Whether the main device takes no more operations, and whether copies do not.
type Full = (bool, bool);
/// An open file: its descriptor through the page cache, and the one past it.
type Ways<'a> = (&'a FileFacts, Descriptor, Option<Descriptor>);
const NOT_FULL: Full = (false, false);

impl Engine {
    /// Serves requests as long as devices and bounds allow; returns whether any was served.
    pub(super) fn issue_all(&mut self) -> bool {
        let mut worked = self.issue_from_memory();
        worked |= self.serve_waiters();
        let (mut skip, mut raises) = (Priorities::default(), true);
        while self.scheduler.has_waiting() {
            let (now_ns, rate) = (self.now_ns, self.rate.bytes_per_second);
            // What fills a window is served for the first that waits for staging.
            let waits = self.staging.first_priority().filter(|_| raises);
            let raised = waits.and_then(|priority| {
                let pinned = self.scheduler.pinned_below(priority, now_ns, rate);
                Some((pinned?, priority))
            });
            let picked = raised.or_else(|| self.scheduler.pick(now_ns, rate, skip));
            let Some((index, priority)) = picked else {
                break;
            };
            if self.is_held(index) {
                // It has let its file go: the next round may begin another open.
                worked = true;
                continue;
            }
            let full = self.full();
            let issue = match full != NOT_FULL && self.is_likely_full(index) {
                true => Issue::Full,
                false => self.issue(index, priority, full),
            };
            match issue {
                // What it waits for now, an open perhaps, is begun by the next round.
                Issue::Issued | Issue::Left => worked = true,
                Issue::Full if raised.is_some() => raises = false,
                Issue::Full => skip.insert(priority),
            }
        }
        worked
    }

    /// Whether the main device takes no more operations, and whether copies do not.
    #[inline(always)]
    fn full(&self) -> Full {
        let transfers = &self.transfers;
        let main = transfers.out_in(Lane::Main) + transfers.out_in(Lane::Blocking);
        (
            main >= self.lanes.depth(),
            transfers.out_in(Lane::Cached) >= limits::COPIES_MAX
                || transfers.copy_bytes() >= limits::COPIES_BYTES_MAX,
        )
    }

    /// Whether the lane of a block is full. Mounts that can hang have bounds of their own.
    #[inline(always)]
    pub(super) fn is_full(&mut self, file: u32, lane: Lane) -> bool {
        match (self.full(), lane) {
            (NOT_FULL, _) => false,
            ((_, copies), Lane::Cached) => copies,
            ((main, _), _) => main && !(self.lanes.slow_apart && self.files.at(file).can_hang()),
        }
    }

    /// Whether the lane is full that the next block of a request most likely goes to: it is not
    /// looked at further then.
    #[cold]
    fn is_likely_full(&mut self, index: u32) -> bool {
        let file = self.side.peek(index).file.0.index();
        let open = self.staged(index).and_then(Staged::open_via);
        let is_hit = || self.files.peek_at(file).streak.view() == Hits::Trusted;
        let copies = match open {
            Some(via) => via == Via::CachedCopy,
            None => !self.lanes.is_modeled() && is_hit(),
        };
        let writes = self.cols[index as usize].verb.writes();
        let lane = match copies && !writes {
            true => Lane::Cached,
            false => Lane::Main,
        };
        self.is_full(file, lane)
    }

    /// Hands stored bytes in memory to workers: such requests wait for workers alone, and not
    /// behind reads of their priority that wait for a device.
    fn issue_from_memory(&mut self) -> bool {
        let mut worked = false;
        let mut skip = Priorities::default();
        while self.memory_scheduler.has_waiting() {
            let rate = self.rate.bytes_per_second;
            let picked = self.memory_scheduler.pick(self.now_ns, rate, skip);
            let Some((index, priority)) = picked else {
                break;
            };
            if self.is_held(index) {
                continue;
            }
            self.update_class(index);
            // Jobs of others than the library end when those like: they wait in no list of ours.
            let is_ours = staged_of(&mut self.extras, index).class == Class::Ordinary;
            if is_ours && self.staging.library_jobs() >= limits::JOBS_MAX {
                skip.insert(priority);
                continue;
            }
            worked = true;
            self.memory_scheduler.served(index, priority, 0);
            let stored = match self.rare(index).map(|rare| &rare.work) {
                Some(Work::Memory(stored)) => stored.clone(),
                _ => unreachable!("stored bytes are in memory"),
            };
            self.leave(index, Event::Issued);
            staged_of(&mut self.extras, index).add_memory(stored);
            let flow = self.advance(index);
            self.follow(index, flow);
        }
        worked
    }

    /// Whether a request's queue is paused or out of bandwidth: it is taken out of the scheduler.
    #[inline(always)]
    pub(super) fn is_held(&mut self, index: u32) -> bool {
        self.queues.are_limited() && self.hold_back(index)
    }

    #[cold]
    fn hold_back(&mut self, index: u32) -> bool {
        let begun = self.cols[index as usize].issued > 0;
        if !self.is_limited_now(index) || self.has_open_window(index) {
            return false;
        }
        let holds_end = self.holds_end(index);
        if holds_end && begun {
            return false;
        }
        self.leave(index, Event::Hold);
        self.hold(index);
        if holds_end {
            // A length that it has asked for is of no use when others have appended.
            self.cols[index as usize].flags &= !flag::ASKED;
            self.give_turn_on(index);
        }
        true
    }

    /// Whether the queue of a request is paused or out of bandwidth, or holds back an earlier one.
    pub(super) fn is_limited_now(&mut self, index: u32) -> bool {
        let col = &self.cols[index as usize];
        let key = held_key(col.priority, col.arrival);
        let state = self.queues.state(u32::from(col.queue));
        let first = state.held.first_key_value();
        state.paused
            || state.held_until(self.now_ns).is_some()
            || first.is_some_and(|(first, _)| *first < key)
    }

    /// Has a request wait for its queue's pause or bandwidth to end.
    pub(super) fn hold(&mut self, index: u32) {
        let (id, col) = (self.id(index), &self.cols[index as usize]);
        let (queue, key) = (u32::from(col.queue), held_key(col.priority, col.arrival));
        let state = self.queues.state(queue);
        let until = state.held_until(self.now_ns);
        let cause = match state.paused {
            true => WaitsFor::Pause,
            false => WaitsFor::Bandwidth,
        };
        let first = state.held.is_empty();
        state.held.insert(key, id);
        if let Some(at) = until
            && first
        {
            self.holds.remove(queue);
            self.holds.insert(at, 0, queue);
        }
        self.detach_file(index);
        self.waits(index, cause);
        self.pass_place_of(index);
    }

    /// Takes a request out of the scheduler.
    #[inline]
    pub(super) fn leave(&mut self, index: u32, event: Event) {
        let was_in = self.unschedule(index);
        assert!(was_in, "a pick is in its scheduler");
        self.cols[index as usize].state.on(event);
    }

    /// Fails a request that was picked.
    pub(super) fn fail(&mut self, index: u32, error: Error) -> Issue {
        let flow = self.end_wanted(index, error);
        self.follow(index, flow);
        Issue::Left
    }

    #[inline]
    fn issue(&mut self, index: u32, priority: Priority, full: Full) -> Issue {
        let (head, body) = self.side.look(index);
        let file = body.file.0.index();
        if self.files.at(file).can_hang() && self.waits_for_mount(index, file) {
            return Issue::Left;
        }
        if head.verb == Verb::Append {
            return self.issue_append(index, priority);
        }
        if self.staged(index).is_some() {
            return self.issue_staged(index, &body, priority);
        }
        let plan = match head.verb.writes() {
            true => {
                let (block, bytes) = self.plan_write(index, &body, priority);
                Ok(Planned::Plain(block, bytes))
            }
            false => self.plan_read(index, head.memory, &body, priority),
        };
        match plan {
            Ok(Planned::Plain(block, _))
                if full != NOT_FULL && self.is_full(block.file, block.lane) =>
            {
                Issue::Full
            }
            Ok(Planned::Plain(block, covers)) => {
                self.push_plain(index, block, covers);
                Issue::Issued
            }
            // Memory that is not aligned for direct reads: the whole request goes through staging.
            Ok(Planned::Staged) => match self.add_staged(index, CodecId::STORED, false) {
                Ok(_) => self.issue_staged(index, &body, priority),
                Err(error) => self.fail(index, error),
            },
            Err(issue) => issue,
        }
    }

    /// Whether its file is on a mount that can hang, which has no room for another operation: then
    /// the request waits.
    #[inline(always)]
    pub(super) fn is_kept_by_mount(&mut self, index: u32) -> bool {
        let file = self.side.peek(index).file.0.index();
        self.files.at(file).can_hang() && self.waits_for_mount(index, file)
    }

    #[cold]
    fn waits_for_mount(&mut self, index: u32, file: u32) -> bool {
        let id = self.id(index);
        let Some(waiting) = self.files.full_mount(file) else {
            return false;
        };
        push_waiting(waiting, id, &self.cols);
        self.leave(index, Event::Hold);
        self.waits(index, WaitsFor::Mount);
        // With a window open it holds staging that others may wait for: it needs its file again,
        // whatever those have open.
        if self.holds_end(index) {
            // Another handle may write meanwhile: the length is asked for again.
            self.cols[index as usize].flags &= !flag::ASKED;
        } else if !self.has_open_window(index) {
            self.detach_file(index);
        }
        true
    }

    /// The next block of a write, and its bytes.
    pub(super) fn plan_write(
        &mut self,
        index: u32,
        body: &Body,
        priority: Priority,
    ) -> (Block, u64) {
        let col = &self.cols[index as usize];
        let left = col.len - col.issued;
        let bytes = left.min(self.scheduler.block_bytes(priority, self.now_ns, 1));
        let (at, pointer) = (body.offset + col.issued, moved(body.pointer, col.issued));
        (self.write_block(body, at, bytes, priority, pointer), bytes)
    }

    pub(super) fn write_block(
        &mut self,
        body: &Body,
        at: u64,
        bytes: u64,
        priority: Priority,
        pointer: *mut u8,
    ) -> Block {
        let file = body.file.0.index();
        self.files.write_begins(file);
        let descriptor = self.files.at(file).descriptor();
        let descriptor = descriptor.expect("a file with users is open");
        let layout = Layout::plain(at, bytes);
        let mut block = block_of(body, Via::Buffered, &layout, descriptor, priority, pointer);
        block.verb = IoVerb::Write;
        block
    }

    /// Routes and lays out the next block of a read.
    #[inline(always)]
    fn plan_read(
        &mut self,
        index: u32,
        kind: MemoryKind,
        body: &Body,
        priority: Priority,
    ) -> Result<Planned, Issue> {
        let col = &self.cols[index as usize];
        let (issued, len) = (col.issued, col.len);
        let at = body.offset + issued;
        let pointer = self.pointer_at(index, body, kind, issued);
        let left = len - issued;
        let bytes = left.min(self.scheduler.block_bytes(priority, self.now_ns, 1));
        let file = self.files.at(body.file.0.index());
        let facts = file.facts.expect("a file with users is open");
        let (descriptor, mut direct) = (file.descriptor(), file.direct_descriptor());
        let read = ReadFacts {
            total: len,
            at,
            bytes,
            pointer,
            slack: match (kind, pointer.is_null()) {
                (MemoryKind::Buffer, true) => has_slack(self.side.memory(index), at, len, &facts),
                (MemoryKind::Buffer, false) => true,
                (_, is_unknown) => is_unknown,
            },
            staged: false,
            borrowed: kind == MemoryKind::Borrowed,
            hits: match self.lanes.is_modeled() {
                true => Hits::Unlikely,
                false => file.streak.view(),
            },
        };
        let stageable = issued == 0 || facts.can_hang;
        let known = route_at_once(file, &read);
        let Route { via, staged } = known.unwrap_or_else(|_| self.route_by_cache(body, &read));
        let via = match via {
            _ if staged && stageable => return Ok(Planned::Staged),
            // Only whole requests are staged; an unaligned rest goes through the page cache.
            _ if staged => Via::Buffered,
            Via::Direct if direct.is_none() => {
                let via = self.open_direct(index, body.file.0.index())?;
                direct = self.files.at(body.file.0.index()).direct_descriptor();
                via
            }
            via => via,
        };
        let pointer = match pointer.is_null() {
            true => self.landed_at(index, body, via, (at, len))?,
            false => pointer,
        };
        let slack = match kind {
            MemoryKind::Buffer | MemoryKind::Pool => self.slack(index, bytes),
            _ => (0, 0),
        };
        let buffered = descriptor.expect("a file with users is open");
        let ways = (&facts, buffered, direct);
        let range = (at, left, bytes);
        Ok(self.lay_out(body, (via, ways), range, priority, (pointer, slack)))
    }

    /// Where the next block of a request lands; null before it has memory.
    #[inline(always)]
    fn pointer_at(&mut self, index: u32, body: &Body, kind: MemoryKind, issued: u64) -> *mut u8 {
        if !body.pointer.is_null() {
            return moved(body.pointer, issued);
        }
        if kind != MemoryKind::Owned {
            return std::ptr::null_mut();
        }
        let span = self.side.memory(index).span();
        let pointer = span.map_or(std::ptr::null_mut(), |span| span.pointer());
        self.side.body(index).pointer = pointer;
        pointer
    }

    /// Gives a request its buffer; returns where the range lands.
    #[inline(never)]
    fn landed_at(
        &mut self,
        index: u32,
        body: &Body,
        via: Via,
        (at, len): (u64, u64),
    ) -> Result<*mut u8, Issue> {
        let file = self.files.at(body.file.0.index());
        let masks = file.facts.and_then(|facts| facts.masks);
        let lead = match (via, masks) {
            (Via::Direct, Some((offsets, _))) => (at & offsets, offsets),
            _ => (0, 0),
        };
        match self.land(index, len, lead) {
            Ok(()) => Ok(self.side.peek(index).pointer),
            Err(error) => Err(self.fail(index, error)),
        }
    }

    /// The route of a block of a file that is open: asks what the page cache holds only if that
    /// matters.
    #[inline(always)]
    pub(super) fn route(&mut self, body: &Body, read: &ReadFacts) -> Route {
        let known = route_at_once(self.files.at(body.file.0.index()), read);
        known.unwrap_or_else(|_| self.route_by_cache(body, read))
    }

    fn route_by_cache(&mut self, body: &Body, read: &ReadFacts) -> Route {
        let cache = match self.lanes.is_modeled() {
            true => Cache::Absent,
            false => self.ask_cache(body, read),
        };
        let file = self.files.at(body.file.0.index());
        let facts = file.facts.as_ref().expect("a file with users is open");
        route::route(facts, read, cache).expect("the cache was asked")
    }

    /// What the page cache holds of a block.
    fn ask_cache(&mut self, body: &Body, read: &ReadFacts) -> Cache {
        let file = self.files.at(body.file.0.index());
        let descriptor = file.descriptor().expect("a file with users is open");
        let fs = &self.shared.fs;
        let cached = guard(|| fs.cached(descriptor, read.at, read.bytes)).flatten();
        if read.hits == Hits::Due {
            file.streak.asked(cached.map(|cached| cached >= read.bytes));
        }
        let cache = match cached {
            Some(cached) if cached >= read.bytes => return Cache::Cached,
            cached if mostly(cached, read.bytes) => return Cache::Partly,
            Some(_) => Cache::Absent,
            None => Cache::Unknown,
        };
        // A system call, so only for repeats.
        let memory = || millstream_io::limits::memory_bytes() / limits::REPEAT_MEMORY_FRACTION;
        if file.was_loaded(read.at, read.bytes) && self.repeat_bytes + read.bytes <= memory() {
            // Loaded a second time: worth its place in the page cache.
            self.repeat_bytes += read.bytes;
            return Cache::Partly;
        }
        cache
    }

    /// The direct descriptor of a file, if it is open or can be.
    #[inline(always)]
    pub(super) fn direct_or_not(&mut self, index: u32, body: &Body) -> Result<Via, Issue> {
        let file = body.file.0.index();
        match self.files.at(file).direct_descriptor() {
            Some(_) => Ok(Via::Direct),
            None => self.open_direct(index, file),
        }
    }

    #[cold]
    fn open_direct(&mut self, index: u32, file: u32) -> Result<Via, Issue> {
        let facts = self
            .files
            .at(file)
            .facts
            .expect("a file with users is open");
        let access = facts.access;
        match self.files.want_direct(file, access == Access::Direct) {
            Direct::Open(_) => Ok(Via::Direct),
            Direct::Opening => {
                let id = self.id(index);
                push_waiting(&mut self.files.at(file).waiters, id, &self.cols);
                self.leave(index, Event::NeedsFile);
                self.waits(index, WaitsFor::File);
                Err(Issue::Left)
            }
            Direct::Closed if access == Access::Direct => {
                self.files.at(file).is_short_of_direct = false;
                let cause = "no file descriptor was free for a second to read it without the cache";
                Err(self.fail(index, Error::new(ErrorKind::Limit, cause)))
            }
            _ if access == Access::Direct => {
                let cause = "the file cannot be opened for direct I/O";
                Err(self.fail(index, Error::new(ErrorKind::NoDirectIo, cause)))
            }
            _ => Ok(Via::Buffered),
        }
    }

    /// Gives a request its buffer, whose view begins `lead` bytes behind its start.
    fn land(&mut self, index: u32, len: u64, (lead, offsets): (u64, u64)) -> Result<(), Error> {
        if self.memory_kind(index) == MemoryKind::Pool {
            let span = (lead + len + offsets) & !offsets;
            let bytes = usize::try_from(span).expect("checked against the address space");
            let buffer = self.shared.buffers.take(bytes)?;
            if offsets > 0 && !self.shared.options.threads.pumped {
                buffer.touch_ahead();
            }
            self.side.set_memory(index, Memory::Buffer(buffer));
        }
        let Memory::Buffer(buffer) = self.side.memory(index) else {
            unreachable!("other memory has its address from the start")
        };
        let room = buffer.capacity() as u64;
        let lead = if lead + len <= room { lead } else { 0 };
        let (start, shown) = (lead as usize, usize::try_from(len).expect("as above"));
        buffer.set_view(start, shown);
        let pointer = moved(buffer.base(), lead);
        self.side.body(index).pointer = pointer;
        Ok(())
    }

    /// Bytes of a buffer that may be overwritten before the next block, which has `bytes` bytes, if
    /// it is the first, and behind it if it is the last.
    fn slack(&mut self, index: u32, bytes: u64) -> (u64, u64) {
        let col = &self.cols[index as usize];
        let (issued, len) = (col.issued, col.len);
        let pointer = self.side.peek(index).pointer;
        let Memory::Buffer(buffer) = self.side.memory(index) else {
            return (0, 0);
        };
        let before = (pointer.addr() - buffer.base().addr()) as u64;
        let after = buffer.capacity() as u64 - before - len;
        let (first, last) = (issued == 0, bytes == len - issued);
        (if first { before } else { 0 }, if last { after } else { 0 })
    }

    /// Lays a block out for its route, into memory with this slack.
    #[inline(always)]
    fn lay_out(
        &mut self,
        body: &Body,
        (via, (facts, descriptor, direct)): (Via, Ways<'_>),
        (at, left, bytes): (u64, u64, u64),
        priority: Priority,
        (pointer, (before, after)): (*mut u8, (u64, u64)),
    ) -> Planned {
        if let (Via::Direct, Some((offsets, addresses))) = (via, facts.masks) {
            let layout = Layout::direct(at, bytes, offsets, before, after);
            if let (Some(layout), Some(descriptor)) = (layout, direct) {
                let start = pointer.wrapping_sub(layout.lead as usize);
                if start.addr() & addresses == 0 {
                    let block = block_of(body, via, &layout, descriptor, priority, start);
                    return Planned::Plain(block, layout.covers);
                }
            }
        }
        let (via, bytes) = match via {
            Via::CachedCopy => (via, bytes.min(limits::COPY_BLOCK_BYTES)),
            _ if facts.can_hang => (Via::Buffered, bytes),
            _ => {
                let blocks = limits::BUFFERED_BLOCKS;
                let most = self.scheduler.block_bytes(priority, self.now_ns, blocks);
                (Via::Buffered, left.min(most))
            }
        };
        let layout = Layout::plain(at, bytes);
        let block = block_of(body, via, &layout, descriptor, priority, pointer);
        Planned::Plain(block, bytes)
    }

    /// Begins the operation of a block, merged with requests that follow in the file and in line.
    #[inline(always)]
    pub(super) fn push_plain(&mut self, index: u32, mut block: Block, covers: u64) {
        self.find_lane(&mut block);
        if block.direct && block.want >= limits::DIRECT_BYTES_MIN {
            let file = self.files.at(block.file);
            file.note_loaded(block.offset, block.want);
        }
        let col = &mut self.cols[index as usize];
        col.issued += covers;
        col.operations += 1;
        let complete = col.issued == col.len;
        let id = self.side.id(index, col.generation);
        if block.mount != 0 {
            self.waits(index, WaitsFor::Mount);
        }
        if complete && self.may_merge(index, &block) && self.begin_merged(index, block) {
            return;
        }
        self.count_issued(index, &block, block.want);
        self.transfers.begin(id, block, self.now_ns);
        match complete {
            true => self.leave(index, Event::Issued),
            false => self.moved_on(index),
        }
    }

    /// Counts an operation of the block's file, and of its mount if that can hang; picks the lane.
    #[inline(always)]
    pub(super) fn find_lane(&mut self, block: &mut Block) {
        block.mount = self.files.operation_began(block.file);
        if block.mount != 0 && block.lane != Lane::Cached {
            block.lane = self.slow_lane(block.mount);
        }
    }

    #[cold]
    fn slow_lane(&mut self, mount: u64) -> Lane {
        self.lanes.slow_lane(mount).unwrap_or_else(|error| {
            let text = "no threads for mounts that can hang, the main device serves them";
            self.shared.warn(format!("{text}: {error}"));
            Lane::Main
        })
    }

    /// Tells the scheduler where the next block of a request on a rotating disk is.
    fn moved_on(&mut self, index: u32) {
        if self.files.have_positions()
            && let Some(position) = self.position(index)
        {
            self.scheduler.moved(index, position);
        }
    }

    /// Counts a block as in flight, of which `own` bytes are the request's.
    #[inline(always)]
    pub(super) fn count_issued(&mut self, index: u32, block: &Block, own: u64) {
        if block.mount == 0 {
            self.scheduler
                .issued(index, block.priority, block.want, self.now_ns);
        }
        if self.queues.are_limited() {
            self.spend_bandwidth(index, own);
        }
        let counters = &self.shared.counters;
        counters.operations.add(1);
        counters.direct_operations.add(u64::from(block.direct));
    }

    /// Counts bytes of a queue with a bandwidth, and releases the next of its requests if it may.
    #[cold]
    pub(super) fn spend_bandwidth(&mut self, index: u32, bytes: u64) {
        let now_ns = self.now_ns;
        let queue = u32::from(self.cols[index as usize].queue);
        let state = self.queues.state(queue);
        let Some(bucket) = &mut state.bucket else {
            return;
        };
        bucket.spend(bytes, now_ns);
        if bucket.wait_until(now_ns).is_none()
            && !state.paused
            && let Some((_, id)) = state.held.pop_first()
        {
            self.let_go(id);
        }
    }

    /// Whether a block that is all of its request may be merged: the next in line continues it.
    #[inline(always)]
    fn may_merge(&self, index: u32, block: &Block) -> bool {
        let col = &self.cols[index as usize];
        self.shared.options.merge
            && block.verb == IoVerb::Read
            && !col.has(flag::ALONE)
            && block.mount == 0
            // The kernel reads ahead of what goes through the page cache from the disk.
            && (block.direct || block.lane == Lane::Cached)
            && col.len <= limits::MERGE_MEMBER_BYTES_MAX
            && block.want == col.len
            && self.scheduler.follower(index).is_some_and(|next| {
                let body = self.side.peek(next);
                body.offset == block.offset + block.want && body.file.0.index() == block.file
            })
    }

    /// Collects the requests that continue a block in the file, and extends the block over them.
    fn followers(&mut self, index: u32, block: &mut Block) -> Vec<(Id, u64, Segment)> {
        let mut members = vec![(self.id(index), block.want, block.memory)];
        let most = match block.lane {
            Lane::Cached => limits::COPY_BLOCK_BYTES,
            _ => limits::MERGE_BYTES_MAX,
        };
        let mut last = index;
        while members.len() < millstream_io::limits::SEGMENTS_MAX {
            let Some(next) = self.scheduler.follower(last) else {
                break;
            };
            let end = block.offset + block.want;
            let Some(memory) = self.follower(next, block, end, most - block.want) else {
                break;
            };
            let len = memory.len() as u64;
            members.push((self.id(next), len, memory));
            block.want += len;
            block.need = block.want;
            last = next;
        }
        members
    }

    /// The memory of a request that continues a block, if it can be merged with it.
    fn follower(&mut self, next: u32, block: &Block, end: u64, room: u64) -> Option<Segment> {
        let body = self.side.peek(next);
        if body.offset != end || body.file.0.index() != block.file {
            return None;
        }
        let body = *body;
        let col = &self.cols[next as usize];
        let len = col.len;
        let fits = col.verb == Verb::Read
            && col.issued == 0
            && !col.has(flag::ALONE)
            && len <= limits::MERGE_MEMBER_BYTES_MAX.min(room);
        if !fits || self.staged(next).is_some() {
            return None;
        }
        let queue = u32::from(col.queue);
        let state = self.queues.state(queue);
        if state.is_limited() {
            return None;
        }
        let kind = self.memory_kind(next);
        // It is read as its neighbor is, so it must be aligned for that.
        let masks = self.files.at(block.file).facts?.masks;
        let (offsets, addresses) = masks.filter(|_| block.direct).unwrap_or((0, 0));
        if (end | len) & offsets != 0 {
            return None;
        }
        let mut pointer = self.pointer_at(next, &body, kind, 0);
        if pointer.is_null() {
            self.land(next, len, (0, offsets)).ok()?;
            pointer = self.side.peek(next).pointer;
        }
        let aligned = pointer.addr() & addresses == 0;
        aligned.then(|| Segment::new(pointer, len as usize))
    }

    /// Begins an operation of a block and the requests that continue it; false if there are none.
    #[inline(never)]
    fn begin_merged(&mut self, first: u32, mut block: Block) -> bool {
        let members = self.followers(first, &mut block);
        if members.len() == 1 {
            return false;
        }
        // Followers are of queues without a limit.
        self.count_issued(first, &block, members[0].1);
        self.shared.counters.merged_operations.add(1);
        for (id, len, _) in &members {
            let index = id.index();
            if index != first {
                let col = &mut self.cols[index as usize];
                col.issued = *len;
                col.operations += 1;
            }
            self.leave(index, Event::Issued);
        }
        let list = members.iter().map(|(id, len, _)| (*id, *len)).collect();
        let memory = members.iter().map(|(.., memory)| *memory).collect();
        self.transfers
            .begin_merged(list, memory, block, self.now_ns);
        true
    }

    /// Issues the next operation of a staged request; returns the outcome of its pick.
    fn issue_staged(&mut self, index: u32, body: &Body, priority: Priority) -> Issue {
        match staged_of(&mut self.extras, index).serve() {
            Serve::Fill => {}
            Serve::Leave => return self.leave_staged(index),
            Serve::Window(at, len) => match self.add_window(index, body, priority, (at, len)) {
                Ok(true) => {}
                Ok(false) => return self.wait_for_staging(index),
                Err(issue) => return issue,
            },
        }
        let lane = match staged_of(&mut self.extras, index).open_via() {
            Some(Via::CachedCopy) => Lane::Cached,
            _ => Lane::Main,
        };
        if self.is_full(body.file.0.index(), lane) {
            self.pin(index, true);
            return Issue::Full;
        }
        self.fill_window(index, body, priority);
        // At once: it may have landed and ended before it is picked again.
        match staged_of(&mut self.extras, index).serve() {
            Serve::Leave => {
                self.leave_staged(index);
            }
            serve => self.pin(index, serve == Serve::Fill),
        }
        Issue::Issued
    }

    /// Pins a waiting request whose window is open, and no other.
    pub(super) fn pin(&mut self, index: u32, open: bool) {
        if self.scheduler.is_pinned(index) != open {
            self.scheduler.remove(index);
            self.schedule(index);
        }
    }

    /// Takes a staged request that has no more to issue for now out of the scheduler.
    fn leave_staged(&mut self, index: u32) -> Issue {
        self.leave(index, Event::Issued);
        self.waits_for_out(index);
        if self.lets_file_go(index) {
            self.detach_file(index);
        }
        Issue::Left
    }

    /// Issues the next operation of the open window.
    fn fill_window(&mut self, index: u32, body: &Body, priority: Priority) {
        let file_index = body.file.0.index();
        let file = self.files.at(file_index);
        let facts = file.facts.expect("a file with users is open");
        let (direct, buffered) = (file.direct_descriptor(), file.descriptor());
        let block_bytes = self.scheduler.block_bytes(priority, self.now_ns, 1);
        let fill = staged_of(&mut self.extras, index).fill(block_bytes);
        let direct = direct.filter(|_| fill.via == Via::Direct);
        let descriptor = direct.or(buffered).expect("a file with users is open");
        let mut layout = Layout::plain(body.offset.wrapping_add_signed(fill.at), fill.need);
        if fill.last {
            let align = facts.align(fill.via == Via::Direct);
            layout.want = fill.need.next_multiple_of(align);
        }
        let (via, pointer) = (fill.via, fill.pointer);
        let mut block = block_of(body, via, &layout, descriptor, priority, pointer);
        (block.direct, block.window) = (direct.is_some(), fill.serial);
        self.find_lane(&mut block);
        self.cols[index as usize].operations += 1;
        self.count_issued(index, &block, block.want);
        let id = self.id(index);
        self.transfers.begin(id, block, self.now_ns);
    }

    /// Asks the application for memory of `len` bytes.
    pub(super) fn ask_memory(&mut self, index: u32, len: u64) -> Result<(), Error> {
        let Ok(len) = usize::try_from(len) else {
            let cause = "the raw size exceeds the address space";
            return Err(Error::new(ErrorKind::Overflow, cause));
        };
        let Memory::Supply(supply) = std::mem::take(self.side.memory(index)) else {
            unreachable!("its kind says that it is supplied")
        };
        self.give_job(index, Task::Supply(supply, len));
        Ok(())
    }
}

/// The route of a block, if it does not depend on what the page cache holds.
#[inline(always)]
fn route_at_once(file: &mut File, read: &ReadFacts) -> Result<Route, AskCache> {
    let facts = file.facts.as_ref().expect("a file with users is open");
    let route = route::route(facts, read, Cache::NotAsked)?;
    if read.hits == Hits::Unlikely && route.via == Via::Buffered {
        file.streak.passed();
    }
    Ok(route)
}

/// Whether memory has room for what alignment adds before the range.
fn has_slack(memory: &mut Memory, at: u64, len: u64, facts: &FileFacts) -> bool {
    let lead = facts.masks.map_or(0, |(offsets, _)| at & offsets);
    memory.room() >= lead + len
}

/// A block that lands in the memory of its request.
#[inline(always)]
fn block_of(
    body: &Body,
    via: Via,
    layout: &Layout,
    descriptor: Descriptor,
    priority: Priority,
    pointer: *mut u8,
) -> Block {
    let want = usize::try_from(layout.want).expect("no longer than a block");
    Block {
        verb: IoVerb::Read,
        file: body.file.0.index(),
        descriptor,
        offset: layout.offset,
        want: layout.want,
        need: layout.need,
        direct: via == Via::Direct,
        append: false,
        lane: match via {
            Via::CachedCopy => Lane::Cached,
            _ => Lane::Main,
        },
        priority,
        window: NO_WINDOW,
        mount: 0,
        memory: Segment::new(pointer, want),
    }
}
