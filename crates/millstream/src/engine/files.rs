//! The engine's side of files: what is open, what waits to be opened, and the bound on descriptors.
//!
//! Opening them is [`opens`](super::opens). A file has up to two descriptors, one through the page
//! cache and one past it. Both count. A file whose descriptors nobody needs (no operation in
//! flight, no request waiting) may be evicted to make room, and is opened again when needed.
//! `users` counts requests that need the file soon; those of paused queues give it up, so that they
//! cannot starve others.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use millstream_io::fs::DirectAlignment;
use millstream_io::{Descriptor, IoError, MountKind, Opened};

use super::Engine;
use super::opens::{OpenLane, OpenLanes, note_opened};
use super::table::NO_FILE;
use crate::copies::Hits;
use crate::error::{Error, ErrorKind};
use crate::files::{FileId, FileInfo, FileOptions, OpenOutcome};
use crate::job::{Job, Target};
use crate::limits;
use crate::local::LocalFile;
use crate::request::Priority;

/// State of a file's descriptors.
pub(crate) enum FilePhase {
    /// Never opened, or evicted.
    Closed,
    /// In a lane of opens to come.
    Queued(OpenLane),
    /// With a worker.
    Opening,
    Open(Descriptor),
    Failed(IoError),
}

/// State of its descriptor past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direct {
    Closed,
    Opening,
    Open(Descriptor),
    /// Open, but the system refuses to read through it.
    Refused(Descriptor),
    Unavailable,
}

pub(crate) struct File {
    pub(crate) generation: u32,
    pub(crate) path: Arc<Path>,
    pub(crate) options: FileOptions,
    pub(crate) phase: FilePhase,
    pub(crate) direct: Direct,
    /// What the last open told.
    pub(crate) about: Option<Opened>,
    /// Changes when a new open finds another file under the name.
    pub(crate) version: u32,
    /// Operations in flight.
    pub(crate) ops: u32,
    /// Requests that name it and have not ended.
    pub(crate) requests: u32,
    /// Those of them that need it open soon.
    pub(crate) users: u32,
    pub(crate) waiters: Vec<Target>,
    pub(super) infos: Vec<Arc<OpenOutcome>>,
    /// A close entry was taken: later requests are stale.
    pub(crate) closing: bool,
    /// The close entry has fired: goes when nobody needs it.
    pub(crate) close_fired: bool,
    /// Whether the first open (which may create and cut) has happened.
    pub(super) opened_once: bool,
    /// Its open was ordered while the storage held no other descriptor.
    pub(super) alone: bool,
    /// Granules loaded before.
    pub(crate) repeat: Vec<u64>,
    /// Whether reads through the page cache find their bytes there.
    pub(super) hits: Hits,
    /// First write error since the last sync.
    pub(crate) write_error: Option<Error>,
    /// Syncs that wait for writes.
    pub(crate) syncs: Vec<Target>,
    /// Live writes per epoch; a sync ends an epoch and waits for it.
    pub(crate) epochs: VecDeque<u32>,
    pub(crate) epoch_base: u64,
    /// Where the next append goes.
    pub(crate) append_at: Option<u64>,
}

impl File {
    pub(crate) fn descriptor(&self) -> Option<Descriptor> {
        match self.phase {
            FilePhase::Open(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    pub(crate) fn alignment(&self) -> Option<DirectAlignment> {
        if matches!(self.direct, Direct::Unavailable | Direct::Refused(_)) {
            return None;
        }
        self.about.as_ref().and_then(|about| about.direct)
    }

    pub(crate) fn len(&self) -> u64 {
        self.about.as_ref().map_or(0, |about| about.len)
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.about
            .as_ref()
            .is_some_and(|about| about.mount_kind == MountKind::Slow)
    }

    /// The number of its mount.
    pub(super) fn mount(&self) -> u64 {
        self.about.as_ref().map_or(0, |about| about.mount)
    }

    pub(super) fn descriptors(&self) -> usize {
        usize::from(matches!(self.phase, FilePhase::Open(_)))
            + usize::from(matches!(self.direct, Direct::Open(_) | Direct::Refused(_)))
    }

    /// What an open of it reserves of the bound.
    pub(super) fn reserved(&self) -> usize {
        match (&self.phase, self.direct) {
            (FilePhase::Opening, _) => 2,
            (_, Direct::Opening) => 1,
            _ => 0,
        }
    }

    /// Whether all writes of epochs up to `epoch` have ended.
    pub(crate) fn epoch_ended(&self, epoch: u64) -> bool {
        let until = usize::try_from(epoch + 1 - self.epoch_base.min(epoch + 1)).unwrap_or(0);
        self.epochs.iter().take(until).all(|&live| live == 0)
    }
}

/// Operations on a mount that can hang, and the requests that wait for them.
#[derive(Default)]
pub(crate) struct SlowMount {
    pub(crate) ops: u32,
    pub(crate) waiting: Vec<Target>,
}

pub(crate) struct Files {
    pub(crate) slow_mounts: HashMap<u64, SlowMount>,
    pub(super) files: Vec<Option<Box<File>>>,
    /// Opens to come.
    pub(super) lanes: OpenLanes,
    /// Descriptors that are open, reserved by opens under way, or not yet closed.
    pub(crate) descriptors: usize,
    pub(crate) descriptors_max: usize,
    /// Perhaps idle files, oldest first; looked at again when room is needed.
    idle: VecDeque<u32>,
    pub(super) opening: usize,
    /// Open jobs with workers.
    pub(crate) open_jobs: usize,
}

impl Files {
    pub(crate) fn new(descriptors_max: usize) -> Files {
        // More than the process may have would only be found out by failed opens.
        let process_max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = process_max.map_or(u64::MAX, |max| max / limits::DESCRIPTORS_SHARE);
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        let descriptors_max = descriptors_max.min(share).max(2);
        Files {
            slow_mounts: HashMap::new(),
            files: Vec::new(),
            lanes: OpenLanes::default(),
            descriptors: 0,
            descriptors_max,
            idle: VecDeque::new(),
            opening: 0,
            open_jobs: 0,
        }
    }

    pub(crate) fn add(&mut self, id: FileId, path: Arc<Path>, options: FileOptions) {
        let index = id.index as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, || None);
        }
        self.files[index] = Some(Box::new(File {
            generation: id.generation,
            path,
            options,
            phase: FilePhase::Closed,
            direct: Direct::Closed,
            about: None,
            version: 0,
            ops: 0,
            requests: 0,
            users: 0,
            waiters: Vec::new(),
            infos: Vec::new(),
            closing: false,
            close_fired: false,
            opened_once: false,
            alone: false,
            repeat: Vec::new(),
            hits: Hits::default(),
            write_error: None,
            syncs: Vec::new(),
            epochs: VecDeque::from([0]),
            epoch_base: 0,
            append_at: None,
        }));
    }

    #[inline]
    pub(crate) fn get(&mut self, index: u32, generation: u32) -> Option<&mut File> {
        let file = self.files.get_mut(index as usize)?.as_deref_mut()?;
        (file.generation == generation).then_some(file)
    }

    /// A file that a live request or operation names.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> &mut File {
        self.files[index as usize]
            .as_deref_mut()
            .expect("a file lives as long as its requests")
    }

    pub(crate) fn path(&self, index: u32, generation: u32) -> Option<Arc<Path>> {
        let file = self.files.get(index as usize)?.as_ref()?;
        (file.generation == generation).then(|| Arc::clone(&file.path))
    }

    /// Descriptors were closed: only now there is room for others.
    pub(crate) fn closed(&mut self, count: usize) {
        self.descriptors -= count;
    }

    /// Takes the handles that wait for a file to be opened.
    pub(crate) fn take_infos(&mut self) -> Vec<Arc<OpenOutcome>> {
        let files = self.files.iter_mut().flatten();
        files
            .flat_map(|file| std::mem::take(&mut file.infos))
            .collect()
    }

    /// Remembers that a file may be idle now.
    pub(crate) fn note_idle(&mut self, index: u32) {
        let file = self.at(index);
        if file.users == 0 && file.ops == 0 && file.descriptors() > 0 {
            self.idle.push_back(index);
        }
    }

    /// Room for one more direct descriptor, evicting nobody.
    pub(crate) fn has_room(&self) -> bool {
        self.descriptors < self.descriptors_max
    }
}

impl Engine {
    pub(super) fn open_file(&mut self, id: FileId, path: Arc<Path>, options: FileOptions) {
        self.files.add(id, path, options);
        self.files.want(id.index, OpenLane::Ahead);
    }

    /// A file that the application has opened. It may exceed the bound on descriptors until idle
    /// ones are closed, which the next open does.
    pub(super) fn adopt_file(&mut self, id: FileId, local: LocalFile) {
        let (path, options, opened) = local.take();
        self.files.add(id, path, options);
        let file = self.files.at(id.index);
        file.opened_once = true;
        note_opened(file, opened);
        self.files.descriptors += 1;
        self.tell_opened(id.index);
    }

    pub(super) fn file_info(&mut self, id: FileId, outcome: Arc<OpenOutcome>) {
        let stale = || Error::new(ErrorKind::StaleFile, "the file was closed");
        let Some(file) = self.files.get(id.index, id.generation) else {
            outcome.resolve(Err(stale()), &mut self.wakers);
            return;
        };
        match &file.phase {
            FilePhase::Failed(error) => {
                let error = Error::from_io(error).at(Some(Arc::clone(&file.path)), 0, u64::MAX);
                outcome.resolve(Err(error), &mut self.wakers);
            }
            _ if file.about.is_some() => {
                let info = info_of(file);
                outcome.resolve(info, &mut self.wakers);
            }
            _ => {
                file.infos.push(outcome);
                self.files.want(id.index, OpenLane::Wanted);
            }
        }
    }

    /// Closes the descriptors of the file that has been idle longest.
    pub(super) fn evict_one(&mut self) -> bool {
        while let Some(index) = self.files.idle.pop_front() {
            let idle = self.files.files[index as usize]
                .as_ref()
                .is_some_and(|file| {
                    file.users == 0
                        && file.ops == 0
                        && file.descriptors() > 0
                        && file.reserved() == 0
                });
            if idle {
                self.close_descriptors(index);
                return true;
            }
        }
        false
    }

    fn close_descriptors(&mut self, index: u32) {
        let file = self.files.at(index);
        assert_eq!(file.ops, 0, "an operation keeps its file open");
        let mut descriptors = Vec::with_capacity(2);
        if let FilePhase::Open(descriptor) = file.phase {
            file.phase = FilePhase::Closed;
            descriptors.push(descriptor);
        }
        if let Direct::Open(descriptor) | Direct::Refused(descriptor) = file.direct {
            file.direct = Direct::Closed;
            descriptors.push(descriptor);
        }
        if file.is_slow() {
            // Closing may hang there: nothing else may wait in the same job.
            self.jobs.push((Priority::Normal, Job::Close(descriptors)));
        } else {
            self.closes.append(&mut descriptors);
        }
    }

    /// A request needs its file soon.
    pub(super) fn attach(&mut self, request: u32) {
        let req = self.req(request);
        if req.file != NO_FILE && !req.attached {
            req.attached = true;
            let index = req.file;
            self.files.at(index).users += 1;
        }
    }

    /// A request does not need its file for the time being, or ever.
    pub(super) fn detach(&mut self, request: u32) {
        let req = self.req(request);
        if req.attached {
            req.attached = false;
            let index = req.file;
            self.files.at(index).users -= 1;
            self.files.note_idle(index);
        }
    }

    /// A request has ended: its file may go, if it is closed.
    pub(super) fn forget_file(&mut self, request: u32) {
        let req = &mut self.requests[request as usize];
        let attached = std::mem::take(&mut req.attached);
        if !std::mem::take(&mut req.found) {
            debug_assert!(!attached, "who needs a file has found it");
            return;
        }
        let index = req.file;
        let file = self.files.at(index);
        file.requests -= 1;
        file.users -= u32::from(attached);
        let (idle, closed) = (attached && file.users == 0, file.close_fired);
        self.after_file(index, idle, closed);
    }

    /// An operation has ended, and so have its requests: the end of the last of them must not
    /// close the file under it.
    pub(super) fn operation_ended(&mut self, index: u32) {
        let file = self.files.at(index);
        file.ops -= 1;
        let (idle, closed) = (file.ops == 0, file.close_fired);
        self.after_file(index, idle, closed);
    }

    /// Looks after a file that may be idle, or may go, now.
    #[inline]
    fn after_file(&mut self, index: u32, idle: bool, closed: bool) {
        if idle {
            self.files.note_idle(index);
        }
        if closed {
            self.finish_close(index);
        }
    }

    /// The close entry of a file fires.
    pub(super) fn fire_close(&mut self, id: FileId) {
        if let Some(file) = self.files.get(id.index, id.generation) {
            file.close_fired = true;
            self.finish_close(id.index);
        }
    }

    /// Lets go of a closed file that nobody needs any more. Another queue than that of its requests
    /// may have closed it, so any end of a request can be what it waits for.
    pub(super) fn finish_close(&mut self, index: u32) {
        let file = self.files.at(index);
        let busy = file.requests > 0 || file.ops > 0 || file.reserved() > 0;
        if !file.close_fired || busy || matches!(file.phase, FilePhase::Queued(_)) {
            return;
        }
        self.close_descriptors(index);
        self.files.files[index as usize] = None;
        crate::waiters::lock(&self.shared.names).retire(index);
    }

    /// Closes everything that is open, at the end.
    pub(super) fn close_all_files(&mut self) {
        let indices = 0..u32::try_from(self.files.files.len()).expect("fewer than 2^32 files");
        for index in indices {
            if self.files.files[index as usize]
                .as_ref()
                .is_some_and(|file| file.ops == 0)
            {
                self.close_descriptors(index);
            }
        }
    }
}

pub(super) fn info_of(file: &File) -> Result<FileInfo, Error> {
    let about = file.about.as_ref();
    let about = about.ok_or_else(|| Error::new(ErrorKind::StaleFile, "the file is not open"))?;
    Ok(FileInfo {
        len: about.len,
        identity: about.identity,
        direct: about.direct.is_some(),
    })
}
