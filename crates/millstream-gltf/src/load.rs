//! Loading: a scene in two batches of reads from loose files, and in one from a package.
//!
//! Batch 1 is the JSON, or the head of the GLB. Batch 2 is everything else at once: buffers at high
//! priority, images at low, the one with most stored bytes first, so that no long decode is left
//! for the end. Images are decoded by the storage's workers as they arrive (see
//! [`image::codec`](crate::image)), straight into their final memory.
//!
//! A package knows from its metadata what a scene needs, so batch 1 holds batch 2 as well. The
//! record is a guess that the JSON confirms: what it did not say is fetched in a second batch, and
//! what it said too much is dropped. Of images with levels the small ones are fetched first, at
//! high priority.
//!
//! A [`Load`] is a state machine without a thread of its own: whoever polls it or waits for it
//! carries it on. Several loads at once ([`wait_all`]) keep the device and the workers busy while
//! each waits for its own first batch.

mod budget;
mod issue;
mod item;
mod start;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use millstream::{Folder, Group, Located, Priority, Queue, QueueOptions, Source, Storage};

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::scene::{Scene, State};
use budget::Budget;
use item::Item;
use start::Head;

/// How scenes are loaded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoaderOptions {
    /// Class of JSON and buffers.
    pub geometry: Priority,
    /// Class of the small levels of images that have levels.
    pub small_levels: Priority,
    /// Class of all other images and levels.
    pub images: Priority,
    /// Most memory of one scene. Of images in a package that have levels, as many small ones are
    /// loaded as fit; other images fail once there is no room.
    pub memory_max: u64,
    /// Whether to load images at all.
    pub load_images: bool,
}

impl Default for LoaderOptions {
    fn default() -> LoaderOptions {
        LoaderOptions {
            geometry: Priority::High,
            small_levels: Priority::High,
            images: Priority::Low,
            memory_max: limits::SCENE_BYTES_MAX_DEFAULT,
            load_images: true,
        }
    }
}

/// Loads scenes through a storage, whose options must have been given the image codec
/// ([`image::register`](crate::image::register)).
pub struct Loader<'s> {
    storage: &'s Storage,
    queue: Queue,
    options: LoaderOptions,
}

impl<'s> Loader<'s> {
    /// A loader with a queue of its own.
    ///
    /// # Errors
    /// The storage is closing, or has too many queues.
    pub fn new(storage: &'s Storage, options: LoaderOptions) -> Result<Loader<'s>> {
        let queue = storage.queue(QueueOptions {
            name: String::from("scenes"),
            ..QueueOptions::default()
        });
        let queue = queue.map_err(|error| Error::of_request("", "", &error))?;
        Ok(Loader {
            storage,
            queue,
            options,
        })
    }

    /// The loader's queue: to cancel, pause or cap all loads at once.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Begins to load a scene from loose files. Looks the scene's file up, and does not wait.
    ///
    /// # Errors
    /// There is no such file, or its folder cannot be used.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Load<'_>> {
        let path = path.as_ref();
        let shown = path.to_string_lossy();
        let name = path
            .file_name()
            .ok_or_else(|| Error::new(ErrorKind::Missing, "", "names no file").in_file(&shown))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = Folder::new(self.storage, folder)
            .map_err(|error| Error::of_request("", &shown, &error))?;
        self.begin(Arc::new(folder), true, name.as_encoded_bytes())
    }

    /// Begins to load a scene from a source, a package for instance.
    ///
    /// # Errors
    /// The source has no such entry, or cannot tell.
    pub fn open_from(&self, source: Arc<dyn Source>, name: &[u8]) -> Result<Load<'_>> {
        self.begin(source, false, name)
    }

    fn begin(&self, source: Arc<dyn Source>, plain: bool, name: &[u8]) -> Result<Load<'_>> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let found = source
            .find(name)
            .map_err(|error| Error::of_request("", &shown, &error))?;
        let missing = || Error::new(ErrorKind::Missing, "", "there is no such file");
        let located = found.ok_or_else(|| missing().in_file(&shown))?;
        let mut load = Load {
            loader: self,
            source,
            plain,
            name: Arc::from(name),
            located,
            group: Group::new(),
            budget: Arc::new(Budget::new(self.options.memory_max)),
            stage: Stage::Done,
            items: Vec::new(),
            running: Vec::new(),
            waiting: Vec::new(),
            in_order: true,
            outstanding: HashMap::new(),
            names: HashSet::new(),
            scene: None,
            progress: Progress::default(),
            events: Vec::new(),
            started: Instant::now(),
            first_drawable: None,
            indices_checked: false,
            cancelled: false,
        };
        load.start()?;
        Ok(load)
    }
}

/// How far a load is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Rounds of reads that had to wait for each other.
    pub batches: u32,
    /// Requests made.
    pub requests: u64,
    /// Entries or files that they read.
    pub files: u64,
    /// Things that were asked for: the JSON, ranges of buffers, images or parts of them.
    pub wanted: u64,
    /// Of them, those that have ended, well or badly.
    pub ended: u64,
    /// Of them, those that failed.
    pub failed: u64,
    /// Bytes of memory that have landed.
    pub raw_bytes: u64,
}

/// Something that has landed or failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The place in the JSON that named it; empty for the JSON itself.
    pub place: String,
    /// What it is.
    pub what: EventKind,
    /// The file or entry it came from.
    pub file: String,
    /// Bytes of memory.
    pub bytes: u64,
    /// When it was seen, since the load began.
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
    Head(Head),
    /// Waits for everything else.
    Body,
    /// Nothing more will come.
    Done,
}

/// A scene on its way. Dropping it cancels what has not landed.
pub struct Load<'l> {
    loader: &'l Loader<'l>,
    source: Arc<dyn Source>,
    /// Whether entries are plain files, so that a codec may be put on their requests.
    plain: bool,
    name: Arc<[u8]>,
    located: Located,
    group: Group,
    budget: Arc<Budget>,
    stage: Stage,
    items: Vec<Item>,
    /// Items with a request under way.
    running: Vec<usize>,
    /// Items whose requests are not made yet; once in order, the next one last.
    waiting: Vec<usize>,
    in_order: bool,
    /// Requests for reads that are under way or waiting, of each buffer.
    outstanding: HashMap<usize, u32>,
    /// Entries beside the scene's own that are read.
    names: HashSet<Arc<[u8]>>,
    scene: Option<Result<Scene>>,
    progress: Progress,
    events: Vec<Event>,
    started: Instant,
    first_drawable: Option<Duration>,
    indices_checked: bool,
    /// By the application, as a whole.
    cancelled: bool,
}

impl Load<'_> {
    /// Carries the load on as far as it goes now. Ready once nothing more will come; else `waker`
    /// is woken when it is worth another call.
    pub fn poll(&mut self, waker: &Waker) -> Poll<()> {
        if matches!(self.stage, Stage::Head(_)) && self.poll_head(waker).is_pending() {
            // What a package's record promised lands meanwhile.
            let _ = self.poll_items(waker);
            return Poll::Pending;
        }
        if matches!(self.stage, Stage::Body) && self.poll_items(waker).is_pending() {
            return Poll::Pending;
        }
        self.stage = Stage::Done;
        Poll::Ready(())
    }

    /// Blocks until nothing more will come. On a storage without threads it pumps.
    pub fn wait(&mut self) {
        wait_all(std::slice::from_mut(self), None);
    }

    /// Whether nothing more will come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// The scene as far as it is there: once the JSON is.
    #[must_use]
    pub fn scene(&self) -> Option<&Scene> {
        self.scene.as_ref().and_then(|scene| scene.as_ref().ok())
    }

    /// Waits, and gives the scene if everything of it is sound and there.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn finish(self) -> Result<Scene> {
        let scene = self.finish_partial()?;
        let first = scene.problems().next().cloned();
        first.map_or(Ok(scene), Err)
    }

    /// Waits, and gives the scene with everything that is sound; its
    /// [`problems`](Scene::problems) say what is not.
    ///
    /// # Errors
    /// There is no scene at all: the JSON cannot be read, or is none.
    pub fn finish_partial(mut self) -> Result<Scene> {
        self.wait();
        let cancelled = || Error::new(ErrorKind::Cancelled, "", "the load was cancelled");
        self.scene.take().unwrap_or_else(|| Err(cancelled()))
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// What has landed or failed so far, in the order in which it was seen.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether a picture can be drawn: all buffers have landed, and of all images with levels the
    /// small ones. Images without levels do not count: of a PNG or JPEG there is nothing to draw
    /// before all of it is decoded, and a program that cannot draw without it looks at its state.
    #[must_use]
    pub fn is_drawable(&self) -> bool {
        let Some(scene) = self.scene() else {
            return false;
        };
        let buffers = scene.buffers.iter().all(State::is_settled);
        buffers
            && !self
                .items
                .iter()
                .any(|item| item.is_small() && !item.is_ended())
    }

    /// When that came to be, since the load began.
    #[must_use]
    pub fn first_drawable(&self) -> Option<Duration> {
        self.first_drawable
    }

    /// Cancels everything that has not landed. What has stays, an image's small levels too;
    /// [`Load::finish_partial`] gives it.
    pub fn cancel(&mut self) {
        self.cancelled = true;
        let waiting = std::mem::take(&mut self.waiting);
        self.cancel_waiting(waiting);
        self.loader.queue.cancel_group(&self.group);
    }

    /// Cancels what has not landed of an image (and of images with the same bytes). If its small
    /// levels have, they stay, as an image of fewer levels.
    pub fn cancel_image(&mut self, image: usize) {
        let items = &self.items;
        let (cancelled, waiting): (Vec<usize>, Vec<usize>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|&index| items[index].shows(image));
        self.waiting = waiting;
        self.cancel_waiting(cancelled);
        for item in self.items.iter_mut().filter(|item| item.shows(image)) {
            item.cancel();
        }
    }

    /// Ends items whose requests are not made yet.
    fn cancel_waiting(&mut self, waiting: Vec<usize>) {
        for index in waiting {
            let item = &self.items[index];
            // An image's other half may have ended it already.
            if !item.is_over() {
                let error = Error::new(ErrorKind::Cancelled, &item.place[..], "was cancelled");
                self.fail_item(index, error);
            }
        }
    }

    /// Changes the class of an image's requests, as far as they have not been served.
    pub fn set_image_priority(&mut self, image: usize, class: Priority) {
        for item in self.items.iter_mut().filter(|item| item.shows(image)) {
            item.set_priority(class);
        }
        self.in_order = false;
    }

    /// Looks at the indices once all buffers have landed, well or badly.
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

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !matches!(self.stage, Stage::Done) {
            self.loader.queue.cancel_group(&self.group);
            self.loader.queue.submit();
        }
    }
}

impl std::fmt::Debug for Load<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load")
            .field("name", &String::from_utf8_lossy(&self.name))
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// How long a waiting thread sleeps at most. Wakers wake it earlier; on a storage without threads
/// nobody would, and the device has to be looked at.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// Wakes the waiting thread, and remembers which load it was for.
struct Alarm {
    thread: Thread,
    rung: AtomicBool,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Blocks until nothing more will come of any of these loads, carrying all of them on; at most
/// `timeout`, if one is given.
pub fn wait_all(loads: &mut [Load<'_>], timeout: Option<Duration>) {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let alarm = || {
        Arc::new(Alarm {
            thread: std::thread::current(),
            rung: AtomicBool::new(true),
        })
    };
    let mut open: Vec<(&mut Load<'_>, Arc<Alarm>)> =
        loads.iter_mut().map(|load| (load, alarm())).collect();
    while let Some((first, _)) = open.first() {
        let storage = first.loader.storage;
        open.retain_mut(|(load, alarm)| {
            if !alarm.rung.swap(false, Ordering::AcqRel) {
                return true;
            }
            load.poll(&Waker::from(Arc::clone(alarm))).is_pending()
        });
        let rung = |(_, alarm): &(&mut Load<'_>, Arc<Alarm>)| alarm.rung.load(Ordering::Acquire);
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return;
        }
        if !open.is_empty() && !storage.pump() && !open.iter().any(rung) {
            std::thread::park_timeout(SLEEP_MAX);
        }
    }
}
