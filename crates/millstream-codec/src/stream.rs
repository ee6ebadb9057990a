//! Decoding a stream piece by piece, in bounded memory.
//!
//! Each codec is a [`Core`]: a state machine over the bytes available. [`Guard`] implements the
//! common part of the contract once: offsets count from the start of the stream, errors are sticky,
//! and with no room left, whether the stream continues is determined by offering one byte of room
//! and checking whether it gets written.
//!
//! Maximum memory of a decoder: deflate 50 KiB; zstd its window (128 MiB, see
//! [`ZSTD_WINDOW_BYTES_MAX`](crate::limits::ZSTD_WINDOW_BYTES_MAX)) and two blocks; LZ4 two blocks
//! of at most 4 MiB and 128 KiB of history; GDeflate 512 KiB of table, 256 KiB of stored and 64 KiB
//! of raw tile, and the library's decoder, about 273 KiB.

mod buffers;
mod deflate;
mod gdeflate;
mod lz4;
mod zstd;
#[cfg_attr(feature = "c", path = "stream/zstd_body_c.rs")]
#[cfg_attr(
    all(feature = "rust", not(feature = "c")),
    path = "stream/zstd_body_rust.rs"
)]
#[cfg_attr(
    not(any(feature = "c", feature = "rust")),
    path = "stream/zstd_body_none.rs"
)]
mod zstd_body;

use crate::CodecId;
use crate::error::{After, CodecError, Fault};

pub(crate) use deflate::Deflate;
pub(crate) use gdeflate::Gdeflate;
pub(crate) use lz4::Lz4;
pub(crate) use zstd::Zstd;

/// The result of one call of a stream decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Stored bytes consumed.
    pub consumed: usize,
    /// Raw bytes written.
    pub produced: usize,
    /// Whether the stream may end here (after a frame or member, with nothing pending).
    pub at_end: bool,
}

/// A decoder of one stream, piece by piece, in bounded memory.
///
/// The stream is complete when `at_end` is reported and no stored bytes are left; if the stored
/// bytes end without it, the stream is truncated, which only the caller can know.
pub trait StreamDecoder: Send {
    /// Decodes from `stored` into `raw` until either is used up. If there is room in `raw` and
    /// bytes in `stored`, it makes progress. With an empty `raw` it consumes what produces nothing
    /// (ends, checksums) and fails with `RawTooLong` if the stream would produce more. With an
    /// empty `stored` it writes what is pending from bytes consumed before.
    ///
    /// # Errors
    /// See [`CodecErrorKind`](crate::CodecErrorKind). After an error every further call returns the
    /// same one. Whether a stream is rejected does not depend on how it is split into calls; which
    /// of several faults is reported may, such as excess raw bytes and a wrong checksum after them.
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError>;

    /// Called when no more stored bytes follow and `at_end` is not reported: writes output that
    /// only the end completes, such as a number at the end of a text. If `at_end` is still not
    /// reported, the stream is truncated.
    ///
    /// # Errors
    /// Those of [`StreamDecoder::decode`].
    fn finish(&mut self, raw: &mut [u8]) -> Result<Progress, CodecError> {
        self.decode(&[], raw)
    }
}

/// Creates a stream decoder for `codec`.
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
/// `Unsupported` for codecs without one (stored, LZ4 block, the application's own, unknown).
pub fn stream_decoder(codec: CodecId) -> Result<Box<dyn StreamDecoder>, CodecError> {
    let none = Fault::unsupported("this codec has no stream decoder").at(codec, 0);
    codec.facts().stream.map(|new| new(codec)).ok_or(none)
}

/// A codec's state machine. `raw` is never empty; `stored` may be. A step continues until either is
/// used up and no progress is possible, and reports in `at_end` whether the stream may end there.
pub(crate) trait Core: Send {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault>;
}

/// A [`StreamDecoder`] over a [`Core`].
struct Guard<C> {
    codec: CodecId,
    core: C,
    consumed_bytes: u64,
    failed: Option<CodecError>,
}

/// Makes a decoder of a [`Core`].
pub(crate) fn boxed(codec: CodecId, core: impl Core + 'static) -> Box<dyn StreamDecoder> {
    Box::new(Guard {
        codec,
        core,
        consumed_bytes: 0,
        failed: None,
    })
}

/// Runs a step into `raw`. If `raw` is empty, the stream must not produce more.
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

/// Decodes a whole stream at once through a [`Core`], for blocks without a faster decoder; returns
/// the number of raw bytes.
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
