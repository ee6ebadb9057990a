//! Calls of the file system and operations of the device that fail, with every error that a machine
//! short of something returns, once or always, at any of them.
//!
//! The wrappers pass everything on to the system but the calls of a plan, and syncs. A close that
//! is to fail closes all the same, as the system's does.

#![expect(unsafe_code, reason = "passes on what a device is lent")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream::{
    Backend, Batch, Buffer, DeviceKind, DeviceMaker, Error, ErrorKind, FileId, FileOp, FileOptions,
    LogLevel, Read, StorageOptions, Ticket, Write,
};
use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::device::uring::{Uring, UringOptions};
use millstream_io::device::{Abandoned, OperationId};
use millstream_io::fs::OsFileSystem;
use millstream_io::{
    Completion, Descriptor, Device, Doorbell, Errno, FileSystem, IoError, OpenMode, Opened,
    Operation, OwnedDescriptor, Region, Verb,
};
use millstream_testing::{this_test, wait_for};

use crate::faults::rig::{Rig, WRITING, each, landed, outcome, pattern, result};

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Open,
    Close,
    /// A close of a descriptor that was written through.
    CloseWritten,
    Len,
    ReadAt,
    Sync,
    Rename,
    Remove,
    Replace,
    DeviceRead,
    DeviceWrite,
}

const CALLS: [Call; 10] = [
    Call::Open,
    Call::Close,
    Call::Len,
    Call::ReadAt,
    Call::Sync,
    Call::Rename,
    Call::Remove,
    Call::Replace,
    Call::DeviceRead,
    Call::DeviceWrite,
];

const ERRNOS: [i32; 6] = [
    libc::ENFILE,
    libc::EMFILE,
    libc::ENOMEM,
    libc::EAGAIN,
    libc::EINTR,
    libc::EIO,
];

/// Which call fails, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    call: Call,
    errno: i32,
    /// The number of such calls that do not fail before.
    after: u64,
    always: bool,
}

#[derive(Default)]
struct State {
    plan: Option<Plan>,
    injected: u64,
    /// Open descriptors, and whether they were written through.
    open: HashMap<u64, bool>,
    /// Syncs wait.
    holds_syncs: bool,
    held_syncs: u64,
}

/// What fails, and what is open.
#[derive(Default)]
struct Faults(Mutex<State>);

impl Faults {
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().expect("nothing panics with it"))
    }

    fn arm(&self, plan: Plan) {
        self.with(|state| (state.plan, state.injected) = (Some(plan), 0));
    }

    /// From now on nothing fails.
    fn disarm(&self) {
        self.with(|state| state.plan = None);
    }

    fn injected(&self) -> u64 {
        self.with(|state| state.injected)
    }

    /// Whether a call is to fail.
    fn judge(&self, call: Call) -> Result<(), Errno> {
        self.with(|state| {
            let Some(plan) = state.plan.as_mut().filter(|plan| plan.call == call) else {
                return Ok(());
            };
            if plan.after > 0 {
                plan.after -= 1;
                return Ok(());
            }
            let errno = Errno(plan.errno);
            state.injected += 1;
            if !plan.always {
                state.plan = None;
            }
            Err(errno)
        })
    }

    fn judged(&self, call: Call, name: &'static str) -> Result<(), IoError> {
        self.judge(call).map_err(|errno| IoError::new(name, errno))
    }

    fn note_write(&self, descriptor: Descriptor) {
        self.with(|state| {
            let written = state.open.get_mut(&descriptor.raw());
            *written.expect("a descriptor that is written through is open") = true;
        });
    }
}

/// The system's files. None is in the page cache, so that the device reads them all.
struct Injected {
    files: OsFileSystem,
    faults: Arc<Faults>,
}

impl FileSystem for Injected {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        self.faults.judged(Call::Open, "open")?;
        let opened = self.files.open(path, mode)?;
        let raw = opened.descriptor.raw();
        let before = self.faults.with(|state| state.open.insert(raw, false));
        assert_eq!(before, None, "the system gives a number once");
        Ok(opened)
    }

    fn close(&self, descriptor: OwnedDescriptor) -> Result<(), IoError> {
        let raw = descriptor.raw();
        let written = self.faults.with(|state| state.open.remove(&raw));
        let written = written.expect("a descriptor is closed once");
        self.files.close(descriptor)?;
        self.faults.judged(Call::Close, "close")?;
        match written {
            true => self.faults.judged(Call::CloseWritten, "close"),
            false => Ok(()),
        }
    }

    fn cached(&self, _: Descriptor, _: u64, _: u64) -> Option<u64> {
        Some(0)
    }

    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError> {
        self.faults.judged(Call::Len, "len")?;
        self.files.len(descriptor)
    }

    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError> {
        self.faults.judged(Call::ReadAt, "read")?;
        self.files.read_at(descriptor, offset, into)
    }

    fn read_cached(&self, _: Descriptor, _: u64, _: &mut [u8]) -> Option<usize> {
        None
    }

    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.faults.note_write(descriptor);
        self.files.write_at(descriptor, offset, bytes)
    }

    /// Syncs nothing, to save time.
    fn sync(&self, _: Descriptor, _: bool) -> Result<(), IoError> {
        self.faults.judged(Call::Sync, "sync")?;
        self.faults
            .with(|state| state.held_syncs += u64::from(state.holds_syncs));
        let is_released = wait_for(|| !self.faults.with(|state| state.holds_syncs));
        assert!(is_released, "the test releases syncs");
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.faults.judged(Call::Rename, "rename")?;
        self.files.rename(from, to)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        self.faults.judged(Call::Replace, "replace")?;
        self.files.replace(path, content)
    }

    fn remove(&self, path: &Path) -> Result<(), IoError> {
        self.faults.judged(Call::Remove, "remove")?;
        self.files.remove(path)
    }
}

/// A device of the system. Operations that are to fail are never given to it.
struct InjectedDevice {
    device: Box<dyn Device>,
    faults: Arc<Faults>,
    failed: Vec<Completion>,
}

impl Device for InjectedDevice {
    fn kind(&self) -> DeviceKind {
        self.device.kind()
    }

    fn depth(&self) -> usize {
        self.device.depth()
    }

    fn in_flight(&self) -> usize {
        self.device.in_flight() + self.failed.len()
    }

    unsafe fn push(&mut self, operations: &[Operation]) -> usize {
        let count = operations.len().min(self.depth() - self.in_flight());
        for operation in &operations[..count] {
            let call = match operation.verb {
                Verb::Read => Call::DeviceRead,
                Verb::Write => Call::DeviceWrite,
            };
            if call == Call::DeviceWrite {
                self.faults.note_write(operation.file);
            }
            match self.faults.judge(call) {
                // SAFETY: the caller's promise is passed on.
                Ok(()) => assert_eq!(unsafe { self.device.push(&[*operation]) }, 1),
                Err(errno) => self.failed.push(failed(operation.id, errno)),
            }
        }
        count
    }

    fn submit(&mut self) -> Result<(), IoError> {
        self.device.submit()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let count = self.failed.len();
        completions.append(&mut self.failed);
        count + self.device.reap(completions)
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        match self.failed.is_empty() {
            true => self.device.wait(timeout, awake),
            false => self.device.submit(),
        }
    }

    fn next_completion_at(&self) -> Option<Instant> {
        match self.failed.is_empty() {
            true => self.device.next_completion_at(),
            false => Some(Instant::now()),
        }
    }

    fn doorbell(&self) -> Doorbell {
        self.device.doorbell()
    }

    fn register(&mut self, region: &Arc<Region>) -> usize {
        self.device.register(region)
    }

    fn shutdown(
        mut self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        completions.append(&mut self.failed);
        self.device.shutdown(deadline, completions)
    }
}

fn failed(id: OperationId, errno: Errno) -> Completion {
    Completion {
        id,
        result: -i64::from(errno.0),
    }
}

/// A storage over the wrappers, with so few descriptors that files are closed and opened again.
fn rig(name: &'static str, mut options: StorageOptions, faults: &Arc<Faults>) -> Rig {
    let files = Injected {
        files: OsFileSystem::new(),
        faults: Arc::clone(faults),
    };
    let faults = Arc::clone(faults);
    let make = move || -> Result<Box<dyn Device>, IoError> {
        let device: Box<dyn Device> = match name {
            "uring" => Box::new(Uring::new(UringOptions::default())?),
            _ => Box::new(Threads::new(ThreadsOptions::default())?),
        };
        Ok(Box::new(InjectedDevice {
            device,
            faults,
            failed: Vec::new(),
        }))
    };
    options.backend = Backend::Custom(DeviceMaker::new(make), Arc::new(files));
    options.descriptors = 4;
    Rig::new(name, options)
}

/// Lengths of the files that are read: one has the size from which reads bypass the page cache.
const LENGTHS: [usize; 4] = [0, 5_000, 60_000, 600_000];

/// Bytes of a write, and of an append.
const PIECE: usize = 600;

const PIECES: u8 = 8;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Of a file, by one of two handles; the whole of it or the last half.
    Read {
        file: usize,
        handle: usize,
        whole: bool,
    },
    /// Behind the end of a file, which fails.
    ReadBeyond(usize),
    /// A piece at its place.
    Write(u8),
    Append(u8),
    Sync(Written),
    Rename,
    Remove,
    Replace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Places,
    Appended,
}

impl What {
    /// Whether it may fail if this call does.
    fn may_fail(self, call: Call) -> bool {
        match self {
            What::Read { whole, .. } => {
                let is_read = matches!(call, Call::Open | Call::ReadAt | Call::DeviceRead);
                // A whole read asks for the length.
                is_read || whole && call == Call::Len
            }
            What::ReadBeyond(_) => matches!(call, Call::Open | Call::Len),
            What::Write(_) => matches!(call, Call::Open | Call::DeviceWrite),
            // An append asks for the length.
            What::Append(_) => matches!(call, Call::Open | Call::DeviceWrite | Call::Len),
            What::Sync(_) => matches!(
                call,
                Call::Open | Call::Close | Call::Sync | Call::DeviceWrite | Call::Len
            ),
            What::Rename => call == Call::Rename,
            What::Remove => call == Call::Remove,
            What::Replace => call == Call::Replace,
        }
    }
}

/// A request under way.
enum Pending {
    Read(Ticket<Buffer>),
    Bytes(Ticket<Vec<u8>>),
    Nothing(Ticket<()>),
}

impl Pending {
    fn end(self) -> Result<Vec<u8>, Error> {
        match self {
            Pending::Read(ticket) => result(ticket).map(|buffer| buffer.to_vec()),
            Pending::Bytes(ticket) => outcome(ticket).result.map(|_| Vec::new()),
            Pending::Nothing(ticket) => result(ticket).map(|()| Vec::new()),
        }
    }
}

/// The files of a run and their handles.
struct Mix<'a> {
    rig: &'a Rig,
    folder: PathBuf,
    plan: Plan,
    handles: Vec<[FileId; 2]>,
    places: FileId,
    appended: FileId,
}

/// The bytes of a piece, which no other piece has.
fn piece(number: u8) -> Vec<u8> {
    (0..PIECE)
        .map(|at| (at / 256) as u8 ^ number.wrapping_mul(29) ^ at as u8)
        .collect()
}

fn name_of(file: usize) -> String {
    format!("read{file}")
}

impl<'a> Mix<'a> {
    fn new(rig: &'a Rig, folder: &Path, plan: Plan) -> Mix<'a> {
        for (file, len) in LENGTHS.into_iter().enumerate() {
            std::fs::write(folder.join(name_of(file)), pattern(len)).expect("written");
        }
        for name in ["renamed", "removed", "replaced"] {
            std::fs::write(folder.join(name), b"old").expect("written");
        }
        let open = |file: usize, package: bool| {
            let options = FileOptions {
                package,
                ..FileOptions::default()
            };
            rig.storage.open(folder.join(name_of(file)), options)
        };
        Mix {
            rig,
            folder: folder.to_owned(),
            plan,
            handles: (0..LENGTHS.len())
                .map(|file| [open(file, false), open(file, true)])
                .collect(),
            places: rig.storage.open(folder.join("places"), WRITING),
            appended: rig.storage.open(folder.join("appended"), WRITING),
        }
    }

    /// All requests, in random order; of those on names, which sync folders, what the plan is for.
    fn requests(&self, random: &mut Rng) -> Vec<What> {
        let mut all = vec![What::Rename, What::Remove, What::Replace];
        all.retain(|what| what.may_fail(self.plan.call));
        for number in 0..PIECES {
            all.extend([What::Write(number), What::Append(number)]);
        }
        for written in [Written::Places, Written::Appended] {
            all.extend([What::Sync(written); 2]);
        }
        for file in 0..LENGTHS.len() {
            all.extend([What::ReadBeyond(file); 2]);
            for handle in [0, 1] {
                for whole in [false, true] {
                    let read = What::Read {
                        file,
                        handle,
                        whole,
                    };
                    all.extend([read; 2]);
                }
            }
        }
        random.shuffle(&mut all);
        all
    }

    fn add(&self, batch: &mut Batch, what: What) -> Pending {
        let path = |name: &str| self.folder.join(name);
        let submitted = match what {
            What::Read {
                file,
                handle,
                whole,
            } => {
                let id = self.handles[file][handle];
                let half = LENGTHS[file] as u64 / 2;
                let read = match whole {
                    true => Read::whole(id),
                    false => Read::range(id, half, half),
                };
                batch.add(read).map(Pending::Read)
            }
            What::ReadBeyond(file) => {
                let read = Read::range(self.handles[file][0], LENGTHS[file] as u64, 1);
                batch.add(read).map(Pending::Read)
            }
            What::Write(number) => {
                let at = u64::from(number) * PIECE as u64;
                let write = Write::at(self.places, at, piece(number));
                batch.add(write).map(Pending::Bytes)
            }
            What::Append(number) => {
                let append = Write::append(self.appended, piece(number));
                batch.add(append).map(Pending::Bytes)
            }
            What::Sync(Written::Places) => {
                batch.add(FileOp::sync(self.places)).map(Pending::Nothing)
            }
            What::Sync(Written::Appended) => {
                batch.add(FileOp::sync(self.appended)).map(Pending::Nothing)
            }
            What::Rename => {
                let rename = FileOp::rename(path("renamed"), path("renamed-to"));
                batch.add(rename).map(Pending::Nothing)
            }
            What::Remove => batch
                .add(FileOp::remove(path("removed")))
                .map(Pending::Nothing),
            What::Replace => {
                let replace = FileOp::replace(path("replaced"), b"new".to_vec());
                batch.add(replace).map(Pending::Bytes)
            }
        };
        submitted.expect("accepted")
    }

    /// Makes requests in a few batches, and waits for their ends.
    fn run(&self, all: &[What]) -> Vec<(What, Result<(), Error>)> {
        let mut pending = Vec::new();
        for some in all.chunks(all.len() / 3 + 1) {
            let mut batch = self.rig.queue.batch();
            pending.extend(some.iter().map(|what| (*what, self.add(&mut batch, *what))));
        }
        let ends = pending.into_iter().map(|(what, pending)| {
            let end = pending.end();
            let is_beyond = |error: &Error| error.kind() == ErrorKind::PastEnd;
            match (what, end) {
                (What::ReadBeyond(_), Err(error)) if is_beyond(&error) => (what, Ok(())),
                (What::ReadBeyond(_), Ok(bytes)) => panic!("{}: {bytes:?}", self.about()),
                (_, end) => (what, end.map(|bytes| self.check_bytes(what, &bytes))),
            }
        });
        ends.collect()
    }

    fn about(&self) -> String {
        format!("{} {:?}", self.rig.name, self.plan)
    }

    fn check_bytes(&self, what: What, bytes: &[u8]) {
        let What::Read { file, whole, .. } = what else {
            return;
        };
        let len = LENGTHS[file];
        let all = pattern(len);
        let wanted = match whole {
            true => &all[..],
            false => &all[len / 2..len / 2 * 2],
        };
        assert!(bytes == wanted, "{}: {what:?}", self.about());
    }

    /// Checks that an error is one that the plan makes, in kind and words.
    fn check_error(&self, what: What, error: &Error) {
        let (plan, about) = (self.plan, self.about());
        assert!(what.may_fail(plan.call), "{about}: {what:?}: {error}");
        let is_short = [libc::EMFILE, libc::ENFILE].contains(&plan.errno);
        if plan.call == Call::Open && is_short {
            assert_eq!(error.kind(), ErrorKind::Limit, "{about}: {what:?}: {error}");
            let text = error.to_string();
            assert!(text.contains("file descriptor"), "{about}: {text}");
            return;
        }
        let kind = match plan.errno {
            libc::ENOMEM => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        };
        assert_eq!(error.kind(), kind, "{about}: {what:?}: {error}");
        assert_eq!(error.errno(), Some(plan.errno), "{about}: {what:?}");
        let words = Errno(plan.errno).to_string();
        let text = error.to_string();
        assert!(text.contains(&words), "{about}: {what:?}: {text}");
    }

    /// Checks that a sync fails if a write does and, where nothing else makes it fail, only then.
    fn check_syncs(&self, ends: &[(What, Result<(), Error>)]) {
        let about = self.about();
        let failed = |is_own: &dyn Fn(What) -> bool| {
            let mut own = ends.iter().filter(|(what, _)| is_own(*what));
            own.any(|(_, end)| end.is_err())
        };
        let is_of_writes = self.plan.call == Call::DeviceWrite;
        for written in [Written::Places, Written::Appended] {
            let lost = failed(&|what| match written {
                Written::Places => matches!(what, What::Write(_)),
                Written::Appended => matches!(what, What::Append(_)),
            });
            let told = failed(&|what| what == What::Sync(written));
            assert!(told || !lost, "{about}: no sync reports a write: {ends:?}");
            assert!(!told || lost || !is_of_writes, "{about}: {ends:?}");
        }
    }

    /// Opens the files of the handles anew.
    fn open_again(&mut self) {
        for (file, handles) in self.handles.iter_mut().enumerate() {
            let path = self.folder.join(name_of(file));
            *handles = [(); 2].map(|()| self.rig.storage.open(&path, FileOptions::default()));
        }
        let open = |name: &str| self.rig.storage.open(self.folder.join(name), WRITING);
        (self.places, self.appended) = (open("places"), open("appended"));
    }

    /// Closes the handles.
    fn close(&self) {
        let mut batch = self.rig.queue.batch();
        let all = self.handles.iter().flatten().copied();
        for file in all.chain([self.places, self.appended]) {
            batch.close(file).expect("accepted");
        }
    }

    /// What succeeded is in the files, and what failed has changed nothing but their length.
    fn check_files(&self, ends: &[(What, Result<(), Error>)]) {
        let about = self.about();
        let is_done = |what: What| ends.iter().any(|(own, end)| *own == what && end.is_ok());
        let read = |name: &str| std::fs::read(self.folder.join(name));
        let (places, appended) = (read("places"), read("appended"));
        let (places, appended) = (places.unwrap_or_default(), appended.unwrap_or_default());
        for number in 0..PIECES {
            let (at, bytes) = (usize::from(number) * PIECE, piece(number));
            if is_done(What::Write(number)) {
                assert!(
                    places.get(at..at + PIECE) == Some(&bytes[..]),
                    "{about}: {number}"
                );
            }
            let count = appended.windows(PIECE).filter(|own| *own == bytes).count();
            let wanted = usize::from(is_done(What::Append(number)));
            assert_eq!(count, wanted, "{about}: the piece {number}");
        }
        assert_eq!(read("renamed-to").is_ok(), is_done(What::Rename), "{about}");
        assert_eq!(read("removed").is_err(), is_done(What::Remove), "{about}");
        let replaced = read("replaced").expect("there");
        let wanted: &[u8] = match is_done(What::Replace) {
            true => b"new",
            false => b"old",
        };
        assert_eq!(replaced, wanted, "{about}");
    }
}

/// Runs the requests under a plan, then without it those again that failed.
fn run_mix(name: &'static str, options: StorageOptions, plan: Plan, random: &mut Rng) {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    let rig = rig(name, options, &faults);
    faults.arm(plan);
    let mut mix = Mix::new(&rig, folder.path(), plan);
    let about = mix.about();
    let mut ends = mix.run(&mix.requests(random));
    let injected = faults.injected();
    faults.disarm();
    assert!(injected > 0, "{about}: it meets no call");
    for (what, end) in &ends {
        if let Err(error) = end {
            mix.check_error(*what, error);
        }
    }
    let is_failed = ends.iter().any(|(_, end)| end.is_err());
    // The engine itself tries again.
    let is_tried_again = match plan.call {
        Call::Open => [libc::EMFILE, libc::ENFILE].contains(&plan.errno),
        Call::DeviceRead | Call::DeviceWrite => [libc::EAGAIN, libc::EINTR].contains(&plan.errno),
        _ => false,
    };
    assert!(!is_failed || plan.always || !is_tried_again, "{about}");
    // A handle whose open failed stays failed.
    if plan.call == Call::Open && is_failed {
        mix.close();
        mix.open_again();
    }
    let syncs = [What::Sync(Written::Places), What::Sync(Written::Appended)];
    if plan.call != Call::Open {
        // The first reports what the last of the writes met.
        ends.extend(mix.run(&syncs));
        mix.check_syncs(&ends);
    }
    let failed = ends.iter().filter(|(_, end)| end.is_err());
    let mut again: Vec<What> = failed.map(|(what, _)| *what).collect();
    again.retain(|what| !matches!(what, What::Sync(_)));
    again.extend(syncs);
    for (what, end) in mix.run(&again) {
        assert!(end.is_ok(), "{about}: again {what:?}: {end:?}");
        ends.push((what, end));
    }
    mix.check_files(&ends);
    mix.close();
    rig.finish();
    let open = faults.with(|state| state.open.len());
    assert_eq!(open, 0, "{about}: descriptors are left open");
}

#[test]
fn every_error_at_any_call_ends_requests_with_their_bytes_or_with_that_error() {
    each(this_test!(), |name, _| {
        let mut random = millstream_testing::random();
        for call in CALLS {
            let calls = match call {
                Call::Rename | Call::Remove | Call::Replace => 1,
                Call::Len | Call::ReadAt | Call::Sync | Call::Close => 3,
                _ => 10,
            };
            for errno in ERRNOS {
                for always in [false, true] {
                    let plan = Plan {
                        call,
                        errno,
                        after: random.u64(0..calls),
                        always,
                    };
                    let options = crate::faults::rig::options_of(name);
                    run_mix(name, options, plan, &mut random.fork());
                }
            }
        }
    });
}

/// Files to read, so that the storage closes those that it has open.
fn read_others(rig: &Rig, folder: &Path) {
    for index in 0..6 {
        let path = folder.join(format!("other{index}"));
        std::fs::write(&path, b"other").expect("written");
        let file = rig.storage.open(&path, FileOptions::default());
        assert!(landed(rig.submit(Read::whole(file)))[..] == *b"other");
    }
}

#[test]
fn a_file_that_could_not_be_opened_again_is_opened_at_the_next_request() {
    each(this_test!(), |name, _| {
        for errno in ERRNOS {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("a");
            std::fs::write(&path, pattern(5_000)).expect("written");
            let faults = Arc::new(Faults::default());
            let rig = rig(name, crate::faults::rig::options_of(name), &faults);
            let file = rig.storage.open(&path, FileOptions::default());
            let read = || result(rig.submit(Read::range(file, 0, 5_000)));
            read().expect("nothing fails");
            read_others(&rig, folder.path());
            faults.arm(Plan {
                call: Call::Open,
                errno,
                after: 0,
                always: false,
            });
            let first = read();
            assert_eq!(faults.injected(), 1, "{name} {errno}: it was closed");
            if let Err(error) = &first {
                assert_eq!(error.errno(), Some(errno), "{name}: {error}");
            }
            let second = read();
            assert!(second.is_ok(), "{name}: after {first:?}: {second:?}");
            assert!(second.expect("read")[..] == pattern(5_000), "{name}");
            rig.finish();
        }
    });
}

#[test]
fn the_error_of_a_close_after_writes_is_not_lost() {
    each(this_test!(), |name, _| {
        for (errno, by_eviction) in [(libc::EIO, true), (libc::ENOSPC, false)] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("a");
            let lines: Arc<Mutex<Vec<String>>> = Arc::default();
            let mut options = crate::faults::rig::options_of(name);
            options.log = Some(Arc::new({
                let lines = Arc::clone(&lines);
                move |_: LogLevel, text: &str| lines.lock().expect("no panic").push(text.to_owned())
            }));
            let faults = Arc::new(Faults::default());
            let rig = rig(name, options, &faults);
            let mut file = rig.storage.open(&path, WRITING);
            landed(rig.submit(Write::at(file, 0, pattern(5_000))));
            faults.arm(Plan {
                call: Call::CloseWritten,
                errno,
                after: 0,
                always: false,
            });
            if by_eviction {
                read_others(&rig, folder.path());
            } else {
                rig.queue.batch().close(file).expect("accepted");
                assert!(wait_for(|| faults.injected() > 0), "{name}");
                file = rig.storage.open(&path, WRITING);
            }
            let synced = result(rig.submit(FileOp::sync(file)));
            let is_failed = faults.injected() > 0;
            faults.disarm();
            let reported = synced.as_ref().err().and_then(Error::errno) == Some(errno);
            let (count, _) = rig.queue.take_errors();
            rig.finish();
            // By a sync of the handle or, if that was closed, of the next one, the queue or log.
            let words = Errno(errno).to_string();
            let lines = lines.lock().expect("no panic");
            let is_logged = lines.iter().any(|line| line.contains(&words));
            assert!(
                !is_failed || reported || !by_eviction && (count > 0 || is_logged),
                "{name}: {synced:?}, log: {lines:?}"
            );
        }
    });
}

#[test]
fn a_write_that_fails_while_an_earlier_sync_runs_is_reported_by_the_next_one() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let faults = Arc::new(Faults::default());
        let rig = rig(name, options, &faults);
        let file = rig.storage.open(folder.path().join("a"), WRITING);
        let write = || result(rig.submit(Write::at(file, 0, pattern(5_000))));
        write().expect("nothing fails");
        faults.with(|state| state.holds_syncs = true);
        let earlier = rig.submit(FileOp::sync(file));
        assert!(
            wait_for(|| faults.with(|state| state.held_syncs > 0)),
            "{name}"
        );
        faults.arm(Plan {
            call: Call::DeviceWrite,
            errno: libc::EIO,
            after: 0,
            always: false,
        });
        let error = write().expect_err("it fails");
        assert_eq!(error.errno(), Some(libc::EIO), "{name}: {error}");
        faults.with(|state| state.holds_syncs = false);
        let earlier = result(earlier);
        let next = result(rig.submit(FileOp::sync(file)));
        let errno = next.as_ref().err().and_then(Error::errno);
        assert_eq!(
            errno,
            Some(libc::EIO),
            "{name}: {next:?}, and before {earlier:?}"
        );
        rig.finish();
    });
}
