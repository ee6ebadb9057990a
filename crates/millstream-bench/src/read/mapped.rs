//! The rivals that map: the study's 128 KiB windows, the whole file copied out, and the whole file
//! only touched.
//!
//! # Safety
//! A mapping of a file that shrinks raises SIGBUS when read. The files here are the corpus',
//! verified just before and written by nobody but a benchmark that renames new ones into place,
//! which leaves mapped ones alone.
#![expect(unsafe_code, reason = "maps files")]

use std::fs::File;

use memmap2::{Advice, Mmap, MmapOptions};

use super::sink::Sink;
use crate::case::{Contender, Work};
use crate::corpus::{CorpusFile, word_sum};
use crate::error::{Context, Result};
use crate::files::open_buffered;

/// The study's window.
pub(super) const WINDOW_BYTES: usize = 128 << 10;

/// Windows of so many bytes, each mapped, copied (or decoded) and unmapped.
pub(super) fn copied(name: &str, corpus: &CorpusFile, window: usize) -> Contender {
    let corpus = corpus.clone();
    Contender::new(name, move |destination| {
        let file = open_buffered(&corpus.path)?;
        let raw = &mut destination[..corpus.raw_len as usize];
        let mut sink = Sink::new(corpus.form.codec(), raw)?;
        let stored_len = corpus.stored_len as usize;
        for offset in (0..stored_len).step_by(window.max(1)) {
            let mapping = map(&file, offset, window.min(stored_len - offset))?;
            // Piece by piece also out of a whole mapping: the library's copy of many megabytes at
            // once takes four pages in turn, which defeats the kernel's read-ahead (measured: 18
            // MB/s instead of 700).
            let mut pieces = mapping.chunks(WINDOW_BYTES);
            pieces.try_for_each(|piece| sink.take(piece))?;
        }
        Ok(Work::of(sink.finish()?, 1))
    })
}

/// The whole file mapped and every byte looked at, nothing copied: the use in place.
pub(super) fn touched(corpus: &CorpusFile) -> Contender {
    let corpus = corpus.clone();
    Contender::new("map-touch", move |_| {
        let file = open_buffered(&corpus.path)?;
        let sum = word_sum(&map(&file, 0, corpus.stored_len as usize)?);
        Ok(Work::of(corpus.raw_len, 1).with_digest(sum))
    })
}

/// Maps a part of a file that is read from its beginning to its end.
fn map(file: &File, offset: usize, len: usize) -> Result<Mmap> {
    let mut options = MmapOptions::new();
    // SAFETY: the file does not shrink (see the module's header).
    let map = unsafe { options.offset(offset as u64).len(len).map(file) };
    let map = map.what("map a file")?;
    // The advice changes no content; without it the reads are slower.
    let _ = map.advise(Advice::Sequential);
    Ok(map)
}
