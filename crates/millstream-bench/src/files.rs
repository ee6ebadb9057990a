//! Opening and reading files without the engine.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use crate::error::{Context, Error, Result};

/// Alignment of offsets and lengths of direct reads: a page suits every block size up to it.
pub(crate) const DIRECT_ALIGNMENT: u64 = 4096;

/// Opens for reading past the page cache.
pub(crate) fn open_direct(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).on("open for direct reads", path)
}

/// Opens for reading through the page cache.
pub(crate) fn open_buffered(path: &Path) -> Result<File> {
    File::open(path).on("open", path)
}

/// Reads until `into` is full or the file ends.
pub(crate) fn read_up_to(file: &mut File, into: &mut [u8]) -> std::io::Result<usize> {
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

/// Fills `into` from `offset` on.
pub(crate) fn pread(file: &OwnedFd, into: &mut [u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while done < into.len() {
        match rustix::io::pread(file, &mut into[done..], offset + done as u64) {
            Ok(0) => return Err(Error::new(format!("the file ends in a read at {offset}"))),
            Ok(read) => done += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).what("pread"),
        }
    }
    Ok(())
}

/// Makes a folder with its parents.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).on("make", path)
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).on("remove", path)
}

/// Bytes of a file.
pub(crate) fn len_of(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).on("find", path)?.len())
}
