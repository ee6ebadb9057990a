//! `DSTORAGE_ERROR_RECORD`: the number of failures since the last retrieval, and the first of them
//! in the order of enqueueing, which is not the order of completion.
#![expect(unsafe_code, reason = "makes records of plain memory")]

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::abi::*;
use crate::file::StorageFile;

/// A request's name, as much of it as a record holds, filled with NUL.
pub(crate) type RequestName = [u8; DSTORAGE_REQUEST_MAX_NAME];

/// Copies a name up to its NUL, or the 63 bytes that a record has room for.
///
/// # Safety
/// `name` is null, or its bytes are readable up to a NUL or that many.
pub(crate) unsafe fn request_name(name: *const c_char) -> RequestName {
    let mut copy = [0; DSTORAGE_REQUEST_MAX_NAME];
    if name.is_null() {
        return copy;
    }
    for (at, byte) in copy[..DSTORAGE_REQUEST_MAX_NAME - 1].iter_mut().enumerate() {
        // SAFETY: no byte before it was the NUL.
        *byte = unsafe { name.cast::<u8>().add(at).read() };
        if *byte == 0 {
            break;
        }
    }
    copy
}

/// The parameters of a call that failed.
pub(crate) enum Command {
    Request(DSTORAGE_REQUEST, RequestName, Option<Arc<StorageFile>>),
    Status(*mut c_void, u32),
    Signal(*mut c_void, u64),
    Event(HANDLE),
}

// SAFETY: the pointers are only copied into a record, never followed.
unsafe impl Send for Command {}

pub(crate) struct Failure {
    pub(crate) result: HRESULT,
    pub(crate) command: Command,
}

impl Failure {
    pub(crate) fn new(result: HRESULT, command: Command) -> Box<Failure> {
        Box::new(Failure { result, command })
    }

    fn store(&self, first: &mut DSTORAGE_ERROR_FIRST_FAILURE) {
        first.HResult = self.result;
        let parameters = &mut first.Parameters;
        first.CommandType = match &self.command {
            Command::Request(request, name, file) => {
                let mut filename = [0; MAX_PATH];
                if let Some(file) = file {
                    filename[..file.name.len()].copy_from_slice(&file.name);
                }
                (parameters.Request.Filename, parameters.Request.RequestName) = (filename, *name);
                parameters.Request.Request = *request;
                DSTORAGE_COMMAND_TYPE_REQUEST
            }
            Command::Status(array, index) => {
                (parameters.Status.StatusArray, parameters.Status.Index) = (*array, *index);
                DSTORAGE_COMMAND_TYPE_STATUS
            }
            Command::Signal(fence, value) => {
                (parameters.Signal.Fence, parameters.Signal.Value) = (*fence, *value);
                DSTORAGE_COMMAND_TYPE_SIGNAL
            }
            Command::Event(handle) => {
                parameters.Event.Handle = *handle;
                DSTORAGE_COMMAND_TYPE_EVENT
            }
        };
    }
}

/// For the log.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.command {
            Command::Request(request, name, file) => {
                let format = request.Options.CompressionFormat;
                write!(f, "request")?;
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                if !name.is_empty() {
                    write!(f, " \"{}\"", String::from_utf8_lossy(name))?;
                }
                if let Some(file) = file {
                    // SAFETY: a request with a file has that member.
                    let source = unsafe { request.Source.File };
                    let path = String::from_utf16_lossy(&file.name);
                    let (offset, size) = (source.Offset, source.Size);
                    write!(f, " of {path:?}, offset {offset}, size {size}")?;
                }
                write!(f, ", tag {:#x}, format {format}", request.CancellationTag)?;
            }
            Command::Status(array, index) => write!(f, "status {index} of {array:p}")?,
            Command::Signal(fence, value) => write!(f, "signal {value} of {fence:p}")?,
            Command::Event(handle) => write!(f, "event {handle:p}")?,
        }
        write!(f, ": HRESULT {:#010x}", self.result)
    }
}

/// What `RetrieveErrorRecord` returns and resets.
#[derive(Default)]
pub(crate) struct Record {
    count: u32,
    /// With its place in the order of enqueueing.
    first: Option<(u64, Box<Failure>)>,
}

impl Record {
    pub(crate) fn add(&mut self, sequence: u64, failure: Box<Failure>) {
        self.count = self.count.saturating_add(1);
        if self
            .first
            .as_ref()
            .is_none_or(|(first, _)| sequence < *first)
        {
            self.first = Some((sequence, failure));
        }
    }

    pub(crate) fn take(&mut self) -> DSTORAGE_ERROR_RECORD {
        let taken = std::mem::take(self);
        // SAFETY: numbers and pointers, for which zero is valid.
        let mut record: DSTORAGE_ERROR_RECORD = unsafe { std::mem::zeroed() };
        record.FailureCount = taken.count;
        record.FirstFailure.CommandType = DSTORAGE_COMMAND_TYPE_NONE;
        if let Some((_, failure)) = taken.first {
            failure.store(&mut record.FirstFailure);
        }
        record
    }
}
