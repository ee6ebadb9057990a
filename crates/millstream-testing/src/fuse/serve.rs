//! The file system itself: serves the kernel's requests from memory, as the rules allow.
//!
//! Every call goes through [`Served::judge`], which counts it, applies the rules, and answers it
//! now or puts it in the list of held calls. The kernel caches neither names nor attributes, and so
//! sees a change of the files at once.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::held::Held;
use super::rules::{Call, Verdict};
use super::{MemoryFile, Node, Shared, State};

/// Block size reported for files.
const BLOCK_BYTES: u32 = 4096;

/// Maximum number of background requests (readahead, asynchronous direct reads) that the kernel
/// sends at a time: hung ones must not block others.
const BACKGROUND_MAX: u16 = 4096;

/// Time for which the kernel may cache names and attributes.
const NO_CACHE: Duration = Duration::ZERO;

/// Bits of an inode number that identify the file; the others are of a lookup.
const FILE_BITS: u32 = 32;

/// Calls without a range count as touching the byte at 0.
const NO_RANGE: Range<u64> = 0..1;

/// Serves one mount.
pub(crate) struct Served {
    pub(super) shared: Arc<Shared>,
}

impl State {
    /// Returns the file of this name, creating it if there is none.
    pub(crate) fn create(&mut self, name: &OsStr) -> Node {
        if let Some(&node) = self.names.get(name) {
            return node;
        }
        let last = self.files.last_key_value().map(|(&node, _)| node);
        let node = last.unwrap_or(INodeNo::ROOT.0) + 1;
        self.names.insert(name.to_owned(), node);
        let file = MemoryFile {
            name: name.to_owned(),
            bytes: Vec::new(),
            modified: SystemTime::now(),
            links: 1,
        };
        self.files.insert(node, file);
        node
    }

    /// Returns the inode number by which a lookup finds a file.
    fn look_up(&mut self, name: &OsStr) -> Option<Node> {
        let number = self.renumbered;
        self.renumbered += number.min(1);
        self.names.get(name).map(|node| node | number << FILE_BITS)
    }

    /// Returns the file with an inode number that it has or had.
    fn file(&mut self, node: Node) -> Option<&mut MemoryFile> {
        self.files.get_mut(&file_of(node))
    }

    fn remove(&mut self, name: &OsStr) -> Result<(), Errno> {
        let node = self.names.remove(name).ok_or(Errno::ENOENT)?;
        if let Some(file) = self.files.get_mut(&node) {
            file.links = 0;
        }
        Ok(())
    }

    fn rename(&mut self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> Result<(), Errno> {
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            return Err(Errno::EINVAL);
        }
        let node = *self.names.get(from).ok_or(Errno::ENOENT)?;
        if self.names.contains_key(to) {
            if flags.contains(RenameFlags::RENAME_NOREPLACE) {
                return Err(Errno::EEXIST);
            }
            self.remove(to)?;
        }
        self.names.remove(from);
        self.names.insert(to.to_owned(), node);
        if let Some(file) = self.files.get_mut(&node) {
            file.name = to.to_owned();
        }
        Ok(())
    }

    fn attributes(&self, node: Node) -> Result<FileAttr, Errno> {
        let is_root = node == INodeNo::ROOT.0;
        let file = self.files.get(&file_of(node));
        if file.is_none() && !is_root {
            return Err(Errno::ENOENT);
        }
        let modified = file.map_or(SystemTime::UNIX_EPOCH, |file| file.modified);
        let size = file.map_or(0, |file| file.bytes.len() as u64);
        Ok(FileAttr {
            ino: INodeNo(node),
            size,
            blocks: size.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: modified,
            kind: if is_root {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if is_root { 0o777 } else { 0o666 },
            nlink: file.map_or(2, |file| file.links),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn read(&self, node: Node, offset: u64, len: usize) -> Result<&[u8], Errno> {
        let bytes = &self.files.get(&file_of(node)).ok_or(Errno::ENOENT)?.bytes;
        let start = usize::try_from(offset).map_or(bytes.len(), |start| start.min(bytes.len()));
        let end = start.saturating_add(len).min(bytes.len());
        Ok(&bytes[start..end])
    }

    fn write(&mut self, node: Node, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let file = self.file(node).ok_or(Errno::ENOENT)?;
        let start = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
        let end = start.checked_add(data.len()).ok_or(Errno::EFBIG)?;
        if file.bytes.len() < end {
            file.bytes.resize(end, 0);
        }
        file.bytes[start..end].copy_from_slice(data);
        file.modified = SystemTime::now();
        Ok(())
    }
}

/// Returns the number by which the file of an inode number is kept.
fn file_of(node: Node) -> Node {
    node & ((1 << FILE_BITS) - 1)
}

impl Served {
    /// Applies the rules to a call on a name or a node, and answers it now or later.
    fn judge(
        &self,
        call: Call,
        named: Result<&OsStr, INodeNo>,
        range: Range<u64>,
        answer: impl FnOnce(&mut State, Verdict) + Send + 'static,
    ) {
        let mut state = self.shared.lock();
        *state.calls.entry(call).or_insert(0) += 1;
        let name = match named {
            Ok(name) => name.to_owned(),
            Err(node) => match state.file(node.0) {
                Some(file) => file.name.clone(),
                None => std::ffi::OsString::new(),
            },
        };
        let verdict = state.rules.judge(call, &name, &range);
        let Some(wait) = verdict.wait.filter(|_| !state.closing) else {
            answer(&mut state, verdict);
            return;
        };
        state.held.push(Held {
            due: Instant::now() + wait,
            answer: Box::new(move |state, closing| {
                let errno = verdict.errno.or(closing.then_some(libc::EIO));
                answer(state, Verdict { errno, ..verdict });
            }),
        });
        self.shared.changed.notify_all();
    }

    /// As `judge`, for calls that are answered by success or an error alone.
    fn judge_empty(
        &self,
        call: Call,
        named: Result<&OsStr, INodeNo>,
        reply: ReplyEmpty,
        act: impl FnOnce(&mut State) -> Result<(), Errno> + Send + 'static,
    ) {
        self.judge(call, named, NO_RANGE, move |state, verdict| {
            match verdict.check().and_then(|()| act(state)) {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            }
        });
    }
}

impl Verdict {
    fn check(self) -> Result<(), Errno> {
        self.errno
            .map_or(Ok(()), |errno| Err(Errno::from_i32(errno)))
    }

    fn limit(self, len: usize) -> usize {
        self.bytes_max.map_or(len, |max| max.min(len))
    }
}

fn touched(offset: u64, len: usize) -> Range<u64> {
    offset..offset.saturating_add(len.max(1) as u64)
}

impl fuser::Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        config
            .set_max_background(BACKGROUND_MAX)
            .map(|_| ())
            .map_err(|_| std::io::Error::other("the kernel takes no background requests"))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.shared.lock();
        let node = state.look_up(name);
        let found = node
            .filter(|_| parent == INodeNo::ROOT)
            .ok_or(Errno::ENOENT)
            .and_then(|node| state.attributes(node));
        match found {
            Ok(attributes) => reply.entry(&NO_CACHE, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.judge(Call::Stat, Err(node), NO_RANGE, move |state, verdict| {
            let found = verdict.check().and_then(|()| state.attributes(node.0));
            match found {
                Ok(attributes) => reply.attr(&NO_CACHE, &attributes),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.shared.lock();
        if let (Some(size), Some(file)) = (size, state.file(node.0)) {
            let Ok(size) = usize::try_from(size) else {
                return reply.error(Errno::EFBIG);
            };
            file.bytes.resize(size, 0);
            file.modified = SystemTime::now();
        }
        match state.attributes(node.0) {
            Ok(attributes) => reply.attr(&NO_CACHE, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO;
        self.judge(
            Call::Open,
            Err(node),
            NO_RANGE,
            move |_, verdict| match verdict.check() {
                Ok(()) => reply.opened(FileHandle(0), flags),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let flags = FopenFlags::FOPEN_DIRECT_IO;
        let owned = name.to_owned();
        self.judge(Call::Create, Ok(name), NO_RANGE, move |state, verdict| {
            let made = verdict.check().and_then(|()| {
                if parent != INodeNo::ROOT {
                    return Err(Errno::ENOTDIR);
                }
                let node = state.create(&owned);
                state.attributes(node)
            });
            match made {
                Ok(attributes) => {
                    reply.created(&NO_CACHE, &attributes, Generation(0), FileHandle(0), flags);
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = size as usize;
        let range = touched(offset, size);
        self.judge(Call::Read, Err(node), range, move |state, verdict| {
            let read = verdict
                .check()
                .and_then(|()| state.read(node.0, offset, verdict.limit(size)));
            match read {
                Ok(bytes) => reply.data(bytes),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let range = touched(offset, data.len());
        let data = data.to_vec();
        self.judge(Call::Write, Err(node), range, move |state, verdict| {
            let len = verdict.limit(data.len());
            let written = verdict
                .check()
                .and_then(|()| state.write(node.0, offset, &data[..len]));
            match written {
                Ok(()) => reply.written(u32::try_from(len).expect("it came as 32 bits")),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.judge_empty(Call::Sync, Err(node), reply, |_| Ok(()));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.judge_empty(Call::SyncFolder, Err(node), reply, |_| Ok(()));
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let owned = name.to_owned();
        self.judge_empty(Call::Unlink, Ok(name), reply, move |state| {
            state.remove(&owned)
        });
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (name.to_owned(), new_name.to_owned());
        self.judge_empty(Call::Rename, Ok(name), reply, move |state| {
            state.rename(&from, &to, flags)
        });
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.shared.lock();
        let dots = [".", ".."].map(|dot| (OsStr::new(dot), INodeNo::ROOT.0, FileType::Directory));
        let files = state
            .names
            .iter()
            .map(|(name, &node)| (name.as_os_str(), node, FileType::RegularFile));
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, (name, node, kind)) in dots.into_iter().chain(files).enumerate().skip(start) {
            if reply.add(INodeNo(node), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
