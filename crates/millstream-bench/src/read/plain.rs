//! The study's rivals that read by calls: stdio, and the system's read call with a sequential hint.
//!
//! Stored bytes go straight to the destination in one call; streams are decoded piece by piece out
//! of a buffer of [`PIECE_BYTES`], on the same thread.
//!
//! # Safety
//! stdio is called as C does: the stream is open between `fopen` and the one `fclose` of its
//! guard, and `fread` gets a slice's pointer and length.
#![expect(unsafe_code, reason = "stdio has no safe wrapper")]

use std::ffi::CString;
use std::io::Error as Os;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use super::sink::Sink;
use crate::case::{Contender, Work};
use crate::corpus::{CorpusFile, Form};
use crate::error::{Context, Result};
use crate::files::{open_buffered, read_up_to};

/// Bytes of a piece of a stream: the study's block.
const PIECE_BYTES: usize = 128 << 10;

/// `fread`, whole file.
pub(super) fn stdio(file: &CorpusFile) -> Contender {
    let file = file.clone();
    Contender::new("stdio", move |destination| {
        let mut stream = Stream::open(&file.path)?;
        deliver(&file, destination, &mut |into| stream.read(into))
    })
}

/// One `read` call with `POSIX_FADV_SEQUENTIAL`.
pub(super) fn read_call(corpus: &CorpusFile) -> Contender {
    let corpus = corpus.clone();
    Contender::new("read", move |destination| {
        let mut file = open_buffered(&corpus.path)?;
        fadvise(&file, 0, None, Advice::Sequential).on("posix_fadvise", &corpus.path)?;
        deliver(&corpus, destination, &mut |into| {
            read_up_to(&mut file, into).on("read", &corpus.path)
        })
    })
}

/// Delivers a file's raw bytes from a function that reads the next bytes of it.
fn deliver(
    file: &CorpusFile,
    destination: &mut [u8],
    read: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
) -> Result<Work> {
    let raw = &mut destination[..file.raw_len as usize];
    if file.form == Form::Stored {
        return Ok(Work::of(read(raw)? as u64, 1));
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

/// A `FILE *`, closed on drop.
struct Stream(std::ptr::NonNull<libc::FILE>);

impl Stream {
    fn open(path: &Path) -> Result<Stream> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: both strings end with a zero byte and live across the call.
        let stream = unsafe { libc::fopen(name.as_ptr(), c"rb".as_ptr()) };
        let stream = std::ptr::NonNull::new(stream).map(Stream);
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
