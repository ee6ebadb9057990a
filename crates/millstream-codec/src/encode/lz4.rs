//! Encoding LZ4: bare blocks, and frames of independent blocks of 256 KiB with a content checksum.
//!
//! The `lz4` tool writes 4 MiB blocks. Smaller ones decode in parallel within one request and fit
//! the caches; since matches reach back only 64 KiB, the ratio is hardly affected.

use lz4_flex::block::{compress_into_with_table, get_maximum_output_size};
use xxhash_rust::xxh32::xxh32;

use super::{append, reserve};
use crate::Scratch;
use crate::error::Fault;
use crate::format::lz4_frame::{
    END_MARK, FLAG_CONTENT_CHECKSUM, FLAG_CONTENT_SIZE, FLAG_INDEPENDENT, FLAG_VERSION, MAGIC,
    UNCOMPRESSED, header_checksum,
};
use crate::limits::{LZ4_ENCODE_BLOCK_BYTES, LZ4_ENCODE_BLOCK_CODE};

/// Appends `raw` as one bare block.
pub(crate) fn encode_block(
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let table = scratch.lz4_table();
    append(out, get_maximum_output_size(raw.len()), |target| {
        compress_into_with_table(raw, target, table).map_err(|_| Fault::OUT_OF_MEMORY)
    })
}

/// Appends `raw` as one frame that states its content size.
pub(crate) fn encode_frame(
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    begin_frame(Some(raw.len() as u64), out);
    for block in raw.chunks(LZ4_ENCODE_BLOCK_BYTES) {
        encode_frame_block(scratch, block, out)?;
    }
    end_frame(xxh32(raw, 0), out);
    Ok(())
}

/// Appends a frame's header.
pub(crate) fn begin_frame(content_bytes: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC.to_le_bytes());
    let start = out.len();
    let size_flag = if content_bytes.is_some() {
        FLAG_CONTENT_SIZE
    } else {
        0
    };
    out.push(FLAG_VERSION | FLAG_INDEPENDENT | FLAG_CONTENT_CHECKSUM | size_flag);
    out.push(LZ4_ENCODE_BLOCK_CODE << 4);
    if let Some(content_bytes) = content_bytes {
        out.extend_from_slice(&content_bytes.to_le_bytes());
    }
    out.push(header_checksum(&out[start..]));
}

/// Appends a block with its size, uncompressed if compression does not make it smaller.
pub(crate) fn encode_frame_block(
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    assert!(!raw.is_empty() && raw.len() <= LZ4_ENCODE_BLOCK_BYTES);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    encode_block(scratch, raw, out)?;
    let mut word = (out.len() - start - 4) as u32;
    if word as usize >= raw.len() {
        out.truncate(start + 4);
        reserve(out, raw.len())?;
        out.extend_from_slice(raw);
        word = raw.len() as u32 | UNCOMPRESSED;
    }
    out[start..start + 4].copy_from_slice(&word.to_le_bytes());
    Ok(())
}

/// Appends a frame's end mark and the checksum of its raw bytes.
pub(crate) fn end_frame(checksum: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&END_MARK.to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
}
