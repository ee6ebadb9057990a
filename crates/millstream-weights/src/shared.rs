//! A model that the processes of one machine load together: each byte is read once, by whichever
//! process comes to it first, into memory that they share.
//!
//! The memory is a file in `/dev/shm`, of this user alone, with a header, a word for each range of
//! at most [`SHARED_RANGE_BYTES`] of the model's files, and the bytes of these files. A process
//! locks a range, reads it, sets its word, and unlocks it; it has some in flight at a time. A lock
//! goes with its process: what that had not finished is read again by another. A word that is set
//! stays set, and the bytes of its range are written no more.
//!
//! While any process uses the memory it holds a shared lock; the last one removes the file. What a
//! process that was killed has left is used again by the next, if the files are the same by device,
//! inode, length and time of modification; otherwise it is made anew, unless others use it.
//!
//! The lock of a range is of the byte with its word's number; those of the whole are beyond.
#![expect(
    unsafe_code,
    reason = "ranges are given to the engine while they are locked"
)]

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::{Error, ErrorKind, Queue, QueueOptions, Read, Storage, Ticket};
use millstream_io::IoError;
use millstream_io::memory::{ByteLock, SharedMemory, SharedPart};

use crate::error::{failed, in_file};
use crate::limits::{
    MODEL_BYTES_MAX, READ_WINDOW_BYTES, SHARED_GROUP_BYTES_MAX, SHARED_RANGE_BYTES,
};
use crate::model::Model;
use crate::tensor::Extent;

/// The first word of the header.
const MAGIC: u32 = u32::from_le_bytes(*b"msw1");
/// The word of a range that was read.
const DONE: u32 = 1;
/// Where files begin in the memory: a multiple of what direct reads may need.
const ALIGNMENT: u64 = 4096;
/// Locks beyond those of words: while the memory is made or removed, and while it is used.
const MAKING: u64 = 1 << 40;
const USING: u64 = MAKING + 1;
/// Time between two looks at what another process does.
const PAUSE: Duration = Duration::from_millis(1);
/// How often the drop of a model looks whether it may remove the memory.
const TRIES_MAX: usize = 1000;
/// Longest time until the caller is asked whether to go on.
const SLICE: Duration = Duration::from_millis(20);

/// A model in memory that processes share. Dropping it leaves the memory; the last one removes it.
#[derive(Debug)]
pub struct SharedModel {
    memory: Arc<SharedMemory>,
    path: PathBuf,
    /// Where each file begins in the memory.
    starts: Vec<usize>,
    /// The length of each file.
    files: Vec<u64>,
    read_bytes: u64,
    /// The process that loaded it.
    process: u32,
    left: AtomicBool,
}

/// A range of a file, and its bytes and its word in the memory.
struct Piece {
    file: usize,
    offset: u64,
    bytes: Range<usize>,
    word: usize,
}

/// How the memory is laid out.
struct Layout {
    /// The header: what identifies the files.
    header: Vec<u32>,
    starts: Vec<usize>,
    pieces: Vec<Piece>,
    len: usize,
}

/// Asked at least every 20 ms whether to go on.
pub type GoOn<'a> = &'a mut dyn FnMut() -> ControlFlow<()>;

impl SharedModel {
    /// Loads all files of a model together with the other processes of this user and machine that
    /// load it as `group`, a name without `/`. Blocks until all bytes are there, whoever reads
    /// them, or until `go_on` breaks.
    ///
    /// # Errors
    /// That of a read; `InvalidArgument` for a name that is none, or while other processes use the
    /// group for other files; `Canceled` if `go_on` breaks; `NoSpace` without room in `/dev/shm`.
    pub fn load(
        storage: &Storage,
        model: &Model,
        group: &str,
        go_on: GoOn<'_>,
    ) -> Result<SharedModel, Error> {
        let is_name = !group.is_empty() && !group.contains(['/', '\0']);
        if !is_name || group.len() > SHARED_GROUP_BYTES_MAX {
            let cause = "a group has a name of at most 100 bytes without slashes";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        let path = SharedMemory::path_of(&format!("millstream-{group}"));
        let layout = Layout::new(storage, model)?;
        let located = |error: Error| in_file(error, &path);
        let memory = attach(&path, &layout, go_on).map_err(located)?;
        let mut shared = SharedModel {
            memory: Arc::new(memory),
            path: path.clone(),
            starts: layout.starts,
            files: model.files().iter().map(|file| file.bytes).collect(),
            read_bytes: 0,
            process: std::process::id(),
            left: AtomicBool::new(false),
        };
        let mut loading = Loading {
            memory: &shared.memory,
            model,
            queue: storage.queue(QueueOptions::default())?,
            left: layout.pieces.into(),
            flying: VecDeque::new(),
            flying_bytes: 0,
            read_bytes: 0,
        };
        loading.run(go_on)?;
        shared.read_bytes = loading.read_bytes;
        Ok(shared)
    }

    /// Returns the open file in memory, to be mapped elsewhere: it is this model's, whatever its
    /// path leads to by now.
    #[must_use]
    pub fn file(&self) -> &std::fs::File {
        self.memory.file()
    }

    /// Returns the path of the file in memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where a part of the model is in the file in memory; `None` if the model has no such
    /// part.
    #[must_use]
    pub fn range(&self, extent: &Extent) -> Option<Range<usize>> {
        let end = extent.offset.checked_add(extent.len)?;
        let is_inside = end <= *self.files.get(extent.file)?;
        let start = self.starts[extent.file] + extent.offset as usize;
        is_inside.then(|| start..start + extent.len as usize)
    }

    /// Returns the bytes of a part of the model.
    ///
    /// # Safety
    /// No process of this user writes to the file in memory, as none of this library does.
    #[must_use]
    pub unsafe fn bytes(&self, extent: &Extent) -> Option<&[u8]> {
        let range = self.range(extent)?;
        // SAFETY: all ranges are done, and the caller's promise.
        Some(unsafe { self.memory.bytes(range) })
    }

    /// Returns how many bytes this process has read; others have read the rest.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }
}

impl Drop for SharedModel {
    fn drop(&mut self) {
        self.leave();
    }
}

impl SharedModel {
    /// Counts as no user of the memory any more, and removes the file if there is no other, as the
    /// drop does; the memory stays mapped until then. Waits while another process makes or removes
    /// it, which takes microseconds: at most a second, after which the file is left to others.
    pub fn leave(&self) {
        // Locks are shared with a parent, which still needs them.
        let has_left = self.left.swap(true, Ordering::Relaxed);
        if has_left || self.process != std::process::id() {
            return;
        }
        let lock = |byte| self.memory.lock(byte, ByteLock::Exclusive).unwrap_or(false);
        let mut tries = 0..TRIES_MAX;
        while !lock(MAKING) {
            if tries.next().is_none() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        if lock(USING) && self.memory.is_at(&self.path) {
            // Without an error to report: the next process finds it, and uses it or removes it.
            let _ = std::fs::remove_file(&self.path);
        }
        // Operations of a load that failed may keep the file open, and its locks.
        for byte in [USING, MAKING] {
            let _ = self.memory.lock(byte, ByteLock::None);
        }
    }
}

impl Layout {
    fn new(storage: &Storage, model: &Model) -> Result<Layout, Error> {
        let files = model.files();
        let mut header = vec![MAGIC, files.len() as u32];
        let mut lens = Vec::new();
        for file in files {
            let info = storage.opened(file.id)?.wait()?;
            if info.len != file.bytes {
                let cause = "the file has changed since the model was opened";
                let changed = failed(ErrorKind::StaleFile, cause, 0, u64::MAX);
                return Err(in_file(changed, &file.path));
            }
            let identity = info.identity;
            let modified = identity.modified_ns as u64;
            for number in [identity.device, identity.inode, modified, info.len] {
                header.extend([number as u32, (number >> 32) as u32]);
            }
            lens.push(info.len);
        }
        let all = lens
            .iter()
            .fold(0, |sum: u64, len| sum.saturating_add(*len));
        if all > MODEL_BYTES_MAX {
            let cause = format!("the model has {all} bytes, more than {MODEL_BYTES_MAX}");
            return Err(Error::new(ErrorKind::Limit, cause));
        }
        let count: u64 = lens
            .iter()
            .map(|len| len.div_ceil(SHARED_RANGE_BYTES))
            .sum();
        let mut at = ((header.len() as u64 + count) * 4).next_multiple_of(ALIGNMENT);
        let (mut starts, mut pieces) = (Vec::new(), Vec::new());
        for (file, len) in lens.into_iter().enumerate() {
            starts.push(at as usize);
            for offset in (0..len).step_by(SHARED_RANGE_BYTES as usize) {
                let bytes = SHARED_RANGE_BYTES.min(len - offset);
                let start = (at + offset) as usize;
                pieces.push(Piece {
                    file,
                    offset,
                    bytes: start..start + bytes as usize,
                    word: header.len() + pieces.len(),
                });
            }
            at += len.next_multiple_of(ALIGNMENT);
        }
        Ok(Layout {
            header,
            starts,
            pieces,
            len: at as usize,
        })
    }

    /// Where the bytes of the files begin.
    fn data(&self) -> usize {
        self.starts.first().copied().unwrap_or(self.len)
    }

    fn is_in(&self, memory: &SharedMemory) -> bool {
        let mut words = self.header.iter().enumerate();
        words.all(|(index, word)| memory.word(index).load(Ordering::Acquire) == *word)
    }

    fn put_into(&self, memory: &SharedMemory) {
        // The first word last: before, the header is of no model.
        for (index, word) in self.header.iter().enumerate().rev() {
            memory.word(index).store(*word, Ordering::Release);
        }
    }
}

/// Opens the memory, makes it if it is missing or of other files, and counts this process as one
/// of its users.
fn attach(path: &Path, layout: &Layout, go_on: GoOn<'_>) -> Result<SharedMemory, Error> {
    loop {
        let mut memory = SharedMemory::open(path)?;
        if !begin(&memory, path, go_on)? {
            continue;
        }
        let attached = take_up(&mut memory, path, layout);
        // Unlocked and not only closed: a child that was forked meanwhile has the file open, too.
        if !matches!(attached, Ok(true)) {
            memory.lock(USING, ByteLock::None)?;
        }
        memory.lock(MAKING, ByteLock::None)?;
        if attached? {
            return Ok(memory);
        }
    }
}

/// Waits until no other process makes or removes the memory; false: it is no longer at its path.
fn begin(memory: &SharedMemory, path: &Path, go_on: GoOn<'_>) -> Result<bool, Error> {
    while !memory.lock(MAKING, ByteLock::Exclusive)? {
        check(go_on)?;
        if !memory.is_at(path) {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    let is_there = memory.is_at(path);
    if !is_there {
        memory.lock(MAKING, ByteLock::None)?;
    }
    Ok(is_there)
}

/// Makes the memory, or finds what it holds; false: it was of other files, and is removed.
fn take_up(memory: &mut SharedMemory, path: &Path, layout: &Layout) -> Result<bool, Error> {
    let len = memory.file_len()?;
    if len == 0 {
        let made = make(memory, layout);
        if made.is_err() {
            // A file that has a length and no header is of no use to other processes.
            let _ = std::fs::remove_file(path);
        }
        made?;
    } else if len != layout.len as u64 || !is_of(memory, layout)? {
        if !memory.lock(USING, ByteLock::Exclusive)? {
            let cause = "other processes use this group for other files";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        std::fs::remove_file(path).map_err(|error| IoError::new("unlink", &error))?;
        return Ok(false);
    }
    Ok(memory.lock(USING, ByteLock::Shared)?)
}

fn is_of(memory: &mut SharedMemory, layout: &Layout) -> Result<bool, Error> {
    memory.map(layout.len)?;
    Ok(layout.is_in(memory))
}

fn make(memory: &mut SharedMemory, layout: &Layout) -> Result<(), Error> {
    // SAFETY: a file without a length was not made, so no process has mapped it, and none does
    // without the lock that this one holds.
    unsafe { memory.resize(layout.len) }?;
    memory.map(layout.len)?;
    memory.allocate(0..layout.data())?;
    layout.put_into(memory);
    Ok(())
}

fn check(go_on: GoOn<'_>) -> Result<(), Error> {
    match go_on() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(ErrorKind::Canceled, "the load was given up")),
    }
}

/// A load under way.
struct Loading<'a> {
    memory: &'a Arc<SharedMemory>,
    model: &'a Model,
    queue: Queue,
    /// Ranges that may not be done, and that this process does not read.
    left: VecDeque<Piece>,
    /// Ranges that this process has locked and reads.
    flying: VecDeque<(Piece, Ticket<SharedPart>)>,
    flying_bytes: u64,
    read_bytes: u64,
}

impl Loading<'_> {
    fn run(&mut self, go_on: GoOn<'_>) -> Result<(), Error> {
        loop {
            self.submit()?;
            if self.left.is_empty() && self.flying.is_empty() {
                return Ok(());
            }
            check(go_on)?;
            let Some((_, ticket)) = self.flying.front_mut() else {
                // Others read what is left; or their locks go with them.
                std::thread::sleep(PAUSE);
                continue;
            };
            let Some(outcome) = ticket.wait_timeout(SLICE)? else {
                continue;
            };
            let (piece, _) = self.flying.pop_front().expect("the one that completed");
            // The memory of the request goes before others may use the range.
            let read = outcome.into_result().map(drop);
            if read.is_ok() {
                self.memory.word(piece.word).store(DONE, Ordering::Release);
            }
            self.unlock(&piece)?;
            read?;
            self.flying_bytes -= piece.bytes.len() as u64;
            self.read_bytes += piece.bytes.len() as u64;
        }
    }

    /// Begins to read ranges that are not done, and that no other process reads.
    fn submit(&mut self) -> Result<(), Error> {
        for _ in 0..self.left.len() {
            let is_full = self.flying_bytes + SHARED_RANGE_BYTES > READ_WINDOW_BYTES;
            if is_full && !self.flying.is_empty() {
                break;
            }
            let Some(piece) = self.left.pop_front() else {
                break;
            };
            if self.is_done(&piece) {
                continue;
            }
            if !self.memory.lock(piece.word as u64, ByteLock::Exclusive)? {
                self.left.push_back(piece);
                continue;
            }
            // Another process may have read it before it was locked.
            if self.is_done(&piece) {
                self.unlock(&piece)?;
                continue;
            }
            match self.begin(&piece) {
                Ok(ticket) => {
                    self.flying_bytes += piece.bytes.len() as u64;
                    self.flying.push_back((piece, ticket));
                }
                Err(error) => {
                    // Not left to the close: a forked child may have the file open, too.
                    self.unlock(&piece)?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn begin(&self, piece: &Piece) -> Result<Ticket<SharedPart>, Error> {
        self.memory.allocate(piece.bytes.clone())?;
        let len = piece.bytes.len() as u64;
        // SAFETY: the range is locked and not done, so no process uses it; the lock is of the
        // memory's file, which the part keeps open.
        let part = unsafe { self.memory.part(piece.bytes.clone()) };
        let file = self.model.files()[piece.file].id;
        let read = Read::range(file, piece.offset, len).into(part);
        Ok(self.queue.submit(read)?.cancel_on_drop())
    }

    fn is_done(&self, piece: &Piece) -> bool {
        self.memory.word(piece.word).load(Ordering::Acquire) == DONE
    }

    fn unlock(&self, piece: &Piece) -> Result<(), Error> {
        self.memory.lock(piece.word as u64, ByteLock::None)?;
        Ok(())
    }
}
