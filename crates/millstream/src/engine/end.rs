//! Ends: each request ends here, exactly once, and its queue's entries fire in their places.

use millstream_io::Buffer;

use super::Engine;
use super::table::{Decode, Phase, Quarantine, Req, WindowMemory, Work};
use crate::destination::{Destination, Landed};
use crate::error::{Error, ErrorKind};
use crate::group::Ending;
use crate::job::{FileWork, Job, Target};
use crate::queue::Fifo;
use crate::request::NameWork;
use crate::scheduler::NO_DEADLINE;
use crate::stats::Stats;
use crate::ticket::{Done, Failed, Outcome};
use crate::trace::Lane;

impl Engine {
    /// A request fails; it ends once nothing of it is out.
    pub(super) fn fail(&mut self, request: u32, error: Error) {
        let req = &self.requests[request as usize];
        let path = self.files.path(req.file, req.file_generation);
        let req = self.req(request);
        if req.failure.is_none() && !req.cancelled {
            // A block of a table names its own place, maybe in another file.
            let (offset, len) = match error.is_empty() {
                true => (req.offset, req.len),
                false => (error.offset(), error.len()),
            };
            let path = error.shared_path().or(path);
            let name = req.name();
            req.failure = Some(error.at(path, offset, len).named(name));
        }
        self.settle(request);
    }

    /// Ends a request if it has come to its end.
    pub(super) fn settle(&mut self, request: u32) {
        let req = &self.requests[request as usize];
        if req.is_ending() {
            self.settle_ending(request);
            return;
        }
        if req.ops_out > 0 || req.jobs_out > 0 {
            return;
        }
        let complete = match (&req.decode, &req.work) {
            (Some(decode), _) => decode.stage == super::table::Stage::Finished,
            (None, Work::Read | Work::Write | Work::Append) => req.issued == req.len,
            (None, _) => true,
        };
        if complete {
            self.end(request);
        }
    }

    /// A request that has failed or was cancelled ends when nothing of it is out.
    fn settle_ending(&mut self, request: u32) {
        self.withdraw(request);
        if self.scheduler_of(request).contains(request) {
            self.leave(request, Phase::Active);
        }
        let req = self.req(request);
        if req.ops_out == 0 && req.jobs_out == 0 {
            self.end(request);
        } else {
            req.phase = Phase::Active;
        }
    }

    /// The end of a request: counts it, lets go of its file and windows, tells everyone who wanted
    /// to know, and frees the slot.
    pub(super) fn end(&mut self, request: u32) {
        // A staged request stands in the scheduler until it is looked at once more after its last
        // operation.
        if self.scheduler_of(request).contains(request) {
            self.scheduler_of(request).remove(request);
        }
        if self.trace.is_some() {
            self.trace_request(request);
        }
        let (ending, failure) = match self.requests[request as usize].is_ending() {
            false => (Ending::Done, None),
            true => self.failure_of(request),
        };
        let req = &self.requests[request as usize];
        let (bytes, writes) = match req.usual {
            true => (req.raw_len.unwrap_or(0), false),
            false => (raw_bytes(req), req.writes() && req.found),
        };
        let latency = self.now_ns.saturating_sub(req.submitted_ns);
        self.stats.latency[req.class as usize].add(latency);
        self.stats.deadlines_missed +=
            u64::from(req.deadline_ns != NO_DEADLINE && self.now_ns > req.deadline_ns);
        match ending {
            Ending::Done => {
                self.stats.done += 1;
                self.stats.raw_bytes += bytes;
            }
            Ending::Failed => self.stats.failed += 1,
            Ending::Cancelled => self.stats.cancelled += 1,
        }
        if writes {
            self.write_ended(request, failure.as_ref());
        }
        self.forget_file(request);
        let req = &self.requests[request as usize];
        if !req.usual || req.decode.is_some() {
            self.give_rest(request);
        }
        self.conclude(request, ending, bytes, failure);
    }

    /// How a request that failed or was cancelled ends.
    fn failure_of(&mut self, request: u32) -> (Ending, Option<Error>) {
        let req = &mut self.requests[request as usize];
        let failure = req.failure.take();
        if failure.is_some() {
            return (Ending::Failed, failure);
        }
        let path = self.files.path(req.file, req.file_generation);
        let error = Error::new(ErrorKind::Cancelled, "");
        let error = error.at(path, req.offset, req.len).named(req.name());
        (Ending::Cancelled, Some(error))
    }

    /// Gives back what unusual requests have: windows, a share of what gates may hold, and what
    /// came with the request.
    fn give_rest(&mut self, request: u32) {
        let req = &mut self.requests[request as usize];
        let decode = req.decode.take();
        req.rare = None;
        req.work = Work::Read;
        self.gated_bytes -= std::mem::take(&mut req.gated_bytes);
        if let Some(decode) = decode {
            self.give_windows(*decode);
        }
    }

    /// Tells everyone who wanted to know, and frees the slot.
    fn conclude(&mut self, request: u32, ending: Ending, bytes: u64, failure: Option<Error>) {
        let req = &mut self.requests[request as usize];
        let (queue, sequence, user_data) = (req.queue, req.sequence, req.user_data);
        let (group, counter) = (req.group.take(), req.counter.take());
        let cell = req.cell.take();
        let landed = landed(&mut req.destination);
        req.phase = Phase::Free;
        req.generation = req.generation.wrapping_add(1);
        self.free_requests.push(request);
        let state = self.queues.touch(queue);
        state.live -= 1;
        state.ended += 1;
        state.window.end(sequence);
        if let (Some(error), Ending::Failed) = (&failure, ending) {
            state.failures.insert(sequence, error.kind());
            state.shared.record_failure(sequence, error);
        }
        if let Some(group) = group {
            let done_bytes = if ending == Ending::Done { bytes } else { 0 };
            group.ended(ending, done_bytes, &mut self.wakers);
        }
        if let Some(counter) = counter {
            counter.ended(&mut self.wakers);
        }
        if let Some(cell) = cell {
            let outcome: Outcome = match failure {
                None => Ok(Done {
                    bytes,
                    user_data,
                    landed,
                }),
                Some(error) => Err(Failed {
                    error,
                    user_data,
                    landed,
                }),
            };
            let cells = &state.shared.cells;
            let unclaimed = cells.end(cell, outcome, &mut self.wakers);
            drop(unclaimed);
        }
    }

    fn trace_request(&mut self, request: u32) {
        if self.trace.is_some() {
            let req = &self.requests[request as usize];
            let (start, bytes) = (req.submitted_ns, raw_bytes(req));
            self.trace_span(Lane::Queue, start, self.now_ns, bytes, request);
        }
    }

    /// Gives a staged request's windows back to the arena.
    pub(super) fn give_windows(&mut self, decode: Decode) {
        for window in decode.windows {
            match window.memory {
                WindowMemory::Filling(block) => self.arena.give(block),
                WindowMemory::Ready(stored) => {
                    self.give_back(stored);
                }
            }
        }
    }

    /// A write has ended: its epoch has one less, and syncs may be due.
    fn write_ended(&mut self, request: u32, failure: Option<&Error>) {
        let req = &self.requests[request as usize];
        let (index, epoch) = (req.file, req.epoch);
        let file = self.files.at(index);
        if let Some(error) = failure
            && error.kind() != ErrorKind::Cancelled
            && file.write_error.is_none()
        {
            file.write_error = Some(error.clone());
        }
        let place =
            usize::try_from(epoch - file.epoch_base).expect("an epoch lives with its writes");
        file.epochs[place] -= 1;
        while file.epochs.len() > 1 && file.epochs[0] == 0 {
            file.epochs.pop_front();
            file.epoch_base += 1;
        }
        let syncs = std::mem::take(&mut file.syncs);
        for target in syncs {
            if let Some(request) = self.live(target) {
                self.sync_if_due(request);
            }
        }
    }

    /// Syncs once all writes before have ended.
    pub(super) fn sync_if_due(&mut self, request: u32) {
        let req = &self.requests[request as usize];
        let Work::Sync { data_only } = req.work else {
            unreachable!("only syncs wait so")
        };
        let (index, epoch, target) = (req.file, req.epoch, req.target(request));
        let file = self.files.at(index);
        if !file.epoch_ended(epoch) {
            file.syncs.push(target);
            return;
        }
        match file.descriptor() {
            Some(descriptor) => {
                let req = self.req(request);
                req.jobs_out += 1;
                let class = req.class;
                self.jobs_out += 1;
                let work = FileWork::Sync {
                    descriptor,
                    data_only,
                };
                self.jobs.push((class, Job::File(target, work)));
            }
            None => self.file_ready(request),
        }
    }

    /// A sync came back well: but an earlier write may have failed.
    pub(super) fn synced(&mut self, request: u32) {
        let index = self.req(request).file;
        match self.files.at(index).write_error.take() {
            Some(error) => {
                self.req(request).failure = Some(error);
                self.settle(request);
            }
            None => self.settle(request),
        }
    }

    /// An ordered request's turn has come.
    fn start_ordered(&mut self, target: Target) {
        let Some(request) = self.live(target) else {
            return;
        };
        let req = self.req(request);
        if req.is_ending() {
            return;
        }
        let work = match &mut req.work {
            Work::Names(names) => {
                let taken = NameWork::Remove {
                    path: Default::default(),
                };
                FileWork::Names(std::mem::replace(&mut **names, taken))
            }
            Work::Replace(name) => {
                let path = std::mem::take(&mut **name);
                let destination = std::mem::replace(&mut req.destination, Destination::Nothing);
                let Destination::Landing(bytes) = destination else {
                    let error = Error::new(ErrorKind::InvalidArgument, "nothing to write");
                    self.fail(request, error);
                    return;
                };
                FileWork::Replace { path, bytes }
            }
            _ => unreachable!("only work on names is ordered"),
        };
        req.phase = Phase::Active;
        req.jobs_out += 1;
        let class = req.class;
        self.jobs_out += 1;
        self.jobs.push((class, Job::File(target, work)));
    }

    /// A request's time has run out.
    pub(super) fn timed_out(&mut self, target: Target) {
        let Some(request) = self.live(target) else {
            return;
        };
        self.withdraw(request);
        let req = &self.requests[request as usize];
        if req.is_ending() && req.ops_out == 0 {
            return;
        }
        let error = Error::new(ErrorKind::TimedOut, "the request's time ran out");
        if req.ops_out == 0 && req.jobs_out == 0 {
            self.fail(request, error);
            return;
        }
        let borrowed = matches!(req.destination, Destination::Borrowed(_));
        // Operations of the staged way write to windows, which are ours.
        let untouched = req.decode.is_some() && req.jobs_out == 0;
        if borrowed && !untouched {
            self.stats.overdue += 1;
            let (queue, cell) = (req.queue, req.cell);
            if let Some(cell) = cell {
                self.queues.state(queue).shared.cells.set_overdue(cell);
            }
            return;
        }
        self.end_in_quarantine(request, error);
    }

    /// Ends a request whose memory others still have: the memory stays behind.
    pub(super) fn end_in_quarantine(&mut self, request: u32, error: Error) {
        let target = self.requests[request as usize].target(request);
        if self.scheduler_of(request).contains(request) {
            self.leave(request, Phase::Active);
        }
        let req = self.req(request);
        let borrowed = matches!(req.destination, Destination::Borrowed(_));
        let destination = std::mem::replace(&mut req.destination, Destination::Nothing);
        req.offer = None;
        let held = Quarantine {
            ops_out: std::mem::take(&mut req.ops_out),
            jobs_out: std::mem::take(&mut req.jobs_out),
            _destination: (!borrowed).then_some(destination),
            decode: req.decode.take(),
        };
        self.quarantine.insert(target, held);
        self.fail(request, error);
    }

    /// Fires FIFO entries whose place has come, and gives capacity back.
    pub(super) fn fire_fifos(&mut self) {
        while let Some(queue) = self.queues.touched.pop() {
            // Firing an entry touches its queue again, which may have been its last.
            let Some(state) = self.queues.get(queue) else {
                continue;
            };
            state.touched = false;
            loop {
                let state = self.queues.state(queue);
                let next = state.fifo.front().map(|(sequence, _)| *sequence);
                let watermark = state.window.advance(next.unwrap_or(u64::MAX));
                state.shared.set_watermark(watermark);
                if next != Some(watermark) {
                    break;
                }
                let Some((sequence, fifo)) = state.fifo.pop_front() else {
                    break;
                };
                self.fire(queue, sequence, fifo);
            }
            let state = self.queues.state(queue);
            tell_failures_once(state);
            let ended = std::mem::take(&mut state.ended);
            if ended > 0 {
                state.shared.release(ended, &mut self.wakers);
            }
            let state = self.queues.state(queue);
            if state.dropped && state.live == 0 && state.fifo.is_empty() {
                self.queues.remove(queue);
                self.shared.free_queue_id(queue);
            }
        }
    }

    fn fire(&mut self, queue: u32, sequence: u64, fifo: Fifo) {
        match fifo {
            Fifo::Start(request, generation) => {
                // Its place stays open until it has ended.
                self.start_ordered(Target {
                    request,
                    generation,
                });
                return;
            }
            Fifo::Signal(fence, value) => fence.raise(value, &mut self.wakers),
            Fifo::Event(event) => event.raise(&mut self.wakers),
            Fifo::Status(statuses, index) => {
                let state = self.queues.state(queue);
                let later = state.failures.split_off(&sequence);
                let told = std::mem::replace(&mut state.failures, later);
                statuses.write(index, told.first_key_value().map(|(_, kind)| *kind));
            }
            Fifo::Close(file, last) => {
                if last {
                    self.fire_close(file);
                }
            }
        }
        self.queues.touch(queue).window.end(sequence);
    }

    pub(super) fn current_stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        stats.descriptors = self.files.descriptors as u64;
        stats.staging_bytes = self.arena.in_use() as u64;
        stats.staging_peak_bytes = self.arena.peak() as u64;
        stats.in_flight_bytes = self.in_flight_bytes();
        let starved = &self.shared.jobs.starved_ns;
        stats.worker_starved_ns = starved.load(std::sync::atomic::Ordering::Relaxed);
        stats
    }
}

/// Of failures that the watermark has passed, a status entry tells the first only: the others need
/// not be kept.
fn tell_failures_once(state: &mut super::queues::QueueState) {
    const KEPT: usize = 64;
    if state.failures.len() <= KEPT {
        return;
    }
    let watermark = state.window.watermark();
    let mut first = true;
    state.failures.retain(|&sequence, _| {
        let keep = sequence >= watermark || first;
        first = false;
        keep
    });
}

fn raw_bytes(req: &Req) -> u64 {
    match req.work {
        Work::Read | Work::Memory(_) => req.landed_len(),
        Work::Write | Work::Append | Work::Warm(_) => req.len,
        Work::Sync { .. } | Work::Names(_) | Work::Replace(_) => 0,
    }
}

/// The destination, back to its owner.
fn landed(destination: &mut Destination) -> Landed {
    if let Destination::Borrowed(_) = destination {
        // It owns nothing that would have to be dropped.
        std::mem::forget(std::mem::replace(destination, Destination::Nothing));
        return Landed::Nothing;
    }
    match std::mem::replace(destination, Destination::Nothing) {
        Destination::Buffer(buffer) => Landed::Buffer(buffer),
        Destination::Pieces(pieces) => Landed::Pieces(pieces),
        Destination::Landing(memory) => Landed::Landing(memory),
        Destination::Library => Landed::Buffer(Buffer::empty()),
        Destination::Supply(_) | Destination::Borrowed(_) | Destination::Nothing => Landed::Nothing,
    }
}
