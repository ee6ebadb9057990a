//! Whole blocks: all stored bytes in one slice, all raw bytes into another.
//!
//! With the feature `c` deflate is decoded by libdeflate here and by zlib-rs in streams;
//! `examples/deflate_choice.rs` measures both. libdeflate does not report why it rejects a block,
//! and rejects slightly different streams than zlib, so a block that it rejects is decoded again by
//! the stream decoder, whose result is final. So every block that the stream decoder accepts is
//! accepted here, and errors are as specific.

mod deflate;
#[cfg(feature = "c")]
pub(crate) mod libdeflate;
mod lz4;
mod zstd;

use crate::error::{CodecError, Fault};
use crate::format::wrapper::Wrapper;
use crate::stream::{Lz4, decode_whole};
use crate::{CodecId, Scratch};

pub(crate) use lz4::{broken_block, lz4_block, lz4_block_with_history};
pub(crate) use zstd::decode_frame as decode_zstd_frame;
#[cfg(feature = "c")]
pub(crate) use zstd::zstd_fault;

/// Returns whether this build decodes a codec of this library: zstd only with the feature `c` or
/// `rust`.
#[must_use]
pub const fn can_decode(codec: CodecId) -> bool {
    codec.0 <= CodecId::GDEFLATE.0
        && (codec.0 != CodecId::ZSTD.0 || cfg!(any(feature = "c", feature = "rust")))
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
    let decoded = match codec {
        CodecId::STORED => decode_stored(stored, raw),
        CodecId::ZSTD => zstd::decode(scratch, stored, raw),
        CodecId::LZ4 => decode_whole(&mut Lz4::new(), stored, raw),
        CodecId::LZ4_BLOCK => lz4_block(stored, raw),
        CodecId::GDEFLATE => crate::gdeflate::decode(scratch, stored, raw),
        _ => match Wrapper::of(codec) {
            Some(wrapper) => deflate::decode(wrapper, scratch, stored, raw),
            None => Err(Fault::unsupported(
                "a codec that this library does not know",
            )),
        },
    };
    decoded.map_err(|fault| fault.at(codec, 0))
}

fn decode_stored(stored: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
    let room = raw.len();
    let target = raw
        .get_mut(..stored.len())
        .ok_or(Fault::RAW_TOO_LONG.after(room))?;
    target.copy_from_slice(stored);
    Ok(stored.len())
}
