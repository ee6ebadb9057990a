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

impl Descriptor {
    /// Returns it as the stored bytes of a request.
    pub(crate) fn to_bytes(self) -> Arc<[u8]> {
        let (address, len) = (self.address.to_ne_bytes(), self.len.to_ne_bytes());
        [&address[..], &len, &[self.codec.0]].concat().into()
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
        let descriptor = Descriptor::parse(stored).ok_or("the descriptor is truncated")?;
        if descriptor.codec == CodecId::STORED {
            let len = descriptor.len.min(raw.len());
            // SAFETY: as below. The program may let source and destination overlap.
            unsafe { std::ptr::copy(descriptor.address as *const u8, raw.as_mut_ptr(), len) };
            return Ok(len);
        }
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
