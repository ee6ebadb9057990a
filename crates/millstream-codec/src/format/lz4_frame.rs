//! The LZ4 frame format, version 1.6.x: header, block sizes, end mark.
//!
//! Not supported: legacy frames (magic 0x184C2102), which have neither content sizes nor checksums,
//! and frames with a dictionary. Both give `Unsupported`.

use xxhash_rust::xxh32::xxh32;

use super::{Head, little_endian};
use crate::error::Fault;
use crate::limits::LZ4_BLOCK_BYTES_MAX;

pub(crate) const DAMAGED: Fault =
    Fault::checksum("the data does not match the LZ4 content checksum: it is damaged");

pub(crate) const MAGIC: u32 = 0x184D_2204;
pub(crate) const LEGACY: u32 = 0x184C_2102;

/// The end mark, in place of a block's size.
pub(crate) const END_MARK: u32 = 0;
/// The bit of a block's size that marks an uncompressed block.
pub(crate) const UNCOMPRESSED: u32 = 1 << 31;

pub(crate) const FLAG_VERSION: u8 = 0x40;
const FLAG_VERSION_MASK: u8 = 0xC0;
pub(crate) const FLAG_INDEPENDENT: u8 = 0x20;
pub(crate) const FLAG_BLOCK_CHECKSUM: u8 = 0x10;
pub(crate) const FLAG_CONTENT_SIZE: u8 = 0x08;
pub(crate) const FLAG_CONTENT_CHECKSUM: u8 = 0x04;
const FLAG_RESERVED: u8 = 0x02;
const FLAG_DICTIONARY: u8 = 0x01;

/// A validated frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) header_bytes: usize,
    pub(crate) independent: bool,
    pub(crate) block_checksum: bool,
    pub(crate) content_checksum: bool,
    /// Raw bytes of the frame, if stated. As in the reference decoder, 0 states nothing.
    pub(crate) content_bytes: Option<u64>,
    /// Maximum bytes of a block, raw and stored.
    pub(crate) block_bytes_max: usize,
}

/// Parses the frame at the start of `head`; `first`: no frame came before it.
pub(crate) fn parse(head: &[u8], first: bool) -> Result<Head<Header>, Fault> {
    let cause = "this is no LZ4 frame: the magic number is missing";
    match super::parse_magic(head, &[MAGIC, LEGACY], first, cause)? {
        Head::Frame(MAGIC) => parse_descriptor(&head[4..]),
        Head::Frame(_) => Err(Fault::unsupported(
            "an LZ4 frame of the legacy format is not supported",
        )),
        Head::Skippable { content_bytes } => Ok(Head::Skippable { content_bytes }),
        Head::Incomplete => Ok(Head::Incomplete),
    }
}

/// Parses the frame descriptor, which follows the magic number.
fn parse_descriptor(descriptor: &[u8]) -> Result<Head<Header>, Fault> {
    let Some(&flags) = descriptor.first() else {
        return Ok(Head::Incomplete);
    };
    if flags & FLAG_VERSION_MASK != FLAG_VERSION {
        return Err(Fault::unsupported("an LZ4 frame of another version"));
    }
    let content_len = if flags & FLAG_CONTENT_SIZE != 0 { 8 } else { 0 };
    let dictionary_len = if flags & FLAG_DICTIONARY != 0 { 4 } else { 0 };
    let checked_len = 2 + content_len + dictionary_len;
    let Some(&checksum) = descriptor.get(checked_len) else {
        return Ok(Head::Incomplete);
    };
    if header_checksum(&descriptor[..checked_len]) != checksum {
        return Err(Fault::checksum(
            "the LZ4 frame header does not match its checksum",
        ));
    }
    let block_code = descriptor[1] >> 4;
    if flags & FLAG_RESERVED != 0 || descriptor[1] & 0x8F != 0 {
        return Err(Fault::unsupported(
            "a reserved bit is set in the LZ4 frame header",
        ));
    }
    if flags & FLAG_DICTIONARY != 0 {
        return Err(Fault::unsupported("the LZ4 frame needs a dictionary"));
    }
    if block_code < 4 {
        return Err(Fault::unsupported(
            "an LZ4 frame with a reserved block size",
        ));
    }
    let block_bytes_max = 1usize << (8 + 2 * block_code);
    assert!(block_bytes_max <= LZ4_BLOCK_BYTES_MAX);
    Ok(Head::Frame(Header {
        header_bytes: 4 + checked_len + 1,
        independent: flags & FLAG_INDEPENDENT != 0,
        block_checksum: flags & FLAG_BLOCK_CHECKSUM != 0,
        content_checksum: flags & FLAG_CONTENT_CHECKSUM != 0,
        content_bytes: (content_len != 0)
            .then(|| little_endian(&descriptor[2..10]))
            .filter(|&content_bytes| content_bytes != 0),
        block_bytes_max,
    }))
}

/// Returns the header checksum byte of the descriptor before it.
pub(crate) fn header_checksum(descriptor: &[u8]) -> u8 {
    (xxh32(descriptor, 0) >> 8) as u8
}

/// The parsed size field of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockHead {
    /// The frame's end (a content checksum may follow).
    End,
    Block {
        stored_bytes: usize,
        compressed: bool,
    },
}

/// Parses a block's size field.
pub(crate) fn parse_block(word: u32, header: &Header) -> Result<BlockHead, Fault> {
    if word == END_MARK {
        return Ok(BlockHead::End);
    }
    let stored_bytes = (word & !UNCOMPRESSED) as usize;
    if stored_bytes > header.block_bytes_max {
        return Err(Fault::corrupt(
            "an LZ4 block is larger than its frame allows",
        ));
    }
    Ok(BlockHead::Block {
        stored_bytes,
        compressed: word & UNCOMPRESSED == 0,
    })
}

/// Verifies a block's checksum, if it has one, and returns the block without it.
pub(crate) fn verify_block(block: &[u8], has_checksum: bool) -> Result<&[u8], Fault> {
    if !has_checksum {
        return Ok(block);
    }
    let (block, checksum) = block
        .split_last_chunk::<4>()
        .expect("a block ends in its checksum");
    if u32::from_le_bytes(*checksum) != xxh32(block, 0) {
        return Err(Fault::checksum(
            "an LZ4 block does not match its checksum: it is damaged",
        ));
    }
    Ok(block)
}
