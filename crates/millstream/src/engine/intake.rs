//! Intake: mail becomes requests, and requests find their files.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use super::files::FilePhase;
use super::opens::OpenLane;
use super::straight::needs_staging;
use super::table::{NO_FILE, Phase, Req, Straight, Work};
use super::{Engine, Timer};
use crate::destination::Destination;
use crate::entries::{Entries, Kind};
use crate::error::{Error, ErrorKind};
use crate::files::{Access, FileId};
use crate::job::{FileWork, Job, JobResult, Target};
use crate::queue::{Command, Fifo, QueueShared, Submitted};
use crate::request::{Gate, Priority, Request, Source};
use crate::scheduler::{NO_DEADLINE, Place};
use crate::storage::Control;
use crate::trace::Trace;

impl Engine {
    /// Takes everything that was put into the inbox; whether there was anything.
    pub(super) fn take_mail(&mut self) -> bool {
        if !self.shared.take_mail_flag() {
            return false;
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        self.shared.take_inbox(&mut inbox);
        for control in inbox.control.drain(..) {
            self.obey(control);
        }
        for queue in inbox.dirty.drain(..) {
            self.take_queue(&queue);
        }
        for result in inbox.results.drain(..) {
            self.take_result(result);
        }
        self.inbox = inbox;
        if self.shared.take_fences_flag() {
            self.open_gates();
        }
        true
    }

    fn obey(&mut self, control: Control) {
        match control {
            Control::Open {
                file,
                path,
                options,
            } => self.open_file(file, path, options),
            Control::Adopt { file, local } => self.adopt_file(file, local),
            Control::Info { file, outcome } => self.file_info(file, outcome),
            Control::Queue(queue) => self.queues.add(queue),
            Control::Stats(reply) => {
                let stats = self.current_stats();
                reply.send(stats);
            }
            Control::Trace(true, reply) => {
                self.trace = Some(Trace {
                    workers: self.workers,
                    ..Trace::default()
                });
                self.trace_start_ns = self.now_ns;
                reply.send(Trace::default());
            }
            Control::Trace(false, reply) => reply.send(self.trace.take().unwrap_or_default()),
            Control::Close { deadline, reply } => self.begin_close(deadline, reply),
        }
    }

    pub(super) fn take_result(&mut self, result: JobResult) {
        match result {
            JobResult::Opened(closed, results) => self.opens_ended(closed, results),
            JobResult::Closed(count) => self.files.closed(count),
            JobResult::Decoded {
                target,
                stored,
                result,
                as_stream,
                ran,
            } => {
                self.jobs_out -= 1;
                self.decoded(target, stored, result, as_stream, ran);
            }
            JobResult::Streamed {
                target,
                decoder,
                stored,
                result,
                ran,
            } => {
                self.jobs_out -= 1;
                self.streamed(target, decoder, stored, result, ran);
            }
            JobResult::Worked { target, result } => {
                self.jobs_out -= 1;
                self.worked(target, result);
            }
        }
    }

    pub(super) fn take_queue(&mut self, queue: &Arc<QueueShared>) {
        let mut submitted = std::mem::take(&mut self.submitted);
        queue.take_submitted(&mut submitted);
        // Entries may have been submitted since the inbox was taken, and be for files that were
        // opened since: what was put there before them is obeyed before them.
        for control in self.shared.take_controls() {
            self.obey(control);
        }
        self.take_submitted(queue.id, &mut submitted);
        self.submitted = submitted;
    }

    pub(super) fn take_submitted(&mut self, queue: u32, submitted: &mut Submitted) {
        for batch in submitted.take_batches() {
            let submitted_ns = self.to_ns(batch.at);
            self.take_entries(queue, &mut batch.entries, submitted_ns);
        }
        for command in submitted.commands.drain(..) {
            self.command(queue, command);
        }
    }

    fn take_entries(&mut self, queue: u32, submitted: &mut Entries, submitted_ns: u64) {
        let (entries, requests, fifos) = submitted.parts();
        let (mut requests, mut fifos) = (requests.iter_mut(), fifos.drain(..));
        for entry in entries {
            match entry.kind {
                Kind::Request { cell, cancelled } => {
                    let request = requests.next().expect("a request for its entry");
                    let index = self.admit(queue, entry.sequence, request, submitted_ns);
                    let req = &mut self.requests[index as usize];
                    req.cell = cell;
                    req.cancelled = cancelled;
                    if let Some(cell) = cell {
                        self.queues.state(queue).shared.cells.bind(cell, index);
                    }
                    if cancelled || !self.start_usual(index) {
                        self.start(index);
                    }
                }
                Kind::Fifo => {
                    let fifo = fifos.next().expect("an effect for its entry");
                    if let Fifo::Close(file, true) = &fifo
                        && let Some(file) = self.files.get(file.index, file.generation)
                    {
                        file.closing = true;
                    }
                    let list = &mut self.queues.touch(queue).fifo;
                    list.push_back((entry.sequence, fifo));
                }
            }
        }
        drop(fifos);
        submitted.clear();
    }

    /// Gives a request its slot.
    #[inline]
    fn admit(
        &mut self,
        queue: u32,
        sequence: u64,
        request: &mut Request,
        submitted_ns: u64,
    ) -> u32 {
        let state = self.queues.state(queue);
        state.live += 1;
        let class = request.class.unwrap_or(state.shared.options.priority);
        let deadline_ns = request.deadline.map_or(NO_DEADLINE, |at| self.to_ns(at));
        let index = match self.free_requests.pop() {
            Some(index) => index,
            None => {
                self.requests.push(Req::free());
                self.tags.push(0);
                u32::try_from(self.requests.len() - 1).expect("fewer than 2^32 requests")
            }
        };
        self.tags[index as usize] = request.tag;
        // Written in place: what a free slot has and a new request needs is left as it is. What
        // owns something changes places with the nothing that a free slot has.
        let req = &mut self.requests[index as usize];
        debug_assert!(req.phase == Phase::Free && req.ops_out == 0 && req.jobs_out == 0);
        req.phase = Phase::Pending;
        req.queue = queue;
        req.sequence = sequence;
        req.class = class;
        req.deadline_ns = deadline_ns;
        req.arrival = self.arrivals;
        req.user_data = request.user_data;
        req.submitted_ns = submitted_ns;
        let file = match request.source {
            Source::File { file, offset, len } => {
                (req.offset, req.len) = (offset, len);
                file
            }
            _ => {
                let nothing = Source::File {
                    file: NO_FILE_ID,
                    offset: 0,
                    len: 0,
                };
                let source = std::mem::replace(&mut request.source, nothing);
                let (work, file, offset, len) = taken_apart(source);
                (req.work, req.offset, req.len) = (work, offset, len);
                file
            }
        };
        req.file = file.index;
        req.file_generation = file.generation;
        req.raw_len = request.raw_len;
        req.codec = request.codec;
        std::mem::swap(&mut req.destination, &mut request.destination);
        req.straight = Straight::NOWHERE;
        req.issued = 0;
        req.merge = self.shared.options.merge;
        req.length_asked = false;
        std::mem::swap(&mut req.group, &mut request.group);
        std::mem::swap(&mut req.counter, &mut request.counter);
        std::mem::swap(&mut req.rare, &mut request.rare);
        req.usual = req.is_usual();
        self.arrivals += 1;
        self.stats.requests += 1;
        index
    }

    /// A usual request of an open file goes to the scheduler in one step. False, and nothing was
    /// changed: something is unusual, so the careful way must look at it, which tells what is
    /// wrong, if anything is.
    fn start_usual(&mut self, request: u32) -> bool {
        let req = &mut self.requests[request as usize];
        if !req.usual || self.closing.is_some() {
            return false;
        }
        let Some(file) = self.files.get(req.file, req.file_generation) else {
            return false;
        };
        let (FilePhase::Open(_), Some(about), false) = (&file.phase, &file.about, file.closing)
        else {
            return false;
        };
        let len = match req.len {
            u64::MAX if req.offset == 0 => about.len,
            len => len,
        };
        let end = req.offset.checked_add(len);
        let in_range = end.is_some_and(|end| end <= about.len) && isize::try_from(len).is_ok();
        if !in_range || len == 0 || about.rotating || req.raw_len.is_some_and(|raw| raw != len) {
            return false;
        }
        let access = file.options.access.unwrap_or(self.shared.options.access);
        if access == Access::Direct && file.alignment().is_none()
            || room_in(&mut req.destination) < len
            || needs_staging(&mut req.destination, req.offset, len, file, access)
        {
            return false;
        }
        file.requests += 1;
        file.users += 1;
        (req.found, req.attached) = (true, true);
        req.file_version = file.version;
        req.len = len;
        req.raw_len = Some(len);
        req.phase = Phase::Waiting;
        if let Destination::Borrowed(borrowed) = &req.destination {
            req.straight.base = borrowed.pointer;
        }
        let place = Place {
            class: req.class,
            deadline_ns: req.deadline_ns,
            arrival: req.arrival,
            position: None,
        };
        self.scheduler.add(request, place, self.now_ns);
        true
    }

    /// A request begins: timer, gate, file.
    fn start(&mut self, request: u32) {
        if self.closing.is_some() {
            self.req(request).cancelled = true;
        }
        if self.req(request).cancelled {
            self.settle(request);
            return;
        }
        let timeout = self
            .req(request)
            .rare
            .as_ref()
            .and_then(|rare| rare.timeout);
        if let Some(timeout) = timeout {
            let req = self.req(request);
            let timer = Timer::Timeout(request, req.generation);
            let wait = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            let at = req.submitted_ns.saturating_add(wait);
            self.timers.push(Reverse((at, timer)));
        }
        if !self.find_file(request) {
            return;
        }
        if self.gate_closed(request, Some(Gate::Source)) {
            self.wait_at_gate(request);
            return;
        }
        self.proceed(request);
    }

    /// Checks that the request's file is not stale, and counts the request as a writer in its
    /// place.
    fn find_file(&mut self, request: u32) -> bool {
        let req = &self.requests[request as usize];
        if req.file == NO_FILE {
            return true;
        }
        let (index, generation) = (req.file, req.file_generation);
        let found = self
            .files
            .get(index, generation)
            .filter(|file| !file.closing);
        let Some(file) = found else {
            let cause = "the file was closed by an earlier entry, or is of another storage";
            // Without a file nothing of it must be looked up any more.
            self.req(request).file = NO_FILE;
            self.fail(request, Error::new(ErrorKind::StaleFile, cause));
            return false;
        };
        let epoch = file.epoch_base + file.epochs.len() as u64 - 1;
        file.requests += 1;
        let req = &mut self.requests[request as usize];
        req.found = true;
        match req.work {
            Work::Write | Work::Append => {
                *file.epochs.back_mut().expect("there is always an epoch") += 1;
                req.epoch = epoch;
            }
            Work::Sync { .. } => {
                file.epochs.push_back(0);
                req.epoch = epoch;
            }
            _ => {}
        }
        true
    }

    /// Whether a fence (of this kind of gate, if one is named) still holds the request.
    pub(super) fn gate_closed(&mut self, request: u32, kind: Option<Gate>) -> bool {
        let rare = self.req(request).rare.as_ref();
        rare.and_then(|rare| rare.gate.as_ref())
            .is_some_and(|(fence, value, gate)| {
                kind.is_none_or(|kind| kind == *gate) && !fence.reached(*value)
            })
    }

    /// Has the fence tell us. Looked at once more afterwards: it may have been signalled in
    /// between.
    pub(super) fn watch_gate(&mut self, request: u32) {
        let target = self.requests[request as usize].target(request);
        self.gated.push(target);
        let watcher: Arc<dyn crate::fence::Watcher> = self.shared.clone();
        let rare = self.req(request).rare.as_ref();
        if let Some((fence, value, _)) = rare.and_then(|rare| rare.gate.as_ref()) {
            fence.watch(&watcher);
            if fence.reached(*value) {
                self.shared.fence_may_be_reached();
            }
        }
    }

    pub(super) fn wait_at_gate(&mut self, request: u32) {
        self.detach(request);
        self.req(request).phase = Phase::Gated;
        self.watch_gate(request);
    }

    /// Lets go what stands at fences that have been reached.
    fn open_gates(&mut self) {
        let gated = std::mem::take(&mut self.gated);
        for target in gated {
            let Some(request) = self.live(target) else {
                continue;
            };
            let source = self.req(request).phase == Phase::Gated;
            if self.gate_closed(request, None) {
                self.gated.push(target);
            } else if source {
                self.req(request).phase = Phase::Pending;
                self.proceed(request);
            } else {
                self.release_held_jobs(request);
            }
        }
    }

    /// The source may be accessed: finds the file open, or has it opened.
    pub(super) fn proceed(&mut self, request: u32) {
        match &self.req(request).work {
            Work::Names(_) | Work::Replace(_) => self.wait_for_earlier(request),
            Work::Memory(bytes) => {
                let len = bytes.as_slice().len() as u64;
                self.req(request).len = len;
                self.prepare(request);
            }
            Work::Warm(_) => self.wait_turn(request),
            _ => {
                self.attach(request);
                self.file_ready(request);
            }
        }
    }

    fn wait_for_earlier(&mut self, request: u32) {
        let req = self.req(request);
        req.phase = Phase::Pending;
        let (queue, sequence, generation) = (req.queue, req.sequence, req.generation);
        let fifo = Fifo::Start(request, generation);
        let list = &mut self.queues.touch(queue).fifo;
        // Entries arrive in order, but an entry let go by a gate comes late.
        let at = list.partition_point(|(other, _)| *other < sequence);
        list.insert(at, (sequence, fifo));
    }

    /// The file of a request is open, or failed, or must be opened first.
    pub(super) fn file_ready(&mut self, request: u32) {
        let req = &self.requests[request as usize];
        let (index, target) = (req.file, req.target(request));
        let file = self.files.at(index);
        match &file.phase {
            FilePhase::Open(_) => {}
            FilePhase::Failed(error) => {
                let error = Error::from_io(error);
                self.fail(request, error);
                return;
            }
            _ => {
                file.waiters.push(target);
                let req = self.req(request);
                req.phase = Phase::Opening;
                let lane = OpenLane::of(req.class);
                self.files.want(index, lane);
                return;
            }
        }
        let version = file.version;
        let req = self.req(request);
        if req.issued > 0 || req.decode.is_some() {
            if req.file_version == version {
                self.wait_turn(request);
            } else {
                let cause = "the name came to mean another file while it was being read";
                self.fail(request, Error::new(ErrorKind::Io, cause));
            }
            return;
        }
        req.file_version = version;
        self.resolve(request);
    }

    /// The file is open: the range becomes definite.
    pub(super) fn resolve(&mut self, request: u32) {
        let req = &self.requests[request as usize];
        let (index, target) = (req.file, req.target(request));
        let file = self.files.at(index);
        let req = &mut self.requests[request as usize];
        match req.work {
            Work::Sync { .. } => {
                req.phase = Phase::Pending;
                self.sync_if_due(request);
                return;
            }
            Work::Write | Work::Append => {
                if !file.options.write {
                    let cause = "the file was not opened for writing";
                    self.fail(request, Error::new(ErrorKind::PermissionDenied, cause));
                    return;
                }
                req.len = destination_len(&mut req.destination);
                if matches!(req.work, Work::Append) {
                    let at = file.append_at.get_or_insert(0);
                    req.offset = *at;
                    *at += req.len;
                }
                if req.offset.checked_add(req.len).is_none() {
                    let cause = "offset plus length";
                    self.fail(request, Error::new(ErrorKind::Overflow, cause));
                    return;
                }
            }
            _ => {
                let known = file.len();
                if req.len == u64::MAX && req.offset == 0 {
                    req.len = known;
                } else {
                    match req.offset.checked_add(req.len) {
                        None => {
                            let cause = "offset plus length";
                            self.fail(request, Error::new(ErrorKind::Overflow, cause));
                            return;
                        }
                        Some(end) if end > known => {
                            self.past_end(request, index, target);
                            return;
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        self.prepare(request);
    }

    /// The range ends beyond the length that the open told: the file may have grown since.
    fn past_end(&mut self, request: u32, index: u32, target: Target) {
        let descriptor = self.files.at(index).descriptor();
        let req = self.req(request);
        match descriptor {
            Some(descriptor) if !req.length_asked => {
                req.length_asked = true;
                req.phase = Phase::Pending;
                req.jobs_out += 1;
                self.jobs_out += 1;
                let job = Job::File(target, FileWork::Len { descriptor });
                self.jobs.push((Priority::High, job));
            }
            _ => {
                let cause = "the range reaches past the end of the file";
                self.fail(request, Error::new(ErrorKind::PastEnd, cause));
            }
        }
    }

    /// How reads of the request's file go.
    pub(super) fn access(&mut self, request: u32) -> Access {
        let index = self.req(request).file;
        let own = self.files.at(index).options.access;
        own.unwrap_or(self.shared.options.access)
    }

    /// The request waits for its turn in the scheduler.
    pub(super) fn wait_turn(&mut self, request: u32) {
        let now_ns = self.now_ns;
        let place = self.place_of(request);
        let req = self.req(request);
        if req.is_ending() {
            self.settle(request);
            return;
        }
        req.phase = Phase::Waiting;
        self.attach(request);
        let scheduler = self.scheduler_of(request);
        if !scheduler.contains(request) {
            scheduler.add(request, place, now_ns);
        }
    }

    pub(super) fn place_of(&mut self, request: u32) -> Place {
        let req = &self.requests[request as usize];
        let position = match self.files.get(req.file, req.file_generation) {
            Some(file) => file
                .about
                .as_ref()
                .filter(|about| about.rotating)
                .map(|about| {
                    // Without a position from the system, files lie one after the other by inode.
                    let start = about.position.unwrap_or(about.identity.inode << 24);
                    start.saturating_add(req.offset + req.issued)
                }),
            None => None,
        };
        Place {
            class: req.class,
            deadline_ns: req.deadline_ns,
            arrival: req.arrival,
            position,
        }
    }

    fn command(&mut self, queue: u32, command: Command) {
        match command {
            Command::CancelTagged {
                mask,
                value,
                before,
            } => {
                self.cancel_tagged(queue, before, mask, value);
            }
            Command::CancelGroup { group, before } => {
                self.cancel_where(queue, before, |req| {
                    req.group.as_ref().is_some_and(|other| other.same(&group))
                });
            }
            Command::CancelCell(cell) => {
                let shared = &self.queues.state(queue).shared;
                if let Some(request) = shared.cells.request_of(cell) {
                    self.cancel(request);
                }
            }
            Command::Reprioritise {
                cell,
                class,
                deadline,
            } => {
                let shared = &self.queues.state(queue).shared;
                if let Some(request) = shared.cells.request_of(cell) {
                    self.change_class(request, class, deadline);
                }
            }
            Command::Pause(paused) => {
                self.queues.state(queue).paused = paused;
                self.unhold(queue);
            }
            Command::Bandwidth(cap) => {
                let bucket = cap.map(super::queues::Bucket::new);
                self.queues.state(queue).bucket = bucket;
                self.unhold(queue);
            }
            Command::Drop => {
                self.queues.touch(queue).dropped = true;
                self.queues.state(queue).paused = false;
                self.unhold(queue);
                // Also one whose file is still being opened, and would come to its gate later.
                self.cancel_where(queue, u64::MAX, |req| {
                    let gate = req.rare.as_ref().and_then(|rare| rare.gate.as_ref());
                    gate.is_some_and(|(fence, value, _)| !fence.reached(*value))
                });
            }
        }
    }

    /// Looks through the column of tags, and at the requests that it finds.
    fn cancel_tagged(&mut self, queue: u32, before: u64, mask: u64, value: u64) {
        for index in 0..self.tags.len() {
            if self.tags[index] & mask == value {
                let request = u32::try_from(index).expect("fewer than 2^32 requests");
                self.cancel_if(request, queue, before, |_| true);
            }
        }
    }

    fn cancel_where(&mut self, queue: u32, before: u64, matches: impl Fn(&Req) -> bool) {
        for request in 0..u32::try_from(self.requests.len()).expect("fewer than 2^32 requests") {
            self.cancel_if(request, queue, before, &matches);
        }
    }

    fn cancel_if(&mut self, request: u32, queue: u32, before: u64, matches: impl Fn(&Req) -> bool) {
        let req = &self.requests[request as usize];
        if req.phase != Phase::Free && req.queue == queue && req.sequence < before && matches(req) {
            self.cancel(request);
        }
    }

    pub(super) fn cancel(&mut self, request: u32) {
        let req = self.req(request);
        if req.phase != Phase::Free && !req.is_ending() {
            req.cancelled = true;
            self.settle(request);
        }
    }

    fn change_class(&mut self, request: u32, class: Priority, deadline: Option<Instant>) {
        let deadline_ns = deadline.map_or(NO_DEADLINE, |at| self.to_ns(at));
        let req = self.req(request);
        req.class = class;
        req.deadline_ns = deadline_ns;
        if self.scheduler_of(request).contains(request) {
            let (place, now_ns) = (self.place_of(request), self.now_ns);
            self.scheduler_of(request).change(request, place, now_ns);
        }
    }

    /// A queue's held requests may be served again (or will be held again when their turn comes).
    pub(super) fn unhold(&mut self, queue: u32) {
        let Some(state) = self.queues.get(queue) else {
            return;
        };
        if state.paused {
            return;
        }
        for target in std::mem::take(&mut state.held) {
            if let Some(request) = self.live(target)
                && self.req(request).phase == Phase::Held
            {
                if self.req(request).file == NO_FILE {
                    self.wait_turn(request);
                } else {
                    self.attach(request);
                    self.file_ready(request);
                }
            }
        }
    }

    /// The length of a file was asked for again.
    pub(super) fn length_told(&mut self, request: u32, len: u64) {
        let index = self.req(request).file;
        if let Some(about) = &mut self.files.at(index).about {
            about.len = len;
        }
        self.file_ready(request);
    }
}

const NO_FILE_ID: FileId = FileId {
    index: NO_FILE,
    generation: 0,
};

/// Work, file, offset and length.
fn taken_apart(source: Source) -> (Work, FileId, u64, u64) {
    match source {
        Source::File { file, offset, len } => (Work::Read, file, offset, len),
        Source::Memory(bytes) => (Work::Memory(bytes), NO_FILE_ID, 0, 0),
        Source::Write { file, offset } => (Work::Write, file, offset, 0),
        Source::Append { file } => (Work::Append, file, 0, 0),
        Source::Sync { file, data_only } => (Work::Sync { data_only }, file, 0, 0),
        Source::Names(names) => (Work::Names(names), NO_FILE_ID, 0, 0),
        Source::Replace(name) => (Work::Replace(name), NO_FILE_ID, 0, 0),
        Source::Warm { view, offset, len } => (Work::Warm(view), NO_FILE_ID, offset, len),
    }
}

/// Bytes that a destination has room for.
#[inline]
pub(super) fn room_in(destination: &mut Destination) -> u64 {
    match destination {
        Destination::Library => u64::MAX,
        Destination::Buffer(buffer) => buffer.capacity() as u64,
        other => destination_len(other),
    }
}

/// Bytes of a destination that already has memory.
pub(super) fn destination_len(destination: &mut Destination) -> u64 {
    let len = match destination {
        Destination::Buffer(buffer) => buffer.len(),
        Destination::Pieces(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
        Destination::Landing(memory) => {
            let crate::destination::Place::Host { len, .. } = memory.place();
            len
        }
        Destination::Borrowed(borrowed) => borrowed.len,
        Destination::Library | Destination::Supply(_) | Destination::Nothing => 0,
    };
    len as u64
}
