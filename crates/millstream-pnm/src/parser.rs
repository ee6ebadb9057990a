//! The parser that takes an image in pieces: header, samples, and what may follow.
//!
//! Every way to an image leads through it: bytes in memory, files read in windows, blocks that the
//! engine delivers. It holds no samples and no text, only where it stands; so the memory that an
//! image takes is the image and the caller's window.
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

use crate::error::{Error, ErrorKind, Fault};
use crate::format::{Format, Header};
use crate::header::{HeaderParser, ends_comment, is_white};
use crate::kernel::Kernel;
use crate::place::Place;
use crate::raw::RawSamples;
use crate::text::{Moved, TextBits, TextSamples};

/// What a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pushed {
    /// Bytes taken.
    pub consumed: usize,
    /// Bytes of samples written: one a sample, or two in the machine's order.
    pub produced_bytes: usize,
}

/// Where the parser stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before or in a header.
    Header,
    /// The header is known; samples are missing.
    Samples,
    /// All samples are there; what follows is looked at.
    Behind,
    /// Another image begins at the next byte.
    Another,
}

/// Takes an image in pieces, see the module. It never blocks and allocates nothing but a line of a
/// PAM header.
pub struct Parser {
    kernel: Kernel,
    header_parser: HeaderParser,
    header: Option<Header>,
    samples: Samples,
    /// Bytes of samples that are missing.
    missing_bytes: u64,
    stage: Stage,
    place: Place,
    /// Line feeds are counted on the way. A caller that still has the text counts them only for
    /// the place of an error: counting takes a third of the time that the fastest kernel takes.
    counts_lines: bool,
    failed: bool,
}

enum Samples {
    Bits(TextBits),
    Text(TextSamples),
    Raw(RawSamples),
    /// Behind the samples, in a comment or not; comments are of text only.
    Behind {
        in_comment: bool,
        text: bool,
    },
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::new()
    }
}

impl Parser {
    /// A parser at the first byte of a file.
    #[must_use]
    pub fn new() -> Parser {
        Parser::with_kernel(Kernel::fastest())
    }

    /// A parser that uses this kernel; the portable one, where the machine cannot run it.
    #[must_use]
    pub fn with_kernel(kernel: Kernel) -> Parser {
        Parser {
            kernel,
            header_parser: HeaderParser::new(),
            header: None,
            samples: Samples::Behind {
                in_comment: false,
                text: true,
            },
            missing_bytes: 0,
            stage: Stage::Header,
            place: Place::default(),
            counts_lines: true,
            failed: false,
        }
    }

    /// A parser whose errors have lines and columns as of one long line: the caller mends them with
    /// [`Error::find_line`].
    pub(crate) fn without_lines(kernel: Kernel) -> Parser {
        Parser {
            counts_lines: false,
            ..Parser::with_kernel(kernel)
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The image's header, once it is known.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Bytes taken since the start of the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Bytes of samples that are still missing; 0 while the header is not known.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// Whether all until here is text.
    fn is_text(&self) -> bool {
        let plain = |header: &Header| header.format.is_plain();
        self.header.as_ref().is_none_or(plain)
    }

    /// Takes bytes and writes samples until either runs out, until the header ends (so that the
    /// caller can make room), or until another image begins. With samples missing it needs room
    /// for one to go on.
    ///
    /// # Errors
    /// The bytes break the format; the samples written before are right. Nothing may be pushed
    /// after an error.
    ///
    /// # Panics
    /// If bytes are pushed after an error.
    pub fn push(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Pushed, Error> {
        assert!(!self.failed, "bytes were pushed after an error");
        let mut pushed = Pushed::default();
        while pushed.consumed < bytes.len() && self.stage != Stage::Another {
            let was = self.stage;
            let moved = self.step(&bytes[pushed.consumed..], &mut out[pushed.produced_bytes..])?;
            pushed.consumed += moved.consumed;
            pushed.produced_bytes += moved.produced;
            if moved == Moved::default() || (was == Stage::Header && self.stage == Stage::Samples) {
                break;
            }
        }
        Ok(pushed)
    }

    /// One stage's work on some bytes; `produced` counts bytes here.
    fn step(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Moved, Error> {
        let result = match self.stage {
            Stage::Header => self.take_header(bytes),
            Stage::Samples => self.take_samples(bytes, out),
            Stage::Behind => self.take_behind(bytes),
            Stage::Another => Ok(Moved::default()),
        };
        match result {
            Ok(moved) => {
                let counts = self.counts_lines && self.is_text();
                self.place.advance(&bytes[..moved.consumed], counts);
                if self.stage == Stage::Samples && self.missing_bytes == 0 {
                    self.begin_behind();
                }
                Ok(moved)
            }
            Err(fault) => Err(self.error(fault, bytes)),
        }
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<Moved, Fault> {
        let (consumed, header) = self.header_parser.push(bytes)?;
        if let Some(header) = header {
            self.missing_bytes = header.image_bytes();
            self.samples = match header.format {
                Format::PlainBitmap => Samples::Bits(TextBits::new()),
                format if format.is_plain() => {
                    Samples::Text(TextSamples::new(header.maxval, self.kernel))
                }
                _ => Samples::Raw(RawSamples::new(&header)),
            };
            self.header = Some(header);
            self.stage = Stage::Samples;
        }
        Ok(Moved {
            consumed,
            produced: 0,
        })
    }

    fn take_samples(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Moved, Fault> {
        let missing = usize::try_from(self.missing_bytes).unwrap_or(usize::MAX);
        let room = out.len().min(missing);
        let out = &mut out[..room];
        let mut moved = match &mut self.samples {
            Samples::Bits(bits) => bits.feed(bytes, out)?,
            Samples::Text(text) => text.feed(bytes, out)?,
            Samples::Raw(raw) => raw.feed(bytes, out)?,
            Samples::Behind { .. } => unreachable!("samples are missing"),
        };
        let header = self.header.as_ref().expect("samples are behind a header");
        moved.produced *= header.sample_bytes();
        self.missing_bytes -= moved.produced as u64;
        Ok(moved)
    }

    fn begin_behind(&mut self) {
        let header = self.header.as_ref();
        let text = header.is_some_and(|header| header.format.is_plain());
        let in_comment = match &self.samples {
            Samples::Bits(bits) => bits.in_comment(),
            Samples::Text(text) => text.in_comment(),
            Samples::Raw(_) | Samples::Behind { .. } => false,
        };
        self.samples = Samples::Behind { in_comment, text };
        self.stage = Stage::Behind;
    }

    /// White space may follow, and behind text comments; then another image or the end.
    fn take_behind(&mut self, bytes: &[u8]) -> Result<Moved, Fault> {
        let Samples::Behind { in_comment, text } = &mut self.samples else {
            unreachable!("all samples are there");
        };
        let mut consumed = 0;
        for &byte in bytes {
            match byte {
                _ if *in_comment => *in_comment = !ends_comment(byte),
                b'#' if *text => *in_comment = true,
                byte if is_white(byte) => {}
                b'P' => {
                    self.stage = Stage::Another;
                    break;
                }
                _ => return Err(Fault::new(ErrorKind::TrailingBytes, consumed)),
            }
            consumed += 1;
        }
        Ok(Moved {
            consumed,
            produced: 0,
        })
    }

    /// The file has ended: a last number that nothing followed is whole now. Bytes of samples
    /// written, at most two.
    ///
    /// # Errors
    /// The image is not whole.
    pub fn finish(&mut self, out: &mut [u8]) -> Result<usize, Error> {
        let mut written = 0;
        if let (Stage::Samples, Samples::Text(text)) = (self.stage, &mut self.samples)
            && text.end(out)
        {
            written = self.header.as_ref().map_or(1, Header::sample_bytes);
            self.missing_bytes -= written as u64;
            if self.missing_bytes == 0 {
                self.begin_behind();
            }
        }
        match self.stage {
            Stage::Header | Stage::Samples => {
                Err(self.error(Fault::new(ErrorKind::Truncated, 0), &[]))
            }
            Stage::Behind | Stage::Another => Ok(written),
        }
    }

    /// Whether it is between two numbers of text that a kernel may go on from, with samples
    /// missing.
    pub(crate) fn is_between_numbers(&self) -> bool {
        match &self.samples {
            Samples::Text(text) => self.stage == Stage::Samples && text.is_between(),
            _ => false,
        }
    }

    /// Samples were made by somebody else, out of all bytes until `offset`, which is between two
    /// numbers or in samples that are not text.
    pub(crate) fn skip_to(&mut self, offset: u64, produced_bytes: usize) {
        debug_assert!(!self.counts_lines);
        self.place.offset = offset;
        self.missing_bytes -= produced_bytes as u64;
        if self.missing_bytes == 0 {
            self.begin_behind();
        }
    }

    /// The error for a fault in `bytes`, which begin where the parser stands.
    fn error(&mut self, fault: Fault, bytes: &[u8]) -> Error {
        self.failed = true;
        let is_text = self.is_text();
        let inside = usize::try_from(fault.at).unwrap_or(0);
        let mut place = self.place;
        place.advance(
            &bytes[..inside.min(bytes.len())],
            is_text && self.counts_lines,
        );
        // A number that began in a piece before is on this line: it has no line feed in it.
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
