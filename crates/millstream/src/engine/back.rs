//! What comes back to requests: completions of operations, results of jobs, timeouts.

use std::sync::Arc;

use millstream_io::Completion;
use millstream_io::error::guard;

use super::columns::{flag, is_known, staged_of};
use super::{Engine, Flow, What};
use crate::caller::destination::{Memory, MemoryKind};
use crate::caller::request::Verb;
use crate::caller::waits::WaitsFor;
use crate::decode::jobs::{JobOutcome, JobResult, JobTask, Lent, Ran, Task};
use crate::engine::staged::{Context, RawMemory, Staged, Step, check_room};
use crate::engine::staging::Class;
use crate::engine::state::{Event, State};
use crate::engine::transfers::{Block, Lane, Meaning, Members, NO_WINDOW, Quarantine, Transfer};
use crate::error::{Error, ErrorKind};
use crate::ids::Id;
use crate::trace::Track;

impl Engine {
    pub(super) fn complete_all(&mut self) -> bool {
        self.each(|engine| &mut engine.completions, Engine::complete)
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        let (block, whole) = self.transfers.look(&completion);
        let (want, lane, file) = (block.want, block.lane, block.file);
        let moved = completion.moved().unwrap_or(0);
        self.shared.counters.stored_bytes.add(moved.min(want));
        self.rate.bytes += moved;
        if lane == Lane::Cached {
            let copied = completion.moved().ok().map(|_| whole);
            self.files.at(file).streak.copied(copied);
            self.shared.counters.copied_operations.add(u64::from(whole));
        }
        match whole {
            true => self.finish_operation(completion.id, Ok(())),
            false => self.complete_short(completion),
        }
    }

    /// Handles a completion that lacks bytes.
    #[cold]
    fn complete_short(&mut self, completion: Completion) {
        let block = *self.transfers.look(&completion).0;
        let (cols, side, files) = (&self.cols, &self.side, &mut self.files);
        let way = || {
            let file = files.at(block.file);
            let align = file.facts.map_or(1, |facts| facts.align(block.direct));
            (align, file.descriptor())
        };
        let wanted = |id: Id| {
            let col = &cols[id.index() as usize];
            side.is_live(id) && col.generation == id.generation() && col.ending.is_none()
        };
        let blocking = self.lanes.cancels;
        match self.transfers.complete(&completion, blocking, way, wanted) {
            Meaning::Continued => self.shared.counters.retried_operations.add(1),
            Meaning::DirectRefused => {
                self.shared.counters.retried_operations.add(1);
                self.files.at(block.file).refuse_direct();
            }
            Meaning::Apart => self.operation_failed(completion.id, None),
            Meaning::Failed(error) => self.operation_failed(completion.id, Some(error)),
        }
    }

    #[cold]
    fn operation_failed(&mut self, id: u64, error: Option<Error>) {
        self.finish_operation(id, Err(error));
    }

    /// Ends an operation. `Err(None)`: its bytes did not come, and its members are issued again.
    #[inline(always)]
    fn finish_operation(&mut self, id: u64, result: Result<(), Option<Error>>) {
        if self.transfers.appends(id) {
            return self.finish_append(id, result);
        }
        let Transfer {
            block,
            members,
            started_ns,
            ..
        } = self.transfers.finish(id);
        match members {
            Members::Copied(_) => unreachable!("only appends are copied"),
            Members::One(member) => {
                self.member_back(member, block.want, started_ns, &block, result);
            }
            Members::Many(merged) => {
                for (member, bytes) in &merged.requests {
                    self.member_back(*member, *bytes, started_ns, &block, result.clone());
                }
            }
        }
        self.operation_left(&block);
    }

    #[cold]
    fn finish_append(&mut self, id: u64, result: Result<(), Option<Error>>) {
        let Transfer {
            block,
            members,
            started_ns,
            done,
            ..
        } = self.transfers.finish(id);
        let (landed, error) = match result {
            Ok(()) => (block.want, None),
            Err(error) => (done, error),
        };
        self.append_back(members, &block, started_ns, landed, error);
        self.operation_left(&block);
    }

    /// Gives an operation's result to a request that it served.
    #[inline(always)]
    pub(super) fn member_back(
        &mut self,
        member: Id,
        bytes: u64,
        started_ns: u64,
        block: &Block,
        result: Result<(), Option<Error>>,
    ) {
        if !self.is_known(member) {
            return self.quarantine_back(member, 1, 0);
        }
        let index = member.index();
        if self.shared.recorder.is_on() {
            self.trace(Track::Device, started_ns, self.now_ns, bytes, index);
        }
        let flow = self.operation_back(index, block, result);
        self.follow(index, flow);
    }

    /// A request that may have been let in to its mount begins no operation there: another may.
    #[inline(always)]
    pub(super) fn pass_place_on(&mut self, file: u32) {
        if self.files.are_mounts_busy() {
            self.let_others_in(self.files.peek_at(file).mount());
        }
    }

    /// As before, for a request that may have no file.
    #[inline(always)]
    pub(super) fn pass_place_of(&mut self, index: u32) {
        if self.cols[index as usize].has(flag::HOLDS) {
            self.pass_place_on(self.side.peek(index).file.0.index());
        }
    }

    #[cold]
    fn let_others_in(&mut self, mount: u64) {
        let cols = &self.cols;
        let waiting = self.files.let_in(mount, |id| is_known(cols, id));
        let waiting = waiting.into_iter().map(|id| (id, What::Released));
        self.events.extend(waiting);
    }

    /// Uncounts an operation of its priority or mount, and of its file.
    #[inline(always)]
    pub(super) fn operation_left(&mut self, block: &Block) {
        match block.mount {
            0 => self.scheduler.returned(block.priority, block.want),
            mount => {
                self.files.left_mount(mount);
                self.let_others_in(mount);
            }
        }
        if self.files.operation_done(block.file) {
            self.finish_file(block.file);
        }
    }

    #[inline(always)]
    fn operation_back(
        &mut self,
        index: u32,
        block: &Block,
        result: Result<(), Option<Error>>,
    ) -> Flow {
        let col = &mut self.cols[index as usize];
        assert!(col.operations > 0, "a request counts its operations");
        col.operations -= 1;
        let staged = block.window != NO_WINDOW;
        if staged {
            staged_of(&mut self.extras, index).operation_back(block.window);
        }
        if col.ending.is_some() {
            self.drain(index);
            return self.after_out(index);
        }
        match result {
            Err(Some(error)) => self.end_wanted(index, error),
            Err(None) => {
                // Only merged members are tried again, each alone.
                assert!(!staged, "windows are not merged");
                col.flags |= flag::ALONE;
                col.issued = 0;
                Flow::Runnable
            }
            Ok(()) if staged => self.advance(index),
            Ok(()) => {
                let done = col.operations == 0 && col.issued == col.len && col.jobs == 0;
                if col.verb.writes() {
                    self.files.at(block.file).grew(block.offset + block.want);
                }
                match done {
                    true => Flow::End(None),
                    // The blocks of an append follow one another.
                    false if col.verb == Verb::Append => Flow::Runnable,
                    false => Flow::Wait,
                }
            }
        }
    }

    /// Something of an ending request is back: ends it if nothing else is out.
    pub(super) fn after_out(&mut self, index: u32) -> Flow {
        match self.cols[index as usize].is_out() {
            true => Flow::Wait,
            false => self.drained(index),
        }
    }

    /// An operation, job or call of a request that has ended is back.
    pub(super) fn quarantine_back(&mut self, id: Id, operations: u32, jobs: u32) {
        let staged = self.transfers.quarantine_back(id, operations, jobs);
        if let Some(staged) = staged {
            staged.release(&mut self.staging);
        }
    }

    /// Advances a staged request: gives out jobs, asks for more windows, or ends it.
    pub(super) fn advance(&mut self, index: u32) -> Flow {
        loop {
            let step = self.step(index);
            self.unpin(index);
            let landed = match step {
                Ok(Step::Wait) => {
                    let state = self.cols[index as usize].state;
                    if matches!(state, State::InFlight | State::Working) {
                        self.waits_for_out(index);
                        if self.lets_file_go(index) {
                            self.detach_file(index);
                        }
                    }
                    return Flow::Wait;
                }
                Ok(Step::More) => return self.resume(index),
                Ok(Step::Done) => return self.staged_done(index),
                Ok(Step::Land(len)) => self.land_staged(index, len),
                Ok(Step::LandUnknown) => self.land_unknown(index),
                Err(error) => Err(error),
            };
            match landed {
                Ok(true) => {}
                Ok(false) => return Flow::Wait,
                Err(error) => return self.end_wanted(index, error),
            }
        }
    }

    /// Makes a staged request runnable, unless it is in the scheduler already or held.
    fn resume(&mut self, index: u32) -> Flow {
        let col = &self.cols[index as usize];
        if !matches!(col.state, State::InFlight | State::Working) {
            return Flow::Wait;
        }
        if col.verb == Verb::Read && !col.has(flag::ATTACHED) {
            // It released its file while a fence held it.
            if let Some(flow) = self.need_file(index) {
                return flow;
            }
        }
        Flow::Runnable
    }

    /// Turns a staged request's windows into jobs, and counts these.
    fn step(&mut self, index: u32) -> Result<Step, Error> {
        let (request, body) = (self.id(index), *self.side.peek(index));
        let before = self.new_jobs.len();
        let col = &self.cols[index as usize];
        let mut context = Context {
            request,
            priority: col.priority,
            class: Class::Ordinary,
            user_data: body.user_data,
            offset: body.offset,
            operations: u32::from(col.operations),
            jobs_out: col.jobs,
            staging: &mut self.staging,
            codecs: &self.shared.options.codecs,
            jobs: &mut self.new_jobs,
        };
        let staged = staged_of(&mut self.extras, index);
        context.class = staged.class;
        let step = staged.advance(&mut context);
        let class = staged.class;
        self.count_jobs(index, class, self.new_jobs.len() - before);
        step
    }

    fn count_jobs(&mut self, index: u32, class: Class, given: usize) {
        if given == 0 {
            return;
        }
        self.staging.jobs_given(class, given);
        let col = &mut self.cols[index as usize];
        col.jobs += u32::try_from(given).expect("a window has fewer blocks");
        let decided = matches!(
            col.state,
            State::Ready | State::Opening | State::Gated | State::Draining
        );
        if !decided {
            col.state.on(Event::Work);
        }
    }

    /// Gives a job of a request to the workers.
    pub(super) fn give_job(&mut self, index: u32, task: Task) {
        let class = match task {
            Task::Supply(..) => Class::Foreign,
            Task::Decode(_) => self.class_of(index),
            _ => Class::Ordinary,
        };
        self.staging.jobs_given(class, 1);
        let col = &mut self.cols[index as usize];
        col.state.on(Event::Work);
        col.jobs += 1;
        let priority = col.priority;
        self.waits_for_out(index);
        if matches!(task, Task::Move(..)) {
            // Workers move bytes also where a job system decodes.
            self.waits(index, WaitsFor::Job);
        }
        self.new_jobs
            .push(JobTask::new(self.id(index), priority, class, task));
    }

    /// Finds the memory that raw bytes land in; false: the application was asked for it.
    fn land_staged(&mut self, index: u32, landed: u64) -> Result<bool, Error> {
        let kind = self.memory_kind(index);
        let staged = staged_of(&mut self.extras, index);
        if staged.has_memory() {
            return Ok(true);
        }
        let (raw_len, skip) = staged.raw_and_skip();
        if kind == MemoryKind::Supply {
            staged_of(&mut self.extras, index).supplying = true;
            return self.ask_memory(index, landed).map(|()| false);
        }
        let room = match kind {
            MemoryKind::Borrowed => self.side.peek(index).room,
            MemoryKind::Pool => u64::MAX,
            _ => self.side.memory(index).room(),
        };
        check_room(landed, room)?;
        let memory = self.memory(index, kind, raw_len, (skip, landed))?;
        staged_of(&mut self.extras, index).set_memory(memory);
        Ok(true)
    }

    /// Finds the memory for a stream of unknown size: that of the caller, if it is one piece, else
    /// memory that grows.
    fn land_unknown(&mut self, index: u32) -> Result<bool, Error> {
        let kind = self.memory_kind(index);
        let is_piece = matches!(
            kind,
            MemoryKind::Buffer | MemoryKind::Owned | MemoryKind::Borrowed
        );
        self.show(index, usize::MAX);
        let lent = is_piece.then(|| self.lent_memory(index).into_parts());
        let staged = staged_of(&mut self.extras, index);
        staged.set_memory_unknown(lent, &self.shared.buffers)?;
        Ok(true)
    }

    /// Where raw bytes land: in the memory itself, or gathered first.
    fn memory(
        &mut self,
        index: u32,
        kind: MemoryKind,
        raw_len: u64,
        (skip, landed): (u64, u64),
    ) -> Result<RawMemory, Error> {
        let len = usize::try_from(raw_len).expect("checked against the address space");
        let (start, shown) = (skip as usize, usize::try_from(landed).expect("as above"));
        let mut grown = staged_of(&mut self.extras, index).take_grown();
        if kind == MemoryKind::Pool {
            let buffer = match grown.take() {
                Some(grown) => grown,
                None => self.shared.buffers.take(len)?,
            };
            self.side.set_memory(index, Memory::Buffer(buffer));
        }
        let (cut, borrowed) = (landed < raw_len, self.side.peek(index).pointer);
        let mut device = None;
        let direct = match self.side.memory(index) {
            // The view leaves out what is not wanted.
            Memory::Buffer(buffer) if buffer.capacity() >= len => {
                buffer.set_view(start, shown);
                Some(buffer.base())
            }
            Memory::Buffer(buffer) => {
                buffer.set_view(0, shown);
                None
            }
            Memory::Owned(_, place) if !cut => Some(place.pointer()),
            Memory::Device(sink) => {
                let staged = staged_of(&mut self.extras, index);
                let suits = guard(|| staged.suits(&**sink)).unwrap_or(false);
                device = Some(Arc::clone(sink));
                suits.then_some(std::ptr::null_mut())
            }
            _ if kind == MemoryKind::Borrowed && !cut => Some(borrowed),
            _ => None,
        };
        let gathered = match direct {
            _ if grown.is_some() => grown,
            Some(_) => None,
            None => Some(self.shared.buffers.take(len)?),
        };
        let here = gathered.as_ref().map(|gathered| gathered.base());
        Ok(RawMemory {
            base: here.or(direct).unwrap_or(std::ptr::null_mut()),
            gathered,
            device,
        })
    }

    /// Ends a staged request, or first has gathered raw bytes moved to their destination.
    fn staged_done(&mut self, index: u32) -> Flow {
        if let Some(len) = self.staged(index).and_then(Staged::found_len) {
            self.show(index, len);
        }
        if !self.staged(index).is_some_and(Staged::is_gathered) {
            return Flow::End(None);
        }
        let user_data = self.side.peek(index).user_data;
        let memory = self.lent_memory(index);
        let task = staged_of(&mut self.extras, index).deliver(user_data, memory);
        self.give_job(index, task);
        Flow::Wait
    }

    /// The memory of a request, to be written by the engine or a job.
    pub(super) fn lent_memory(&mut self, index: u32) -> Lent {
        if self.memory_kind(index) == MemoryKind::Borrowed {
            let body = self.side.peek(index);
            let len = usize::try_from(body.room).unwrap_or(usize::MAX);
            return Lent::new(body.pointer, len);
        }
        let span = self.side.memory(index).span();
        span.map_or_else(Lent::nothing, |span| Lent::new(span.pointer(), span.len()))
    }

    pub(super) fn job_back(&mut self, result: JobResult) {
        self.staging.job_back(result.class);
        self.count_ran(result.ran);
        let id = result.request;
        if !self.is_known(id) {
            // Its window first: the quarantine keeps the others.
            if let Some(source) = result.source
                && let Some(staged) = self.transfers.quarantined(id)
            {
                staged.give_back(source, &mut self.staging);
            }
            // Memory supplied too late, or a decoder: dropping it may be the application's code.
            let _ = guard(|| drop(result.outcome));
            self.quarantine_back(id, 0, 1);
            return;
        }
        let index = id.index();
        if self.shared.recorder.is_on() {
            let start = self.shared.to_ns(result.ran.started);
            let end = self.shared.to_ns(result.ran.ended);
            let bytes = self.landed_bytes(index);
            self.trace(Track::Decode, start, end, bytes, index);
        }
        self.cols[index as usize].jobs -= 1;
        let flow = self.job_done(index, result);
        self.follow(index, flow);
    }

    fn count_ran(&mut self, ran: Ran) {
        let counters = &self.shared.counters;
        counters.jobs.add(1);
        let waited = ran.started.saturating_duration_since(ran.queued);
        let took = ran.ended.saturating_duration_since(ran.started);
        let nanoseconds = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(0);
        counters.decode_wait_ns.add(nanoseconds(waited));
        counters.decode_ns.add(nanoseconds(took));
    }

    fn job_done(&mut self, index: u32, result: JobResult) -> Flow {
        if let JobOutcome::Supplied(supplied) = result.outcome {
            return self.supplied(index, supplied);
        }
        let staged = staged_of(&mut self.extras, index);
        let done = staged.job_back(result.outcome, result.source, &mut self.staging);
        if self.cols[index as usize].ending.is_some() {
            return self.after_out(index);
        }
        match done {
            Ok(()) => self.advance(index),
            Err(error) => self.end_wanted(index, error),
        }
    }

    /// A request that is to restart as a stream leaves the scheduler until its operations and jobs
    /// have completed; one that has restarted has lost its open window.
    fn unpin(&mut self, index: u32) {
        if self.cols[index as usize].state != State::Ready {
            return;
        }
        if staged_of(&mut self.extras, index).restart {
            self.leave(index, Event::Issued);
        } else if self.scheduler.is_pinned(index) {
            self.pin(index, self.has_open_window(index));
        }
    }

    /// The application has supplied memory, or refused.
    fn supplied(&mut self, index: u32, supplied: Result<Memory, Error>) -> Flow {
        let ends = self.cols[index as usize].ending.is_some();
        match supplied {
            Ok(mut memory) => {
                self.side.body(index).room = memory.room();
                self.side.set_memory(index, memory);
            }
            Err(error) if !ends => return self.end_wanted(index, error),
            Err(_) => {}
        }
        if ends {
            return self.after_out(index);
        }
        if self.staged(index).is_some() {
            staged_of(&mut self.extras, index).supplying = false;
            self.update_class(index);
            return self.advance(index);
        }
        self.cols[index as usize].state.on(Event::Hold);
        self.check_again(index)
    }

    pub(super) fn timed_out(&mut self, index: u32) {
        self.withdraw_offer(index);
        let error = Error::new(ErrorKind::TimedOut, "it took longer than its timeout");
        if !self.cols[index as usize].is_out() {
            let flow = self.end_wanted(index, error);
            return self.follow(index, flow);
        }
        match self.try_quarantine(index, false) {
            true => self.end_now(index, error),
            false => self.shared.counters.overdue.add(1),
        }
    }

    /// Ends a request of which nothing is out, or whose memory is in quarantine, at once.
    pub(super) fn end_now(&mut self, index: u32, error: Error) {
        self.unschedule(index);
        let ending = self.cols[index as usize].ending.take();
        self.finish(index, Some(ending.unwrap_or(error)));
    }

    /// Moves the memory of a request that is still in use into quarantine, so that the request can
    /// end; false: it is borrowed or a device's, or the quarantine is full. What is `lost` never
    /// comes back: the bound does not apply to it.
    pub(super) fn try_quarantine(&mut self, index: u32, lost: bool) -> bool {
        // What it waits for may never come.
        self.note_overdue(index);
        let col = &self.cols[index as usize];
        let (operations, jobs) = (u32::from(col.operations), col.jobs);
        let staged = self.staged(index).is_some();
        let kind = self.memory_kind(index);
        // Operations of staged requests write to windows, which belong to the library.
        let untouched = staged && jobs == 0;
        if matches!(kind, MemoryKind::Borrowed | MemoryKind::Device) && !untouched {
            return false;
        }
        let is_owned = matches!(kind, MemoryKind::Buffer | MemoryKind::Owned);
        let bytes = match is_owned && !lost {
            true => self.side.memory(index).room(),
            false => 0,
        };
        let most = self.staging.capacity() as u64 / 4;
        if self.transfers.quarantined_bytes + bytes > most {
            return false;
        }
        let mut memory = Memory::None;
        if is_owned && !untouched {
            memory = std::mem::take(self.side.memory(index));
            self.side.set_memory(index, Memory::None);
        }
        let mut staged = match self.cols[index as usize].has(flag::EXTRA) {
            true => self.extra(index).staged.take(),
            false => None,
        };
        if let Some(staged) = &mut staged {
            self.gated_bytes -= staged.gated_bytes;
            staged.give_back_idle(&mut self.staging);
        }
        let id = self.id(index);
        let col = &mut self.cols[index as usize];
        (col.operations, col.jobs) = (0, 0);
        self.transfers.quarantine(
            id,
            Quarantine {
                operations,
                jobs,
                bytes,
                memory,
                staged,
            },
        );
        true
    }
}
