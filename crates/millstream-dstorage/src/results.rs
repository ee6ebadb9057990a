//! The `HRESULT` of an error of the engine.

use millstream::{Error, ErrorKind};

use crate::abi::*;

/// The system's number for memory that it cannot access.
const ERROR_NOACCESS: u32 = 998;

/// Returns the `HRESULT` of a request's error.
pub(crate) fn hresult_of(error: &Error) -> HRESULT {
    use ErrorKind as K;
    match error.kind() {
        K::NotFound | K::PermissionDenied | K::Io => system_hresult(error),
        K::IsDirectory | K::NotAFile => E_DSTORAGE_UNSUPPORTED_FILE,
        K::PastEnd | K::Overflow => E_DSTORAGE_END_OF_FILE,
        // `UnknownCodec` also is what a decoder does not support, such as a window of zstd that is
        // too large; `Application` is the codec of compressed memory.
        K::Corrupt
        | K::RawSize
        | K::RawSizeUnknown
        | K::WrongFormat
        | K::UnknownCodec
        | K::Application => E_DSTORAGE_DECOMPRESSION_ERROR,
        K::StaleFile => E_DSTORAGE_FILE_NOT_OPEN,
        K::TimedOut => E_DSTORAGE_IO_TIMEOUT,
        K::OutOfMemory => E_OUTOFMEMORY,
        K::Closed => E_DSTORAGE_QUEUE_CLOSED,
        K::DestinationTooSmall => E_DSTORAGE_INVALID_DESTINATION_SIZE,
        K::InvalidArgument => E_INVALIDARG,
        _ => E_FAIL,
    }
}

fn system_hresult(error: &Error) -> HRESULT {
    match error.errno().map(|number| number as u32) {
        None | Some(0) => E_FAIL,
        Some(ERROR_NOACCESS) => E_DSTORAGE_ACCESS_VIOLATION,
        Some(number) => hresult_from_win32(number),
    }
}
