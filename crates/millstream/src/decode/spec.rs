//! How a request's stored bytes are encoded: one codec, or a table of independent blocks.
//!
//! ```
//! use millstream::{BlockTable, CodecId, Decode};
//! let whole = Decode::codec(CodecId::ZSTD).raw_len(1 << 20);
//! let mut table = BlockTable::new();
//! table.push(CodecId::STORED, 0..4096, 4096);
//! table.push(CodecId::LZ4_BLOCK, 4096..6000, 4096);
//! let blocks = Decode::table(table.trim(100, 5000));
//! # let _ = (whole, blocks);
//! ```

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millstream_codec::{CodecError, CodecId, Scratch, StreamDecoder};

use crate::error::{Error, ErrorKind};
use crate::limits;

/// How the stored bytes of a read are encoded.
#[derive(Clone)]
pub struct Decode {
    pub(crate) codec: CodecId,
    /// `u64::MAX`: not given.
    pub(crate) raw_len: u64,
    pub(crate) raw_len_max: u64,
    pub(crate) table: Option<Arc<BlockTable>>,
    pub(crate) decoder: Option<Arc<dyn RequestDecoder>>,
}

/// The number of the codec of [`Decode::by`]: one that no codec has.
const BY_DECODER: CodecId = CodecId(CodecId::APPLICATION.0 - 1);

impl Decode {
    /// One codec for all stored bytes. Codecs from 0x80 on are the application's
    /// ([`StorageOptions::codec`](crate::StorageOptions::codec)).
    #[must_use]
    pub fn codec(codec: CodecId) -> Decode {
        Decode {
            codec,
            raw_len: u64::MAX,
            raw_len_max: limits::RAW_BYTES_MAX_DEFAULT,
            table: None,
            decoder: None,
        }
    }

    /// A decoder of this one request, which yields exactly `raw_len` bytes (`u64::MAX` is none:
    /// [`RawSizeUnknown`](crate::ErrorKind::RawSizeUnknown)): for stored bytes that
    /// only their context explains, such as an entry of an archive with its header.
    #[must_use]
    pub fn by(decoder: Arc<dyn RequestDecoder>, raw_len: u64) -> Decode {
        Decode {
            raw_len,
            decoder: Some(decoder),
            ..Decode::codec(BY_DECODER)
        }
    }

    /// Independent blocks, each with its own codec, which decode in parallel on all workers.
    #[must_use]
    pub fn table(table: impl Into<Arc<BlockTable>>) -> Decode {
        let table = table.into();
        Decode {
            codec: CodecId::STORED,
            raw_len: table.raw_len,
            raw_len_max: limits::RAW_BYTES_MAX_DEFAULT,
            table: Some(table),
            decoder: None,
        }
    }

    /// Sets the exact number of raw bytes that the stored bytes decode to. Of a table it is the sum
    /// of its blocks; any other is an error.
    ///
    /// May be left out where the stored bytes declare it, and for streams: all codecs but bare LZ4
    /// blocks and codecs of the application that are no streams. A stream that does not declare it,
    /// or may go on after a frame that does, lands in memory of the caller that has room for it, or
    /// in a buffer of the library that grows; from there it is copied to a device or to supplied
    /// memory.
    #[must_use]
    pub fn raw_len(mut self, bytes: u64) -> Decode {
        self.raw_len = bytes;
        self
    }

    /// Sets how many raw bytes a stream that does not declare them may decode to in a buffer of the
    /// library: 1 GiB unless it is set. More fail with `RawSizeUnknown`.
    #[must_use]
    pub fn max_raw(mut self, bytes: u64) -> Decode {
        self.raw_len_max = bytes;
        self
    }
}

/// Decodes the stored bytes of one request, in memory of the processor. Its methods must not wait
/// for the storage; a panic fails the request. Unlike a [`Codec`](crate::Codec) it is not
/// registered, knows which bytes it is given, and never keeps a job.
pub trait RequestDecoder: Send + Sync {
    /// Decodes all stored bytes, which one window of staging holds; returns how many raw bytes it
    /// wrote. Called on a worker thread.
    ///
    /// # Errors
    /// The bytes are damaged.
    fn decode(
        &self,
        scratch: &mut Scratch,
        stored: &[u8],
        raw: &mut [u8],
    ) -> Result<usize, CodecError>;

    /// Creates a decoder for stored bytes that arrive in several windows, each of which is decoded
    /// while the next is read. Called on the engine thread.
    ///
    /// # Errors
    /// There is no such decoder.
    fn stream(&self) -> Result<Box<dyn StreamDecoder>, CodecError>;
}

/// Independently encoded blocks of a request's stored bytes, in ascending order without overlap.
/// Blocks follow one another in the destination. Shared by reference count, so one table serves any
/// number of requests.
#[derive(Clone, Default)]
pub struct BlockTable {
    pub(crate) blocks: Vec<Block>,
    pub(crate) raw_len: u64,
    pub(crate) trim: Option<(u64, u64)>,
    pub(crate) source: Option<Arc<dyn BlockSource>>,
}

/// A block of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Relative to the request's offset; of an external block, the offset in its source.
    pub(crate) stored_offset: u64,
    pub(crate) stored_len: u32,
    pub(crate) raw_len: u32,
    pub(crate) codec: CodecId,
    /// XXH3-64 (seed 0) of the stored bytes.
    pub(crate) checksum: Option<u64>,
    pub(crate) external: bool,
}

impl BlockTable {
    /// Creates a table without blocks.
    #[must_use]
    pub fn new() -> BlockTable {
        BlockTable::default()
    }

    /// Reserves room for `more` blocks.
    ///
    /// # Errors
    /// `OutOfMemory`. Without room, [`BlockTable::push`] aborts the process.
    pub fn reserve(&mut self, more: usize) -> Result<(), Error> {
        self.blocks.try_reserve(more).map_err(|_| {
            let cause = "no memory for the request's table of blocks";
            Error::new(ErrorKind::OutOfMemory, cause)
        })
    }

    /// Appends a block: its codec, its stored bytes relative to the request's offset, its raw
    /// bytes. Lengths above 4 GiB − 1, and ranges that end before they begin, become a block that
    /// no request accepts.
    pub fn push(&mut self, codec: CodecId, stored: Range<u64>, raw_len: u32) {
        let len = stored.end.checked_sub(stored.start).unwrap_or(u64::MAX);
        self.blocks.push(Block {
            stored_offset: stored.start,
            stored_len: u32::try_from(len).unwrap_or(0),
            raw_len,
            codec,
            checksum: None,
            external: false,
        });
        self.raw_len = self.raw_len.saturating_add(u64::from(raw_len));
    }

    /// Sets the XXH3-64 (seed 0) of the last block's stored bytes, checked before they are decoded.
    ///
    /// # Panics
    /// If the table has no block.
    pub fn checksum(&mut self, checksum: u64) {
        self.last().checksum = Some(checksum);
    }

    /// Makes the last block an external one: its stored range is read from the table's
    /// [`BlockTable::external`] source.
    ///
    /// # Panics
    /// If the table has no block.
    pub fn external_block(&mut self) {
        self.last().external = true;
    }

    fn last(&mut self) -> &mut Block {
        self.blocks.last_mut().expect("a table with a block")
    }

    /// Sets where external blocks have their stored bytes. The request itself must still read bytes
    /// of its own.
    #[must_use]
    pub fn external(mut self, source: Arc<dyn BlockSource>) -> BlockTable {
        self.source = Some(source);
        self
    }

    /// Lands `take` raw bytes after skipping `skip`: a range that begins and ends within blocks. A
    /// buffer of the library shows just the range, without a copy; so does a buffer of the caller
    /// with room for all raw bytes of the blocks. Other memory needs room for `take` and gets a
    /// copy, made by a worker.
    #[must_use]
    pub fn trim(mut self, skip: u64, take: u64) -> BlockTable {
        self.trim = Some((skip, take));
        self
    }

    /// Returns the number of raw bytes of all blocks.
    #[must_use]
    pub fn raw_len(&self) -> u64 {
        self.raw_len
    }
}

/// Stored bytes of external blocks: the base package of a patch. A panic fails the request.
pub trait BlockSource: Send + Sync {
    /// Fills `into` with the bytes at `offset`. Called on the storage's threads for blocking code
    /// (inside `pump` without threads), so that a source that hangs stops only its own requests. It
    /// must not wait for the storage.
    ///
    /// # Errors
    /// If they cannot be read in full.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error>;

    /// Returns the path of their file, for errors. Called on workers: it must not block.
    fn path(&self) -> Option<Arc<Path>>;
}
