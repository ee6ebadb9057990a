//! Blocking calls of the engine: opens, closes, lengths, syncs, names. Each has an entry in the
//! table until its answer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use millstream_io::device::calls::{
    Call, CallAnswer, CallDone, LetGoAnswer, Offer, OfferMemory, OfferRead, OpenAnswer, OpenCall,
};
use millstream_io::limits::OFFER_BYTES_MAX;
use millstream_io::{Access, IoError, Known, OwnedDescriptor, Segment};

use super::columns::{flag, is_known};
use super::intake::other_length;
use super::{Engine, Flow, What};
use crate::caller::destination::{Memory, MemoryKind};
use crate::caller::request::{Verb, Work};
use crate::caller::waits::WaitsFor;
use crate::engine::files::{Closing, Look};
use crate::engine::state::{Event, State};
use crate::error::{Error, ErrorKind};
use crate::ids::Id;
use crate::trace::Track;

/// What a call in flight is for.
pub(super) enum Entry {
    /// The open of a file, with an offer of a request's memory.
    Open(u32, Option<Id>),
    Close(Closing),
    /// The close of a handle that makes room.
    LetGo(u32),
    Look(Look),
    /// A request, and the file whose descriptor the call uses, which stays open meanwhile.
    Request(Id, Option<u32>),
    /// An external block, which has its own table.
    External,
}

#[derive(Default)]
pub(super) struct CallTable {
    calls: HashMap<u64, Entry>,
    next: u64,
}

impl CallTable {
    pub(super) fn add(&mut self, entry: Entry) -> u64 {
        self.next += 1;
        self.calls.insert(self.next, entry);
        self.next
    }

    fn remove(&mut self, id: u64) -> Entry {
        let call = self.calls.remove(&id);
        call.expect("an answer is of a call under way")
    }

    /// Files that calls under way use.
    pub(super) fn files(&self) -> impl Iterator<Item = u32> {
        self.calls.values().filter_map(|entry| match entry {
            Entry::Open(file, _) | Entry::LetGo(file) => Some(*file),
            Entry::Look(look) => Some(look.file),
            Entry::Request(_, file) => *file,
            Entry::Close(_) | Entry::External => None,
        })
    }
}

/// Bytes that one call brings into memory for a prefetch.
const PREFETCH_BYTES: u64 = 4 << 20;

impl Engine {
    /// Makes a call for a request, which is in flight until the answer.
    pub(super) fn call_for(&mut self, index: u32, call: Call) -> Flow {
        let file = self.side.peek(index).file.0.index();
        let (event, file) = match call {
            Call::Len(_) | Call::Content(_) => (Event::NeedsFile, Some(file)),
            Call::Sync { .. } => (Event::Work, Some(file)),
            _ => (Event::Work, None),
        };
        if let Some(file) = file {
            self.files.call_began(file);
        }
        let col = &mut self.cols[index as usize];
        col.state.on(event);
        col.jobs += 1;
        self.waits(index, WaitsFor::File);
        let id = self.calls.add(Entry::Request(self.id(index), file));
        self.lanes.call(id, event == Event::NeedsFile, call);
        Flow::Wait
    }

    /// Hands opens and closes to the threads, as far as the limit on descriptors allows.
    pub(super) fn start_opens(&mut self) {
        if let Some(file) = self.next_unneeded() {
            self.finish_file(file);
        }
        for file in std::mem::take(&mut self.files.requeued) {
            if self.files.get(file).is_some() {
                self.note_opens(file.0.index(), WaitsFor::QUEUED_OPEN);
            }
        }
        while let Some((look, urgent)) = self.files.next_look() {
            let place = Arc::clone(&self.files.at(look.file).place);
            let id = self.calls.add(Entry::Look(look));
            self.lanes.call(id, urgent, Call::Look(place));
        }
        if self.files.opening() > 0 {
            self.evict();
            while let Some((file, urgent, call)) = self.files.next_open(self.now_ns) {
                self.start_open(file, urgent, call);
                self.evict();
            }
        }
        let short = self.files.is_short_of_descriptors();
        self.shared.causes.set_short_of_descriptors(short);
        self.close_descriptors();
    }

    pub(super) fn close_descriptors(&mut self) {
        self.each(|engine| &mut engine.files.closes, Engine::close_descriptor);
    }

    fn close_descriptor(&mut self, (descriptor, closing): (OwnedDescriptor, Closing)) {
        let id = self.calls.add(Entry::Close(closing));
        self.lanes.call(id, false, Call::Close(descriptor));
    }

    fn evict(&mut self) {
        if let Some((file, call)) = self.files.evict() {
            let id = self.calls.add(Entry::LetGo(file));
            self.lanes.call(id, false, Call::LetGo(Box::new(call)));
        }
    }

    /// A descriptor was closed, whatever its close reports.
    fn descriptor_closed(&mut self, closing: &Closing, result: Result<(), IoError>) {
        let error = result
            .err()
            .map(|error| self.close_failed(&closing.path, error));
        self.files.closed(closing, error.as_ref());
        if let (Some(error), Some((queue, sequence))) = (&error, &closing.by) {
            queue.record_failure(*sequence, error);
        }
    }

    /// Counts and logs the error of a close.
    pub(super) fn close_failed(&self, path: &Arc<Path>, error: IoError) -> Error {
        let error = Error::from(error).at(Some(Arc::clone(path)), 0, u64::MAX);
        self.shared.counters.close_errors.add(1);
        self.shared.warn(format!("closing a file failed: {error}"));
        error
    }

    fn let_go_answered(&mut self, file: u32, answer: LetGoAnswer) {
        let error = self.files.gone(file, answer);
        if let Some(error) = error {
            let path = Arc::clone(&self.files.at(file).path);
            let error = self.close_failed(&path, error);
            self.files.close_failed(file, error);
        }
        if self.files.at(file).descriptor().is_some() {
            self.wake_waiters(file);
        }
        self.finish_file(file);
    }

    fn looked(&mut self, look: Look, found: &Result<Known, IoError>) {
        let handles = look.handles.clone();
        self.files.looked(look, found);
        for handle in handles {
            if self.files.at(handle).shares().is_some() {
                self.wake_waiters(handle);
            }
            self.finish_file(handle);
        }
    }

    /// Has the requests that wait for a file look at it again.
    fn wake_waiters(&mut self, file: u32) {
        let waiters = std::mem::take(&mut self.files.at(file).waiters);
        let ready = waiters.into_iter().map(|id| (id, What::FileReady));
        self.events.extend(ready);
    }

    fn start_open(&mut self, file: u32, urgent: bool, mut call: OpenCall) {
        let offered = match call.buffered {
            true => self.offer(file),
            false => None,
        };
        let (request, offer) = offered.unzip();
        call.close_read = self.is_read_once(file, &call, offer.as_ref());
        call.offer = offer;
        self.note_opens(file, WaitsFor::File);
        let id = self.calls.add(Entry::Open(file, request));
        self.files.at(file).open_call = (!urgent).then_some(id);
        self.lanes.call(id, urgent, Call::Open(Box::new(call)));
    }

    /// Whether a file is closed again by the thread that opens it, once its one request is served:
    /// else others would have it closed to make room.
    fn is_read_once(&mut self, file: u32, call: &OpenCall, offer: Option<&Offer>) -> bool {
        let is_whole = offer.is_some_and(|offer| offer.len == u64::MAX);
        let is_crowded = self.files.is_crowded();
        let file = self.files.at(file);
        is_whole
            && is_crowded
            && call.expected.is_none()
            && file.waiters.len() == 1
            && !(file.options.write || file.options.package)
    }

    /// Records what the requests wait for that wait for a file.
    fn note_opens(&mut self, file: u32, cause: WaitsFor) {
        for id in &self.files.at(file).waiters {
            // Others have been canceled, and wait for what is out of them.
            let opens = self.cols[id.index() as usize].state == State::Opening;
            if opens && is_known(&self.cols, *id) {
                self.side.set_waits(id.index(), cause);
            }
        }
    }

    /// Memory of the first request that waits for a file, if its bytes may be read with the open.
    fn offer(&mut self, file: u32) -> Option<(Id, Offer)> {
        if self.lanes.is_modeled() {
            return None;
        }
        let id = self.files.at(file).waiters.first().copied()?;
        let index = id.index();
        if !self.is_known(id) || !self.may_offer(index) {
            return None;
        }
        let body = *self.side.peek(index);
        let memory = match self.memory_kind(index) {
            MemoryKind::Pool => OfferMemory::Pool(Arc::clone(&self.shared.buffers)),
            MemoryKind::Borrowed => {
                let len = usize::try_from(body.room).ok()?;
                OfferMemory::Lent(Segment::new(body.pointer, len))
            }
            _ => OfferMemory::Lent(match self.side.memory(index) {
                Memory::Buffer(buffer) => Segment::new(buffer.base(), buffer.capacity()),
                Memory::Owned(_, place) => *place,
                _ => return None,
            }),
        };
        let token = Arc::default();
        let extra = self.extra(index);
        extra.offer = Some(Arc::clone(&token));
        self.cols[index as usize].jobs += 1;
        Some((
            id,
            Offer {
                offset: body.offset,
                len: body.len,
                memory,
                token,
            },
        ))
    }

    /// Whether a request is a plain read of stored bytes that has not begun, and not too long.
    fn may_offer(&mut self, index: u32) -> bool {
        let file = self.side.peek(index).file;
        let Some(file) = self.files.peek(file) else {
            return false;
        };
        if file.access == Access::Direct || file.options.write || file.can_hang() {
            return false;
        }
        let col = &self.cols[index as usize];
        let queue = u32::from(col.queue);
        let fresh = col.state == State::Opening
            && col.verb == Verb::Read
            && col.ending.is_none()
            && !col.is_out()
            && col.issued == 0
            && !col.has(flag::ASKED)
            && !col.has(flag::PREPARED);
        let plain = self.rare(index).is_none_or(|rare| {
            let is_gated = rare.after.is_some() || rare.write_after.is_some();
            !is_gated && rare.table.is_none() && !rare.at_most
        });
        let state = self.queues.state(queue);
        let served = !state.is_limited();
        let budget = state.shared.options.bytes.is_some();
        let head = self.side.head(index);
        let body = self.side.peek(index);
        let whole = body.len == u64::MAX && body.offset == 0;
        let short = body.len <= OFFER_BYTES_MAX;
        fresh
            && plain
            && served
            && head.codec == millstream_codec::CodecId::STORED
            && (short || whole && !budget)
            && self.declared(index).is_none()
    }

    /// Takes back memory that a request has offered, unless a thread is reading into it.
    pub(super) fn withdraw_offer(&mut self, index: u32) {
        if !self.cols[index as usize].has(flag::EXTRA) {
            return;
        }
        if let Some(extra) = self.extras[index as usize].as_mut()
            && extra.offer.as_ref().is_some_and(|token| token.withdraw())
        {
            extra.offer = None;
            self.cols[index as usize].jobs -= 1;
        }
    }

    pub(super) fn offer_is_out(&self, index: u32) -> bool {
        let extra = self.extra_of(index);
        extra.is_some_and(|extra| extra.offer.is_some())
    }

    pub(super) fn answer_all(&mut self) -> bool {
        self.each(|engine| &mut engine.answers, Engine::answer)
    }

    fn answer(&mut self, done: CallDone) {
        match (self.calls.remove(done.id), done.answer) {
            (Entry::Open(file, offered), CallAnswer::Opened(answer)) => {
                self.opened(file, offered, *answer);
            }
            (Entry::Close(closing), CallAnswer::Done(result)) => {
                self.descriptor_closed(&closing, result);
            }
            (Entry::LetGo(file), CallAnswer::LetGo(answer)) => self.let_go_answered(file, *answer),
            (Entry::Look(look), CallAnswer::Known(found)) => self.looked(look, &found),
            (Entry::External, _) => self.external_answered(done.id),
            (Entry::Request(request, file), answer) => {
                self.request_answered(request, answer);
                if let Some(file) = file
                    && self.files.operation_done(file)
                {
                    self.finish_file(file);
                }
            }
            _ => unreachable!("a call has an answer of its kind"),
        }
    }

    fn request_answered(&mut self, request: Id, answer: CallAnswer) {
        if !self.is_known(request) {
            return self.quarantine_back(request, 0, 1);
        }
        let index = request.index();
        self.cols[index as usize].jobs -= 1;
        let flow = self.answered(index, answer);
        self.follow(index, flow);
    }

    fn opened(&mut self, file: u32, offered: Option<Id>, mut answer: OpenAnswer) {
        let counters = &self.shared.counters;
        counters.opens.add(1);
        counters.open_ns.add(answer.spent_ns);
        counters.open_max_ns.raise(answer.spent_ns);
        if let Some(id) = offered {
            self.offer_answered(id, answer.read.take(), answer.spent_ns);
        }
        if let Some(Err(error)) = &answer.closed {
            let path = Arc::clone(&self.files.at(file).path);
            let error = self.close_failed(&path, error.clone());
            self.files.close_failed(file, error);
        }
        // Held until its waiters are notified: the completion of the last would free it.
        self.files.at(file).hold();
        self.files.at(file).open_call = None;
        if self.files.open_done(file, answer, self.now_ns) {
            self.wake_waiters(file);
            if self.files.at(file).closing {
                // Its close may take effect now.
                for queue in self.queues.indices() {
                    self.queues.touch(queue);
                }
            }
        } else {
            self.note_opens(file, WaitsFor::QUEUED_OPEN);
            let limit = self.files.shortage_began();
            if let Some(limit) = limit {
                self.shared.warn(format!(
                    "the process is out of descriptors: the storage uses at most {limit} for now"
                ));
            }
        }
        self.handle_events();
        self.files.served(file);
        self.files.forgive(file);
        if self.files.release(file, false) {
            self.finish_file(file);
        }
    }

    /// Takes the answer of an open to which a request had offered its memory.
    fn offer_answered(&mut self, id: Id, read: Option<OfferRead>, spent_ns: u64) {
        if !self.is_known(id) {
            self.quarantine_back(id, 0, 1);
            return;
        }
        let index = id.index();
        let extra = self.extras[index as usize].as_mut();
        if extra.and_then(|extra| extra.offer.take()).is_none() {
            return; // It was withdrawn.
        }
        let col = &mut self.cols[index as usize];
        col.jobs -= 1;
        if col.ending.is_some() {
            let flow = self.drained(index);
            self.follow(index, flow);
            return;
        }
        // What could not be read takes the ordinary route, which reports errors.
        let Some(read) = read else {
            return;
        };
        col.len = read.len;
        col.state.on(Event::Work);
        match read.buffer {
            Some(buffer) => self.side.set_memory(index, Memory::Buffer(buffer)),
            None => self.show(index, usize::try_from(read.len).expect("it is in memory")),
        }
        self.shared.counters.stored_bytes.add(read.len);
        self.shared.counters.read_with_open.add(1);
        if self.shared.recorder.is_on() {
            let start_ns = self.now_ns.saturating_sub(spent_ns);
            self.trace(Track::Device, start_ns, self.now_ns, read.len, index);
        }
        self.follow(index, Flow::End(None));
    }

    fn answered(&mut self, index: u32, answer: CallAnswer) -> Flow {
        let col = &self.cols[index as usize];
        // What a call on names did counts, even if the request was canceled meanwhile.
        if col.ending.is_some() && col.verb != Verb::Names {
            return self.after_out(index);
        }
        match (col.verb, answer) {
            (_, CallAnswer::Len(Ok(len))) => {
                let file = self.side.peek(index).file.0.index();
                if col.verb == Verb::Append {
                    self.side.body(index).offset = len;
                } else {
                    self.files.at(file).set_len(len);
                }
                self.file_ready(index)
            }
            (_, CallAnswer::Content(Ok(bytes))) => self.content(index, &bytes),
            (Verb::Sync, CallAnswer::Done(result)) => self.synced(index, result),
            (Verb::Prefetch, CallAnswer::Done(Ok(()))) => self.prefetch(index),
            (Verb::Names, CallAnswer::Done(Ok(()))) => {
                self.cols[index as usize].ending = None;
                Flow::End(None)
            }
            (_, CallAnswer::Len(Err(error)) | CallAnswer::Done(Err(error)))
            | (_, CallAnswer::Content(Err(error))) => {
                self.cols[index as usize].ending = None;
                Flow::End(Some(Error::from(error)))
            }
            _ => unreachable!("a call has an answer of its kind"),
        }
    }

    /// The content of a file that reports no length: copied, because there is little of it.
    fn content(&mut self, index: u32, bytes: &[u8]) -> Flow {
        if bytes.is_empty() || self.is_encoded(index, self.side.head(index).codec) {
            return self.file_ready(index);
        }
        let bytes = match self.rare(index).is_some_and(|rare| rare.at_most) {
            true => {
                let body = self.side.peek(index);
                let part =
                    |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
                &bytes[part(body.offset)..part(body.offset.saturating_add(body.len))]
            }
            false => bytes,
        };
        let len = bytes.len() as u64;
        if self.declared(index).is_some_and(|declared| declared != len) {
            return other_length();
        }
        let landed = match self.memory_kind(index) {
            MemoryKind::Pool => match self.shared.buffers.take(bytes.len()) {
                Ok(mut buffer) => {
                    buffer.copy_from_slice(bytes);
                    self.side.set_memory(index, Memory::Buffer(buffer));
                    true
                }
                Err(error) => return Flow::End(Some(error.into())),
            },
            _ => self.copy_into(index, bytes),
        };
        if !landed {
            let cause = "the file reports no length: read it into a buffer with enough room";
            return Flow::End(Some(Error::new(ErrorKind::DestinationTooSmall, cause)));
        }
        self.cols[index as usize].len = len;
        Flow::End(None)
    }

    /// Copies bytes into a request's memory; false: it has no room for them.
    fn copy_into(&mut self, index: u32, bytes: &[u8]) -> bool {
        self.show(index, bytes.len());
        let mut memory = self.lent_memory(index);
        let place = memory.slice().get_mut(..bytes.len());
        place.map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// A sync is back: an earlier write may have failed.
    fn synced(&mut self, index: u32, result: Result<(), IoError>) -> Flow {
        let file = self.side.peek(index).file.0.index();
        let epoch = self.side.peek(index).room;
        let own = self.extra_of(index).and_then(|extra| extra.handle);
        let own = own.filter(|own| self.files.peek(*own).is_some());
        let handle = own.map_or(file, |own| own.0.index());
        let earlier = self.files.take_error(handle, epoch);
        Flow::End(earlier.or(result.err().map(Error::from)))
    }

    /// Starts an ordered request: everything before it has completed.
    pub(super) fn start_ordered(&mut self, index: u32) -> Flow {
        let col = &self.cols[index as usize];
        if col.state != State::Gated || col.ending.is_some() {
            return Flow::Wait;
        }
        let extra = self.extras[index as usize].as_mut();
        let extra = extra.expect("work on names is in the extra part");
        extra.path = extra.rare.work.path().map(Arc::from);
        let Work::Names(call) = std::mem::take(&mut extra.rare.work) else {
            unreachable!("only work on names is ordered")
        };
        self.call_for(index, call)
    }

    /// Brings the next part of a range into memory.
    pub(super) fn prefetch(&mut self, index: u32) -> Flow {
        let Some(Work::Prefetch(view)) = self.rare(index).map(|rare| &rare.work) else {
            unreachable!("a prefetch has a view")
        };
        let (view, body) = (Arc::clone(view), *self.side.peek(index));
        let end = body.offset.checked_add(body.len);
        if end.is_none_or(|end| end > view.len() as u64) {
            let cause = format!(
                "the range reaches past the end of the view ({})",
                view.len()
            );
            return Flow::End(Some(Error::new(ErrorKind::PastEnd, cause)));
        }
        let col = &mut self.cols[index as usize];
        let (offset, left) = (body.offset + col.issued, body.len - col.issued);
        if left == 0 {
            return Flow::End(None);
        }
        let len = left.min(PREFETCH_BYTES);
        col.issued += len;
        self.call_for(index, Call::Prefetch { view, offset, len })
    }
}
