//! A rival: the same files in a deflated zip, read through the crate `zip` by several threads.
//!
//! The archive's directory is parsed once, in the timed part, as whoever opens an archive does;
//! each thread then takes the next entry and inflates it (with zlib-rs) into its destination. Reads
//! have 64 KiB, behind each other, so that the kernel reads ahead.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::Wanted;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;

/// Bytes of one read of the archive.
const READ_BYTES: usize = 64 << 10;

fn broken(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::new(format!("{}: {error}", path.display()))
}

/// Makes the archive, if it is not there: every file deflated at the usual level, in this order.
pub(super) fn made(path: &Path, files: &[(PathBuf, u64)], wanted: &[Wanted]) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let beside = path.with_extension("zip.tmp");
    let written = write(&beside, files, wanted).and_then(|()| {
        std::fs::rename(&beside, path).map_err(|error| Error::file("rename", &beside, error))
    });
    if written.is_err() {
        // What is half written is of no use; if it cannot be removed the first error tells more.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write(beside: &Path, files: &[(PathBuf, u64)], wanted: &[Wanted]) -> Result<()> {
    let file = File::create(beside).map_err(|error| Error::file("make", beside, error))?;
    let mut archive = ZipWriter::new(io::BufWriter::new(file));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for ((from, _), wanted) in files.iter().zip(wanted) {
        let bytes = std::fs::read(from).map_err(|error| Error::file("read", from, error))?;
        let begun = archive.start_file(wanted.name.as_str(), options);
        begun.map_err(|error| broken(beside, error))?;
        let written = archive.write_all(&bytes);
        written.map_err(|error| Error::file("write", beside, error))?;
    }
    let ended = archive.finish();
    ended.map(drop).map_err(|error| broken(beside, error))
}

/// See the module.
pub(super) struct Zipped {
    pub(super) path: PathBuf,
    pub(super) files: Arc<Vec<(PathBuf, u64)>>,
    pub(super) wanted: Arc<Vec<Wanted>>,
    pub(super) threads: usize,
}

impl Contender for Zipped {
    fn name(&self) -> String {
        String::from("zip")
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let mut rest = &mut destination[..];
        let mut pieces = Vec::with_capacity(self.files.len());
        for (_, len) in self.files.iter() {
            let (piece, later) = std::mem::take(&mut rest).split_at_mut(*len as usize);
            rest = later;
            pieces.push(Mutex::new(piece));
        }
        let begun = Moment::now();
        let reader = Reads::open(&self.path)?;
        let archive = ZipArchive::new(reader).map_err(|error| broken(&self.path, error))?;
        let next = AtomicUsize::new(0);
        let serve = || -> Result<()> {
            let mut archive = archive.clone();
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                let Some(piece) = pieces.get(nth) else {
                    return Ok(());
                };
                // Nobody else ever takes this piece; the lock only hands it over.
                let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = archive.by_index(nth);
                let mut entry = entry.map_err(|error| broken(&self.path, error))?;
                let read = entry.read_exact(&mut piece);
                read.map_err(|error| Error::file("read", &self.path, error))?;
            }
        };
        crate::together::timed(self.threads, &serve)?;
        let span = begun.elapsed();
        for (piece, wanted) in pieces.iter().zip(self.wanted.iter()) {
            if xxh3_64(&piece.lock().unwrap_or_else(PoisonError::into_inner)) != wanted.xxh3 {
                return Err(Error::new(format!("other bytes than {} has", wanted.name)));
            }
        }
        Ok(Work {
            bytes: self.files.iter().map(|(_, len)| len).sum(),
            requests: self.files.len() as u64,
            span: Some(span),
            ..Work::default()
        })
    }
}

/// A reader of a shared file with a place and a buffer of its own.
struct Reads {
    file: Arc<File>,
    len: u64,
    at: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl Reads {
    fn open(path: &Path) -> Result<Reads> {
        let file = File::open(path).map_err(|error| Error::file("open", path, error))?;
        let about = file.metadata();
        let len = about
            .map_err(|error| Error::file("find", path, error))?
            .len();
        Ok(Reads {
            file: Arc::new(file),
            len,
            at: 0,
            buffer: Vec::new(),
            buffer_at: 0,
        })
    }
}

impl Clone for Reads {
    fn clone(&self) -> Reads {
        Reads {
            file: Arc::clone(&self.file),
            len: self.len,
            at: self.at,
            buffer: Vec::new(),
            buffer_at: 0,
        }
    }
}

impl Read for Reads {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let end = self.buffer_at + self.buffer.len() as u64;
        if !(self.buffer_at..end).contains(&self.at) {
            self.buffer.resize(READ_BYTES, 0);
            let read = self.file.read_at(&mut self.buffer, self.at)?;
            self.buffer.truncate(read);
            self.buffer_at = self.at;
        }
        let rest = &self.buffer[(self.at - self.buffer_at) as usize..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Reads {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
