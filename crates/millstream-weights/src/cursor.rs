//! A position in the first bytes of a GGUF file, which takes no more than there is.

use std::ops::Range;

use millstream::{Error, ErrorKind};

use crate::error::{corrupt, failed};
use crate::limits::{GGUF_HEADER_BYTES_MAX, GGUF_NAME_BYTES_MAX};

/// Why parsing stopped.
pub(crate) enum Stop {
    /// The header has at least so many bytes, and the file has them, too.
    Needs(u64),
    Failed(Error),
}

pub(crate) type Step<T> = Result<T, Stop>;

pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
    file_bytes: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], file_bytes: u64) -> Cursor<'a> {
        Cursor {
            bytes,
            at: 0,
            file_bytes,
        }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Fails about the last `len` bytes that were taken.
    pub(crate) fn corrupt<T>(&self, len: u64, cause: String) -> Step<T> {
        let offset = self.offset().saturating_sub(len);
        Err(Stop::Failed(corrupt(cause, offset, len)))
    }

    fn limit<T>(&self, cause: String) -> Step<T> {
        let error = failed(ErrorKind::Limit, cause, self.offset(), 0);
        Err(Stop::Failed(error))
    }

    pub(crate) fn take(&mut self, len: u64) -> Step<&'a [u8]> {
        let end = self.offset().checked_add(len);
        let Some(end) = end.filter(|end| *end <= self.file_bytes) else {
            let file = self.file_bytes;
            return self.corrupt(0, format!("{len} bytes exceed the file ({file} bytes)"));
        };
        if end > GGUF_HEADER_BYTES_MAX {
            let cause = format!("the header is longer than {GGUF_HEADER_BYTES_MAX} bytes");
            return self.limit(cause);
        }
        // Fits: it is at most 1 GiB.
        let taken = self.bytes.get(self.at..end as usize);
        let taken = taken.ok_or(Stop::Needs(end))?;
        self.at = end as usize;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        let taken = self.take(N as u64)?;
        Ok(taken.try_into().expect("so many bytes were taken"))
    }

    pub(crate) fn u32(&mut self) -> Step<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Step<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn string(&mut self) -> Step<&'a [u8]> {
        let len = self.u64()?;
        self.take(len)
    }

    /// Takes a key or the name of a tensor, and returns where it is, too.
    pub(crate) fn name(&mut self, what: &str) -> Step<(&'a str, Range<usize>)> {
        let len = self.u64()?;
        if len > GGUF_NAME_BYTES_MAX {
            let cause = format!("{what} of {len} bytes is longer than {GGUF_NAME_BYTES_MAX}");
            return self.corrupt(8, cause);
        }
        let begin = self.at;
        match std::str::from_utf8(self.take(len)?) {
            Ok(name) => Ok((name, begin..self.at)),
            Err(_) => self.corrupt(len, format!("{what} is not UTF-8")),
        }
    }

    /// Takes a number of things of at least so many bytes each, and refuses more than fit, or than
    /// `most`.
    pub(crate) fn count(&mut self, most: u64, bytes_min: u64, what: &str) -> Step<u64> {
        let count = self.u64()?;
        let left = self.file_bytes - self.offset();
        match count.checked_mul(bytes_min) {
            Some(bytes) if bytes <= left && count <= most => Ok(count),
            Some(bytes) if bytes <= left => {
                self.limit(format!("{count} {what} are more than {most}"))
            }
            _ => self.corrupt(8, format!("{count} {what} exceed the {left} bytes left")),
        }
    }
}
