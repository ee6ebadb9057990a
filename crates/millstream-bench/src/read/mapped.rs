//! The rivals that map: the study's 128 KiB windows, the whole file copied out, and the whole file
//! only touched.
//!
//! # Safety
//! A mapping of a file that shrinks raises SIGBUS when read. The files here are the corpus',
//! verified just before and written by nobody but a benchmark that renames new ones into place,
//! which leaves mapped ones alone.
#![expect(unsafe_code, reason = "maps files")]

use std::ffi::c_void;
use std::fs::File;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::sink::Sink;
use crate::corpus::{CorpusFile, word_sum};
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;

/// The study's window.
const WINDOW_BYTES: usize = 128 << 10;

/// What is done with mapped bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapStyle {
    /// Windows of 128 KiB, each mapped, copied (or decoded) and unmapped.
    Windows,
    /// The whole file mapped and copied (or decoded).
    Copy,
    /// The whole file mapped and every byte looked at, nothing copied: the use in place.
    Touch,
}

/// A mapping rival.
pub(crate) struct Mapped {
    file: CorpusFile,
    style: MapStyle,
}

impl Mapped {
    pub(crate) fn new(file: &CorpusFile, style: MapStyle) -> Mapped {
        Mapped {
            file: file.clone(),
            style,
        }
    }
}

impl Contender for Mapped {
    fn name(&self) -> String {
        match self.style {
            MapStyle::Windows => "map-windows",
            MapStyle::Copy => "map-copy",
            MapStyle::Touch => "map-touch",
        }
        .into()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let path = &self.file.path;
        let file = File::open(path).map_err(|error| Error::file("open", path, error))?;
        let stored_len = self.file.stored_len as usize;
        let mut work = Work {
            bytes: self.file.raw_len,
            requests: 1,
            ..Work::default()
        };
        if self.style == MapStyle::Touch {
            work.digest = Some(word_sum(Mapping::new(&file, 0, stored_len)?.bytes()));
            return Ok(work);
        }
        let window = match self.style {
            MapStyle::Windows => WINDOW_BYTES,
            _ => stored_len.max(1),
        };
        let raw = &mut destination[..self.file.raw_len as usize];
        let mut sink = Sink::new(self.file.form.codec(), raw)?;
        let mut offset = 0;
        while offset < stored_len {
            let len = window.min(stored_len - offset);
            let mapping = Mapping::new(&file, offset as u64, len)?;
            // Piece by piece also out of a whole mapping: the library's copy of many megabytes at
            // once takes four pages in turn, which defeats the kernel's read-ahead (measured: 18
            // MB/s instead of 700).
            mapping
                .bytes()
                .chunks(WINDOW_BYTES)
                .try_for_each(|piece| sink.take(piece))?;
            offset += len;
        }
        work.bytes = sink.finish()?;
        Ok(work)
    }
}

/// A part of a file in memory, unmapped on drop.
struct Mapping {
    start: *mut c_void,
    len: usize,
}

impl Mapping {
    fn new(file: &File, offset: u64, len: usize) -> Result<Mapping> {
        // SAFETY: a fresh read-only mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                offset,
            )
        }
        .map_err(|error| Error::io("map a file", error))?;
        // SAFETY: the mapping just made; the advice changes no content, and whether it is taken is
        // a matter of speed.
        let _ = unsafe { madvise(start, len, Advice::Sequential) };
        Ok(Mapping { start, len })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped readable for `len` bytes until drop; nobody shrinks the file (see the
        // module's header).
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; the borrows of `bytes` have ended.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
