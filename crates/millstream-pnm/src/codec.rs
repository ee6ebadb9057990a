//! The formats as a codec of the engine: the blocks of a file are parsed while the next ones are
//! read. The raw bytes are the samples of the first image (two bytes each, in native byte order, if
//! the maximal value is above 255). After that image, white space and further images are allowed;
//! further images are not parsed.
//!
//! The header declares how many samples there are, so a request needs no raw length. The error of a
//! request has the offset; [`decode`](crate::decode()) of the same bytes returns line and column.
//!
//! ```
//! use millstream::{CodecId, Decode, QueueOptions, Read, Storage, StorageOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-pnm-codec-{}", std::process::id()));
//! # std::fs::write(&path, "P2 3 1 9\n7 8\n9")?;
//! const PNM: CodecId = CodecId(0x90);
//! let mut options = StorageOptions::default();
//! millstream_pnm::codec::register(&mut options, PNM);
//! let storage = Storage::new(options)?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let file = storage.open(&path, Default::default());
//! let image = queue.submit(Read::whole(file).decode(Decode::codec(PNM)))?.wait()?;
//! assert_eq!(&image[..], [7, 8, 9]);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

use millstream::{Codec, CodecId, StorageOptions};
use millstream_codec::{CodecError, CodecErrorKind, Progress, StreamDecoder};

use crate::error::{Error, ErrorKind};
use crate::format::Header;
use crate::header::HeaderParser;
use crate::kernel::Kernel;
use crate::parser::{Parser, Stage};

/// Registers the formats as codec `id` of a storage.
///
/// # Panics
/// If `id` is below 0x80 or already registered.
pub fn register(options: &mut StorageOptions, id: CodecId) {
    options.codec(id, Pnm(id));
}

/// The codec, with its id.
struct Pnm(CodecId);

impl Codec for Pnm {
    fn raw_len(&self, head: &[u8], stored_len: u64) -> Result<Option<u64>, &'static str> {
        image_bytes(head, stored_len).map(Some)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(Decoder::new(self.0)))
    }
}

/// Returns the raw size of the image whose file begins with `head` and has `stored_len` bytes.
fn image_bytes(head: &[u8], stored_len: u64) -> Result<u64, &'static str> {
    let parsed = HeaderParser::new().push(head);
    let (taken, header) = match parsed.map_err(|fault| fault.kind.cause())? {
        (taken, Some(header)) => (taken, header),
        _ if head.len() as u64 == stored_len => return Err(ErrorKind::Truncated.cause()),
        _ => return Err("the image's header is longer than a block"),
    };
    // Memory is allocated only for samples that the stored bytes can hold.
    if header.raster_bytes_min() > stored_len.saturating_sub(taken as u64) {
        return Err(ErrorKind::Truncated.cause());
    }
    if !header.fits(u64::MAX) {
        return Err(ErrorKind::TooLarge.cause());
    }
    Ok(header.image_bytes())
}

/// A streaming decoder of one image.
pub struct Decoder {
    id: CodecId,
    parser: Parser,
    failed: Option<CodecError>,
}

impl Decoder {
    /// Creates a decoder at the first byte of a file; its errors name the codec `id`.
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
