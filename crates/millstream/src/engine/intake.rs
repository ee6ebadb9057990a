//! Intake: entries become requests, and requests find their files. Every request passes the same
//! checks, again when it was held back; what few requests have costs a flag test.

use millstream_codec::CodecId;
use millstream_io::device::calls::Call;
use millstream_io::error::guard;
use millstream_io::{Access, Descriptor};

use super::columns::{Col, Extra, flag, push_waiting, staged_of};
use super::finish::canceled_by_close;
use super::{Engine, Flow};
use crate::caller::destination::{Memory, MemoryKind};
use crate::caller::fence::Fence;
use crate::caller::queue::{FIFO, Fifo, Parcel};
use crate::caller::request::{Body, Rare, Usual, Verb, Work};
use crate::caller::waits::WaitsFor;
use crate::engine::files::{File, Urgency};
use crate::engine::staged::Staged;
use crate::engine::state::{Event, State};
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::Change;
use crate::handover::slots::Head;
use crate::ids::FileId;
use crate::limits;

/// How many slots ahead are prefetched.
const AHEAD: usize = 6;

impl Engine {
    /// Takes in at most `INTAKE_MAX` entries, highest priority first.
    pub(super) fn intake(&mut self) -> bool {
        let mut left = limits::INTAKE_MAX;
        let mut worked = false;
        while left > 0 {
            let Some(queue) = self.queues.next_backlog() else {
                break;
            };
            worked = true;
            let state = self.queues.state(queue);
            let Some((mut parcel, from)) = state.backlog.pop_front() else {
                break;
            };
            let to = parcel.indices.len().min(from + left);
            left -= to - from;
            self.take_parcel(queue, &mut parcel, from, to);
            let state = self.queues.touch(queue);
            if to < parcel.indices.len() {
                state.backlog.push_front((parcel, to));
            } else {
                parcel.indices.clear();
                state.spare.push(parcel);
            }
        }
        self.pass_barriers();
        // True also while more is left than a round takes: the engine must not sleep.
        worked
    }

    fn take_parcel(&mut self, queue: u32, parcel: &mut Parcel, from: usize, to: usize) {
        let submitted_ns = self.shared.to_ns(parcel.at);
        if parcel.has_order {
            self.take_all_parcels(queue, parcel.number);
        }
        let real = parcel.indices[from..to].iter().filter(|i| **i != FIFO);
        let (count, most) = real.fold((0, 0), |(count, most), index| (count + 1, most.max(*index)));
        if self.cols.len() <= most as usize {
            let len = (most as usize + 1).next_multiple_of(1024);
            self.cols.resize_with(len, Col::default);
            self.extras.resize_with(len, || None);
        }
        self.queues.state(queue).live += count;
        self.shared.counters.requests.add(u64::from(count));
        let mut sequence = parcel.first_sequence + from as u64;
        for place in from..to {
            let index = parcel.indices[place];
            if let Some(ahead) = parcel.indices.get(place + AHEAD)
                && *ahead != FIFO
            {
                self.side.prefetch(*ahead);
            }
            if index == FIFO {
                let fifo = parcel.fifos.pop_front();
                self.take_fifo(queue, sequence, fifo.expect("an entry for its mark"));
            } else {
                self.arrive(queue, index, sequence, submitted_ns);
            }
            sequence += 1;
        }
        self.queues.state(queue).taken_in(sequence);
    }

    fn take_fifo(&mut self, queue: u32, sequence: u64, fifo: Fifo) {
        if let Fifo::Close(file) = &fifo {
            self.close_arrived(*file);
        }
        self.queues.touch(queue).add_fifo(sequence, fifo);
    }

    /// Takes in a request.
    #[inline]
    fn arrive(&mut self, queue: u32, index: u32, sequence: u64, submitted_ns: u64) {
        let (head, body) = self.side.look(index);
        let col = &mut self.cols[index as usize];
        assert!(col.state == State::Free, "a slot arrives once");
        *col = Col {
            len: body.len,
            sequence,
            submitted_ns,
            arrival: self.arrivals,
            generation: head.generation,
            queue: queue as u16,
            priority: head.priority,
            verb: head.verb,
            flags: u8::from(head.usual) * flag::USUAL,
            ..Col::default()
        };
        col.state.on(Event::Arrived);
        self.arrivals += 1;
        if head.rare {
            self.unpack(index);
        }
        let early = match self.early.is_empty() {
            true => None,
            false => self.early.remove(&self.id(index)),
        };
        if let Some(Change::Reorder(order)) = early {
            self.reorder(index, order);
        }
        let canceled = matches!(early, Some(Change::Withdraw))
            || self.side.wants_cancel(index)
            || self.was_canceled(queue, index);
        let flow = match canceled || self.closing.is_some() {
            true => Flow::End(Some(canceled_by_close())),
            false => self.admit(index, head, &body),
        };
        self.follow(index, flow);
    }

    #[inline(always)]
    fn was_canceled(&mut self, queue: u32, index: u32) -> bool {
        if self.queues.state(queue).selections.is_empty() {
            return false;
        }
        let selections = std::mem::take(&mut self.queues.state(queue).selections);
        let canceled = self.is_canceled(index, &selections);
        self.queues.state(queue).selections = selections;
        canceled
    }

    /// Takes the rare part out of the slot, and starts the timeout.
    #[cold]
    fn unpack(&mut self, index: u32) {
        let rare = self.side.take_rare(index).expect("its head says so");
        if let Some(timeout) = rare.timeout {
            let wait = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            let col = &self.cols[index as usize];
            let at = col.submitted_ns.saturating_add(wait);
            self.timers.insert(at, col.arrival, index);
        }
        let extra = Extra {
            rare,
            ..Extra::default()
        };
        self.extras[index as usize] = Some(Box::new(extra));
        self.cols[index as usize].flags |= flag::EXTRA;
    }

    /// Finds the file, counts writes in their epoch, and waits for the fence.
    #[inline]
    fn admit(&mut self, index: u32, head: Head, body: &Body) -> Flow {
        let (verb, id) = (head.verb, body.file);
        if !matches!(verb, Verb::Memory | Verb::Names | Verb::Prefetch) {
            let open = self.files.get(id).filter(|file| !file.closing);
            if open.map(File::hold).is_none() && !self.is_held_before_close(index, id) {
                return closed_before(id);
            }
            let col = &mut self.cols[index as usize];
            col.flags |= flag::HOLDS;
            // Writes and syncs need no room; it keeps their epoch.
            if verb.writes() {
                col.flags |= flag::WRITES;
                let (queue, sequence) = (u32::from(col.queue), col.sequence);
                self.side.body(index).room = self.write_arrived(id, queue, sequence);
            } else if verb == Verb::Sync {
                self.side.body(index).room = self.sync_arrived(id);
            }
        }
        match head.rare && self.gates(index).0 {
            true => self.hold_at_gate(index),
            false => self.check(index, head, body),
        }
    }

    /// Counts a request of a file whose close was taken in already, if it is before that.
    #[cold]
    fn is_held_before_close(&mut self, index: u32, id: FileId) -> bool {
        let col = &self.cols[index as usize];
        let is_before = self.is_before_close(id, u32::from(col.queue), col.sequence);
        let file = self.files.get(id).filter(|_| is_before);
        file.map(File::hold).is_some()
    }

    /// Whether fences hold back a request's source, and its destination.
    fn gates(&self, index: u32) -> (bool, bool) {
        let gates = |rare: &Rare| (is_shut(&rare.after), is_shut(&rare.write_after));
        self.rare(index).map_or((false, false), gates)
    }

    /// Whether any fence still holds something of a request back.
    pub(super) fn waits_for_fence(&self, index: u32) -> bool {
        let (source, destination) = self.gates(index);
        source || destination
    }

    fn hold_at_gate(&mut self, index: u32) -> Flow {
        let queue = u32::from(self.cols[index as usize].queue);
        if self.queues.state(queue).dropped {
            return Flow::End(Some(Error::new(ErrorKind::Canceled, "")));
        }
        self.detach_file(index);
        self.cols[index as usize].state.on(Event::Hold);
        self.waits(index, WaitsFor::Fence);
        self.watch(index);
        Flow::Wait
    }

    /// Has the fences of a request notify the engine, and checks them once more: they may have been
    /// signaled in between.
    fn watch(&mut self, index: u32) {
        let id = self.id(index);
        push_waiting(&mut self.gated, id, &self.cols);
        let watcher = self.shared.as_watcher();
        let rare = self.rare(index).expect("a request with a fence");
        let gates = [&rare.after, &rare.write_after];
        let mut reached = false;
        for (fence, value) in gates.into_iter().flatten() {
            fence.watch(&watcher);
            reached |= fence.has_reached(*value);
        }
        if reached {
            self.shared.look_at_fences();
        }
    }

    /// A fence was signaled.
    pub(super) fn gate_open(&mut self, index: u32) -> Flow {
        let holds_jobs = self.staged(index).is_some_and(|staged| staged.held);
        let col = &self.cols[index as usize];
        if !holds_jobs && col.state != State::Gated {
            return Flow::Wait;
        }
        // A request that is not prepared is read once its destination may be written: staging holds
        // as much as fences may already.
        let (source, destination) = self.gates(index);
        if source || destination && (holds_jobs || !col.has(flag::PREPARED)) {
            let id = self.id(index);
            push_waiting(&mut self.gated, id, &self.cols);
            return Flow::Wait;
        }
        match holds_jobs {
            true => self.release_jobs(index),
            false => self.check_again(index),
        }
    }

    /// The fence of a destination has been reached: its jobs may go out.
    fn release_jobs(&mut self, index: u32) -> Flow {
        let staged = staged_of(&mut self.extras, index);
        staged.held = false;
        self.gated_bytes -= std::mem::take(&mut staged.gated_bytes);
        self.update_class(index);
        match self.cols[index as usize].ending {
            Some(_) => Flow::Wait,
            None => self.advance(index),
        }
    }

    /// Continues a request that was held by its queue, its mount or earlier writes.
    pub(super) fn released(&mut self, index: u32) -> Flow {
        match self.cols[index as usize].state {
            State::Gated => self.check_again(index),
            _ => Flow::Wait,
        }
    }

    /// Its file is open, or failed to open.
    pub(super) fn file_ready(&mut self, index: u32) -> Flow {
        let col = &mut self.cols[index as usize];
        if col.state != State::Opening || col.ending.is_some() {
            return Flow::Wait;
        }
        if self.offer_is_out(index) {
            // Its open is answered together with its offer, which decides first.
            return Flow::Wait;
        }
        self.cols[index as usize].state.on(Event::FileReady);
        self.check_again(index)
    }

    /// Checks a request again that was held back.
    pub(super) fn check_again(&mut self, index: u32) -> Flow {
        let (head, body) = self.side.look(index);
        self.check(index, head, &body)
    }

    /// The one set of checks that every request passes.
    #[inline(always)]
    fn check(&mut self, index: u32, head: Head, body: &Body) -> Flow {
        match head.verb {
            Verb::Read => self.check_read(index, head, body),

            Verb::Write | Verb::Append => self.check_write(index),
            Verb::Sync => self.check_sync(index),
            Verb::Memory => self.check_memory(index),
            Verb::Names => self.wait_for_earlier(index),
            Verb::Prefetch => self.prefetch(index),
            Verb::Info => self.check_info(index),
        }
    }

    /// Makes the request a user of its file. `None`: it is open; else what becomes of the request.
    pub(super) fn need_file(&mut self, index: u32) -> Option<Flow> {
        let file_index = self.side.peek(index).file.0.index();
        self.need(index, file_index).err()
    }

    /// As [`Engine::need_file`], of the file that the slot names. Returns the one that is open: the
    /// request may be passed on to another handle.
    #[inline(always)]
    fn need(&mut self, index: u32, file_index: u32) -> Result<u32, Flow> {
        let (col, file) = (&mut self.cols[index as usize], self.files.at(file_index));
        if !col.has(flag::ATTACHED) {
            col.flags |= flag::ATTACHED;
            file.attach();
        }
        match file.descriptor() {
            Some(_) => Ok(file_index),
            None => self.open_needed(index, file_index),
        }
    }

    #[cold]
    fn open_needed(&mut self, index: u32, file_index: u32) -> Result<u32, Flow> {
        let request = self.id(index);
        let file = self.files.at(file_index);
        if let Some(owner) = file.shares() {
            self.pass_on(index, file_index, owner);
            return self.need(index, owner);
        }
        if let Some(error) = file.failure() {
            let error = error.clone();
            return Err(self.end_wanted(index, error));
        }
        push_waiting(&mut file.waiters, request, &self.cols);
        let cause = match file.is_being_opened() {
            true => WaitsFor::File,
            false => WaitsFor::QUEUED_OPEN,
        };
        self.waits(index, cause);
        let col = &mut self.cols[index as usize];
        col.state.on(Event::NeedsFile);
        let urgency = Urgency::of(col.priority);
        self.files.want(file_index, urgency);
        if urgency >= Urgency::Urgent
            && let Some(call) = self.files.at(file_index).open_call.take()
        {
            self.lanes.hurry(call);
        }
        // Its open may hang.
        self.pass_place_on(file_index);
        Err(Flow::Wait)
    }

    /// Passes a request on to the handle whose descriptors its own shares.
    fn pass_on(&mut self, index: u32, from: u32, to: u32) {
        let owner = self.files.at(to);
        owner.hold();
        let id = owner.id;
        self.detach_file(index);
        if self.cols[index as usize].verb == Verb::Sync {
            let named = self.side.peek(index).file;
            self.extra(index).handle.get_or_insert(named);
        }
        self.side.body(index).file = id;
        if self.files.release(from, false) {
            self.finish_file(from);
        }
    }

    /// The request does not need its file open for the time being.
    pub(super) fn detach_file(&mut self, index: u32) {
        if self.cols[index as usize].has(flag::ATTACHED) {
            self.cols[index as usize].flags &= !flag::ATTACHED;
            let file = self.side.peek(index).file.0.index();
            self.files.detach(file);
        }
    }

    #[inline(always)]
    fn check_read(&mut self, index: u32, head: Head, body: &Body) -> Flow {
        let file_index = match self.need(index, body.file.0.index()) {
            Ok(open) => open,
            Err(flow) => return flow,
        };
        let col = &self.cols[index as usize];
        if col.has(flag::PREPARED) {
            return Flow::Runnable;
        }
        let whole = body.len == u64::MAX && body.offset == 0;
        let has_extra = col.has(flag::EXTRA);
        let at_most = has_extra && self.rare(index).is_some_and(|rare| rare.at_most);
        if (whole || at_most)
            && let Some(flow) = self.look_at_len(index, whole)
        {
            return flow;
        }
        let file = self.files.at(file_index);
        let facts = file.facts.as_ref().expect("an open file");
        let len = match (whole, at_most) {
            (true, _) => facts.len,
            (_, true) => body.len.min(facts.len.saturating_sub(body.offset)),
            _ => body.len,
        };
        match body.offset.checked_add(len) {
            None => return overflow(),
            Some(end) if end > facts.len && !at_most => return self.past_end(index, end),
            Some(_) => {}
        }
        if isize::try_from(len).is_err() {
            let cause = "the length exceeds the address space";
            return Flow::End(Some(Error::new(ErrorKind::Overflow, cause)));
        }
        if facts.access == Access::Direct && facts.masks.is_none() && len > 0 {
            let cause = "direct I/O was requested, and the file has none";
            return Flow::End(Some(Error::new(ErrorKind::NoDirectIo, cause)));
        }
        let col = &mut self.cols[index as usize];
        col.len = len;
        if whole || at_most {
            let is_unknown = whole || facts.len == 0;
            if len == 0 && is_unknown && body.len > 0 && !col.has(flag::ASKED) {
                // A file that reports no length may have content all the same (procfs), which comes
                // with the answer: nothing may hold it back then.
                return match self.waits_for_fence(index) {
                    true => self.hold_at_gate(index),
                    false => self.ask_file(index, Call::Content),
                };
            }
            if whole {
                self.charge_late(index, len);
            }
        }
        self.check_encoding(index, len, head, body)
    }

    /// Finds the length of a file again, which a read depends on; `None`: it is known.
    fn look_at_len(&mut self, index: u32, whole: bool) -> Option<Flow> {
        let file = self.files.at(self.side.peek(index).file.0.index());
        let is_known =
            std::mem::take(&mut file.is_fresh) || self.cols[index as usize].has(flag::ASKED);
        // A file that reports no length is read to its end.
        if is_known || whole && file.len() == 0 && file.can_hang() {
            return None;
        }
        if file.can_hang() {
            return Some(self.ask_file(index, Call::Len));
        }
        let descriptor = file.descriptor().expect("an open file");
        let fs = &self.shared.fs;
        match guard(|| fs.len(descriptor)) {
            Some(Ok(len)) => file.set_len(len),
            Some(Err(error)) => return Some(Flow::End(Some(error.into()))),
            None => return Some(Flow::End(Some(file_system_panicked()))),
        }
        None
    }

    /// Bytes that are not encoded land as they are; others are staged.
    #[inline(always)]
    fn check_encoding(&mut self, index: u32, len: u64, head: Head, body: &Body) -> Flow {
        let (codec, memory, room) = (head.codec, head.memory, body.room);
        let has_extra = self.cols[index as usize].has(flag::EXTRA);
        let encoded = self.is_encoded(index, codec);
        if !encoded && self.declared(index).is_some_and(|declared| declared != len) {
            return other_length();
        }
        if encoded || memory == MemoryKind::Device {
            return self.stage(index, codec);
        }
        if room < len {
            return too_small();
        }
        if memory == MemoryKind::Supply {
            // Others may need its descriptors until the application has supplied it.
            self.detach_file(index);
            let asked = self.ask_memory(index, len);
            return asked.map_or_else(|error| Flow::End(Some(error)), |()| Flow::Wait);
        }
        if has_extra && len > 0 && self.gates(index).1 {
            return self.stage(index, CodecId::STORED);
        }
        self.cols[index as usize].flags |= flag::PREPARED;
        match len {
            0 => {
                self.show(index, 0);
                Flow::End(None)
            }
            _ => Flow::Runnable,
        }
    }

    /// Whether the stored bytes of a read are decoded: by a codec, or by a table of blocks.
    #[inline(always)]
    pub(super) fn is_encoded(&self, index: u32, codec: CodecId) -> bool {
        let has_extra = self.cols[index as usize].has(flag::EXTRA);
        codec != CodecId::STORED
            || has_extra && self.rare(index).is_some_and(|rare| rare.table.is_some())
    }

    /// Sets the view of a caller's buffer to the `len` bytes that land, as far as it has room.
    pub(super) fn show(&mut self, index: u32, len: usize) {
        if self.memory_kind(index) == MemoryKind::Buffer
            && let Memory::Buffer(buffer) = self.side.memory(index)
        {
            buffer.set_view(0, len.min(buffer.capacity()));
        }
    }

    /// The raw length that the request gives.
    #[inline(always)]
    pub(super) fn declared(&mut self, index: u32) -> Option<u64> {
        if !self.cols[index as usize].has(flag::USUAL) {
            return None;
        }
        let raw_len = self.side.usual(index).raw_len;
        (raw_len != u64::MAX).then_some(raw_len)
    }

    /// Counts a whole file in its queue's byte budget, now that its length is known.
    fn charge_late(&mut self, index: u32, len: u64) {
        let queue = u32::from(self.cols[index as usize].queue);
        let len = self.queues.state(queue).shared.charge_of(len);
        if len == 0 || self.declared(index).is_some() {
            return;
        }
        let charged = &mut self.usual(index).charged;
        // Not again when it is checked again, with its memory or after its fence.
        if *charged == 0 {
            *charged = len;
            self.queues.state(queue).shared.charge_late(len);
        }
    }

    /// The range ends beyond the length that the open reported: the file may have grown.
    fn past_end(&mut self, index: u32, end: u64) -> Flow {
        if !self.cols[index as usize].has(flag::ASKED) {
            return self.ask_file(index, Call::Len);
        }
        let file = self.side.peek(index).file.0.index();
        let len = self.files.at(file).len();
        let cause = format!("the range ends at {end}, and the file has {len} bytes");
        Flow::End(Some(Error::new(ErrorKind::PastEnd, cause)))
    }

    /// Asks once for what the open of a file did not report.
    pub(super) fn ask_file(&mut self, index: u32, call: impl FnOnce(Descriptor) -> Call) -> Flow {
        let file = self.side.peek(index).file.0.index();
        let descriptor = self.files.at(file).descriptor().expect("an open file");
        self.cols[index as usize].flags |= flag::ASKED;
        self.call_for(index, call(descriptor))
    }

    fn check_write(&mut self, index: u32) -> Flow {
        if let Some(flow) = self.need_file(index) {
            return flow;
        }
        if self.cols[index as usize].has(flag::PREPARED) {
            return Flow::Runnable;
        }
        let body = *self.side.peek(index);
        let file = self.files.at(body.file.0.index());
        if !file.options.write {
            let cause = "the file was not opened for writing";
            return Flow::End(Some(Error::new(ErrorKind::PermissionDenied, cause)));
        }
        // Appends get their place when they are issued: one that is canceled before leaves no hole.
        if body.offset.checked_add(body.len).is_none() {
            return overflow();
        }
        self.cols[index as usize].flags |= flag::PREPARED;
        match body.len {
            0 => Flow::End(None),
            _ => Flow::Runnable,
        }
    }

    /// Syncs once all writes before it have completed.
    fn check_sync(&mut self, index: u32) -> Flow {
        if let Some(flow) = self.need_file(index) {
            return flow;
        }
        let (id, body) = (self.id(index), *self.side.peek(index));
        let data_only = match self.rare(index).map(|rare| &rare.work) {
            Some(Work::Sync { data_only }) => *data_only,
            _ => unreachable!("a sync says of what"),
        };
        if !self.files.may_sync(body.file.0.index(), body.room, id) {
            self.cols[index as usize].state.on(Event::Hold);
            self.waits(index, WaitsFor::Earlier);
            // A write before it may wait for a fence: others may need the descriptors.
            self.detach_file(index);
            return Flow::Wait;
        }
        let file = self.files.at(body.file.0.index()).descriptor();
        let file = file.expect("an open file");
        self.call_for(index, Call::Sync { file, data_only })
    }

    fn check_info(&mut self, index: u32) -> Flow {
        let file = self.files.at(self.side.peek(index).file.0.index());
        // A file that was closed to make room is not opened again for this.
        let info = match (file.info(), file.failure()) {
            (Some(info), None) => info,
            _ => match self.need_file(index) {
                Some(flow) => return flow,
                None => {
                    let file = self.side.peek(index).file.0.index();
                    self.files.at(file).info().expect("an open file")
                }
            },
        };
        self.side.set_memory(index, Memory::Info(info));
        Flow::End(None)
    }

    fn check_memory(&mut self, index: u32) -> Flow {
        let head = self.side.head(index);
        if let Some(declared) = self.declared(index)
            && head.codec == CodecId::STORED
            && self.rare(index).is_some_and(|rare| rare.table.is_none())
            && declared != self.cols[index as usize].len
        {
            let cause = "stored bytes have another length than the raw size declared";
            return Flow::End(Some(Error::new(ErrorKind::RawSize, cause)));
        }
        match self.cols[index as usize].has(flag::PREPARED) {
            true => Flow::Runnable,
            false => self.stage(index, head.codec),
        }
    }

    /// Holds a call on names until everything before it has completed.
    fn wait_for_earlier(&mut self, index: u32) -> Flow {
        let col = &mut self.cols[index as usize];
        col.state.on(Event::Hold);
        let (queue, sequence) = (u32::from(col.queue), col.sequence);
        let id = self.id(index);
        self.waits(index, WaitsFor::Earlier);
        self.queues.touch(queue).add_fifo(sequence, Fifo::Start(id));
        Flow::Wait
    }

    /// Routes a request through staging.
    pub(super) fn stage(&mut self, index: u32, codec: CodecId) -> Flow {
        let gated = self.gates(index).1;
        let queue = u32::from(self.cols[index as usize].queue);
        if gated && self.queues.state(queue).dropped {
            return Flow::End(Some(Error::new(ErrorKind::Canceled, "")));
        }
        match self.add_staged(index, codec, gated) {
            Ok(true) => {}
            Ok(false) => return self.hold_at_gate(index),
            Err(error) => return Flow::End(Some(error)),
        }
        self.cols[index as usize].flags |= flag::PREPARED;
        if gated {
            self.watch(index);
        }
        match self.cols[index as usize].len {
            0 => {
                self.cols[index as usize].state.on(Event::Work);
                self.advance(index)
            }
            _ => Flow::Runnable,
        }
    }

    /// Makes the staged part of a request; false: staging already holds as much as fences may, and
    /// the request is read after its fence.
    pub(super) fn add_staged(
        &mut self,
        index: u32,
        codec: CodecId,
        gated: bool,
    ) -> Result<bool, Error> {
        let col = &self.cols[index as usize];
        let (len, in_memory) = (col.len, col.verb == Verb::Memory);
        let how = self.rare(index);
        let how = how.map(|rare| (rare.table.clone(), rare.decoder.clone()));
        let declared = self.declared(index);
        let options = &self.shared.options;
        let capacity = self.staging.capacity() as u64;
        let sizes = (capacity, options.block_bytes as u64);
        let raw_len_max = match self.cols[index as usize].has(flag::USUAL) {
            true => self.side.usual(index).raw_len_max,
            false => limits::RAW_BYTES_MAX_DEFAULT,
        };
        let lens = (len, declared, raw_len_max);
        let mut staged = Staged::new(
            codec,
            how.unwrap_or_default(),
            lens,
            in_memory,
            sizes,
            &options.codecs,
        )?;
        if gated && !in_memory {
            let bytes = staged.bytes_ahead();
            if self.gated_bytes + bytes > capacity / 4 {
                return Ok(false);
            }
            self.gated_bytes += bytes;
            staged.gated_bytes = bytes;
        }
        staged.held = gated;
        self.extra(index).staged = Some(Box::new(staged));
        self.update_class(index);
        Ok(true)
    }

    /// The usual part of a request, made if it has none.
    pub(super) fn usual(&mut self, index: u32) -> &mut Usual {
        let (col, usual) = (&mut self.cols[index as usize], self.side.usual(index));
        if !col.has(flag::USUAL) {
            col.flags |= flag::USUAL;
            *usual = Usual::default();
        }
        usual
    }

    /// The extra part of a request, made if it has none.
    pub(super) fn extra(&mut self, index: u32) -> &mut Extra {
        self.cols[index as usize].flags |= flag::EXTRA;
        self.extras[index as usize].get_or_insert_default()
    }
}

/// Whether there is a gate whose fence has not reached its value.
fn is_shut(gate: &Option<(Fence, u64)>) -> bool {
    let gate = gate.as_ref();
    gate.is_some_and(|(fence, value)| !fence.has_reached(*value))
}

pub(super) fn file_system_panicked() -> Error {
    Error::new(ErrorKind::Io, "the file system panicked")
}

/// The end of a request whose file was closed before.
#[cold]
fn closed_before(id: FileId) -> Flow {
    let cause = match id {
        FileId::NONE => "the storage had 2^20 files open at its open: close files",
        _ => "an earlier entry closed the file, or the id is of another storage",
    };
    Flow::End(Some(Error::new(ErrorKind::StaleFile, cause)))
}

fn overflow() -> Flow {
    let cause = "offset plus length exceeds 2^64";
    Flow::End(Some(Error::new(ErrorKind::Overflow, cause)))
}

pub(super) fn other_length() -> Flow {
    let cause = "stored bytes have another length than the raw size declared";
    Flow::End(Some(Error::new(ErrorKind::RawSize, cause)))
}

pub(super) fn too_small() -> Flow {
    let cause = "the destination is smaller than what must land in it";
    Flow::End(Some(Error::new(ErrorKind::DestinationTooSmall, cause)))
}
