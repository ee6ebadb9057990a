//! Inputs of the stream commands: a file, or standard input.
//!
//! The reader counts the bytes read, so that a failure is reported with its offset.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use millstream_io::Errno;
use millstream_io::fs::file::{self, Kind};

use crate::failure::{Failure, check_path};
use crate::limits::IO_CHUNK_BYTES;
use crate::output::follow_links;
use crate::progress;
use crate::standard;

/// An input of a command.
pub(crate) struct Input {
    /// The name, for messages.
    pub(crate) name: OsString,
    pub(crate) file: File,
    /// Length in bytes of a regular file; `None` for anything else.
    pub(crate) len: Option<u64>,
    /// Number of bytes read so far.
    pub(crate) read_bytes: u64,
}

impl Input {
    /// Opens the input named on the command line, `-` for standard input.
    pub(crate) fn open(name: &OsStr) -> Result<Input, Failure> {
        let stdin = name == "-";
        let opened = if stdin {
            standard::input()
        } else {
            check_path(Path::new(name), "read")?;
            refuse_fifo(Path::new(name))?;
            File::open(name)
        };
        let checked = opened.and_then(|file| {
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::from_raw_os_error(Errno::IS_FOLDER.0));
            }
            Ok((file, metadata.is_file().then_some(metadata.len())))
        });
        let name = if stdin {
            OsString::from("standard input")
        } else {
            name.to_owned()
        };
        let (file, len) = checked.map_err(|error| Failure::io(&name, "read", &error))?;
        progress::begin(len);
        Ok(Input {
            name,
            file,
            len,
            read_bytes: 0,
        })
    }

    /// Returns the failure for a read that failed with `error`, at the current offset.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        Failure::io(&self.name, "read", error).at(self.read_bytes)
    }
}

/// Refuses a FIFO, whose opening would wait for a writer that may never come. The procfs links
/// behind `/dev/stdin` and a shell's `<(...)` lead to pipes that are already open, and are allowed.
pub(crate) fn refuse_fifo(path: &Path) -> Result<(), Failure> {
    let is_fifo = std::fs::metadata(path).is_ok_and(|about| file::kind(&about) == Kind::Fifo);
    if !is_fifo || follow_links(path).is_ok_and(|found| found.is_none()) {
        return Ok(());
    }
    let cause = "a FIFO, whose opening waits for a writer; standard input, named -, may be one";
    Err(Failure::new(path, cause))
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = into.len().min(IO_CHUNK_BYTES);
        let count = self.file.read(&mut into[..wanted])?;
        self.read_bytes += count as u64;
        progress::advance(count as u64);
        Ok(count)
    }
}
