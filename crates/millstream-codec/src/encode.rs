//! Encoding whole blocks into memory; [`crate::transfer`] encodes streams.
//!
//! The formats' own tools (zlib, gzip, zstd, lz4) can decode the output. A checksum is written
//! where the format has one (Adler-32, CRC-32, content checksums). zstd is written as one frame,
//! which its tools expect and which compresses best, but such a stream has no units; for parallel
//! decoding of one entry, encode it in blocks.

pub(crate) mod deflate;
pub(crate) mod lz4;
#[cfg(feature = "c")]
pub(crate) mod zstd;

use std::ops::RangeInclusive;

use crate::error::{CodecError, Fault};
use crate::{CodecId, Scratch};

/// For codecs that cannot be encoded in this build.
pub(crate) const NO_LEVELS: RangeInclusive<i32> = RangeInclusive::new(1, 0);

/// Returns the levels that [`compress`](crate::compress) accepts; empty if this build cannot encode
/// the codec as a stream.
#[must_use]
pub fn level_range(codec: CodecId) -> RangeInclusive<i32> {
    codec.facts().levels.0.clone()
}

/// Returns the levels that [`encode_block`] accepts, at least those of [`level_range`]; empty if
/// this build cannot encode the codec.
#[must_use]
pub fn block_level_range(codec: CodecId) -> RangeInclusive<i32> {
    codec.facts().levels.1.clone()
}

/// Returns the default level: that of the codec's own tool, 1 for codecs without levels.
#[must_use]
pub const fn default_level(codec: CodecId) -> i32 {
    codec.facts().default_level
}

/// Encodes `raw` as a whole stream and appends it to `out`. The raw size is recorded if the format
/// has a field for it.
///
/// # Errors
/// `Unsupported`: the codec cannot be encoded in this build, has no such level (see
/// [`block_level_range`]), or cannot hold that many bytes. `OutOfMemory`. `out` is then unchanged.
pub fn encode_block(
    codec: CodecId,
    level: i32,
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    check_level(codec, level, &block_level_range(codec))?;
    let kept_bytes = out.len();
    let encoded = (codec.facts().encode)(codec, level, scratch, raw, out);
    encoded.map_err(|fault| {
        out.truncate(kept_bytes);
        fault.at(codec, 0)
    })
}

/// Returns an error for a level outside `levels`, and for a codec without levels.
pub(crate) fn check_level(
    codec: CodecId,
    level: i32,
    levels: &RangeInclusive<i32>,
) -> Result<(), CodecError> {
    let cause = match levels.is_empty() {
        true => "this codec cannot be encoded, or not in this build",
        false if levels.contains(&level) => return Ok(()),
        false => "the codec has no such level",
    };
    Err(Fault::unsupported(cause).at(codec, 0))
}

/// Reserves capacity for `bytes` more in `out`.
pub(crate) fn reserve(out: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
    out.try_reserve(bytes).map_err(|_| Fault::OUT_OF_MEMORY)
}

/// Appends up to `room_bytes` to `out`, written by `fill`, which returns how many it wrote.
pub(crate) fn append(
    out: &mut Vec<u8>,
    room_bytes: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<usize, Fault>,
) -> Result<(), Fault> {
    reserve(out, room_bytes)?;
    let start = out.len();
    out.resize(start + room_bytes, 0);
    let written = fill(&mut out[start..])?;
    out.truncate(start + written);
    Ok(())
}
