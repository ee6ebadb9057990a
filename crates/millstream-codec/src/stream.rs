//! Decoding a stream piece by piece, in bounded memory.
//!
//! Each codec is a [`Core`]: a state machine over whatever bytes are there. What all of them owe to
//! the caller is done once, by [`Guard`]: offsets count from the start of the stream, an error
//! stays, and the question "would it go on?" with no room left is answered by offering one byte of
//! room and looking whether it gets written.
//!
//! Memory of a decoder, at most: deflate 50 KiB; zstd its window (128 MiB, see
//! [`ZSTD_WINDOW_BYTES_MAX`](crate::limits::ZSTD_WINDOW_BYTES_MAX)) and two blocks; LZ4 two blocks
//! of at most 4 MiB and 64 KiB; GDeflate 256 KiB of
//! table, as much of a tile, and 64 KiB.

mod buffers;
mod deflate;
mod gdeflate;
mod lz4;
mod zstd;
#[cfg_attr(feature = "c", path = "stream/zstd_body_c.rs")]
#[cfg_attr(not(feature = "c"), path = "stream/zstd_body_rust.rs")]
mod zstd_body;

use crate::CodecId;
use crate::error::{After, CodecError, Fault};
use crate::format::wrapper::Wrapper;

pub(crate) use deflate::Deflate;
pub(crate) use lz4::Lz4;
#[cfg(not(feature = "c"))]
pub(crate) use zstd::Zstd;

/// What one call of a stream decoder did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Stored bytes taken.
    pub consumed: usize,
    /// Raw bytes written.
    pub produced: usize,
    /// The stream is at a place where it may end (end of a frame or member with nothing pending).
    pub at_end: bool,
}

/// Decodes a stream piece by piece, in bounded memory.
///
/// The stream is whole when `at_end` was reported and no stored bytes are left; when the stored
/// bytes are used up without it, the stream is cut (`Truncated`, which only the caller can know).
pub trait StreamDecoder: Send {
    /// Takes from `stored`, writes to `raw`, until either is used up. If there is room in `raw` and
    /// bytes in `stored`, it makes progress. With `raw` empty it consumes what produces nothing
    /// (ends, checksums) and fails with `RawTooLong` if the stream would go on to produce. With
    /// `stored` empty it writes what is pending from bytes it took before.
    ///
    /// # Errors
    /// See [`CodecErrorKind`](crate::CodecErrorKind). After an error every further call gives the
    /// same one. Whether a stream is refused does not depend on how it is cut; of several faults,
    /// such as raw bytes beyond the declared and a wrong checksum behind them, which one is named
    /// may.
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError>;

    /// Told when no stored bytes will come any more and `at_end` was not reported: writes what only
    /// that makes whole, such as a number at the end of a text. If `at_end` is still not reported,
    /// the stream is cut.
    ///
    /// # Errors
    /// As [`StreamDecoder::decode`].
    fn finish(&mut self, raw: &mut [u8]) -> Result<Progress, CodecError> {
        self.decode(&[], raw)
    }
}

/// A stream decoder.
///
/// ```
/// use millstream_codec::{CodecId, stream_decoder};
/// let mut decoder = stream_decoder(CodecId::DEFLATE)?;
/// let mut raw = [0; 16];
/// let progress = decoder.decode(&[0x4B, 0x4C, 0x4A, 0x06, 0x00], &mut raw)?;
/// assert_eq!((progress.produced, progress.at_end), (3, true));
/// assert_eq!(&raw[..3], b"abc");
/// # Ok::<(), millstream_codec::CodecError>(())
/// ```
///
/// # Errors
/// `Unsupported` for codecs that have none (stored, lz4 block, the application's own).
pub fn stream_decoder(codec: CodecId) -> Result<Box<dyn StreamDecoder>, CodecError> {
    Ok(match codec {
        CodecId::ZSTD => Box::new(Guard::new(codec, zstd::Zstd::new())),
        CodecId::LZ4 => Box::new(Guard::new(codec, Lz4::new())),
        CodecId::GDEFLATE => Box::new(Guard::new(codec, gdeflate::Gdeflate::default())),
        _ => {
            let none = Fault::unsupported("this codec has no stream decoder").at(codec, 0);
            Box::new(Guard::new(
                codec,
                Deflate::new(Wrapper::of(codec).ok_or(none)?),
            ))
        }
    })
}

/// A codec's state machine. `raw` is never empty; `stored` may be. It goes on until either is used
/// up and nothing more can be done, and says in `at_end` whether the stream may end there.
pub(crate) trait Core: Send {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault>;
}

/// A [`Core`] with the duties of a [`StreamDecoder`].
struct Guard<C> {
    codec: CodecId,
    core: C,
    consumed_bytes: u64,
    failed: Option<CodecError>,
}

impl<C: Core> Guard<C> {
    fn new(codec: CodecId, core: C) -> Guard<C> {
        Guard {
            codec,
            core,
            consumed_bytes: 0,
            failed: None,
        }
    }
}

/// A step into `raw`, which may be empty: then the stream must not go on to produce.
fn step(core: &mut dyn Core, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
    if !raw.is_empty() {
        return core.step(stored, raw);
    }
    let progress = core.step(stored, &mut [0; 1])?;
    if progress.produced > 0 {
        return Err(Fault::RAW_TOO_LONG.after(progress.consumed));
    }
    Ok(progress)
}

impl<C: Core> StreamDecoder for Guard<C> {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match step(&mut self.core, stored, raw) {
            Ok(progress) => {
                assert!(progress.consumed <= stored.len() && progress.produced <= raw.len());
                self.consumed_bytes += progress.consumed as u64;
                Ok(progress)
            }
            Err(fault) => {
                let error = fault.at(self.codec, self.consumed_bytes);
                self.failed = Some(error);
                Err(error)
            }
        }
    }
}

/// Decodes a whole stream at once through a [`Core`], for blocks that no faster decoder takes;
/// returns the number of raw bytes.
pub(crate) fn decode_whole(
    core: &mut dyn Core,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, Fault> {
    let (mut consumed, mut produced) = (0, 0);
    loop {
        let progress = step(core, &stored[consumed..], &mut raw[produced..]).after(consumed)?;
        consumed += progress.consumed;
        produced += progress.produced;
        if progress.consumed == 0 && progress.produced == 0 {
            return if consumed == stored.len() && progress.at_end {
                Ok(produced)
            } else {
                Err(Fault::TRUNCATED.after(consumed))
            };
        }
    }
}
