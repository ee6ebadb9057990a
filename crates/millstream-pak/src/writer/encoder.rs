//! What an encoding thread works with, block after block.
//!
//! Memory that is new costs more than what is done in it: the system clears each page, and in a
//! virtual machine the host must find it first. So buffers go round: from the thread that encodes
//! to the one that writes, and back. Their number is bounded by that of the blocks held at once.

use std::sync::{Mutex, PoisonError};

use millstream::CodecId;
use millstream_codec::{CodecError, DictionaryEncoder, Scratch};

use crate::error::{Error, ErrorKind, Result};

/// Buffers that were written and may be used again.
#[derive(Default)]
pub(super) struct FreeBuffers(Mutex<Vec<Vec<u8>>>);

impl FreeBuffers {
    /// Gives a buffer back.
    pub(super) fn put(&self, buffer: Vec<u8>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(buffer);
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.pop()
    }
}

/// See the module.
pub(super) struct BlockEncoder<'a> {
    written: &'a FreeBuffers,
    scratch: Scratch,
    spare: Vec<Vec<u8>>,
}

impl<'a> BlockEncoder<'a> {
    pub(super) fn new(written: &'a FreeBuffers) -> BlockEncoder<'a> {
        BlockEncoder {
            written,
            scratch: Scratch::default(),
            spare: Vec::new(),
        }
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let used = self.spare.pop().or_else(|| self.written.take());
        let mut buffer = used.unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Keeps a buffer for later.
    pub(super) fn keep(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// The block as this codec stores it; with the dictionary, if there is one and it is zstd.
    pub(super) fn encode(
        &mut self,
        (codec, level): (CodecId, i32),
        with: Option<&DictionaryEncoder>,
        raw: &[u8],
    ) -> Result<Vec<u8>> {
        let mut stored = self.buffer();
        let scratch = &mut self.scratch;
        let encoded = match with.filter(|_| codec == CodecId::ZSTD) {
            Some(with) => millstream_codec::encode_block_with(with, scratch, raw, &mut stored),
            None => millstream_codec::encode_block(codec, level, scratch, raw, &mut stored),
        };
        let failed = |error: CodecError| {
            let cause = format!("a block cannot be encoded: {error}");
            Error::new(ErrorKind::Limit, cause)
        };
        encoded.map(|()| stored).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_round() {
        let written = FreeBuffers::default();
        let mut encoder = BlockEncoder::new(&written);
        let stored = encoder
            .encode((CodecId::LZ4_BLOCK, 1), None, &[7; 100_000])
            .unwrap();
        let (place, capacity) = (stored.as_ptr(), stored.capacity());
        written.put(stored);
        let again = encoder.buffer();
        assert_eq!((again.as_ptr(), again.capacity()), (place, capacity));
        assert!(again.is_empty());
        encoder.keep(again);
        let third = encoder.buffer();
        assert_eq!(third.as_ptr(), place);
        assert_eq!(encoder.buffer().capacity(), 0);
    }
}
