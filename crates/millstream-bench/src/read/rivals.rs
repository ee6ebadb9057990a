//! The study's rivals: stdio, the `read` call with a sequential hint, memory maps, and outstanding
//! direct blocks; and one thread per core for independent blocks.
//!
//! Stored bytes go directly to the destination; streams are decoded piece by piece from a buffer of
//! [`PIECE_BYTES`], on the same thread.
//!
//! # Safety
//! stdio is called as C does: the stream is open between `fopen` and the one `fclose` of its guard,
//! and `fread` gets a slice's pointer and length. Reading a mapping of a file that has shrunk
//! raises SIGBUS. The files here are the corpus', verified just before and written by nothing but a
//! benchmark that renames new ones into place, which leaves mapped ones alone.
#![expect(unsafe_code, reason = "stdio has no safe wrapper; maps files")]

use std::ffi::CString;
use std::fs::File;
use std::io::{Error as Os, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

use memmap2::{Advice, Mmap, MmapOptions};
use millstream_codec::{CodecId, Scratch, StreamDecoder, decode_block, stream_decoder};
use millstream_peers::read_in_order;
use rustix::fs::fadvise;

use crate::prelude::*;
use crate::threads;

/// Size of a piece of a stream, and of a window of a map, in bytes: the study's block.
const PIECE_BYTES: usize = 128 << 10;
const OUTSTANDING: usize = 8;

pub(super) fn stdio(file: &CorpusFile, into: &mut [u8]) -> Result<Work> {
    let mut stream = Stream::open(&file.path)?;
    deliver(file, into, &mut |into| stream.read(into))
}

pub(super) fn read_call(corpus: &CorpusFile, into: &mut [u8]) -> Result<Work> {
    let mut file = open_buffered(&corpus.path)?;
    fadvise(&file, 0, None, rustix::fs::Advice::Sequential).on("posix_fadvise", &corpus.path)?;
    let mut read = |into: &mut [u8]| file.read(into).on("read", &corpus.path);
    deliver(corpus, into, &mut read)
}

/// Delivers a file's raw bytes, using `read` to read the next bytes of the file.
fn deliver(
    file: &CorpusFile,
    into: &mut [u8],
    read: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
) -> Result<Work> {
    let raw = &mut into[..file.raw_len as usize];
    if file.blocks.is_empty() && file.form == crate::corpus::Form::Stored {
        let mut filled = 0;
        while filled < raw.len() {
            match read(&mut raw[filled..])? {
                0 => break,
                len => filled += len,
            }
        }
        return Ok(Work::of(filled as u64, 1));
    }
    let mut sink = Sink::new(file.form.codec(), raw)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match read(&mut piece)? {
            0 => return Ok(Work::of(sink.finish()?, 1)),
            len => sink.take(&piece[..len])?,
        }
    }
}

/// Windows of [`PIECE_BYTES`], each mapped, copied (or decoded) and unmapped.
pub(super) fn map_windows(corpus: &CorpusFile, into: &mut [u8]) -> Result<Work> {
    let file = open_buffered(&corpus.path)?;
    let raw = &mut into[..corpus.raw_len as usize];
    let mut sink = Sink::new(corpus.form.codec(), raw)?;
    let stored_len = corpus.stored_len as usize;
    for offset in (0..stored_len).step_by(PIECE_BYTES) {
        sink.take(&map(&file, offset, PIECE_BYTES.min(stored_len - offset))?)?;
    }
    Ok(Work::of(sink.finish()?, 1))
}

/// Eight outstanding direct blocks of 128 KiB, copied or decoded in order by the same thread.
pub(super) fn outstanding(file: &CorpusFile, into: &mut [u8]) -> Result<Work> {
    let mut window = Destination::new(PIECE_BYTES * OUTSTANDING)?;
    let window = &mut window[..PIECE_BYTES * OUTSTANDING];
    let raw = &mut into[..file.raw_len as usize];
    let mut sink = Sink::new(file.form.codec(), raw)?;
    let mut take = |piece: &[u8]| {
        let taken = sink.take(piece);
        taken.map_err(|error| Os::other(error.to_string()))
    };
    read_in_order(&file.path, file.stored_len, PIECE_BYTES, window, &mut take)?;
    Ok(Work::of(sink.finish()?, 1))
}

pub(crate) fn map(file: &File, offset: usize, len: usize) -> Result<Mmap> {
    let mut options = MmapOptions::new();
    // SAFETY: the file does not shrink (see the module's header).
    let map = unsafe { options.offset(offset as u64).len(len).map(file) };
    let map = map.what("map a file")?;
    // The advice only affects speed, so its failure is ignored.
    let _ = map.advise(Advice::Sequential);
    Ok(map)
}

/// Decodes independent blocks on all cores: each thread takes the next block of the table, reads it
/// and decodes it into its place. Spawning the threads is part of the run, as in a program that
/// loads once.
pub(crate) fn blocks(corpus: &CorpusFile, into: &mut [u8]) -> Result<Work> {
    let file = open_buffered(&corpus.path)?;
    let raw = &mut into[..corpus.raw_len as usize];
    threads::each(
        threads::cores(),
        corpus.blocks.iter().zip(raw.chunks_mut(BLOCK_BYTES)),
        || (Scratch::default(), Vec::new()),
        |(scratch, stored), (span, place)| {
            stored.resize(span.stored_len as usize, 0);
            let read = file.read_exact_at(stored, span.stored_offset);
            read.on("read", &corpus.path)?;
            let len = decode_block(corpus.form.codec(), scratch, stored, place)?;
            ensure(len == place.len(), "a block has too few raw bytes")
        },
    )?;
    Ok(Work::of(corpus.raw_len, corpus.blocks.len()))
}

struct Stream(NonNull<libc::FILE>);

impl Stream {
    fn open(path: &Path) -> Result<Stream> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: both strings end with a zero byte and live across the call.
        let stream = unsafe { libc::fopen(name.as_ptr(), c"rb".as_ptr()) };
        let stream = NonNull::new(stream).map(Stream);
        stream.ok_or_else(Os::last_os_error).on("fopen", path)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        // SAFETY: the stream is open; the slice has room for len items of one byte.
        let read = unsafe { libc::fread(into.as_mut_ptr().cast(), 1, into.len(), self.0.as_ptr()) };
        // SAFETY: the stream is open.
        if read < into.len() && unsafe { libc::ferror(self.0.as_ptr()) } != 0 {
            return Err(Os::last_os_error()).what("fread");
        }
        Ok(read)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed here alone.
        unsafe { libc::fclose(self.0.as_ptr()) };
    }
}

/// Takes a file's stored bytes piece by piece, in order.
pub(crate) struct Sink<'a> {
    destination: &'a mut [u8],
    produced: usize,
    decoder: Option<Box<dyn StreamDecoder>>,
    at_end: bool,
}

impl<'a> Sink<'a> {
    /// Creates a sink into `destination`, which has exactly the length of the raw bytes.
    pub(crate) fn new(codec: CodecId, destination: &'a mut [u8]) -> Result<Sink<'a>> {
        let decoder = match codec {
            CodecId::STORED => None,
            codec => Some(stream_decoder(codec)?),
        };
        Ok(Sink {
            destination,
            produced: 0,
            decoder,
            at_end: false,
        })
    }

    pub(crate) fn take(&mut self, mut piece: &[u8]) -> Result<()> {
        let Some(decoder) = &mut self.decoder else {
            let room = &mut self.destination[self.produced..];
            let fits = piece.len() <= room.len();
            ensure(fits, "the file is longer than its record says")?;
            room[..piece.len()].copy_from_slice(piece);
            self.produced += piece.len();
            return Ok(());
        };
        while !piece.is_empty() {
            let progress = decoder.decode(piece, &mut self.destination[self.produced..])?;
            let goes_on = progress.consumed > 0 || progress.produced > 0;
            ensure(goes_on, "a decoder makes no progress")?;
            piece = &piece[progress.consumed..];
            self.produced += progress.produced;
            self.at_end = progress.at_end;
        }
        Ok(())
    }

    /// Ends the stream; returns the number of raw bytes delivered.
    pub(crate) fn finish(mut self) -> Result<u64> {
        if let Some(decoder) = &mut self.decoder {
            // Bytes buffered in the decoder come out without further input.
            while !self.at_end {
                let progress = decoder.decode(&[], &mut self.destination[self.produced..])?;
                self.produced += progress.produced;
                self.at_end = progress.at_end;
                let goes_on = progress.produced > 0 || progress.at_end;
                ensure(goes_on, "the stream ends early")?;
            }
        }
        let (got, want) = (self.produced, self.destination.len());
        match got == want {
            true => Ok(got as u64),
            false => Err(Error::new(format!("{got} raw bytes instead of {want}"))),
        }
    }
}
