//! The codecs of Millstream: bytes in, bytes out, without I/O, and without threads of its own
//! except for GDeflate in [`compress`].
//!
//! There are three ways to decode:
//! - a whole block: [`decode_block`], when all stored bytes are in one contiguous slice;
//! - a stream: [`StreamDecoder`], piece by piece in bounded memory;
//! - independent units of one stored stream (zstd frames, LZ4 blocks, GDeflate tiles; not gzip
//!   members, whose sizes are unknown before decoding): a [`UnitScanner`] finds them while the
//!   bytes arrive, [`decode_unit`] decodes each on any thread.
//!
//! There are two ways to encode: [`encode_block`] for whole blocks, [`compress`] from a reader to a
//! writer (with [`decompress`] as its counterpart).
//!
//! All stored bytes are treated as hostile. Whatever they are, a call returns a value or a
//! [`CodecError`] with an offset and a cause: it does not panic, takes time proportional to the
//! stored and the declared raw bytes, and bounds its memory by [`limits`]. Checksums are verified
//! wherever the format has them. All ways of decoding accept the same streams and report the same
//! kind of error; but for [`decode_deflate_of_checked`], which says what it accepts.
//!
//! With the feature `c` (default) C libraries are used where they are better: libdeflate for whole
//! deflate blocks, libzstd for zstd. Without it everything is Rust. The feature `rust` then
//! decodes zstd, but cannot encode it; without both, zstd is `Unsupported` ([`can_decode`]).

mod block;
mod codec;
mod encode;
mod error;
mod format;
mod gdeflate;
#[cfg(feature = "c")]
mod libdeflate;
pub mod limits;
mod scratch;
mod signature;
mod stream;
mod transfer;
mod unit;

pub use block::{can_decode, decode_block, decode_deflate_of_checked};
pub use codec::{Codec, CodecId};
pub use encode::{block_level_range, default_level, encode_block, level_range};
pub use error::{CodecError, CodecErrorKind, StreamError};
pub use scratch::Scratch;
pub use signature::wrong_format;
pub use stream::{Progress, StreamDecoder, stream_decoder};
pub use transfer::{Totals, compress, decompress};
pub use unit::{Unit, UnitScanner, declared_raw_len, decode_unit, unit_scanner};
