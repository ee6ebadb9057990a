//! Requests of items, and the handling of their completions.
#![expect(
    clippy::mutable_key_type,
    reason = "origins in memory are compared by address, which their content cannot change"
)]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{Buffer, Decode, Priority, Read, Ticket};
use millstream_source::Located;

use super::item::{Content, Flight, Item, Landed, Task};
use super::{Event, Load};
use crate::error::{Error, ErrorKind, Result};
use crate::image::{self, Image, LEVEL_ALIGNMENT, Layout};
use crate::limits;
use crate::plan::{Fetch, Origin, Purpose, SameBytes};
use crate::scene::{BufferBytes, Bytes, State};

/// What came of a request.
type Completed = std::result::Result<Landed, millstream::Error>;

impl Load {
    /// Adds what has to be fetched: one item, or two for an image with levels.
    pub(super) fn add(
        &mut self,
        origin: Origin,
        purpose: Option<Purpose>,
        geometry: bool,
        place: String,
    ) -> Result<()> {
        let located = self.look_up(&origin, &place)?;
        let priority = match geometry {
            true => self.loader.options.geometry,
            false => Priority::Low,
        };
        let file = match &origin {
            Origin::Entry { name, .. } => String::from_utf8_lossy(name).into_owned(),
            Origin::Memory { .. } => String::from_utf8_lossy(&self.name).into_owned(),
        };
        let (stored_bytes, layout) = match (&origin, &located) {
            (Origin::Memory { range, .. }, _) => (range.len() as u64, None),
            (
                Origin::Entry {
                    range: Some(range), ..
                },
                _,
            ) => (range.end - range.start, None),
            (_, Some(located)) => {
                let layout = (!geometry).then(|| self.layout_of(located)).flatten();
                (located.raw_bytes(), layout)
            }
            (_, None) => (0, None),
        };
        if let (Some(Purpose::Buffer { buffer, .. }), true) = (&purpose, geometry) {
            *self.outstanding.entry(*buffer).or_default() += 1;
        }
        let whole = Item {
            origin,
            purpose,
            geometry,
            place,
            file,
            content: Content::Raw,
            priority,
            stored_bytes,
            located,
            held_bytes: 0,
            partner: None,
            supplied: Arc::default(),
            failed: false,
            dropped: false,
            task: Task::Waiting,
        };
        match layout {
            Some(layout) if self.loader.options.device.is_some() => self.push(Item {
                content: Content::OnDevice(layout),
                ..whole
            }),
            Some(layout) if has_halves(&layout) => self.push_halves(whole, layout),
            _ => self.push(whole),
        }
        Ok(())
    }

    /// Adds an image with levels as two items, the small levels and the large ones.
    fn push_halves(&mut self, whole: Item, layout: Layout) {
        let index = self.items.len();
        self.push(Item {
            content: Content::SmallLevels(layout),
            priority: self.loader.options.small_levels,
            stored_bytes: layout.prefix_bytes(small_level(&layout)) as u64,
            partner: Some(index + 1),
            ..whole.copy()
        });
        self.push(Item {
            content: Content::LargeLevels(layout),
            stored_bytes: (layout.bytes() - large_start(&layout)) as u64,
            partner: Some(index),
            ..whole
        });
    }

    fn push(&mut self, item: Item) {
        self.waiting.push(self.items.len());
        self.items.push(item);
    }

    /// Puts waiting items in order, the next one last: by priority, and the largest first, whose
    /// decode takes longest. Large levels come after other images, as they can be left out.
    pub(super) fn sort_waiting(&mut self) {
        let items = &self.items;
        self.waiting.sort_by_key(|&index| {
            let item = &items[index];
            (item.priority, !item.is_large(), item.stored_bytes)
        });
    }

    /// Finds an entry.
    fn look_up(&mut self, origin: &Origin, place: &str) -> Result<Option<Located>> {
        let Origin::Entry { name, range } = origin else {
            return Ok(None);
        };
        let shown = || String::from_utf8_lossy(name).into_owned();
        let found = if *name == self.name {
            Some(self.located)
        } else {
            self.source
                .find(name)
                .map_err(|error| Error::of_request(place, &shown(), &error))?
        };
        let located = found.ok_or_else(|| {
            Error::new(ErrorKind::Missing, place, "no such file").in_file(&shown())
        })?;
        self.count_file(&located);
        match range {
            Some(range) if range.end > located.raw_bytes() => {
                let cause = format!(
                    "bytes up to {} are needed, but the file has {}: truncated, or another file",
                    range.end,
                    located.raw_bytes()
                );
                Err(Error::new(ErrorKind::Read, place, cause).in_file(&shown()))
            }
            _ => Ok(Some(located)),
        }
    }

    /// The layout of an entry that is an image of ours, from its record.
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
            if self.items[index].is_over() {
                continue;
            }
            if let Err(error) = self.request(index) {
                self.fail_item(index, error);
            }
        }
        self.batch.submit();
        self.note_drawable();
    }

    /// Makes the request of an item.
    fn request(&mut self, index: usize) -> Result<()> {
        let item = &self.items[index];
        let (start, len) = match (&item.origin, item.content) {
            (_, Content::SmallLevels(_)) => (0, item.stored_bytes),
            (_, Content::LargeLevels(layout)) => (large_start(&layout) as u64, item.stored_bytes),
            (_, Content::OnDevice(layout)) => (0, layout.bytes() as u64),
            (Origin::Entry { range, .. }, _) => {
                let start = range.as_ref().map_or(0, |range| range.start);
                (start, item.stored_bytes)
            }
            (Origin::Memory { bytes, range }, _) => {
                let (bytes, range) = (bytes.clone(), range.clone());
                return self.request_memory(index, &bytes, range);
            }
        };
        if item.is_large() && len > self.budget.left() {
            self.end_item(index);
            self.settle_halves(index);
            return Ok(());
        }
        let located = item.located.as_ref().expect("an entry was found");
        let request = self.source.request_range(located, start, len);
        let request =
            request.map_err(|error| Error::of_request(&item.place, &item.file, &error))?;
        if let Origin::Entry { name, .. } = &item.origin
            && *name != self.name
            && self.names.insert(Arc::clone(name))
        {
            self.progress.files += 1;
        }
        let decodes = self.plain && !item.geometry;
        match self.lands_on_device(index, len) {
            true => self.add_device_request(index, request, (len, len)),
            false => self.add_request(index, request, decodes),
        }
    }

    /// Uses bytes in memory as a buffer, or requests that an image is decoded from them.
    fn request_memory(
        &mut self,
        index: usize,
        bytes: &SameBytes,
        range: Range<usize>,
    ) -> Result<()> {
        let len = range.len() as u64;
        let on_device = self.lands_on_device(index, len);
        if self.items[index].geometry && !on_device {
            // The head of a package's entry may begin anywhere within a page.
            let bytes = match self.misplaced(index, &bytes.as_slice()[range.clone()]) {
                None => Bytes::Part(bytes.clone(), range),
                Some(place) => Bytes::Landed(self.moved(index, &bytes.as_slice()[range], place)?),
            };
            self.end_item(index);
            self.buffer_landed(index, bytes);
            return Ok(());
        }
        let item = &mut self.items[index];
        let stored = match bytes {
            SameBytes::Data(bytes) if bytes.len() == range.len() => Arc::clone(bytes),
            bytes => {
                // A part is copied, and counts as the scene's memory while it is decoded.
                if !self.budget.take(item.stored_bytes) {
                    let bytes = item.stored_bytes;
                    return Err(self.budget.no_room(&item.place, &item.file, bytes));
                }
                item.held_bytes = item.stored_bytes;
                Arc::from(&bytes.as_slice()[range])
            }
        };
        // A copy has taken its bytes of the budget already.
        let charge = len - self.items[index].held_bytes;
        match on_device {
            true => self.add_device_request(index, Read::memory(stored), (len, charge)),
            false => self.add_request(index, Read::memory(stored), true),
        }
    }

    /// Adds a request to the batch.
    fn add_request(&mut self, index: usize, mut request: Read, decodes: bool) -> Result<()> {
        let item = &mut self.items[index];
        if decodes {
            let pool = self.loader.storage.buffer_pool();
            request = request
                .decode(Decode::codec(image::CODEC))
                .supplied(self.budget.supply(pool, Arc::clone(&item.supplied)));
            item.content = Content::Pixels;
        } else if self.budget.take(item.stored_bytes) {
            item.held_bytes = item.stored_bytes;
        } else {
            let bytes = item.stored_bytes;
            return Err(self.budget.no_room(&item.place, &item.file, bytes));
        }
        let ticket = self.add_to_batch(index, request)?;
        self.items[index].task = Task::Running(Flight::Host(ticket));
        Ok(())
    }

    /// Adds the request of an item, which is in flight then.
    pub(super) fn add_to_batch<T: 'static>(
        &mut self,
        index: usize,
        request: Read<T>,
    ) -> Result<Ticket<T>> {
        let item = &self.items[index];
        if self.canceled {
            let place = &item.place[..];
            return Err(Error::new(ErrorKind::Canceled, place, "was canceled"));
        }
        let request = request
            .priority(item.priority)
            .group(&self.group)
            .name(&item.file[..]);
        let added = self.batch.add(request);
        let ticket = added.map_err(|error| Error::of_request(&item.place, &item.file, &error))?;
        self.running.push(index);
        self.progress.requests += 1;
        Ok(ticket)
    }

    /// Handles completions; ready once no item is in flight or waiting.
    pub(super) fn poll_items(&mut self, waker: &Waker) -> Poll<()> {
        // A completion may lead to new requests, which must be polled, too, to register the waker.
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
            // Decodes of images that landed encoded.
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
        let item = &mut self.items[index];
        match result {
            _ if item.dropped => {
                self.give_back_all(index);
                self.end_item(index);
            }
            Ok(landed) if item.purpose.is_none() => item.task = Task::Landed(landed),
            Ok(landed) => self.landed(index, landed),
            Err(error) => {
                let error = match item.supplied.refused() {
                    Some(bytes) => self.budget.no_room(&item.place, &item.file, bytes),
                    None => Error::of_request(&item.place, &item.file, &error),
                };
                self.fail_item(index, error);
            }
        }
    }

    /// Returns to the budget what a request took for stored bytes.
    fn give_back(&mut self, index: usize) {
        let held = std::mem::take(&mut self.items[index].held_bytes);
        self.budget.give_back(held);
    }

    /// Returns to the budget everything that an item took.
    fn give_back_all(&mut self, index: usize) {
        self.give_back(index);
        self.budget
            .give_back(self.items[index].supplied.take_bytes());
    }

    /// Handles bytes of an item whose purpose is known.
    fn landed(&mut self, index: usize, landed: Landed) {
        if self.items[index].is_over() {
            // Its other half failed before this one was handled.
            return self.give_back_all(index);
        }
        let buffer = match landed {
            Landed::Host(buffer) => buffer,
            Landed::Device(memory) => return self.landed_on_device(index, memory),
        };
        let buffer = match self.aligned(index, buffer) {
            Ok(buffer) => buffer,
            Err(error) => return self.fail_item(index, error),
        };
        let item = &mut self.items[index];
        if item.geometry {
            self.end_item(index);
            self.buffer_landed(index, Bytes::Landed(buffer));
            return;
        }
        match item.content {
            Content::Raw if !buffer.starts_with(&image::MAGIC) => {
                // An encoded image of a package: a second request decodes it.
                self.give_back(index);
                let request = Read::buffer(Arc::new(buffer));
                if let Err(error) = self.add_request(index, request, true) {
                    self.fail_item(index, error);
                }
            }
            Content::Raw => self.pixels_landed(index, buffer),
            Content::Pixels => {
                self.give_back(index);
                self.pixels_landed(index, buffer);
            }
            Content::OnDevice(_) => unreachable!("it lands on the device"),
            Content::SmallLevels(_) | Content::LargeLevels(_) => {
                item.task = Task::Landed(Landed::Host(buffer));
                self.settle_halves(index);
            }
        }
    }

    /// Moves the bytes if their address lacks the alignment of their type. A direct read lands them
    /// at the same offset within a page as in the file, which is nearly always aligned; but small
    /// entries of a package are adjacent, without gaps.
    fn aligned(&self, index: usize, buffer: Buffer) -> Result<Buffer> {
        match self.misplaced(index, &buffer) {
            None => Ok(buffer),
            Some(place) => self.moved(index, &buffer, place),
        }
    }

    /// For misaligned bytes, the offset from a multiple of the alignment at which they must begin.
    fn misplaced(&self, index: usize, bytes: &[u8]) -> Option<usize> {
        let item = &self.items[index];
        let (alignment, place) = match &item.purpose {
            // Elements of a buffer are aligned by their offset in it.
            Some(Purpose::Buffer { start, .. }) => (4, start % 4),
            _ if item.content == Content::Raw && !bytes.starts_with(&image::MAGIC) => (1, 0),
            _ => (LEVEL_ALIGNMENT, 0),
        };
        let place = usize::try_from(place).expect("3 at most");
        (bytes.as_ptr().addr() % alignment != place).then_some(place)
    }

    fn moved(&self, index: usize, bytes: &[u8], place: usize) -> Result<Buffer> {
        let item = &self.items[index];
        let moved = self.loader.storage.buffer(place + bytes.len());
        let mut moved =
            moved.map_err(|error| Error::of_request(&item.place, &item.file, &error))?;
        moved[place..].copy_from_slice(bytes);
        moved.set_view(place, bytes.len());
        Ok(moved)
    }

    pub(super) fn buffer_landed(&mut self, index: usize, bytes: Bytes) {
        let Some(Purpose::Buffer { buffer, start }) = self.items[index].purpose else {
            unreachable!("bytes of a buffer have one")
        };
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
        let mut loaded = match std::mem::replace(state, State::Waiting) {
            State::Part(loaded) | State::Ready(loaded) => loaded,
            State::Waiting | State::Unwanted => BufferBytes::default(),
            failed => {
                *state = failed;
                return;
            }
        };
        loaded.add(start, bytes);
        *state = if more {
            State::Part(loaded)
        } else {
            State::Ready(loaded)
        };
    }

    pub(super) fn image_landed(&mut self, index: usize, image: Result<Image, &'static str>) {
        match image {
            Ok(image) => {
                self.end_item(index);
                self.note(index, image.memory_bytes() as u64, false);
                self.show(index, State::Ready(Arc::new(image)));
            }
            Err(cause) => self.fail_image(index, cause),
        }
    }

    /// Handles a half of an image that has landed or was left out. The result does not depend on
    /// the order: if either half failed, the image has failed; if only the large half was left out
    /// or canceled, the image has fewer levels.
    fn settle_halves(&mut self, index: usize) {
        let partner = self.items[index].partner.expect("half of an image");
        let (small, large) = if self.items[index].is_small() {
            (index, partner)
        } else {
            (partner, index)
        };
        if let Some(buffer) = self.take_landed(small) {
            match self.small_image(small, buffer) {
                Ok(image) => self.show(small, State::Part(Arc::new(image))),
                Err(cause) => self.fail_image(small, cause),
            }
        }
        let Some(State::Part(image)) = self.shown_image(small) else {
            return;
        };
        if let Some(buffer) = self.take_landed(large) {
            let start = image.layout().bytes().next_multiple_of(LEVEL_ALIGNMENT);
            match image.with_larger(start, buffer) {
                Ok(image) => self.show(large, State::Ready(Arc::new(image))),
                Err(cause) => self.fail_image(large, cause),
            }
        } else if self.items[large].is_over() {
            self.show(large, State::Ready(image));
        }
    }

    /// The image of small levels, whose header must be the one that its requests were based on.
    fn small_image(&self, small: usize, buffer: Buffer) -> Result<Image, &'static str> {
        let whole = Layout::parse(&buffer)?;
        if self.items[small].content != Content::SmallLevels(whole) {
            return Err("the package's record of the image is not that of its bytes");
        }
        Image::new(buffer)
    }

    /// Takes the buffer of an item that has landed, which completes the item.
    fn take_landed(&mut self, index: usize) -> Option<Buffer> {
        let Landed::Host(buffer) = self.items[index].take_landed()? else {
            unreachable!("halves land in memory");
        };
        self.end_item(index);
        self.note(index, buffer.len() as u64, false);
        Some(buffer)
    }

    /// Fails an item whose image is invalid.
    pub(super) fn fail_image(&mut self, index: usize, cause: &'static str) {
        let item = &self.items[index];
        let error = Error::new(ErrorKind::Image, &item.place[..], cause).in_file(&item.file);
        self.fail_item(index, error);
    }

    /// The state of the image that an item is for.
    fn shown_image(&self, index: usize) -> Option<State<Arc<Image>>> {
        let Some(Purpose::Images(images)) = &self.items[index].purpose else {
            return None;
        };
        let Some(Ok(scene)) = &self.scene else {
            return None;
        };
        Some(scene.images[*images.first()?].clone())
    }

    /// Sets the state of all images that an item is for.
    fn show(&mut self, index: usize, state: State<Arc<Image>>) {
        if let Some(Purpose::Images(images)) = self.items[index].purpose.clone() {
            self.set_images(&images, &state);
        }
    }

    fn set_images(&mut self, images: &[usize], state: &State<Arc<Image>>) {
        if let Some(Ok(scene)) = &mut self.scene {
            images
                .iter()
                .for_each(|&image| scene.images[image] = state.clone());
        }
    }

    /// Marks what a purpose is for as waiting.
    pub(super) fn expect(&mut self, purpose: &Purpose) {
        let Some(Ok(scene)) = &mut self.scene else {
            return;
        };
        match purpose {
            Purpose::Buffer { buffer, .. } => {
                let state = &mut scene.buffers[*buffer];
                *state = match std::mem::replace(state, State::Waiting) {
                    State::Ready(loaded) if !loaded.is_empty() => State::Part(loaded),
                    State::Ready(_) => State::Waiting,
                    other => other,
                };
            }
            Purpose::Images(images) => {
                for &image in images {
                    scene.images[image] = State::Waiting;
                }
            }
        }
    }

    pub(super) fn fail_purpose(&mut self, purpose: &Purpose, error: Error) {
        match purpose {
            Purpose::Images(images) => self.set_images(images, &State::Failed(error)),
            Purpose::Buffer { buffer, .. } => {
                if let Some(Ok(scene)) = &mut self.scene {
                    scene.buffers[*buffer] = State::Failed(error);
                }
            }
        }
    }

    /// Fails an item.
    pub(super) fn fail_item(&mut self, index: usize, error: Error) {
        self.give_back_all(index);
        self.end_item(index);
        self.items[index].failed = true;
        self.note(index, 0, true);
        let Some(purpose) = self.items[index].purpose.clone() else {
            return;
        };
        let partner = self.items[index].partner;
        if self.items[index].is_large() && error.kind() == ErrorKind::Canceled {
            // The small levels alone are an image, too.
            return self.settle_halves(index);
        }
        self.fail_purpose(&purpose, error);
        if let Some(partner) = partner {
            self.drop_item(partner);
        }
    }

    /// Drops an item that is not needed: one that a record predicted and the JSON does not confirm,
    /// or the other half of an image that has failed. Cancels its request and frees its memory.
    pub(super) fn drop_item(&mut self, index: usize) {
        let item = &mut self.items[index];
        item.dropped = true;
        if matches!(item.task, Task::Running(_)) {
            item.cancel();
        } else {
            self.give_back_all(index);
            self.end_item(index);
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

    /// Gives the purpose of a fetch to the item that the package's record predicted; returns
    /// whether there was one.
    pub(super) fn take_promised(
        &mut self,
        fetch: &Fetch,
        promised: &HashMap<Origin, usize>,
    ) -> bool {
        let Some(index) = find_promised(&fetch.origin, promised) else {
            return false;
        };
        let halves = self.items[index].partner;
        let both = [Some(index), halves];
        let usable = |index: &usize| {
            let item = &self.items[*index];
            item.purpose.is_none()
                && !item.failed
                && item.geometry == matches!(fetch.purpose, Purpose::Buffer { .. })
                && item.reaches(&fetch.origin)
        };
        if !both.iter().flatten().all(usable) {
            // What has failed is requested again, to fail with an error of its own.
            return false;
        }
        if let Purpose::Buffer { buffer, .. } = fetch.purpose {
            *self.outstanding.entry(buffer).or_default() += 1;
        }
        // What landed without a purpose was not handled yet: each half goes through `landed`, and
        // must not be taken by the other half before.
        let unseen = both.into_iter().flatten().map(|index| {
            let item = &mut self.items[index];
            item.purpose = Some(fetch.purpose.clone());
            item.place.clone_from(&fetch.place);
            (index, item.take_landed())
        });
        for (index, landed) in unseen.collect::<Vec<_>>() {
            if let Some(landed) = landed {
                self.landed(index, landed);
            }
        }
        true
    }
}

/// The predicted item that has the bytes of an origin: the same ones, or the whole entry for its
/// beginning.
fn find_promised(wanted: &Origin, promised: &HashMap<Origin, usize>) -> Option<usize> {
    let whole = || match wanted {
        Origin::Entry {
            name,
            range: Some(range),
        } if range.start == 0 => promised.get(&Origin::whole(Arc::clone(name))),
        _ => None,
    };
    promised.get(wanted).or_else(whole).copied()
}

/// Whether an image is worth two requests.
fn has_halves(layout: &Layout) -> bool {
    small_level(layout) > layout.first_level()
}

/// The largest level of an image's small half.
fn small_level(layout: &Layout) -> u32 {
    layout.level_within(limits::SMALL_LEVEL_SIDE)
}

/// Where an image's large half begins: with its first level.
fn large_start(layout: &Layout) -> usize {
    let small = layout.prefix_bytes(small_level(layout));
    small.next_multiple_of(LEVEL_ALIGNMENT)
}
