//! Requests of items, and the handling of their completions.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{Buffer, Decode, Read, Ticket};
use millstream_source::Located;

use super::item::{Content, Flight, Item, Landed, Task};
use super::{Event, Load};
use crate::error::{Error, ErrorKind, Result};
use crate::image::{self, Image, LEVEL_ALIGNMENT, Layout};
use crate::limits;
use crate::plan::{Fetch, Origin, Purpose, SameBytes};
use crate::scene::{BufferBytes, Bytes, State};

/// The outcome of a request.
type Completed = std::result::Result<Landed, millstream::Error>;

impl Load {
    /// Adds the items of a fetch: one, or two for an image with small and large levels.
    pub(super) fn add(&mut self, fetch: Fetch, promised: bool) -> Result<()> {
        let is_image = matches!(fetch.purpose, Purpose::Images(_));
        let mut item = Item {
            origin: fetch.origin,
            purpose: fetch.purpose,
            promised,
            place: fetch.place,
            file: String::new(),
            content: Content::Raw,
            priority: match is_image {
                true => self.loader.options.images,
                false => self.loader.options.geometry,
            },
            start: 0,
            stored_bytes: 0,
            located: None,
            charged: Arc::default(),
            dropped: false,
            canceled: false,
            task: Task::Waiting,
        };
        let mut layout = None;
        match &item.origin {
            Origin::Memory { range, .. } => {
                item.file = self.shown();
                item.stored_bytes = range.len() as u64;
            }
            Origin::Entry { name, range } => {
                item.file = String::from_utf8_lossy(name).into_owned();
                let located = self.look_up(name, range.as_ref(), &item)?;
                if is_image && range.is_none() {
                    layout = self.layout_of(&located);
                }
                let range = range.clone().unwrap_or(0..located.raw_bytes());
                item.start = range.start;
                item.stored_bytes = range.end - range.start;
                item.located = Some(located);
            }
        }
        match layout {
            Some(layout) if self.loader.options.device.is_some() => {
                item.content = Content::OnDevice(layout);
                item.stored_bytes = layout.bytes() as u64;
            }
            // An image with large levels, which are a request of their own.
            Some(layout) if small_level(&layout) > layout.first_level() => {
                let small_bytes = layout.prefix_bytes(small_level(&layout));
                self.push(Item {
                    content: Content::SmallLevels(layout),
                    priority: self.loader.options.small_levels,
                    stored_bytes: small_bytes as u64,
                    ..item.copy()
                });
                item.content = Content::LargeLevels(layout);
                // The large half begins at its smallest level.
                item.start = small_bytes.next_multiple_of(LEVEL_ALIGNMENT) as u64;
                item.stored_bytes = layout.bytes() as u64 - item.start;
            }
            _ => {}
        }
        self.push(item);
        Ok(())
    }

    fn push(&mut self, item: Item) {
        if !item.is_large() {
            self.reserved += item.stored_bytes;
        }
        self.waiting.push(self.items.len());
        self.items.push(item);
    }

    /// Sorts waiting items, the next one last: by priority, then the largest first, whose decode
    /// takes longest. Within a priority, large levels come last, as they can be left out.
    pub(super) fn sort_waiting(&mut self) {
        let items = &self.items;
        self.waiting.sort_by_key(|&index| {
            let item = &items[index];
            (item.priority, !item.is_large(), item.stored_bytes)
        });
        let others = self.waiting.iter().map(|&index| &items[index]);
        let others = others.filter(|item| !item.is_large());
        self.reserved = others.map(|item| item.stored_bytes).sum();
    }

    /// Finds an item's entry, which must contain the range.
    fn look_up(
        &mut self,
        name: &Arc<[u8]>,
        range: Option<&Range<u64>>,
        item: &Item,
    ) -> Result<Located> {
        let found = match *name == self.name {
            true => Some(self.located),
            false => self.source.find(name).map_err(|error| item.error(&error))?,
        };
        let located = found.ok_or_else(|| item.wrong(ErrorKind::Missing, "no such file"))?;
        self.count_file(&located);
        match range {
            Some(range) if range.end > located.raw_bytes() => {
                let cause = format!(
                    "bytes up to {} are needed, but the file has {}: truncated, or another file",
                    range.end,
                    located.raw_bytes()
                );
                Err(item.wrong(ErrorKind::Read, cause))
            }
            _ => Ok(located),
        }
    }

    /// Returns the layout of an image in this crate's format, from its record in a package.
    fn layout_of(&self, located: &Located) -> Option<Layout> {
        #[cfg(feature = "pak")]
        if !self.plain {
            let record = self.source.metadata(located).ok()??;
            let layout = crate::record::image_layout(record)?;
            return (layout.bytes() as u64 <= located.raw_bytes()).then_some(layout);
        }
        let _ = located;
        None
    }

    /// Submits requests for waiting items, up to the limit of requests in flight.
    pub(super) fn issue(&mut self) {
        while self.running.len() < limits::REQUESTS_MAX {
            let Some(index) = self.waiting.pop() else {
                break;
            };
            let item = &self.items[index];
            let is_large = item.is_large();
            if !is_large {
                self.reserved -= item.stored_bytes;
            }
            if item.is_over() {
                continue;
            }
            let requested = match self.request(index) {
                Err(error) if is_large && error.kind() == ErrorKind::Limit => self.leave_out(index),
                requested => requested,
            };
            if let Err(error) = requested {
                self.fail_item(index, error);
            }
        }
        self.batch.submit();
        self.note_drawable();
    }

    /// Makes the request of an item.
    fn request(&mut self, index: usize) -> Result<()> {
        let item = &self.items[index];
        let len = item.stored_bytes;
        let name = match &item.origin {
            Origin::Entry { name, .. } => name,
            Origin::Memory { bytes, range } => {
                let (bytes, range) = (bytes.clone(), range.clone());
                return self.request_memory(index, &bytes, range);
            }
        };
        if item.is_large() && len > self.left_for_large() {
            return self.leave_out(index);
        }
        let located = item.located.as_ref().expect("an entry was found");
        let request = self.source.request_range(located, item.start, len);
        let request = request.map_err(|error| item.error(&error))?;
        if *name != self.name && self.names.insert(Arc::clone(name)) {
            self.progress.files += 1;
        }
        let decodes = self.plain && !item.is_geometry();
        self.add_request(index, request, len, decodes)
    }

    /// Returns the bytes of the budget that large levels may take.
    fn left_for_large(&self) -> u64 {
        let mut left = self.budget.left();
        if self.budget.grows() && self.scene.is_none() {
            // An eighth is kept for the model of the JSON, whose size is not known yet.
            left -= left / 8;
        }
        left.saturating_sub(self.reserved)
    }

    /// Leaves out large levels for which memory does not suffice.
    fn leave_out(&mut self, index: usize) -> Result<()> {
        self.end_item(index);
        self.settle_halves(index)
    }

    /// Uses bytes in memory as a buffer, or requests that they are copied to the device or decoded.
    fn request_memory(
        &mut self,
        index: usize,
        bytes: &SameBytes,
        range: Range<usize>,
    ) -> Result<()> {
        let len = range.len() as u64;
        if self.items[index].is_geometry() && !self.lands_on_device(index, len) {
            // The head of a package's entry may have any alignment.
            let bytes = match self.aligned(index, &bytes.as_slice()[range.clone()])? {
                None => Bytes::Part(bytes.clone(), range),
                Some(moved) => Bytes::Landed(moved),
            };
            self.buffer_landed(index, bytes);
            return Ok(());
        }
        let stored = match bytes {
            SameBytes::Data(bytes) if bytes.len() == range.len() => Arc::clone(bytes),
            bytes => {
                // A part is copied, and counts as the scene's memory while it is decoded.
                self.charge(index, len)?;
                Arc::from(&bytes.as_slice()[range])
            }
        };
        self.add_request(index, Read::memory(stored), len, true)
    }

    /// Takes bytes of the budget for an item's request.
    fn charge(&mut self, index: usize, bytes: u64) -> Result<()> {
        let item = &self.items[index];
        match self.budget.charge(&item.charged, bytes) {
            true => Ok(()),
            false => Err(self.budget.no_room(&item.place, &item.file, bytes)),
        }
    }

    /// Adds a request for `len` bytes to the batch; if `decodes`, for the image decoded from them.
    fn add_request(
        &mut self,
        index: usize,
        mut request: Read,
        len: u64,
        decodes: bool,
    ) -> Result<()> {
        let on_device = self.lands_on_device(index, len);
        if on_device || !decodes {
            // A copy of bytes in memory was charged already.
            self.charge(index, len - self.items[index].charged.bytes())?;
        }
        if on_device {
            return self.add_device_request(index, request, len);
        }
        if decodes {
            let pool = self.loader.storage.buffer_pool();
            let item = &mut self.items[index];
            request = request
                .decode(Decode::codec(image::CODEC))
                .supplied(self.budget.supply(pool, Arc::clone(&item.charged)));
            item.content = Content::Pixels;
        }
        let ticket = self.add_to_batch(index, request)?;
        self.items[index].task = Task::Running(Flight::Host(ticket));
        Ok(())
    }

    /// Adds the request of an item to the batch; the item counts as in flight from then on.
    pub(super) fn add_to_batch<T: 'static>(
        &mut self,
        index: usize,
        request: Read<T>,
    ) -> Result<Ticket<T>> {
        let item = &self.items[index];
        if self.canceled || item.canceled {
            return Err(item.was_canceled());
        }
        let request = request
            .priority(item.priority)
            .group(&self.group)
            .name(&item.file[..]);
        let added = self.batch.add(request);
        let ticket = added.map_err(|error| item.error(&error))?;
        self.running.push(index);
        self.progress.requests += 1;
        Ok(ticket)
    }

    /// Handles completions; ready once no item is in flight or waiting.
    pub(super) fn poll_items(&mut self, waker: &Waker) -> Poll<()> {
        // A completion may lead to new requests, which must be polled too, to register the waker.
        loop {
            let ended = self.take_completed(waker);
            let room = self.running.len() < limits::REQUESTS_MAX;
            let more = room && !self.waiting.is_empty();
            if ended.is_empty() && !more {
                break;
            }
            for (index, outcome) in ended {
                self.completed(index, outcome);
            }
            if more {
                self.issue();
            }
            // Submits decodes of images that landed encoded.
            self.batch.submit();
        }
        self.check_indices();
        self.note_drawable();
        if self.running.is_empty() && self.waiting.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Polls all requests in flight; returns the results of those that have completed.
    fn take_completed(&mut self, waker: &Waker) -> Vec<(usize, Completed)> {
        let mut context = Context::from_waker(waker);
        let mut ended = Vec::new();
        let items = &mut self.items;
        self.running.retain(|&index| {
            let Task::Running(flight) = &mut items[index].task else {
                return false;
            };
            match flight.poll(&mut context) {
                Poll::Ready(result) => {
                    ended.push((index, result));
                    false
                }
                Poll::Pending => true,
            }
        });
        ended
    }

    /// Handles the completion of a request.
    fn completed(&mut self, index: usize, result: Completed) {
        let item = &self.items[index];
        let handled = match result {
            _ if item.dropped => return self.abandon(index),
            Ok(landed) => self.landed(index, landed),
            Err(error) => Err(match item.charged.refused() {
                Some(bytes) => self.budget.no_room(&item.place, &item.file, bytes),
                None => item.error(&error),
            }),
        };
        if let Err(error) = handled {
            self.fail_item(index, error);
        }
    }

    /// Ends an item, and gives everything that it took back to the budget.
    fn abandon(&mut self, index: usize) {
        self.budget.keep(&self.items[index].charged, 0);
        self.end_item(index);
    }

    fn landed(&mut self, index: usize, landed: Landed) -> Result<()> {
        let mut buffer = match landed {
            Landed::Host(buffer) => buffer,
            Landed::Device(memory) => {
                self.landed_on_device(index, memory);
                return Ok(());
            }
        };
        if let Some(moved) = self.aligned(index, &buffer)? {
            buffer = moved;
        }
        let item = &mut self.items[index];
        if item.is_geometry() {
            // A predicted entry may be longer than the buffer in it.
            let start = buffer.as_ptr().addr() - buffer.base().addr();
            buffer.set_view(start, item.stored_bytes as usize);
            self.buffer_landed(index, Bytes::Landed(buffer));
            return Ok(());
        }
        match item.content {
            Content::Raw if !buffer.starts_with(&image::MAGIC) => {
                // An encoded image of a package; a second request decodes it.
                self.budget.keep(&item.charged, 0);
                let len = buffer.len() as u64;
                self.add_request(index, Read::buffer(Arc::new(buffer)), len, true)
            }
            Content::Raw | Content::Pixels => self.pixels_landed(index, buffer),
            Content::OnDevice(_) => unreachable!("it lands on the device"),
            Content::SmallLevels(_) | Content::LargeLevels(_) => {
                item.task = Task::Landed(buffer);
                self.settle_halves(index)
            }
        }
    }

    /// Returns an aligned copy of misaligned bytes; `None` if they are aligned. A direct read lands
    /// bytes at their file offset within a page, which is nearly always aligned; but small entries
    /// of a package are adjacent, without gaps.
    fn aligned(&self, index: usize, bytes: &[u8]) -> Result<Option<Buffer>> {
        let item = &self.items[index];
        let (alignment, place) = match &item.purpose {
            // Elements of a buffer are aligned by their offset in it.
            Purpose::Buffer { start, .. } => (4, (start % 4) as usize),
            _ if item.content == Content::Raw && !bytes.starts_with(&image::MAGIC) => (1, 0),
            _ => (LEVEL_ALIGNMENT, 0),
        };
        if bytes.as_ptr().addr() % alignment == place {
            return Ok(None);
        }
        let moved = self.loader.storage.buffer(place + bytes.len());
        let mut moved = moved.map_err(|error| item.error(&error))?;
        moved[place..].copy_from_slice(bytes);
        moved.set_view(place, bytes.len());
        Ok(Some(moved))
    }

    /// Handles bytes of a buffer that have landed; completes their item.
    pub(super) fn buffer_landed(&mut self, index: usize, bytes: Bytes) {
        let Purpose::Buffer { buffer, start } = self.items[index].purpose else {
            unreachable!("bytes of a buffer have one")
        };
        self.end_item(index);
        self.note(index, bytes.len(), false);
        let left = self.outstanding.get_mut(&buffer);
        let more = left.is_some_and(|left| {
            *left -= 1;
            *left > 0
        });
        let Some(Ok(scene)) = &mut self.scene else {
            return;
        };
        let state = &mut scene.buffers[buffer];
        if state.error().is_some() {
            return;
        }
        let mut loaded = match std::mem::replace(state, State::Waiting) {
            State::Part(loaded) => loaded,
            _ => BufferBytes::default(),
        };
        loaded.add(start, bytes);
        *state = match more {
            true => State::Part(loaded),
            false => State::Ready(loaded),
        };
    }

    /// Handles a whole image that has landed; completes its item.
    pub(super) fn image_landed(&mut self, index: usize, image: Image) {
        self.end_item(index);
        self.note(index, image.memory_bytes() as u64, false);
        self.show(index, State::Ready(Arc::new(image)));
    }

    /// Returns the item of the other half of an image.
    fn other_half(&self, index: usize) -> Option<usize> {
        match self.items[index].content {
            Content::SmallLevels(_) => Some(index + 1),
            Content::LargeLevels(_) => Some(index - 1),
            _ => None,
        }
    }

    /// Handles a half of an image that has landed or was left out. The result does not depend on
    /// the order: if either half failed, the image has failed; if only the large half was left out
    /// or canceled, the image has fewer levels.
    fn settle_halves(&mut self, index: usize) -> Result<()> {
        let small = index - usize::from(self.items[index].is_large());
        let large = small + 1;
        let bad = |it: &Load, cause| it.items[index].bad_image(cause);
        if let Some(buffer) = self.take_landed(small) {
            // The header must be the one that the requests were based on.
            let whole = Layout::parse(&buffer).map_err(|cause| bad(self, cause))?;
            if self.items[small].content != Content::SmallLevels(whole) {
                let cause = "the package's record of the image is not that of its bytes";
                return Err(bad(self, cause));
            }
            let image = Image::new(buffer).map_err(|cause| bad(self, cause))?;
            self.show(small, State::Part(Arc::new(image)));
        }
        let Some(State::Part(image)) = self.shown_image(small) else {
            return Ok(());
        };
        let image = Arc::clone(image);
        if let Some(buffer) = self.take_landed(large) {
            let image = image.with_larger(buffer);
            let image = image.map_err(|cause| bad(self, cause))?;
            self.show(large, State::Ready(Arc::new(image)));
        } else if self.items[large].is_over() {
            self.show(large, State::Ready(image));
        }
        Ok(())
    }

    /// Takes the buffer of an item that has landed; completes the item.
    fn take_landed(&mut self, index: usize) -> Option<Buffer> {
        let task = &mut self.items[index].task;
        let buffer = match std::mem::replace(task, Task::Ended) {
            Task::Landed(buffer) => buffer,
            other => {
                *task = other;
                return None;
            }
        };
        self.note(index, buffer.len() as u64, false);
        Some(buffer)
    }

    /// Returns the state of the image that an item is for.
    fn shown_image(&self, index: usize) -> Option<&State<Arc<Image>>> {
        let (Purpose::Images(images), Some(Ok(scene))) = (&self.items[index].purpose, &self.scene)
        else {
            return None;
        };
        Some(&scene.images[*images.first()?])
    }

    /// Sets the state of all images that an item is for.
    fn show(&mut self, index: usize, state: State<Arc<Image>>) {
        if let (Purpose::Images(images), Some(Ok(scene))) =
            (&self.items[index].purpose, &mut self.scene)
        {
            for &image in images {
                scene.images[image] = state.clone();
            }
        }
    }

    /// Marks the buffer or images of a purpose as waiting.
    pub(super) fn expect(&mut self, purpose: &Purpose) {
        if let Purpose::Buffer { buffer, .. } = purpose {
            *self.outstanding.entry(*buffer).or_default() += 1;
        }
        self.mark(purpose, None);
    }

    /// Marks the buffer or images of a purpose as failed or waiting; a failed buffer stays failed.
    pub(super) fn mark(&mut self, purpose: &Purpose, error: Option<Error>) {
        let Some(Ok(scene)) = &mut self.scene else {
            return;
        };
        match purpose {
            Purpose::Buffer { buffer, .. } => {
                let state = &mut scene.buffers[*buffer];
                if state.error().is_none() {
                    *state = State::of(error);
                }
            }
            Purpose::Images(images) => {
                use ErrorKind::{Canceled, Limit};
                let kind = error.as_ref().map(Error::kind);
                for &image in images {
                    let error = error
                        .clone()
                        .map(|error| error.at(format!("images[{image}]")));
                    scene.images[image] = State::of(error);
                }
                if kind.is_some_and(|kind| !matches!(kind, Canceled | Limit)) {
                    self.fall_back(images);
                }
            }
        }
    }

    /// Fails an item, with its purpose, and drops the other half of its image.
    pub(super) fn fail_item(&mut self, index: usize, mut error: Error) {
        self.abandon(index);
        let item = &mut self.items[index];
        if item.promised {
            // The JSON decides whether it is needed, and requests it again.
            item.dropped = true;
            return;
        }
        let purpose = item.purpose.clone();
        self.note(index, 0, true);
        if self.items[index].is_large() && error.kind() == ErrorKind::Canceled {
            // The small levels alone are an image, too.
            match self.settle_halves(index) {
                Ok(()) => return,
                Err(other) => error = other,
            }
        }
        self.mark(&purpose, Some(error));
        if let Some(other) = self.other_half(index) {
            self.drop_item(other);
        }
    }

    /// Drops an item that is not needed: one that a record predicted and the JSON does not confirm,
    /// or the other half of an image that has failed. Cancels its request and frees its memory.
    pub(super) fn drop_item(&mut self, index: usize) {
        let item = &mut self.items[index];
        item.dropped = true;
        match &item.task {
            Task::Running(flight) => flight.cancel(),
            _ => self.abandon(index),
        }
    }

    pub(super) fn end_item(&mut self, index: usize) {
        self.items[index].task = Task::Ended;
    }

    fn note(&mut self, index: usize, bytes: u64, failed: bool) {
        let item = &self.items[index];
        self.progress.raw_bytes += bytes;
        self.events.push(Event {
            place: item.place.clone(),
            what: item.event_kind(),
            file: item.file.clone(),
            bytes,
            at: self.started.elapsed(),
            failed,
        });
    }

    /// Assigns a fetch to the item that the package's record predicted, or to both halves of an
    /// image; returns whether they can serve it.
    pub(super) fn take_promised(&mut self, fetch: &Fetch, index: usize) -> bool {
        let both = [Some(index), self.other_half(index)];
        let usable = |index: &usize| {
            let item = &self.items[*index];
            let same_kind = item.is_geometry() == matches!(fetch.purpose, Purpose::Buffer { .. });
            item.promised && !item.dropped && same_kind && item.reaches(&fetch.origin)
        };
        if !both.iter().flatten().all(usable) {
            return false;
        }
        for index in both.into_iter().flatten() {
            let item = &mut self.items[index];
            item.promised = false;
            item.purpose = fetch.purpose.clone();
            item.place.clone_from(&fetch.place);
            if let (
                true,
                Origin::Entry {
                    range: Some(range), ..
                },
            ) = (item.is_geometry(), &fetch.origin)
            {
                item.stored_bytes = range.end - range.start;
            }
        }
        true
    }
}

/// Returns the largest level of an image's small half.
fn small_level(layout: &Layout) -> u32 {
    layout.level_within(limits::SMALL_LEVEL_SIDE)
}
