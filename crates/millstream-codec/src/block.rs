//! Whole blocks: all stored bytes in one slice, all raw bytes into another.
//!
//! Whether bytes are accepted, and which error they get, must not depend on how they arrive:
//! deflate and LZ4 frames are decoded by the stream decoder here, too, and what the faster decoders
//! of zstd and GDeflate reject is decoded again by the stream decoder, whose result is final.
//!
//! libdeflate decodes whole blocks 1.1 to 1.3 times as fast as zlib-rs. It is used only for callers
//! that compare a checksum of the raw bytes, because it accepts what zlib rejects: 287 and 288
//! literal codes, 31 and 32 distance codes, the length codes 286 and 287, and the unused codeword
//! of a code of one.

mod lz4;
pub(crate) mod zstd;

use crate::error::{CodecError, Fault};
use crate::{CodecId, Scratch};

pub(crate) use lz4::{broken_block, lz4_block, lz4_block_with_history};
pub(crate) use zstd::decode_frame as decode_zstd_frame;
#[cfg(feature = "c")]
pub(crate) use zstd::zstd_fault;

/// Returns whether this build decodes a codec of this library: zstd only with the feature `c` or
/// `rust`.
#[must_use]
pub const fn can_decode(codec: CodecId) -> bool {
    (codec.0 as usize) < CodecId::ALL.len() && codec.facts().decodes
}

/// Decodes a whole stored block into `raw` and returns the number of raw bytes written. All of
/// `stored` must be consumed. `raw` may be longer than needed: the caller compares sizes.
///
/// ```
/// use millstream_codec::{CodecId, Scratch, decode_block, default_level, encode_block};
/// let mut scratch = Scratch::default();
/// let mut stored = Vec::new();
/// let level = default_level(CodecId::ZLIB);
/// encode_block(CodecId::ZLIB, level, &mut scratch, b"abcabcabc", &mut stored)?;
/// let mut raw = [0; 9];
/// assert_eq!(decode_block(CodecId::ZLIB, &mut scratch, &stored, &mut raw)?, 9);
/// assert_eq!(&raw, b"abcabcabc");
/// # Ok::<(), millstream_codec::CodecError>(())
/// ```
///
/// # Errors
/// See [`CodecErrorKind`](crate::CodecErrorKind). The contents of `raw` are then unspecified.
pub fn decode_block(
    codec: CodecId,
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, CodecError> {
    let decoded = (codec.facts().decode)(codec, scratch, stored, raw);
    decoded.map_err(|fault| fault.at(codec, 0))
}

/// As [`decode_block`] of raw deflate, and faster, for callers that compare a checksum of the raw
/// bytes: with the feature `c`, bytes may be accepted that `decode_block` rejects.
///
/// # Errors
/// As [`decode_block`].
pub fn decode_deflate_of_checked(
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, CodecError> {
    #[cfg(feature = "c")]
    if let Ok(decoder) = scratch.deflate_decoder()
        && let Some(made) = decoder.decode(stored, raw)
    {
        return Ok(made);
    }
    decode_block(CodecId::DEFLATE, scratch, stored, raw)
}

pub(crate) fn decode_stored(stored: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
    let too_long = Fault::RAW_TOO_LONG.after(raw.len());
    let target = raw.get_mut(..stored.len()).ok_or(too_long)?;
    target.copy_from_slice(stored);
    Ok(stored.len())
}
