//! Loads a scene in two batches of reads from loose files, or in one from a package.
//!
//! Batch 1 is the JSON, or the head of the GLB (a JSON that exceeds the head takes one more). Batch
//! 2 is everything else: buffers at high priority, images at low, the largest first, so that no
//! long decode is left for the end. The storage's workers decode images as they arrive (see
//! [`image::codec`](crate::image)), into their final memory.
//!
//! The metadata of a package lists what a scene needs, so both batches are one there. The record is
//! a prediction that the JSON confirms: what it lacks is fetched in a second batch, what it has in
//! excess is dropped. Images with several levels have their small levels fetched first, at high
//! priority.
//!
//! A [`Load`] is a state machine without a thread of its own; polling it or waiting for it drives
//! it. Several loads at once ([`wait_all`]) keep the device and the workers busy while each waits
//! for its first batch.

mod alternatives;
mod budget;
mod device;
mod issue;
mod item;
mod start;

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use millstream::{Batch, Buffer, Group, Priority, Queue, QueueOptions, Storage, Ticket};
use millstream_source::{Folder, Located, Source};

use crate::device::SceneDevice;
use crate::error::{Error, ErrorKind, Result};
use crate::scene::{Scene, State};
use budget::Budget;
use item::{Content, Item, Task};

/// How scenes are loaded; see [how options are set](millstream#options).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoaderOptions {
    /// Priority of JSON and buffers.
    pub geometry: Priority,
    /// Priority of the small levels of images that have levels.
    pub small_levels: Priority,
    /// Priority of all other images and levels.
    pub images: Priority,
    /// Memory limit of one scene, in bytes, with the temporary memory of decoders. Once it is
    /// reached, images in a package that have levels keep only their small ones, and other items
    /// fail. `None`, the default: [`scene_memory`](crate::limits::scene_memory) of the stored bytes
    /// of the scene's files (its package, or the scene and all that it names); then the JSON and
    /// its model count, too.
    pub memory_max: Option<u64>,
    /// The device in whose memory buffers and images land ([`device`](crate::device)). Their bytes
    /// count towards `memory_max`; an image takes as many again, uncounted, until it has landed.
    /// Images land as a whole: those that exceed the limit fail.
    /// `None`, the default: they land in memory.
    pub device: Option<Arc<dyn SceneDevice>>,
}

impl Default for LoaderOptions {
    fn default() -> LoaderOptions {
        LoaderOptions {
            geometry: Priority::High,
            small_levels: Priority::High,
            images: Priority::Low,
            memory_max: None,
            device: None,
        }
    }
}

/// Loads scenes through a storage that has the image codec
/// ([`image::register`](crate::image::register)). Cheap to clone; clones share the queue.
#[derive(Clone)]
pub struct Loader {
    storage: Storage,
    queue: Queue,
    options: LoaderOptions,
}

impl Loader {
    /// Creates a loader with a queue of its own.
    ///
    /// # Errors
    /// The storage is closing, or has too many queues.
    pub fn new(storage: &Storage, options: LoaderOptions) -> Result<Loader> {
        let mut scenes = QueueOptions::default();
        scenes.name = String::from("scenes");
        let queue = storage.queue(scenes);
        let queue = queue.map_err(|error| Error::of_request("", "", &error))?;
        Ok(Loader {
            storage: storage.clone(),
            queue,
            options,
        })
    }

    /// Returns the loader's queue, to cancel, pause or cap all loads at once.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Begins to load a scene from loose files. Looks up the file; does not wait for reads.
    ///
    /// # Errors
    /// `Missing` if there is no such file; errors of [`Folder`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Load> {
        let path = path.as_ref();
        let shown = path.to_string_lossy();
        let missing = || Error::new(ErrorKind::Missing, "", "names no file").in_file(&shown);
        let name = path.file_name().ok_or_else(missing)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = Folder::new(&self.storage, folder);
        let folder = folder.map_err(|error| Error::of_request("", &shown, &error))?;
        self.begin(Arc::new(folder), true, name.as_encoded_bytes())
    }

    /// Begins to load a scene from a source, such as a package.
    ///
    /// # Errors
    /// `Missing` if the source has no such entry; errors of the source.
    pub fn open_from(&self, source: Arc<dyn Source>, name: &[u8]) -> Result<Load> {
        self.begin(source, false, name)
    }

    fn begin(&self, source: Arc<dyn Source>, plain: bool, name: &[u8]) -> Result<Load> {
        let shown = String::from_utf8_lossy(name);
        let found = source.find(name);
        let found = found.map_err(|error| Error::of_request("", &shown, &error))?;
        let missing = || Error::new(ErrorKind::Missing, "", "no such file").in_file(&shown);
        let located = found.ok_or_else(missing)?;
        let mut load = Load {
            loader: self.clone(),
            source,
            plain,
            name: Arc::from(name),
            located,
            batch: self.queue.batch(),
            group: Group::new(),
            budget: Arc::new(Budget::new(self.options.memory_max)),
            stage: Stage::Done,
            items: Vec::new(),
            running: Vec::new(),
            waiting: Vec::new(),
            reserved: 0,
            outstanding: HashMap::new(),
            names: HashSet::new(),
            holders: HashSet::new(),
            alternatives: HashMap::new(),
            binary: None,
            scene: None,
            progress: Progress::default(),
            events: Vec::new(),
            started: Instant::now(),
            first_drawable: None,
            indices_checked: false,
            canceled: false,
        };
        load.count_file(&located);
        load.start().map_err(|error| error.in_file(&shown))?;
        Ok(load)
    }
}

/// The progress of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of batches of reads, each of which waits for the one before it; without images that
    /// are read because others have failed.
    pub batches: u32,
    /// Number of requests made.
    pub requests: u64,
    /// Number of entries or files that they read.
    pub files: u64,
    /// Number of bytes that have landed, as they are in memory.
    pub raw_bytes: u64,
}

/// An item that has landed or failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The place in the JSON that names it; empty for the JSON itself.
    pub place: String,
    /// What it is.
    pub what: EventKind,
    /// The file or entry it came from.
    pub file: String,
    /// Bytes that have landed; 0 if it failed.
    pub bytes: u64,
    /// Time when it was handled, from the start of the load.
    pub at: Duration,
    /// Whether it failed.
    pub failed: bool,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The JSON, or the head of the GLB.
    Json,
    /// A range of a buffer.
    Buffer,
    /// A whole image.
    Image,
    /// The small levels of an image.
    SmallLevels,
    /// The large levels of an image.
    LargeLevels,
}

enum Stage {
    /// Waits for the JSON.
    Head(Ticket<Buffer>),
    /// Waits for everything else.
    Body,
    /// Complete.
    Done,
}

/// A scene being loaded. Dropping it cancels what has not landed.
pub struct Load {
    loader: Loader,
    source: Arc<dyn Source>,
    /// Whether entries are loose files, whose requests may be given a codec.
    plain: bool,
    name: Arc<[u8]>,
    located: Located,
    /// Requests that are not submitted yet; empty between calls.
    batch: Batch,
    group: Group,
    budget: Arc<Budget>,
    stage: Stage,
    items: Vec<Item>,
    /// Items with a request in flight.
    running: Vec<usize>,
    /// Items without a request; the next one is last.
    waiting: Vec<usize>,
    /// Stored bytes of waiting items, except large levels, which leave this much of the budget.
    reserved: u64,
    /// Number of reads in flight or waiting, by buffer.
    outstanding: HashMap<usize, u32>,
    /// Entries that are read, except the scene's own.
    names: HashSet<Arc<[u8]>>,
    /// The files or packages that hold entries of the scene.
    holders: HashSet<u64>,
    /// Textures that name other images, too, by the image that they show.
    alternatives: HashMap<usize, Vec<usize>>,
    /// The range of a GLB's binary chunk.
    binary: Option<Range<u64>>,
    scene: Option<Result<Scene>>,
    progress: Progress,
    events: Vec<Event>,
    started: Instant,
    first_drawable: Option<Duration>,
    indices_checked: bool,
    /// Set by [`Load::cancel`].
    canceled: bool,
}

impl Load {
    /// Drives the load as far as possible without blocking. Ready once it is complete; otherwise
    /// `waker` is woken when there is more to do.
    pub fn poll(&mut self, waker: &Waker) -> Poll<()> {
        // Predicted items may land before the JSON, and are handled once it is parsed.
        if matches!(self.stage, Stage::Head(_)) && self.poll_head(waker).is_pending() {
            return Poll::Pending;
        }
        if matches!(self.stage, Stage::Body) && self.poll_items(waker).is_pending() {
            return Poll::Pending;
        }
        self.stage = Stage::Done;
        Poll::Ready(())
    }

    /// Blocks until the load is complete. Pumps a storage without threads. Returns at once on a
    /// thread of the storage, and when the storage is closed.
    pub fn wait(&mut self) {
        wait_all(std::slice::from_mut(self), None);
    }

    /// Whether the load is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// Returns the scene as far as it is loaded; `None` until the JSON is parsed.
    #[must_use]
    pub fn scene(&self) -> Option<&Scene> {
        self.scene.as_ref().and_then(|scene| scene.as_ref().ok())
    }

    /// Waits, and returns the scene if all of it is loaded and valid.
    ///
    /// # Errors
    /// The errors of [`Load::finish_partial`], or the first of the scene's problems.
    pub fn finish(self) -> Result<Scene> {
        let scene = self.finish_partial()?;
        let first = scene.problems().next().cloned();
        first.map_or(Ok(scene), Err)
    }

    /// Waits, and returns the scene with everything that is loaded and valid; the errors of the
    /// rest are its [`problems`](Scene::problems).
    ///
    /// # Errors
    /// The JSON cannot be read or is invalid, or the load was canceled before it was read. `Read`
    /// on a thread of the storage, unless the load is complete.
    pub fn finish_partial(mut self) -> Result<Scene> {
        self.wait();
        // On a thread of the storage `wait` returns at once, before what has landed is taken.
        let _ = self.poll(Waker::noop());
        if !self.is_done() {
            let cause = "a load cannot be waited for on a thread of its storage";
            return Err(Error::new(ErrorKind::Read, "", cause).in_file(&self.shown()));
        }
        let cause = "the load was canceled before the JSON was read";
        let canceled = || Err(Error::new(ErrorKind::Canceled, "", cause));
        self.scene.take().unwrap_or_else(canceled)
    }

    /// Returns the progress so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Returns what has landed or failed so far, in the order in which it was handled.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether the scene can be drawn: all buffers have landed or failed, and so have the small
    /// levels of all images with levels. Images without levels do not count; check their state if
    /// needed.
    #[must_use]
    pub fn is_drawable(&self) -> bool {
        let Some(scene) = self.scene() else {
            return false;
        };
        let is_small = |item: &&Item| matches!(item.content, Content::SmallLevels(_));
        let mut small = self.items.iter().filter(is_small);
        scene.buffers.iter().all(State::is_settled) && small.all(Item::is_over)
    }

    /// Returns the time from the start of the load until [`Load::is_drawable`] became true.
    #[must_use]
    pub fn first_drawable(&self) -> Option<Duration> {
        self.first_drawable
    }

    /// Cancels everything that has not landed. [`Load::finish_partial`] returns what has landed,
    /// including the small levels of images.
    pub fn cancel(&mut self) {
        self.canceled = true;
        for index in std::mem::take(&mut self.waiting) {
            self.cancel_item(index);
        }
        self.loader.queue.cancel_group(&self.group);
    }

    /// Cancels what has not landed of an image (and of images with the same bytes). Small levels
    /// that have landed remain as an image with fewer levels.
    pub fn cancel_image(&mut self, image: usize) {
        for index in 0..self.items.len() {
            if self.items[index].shows(image) {
                self.cancel_item(index);
            }
        }
    }

    /// Cancels the request of an item, or fails the item if it has none. What has landed remains.
    fn cancel_item(&mut self, index: usize) {
        let item = &mut self.items[index];
        item.canceled = true;
        match &item.task {
            Task::Waiting => {
                let error = item.was_canceled();
                self.fail_item(index, error);
            }
            Task::Running(flight) => flight.cancel(),
            // The failure of the image's other half may have ended it already.
            Task::Landed(_) | Task::Ended => {}
        }
    }

    /// Changes the priority of an image's requests that have not completed.
    pub fn set_image_priority(&mut self, image: usize, priority: Priority) {
        for item in self.items.iter_mut().filter(|item| item.shows(image)) {
            item.priority = priority;
            if let Task::Running(flight) = &item.task {
                flight.reprioritize(priority);
            }
        }
        self.sort_waiting();
    }

    /// Counts the file that holds an entry towards the memory limit.
    fn count_file(&mut self, located: &Located) {
        let (holder, bytes) = self.source.stored_in(located);
        if self.holders.insert(holder) {
            self.budget.add_file(bytes);
        }
    }

    /// Checks the indices once all buffers have landed or failed.
    fn check_indices(&mut self) {
        if let (Some(Ok(scene)), false) = (&mut self.scene, self.indices_checked)
            && scene.buffers.iter().all(State::is_settled)
        {
            scene.check_indices();
            self.indices_checked = true;
        }
    }

    fn note_drawable(&mut self) {
        if self.first_drawable.is_none() && self.is_drawable() {
            self.first_drawable = Some(self.started.elapsed());
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if !matches!(self.stage, Stage::Done) {
            // `cancel_group` reaches only submitted requests.
            self.batch.submit();
            self.loader.queue.cancel_group(&self.group);
        }
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load")
            .field("name", &String::from_utf8_lossy(&self.name))
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// Drives all of these loads, and blocks until each is complete, or for `timeout`. Pumps storages
/// without threads. Returns at once on a thread of the storage, and when the storage of a load that
/// is not complete is closed.
pub fn wait_all(loads: &mut [Load], timeout: Option<Duration>) {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    // `Storage::wait` pumps a storage without threads: that of the first load that is not complete.
    while let Some(first) = loads.iter().position(|load| !load.is_done()) {
        let storage = loads[first].loader.storage.clone();
        let first_complete = poll_fn(|context| {
            for load in loads.iter_mut() {
                let _ = load.poll(context.waker());
            }
            if loads[first].is_done() {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if !matches!(storage.wait(first_complete, left), Ok(Some(()))) {
            return;
        }
    }
}
