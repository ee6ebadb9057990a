//! Reads the directory of an archive from front to end, in pieces.
//!
//! However long a directory says it is, one piece of the file is in memory at a time, and nothing
//! is allocated for an entry before its bytes were read.

use millstream::{Buffer, Ticket};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{ARCHIVE_DIRECTORY_BYTES_MAX, ARCHIVE_PIECE_BYTES};
use crate::memory;
use crate::reader::open_file::OpenFile;

/// A directory, read from front to end. The next piece is read while one is parsed.
pub(super) struct Directory<'a> {
    file: &'a OpenFile,
    /// The offset in the file of the next byte.
    at: u64,
    /// The first byte that was not requested, and the end of the directory.
    next: u64,
    end: u64,
    ahead: Option<Ticket<Buffer>>,
    bytes: Vec<u8>,
    used: usize,
}

impl<'a> Directory<'a> {
    /// Begins at `start`; nothing from `end` on is read.
    pub(super) fn new(file: &'a OpenFile, start: u64, end: u64) -> Directory<'a> {
        Directory {
            file,
            at: start,
            next: start,
            end,
            ahead: None,
            bytes: Vec::new(),
            used: 0,
        }
    }

    /// Returns the offset in the file of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Requests the next piece, if there is one.
    fn request(&mut self) -> Result<Option<Ticket<Buffer>>> {
        let (at, len) = (self.next, ARCHIVE_PIECE_BYTES.min(self.end - self.next));
        self.next += len;
        let request = (len > 0).then(|| self.file.request(at, len));
        request.transpose()
    }

    /// Returns the next `len` bytes, which are used up.
    pub(super) fn take(&mut self, len: usize) -> Result<&[u8]> {
        while self.bytes.len() - self.used < len {
            let requested = match self.ahead.take() {
                None => self.request()?,
                ahead => ahead,
            };
            let Some(mut piece) = requested else {
                let cause = "the archive's directory ends in the middle of an entry";
                return Err(Error::new(ErrorKind::Truncated, cause).at(self.at));
            };
            self.ahead = self.request()?;
            let read = piece.wait()?;
            self.bytes.drain(..self.used);
            self.used = 0;
            memory::reserve(&mut self.bytes, read.len())?;
            self.bytes.extend_from_slice(&read);
        }
        self.used += len;
        self.at += len as u64;
        Ok(&self.bytes[self.used - len..self.used])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("so many were taken"))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

/// Refuses a directory that is too long to be held.
pub(super) fn check_bytes(bytes: u64) -> Result<()> {
    if bytes <= ARCHIVE_DIRECTORY_BYTES_MAX {
        return Ok(());
    }
    let most = ARCHIVE_DIRECTORY_BYTES_MAX;
    let cause = format!("the archive's directory has {bytes} bytes; at most {most} are read");
    Err(Error::new(ErrorKind::Limit, cause))
}

/// Returns the `N` bytes at an offset of a field's record, which has them.
pub(super) fn field<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    *record[at..].first_chunk().expect("inside the record")
}

pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(record, at))
}

pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(record, at))
}

pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(record, at))
}
