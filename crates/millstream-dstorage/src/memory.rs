//! Requests whose source is memory of the program.
//!
//! The engine reads files, or memory that it owns. So such a request reads a [`Descriptor`] that
//! names the program's bytes, and a codec, called on a worker thread by the priority of the
//! request, decodes or copies them to the destination. The program keeps its bytes valid until the
//! request completes, and the engine completes no request while a worker has it.
#![expect(
    unsafe_code,
    reason = "reads memory that the program lends until a request completes"
)]

use std::sync::{Arc, Mutex};

use millstream::{Codec, CodecId};
use millstream_codec::{Scratch, can_decode, decode_block};

use crate::abi::{
    DSTORAGE_COMPRESSION_FORMAT, DSTORAGE_COMPRESSION_FORMAT_GDEFLATE,
    DSTORAGE_COMPRESSION_FORMAT_ZSTD,
};
use crate::com::lock;

/// Returns the codec of a compression format that this build decompresses.
pub(crate) fn codec_of(format: DSTORAGE_COMPRESSION_FORMAT) -> Option<CodecId> {
    let codec = match format {
        DSTORAGE_COMPRESSION_FORMAT_GDEFLATE => CodecId::GDEFLATE,
        DSTORAGE_COMPRESSION_FORMAT_ZSTD => CodecId::ZSTD,
        _ => return None,
    };
    can_decode(codec).then_some(codec)
}

/// Bytes of the program, and how they are encoded.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) address: usize,
    pub(crate) len: usize,
    pub(crate) codec: CodecId,
}

const WORD: usize = size_of::<usize>();

impl Descriptor {
    /// Returns it as the stored bytes of a request.
    pub(crate) fn to_bytes(self) -> Arc<[u8]> {
        let mut bytes = [0; 2 * WORD + 1];
        bytes[..WORD].copy_from_slice(&self.address.to_ne_bytes());
        bytes[WORD..2 * WORD].copy_from_slice(&self.len.to_ne_bytes());
        bytes[2 * WORD] = self.codec.0;
        Arc::from(bytes)
    }

    fn parse(bytes: &[u8]) -> Option<Descriptor> {
        let (address, rest) = bytes.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        Some(Descriptor {
            address: usize::from_ne_bytes(*address),
            len: usize::from_ne_bytes(*len),
            codec: CodecId(*rest.first()?),
        })
    }
}

/// Decodes what a [`Descriptor`] names.
#[derive(Default)]
pub(crate) struct MemoryCodec {
    /// Decoders that no worker uses.
    idle: Mutex<Vec<Scratch>>,
}

impl Codec for MemoryCodec {
    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        let descriptor = Descriptor::parse(stored).ok_or("the descriptor is cut")?;
        // SAFETY: only requests of this crate have this codec, and their descriptors name bytes
        // that the program lends until they complete.
        let source =
            unsafe { std::slice::from_raw_parts(descriptor.address as *const u8, descriptor.len) };
        let mut scratch = lock(&self.idle).pop().unwrap_or_default();
        let decoded = decode_block(descriptor.codec, &mut scratch, source, raw);
        lock(&self.idle).push(scratch);
        decoded.map_err(|_| "the source cannot be decompressed")
    }
}
