//! Encoding: whole blocks into memory here, streams in [`crate::transfer`].
//!
//! What is written decodes everywhere: zlib, gzip, zstd and lz4 by their own tools. Integrity is
//! always recorded where the format can: Adler-32, CRC-32, zstd's and LZ4's content checksums.
//! zstd is written as one frame. That is what its tools expect and compresses best, but such a
//! stream has no units; for parallel decoding of one entry, encode it in blocks.

pub(crate) mod deflate;
pub(crate) mod lz4;
#[cfg(feature = "c")]
pub(crate) mod zstd;

use std::ops::RangeInclusive;

use crate::error::{CodecError, Fault};
use crate::format::wrapper::Wrapper;
use crate::{CodecId, Scratch};

/// Levels of zlib-rs, which all streams of deflate are encoded by.
const DEFLATE_STREAM_LEVELS: RangeInclusive<i32> = 0..=9;
/// Levels for whole blocks: libdeflate goes beyond zlib.
#[cfg(feature = "c")]
const DEFLATE_BLOCK_LEVELS: RangeInclusive<i32> = 0..=12;
#[cfg(not(feature = "c"))]
const DEFLATE_BLOCK_LEVELS: RangeInclusive<i32> = DEFLATE_STREAM_LEVELS;
/// Below -7 zstd gains hardly any speed; its own tool ends there too.
const ZSTD_LEVELS: RangeInclusive<i32> = -7..=22;
/// One encoder, no choice.
const ONE_LEVEL: RangeInclusive<i32> = 1..=1;
/// For codecs that cannot be encoded in this build.
#[expect(
    clippy::reversed_empty_ranges,
    reason = "an empty range is what is meant"
)]
const NO_LEVELS: RangeInclusive<i32> = 1..=0;

/// The levels that [`compress`](crate::compress) takes; empty if this build cannot encode the codec
/// as a stream.
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

/// The levels that [`encode_block`] takes, at least those of [`level_range`]; empty if this build
/// cannot encode the codec.
#[must_use]
pub fn block_level_range(codec: CodecId) -> RangeInclusive<i32> {
    match codec {
        CodecId::LZ4_BLOCK => ONE_LEVEL,
        CodecId::ZLIB | CodecId::GZIP | CodecId::DEFLATE => DEFLATE_BLOCK_LEVELS,
        _ => level_range(codec),
    }
}

/// The default level: that of the codec's own tool.
#[must_use]
pub const fn default_level(codec: CodecId) -> i32 {
    match codec {
        CodecId::ZLIB | CodecId::GZIP | CodecId::DEFLATE => 6,
        CodecId::ZSTD => 3,
        CodecId::GDEFLATE => crate::gdeflate::DEFAULT_LEVEL,
        _ => 1,
    }
}

/// Encodes `raw` as a whole stream and appends it to `out`. Sizes are recorded where the format
/// can.
///
/// # Errors
/// `Unsupported`: the codec cannot be encoded in this build, or has no such level (see
/// [`block_level_range`]), or cannot hold so many bytes. `OutOfMemory`. `out` is as it was then.
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

/// Refuses a level outside `levels`, and a codec that has none.
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

/// Makes room for `bytes` more in `out`.
pub(crate) fn reserve(out: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
    out.try_reserve(bytes).map_err(|_| Fault::OUT_OF_MEMORY)
}

/// Lets `fill` write up to `room_bytes` behind what `out` holds; it returns how many it wrote.
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
