//! Makes one call, on the calling thread.
//!
//! # Safety
//! By the contract of [`Calls::push`](super::Calls::push) the content of a replacement is readable,
//! and the memory of a transfer lent, until the call is answered.
#![expect(unsafe_code, reason = "reads and writes memory lent as raw segments")]

use std::time::Instant;

use super::{Call, CallAnswer, LetGoAnswer, LetGoCall, OpenAnswer, OpenCall, offer};
use crate::device::{Completion, Descriptor, OwnedDescriptor, Segment, system};
use crate::error::{Errno, IoError, guard};
use crate::fs::{Access, FileSystem, Known, MappedView, Numbering, OpenMode, Opened, mostly};
use crate::limits::{CONTENT_BYTES_MAX, CONTENT_STEP_BYTES, MEMORY_ALIGNMENT};

impl Call {
    /// Returns the index of the crew that makes it.
    pub(super) fn crew(&self) -> usize {
        match self {
            Call::Open(_) | Call::Look(_) => 0,
            Call::Close(_)
            | Call::LetGo(_)
            | Call::Len(_)
            | Call::Content(_)
            | Call::Transfer(_) => 1,
            Call::Run(_) => 3,
            _ => 2,
        }
    }

    /// Whether it can be canceled without loss.
    pub(super) fn is_idle(&self) -> bool {
        matches!(
            self,
            Call::Open(_)
                | Call::Look(_)
                | Call::Len(_)
                | Call::Content(_)
                | Call::Transfer(_)
                | Call::Prefetch { .. }
                | Call::Run(_)
        )
    }

    /// Returns its answer if it is not made.
    pub(super) fn canceled(self) -> CallAnswer {
        let error = closing();
        match self {
            Call::Open(call) => CallAnswer::Opened(Box::new(OpenAnswer {
                opened: call.buffered.then(|| Err(error.clone())),
                direct: (!call.buffered).then_some(Err(error)),
                read: None,
                closed: None,
                renewed: Vec::new(),
                spent_ns: 0,
            })),
            Call::Look(_) => CallAnswer::Known(Err(error)),
            Call::LetGo(call) => CallAnswer::LetGo(Box::new(LetGoAnswer::Kept(*call))),
            Call::Len(_) => CallAnswer::Len(Err(error)),
            Call::Content(_) => CallAnswer::Content(Err(error)),
            Call::Transfer(operation) => CallAnswer::Moved(Completion::canceled(&operation)),
            Call::Run(run) => {
                // What it captured may be dropped by code that panics.
                let _ = guard(|| drop(run));
                CallAnswer::Done(Err(error))
            }
            _ => CallAnswer::Done(Err(error)),
        }
    }
}

impl CallAnswer {
    /// Discards an answer that came after the owner's end: closes what was opened.
    pub(super) fn discard(self, fs: &dyn FileSystem) {
        let mut descriptors = Vec::new();
        match self {
            CallAnswer::Opened(answer) => {
                let opened = answer.opened.and_then(Result::ok);
                let opened = opened.filter(|_| answer.closed.is_none());
                descriptors.extend(opened.map(|opened| opened.descriptor));
                descriptors.extend(answer.direct.and_then(Result::ok));
                descriptors.extend(answer.renewed.into_iter().flatten());
            }
            CallAnswer::LetGo(answer) => {
                if let LetGoAnswer::Kept(call) = *answer {
                    descriptors.push(call.file);
                    descriptors.extend(call.direct);
                }
            }
            _ => {}
        }
        for descriptor in descriptors {
            close(fs, descriptor);
        }
    }
}

/// Why a call was not made.
pub(super) fn closing() -> IoError {
    IoError::because("call", Errno::CANCELED, "the storage is closing")
}

/// Makes a call.
pub(super) fn execute(fs: &dyn FileSystem, call: Call) -> CallAnswer {
    let done = match call {
        Call::Open(call) => return CallAnswer::Opened(Box::new(open(fs, &call))),
        Call::Look(path) => return CallAnswer::Known(guarded("statx", || fs.known_at(&path))),
        Call::LetGo(call) => return CallAnswer::LetGo(Box::new(let_go(fs, *call))),
        Call::Len(file) => return CallAnswer::Len(guarded("len", || fs.len(file))),
        Call::Content(file) => {
            return CallAnswer::Content(guarded("read", || content(fs, file)));
        }
        Call::Transfer(operation) => {
            // SAFETY: lent by the caller of push until the answer (module's Safety).
            let moved = unsafe { system::transfer(&operation) };
            return CallAnswer::Moved(Completion::new(operation.id, moved));
        }
        Call::Close(file) => guarded("close", || fs.close(file)),
        Call::Sync { file, data_only } => guarded("sync", || fs.sync(file, data_only)),
        Call::Rename { from, to } => guarded("rename", || fs.rename(&from, &to)),
        Call::Remove { path } => guarded("remove", || fs.remove(&path)),
        Call::Replace { path, content } => {
            guarded("replace", || fs.replace(&path, bytes_of(&content)))
        }
        Call::Prefetch { view, offset, len } => prefetch(&view, offset, len),
        Call::Run(run) => guard(run)
            .ok_or_else(|| IoError::because("run", Errno::IO, "the code of a call panicked")),
    };
    CallAnswer::Done(done)
}

fn let_go(fs: &dyn FileSystem, call: LetGoCall) -> LetGoAnswer {
    let known = guarded("statx", || fs.known(*call.file)).ok();
    let is_kept = match &known {
        Some(known) => {
            let found = guarded("statx", || fs.known_at(&call.path));
            !found.is_ok_and(|found| known.is_same(&found))
        }
        None => call.certain,
    };
    if is_kept {
        return LetGoAnswer::Kept(call);
    }
    if let Some(direct) = call.direct {
        close(fs, direct);
    }
    let result = guarded("close", || fs.close(call.file));
    LetGoAnswer::Closed { known, result }
}

/// Reads a file to its end.
fn content(fs: &dyn FileSystem, file: Descriptor) -> Result<Vec<u8>, IoError> {
    let mut bytes = Vec::new();
    loop {
        let read = bytes.len();
        bytes.resize(read + CONTENT_STEP_BYTES, 0);
        let more = fs.read_at(file, read as u64, &mut bytes[read..])?;
        bytes.truncate(read + more);
        if more == 0 {
            return Ok(bytes);
        }
        if bytes.len() > CONTENT_BYTES_MAX {
            let cause = "the file reports no length, and has more than 64 MiB";
            return Err(IoError::because("read", Errno::TOO_LARGE, cause));
        }
    }
}

/// Makes a call of a custom file system; a panic of it is an error.
fn guarded<T>(call: &'static str, run: impl FnOnce() -> Result<T, IoError>) -> Result<T, IoError> {
    let panicked = IoError::because(call, Errno::IO, "the file system panicked");
    guard(run).unwrap_or(Err(panicked))
}

/// Closes a descriptor through which nothing was written.
fn close(fs: &dyn FileSystem, descriptor: OwnedDescriptor) {
    let _ = guard(|| fs.close(descriptor));
}

fn bytes_of(content: &Segment) -> &[u8] {
    if content.is_empty() {
        return &[];
    }
    // SAFETY: lent by the caller of push until the answer (module's Safety).
    unsafe { std::slice::from_raw_parts(content.pointer(), content.len()) }
}

fn prefetch(view: &MappedView, offset: u64, len: u64) -> Result<(), IoError> {
    let range = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
    let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
    let Some(range) = range else {
        let cause = "the range is not within the view";
        return Err(IoError::because("prefetch", Errno::INVALID, cause));
    };
    view.populate(range)
}

fn open(fs: &dyn FileSystem, call: &OpenCall) -> OpenAnswer {
    let started = Instant::now();
    let mut answer = OpenAnswer {
        opened: None,
        direct: None,
        read: None,
        closed: None,
        renewed: Vec::new(),
        spent_ns: 0,
    };
    let mut want_direct = !call.buffered;
    let mut expected = call.expected;
    let before = match call.renew.is_empty() {
        true => None,
        false => guarded("statx", || fs.known_at(&call.path)).ok(),
    };
    if call.buffered {
        let mut opened = open_one(fs, call, false, expected);
        if let Ok(opened) = &mut opened {
            if let Some(before) = before
                && opened.numbering == Numbering::Layered
            {
                let renewed = call
                    .renew
                    .iter()
                    .map(|known| renew(fs, call, known, &before));
                answer.renewed = renewed.collect();
            }
            answer.read = offer::read(fs, call, opened);
            want_direct = answer.read.is_none() && is_direct_wanted(fs, call, opened);
            expected = Some(Known::of(opened));
            if call.close_read && answer.read.is_some() {
                answer.closed = close_again(fs, opened);
            }
        }
        answer.opened = Some(opened);
    }
    if want_direct {
        let direct = open_one(fs, call, true, expected);
        answer.direct = Some(direct.map(|opened| opened.descriptor));
    }
    answer.spent_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    answer
}

/// Closes a file that can be recognized when it is opened again.
fn close_again(fs: &dyn FileSystem, opened: &mut Opened) -> Option<Result<(), IoError>> {
    let is_certain = opened.numbering == Numbering::Stable && opened.birth_ns.is_some();
    is_certain.then(|| {
        let descriptor = std::mem::replace(&mut opened.descriptor, OwnedDescriptor::CLOSED);
        guarded("close", || fs.close(descriptor))
    })
}

/// Opens a file to read that the path led to before it was opened to be written to.
fn renew(
    fs: &dyn FileSystem,
    call: &OpenCall,
    known: &Known,
    before: &Known,
) -> Option<OwnedDescriptor> {
    // Both are of before the copy, which may number the file anew.
    let numbered = Known {
        numbering: Numbering::Stable,
        ..*known
    };
    if !numbered.is_same(before) {
        return None;
    }
    let opened = guarded("open", || fs.open(&call.path, OpenMode::default()));
    opened.ok().map(|opened| opened.descriptor)
}

/// Opens one of the two descriptors, and checks that the name still refers to the expected file.
fn open_one(
    fs: &dyn FileSystem,
    call: &OpenCall,
    direct: bool,
    expected: Option<Known>,
) -> Result<Opened, IoError> {
    let mode = if expected.is_some() {
        call.mode.again()
    } else {
        call.mode
    };
    let mode = OpenMode { direct, ..mode };
    let mut opened = guarded("open", || fs.open(&call.path, mode))?;
    if expected.is_some_and(|expected| !is_expected(fs, &expected, &opened)) {
        close(fs, opened.descriptor);
        let cause = "the path leads to another file, or the file was changed, while it was closed \
                     to free a descriptor";
        return Err(IoError::because("open", Errno::STALE, cause));
    }
    let too_coarse = opened.direct.is_some_and(|alignment| {
        alignment.memory.max(alignment.offset) as usize > MEMORY_ALIGNMENT
    });
    if too_coarse && direct {
        close(fs, opened.descriptor);
        let cause = "direct I/O on this file needs a coarser alignment than buffers have";
        return Err(IoError::because("open", Errno::INVALID, cause));
    }
    if too_coarse {
        opened.direct = None;
    }
    Ok(opened)
}

/// Whether a file that was opened is the expected one.
fn is_expected(fs: &dyn FileSystem, expected: &Known, opened: &Opened) -> bool {
    let asked = expected.generation.and_then(|_| {
        let known = guarded("statx", || fs.known(*opened.descriptor));
        known.ok()
    });
    expected.is_same(&asked.unwrap_or_else(|| Known::of(opened)))
}

/// Whether the direct descriptor is opened together with the buffered one.
fn is_direct_wanted(fs: &dyn FileSystem, call: &OpenCall, opened: &Opened) -> bool {
    if opened.direct.is_none() {
        return false;
    }
    match call.access {
        Access::Buffered => false,
        Access::Direct => true,
        // Cached files are read from the page cache: no second descriptor yet.
        Access::Auto => {
            opened.len >= call.direct_from && {
                let cached = guard(|| fs.cached(*opened.descriptor, 0, opened.len));
                !mostly(cached.flatten(), opened.len)
            }
        }
    }
}
