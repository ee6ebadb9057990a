//! Making requests, and putting what they bring where it belongs.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
            refused: Arc::default(),
            failed: false,
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
                    refused: Arc::default(),
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
            let key = |&index: &usize| (items[index].class, items[index].stored_bytes);
            self.waiting.sort_by_key(key);
            self.plan_levels();
            self.in_order = true;
        }
        while self.running.len() < limits::REQUESTS_MAX {
            let Some(index) = self.waiting.pop() else {
                break;
            };
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
        let item = &mut self.items[index];
        if item.geometry {
            self.end_item(index);
            self.buffer_landed(index, Bytes::Part(bytes.clone(), range));
            return Ok(());
        }
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
        if decodes {
            let pool = self.loader.storage.buffer_pool();
            request = request
                .codec(image::CODEC)
                .into_supplied(self.budget.supply(pool, Arc::clone(&item.refused)));
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
            Ok(buffer) if item.purpose.is_none() => item.task = Task::Landed(buffer),
            Ok(buffer) => self.landed(index, buffer),
            Err(failed) => {
                let refused = item.refused.load(Ordering::Acquire);
                let error = match refused {
                    true => no_room(&item.place, &item.file),
                    false => Error::of_request(&item.place, &item.file, &failed.error),
                };
                self.give_back(index);
                self.fail_item(index, error);
            }
        }
    }

    /// What was taken for a request is not needed any more.
    fn give_back(&mut self, index: usize) {
        let held = std::mem::take(&mut self.items[index].held_bytes);
        self.budget.give_back(held);
    }

    /// Bytes are there, and it is known what for.
    fn landed(&mut self, index: usize, buffer: Buffer) {
        let buffer = match self.aligned(index, buffer) {
            Ok(buffer) => buffer,
            Err(error) => {
                self.give_back(index);
                return self.fail_item(index, error);
            }
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
        let item = &self.items[index];
        let (alignment, place) = match &item.purpose {
            // Elements of a buffer are aligned by their offset in it.
            Some(Purpose::Buffer { start, .. }) => (4, start % 4),
            _ if item.content == Content::Raw && !buffer.starts_with(&image::MAGIC) => (1, 0),
            _ => (LEVEL_ALIGNMENT, 0),
        };
        let place = usize::try_from(place).expect("3 at most");
        if buffer.as_ptr().addr() % alignment == place {
            return Ok(buffer);
        }
        let moved = self.loader.storage.buffer(place + buffer.len());
        let mut moved =
            moved.map_err(|error| Error::of_request(&item.place, &item.file, &error))?;
        moved[place..].copy_from_slice(&buffer);
        moved.set_view(place, buffer.len());
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
        self.end_item(index);
        match image {
            Ok(image) => {
                self.note(index, image.memory_bytes() as u64, false);
                self.show(index, State::Ready(Arc::new(image)));
            }
            Err(cause) => {
                self.progress.failed += 1;
                self.note(index, 0, true);
                self.fail_image(index, cause);
            }
        }
    }

    /// One half of an image has come, or was left out.
    fn settle_halves(&mut self, index: usize) {
        let partner = self.items[index].partner.expect("half of an image");
        let (small, large) = if self.items[index].is_small() {
            (index, partner)
        } else {
            (partner, index)
        };
        if let Some(buffer) = self.take_landed(small) {
            match Image::new(buffer) {
                Ok(image) if matches!(self.items[large].task, Task::Ended) => {
                    self.show(small, State::Ready(Arc::new(image)));
                }
                Ok(image) => self.show(small, State::Part(Arc::new(image))),
                Err(cause) => self.fail_image(small, cause),
            }
        }
        match self.shown_image(small) {
            Some(State::Part(image)) => match self.take_landed(large) {
                Some(buffer) => {
                    let start = image.layout().bytes().next_multiple_of(LEVEL_ALIGNMENT);
                    match image.with_larger(start, buffer) {
                        Ok(image) => self.show(large, State::Ready(Arc::new(image))),
                        Err(cause) => self.fail_image(large, cause),
                    }
                }
                None if matches!(self.items[large].task, Task::Ended) => {
                    self.show(large, State::Ready(image));
                }
                None => {}
            },
            Some(State::Failed(_)) => drop(self.take_landed(large)),
            _ => {}
        }
    }

    /// The buffer of an item that has landed; the item ends.
    fn take_landed(&mut self, index: usize) -> Option<Buffer> {
        let buffer = self.items[index].take_landed()?;
        self.items[index].task = Task::Ended;
        self.progress.ended += 1;
        self.note(index, buffer.len() as u64, false);
        Some(buffer)
    }

    /// The bytes of an image make no sense.
    fn fail_image(&mut self, index: usize, cause: &'static str) {
        let item = &self.items[index];
        let error = Error::new(ErrorKind::Image, &item.place[..], cause).in_file(&item.file);
        self.show(index, State::Failed(error));
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
        self.end_item(index);
        self.items[index].failed = true;
        self.progress.failed += 1;
        self.note(index, 0, true);
        if let Some(purpose) = self.items[index].purpose.clone() {
            self.fail_purpose(&purpose, error);
        }
    }

    fn end_item(&mut self, index: usize) {
        if !matches!(self.items[index].task, Task::Ended) {
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

    /// A promise that the JSON does not confirm: what came of it goes.
    pub(super) fn drop_promised(&mut self, index: usize) {
        self.items[index].cancel();
        if matches!(self.items[index].task, Task::Landed(_)) {
            self.end_item(index);
            self.give_back(index);
        }
        self.waiting.retain(|&waiting| waiting != index);
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
