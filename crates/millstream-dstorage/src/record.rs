//! `DSTORAGE_ERROR_RECORD`: the number of failures since the last retrieval, and the first of them
//! in the order of enqueueing, which is not the order of completion.
#![expect(unsafe_code, reason = "makes records of plain memory")]

use std::ffi::{c_char, c_void};

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

/// The parameters of an entry that is no request.
#[derive(Clone, Copy)]
pub(crate) enum Command {
    Status(*mut c_void, u32),
    Signal(*mut c_void, u64),
    Event(HANDLE),
}

// SAFETY: the pointers are only copied into a record, never followed.
unsafe impl Send for Command {}

/// A failure as a record has it. It holds nothing of the program: a released file is closed.
pub(crate) struct Failure(DSTORAGE_ERROR_FIRST_FAILURE);

// SAFETY: the pointers are only copied into a record, never followed.
unsafe impl Send for Failure {}

impl Failure {
    /// Returns the failure of a request.
    pub(crate) fn of_request(
        result: HRESULT,
        request: &DSTORAGE_REQUEST,
        name: &RequestName,
        file: Option<&StorageFile>,
    ) -> Box<Failure> {
        let mut filename = [0; MAX_PATH];
        if let Some(file) = file {
            filename[..file.name.len()].copy_from_slice(&file.name);
        }
        let request = DSTORAGE_ERROR_PARAMETERS_REQUEST {
            Filename: filename,
            RequestName: *name,
            Request: *request,
        };
        Box::new(Failure(DSTORAGE_ERROR_FIRST_FAILURE {
            HResult: result,
            CommandType: DSTORAGE_COMMAND_TYPE_REQUEST,
            Parameters: DSTORAGE_ERROR_PARAMETERS { Request: request },
        }))
    }

    pub(crate) fn new(result: HRESULT, command: Command) -> Box<Failure> {
        let mut failure = Box::new(Failure(no_failure()));
        let first = &mut failure.0;
        first.HResult = result;
        match command {
            Command::Status(array, index) => {
                first.CommandType = DSTORAGE_COMMAND_TYPE_STATUS;
                (
                    first.Parameters.Status.StatusArray,
                    first.Parameters.Status.Index,
                ) = (array, index);
            }
            Command::Signal(fence, value) => {
                first.CommandType = DSTORAGE_COMMAND_TYPE_SIGNAL;
                (first.Parameters.Signal.Fence, first.Parameters.Signal.Value) = (fence, value);
            }
            Command::Event(handle) => {
                first.CommandType = DSTORAGE_COMMAND_TYPE_EVENT;
                first.Parameters.Event.Handle = handle;
            }
        }
        failure
    }

    pub(crate) fn result(&self) -> HRESULT {
        self.0.HResult
    }
}

fn no_failure() -> DSTORAGE_ERROR_FIRST_FAILURE {
    // SAFETY: numbers and pointers, for which zero is valid.
    let mut none: DSTORAGE_ERROR_FIRST_FAILURE = unsafe { std::mem::zeroed() };
    none.CommandType = DSTORAGE_COMMAND_TYPE_NONE;
    none
}

/// For the log.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the members that the type of the command and that of the source name.
        unsafe {
            let DSTORAGE_ERROR_PARAMETERS_REQUEST {
                Filename: path,
                RequestName: name,
                Request: request,
            } = &self.0.Parameters.Request;
            let (status, signal) = (self.0.Parameters.Status, self.0.Parameters.Signal);
            match self.0.CommandType {
                DSTORAGE_COMMAND_TYPE_REQUEST => {
                    write!(f, "request")?;
                    if name[0] != 0 {
                        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                        write!(f, " {:?}", String::from_utf8_lossy(name))?;
                    }
                    if path[0] != 0 {
                        let path = path.split(|unit| *unit == 0).next().unwrap_or_default();
                        let path = String::from_utf16_lossy(path);
                        let (offset, size) = (request.Source.File.Offset, request.Source.File.Size);
                        write!(f, " of {path:?}, offset {offset}, size {size}")?;
                    }
                    let format = request.Options.CompressionFormat;
                    write!(f, ", tag {:#x}, format {format}", request.CancellationTag)?;
                }
                DSTORAGE_COMMAND_TYPE_STATUS => {
                    write!(f, "status {} of {:p}", status.Index, status.StatusArray)?;
                }
                DSTORAGE_COMMAND_TYPE_SIGNAL => {
                    write!(f, "signal {} of {:p}", signal.Value, signal.Fence)?;
                }
                _ => write!(f, "event {:p}", self.0.Parameters.Event.Handle)?,
            }
        }
        write!(f, ": HRESULT {:#010x}", self.0.HResult)
    }
}

/// What `RetrieveErrorRecord` returns and resets.
#[derive(Default)]
pub(crate) struct Record {
    count: u32,
    /// With its sequence number.
    first: Option<(u64, Box<Failure>)>,
}

impl Record {
    pub(crate) fn add(&mut self, sequence: u64, failure: Box<Failure>) {
        self.count = self.count.saturating_add(1);
        let first = self.first.as_ref();
        if first.is_none_or(|(first, _)| sequence < *first) {
            self.first = Some((sequence, failure));
        }
    }

    pub(crate) fn take(&mut self) -> DSTORAGE_ERROR_RECORD {
        let taken = std::mem::take(self);
        DSTORAGE_ERROR_RECORD {
            FailureCount: taken.count,
            FirstFailure: taken.first.map_or_else(no_failure, |it| it.1.0),
        }
    }
}
