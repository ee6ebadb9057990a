//! The codecs of Millstream. Bytes in, bytes out; no I/O; no threads of its own, but for
//! GDeflate in [`compress`].
//!
//! Three ways to decode, chosen by the caller:
//! - a whole block: [`decode_block`], when all stored bytes are in one piece of memory;
//! - a stream: [`StreamDecoder`], block by block in bounded memory;
//! - independent units of one stored stream (zstd frames, lz4 blocks, GDeflate tiles; gzip members
//!   are not: their sizes are unknown before): a [`UnitScanner`] finds them while the
//!   bytes arrive, [`decode_unit`] decodes each on any thread.
//!
//! Blocks of zstd may share a [`Dictionary`]: see [`decode_block_with`].
//!
//! And two to encode: [`encode_block`] for whole blocks, [`compress`] from a reader to a writer
//! (with [`decompress`] as its counterpart).
//!
//! All bytes are taken to be hostile. Whatever they are, a call returns a value or a [`CodecError`]
//! with an offset and a cause: it does not panic, it takes time in proportion to the stored and the
//! declared raw bytes, and memory as [`limits`] has it. Checksums are verified wherever the format
//! has them. A stream that one way of decoding takes is taken by the others, save in one respect:
//! libdeflate and zlib differ about some incomplete Huffman codes that no encoder writes.
//!
//! With the feature `c` (default) the libraries in C serve where they are better: libdeflate for
//! whole deflate blocks, libzstd for zstd. Without it everything is Rust, and zstd can be decoded
//! but not encoded.

mod block;
mod dictionary;
mod encode;
mod error;
mod format;
mod gdeflate;
mod id;
pub mod limits;
mod scratch;
mod stream;
mod transfer;
mod unit;

pub use block::decode_block;
pub use dictionary::{
    Dictionary, DictionaryEncoder, decode_block_with, encode_block_with, train_dictionary,
};
pub use encode::{block_level_range, default_level, encode_block, level_range};
pub use error::{CodecError, CodecErrorKind, StreamError};
pub use id::CodecId;
pub use scratch::Scratch;
pub use stream::{Progress, StreamDecoder, stream_decoder};
pub use transfer::{Totals, compress, decompress};
pub use unit::{Unit, UnitScanner, declared_raw_len, decode_unit, unit_scanner};
