//! Decoding images from bytes in memory.

use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Place};
use crate::format::{Format, Header};
use crate::image::Image;
use crate::kernel::Kernel;
use crate::limits::{IMAGE_BYTES_MAX, THREADS_MAX, WINDOW_BYTES};
use crate::parallel::{self, Text};
use crate::parser::{Parser, Stage};

/// Options for decoding.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kernel; by default the fastest.
    pub kernel: Kernel,
    /// Maximum number of threads that parse one text image, including the caller's; by default one
    /// per core, at most 64. Short texts are parsed by one.
    pub threads: usize,
    /// Maximum size of an image in memory, in bytes; 64 GiB by default and at most.
    pub image_bytes_max: u64,
    /// Whether the bytes after the first image are ignored, whatever they are; no by default.
    pub first_only: bool,
}

impl Default for Options {
    fn default() -> Options {
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = || std::thread::available_parallelism().map_or(1, |count| count.get());
        Options {
            kernel: Kernel::fastest(),
            threads: (*CORES.get_or_init(cores)).min(THREADS_MAX),
            image_bytes_max: IMAGE_BYTES_MAX,
            first_only: false,
        }
    }
}

/// Decodes the first image of `bytes`. What follows it must be white space (in text formats also
/// comments), and then nothing or another image; after P1 and white space it may be anything.
///
/// # Errors
/// The bytes violate the format, or the image is too large; the error has the position.
pub fn decode(bytes: &[u8]) -> Result<Image, Error> {
    let mut image = Image::empty();
    decode_into(bytes, &Options::default(), &mut image)?;
    Ok(image)
}

/// Like [`decode`], into `image`, whose memory is reused. Returns the number of bytes before the
/// next image, or of all bytes. Offsets, lines and columns count from the start of `bytes`.
///
/// # Errors
/// Those of [`decode`]; `image` then has no pixels.
pub fn decode_into(bytes: &[u8], options: &Options, image: &mut Image) -> Result<usize, Error> {
    let parser = Parser::without_lines(options.kernel);
    let decoded = Building::new(image, options, parser).whole(bytes);
    decoded.map_err(|error| {
        image.clear();
        find_line(error, bytes)
    })
}

/// Sets line and column of the error of a parser that does not count lines; removes them if the
/// text before the error cannot be read.
pub(crate) fn find_line(error: Error, text: &(impl Text + ?Sized)) -> Error {
    if error.line.is_none() {
        return error;
    }
    let (mut place, mut buffer) = (Place::default(), Vec::new());
    while place.offset < error.offset {
        let end = error.offset.min(place.offset + WINDOW_BYTES as u64);
        match text.window(place.offset, end, &mut buffer) {
            Ok(bytes) => place.advance(bytes, true),
            Err(_) => return Error::at(error.kind, error.offset),
        }
    }
    let (line, column) = place.line_and_column();
    Error {
        line: Some(line),
        column: Some(column),
        ..error
    }
}

/// Returns the maximum number of samples per byte of the file.
fn samples_per_byte_max(header: &Header) -> u64 {
    if header.format == Format::Bitmap {
        8
    } else {
        1
    }
}

/// An image under construction.
pub(crate) struct Building<'a> {
    pub(crate) parser: Parser,
    image: &'a mut Image,
    options: &'a Options,
    made_bytes: usize,
    /// Whether the samples' memory is new, never touched.
    fresh: bool,
}

impl<'a> Building<'a> {
    pub(crate) fn new(image: &'a mut Image, options: &'a Options, parser: Parser) -> Building<'a> {
        Building {
            parser: parser.first_only(options.first_only),
            image,
            options,
            made_bytes: 0,
            fresh: false,
        }
    }

    fn whole(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.header(bytes, bytes.len() as u64)?;
        self.in_parallel(bytes, bytes.len() as u64);
        // Within `bytes`, so it fits `usize`.
        let at = self.parser.offset() as usize;
        let taken = self.push(&bytes[at..])?;
        self.finish()?;
        Ok(at + taken)
    }

    /// Consumes bytes up to the end of the header, and makes room for the samples: never more than
    /// the file's `bytes_left`, from here on, can hold, whatever the header states.
    pub(crate) fn header(&mut self, bytes: &[u8], bytes_left: u64) -> Result<usize, Error> {
        let parser = &mut self.parser;
        let taken = parser.push(bytes, &mut [])?.consumed;
        if parser.stage() != Stage::Samples {
            return Ok(taken);
        }
        let header = parser.header().expect("samples are behind a header");
        if !header.fits(self.options.image_bytes_max) {
            return Err(Error::at(ErrorKind::TooLarge, parser.offset()));
        }
        let left = bytes_left.saturating_sub(taken as u64);
        let samples = header.sample_count();
        // If bytes are missing, the samples end before this room does; the error then reports that
        // position, or an earlier fault.
        let room = if left < header.raster_bytes_min() {
            samples.min(left.saturating_mul(samples_per_byte_max(header)))
        } else {
            samples
        };
        let count = usize::try_from(room).expect("within the limit, which is of bytes");
        let made = self.image.samples.make_room(header.sample_bytes(), count);
        self.fresh = made.map_err(|kind| Error::at(kind, parser.offset()))?;
        self.image.header = header.clone();
        Ok(taken)
    }

    /// Makes room for the samples that `bytes` more bytes can hold, for input of unknown length.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let header = &self.image.header;
        let of_header = "within the limit, which is of bytes";
        let samples = usize::try_from(header.sample_count()).expect(of_header);
        let per_byte = samples_per_byte_max(header) as usize;
        let made = self.made_bytes / header.sample_bytes();
        let count = samples.min(made.saturating_add(bytes.saturating_mul(per_byte)));
        let grown = self.image.samples.grow(count, samples);
        grown.map_err(|kind| Error::at(kind, self.parser.offset()))
    }

    /// Parses text on several threads as far as possible, and advances the parser accordingly.
    pub(crate) fn in_parallel(&mut self, text: &(impl Text + ?Sized), text_len: u64) {
        let threads = self.options.threads.min(THREADS_MAX);
        let left = text_len.saturating_sub(self.parser.offset());
        let pays = threads > 1 && left >= crate::limits::THREADED_BYTES_MIN;
        if !pays || !self.parser.is_between_numbers() {
            return;
        }
        let job = parallel::Job {
            kernel: self.options.kernel,
            threads,
            maxval: self.image.header.maxval,
            from: self.parser.offset(),
            text_len,
            fresh: self.fresh,
        };
        let (offset, made_bytes) = parallel::run(&job, text, self.rest());
        self.skip_to(offset, made_bytes);
    }

    /// Records samples that were written directly into [`Building::rest`].
    pub(crate) fn skip_to(&mut self, offset: u64, made_bytes: usize) {
        self.parser.skip_to(offset, made_bytes);
        self.made_bytes += made_bytes;
    }

    /// Returns the room for the missing samples.
    pub(crate) fn rest(&mut self) -> &mut [u8] {
        &mut self.image.samples.as_bytes_mut()[self.made_bytes..]
    }

    /// Consumes bytes after the header; returns how many.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let rest = &mut self.image.samples.as_bytes_mut()[self.made_bytes..];
        let pushed = self.parser.push(bytes, rest)?;
        self.made_bytes += pushed.produced_bytes;
        Ok(pushed.consumed)
    }

    /// Ends the file.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let rest = &mut self.image.samples.as_bytes_mut()[self.made_bytes..];
        self.made_bytes += self.parser.finish(rest)?;
        assert_eq!(self.made_bytes, self.image.samples.as_bytes().len());
        Ok(())
    }
}
