//! Encoding whole blocks into memory; [`crate::transfer`] encodes streams.
//!
//! The formats' own tools (zlib, gzip, zstd, lz4) can decode the output. A checksum is written
//! where the format has one (Adler-32, CRC-32, content checksums). zstd is written as one frame,
//! which its tools expect and which compresses best, but such a stream has no units; for parallel
//! decoding of one entry, encode it in blocks.

pub(crate) mod deflate;
#[cfg(feature = "c")]
pub(crate) mod libdeflate;
pub(crate) mod lz4;
#[cfg(feature = "c")]
pub(crate) mod zstd;

use std::ops::RangeInclusive;

use crate::error::{CodecError, Fault};
use crate::format::wrapper::Wrapper;
use crate::{CodecId, Scratch};

/// Levels of zlib-rs, which encodes all deflate streams.
const DEFLATE_STREAM_LEVELS: RangeInclusive<i32> = 0..=9;
/// Levels for whole blocks: libdeflate has more than zlib.
#[cfg(feature = "c")]
const DEFLATE_BLOCK_LEVELS: RangeInclusive<i32> = 0..=12;
#[cfg(not(feature = "c"))]
const DEFLATE_BLOCK_LEVELS: RangeInclusive<i32> = DEFLATE_STREAM_LEVELS;
/// Levels of zstd: below -7 it gains hardly any speed, and its own tool ends there, too.
const ZSTD_LEVELS: RangeInclusive<i32> = -7..=22;
/// The only level of codecs without levels.
const ONE_LEVEL: RangeInclusive<i32> = 1..=1;
/// For codecs that cannot be encoded in this build.
#[expect(
    clippy::reversed_empty_ranges,
    reason = "an empty range is what is meant"
)]
const NO_LEVELS: RangeInclusive<i32> = 1..=0;

/// Returns the levels that [`compress`](crate::compress) accepts; empty if this build cannot encode
/// the codec as a stream.
#[must_use]
pub fn level_range(codec: CodecId) -> RangeInclusive<i32> {
    match codec {
        CodecId::STORED | CodecId::LZ4 => ONE_LEVEL,
        CodecId::ZLIB | CodecId::GZIP | CodecId::DEFLATE => DEFLATE_STREAM_LEVELS,
        CodecId::ZSTD if cfg!(feature = "c") => ZSTD_LEVELS,
        CodecId::GDEFLATE => crate::gdeflate::LEVELS,
        _ => NO_LEVELS,
    }
}

/// Returns the levels that [`encode_block`] accepts, at least those of [`level_range`]; empty if
/// this build cannot encode the codec.
#[must_use]
pub fn block_level_range(codec: CodecId) -> RangeInclusive<i32> {
    match codec {
        CodecId::LZ4_BLOCK => ONE_LEVEL,
        CodecId::ZLIB | CodecId::GZIP | CodecId::DEFLATE => DEFLATE_BLOCK_LEVELS,
        _ => level_range(codec),
    }
}

/// Returns the default level: that of the codec's own tool, 1 for codecs without levels.
#[must_use]
pub const fn default_level(codec: CodecId) -> i32 {
    match codec {
        CodecId::ZLIB | CodecId::GZIP | CodecId::DEFLATE => 6,
        CodecId::ZSTD => 3,
        CodecId::GDEFLATE => crate::gdeflate::DEFAULT_LEVEL,
        _ => 1,
    }
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
    let encoded = match codec {
        CodecId::STORED => reserve(out, raw.len()).map(|()| out.extend_from_slice(raw)),
        #[cfg(feature = "c")]
        CodecId::ZSTD => zstd::encode(level, scratch, raw, out),
        CodecId::LZ4 => lz4::encode_frame(scratch, raw, out),
        CodecId::LZ4_BLOCK => lz4::encode_block(scratch, raw, out),
        CodecId::GDEFLATE => crate::gdeflate::encode(level, raw, 1, out),
        _ => match Wrapper::of(codec) {
            Some(wrapper) => deflate::encode(wrapper, level, scratch, raw, out),
            None => Err(Fault::UNSUPPORTED),
        },
    };
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
