//! Blocking transfers of whole ranges, by calls that may transfer a part.

use super::explain;
use crate::error::{Errno, IoError};

/// Reads at an offset; short only at the end of the file.
pub(super) fn read(
    offset: u64,
    into: &mut [u8],
    read_at: impl Fn(&mut [u8], u64) -> Result<usize, Errno>,
) -> Result<usize, IoError> {
    let mut done = 0;
    while done < into.len() {
        let at = end_of("read", offset, done)?;
        match read_at(&mut into[done..], at) {
            Ok(0) => break,
            Ok(read) => done += read,
            // A direct read that reached the end of the file ends at an offset where no direct read
            // may start.
            Err(Errno::INVALID) if done > 0 => break,
            Err(Errno::INVALID) => {
                let cause = "an offset beyond any file, or a direct read that is not aligned";
                return Err(IoError::because("read", Errno::INVALID, cause));
            }
            Err(errno) => return Err(explain("read", errno)),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` at an offset.
pub(super) fn write(
    offset: u64,
    bytes: &[u8],
    write_at: impl Fn(&[u8], u64) -> Result<usize, Errno>,
) -> Result<(), IoError> {
    let mut done = 0;
    while done < bytes.len() {
        let at = end_of("write", offset, done)?;
        match write_at(&bytes[done..], at) {
            Ok(0) => {
                return Err(IoError::because(
                    "write",
                    Errno::IO,
                    "the file system took no bytes",
                ));
            }
            Ok(written) => done += written,
            Err(errno) => return Err(explain("write", errno)),
        }
    }
    Ok(())
}

fn end_of(call: &'static str, offset: u64, done: usize) -> Result<u64, IoError> {
    let end = offset.checked_add(done as u64);
    end.ok_or_else(|| IoError::because(call, Errno::TOO_LARGE, "the range ends beyond any file"))
}
