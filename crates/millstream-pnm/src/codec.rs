//! The formats as a codec of the engine: while blocks of a file are read, those that are there are
//! parsed. Its raw bytes are the samples of the first image (of two bytes each, in the machine's
//! order, where the maximal value is above 255); what follows that image must be white space or
//! another image, which is not looked at.
//!
//! The header says how many samples there are, so a request needs no raw length. Errors of a
//! request name the offset; the line and column of it are told by [`decode`](crate::decode()) of
//! the same bytes.
//!
//! ```
//! use millstream::codec::Codecs;
//! use millstream::{CodecId, QueueOptions, Request, Storage, StorageOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-pnm-codec-{}", std::process::id()));
//! # std::fs::write(&path, "P2 3 1 9\n7 8\n9")?;
//! const PNM: CodecId = CodecId(0x90);
//! let mut codecs = Codecs::default();
//! millstream_pnm::codec::register(&mut codecs, PNM);
//! let storage = Storage::new(StorageOptions { codecs, ..StorageOptions::default() })?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let file = storage.open(&path);
//! let ticket = queue.enqueue(Request::read_file(file).codec(PNM))?;
//! queue.submit();
//! assert_eq!(&ticket.wait()?.into_buffer()[..], [7, 8, 9]);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

use millstream::CodecId;
use millstream::codec::{ApplicationCodec, Codecs};
use millstream_codec::{CodecError, CodecErrorKind, Progress, StreamDecoder};

use crate::error::{Error, ErrorKind};
use crate::format::Header;
use crate::kernel::Kernel;
use crate::parser::{Parser, Stage};

/// Registers the formats under a number.
///
/// # Panics
/// If the number is below 0x80 or taken.
pub fn register(codecs: &mut Codecs, id: CodecId) {
    let decoder = move || Box::new(Decoder::new(id)) as Box<dyn StreamDecoder>;
    codecs.add_sized(id, ApplicationCodec::stream(decoder), image_bytes);
}

/// Bytes of the image whose file begins with `head` and has `stored_len` bytes.
fn image_bytes(head: &[u8], stored_len: u64) -> Result<u64, &'static str> {
    let mut parser = Parser::without_lines(Kernel::Plain);
    let pushed = parser.push(head, &mut []);
    let taken = pushed.map_err(|error| error.kind.cause())?.consumed;
    let header = match (parser.stage(), parser.header()) {
        (Stage::Samples, Some(header)) => header,
        _ if head.len() as u64 == stored_len => return Err(ErrorKind::Truncated.cause()),
        _ => return Err("the image's header is longer than a block"),
    };
    // What the bytes cannot hold is never allocated.
    if header.raster_bytes_min() > stored_len.saturating_sub(taken as u64) {
        return Err(ErrorKind::Truncated.cause());
    }
    if !header.fits(u64::MAX) {
        return Err(ErrorKind::TooLarge.cause());
    }
    Ok(header.image_bytes())
}

/// A decoder of one image, for requests and for whoever else has blocks.
pub struct Decoder {
    id: CodecId,
    parser: Parser,
    failed: Option<CodecError>,
}

impl Decoder {
    /// A decoder at the first byte of a file; errors name the codec `id`.
    #[must_use]
    pub fn new(id: CodecId) -> Decoder {
        Decoder {
            id,
            parser: Parser::without_lines(Kernel::fastest()),
            failed: None,
        }
    }

    fn fail(&mut self, error: &Error) -> CodecError {
        let kind = match error.kind {
            ErrorKind::Truncated => CodecErrorKind::Truncated,
            ErrorKind::TrailingBytes => CodecErrorKind::TrailingBytes,
            ErrorKind::TooLarge => CodecErrorKind::Unsupported,
            _ => CodecErrorKind::Corrupt,
        };
        let error = CodecError::new(kind, self.id, error.offset).because(error.kind.cause());
        self.failed = Some(error);
        error
    }

    fn progress(&self, consumed: usize, produced: usize) -> Progress {
        Progress {
            consumed,
            produced,
            at_end: matches!(self.parser.stage(), Stage::Behind | Stage::Another),
        }
    }
}

impl StreamDecoder for Decoder {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let (mut consumed, mut produced) = (0, 0);
        while consumed < stored.len() {
            if self.parser.stage() == Stage::Another {
                consumed = stored.len();
                break;
            }
            let sample_bytes = self.parser.header().map_or(1, Header::sample_bytes);
            let room = &mut raw[produced..];
            if self.parser.missing_bytes() > 0 && room.len() < sample_bytes {
                if produced > 0 || consumed > 0 {
                    break;
                }
                let offset = self.parser.offset();
                let error = CodecError::new(CodecErrorKind::RawTooLong, self.id, offset);
                self.failed = Some(error);
                return Err(error);
            }
            match self.parser.push(&stored[consumed..], room) {
                Ok(pushed) => {
                    consumed += pushed.consumed;
                    produced += pushed.produced_bytes;
                }
                Err(error) => return Err(self.fail(&error)),
            }
        }
        Ok(self.progress(consumed, produced))
    }

    fn finish(&mut self, raw: &mut [u8]) -> Result<Progress, CodecError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.parser.finish(raw) {
            Ok(produced) => Ok(self.progress(0, produced)),
            Err(error) => Err(self.fail(&error)),
        }
    }
}
