//! Making requests, and putting what they bring where it belongs.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{Buffer, Done, Failed, Located, Request};

use super::item::{Content, Item, Task, landed_buffer};
use super::{Event, Load};
use crate::error::{Error, ErrorKind, Result};
use crate::image::{self, Image, LEVEL_ALIGNMENT, Layout};
use crate::limits;
use crate::plan::{Fetch, Key, Origin, Purpose, SameBytes};
use crate::scene::{BufferBytes, Bytes, State};

impl Load<'_> {
    /// Adds what has to be fetched: one item, or two for an image with levels.
    pub(super) fn add(
        &mut self,
        origin: Origin,
        purpose: Option<Purpose>,
        geometry: bool,
        place: String,
    ) -> Result<()> {
        let located = self.look_up(&origin, &place)?;
        let options = &self.loader.options;
        let class = if geometry {
            options.geometry
        } else {
            options.images
        };
        let (small_class, index) = (options.small_levels, self.items.len());
        let file = match &origin {
            Origin::Entry { name, .. } | Origin::Whole { name } => {
                String::from_utf8_lossy(name).into_owned()
            }
            Origin::Memory { .. } => String::from_utf8_lossy(&self.name).into_owned(),
        };
        let (stored_bytes, layout) = match (&origin, &located) {
            (Origin::Whole { .. }, Some(located)) => {
                let layout = (!geometry).then(|| self.layout_of(located)).flatten();
                (located.raw_bytes(), layout)
            }
            (Origin::Whole { .. }, None) => (0, None),
            (Origin::Entry { range, .. }, _) => (range.end - range.start, None),
            (Origin::Memory { range, .. }, _) => (range.len() as u64, None),
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
            class,
            stored_bytes,
            located,
            held_bytes: 0,
            partner: None,
            supplied: Arc::default(),
            failed: false,
            dropped: false,
            cancelled: false,
            task: Task::Waiting,
        };
        match layout.filter(has_halves) {
            None => self.push(whole),
            Some(layout) => {
                let small = small_bytes(&layout) as u64;
                self.push(Item {
                    content: Content::SmallLevels(layout),
                    class: small_class,
                    stored_bytes: small,
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
        }
        Ok(())
    }

    fn push(&mut self, item: Item) {
        self.waiting.push(self.items.len());
        self.items.push(item);
        self.in_order = false;
        self.progress.wanted += 1;
    }

    /// Finds an entry.
    fn look_up(&self, origin: &Origin, place: &str) -> Result<Option<Located>> {
        let (name, range) = match origin {
            Origin::Memory { .. } => return Ok(None),
            Origin::Entry { name, range } => (name, Some(range)),
            Origin::Whole { name } => (name, None),
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
            Error::new(ErrorKind::Missing, place, "there is no such file").in_file(&shown())
        })?;
        match range {
            Some(range) if range.end > located.raw_bytes() => {
                let cause = format!(
                    "bytes up to {} are needed, but the file has {}: it is cut, or another one",
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

    /// Makes requests for waiting items, as many as there is room for, and submits them.
    pub(super) fn issue(&mut self) {
        if !self.in_order {
            // The next item last: by class, then the one with most stored bytes first, whose decode
            // is the longest; nothing long is left for the end then.
            let items = &self.items;
            self.waiting.retain(|&index| !items[index].is_over());
            let key = |&index: &usize| (items[index].class, items[index].stored_bytes);
            self.waiting.sort_by_key(key);
            self.plan_levels();
            self.in_order = true;
        }
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
        self.loader.queue.submit();
        self.note_drawable();
    }

    /// With less memory than the large levels of all images need, leaves the largest out.
    fn plan_levels(&mut self) {
        let large = |item: &Item| match item.content {
            Content::LargeLevels(layout) => Some(layout),
            _ => None,
        };
        let items = &self.items;
        let waiting = self
            .waiting
            .iter()
            .filter_map(|&index| large(&items[index]));
        let layouts: Vec<Layout> = waiting.collect();
        if layouts.is_empty() {
            return;
        }
        let others = self
            .waiting
            .iter()
            .filter(|&&index| large(&items[index]).is_none());
        let reserved: u64 = others.map(|&index| items[index].stored_bytes).sum();
        let left = self.budget.left().saturating_sub(reserved);
        let side = side_within(&layouts, left);
        for &index in &self.waiting {
            let item = &mut self.items[index];
            if let Content::LargeLevels(layout) = item.content {
                let bytes = large_bytes(&layout, side);
                item.stored_bytes = bytes;
            }
        }
    }

    /// Makes the request of an item.
    fn request(&mut self, index: usize) -> Result<()> {
        let item = &self.items[index];
        let (start, len) = match (&item.origin, item.content) {
            (_, Content::SmallLevels(_)) => (0, item.stored_bytes),
            (_, Content::LargeLevels(layout)) => (large_start(&layout) as u64, item.stored_bytes),
            (Origin::Entry { range, .. }, _) => (range.start, item.stored_bytes),
            (Origin::Whole { .. }, _) => (0, item.stored_bytes),
            (Origin::Memory { bytes, range }, _) => {
                let (bytes, range) = (bytes.clone(), range.clone());
                return self.request_memory(index, &bytes, range);
            }
        };
        if len == 0 && matches!(item.content, Content::LargeLevels(_)) {
            // Memory does not allow them.
            self.end_item(index);
            self.settle_halves(index);
            return Ok(());
        }
        let located = item.located.as_ref().expect("an entry was found");
        let request = self.source.request_range(located, start, len);
        let request =
            request.map_err(|error| Error::of_request(&item.place, &item.file, &error))?;
        if let Origin::Entry { name, .. } | Origin::Whole { name } = &item.origin
            && *name != self.name
            && self.names.insert(Arc::clone(name))
        {
            self.progress.files += 1;
        }
        let decodes = self.plain && !item.geometry;
        self.enqueue(index, request, decodes)
    }

    /// Shows a buffer in memory that is there, or has an image decoded from it.
    fn request_memory(
        &mut self,
        index: usize,
        bytes: &SameBytes,
        range: Range<usize>,
    ) -> Result<()> {
        if self.items[index].geometry {
            // Of a package's entry, the head may lie anywhere within a page.
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
                // A part is copied: while it is decoded it counts as the scene's memory.
                if !self.budget.take(item.stored_bytes) {
                    return Err(no_room(&item.place, &item.file));
                }
                item.held_bytes = item.stored_bytes;
                Arc::from(&bytes.as_slice()[range])
            }
        };
        self.enqueue(index, Request::from_memory(stored), true)
    }

    /// Gives a request to the queue.
    fn enqueue(&mut self, index: usize, mut request: Request, decodes: bool) -> Result<()> {
        let item = &mut self.items[index];
        if self.cancelled || item.cancelled {
            return Err(Error::new(
                ErrorKind::Cancelled,
                &item.place[..],
                "was cancelled",
            ));
        }
        if decodes {
            let pool = self.loader.storage.buffer_pool();
            request = request
                .codec(image::CODEC)
                .into_supplied(self.budget.supply(pool, Arc::clone(&item.supplied)));
            item.content = Content::Pixels;
        } else if self.budget.take(item.stored_bytes) {
            item.held_bytes = item.stored_bytes;
        } else {
            return Err(no_room(&item.place, &item.file));
        }
        let request = request
            .priority(item.class)
            .group(&self.group)
            .name(&item.file[..]);
        let ticket = self
            .loader
            .queue
            .enqueue(request)
            .map_err(|rejected| Error::of_request(&item.place, &item.file, &rejected.error))?;
        item.task = Task::Running(ticket);
        self.running.push(index);
        self.progress.requests += 1;
        Ok(())
    }

    /// Looks after all requests under way; ready once there is nothing left.
    pub(super) fn poll_items(&mut self, waker: &Waker) -> Poll<()> {
        // What ends may make new requests, which must be polled too: else nobody is woken for them.
        loop {
            let ended = self.take_ended(waker);
            let room = self.running.len() < limits::REQUESTS_MAX;
            let more = room && !self.waiting.is_empty();
            if ended.is_empty() && !more {
                break;
            }
            for (index, outcome) in ended {
                self.ended(index, outcome.map(landed_buffer));
            }
            if more {
                self.issue();
            }
        }
        self.check_indices();
        self.note_drawable();
        if self.running.is_empty() && self.waiting.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Polls all requests under way; those that have ended.
    fn take_ended(&mut self, waker: &Waker) -> Vec<(usize, Result<Done, Failed>)> {
        let mut context = Context::from_waker(waker);
        let mut ended = Vec::new();
        let items = &mut self.items;
        self.running.retain(|&index| {
            let Task::Running(ticket) = &mut items[index].task else {
                return false;
            };
            match Pin::new(ticket).poll(&mut context) {
                Poll::Ready(outcome) => {
                    ended.push((index, outcome));
                    false
                }
                Poll::Pending => true,
            }
        });
        ended
    }

    /// A request has ended.
    fn ended(&mut self, index: usize, outcome: Result<Buffer, Failed>) {
        let item = &mut self.items[index];
        match outcome {
            _ if item.dropped => {
                self.give_back_all(index);
                self.end_item(index);
            }
            Ok(buffer) if item.purpose.is_none() => item.task = Task::Landed(buffer),
            Ok(buffer) => self.landed(index, buffer),
            Err(failed) => {
                let error = match item.supplied.was_refused() {
                    true => no_room(&item.place, &item.file),
                    false => Error::of_request(&item.place, &item.file, &failed.error),
                };
                self.fail_item(index, error);
            }
        }
    }

    /// What was taken for a request's stored bytes is not needed any more.
    fn give_back(&mut self, index: usize) {
        let held = std::mem::take(&mut self.items[index].held_bytes);
        self.budget.give_back(held);
    }

    /// Nothing that was taken for an item is needed any more.
    fn give_back_all(&mut self, index: usize) {
        self.give_back(index);
        self.budget
            .give_back(self.items[index].supplied.take_bytes());
    }

    /// Bytes are there, and it is known what for.
    fn landed(&mut self, index: usize, buffer: Buffer) {
        if self.items[index].is_over() {
            // Its other half failed while this one was waiting to be looked at.
            return self.give_back_all(index);
        }
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
                // An encoded image out of a package: its second way, through the workers.
                self.give_back(index);
                let request = Request::from_buffer(Arc::new(buffer));
                match self.enqueue(index, request, true) {
                    Ok(()) => self.loader.queue.submit(),
                    Err(error) => self.fail_item(index, error),
                }
            }
            Content::Raw => self.image_landed(index, Image::new(buffer)),
            Content::Pixels => {
                self.give_back(index);
                self.image_landed(index, Image::new(buffer));
            }
            Content::SmallLevels(_) | Content::LargeLevels(_) => {
                item.task = Task::Landed(buffer);
                self.settle_halves(index);
            }
        }
    }

    /// The bytes at an address that their type wants. A read straight from the device lands them at
    /// the place within a page that they have in the file: nearly always the right one, but small
    /// entries of a package lie one after the other without gaps, and have to be moved.
    fn aligned(&self, index: usize, buffer: Buffer) -> Result<Buffer> {
        match self.misplaced(index, &buffer) {
            None => Ok(buffer),
            Some(place) => self.moved(index, &buffer, place),
        }
    }

    /// For bytes that lie at an address which their type does not want: how far behind a multiple
    /// of its alignment they must begin.
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

    fn buffer_landed(&mut self, index: usize, bytes: Bytes) {
        let Some(Purpose::Buffer { buffer, start }) = self.items[index].purpose else {
            unreachable!("bytes of a buffer have one")
        };
        self.note(index, bytes.as_slice().len() as u64, false);
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

    fn image_landed(&mut self, index: usize, image: Result<Image, &'static str>) {
        match image {
            Ok(image) => {
                self.end_item(index);
                self.note(index, image.memory_bytes() as u64, false);
                self.show(index, State::Ready(Arc::new(image)));
            }
            Err(cause) => self.fail_image(index, cause),
        }
    }

    /// One half of an image has come, or was left out. Whatever the order in which the two come or
    /// fail, the image ends the same: if either failed it has failed; if only the large half was
    /// left out or cancelled, it has fewer levels.
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

    /// The image of small levels, whose header must be the one that its requests were made by.
    fn small_image(&self, small: usize, buffer: Buffer) -> Result<Image, &'static str> {
        let whole = Layout::parse(&buffer)?;
        if self.items[small].content != Content::SmallLevels(whole) {
            return Err("the package's record of the image is not that of its bytes");
        }
        Image::new(buffer)
    }

    /// The buffer of an item that has landed; the item ends.
    fn take_landed(&mut self, index: usize) -> Option<Buffer> {
        let buffer = self.items[index].take_landed()?;
        self.end_item(index);
        self.note(index, buffer.len() as u64, false);
        Some(buffer)
    }

    /// The bytes of an image make no sense.
    fn fail_image(&mut self, index: usize, cause: &'static str) {
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
            for image in images {
                self.set_image(image, state.clone());
            }
        }
    }

    pub(super) fn set_image(&mut self, image: usize, state: State<Arc<Image>>) {
        if let Some(Ok(scene)) = &mut self.scene {
            scene.images[image] = state;
        }
    }

    pub(super) fn set_buffer(&mut self, buffer: usize, state: State<BufferBytes>) {
        if let Some(Ok(scene)) = &mut self.scene {
            scene.buffers[buffer] = state;
        }
    }

    /// Something is on its way.
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
            Purpose::Buffer { buffer, .. } => self.set_buffer(*buffer, State::Failed(error)),
            Purpose::Images(images) => images
                .iter()
                .for_each(|&image| self.set_image(image, State::Failed(error.clone()))),
        }
    }

    /// An item will not come.
    pub(super) fn fail_item(&mut self, index: usize, error: Error) {
        self.give_back_all(index);
        self.end_item(index);
        self.items[index].failed = true;
        self.progress.failed += 1;
        self.note(index, 0, true);
        let Some(purpose) = self.items[index].purpose.clone() else {
            return;
        };
        let partner = self.items[index].partner;
        if self.items[index].is_large() && error.kind() == ErrorKind::Cancelled {
            // The small levels are an image without them.
            return self.settle_halves(index);
        }
        self.fail_purpose(&purpose, error);
        if let Some(partner) = partner {
            self.drop_item(partner);
        }
    }

    /// Nobody wants an item: one that a record promised and the JSON does not confirm, or the other
    /// half of an image that has failed. What came of it goes, and what is under way too.
    pub(super) fn drop_item(&mut self, index: usize) {
        let item = &mut self.items[index];
        item.dropped = true;
        if matches!(item.task, Task::Running(_)) {
            item.cancel();
        } else {
            self.give_back_all(index);
            self.end_item(index);
            self.in_order = false;
        }
    }

    fn end_item(&mut self, index: usize) {
        if !self.items[index].is_over() {
            self.items[index].task = Task::Ended;
            self.progress.ended += 1;
        }
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

    /// Whether a fetch was promised by the package's record; it is that one's purpose then.
    pub(super) fn take_promised(&mut self, fetch: &Fetch, promised: &HashMap<Key, usize>) -> bool {
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
            // What has failed is asked for again, to fail with its own reason.
            return false;
        }
        if let Purpose::Buffer { buffer, .. } = fetch.purpose {
            *self.outstanding.entry(buffer).or_default() += 1;
        }
        // What has landed without a purpose was not looked at yet: each half goes through `landed`,
        // and none may be taken by the other's before.
        let unseen = both.into_iter().flatten().map(|index| {
            let item = &mut self.items[index];
            item.purpose = Some(fetch.purpose.clone());
            item.place.clone_from(&fetch.place);
            (index, item.take_landed())
        });
        for (index, buffer) in unseen.collect::<Vec<_>>() {
            if let Some(buffer) = buffer {
                self.landed(index, buffer);
            }
        }
        true
    }
}

/// The promised item whose bytes can stand for those of an origin: the same ones, or a whole entry
/// for its beginning.
fn find_promised(wanted: &Origin, promised: &HashMap<Key, usize>) -> Option<usize> {
    if let Some(&index) = promised.get(&wanted.key()) {
        return Some(index);
    }
    match wanted {
        Origin::Entry { name, range } if range.start == 0 => {
            promised.get(&Key::Whole(Arc::clone(name))).copied()
        }
        _ => None,
    }
}

fn no_room(place: &str, file: &str) -> Error {
    let cause = "the memory that the application allows for the scene is used up";
    Error::new(ErrorKind::Limit, place, cause).in_file(file)
}

/// Whether an image is worth two requests.
fn has_halves(layout: &Layout) -> bool {
    layout.level_within(limits::SMALL_LEVEL_SIDE) > layout.first_level()
}

/// Bytes of an image's small half.
fn small_bytes(layout: &Layout) -> usize {
    layout.prefix_bytes(layout.level_within(limits::SMALL_LEVEL_SIDE))
}

/// Where an image's large half begins: with its first level.
fn large_start(layout: &Layout) -> usize {
    small_bytes(layout).next_multiple_of(LEVEL_ALIGNMENT)
}

/// Bytes of an image's large half without the levels whose sides are beyond `side`.
fn large_bytes(layout: &Layout, side: u32) -> u64 {
    let level = layout.level_within(side).max(layout.first_level());
    layout
        .prefix_bytes(level)
        .saturating_sub(large_start(layout)) as u64
}

/// The largest side with which the large levels of all images fit into `bytes`.
fn side_within(layouts: &[Layout], bytes: u64) -> u32 {
    let mut side = limits::IMAGE_SIDE_MAX;
    while side > limits::SMALL_LEVEL_SIDE {
        let large = layouts.iter().map(|layout| large_bytes(layout, side));
        if large.sum::<u64>() <= bytes {
            break;
        }
        side /= 2;
    }
    side
}
