//! Results and errors.
//!
//! Results are stable numbers. The details of the last failed call of a thread are kept for that
//! thread, as `errno` is; completions that are drained carry their own.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

use millstream::ErrorKind;

use crate::handle::{free, give, owned};

/// How a call or a request ended: `MST_OK` or an error.
pub type mst_result = i32;

/// It succeeded.
pub const MST_OK: mst_result = 0;
/// The request was canceled, which is not a failure.
pub const MST_ERROR_CANCELED: mst_result = 1;
/// The device or the file system failed.
pub const MST_ERROR_IO: mst_result = 2;
/// No such file or entry.
pub const MST_ERROR_NOT_FOUND: mst_result = 3;
/// Permission denied.
pub const MST_ERROR_PERMISSION_DENIED: mst_result = 4;
/// The path is a directory.
pub const MST_ERROR_IS_DIRECTORY: mst_result = 5;
/// The path is a FIFO, a socket or a terminal.
pub const MST_ERROR_NOT_A_FILE: mst_result = 6;
/// The range reaches past the end of the file.
pub const MST_ERROR_PAST_END: mst_result = 7;
/// Offset plus length overflows, or the length exceeds the address space.
pub const MST_ERROR_OVERFLOW: mst_result = 8;
/// An argument is invalid: NULL, an unknown flag or number, members that exclude each other.
pub const MST_ERROR_INVALID_ARGUMENT: mst_result = 9;
/// Direct I/O was requested where there is none.
pub const MST_ERROR_NO_DIRECT_IO: mst_result = 10;
/// The stored bytes are damaged, truncated, or followed by others.
pub const MST_ERROR_CORRUPT: mst_result = 11;
/// The raw size is not the declared one.
pub const MST_ERROR_RAW_SIZE: mst_result = 12;
/// The raw size is neither given by the request nor declared by the stored bytes, and these are no
/// stream, or hold more raw bytes than there is room for.
pub const MST_ERROR_RAW_SIZE_UNKNOWN: mst_result = 13;
/// The codec is unknown, or cannot do this.
pub const MST_ERROR_UNKNOWN_CODEC: mst_result = 14;
/// The file was closed, or the id belongs to another storage.
pub const MST_ERROR_STALE_FILE: mst_result = 15;
/// The request's timeout passed.
pub const MST_ERROR_TIMED_OUT: mst_result = 16;
/// Out of memory.
pub const MST_ERROR_OUT_OF_MEMORY: mst_result = 17;
/// The storage or the stream is closed.
pub const MST_ERROR_CLOSED: mst_result = 18;
/// The queue is full, and the call must not block or blocking would never end.
pub const MST_ERROR_QUEUE_FULL: mst_result = 19;
/// Too many completed requests were neither claimed nor freed.
pub const MST_ERROR_TOO_MANY_TICKETS: mst_result = 20;
/// The disk is full.
pub const MST_ERROR_NO_SPACE: mst_result = 21;
/// Code of the application (a codec, a memory callback) failed or refused.
pub const MST_ERROR_APPLICATION: mst_result = 22;
/// A limit of the storage was reached.
pub const MST_ERROR_LIMIT: mst_result = 23;
/// The destination is smaller than what must land in it.
pub const MST_ERROR_DESTINATION_TOO_SMALL: mst_result = 24;
/// A call that waits, in a callback of the library, where it could never return.
pub const MST_ERROR_ON_STORAGE_THREAD: mst_result = 25;
/// The ticket's batch was not submitted yet.
pub const MST_ERROR_NOT_SUBMITTED: mst_result = 26;
/// The device broke while it held the request's memory.
pub const MST_ERROR_BROKEN: mst_result = 27;
/// The stored bytes are of another format than expected.
pub const MST_ERROR_WRONG_FORMAT: mst_result = 28;
/// The GPU was lost.
pub const MST_ERROR_DEVICE_LOST: mst_result = 29;
/// The storage was closed while the system held the request's memory, which must stay valid for
/// ever.
pub const MST_ERROR_STILL_HELD: mst_result = 30;
/// A fault of the library itself; its message is worth a bug report.
pub const MST_ERROR_INTERNAL: mst_result = 64;
/// It is not ready yet: the time passed, and the request goes on.
pub const MST_ERROR_NOT_READY: mst_result = 65;
/// The ticket was claimed or freed before, another thread waits for it, or it belongs to another
/// storage.
pub const MST_ERROR_STALE_TICKET: mst_result = 66;
/// The library is older than the header that the program was compiled with, or the object does not
/// have this ability.
pub const MST_ERROR_UNSUPPORTED: mst_result = 67;

/// The details of an error. Immutable; may be read from any thread.
pub struct mst_error {
    result: mst_result,
    message: Cow<'static, CStr>,
    path: Option<CString>,
    offset: u64,
    length: u64,
    errno: c_int,
}

impl mst_error {
    fn new(result: mst_result, message: Cow<'static, CStr>) -> mst_error {
        mst_error {
            result,
            message,
            path: None,
            offset: 0,
            length: 0,
            errno: 0,
        }
    }

    /// An error of another crate, with the range it is about and the system's error number.
    fn located(
        result: mst_result,
        error: &dyn std::error::Error,
        path: Option<&Path>,
        range: (u64, u64),
        errno: Option<i32>,
    ) -> mst_error {
        mst_error {
            path: path.map(|path| c_text(path.as_os_str().as_encoded_bytes())),
            offset: range.0,
            length: range.1,
            errno: errno.unwrap_or(0),
            ..mst_error::new(result, Cow::Owned(c_text(error.to_string())))
        }
    }
}

/// Why a call failed.
pub(crate) enum Failure {
    Known(mst_result, &'static CStr),
    Made(Box<mst_error>),
}

impl Failure {
    /// An error about no file.
    pub(crate) fn because(result: mst_result, message: String) -> Failure {
        let message = Cow::Owned(c_text(message));
        Failure::Made(Box::new(mst_error::new(result, message)))
    }

    /// What a panic said.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        Failure::because(
            MST_ERROR_INTERNAL,
            format!("a fault of the library: {text}"),
        )
    }

    /// Keeps the details for the calling thread.
    pub(crate) fn report(self) -> mst_result {
        let error = match self {
            Failure::Known(result, message) => {
                Box::new(mst_error::new(result, Cow::Borrowed(message)))
            }
            Failure::Made(error) => error,
        };
        let result = error.result;
        // While the thread ends there is no place for it any more.
        let _ = LAST.try_with(|last| last.replace(Some(error)));
        result
    }
}

/// An argument is invalid.
pub(crate) const fn invalid(message: &'static CStr) -> Failure {
    Failure::Known(MST_ERROR_INVALID_ARGUMENT, message)
}

fn c_text(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes: Vec<u8> = text.into();
    bytes.retain(|byte| *byte != 0);
    CString::new(bytes).unwrap_or_default()
}

impl From<millstream::Error> for mst_error {
    fn from(error: millstream::Error) -> mst_error {
        let range = (error.offset(), error.len());
        let (result, errno) = (result_of(error.kind()), error.errno());
        mst_error::located(result, &error, error.path(), range, errno)
    }
}

impl From<millstream::Error> for Failure {
    fn from(error: millstream::Error) -> Failure {
        Failure::Made(Box::new(mst_error::from(error)))
    }
}

impl From<millstream_pak::Error> for Failure {
    fn from(error: millstream_pak::Error) -> Failure {
        use millstream_pak::ErrorKind as Kind;
        let of_system = |error: &std::io::Error| millstream::Error::from_os("", error);
        let (cause, system) = (error.engine(), error.system().map(of_system));
        let range = match error.offset() {
            Some(offset) => (offset, cause.map_or(0, millstream::Error::len)),
            None => (0, u64::MAX),
        };
        let errno = system.as_ref().or(cause).and_then(millstream::Error::errno);
        let mut made = mst_error::located(MST_OK, &error, error.path(), range, errno);
        made.result = match (error.kind(), system) {
            (Kind::NotAPackage, _) => MST_ERROR_WRONG_FORMAT,
            (Kind::Unsupported, _) => MST_ERROR_UNSUPPORTED,
            (_, Some(system)) => result_of(system.kind()),
            (_, None) => result_of(error.into_engine().kind()),
        };
        Failure::Made(Box::new(made))
    }
}

impl From<millstream_stream::Error> for Failure {
    fn from(error: millstream_stream::Error) -> Failure {
        use millstream_stream::ErrorKind as Kind;
        let result = match (error.storage(), error.kind()) {
            (Some(storage), _) => result_of(storage.kind()),
            (_, Kind::PastEnd) => MST_ERROR_PAST_END,
            (_, Kind::Closed) => MST_ERROR_CLOSED,
            (_, Kind::OutOfRange) => MST_ERROR_OVERFLOW,
            (_, Kind::Limit) => MST_ERROR_LIMIT,
            (_, Kind::OutOfMemory) => MST_ERROR_OUT_OF_MEMORY,
            (_, Kind::NoSpace) => MST_ERROR_NO_SPACE,
            (_, Kind::NotFound) => MST_ERROR_NOT_FOUND,
            (_, Kind::WrongMode | Kind::InvalidArgument) => MST_ERROR_INVALID_ARGUMENT,
            _ => MST_ERROR_CORRUPT,
        };
        // Of an entry the storage knows which bytes of which file, the stream only its own.
        let (path, range) = match error.storage().filter(|storage| storage.path().is_some()) {
            Some(storage) => (storage.path(), (storage.offset(), storage.len())),
            None => (error.path(), (error.position(), error.len())),
        };
        let errno = error.storage().and_then(millstream::Error::errno);
        let made = mst_error::located(result, &error, path, range, errno);
        Failure::Made(Box::new(made))
    }
}

/// The numbers of the engine's errors are the header's.
pub(crate) fn result_of(kind: ErrorKind) -> mst_result {
    kind as u32 as mst_result
}

/// An error that a completion owns.
pub(crate) fn owned_error(error: millstream::Error) -> *mut mst_error {
    owned(mst_error::from(error))
}

thread_local! {
    static LAST: RefCell<Option<Box<mst_error>>> = const { RefCell::new(None) };
}

/// The details of the last call of this thread that failed; NULL if none did. Valid until the next
/// call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn mst_last_error() -> *const mst_error {
    let last = LAST.try_with(|last| {
        let last = last.borrow();
        last.as_deref().map_or(std::ptr::null(), std::ptr::from_ref)
    });
    last.unwrap_or(std::ptr::null())
}

/// The name of a result, such as "MST_ERROR_NOT_FOUND"; "unknown" for another number. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn mst_result_name(result: mst_result) -> *const c_char {
    let name = NAMES.iter().find(|(number, _)| *number == result);
    name.map_or(c"unknown", |(_, name)| name).as_ptr()
}

macro_rules! names {
    ($($name:ident)*) => {
        const NAMES: &[(mst_result, &CStr)] = &[$((
            $name,
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no NUL"),
            },
        )),*];
    };
}

names! {
    MST_OK MST_ERROR_CANCELED MST_ERROR_IO MST_ERROR_NOT_FOUND MST_ERROR_PERMISSION_DENIED
    MST_ERROR_IS_DIRECTORY MST_ERROR_NOT_A_FILE MST_ERROR_PAST_END MST_ERROR_OVERFLOW
    MST_ERROR_INVALID_ARGUMENT MST_ERROR_NO_DIRECT_IO MST_ERROR_CORRUPT MST_ERROR_RAW_SIZE
    MST_ERROR_RAW_SIZE_UNKNOWN MST_ERROR_UNKNOWN_CODEC MST_ERROR_STALE_FILE MST_ERROR_TIMED_OUT
    MST_ERROR_OUT_OF_MEMORY MST_ERROR_CLOSED MST_ERROR_QUEUE_FULL MST_ERROR_TOO_MANY_TICKETS
    MST_ERROR_NO_SPACE MST_ERROR_APPLICATION MST_ERROR_LIMIT MST_ERROR_DESTINATION_TOO_SMALL
    MST_ERROR_ON_STORAGE_THREAD MST_ERROR_NOT_SUBMITTED MST_ERROR_BROKEN MST_ERROR_WRONG_FORMAT
    MST_ERROR_DEVICE_LOST MST_ERROR_STILL_HELD MST_ERROR_INTERNAL MST_ERROR_NOT_READY
    MST_ERROR_STALE_TICKET MST_ERROR_UNSUPPORTED
}

/// The result that the error is about; `MST_OK` for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_error_result(error: *const mst_error) -> mst_result {
    // SAFETY: NULL or an error, as the header asks of all pointers.
    unsafe { error.as_ref() }.map_or(MST_OK, |error| error.result)
}

/// The error in one line: what failed, on what file and range, and the likely cause. Never NULL;
/// lives as long as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_error_message(error: *const mst_error) -> *const c_char {
    // SAFETY: as above.
    unsafe { error.as_ref() }
        .map_or(c"", |error| &error.message)
        .as_ptr()
}

/// The file that the error is about; NULL if there is none. Lives as long as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_error_path(error: *const mst_error) -> *const c_char {
    // SAFETY: as above.
    let path = unsafe { error.as_ref() }.and_then(|error| error.path.as_deref());
    path.map_or(std::ptr::null(), CStr::as_ptr)
}

/// The range that the error is about: first byte and length, `UINT64_MAX` for a whole file. Either
/// pointer may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_error_range(
    error: *const mst_error,
    offset: *mut u64,
    length: *mut u64,
) {
    // SAFETY: as above; the pointers are NULL or the caller's.
    unsafe {
        let range = error
            .as_ref()
            .map_or((0, 0), |error| (error.offset, error.length));
        give(offset, range.0);
        give(length, range.1);
    }
}

/// The system's error number; 0 if the system was not the cause.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_error_errno(error: *const mst_error) -> c_int {
    // SAFETY: as above.
    unsafe { error.as_ref() }.map_or(0, |error| error.errno)
}

/// Frees an error that the application owns: of `mst_queue_take_errors`, or of a completion. (Those
/// of `mst_last_error` are the library's.)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_error_free(error: *mut mst_error) {
    // SAFETY: NULL, or from `owned_error` and not used again, as the header asks.
    unsafe { free(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_engine_has_a_name_here() {
        let kinds = (1..).map_while(ErrorKind::from_number);
        for kind in kinds {
            let result = result_of(kind);
            assert!(
                NAMES.iter().any(|(number, _)| *number == result),
                "{kind:?}"
            );
        }
    }
}
