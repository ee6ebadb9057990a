//! Zstandard frames (RFC 8878, 3.1): frame headers, block headers, extent. The libraries decode the
//! compressed blocks.
//!
//! A frame's window is limited here for every way of decoding, even where a whole block needs no
//! window: whether a stream is accepted must not depend on its size or on how it arrives.

use super::{Head, SKIPPABLE_HEADER_BYTES, little_endian};
use crate::error::{After, Fault};
use crate::limits::{ZSTD_BLOCK_BYTES_MAX, ZSTD_WINDOW_BYTES_MAX};

pub(crate) const NEEDS_DICTIONARY: Fault = Fault::unsupported("the zstd frame needs a dictionary");
pub(crate) const WINDOW_TOO_LARGE: Fault =
    Fault::unsupported("the zstd frame needs a window above 128 MiB");
pub(crate) const TOO_SHORT: Fault = Fault::corrupt("a zstd frame holds less than its header says");
#[cfg(any(feature = "c", feature = "rust"))]
pub(crate) const BROKEN: Fault = Fault::corrupt("the zstd data is broken");
#[cfg(any(feature = "c", feature = "rust"))]
pub(crate) const DAMAGED: Fault =
    Fault::checksum("the data does not match the zstd checksum: it is damaged");

pub(crate) const MAGIC: u32 = 0xFD2F_B528;
pub(crate) const BLOCK_HEADER_BYTES: usize = 3;
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// A validated frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) header_bytes: usize,
    /// Raw bytes of the frame, if stated.
    pub(crate) content_bytes: Option<u64>,
    pub(crate) window_bytes: u64,
    pub(crate) has_checksum: bool,
}

impl Header {
    /// Returns the maximum size of a block of this frame.
    pub(crate) fn block_bytes_max(&self) -> usize {
        usize::try_from(self.window_bytes).map_or(ZSTD_BLOCK_BYTES_MAX, |window| {
            window.min(ZSTD_BLOCK_BYTES_MAX)
        })
    }
}

/// Parses the frame at the start of `head`; `first`: no frame came before it. A frame that names a
/// dictionary is rejected.
pub(crate) fn parse(head: &[u8], first: bool) -> Result<Head<Header>, Fault> {
    let cause = "this is no zstd frame: the magic number is missing";
    match super::parse_magic(head, &[MAGIC], first, cause)? {
        Head::Frame(_) => {}
        Head::Skippable { content_bytes } => return Ok(Head::Skippable { content_bytes }),
        Head::Incomplete => return Ok(Head::Incomplete),
    }
    let Some(&descriptor) = head.get(4) else {
        return Ok(Head::Incomplete);
    };
    let single_segment = descriptor & 0x20 != 0;
    let window_len = usize::from(!single_segment);
    let dictionary_len = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_len = match descriptor >> 6 {
        0 => usize::from(single_segment),
        code => 1 << code,
    };
    let header_bytes = 5 + window_len + dictionary_len + content_len;
    let Some(fields) = head.get(5..header_bytes) else {
        return Ok(Head::Incomplete);
    };
    if descriptor & 0x08 != 0 {
        return Err(Fault::unsupported(
            "a reserved bit is set in the zstd frame header",
        ));
    }
    let (window, fields) = fields.split_at(window_len);
    let (named, content) = fields.split_at(dictionary_len);
    if little_endian(named) != 0 {
        return Err(NEEDS_DICTIONARY);
    }
    let content_bytes = match content_len {
        0 => None,
        2 => Some(little_endian(content) + 256),
        _ => Some(little_endian(content)),
    };
    let window_bytes = match window.first() {
        Some(&code) => window_size(code),
        None => content_bytes.unwrap_or(0),
    };
    if window_bytes > ZSTD_WINDOW_BYTES_MAX {
        return Err(WINDOW_TOO_LARGE);
    }
    let has_checksum = descriptor & 0x04 != 0;
    Ok(Head::Frame(Header {
        header_bytes,
        content_bytes,
        window_bytes,
        has_checksum,
    }))
}

/// Decodes a window descriptor (RFC 8878, 3.1.1.1.2): exponent and mantissa, up to 2^41 + 7 × 2^38.
fn window_size(code: u8) -> u64 {
    let base = 1u64 << (10 + (code >> 3));
    base + base / 8 * u64::from(code & 7)
}

/// A block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) last: bool,
    /// Stored bytes that follow the header.
    pub(crate) stored_bytes: usize,
}

/// Parses a block header of a frame whose blocks have at most `block_bytes_max` bytes.
pub(crate) fn parse_block(bytes: [u8; 3], block_bytes_max: usize) -> Result<Block, Fault> {
    let word = little_endian(&bytes) as usize;
    let size = word >> 3;
    let stored_bytes = match (word >> 1) & 3 {
        0 | 2 => size,
        1 => 1,
        _ => return Err(Fault::corrupt("a zstd block has the reserved type")),
    };
    if size > block_bytes_max {
        return Err(Fault::corrupt(
            "a zstd block is larger than its frame allows",
        ));
    }
    Ok(Block {
        last: word & 1 != 0,
        stored_bytes,
    })
}

/// A walk over one frame's block headers while its bytes arrive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    pub(crate) header: Header,
    /// Bytes of the frame up to the next block header (or up to the end once `last` is set): the
    /// minimum stored size of the frame known so far.
    pub(crate) walked_bytes: usize,
    last: bool,
}

impl Walk {
    pub(crate) fn new(header: Header) -> Walk {
        Walk {
            header,
            walked_bytes: header.header_bytes,
            last: false,
        }
    }

    /// Returns the frame's stored length once its last block's header lies within `frame`, which
    /// begins at the frame's first byte. The length may exceed that of `frame`.
    pub(crate) fn advance(&mut self, frame: &[u8]) -> Result<Option<usize>, Fault> {
        let block_bytes_max = self.header.block_bytes_max();
        while !self.last {
            let rest = frame.get(self.walked_bytes..);
            let Some(bytes) = rest.and_then(|rest| rest.first_chunk()) else {
                return Ok(None);
            };
            let block = parse_block(*bytes, block_bytes_max).after(self.walked_bytes)?;
            self.walked_bytes += BLOCK_HEADER_BYTES + block.stored_bytes;
            self.last = block.last;
            if self.last && self.header.has_checksum {
                self.walked_bytes += CHECKSUM_BYTES;
            }
        }
        Ok(Some(self.walked_bytes))
    }
}

/// Measures the frame at the start of `stored`, which must be complete; see [`parse`]. Returns its
/// stored size, and its header unless it is skippable.
pub(crate) fn measure(stored: &[u8], first: bool) -> Result<(usize, Option<Header>), Fault> {
    let truncated = Fault::TRUNCATED.after(stored.len());
    let (len, header) = match parse(stored, first)? {
        Head::Incomplete => return Err(truncated),
        Head::Skippable { content_bytes } => {
            let len = SKIPPABLE_HEADER_BYTES.checked_add(content_bytes as usize);
            (len, None)
        }
        Head::Frame(header) => (Walk::new(header).advance(stored)?, Some(header)),
    };
    let len = len.filter(|&len| len <= stored.len());
    Ok((len.ok_or(truncated)?, header))
}
