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
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use super::sink::Sink;
use crate::corpus::{CorpusFile, Form};
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;

/// Bytes of a piece of a stream: the study's block.
const PIECE_BYTES: usize = 128 << 10;

/// `fread`, whole file.
pub(crate) struct Stdio {
    file: CorpusFile,
    piece: Vec<u8>,
}

/// One `read` call with `POSIX_FADV_SEQUENTIAL`.
pub(crate) struct ReadCall {
    file: CorpusFile,
    piece: Vec<u8>,
}

impl Stdio {
    pub(crate) fn new(file: &CorpusFile) -> Stdio {
        Stdio {
            file: file.clone(),
            piece: vec![0; PIECE_BYTES],
        }
    }
}

impl ReadCall {
    pub(crate) fn new(file: &CorpusFile) -> ReadCall {
        ReadCall {
            file: file.clone(),
            piece: vec![0; PIECE_BYTES],
        }
    }
}

impl Contender for Stdio {
    fn name(&self) -> String {
        "stdio".into()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let mut stream = Stream::open(&self.file.path)?;
        deliver(&self.file, &mut self.piece, destination, &mut |into| {
            stream.read(into)
        })
    }
}

impl Contender for ReadCall {
    fn name(&self) -> String {
        "read".into()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let path = &self.file.path;
        let mut file = File::open(path).map_err(|error| Error::file("open", path, error))?;
        fadvise(&file, 0, None, Advice::Sequential)
            .map_err(|error| Error::file("posix_fadvise", path, error))?;
        deliver(&self.file, &mut self.piece, destination, &mut |into| {
            read_fully(&mut file, into).map_err(|error| Error::file("read", path, error))
        })
    }
}

/// Reads until `into` is full or the file ends.
fn read_fully(file: &mut File, into: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read(&mut into[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Delivers a file's raw bytes from a function that reads the next bytes of it.
fn deliver(
    file: &CorpusFile,
    piece: &mut [u8],
    destination: &mut [u8],
    read: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
) -> Result<Work> {
    let raw = &mut destination[..file.raw_len as usize];
    let bytes = if file.form == Form::Stored {
        read(raw)? as u64
    } else {
        let mut sink = Sink::new(file.form.codec(), raw)?;
        loop {
            match read(piece)? {
                0 => break sink.finish()?,
                len => sink.take(&piece[..len])?,
            }
        }
    };
    Ok(Work {
        bytes,
        requests: 1,
        ..Work::default()
    })
}

/// A `FILE *`, closed on drop.
struct Stream(std::ptr::NonNull<libc::FILE>);

impl Stream {
    fn open(path: &Path) -> Result<Stream> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Error::new("a path with a zero byte"))?;
        // SAFETY: both strings end with a zero byte and live across the call.
        let stream = unsafe { libc::fopen(name.as_ptr(), c"rb".as_ptr()) };
        std::ptr::NonNull::new(stream)
            .map(Stream)
            .ok_or_else(|| Error::file("fopen", path, std::io::Error::last_os_error()))
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        // SAFETY: the stream is open; the slice has room for len items of one byte.
        let read = unsafe { libc::fread(into.as_mut_ptr().cast(), 1, into.len(), self.0.as_ptr()) };
        // SAFETY: the stream is open.
        if read < into.len() && unsafe { libc::ferror(self.0.as_ptr()) } != 0 {
            return Err(Error::io("fread", std::io::Error::last_os_error()));
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
