//! The incremental parser of an image: header, samples, and what may follow.
//!
//! All sources use it: bytes in memory, files read in windows, blocks from the engine. It holds no
//! samples and no text, only its position; so an image takes the memory of the image and the
//! caller's window.
//!
//! ```
//! use millstream_pnm::Parser;
//! let mut parser = Parser::new();
//! let mut samples = vec![0; 4];
//! let mut made = 0;
//! for piece in [&b"P2 2 2 # a comment st"[..], b"raddles\n255 1 20 2", b"55 0"] {
//!     let mut left = piece;
//!     while !left.is_empty() {
//!         let moved = parser.push(left, &mut samples[made..])?;
//!         left = &left[moved.consumed..];
//!         made += moved.produced_bytes;
//!     }
//! }
//! made += parser.finish(&mut samples[made..])?;
//! assert_eq!((made, &samples[..]), (4, &[1, 20, 255, 0][..]));
//! # Ok::<(), millstream_pnm::Error>(())
//! ```

use crate::error::{Error, ErrorKind, Fault, Place};
use crate::format::{Format, Header};
use crate::header::{HeaderParser, ends_comment, is_white};
use crate::kernel::Kernel;
use crate::raw::RawSamples;
use crate::text::{Moved, TextSamples, bits};

/// The result of [`Parser::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pushed {
    /// Bytes consumed.
    pub consumed: usize,
    /// Bytes of samples written: one per sample, or two in native byte order.
    pub produced_bytes: usize,
}

/// The part of the file that the parser is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before or in a header.
    Header,
    /// The header is known; samples are missing.
    Samples,
    /// All samples are written; only separators or another image may follow.
    Behind,
    /// Another image begins at the next byte, or bytes that are ignored.
    Another,
}

/// A parser of an image that arrives in pieces. It never blocks, and allocates only for a line and
/// the tuple type of a PAM header.
pub struct Parser {
    kernel: Kernel,
    state: State,
    header: Option<Header>,
    /// Bytes of samples still missing.
    missing_bytes: u64,
    place: Place,
    /// Whether line feeds are counted during parsing. A caller that keeps the text counts them only
    /// to locate an error: counting takes a third of the time of the fastest kernel.
    counts_lines: bool,
    /// Whether the bytes after the image are ignored.
    first_only: bool,
    failed: bool,
}

/// The consumer of the next byte.
enum State {
    Header(HeaderParser),
    /// Samples of P1.
    Bits {
        in_comment: bool,
    },
    Text(TextSamples),
    Raw(RawSamples),
    Behind {
        in_comment: bool,
        /// After white space behind P1, where its format allows any bytes.
        any_follows: bool,
    },
    Another,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::new()
    }
}

impl Parser {
    /// Creates a parser at the first byte of a file.
    #[must_use]
    pub fn new() -> Parser {
        Parser::with_kernel(Kernel::fastest())
    }

    /// Creates a parser with this kernel, or the portable one if this machine cannot run it.
    #[must_use]
    pub fn with_kernel(kernel: Kernel) -> Parser {
        Parser {
            kernel,
            state: State::Header(HeaderParser::new()),
            header: None,
            missing_bytes: 0,
            place: Place::default(),
            counts_lines: true,
            first_only: false,
            failed: false,
        }
    }

    /// Creates a parser that does not count lines: the caller corrects the line and column of its
    /// errors with [`find_line`](crate::decode::find_line).
    pub(crate) fn without_lines(kernel: Kernel) -> Parser {
        Parser {
            counts_lines: false,
            ..Parser::with_kernel(kernel)
        }
    }

    /// Sets whether the bytes after the image are ignored, whatever they are.
    pub(crate) fn first_only(mut self, first_only: bool) -> Parser {
        self.first_only = first_only;
        self
    }

    /// Returns the part of the file that the parser is in.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.state {
            State::Header(_) => Stage::Header,
            State::Bits { .. } | State::Text(_) | State::Raw(_) => Stage::Samples,
            State::Behind { .. } => Stage::Behind,
            State::Another => Stage::Another,
        }
    }

    /// Returns the image's header once it is parsed.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Returns the bytes consumed since the start of the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Returns the bytes of samples still missing; 0 until the header is parsed.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// Whether all bytes so far are text.
    fn is_text(&self) -> bool {
        let plain = |header: &Header| header.format.is_plain();
        self.header.as_ref().is_none_or(plain)
    }

    /// Consumes bytes and writes samples until either runs out, until the header ends (so that the
    /// caller can make room), or until another image begins. While samples are missing, progress
    /// needs room for at least one.
    ///
    /// # Errors
    /// The bytes violate the format; samples written by earlier calls are valid. Nothing may be
    /// pushed after an error.
    ///
    /// # Panics
    /// If bytes are pushed after an error.
    pub fn push(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Pushed, Error> {
        assert!(!self.failed, "bytes were pushed after an error");
        let mut pushed = Pushed::default();
        while pushed.consumed < bytes.len() && self.stage() != Stage::Another {
            let was = self.stage();
            let moved = self.step(&bytes[pushed.consumed..], &mut out[pushed.produced_bytes..])?;
            pushed.consumed += moved.consumed;
            pushed.produced_bytes += moved.produced;
            let header_ended = was == Stage::Header && self.stage() == Stage::Samples;
            if moved == Moved::default() || header_ended {
                break;
            }
        }
        Ok(pushed)
    }

    /// Runs the current state on `bytes`; `produced` of the result counts bytes of samples.
    fn step(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Moved, Error> {
        let missing = usize::try_from(self.missing_bytes).unwrap_or(usize::MAX);
        let room = out.len().min(missing);
        let out = &mut out[..room];
        let format = self.header.as_ref().map(|header| header.format);
        let moved = match &mut self.state {
            State::Header(parser) => parser.push(bytes).map(|(consumed, header)| {
                self.header = header;
                Moved::over(consumed)
            }),
            State::Bits { in_comment } => bits(bytes, out, in_comment),
            State::Text(text) => text.feed(bytes, out),
            State::Raw(raw) => raw.feed(bytes, out),
            State::Behind {
                in_comment,
                any_follows,
            } => behind(bytes, format, in_comment, any_follows),
            State::Another => Ok(Moved::default()),
        };
        let mut moved = moved.map_err(|fault| self.error(fault, bytes))?;
        let counts = self.counts_lines && self.is_text();
        self.place.advance(&bytes[..moved.consumed], counts);
        match self.state {
            State::Header(_) => self.begin_samples(),
            State::Behind { .. } if moved.consumed < bytes.len() => self.state = State::Another,
            State::Behind { .. } | State::Another => {}
            State::Bits { .. } | State::Text(_) | State::Raw(_) => {
                moved.produced *= self.sample_bytes();
                self.made(moved.produced);
            }
        }
        Ok(moved)
    }

    /// Begins the samples if the header is complete.
    fn begin_samples(&mut self) {
        let Some(header) = &self.header else {
            return;
        };
        self.missing_bytes = header.image_bytes();
        self.state = match header.format {
            Format::PlainBitmap => State::Bits { in_comment: false },
            format if format.is_plain() => {
                State::Text(TextSamples::new(header.maxval, self.kernel))
            }
            _ => State::Raw(RawSamples::new(header)),
        };
    }

    /// Records `bytes` of samples as written; after the last of them the image has ended.
    fn made(&mut self, bytes: usize) {
        self.missing_bytes -= bytes as u64;
        if self.missing_bytes > 0 {
            return;
        }
        let in_comment = match &self.state {
            State::Bits { in_comment } => *in_comment,
            State::Text(text) => text.in_comment(),
            _ => false,
        };
        self.state = match self.first_only {
            true => State::Another,
            false => State::Behind {
                in_comment,
                any_follows: false,
            },
        };
    }

    fn sample_bytes(&self) -> usize {
        self.header.as_ref().map_or(1, Header::sample_bytes)
    }

    /// Ends the file, which completes a last number that nothing follows. Returns the bytes of
    /// samples written, at most two.
    ///
    /// # Errors
    /// The image is incomplete.
    pub fn finish(&mut self, out: &mut [u8]) -> Result<usize, Error> {
        let mut written = 0;
        if let State::Text(text) = &mut self.state
            && text.end(out)
        {
            written = self.sample_bytes();
            self.made(written);
        }
        match self.stage() {
            Stage::Header | Stage::Samples => {
                Err(self.error(Fault::new(ErrorKind::Truncated, 0), &[]))
            }
            Stage::Behind | Stage::Another => Ok(written),
        }
    }

    /// Whether the parser is between two numbers of text, with samples missing, so that a kernel
    /// may continue from here.
    pub(crate) fn is_between_numbers(&self) -> bool {
        matches!(&self.state, State::Text(text) if text.is_between())
    }

    /// Skips to `offset`, which is between two numbers or in samples that are not text: the samples
    /// up to there, `produced_bytes`, were written without this parser.
    pub(crate) fn skip_to(&mut self, offset: u64, produced_bytes: usize) {
        debug_assert!(!self.counts_lines);
        self.place.offset = offset;
        self.made(produced_bytes);
    }

    /// Creates the error for a fault in `bytes`, which begin at the parser's position.
    fn error(&mut self, fault: Fault, bytes: &[u8]) -> Error {
        self.failed = true;
        let is_text = self.is_text();
        let inside = usize::try_from(fault.at).unwrap_or(0);
        let mut place = self.place;
        place.advance(
            &bytes[..inside.min(bytes.len())],
            is_text && self.counts_lines,
        );
        // A number that began in an earlier piece is on this line: it contains no line feed.
        place.offset = place.offset.saturating_add_signed(fault.at.min(0));
        let (line, column) = place.line_and_column();
        Error {
            kind: fault.kind,
            offset: place.offset,
            line: is_text.then_some(line),
            column: is_text.then_some(column),
        }
    }
}

/// Consumes what may follow an image, up to another image: white space and, after text, comments.
/// After P1 and white space any bytes may follow (pbm(5)), which are not consumed.
fn behind(
    bytes: &[u8],
    format: Option<Format>,
    in_comment: &mut bool,
    any_follows: &mut bool,
) -> Result<Moved, Fault> {
    let is_text = format.is_some_and(Format::is_plain);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if *in_comment => *in_comment = !ends_comment(byte),
            b'#' if is_text => *in_comment = true,
            byte if is_white(byte) => *any_follows = format == Some(Format::PlainBitmap),
            b'P' => return Ok(Moved::over(at)),
            _ if *any_follows => return Ok(Moved::over(at)),
            _ => return Err(Fault::new(ErrorKind::TrailingBytes, at)),
        }
    }
    Ok(Moved::over(bytes.len()))
}
