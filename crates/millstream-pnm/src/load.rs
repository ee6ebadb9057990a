//! Loading images from files.
//!
//! Text is read in windows that stay in the second-level cache, and parsed there: copying it out of
//! the page cache in such pieces costs less than mapping it and touching every page. One-byte
//! samples are read directly into the image. Several threads each read the windows that they parse.
//!
//! Input without a reliable length (a pipe, a device, a file of procfs) is read window by window by
//! one thread, and the image grows with its samples: what is not an image is rejected at its first
//! bytes, and at most the rest of a window is read past the image.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use millstream_io::fs::file;

use crate::decode::{Building, Options, find_line};
use crate::error::{Error, Fault};
use crate::format::Header;
use crate::image::Image;
use crate::limits::{HEAD_BYTES, WINDOW_BYTES};
use crate::parallel::Text;
use crate::parser::{Parser, Stage};
use crate::raw;

/// Bytes read directly into an image at a time, and then checked if the maximal value requires it.
const RAW_READ_BYTES: usize = 1 << 20;

/// Loads the first image of a file with default options; see [`Loader::load`].
///
/// # Errors
/// Those of [`Loader::load`].
pub fn load(path: impl AsRef<Path>) -> Result<Image, Error> {
    let mut image = Image::empty();
    Loader::new(Options::default()).load(path, &mut image)?;
    Ok(image)
}

/// A loader of files that reuses its memory.
pub struct Loader {
    options: Options,
    window: Vec<u8>,
}

impl Loader {
    /// Creates a loader. It allocates its memory, a window of 256 KiB, with the first file.
    #[must_use]
    pub fn new(options: Options) -> Loader {
        Loader {
            options,
            window: Vec::new(),
        }
    }

    /// Loads the first image of a file into `image`, reusing its memory. For what may follow it see
    /// [`decode`](crate::decode()). Blocks on the file; may use several threads (see [`Options`]).
    ///
    /// # Errors
    /// The file cannot be read, its bytes violate the format, or the image is too large; `image`
    /// then has no pixels.
    pub fn load(&mut self, path: impl AsRef<Path>, image: &mut Image) -> Result<(), Error> {
        let loaded = self.load_file(path.as_ref(), image);
        loaded.inspect_err(|_| image.clear())
    }

    /// Loads the first image of a sequential input such as a pipe, like [`Loader::load`]. It reads
    /// until what follows the image is known, and at most one window of 256 KiB further; it uses
    /// the memory of the image and the window, and one thread.
    ///
    /// # Errors
    /// Those of [`Loader::load`].
    pub fn load_from(&mut self, reader: &mut dyn Read, image: &mut Image) -> Result<(), Error> {
        let loaded = self.load_stream(reader, image);
        loaded.inspect_err(|_| image.clear())
    }

    fn load_file(&mut self, path: &Path, image: &mut Image) -> Result<(), Error> {
        let file = File::open(path).map_err(|error| Error::io(error, 0))?;
        let metadata = file.metadata().map_err(|error| Error::io(error, 0))?;
        // Files generated on read (procfs) report length 0.
        if !metadata.is_file() || metadata.len() == 0 {
            return self.load_stream(&mut &file, image);
        }
        self.window.resize(WINDOW_BYTES, 0);
        let loaded = self.load_regular(&file, metadata.len(), image);
        loaded.map_err(|error| find_line(error, &file))
    }

    fn load_regular(&mut self, file: &File, len: u64, image: &mut Image) -> Result<(), Error> {
        if len > WINDOW_BYTES as u64 {
            file::expect_sequential(file);
        }
        let mut window = Window {
            file,
            memory: &mut self.window,
            len,
            begin: 0,
            read: 0,
        };
        let parser = Parser::without_lines(self.options.kernel);
        let mut building = Building::new(image, &self.options, parser);
        while building.parser.stage() == Stage::Header
            && let Some(bytes) = window.at(building.parser.offset())?
        {
            building.header(bytes, len.saturating_sub(building.parser.offset()))?;
        }
        let header = building.parser.header();
        if header.is_some_and(Header::is_bytes) {
            if let Some(bytes) = window.at(building.parser.offset())? {
                building.push(bytes)?;
            }
            read_bytes(file, &mut building)?;
        } else {
            building.in_parallel(file, len);
        }
        while building.parser.stage() != Stage::Another
            && let Some(bytes) = window.at(building.parser.offset())?
        {
            building.push(bytes)?;
        }
        building.finish()
    }

    /// Loads input of unknown length.
    fn load_stream(&mut self, reader: &mut dyn Read, image: &mut Image) -> Result<(), Error> {
        self.window.resize(WINDOW_BYTES, 0);
        // This parser counts lines as it goes, because the bytes cannot be read again.
        let parser = Parser::with_kernel(self.options.kernel);
        let mut building = Building::new(image, &self.options, parser);
        while building.parser.stage() != Stage::Another {
            let read = match reader.read(&mut self.window) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io(error, building.parser.offset())),
            };
            let mut left = &self.window[..read];
            while !left.is_empty() && building.parser.stage() != Stage::Another {
                let taken = if building.parser.stage() == Stage::Header {
                    building.header(left, left.len() as u64)?
                } else {
                    building.grow(left.len())?;
                    building.push(left)?
                };
                left = &left[taken..];
            }
        }
        building.finish()
    }
}

/// A cursor over a file, window by window.
struct Window<'a> {
    file: &'a File,
    memory: &'a mut [u8],
    /// The file's length when it was opened: bytes past it are not read.
    len: u64,
    /// Offset of the current window in the file.
    begin: u64,
    /// Number of bytes in the window.
    read: usize,
}

impl Window<'_> {
    /// Returns the window's bytes from `offset` on, after reading a new window if none are left;
    /// `None` at the end of the file. `offset` must not decrease from call to call.
    fn at(&mut self, offset: u64) -> Result<Option<&[u8]>, Error> {
        // The file may have grown: there is no memory for samples past its initial length.
        let left = self.len.saturating_sub(offset);
        if left == 0 {
            return Ok(None);
        }
        if offset >= self.begin + self.read as u64 {
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let first = offset == 0 && self.len > WINDOW_BYTES as u64;
            let most = if first { HEAD_BYTES } else { WINDOW_BYTES };
            let room = &mut self.memory[..most.min(left)];
            self.read =
                read_at(self.file, room, offset).map_err(|error| Error::io(error, offset))?;
            self.begin = offset;
        }
        let bytes = &self.memory[(offset - self.begin) as usize..self.read];
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

/// Reads once, retrying if interrupted by a signal.
fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file::read_at(file, into, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads one-byte samples directly into the image, until they or the file end.
fn read_bytes(file: &File, building: &mut Building<'_>) -> Result<(), Error> {
    let maxval = building.parser.header().map_or(255, |header| header.maxval);
    while building.parser.stage() == Stage::Samples && !building.rest().is_empty() {
        let offset = building.parser.offset();
        let rest = building.rest();
        let room = rest.len().min(RAW_READ_BYTES);
        let read =
            read_at(file, &mut rest[..room], offset).map_err(|error| Error::io(error, offset))?;
        if read == 0 {
            break;
        }
        raw::check_bytes(&rest[..read], maxval)
            .map_err(|Fault { kind, at }| Error::at(kind, offset.saturating_add_signed(at)))?;
        building.skip_to(offset + read as u64, read);
    }
    Ok(())
}

impl Text for File {
    fn window<'a>(&'a self, start: u64, end: u64, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let len = usize::try_from(end - start).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let into = &mut buffer[..len];
        file::read_exact_at(self, into, start)?;
        Ok(into)
    }
}

/// A memory-mapped file, for [`view`](crate::view).
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps a file. With `populate` its pages are mapped at once, which is cheaper if all of them
    /// are accessed; otherwise opening takes microseconds for any size.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    ///
    /// # Safety
    /// The file must not be changed or truncated while it is mapped: access to a page past its end
    /// kills the process with SIGBUS.
    #[expect(
        unsafe_code,
        reason = "only the caller knows who else writes to the file"
    )]
    pub unsafe fn open(path: impl AsRef<Path>, populate: bool) -> Result<Mapped, Error> {
        let file = File::open(path).map_err(|error| Error::io(error, 0))?;
        let mut options = memmap2::MmapOptions::new();
        if populate {
            options.populate();
        }
        // SAFETY: guaranteed by the caller.
        let mapped = unsafe { options.map(&file) };
        mapped.map(Mapped).map_err(|error| Error::io(error, 0))
    }

    /// Returns the file's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_file_that_grows_while_it_is_read_ends_where_it_ended_before() {
        for (format, comment) in [("P5", 0), ("P2", 0), ("P2", HEAD_BYTES)] {
            let mut file = tempfile::tempfile().expect("a temporary file");
            let comment = "c".repeat(comment);
            let head = format!("{format} #{comment}\n400 400 255\n");
            file.write_all(head.as_bytes()).expect("written");
            file.write_all(&b"1 ".repeat(400 * 400)).expect("written");
            for samples in [0, 1, 1000] {
                let mut loader = Loader::new(Options::default());
                loader.window.resize(WINDOW_BYTES, 0);
                let (len, mut image) = ((head.len() + samples) as u64, Image::empty());
                let error = loader.load_regular(&file, len, &mut image);
                let error = error.expect_err("the samples are missing");
                assert!(matches!(error.kind, ErrorKind::Truncated), "{error}");
            }
        }
    }

    #[test]
    fn the_end_of_a_file_is_known_without_a_read() {
        let named = tempfile::NamedTempFile::new().expect("a temporary file");
        let file = File::options().write(true).open(named.path());
        let mut window = Window {
            file: &file.expect("opened"),
            memory: &mut [0; 16],
            len: 16,
            begin: 0,
            read: 0,
        };
        // Any read fails, even one of no bytes: the file is open only for writing.
        assert!(window.at(15).is_err());
        assert!(window.at(16).expect("no read").is_none());
    }
}
