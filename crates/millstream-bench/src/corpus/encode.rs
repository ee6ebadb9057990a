//! The stored forms of a corpus file.
//!
//! Two families. One stream, as the studies had it: nothing can be decoded before all in front of
//! it is. And independent blocks of [`CODEC_BLOCK_BYTES`]: for the formats that hold them inside
//! one stream (zstd with one frame per block, lz4 frames with independent blocks) and as bare
//! blocks behind each other with a table beside.

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use millstream_codec::CodecId;
use std::io::Write;

use crate::error::{Context, Error, Result};
use crate::limits::CODEC_BLOCK_BYTES;

/// Level of zlib and zstd: the defaults of their own tools, as a build would use them.
const ZLIB_LEVEL: i32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// A stored form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Form {
    /// As it is.
    Stored,
    /// One zlib stream.
    Zlib,
    /// One zstd frame.
    Zstd,
    /// One lz4 frame whose blocks depend on one another.
    Lz4,
    /// zlib streams of one block each, with a table.
    ZlibBlocks,
    /// zstd frames of one block each: a valid multi-frame stream, and blocks with a table.
    ZstdBlocks,
    /// Bare lz4 blocks with a table.
    Lz4Blocks,
    /// One lz4 frame of independent blocks.
    Lz4Frame,
}

impl Form {
    /// Extension of its file and its name in a case.
    pub(crate) fn name(self) -> &'static str {
        self.about().0
    }

    /// Codec of the whole file as one stream; for bare blocks, of each block.
    pub(crate) fn codec(self) -> CodecId {
        self.about().1
    }

    fn about(self) -> (&'static str, CodecId) {
        match self {
            Form::Stored => ("stored", CodecId::STORED),
            Form::Zlib => ("zlib", CodecId::ZLIB),
            Form::Zstd => ("zstd", CodecId::ZSTD),
            Form::Lz4 => ("lz4", CodecId::LZ4),
            Form::ZlibBlocks => ("zlib-blocks", CodecId::ZLIB),
            Form::ZstdBlocks => ("zstd-blocks", CodecId::ZSTD),
            Form::Lz4Blocks => ("lz4-blocks", CodecId::LZ4_BLOCK),
            Form::Lz4Frame => ("lz4-frame", CodecId::LZ4),
        }
    }

    /// Whether a table of blocks goes with it.
    pub(crate) fn has_blocks(self) -> bool {
        matches!(self, Form::ZlibBlocks | Form::ZstdBlocks | Form::Lz4Blocks)
    }
}

/// Stored bytes, and the stored length of every block where the form has blocks.
pub(crate) struct Encoded {
    /// What goes into the file.
    pub(crate) bytes: Vec<u8>,
    /// Stored length per block of [`CODEC_BLOCK_BYTES`] raw bytes; empty without blocks.
    pub(crate) block_lens: Vec<u32>,
}

/// Encodes `raw` into `form`.
pub(crate) fn encode(form: Form, raw: Vec<u8>) -> Result<Encoded> {
    if form.has_blocks() {
        let mut encoded = Encoded {
            bytes: Vec::with_capacity(raw.len()),
            block_lens: Vec::with_capacity(raw.len() / CODEC_BLOCK_BYTES + 1),
        };
        for block in raw.chunks(CODEC_BLOCK_BYTES) {
            let stored = encode_block(form, block)?;
            encoded.block_lens.push(stored.len() as u32);
            encoded.bytes.extend_from_slice(&stored);
        }
        return Ok(encoded);
    }
    let bytes = match form {
        Form::Zlib => zlib(&raw)?,
        Form::Zstd => zstd(&raw)?,
        Form::Lz4 => lz4_frame(&raw, BlockMode::Linked)?,
        Form::Lz4Frame => lz4_frame(&raw, BlockMode::Independent)?,
        _ => raw,
    };
    Ok(Encoded {
        bytes,
        block_lens: Vec::new(),
    })
}

fn encode_block(form: Form, block: &[u8]) -> Result<Vec<u8>> {
    match form {
        Form::ZlibBlocks => zlib(block),
        Form::ZstdBlocks => zstd(block),
        _ => Ok(lz4_flex::block::compress(block)),
    }
}

fn zlib(raw: &[u8]) -> Result<Vec<u8>> {
    let level = libdeflater::CompressionLvl::new(ZLIB_LEVEL);
    let level = level.map_err(|_| Error::new(format!("zlib has no level {ZLIB_LEVEL}")))?;
    let mut compressor = libdeflater::Compressor::new(level);
    let mut out = vec![0; compressor.zlib_compress_bound(raw.len())];
    let len = compressor.zlib_compress(raw, &mut out).what("zlib")?;
    out.truncate(len);
    Ok(out)
}

fn zstd(raw: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(raw.len()));
    zstd_safe::compress(&mut out, raw, ZSTD_LEVEL)
        .map_err(|code| Error::new(format!("zstd: {}", zstd_safe::get_error_name(code))))?;
    Ok(out)
}

fn lz4_frame(raw: &[u8], mode: BlockMode) -> Result<Vec<u8>> {
    let info = FrameInfo::new()
        .block_mode(mode)
        .block_size(BlockSize::Max256KB)
        .content_size(Some(raw.len() as u64));
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::with_capacity(raw.len()));
    encoder.write_all(raw).what("lz4")?;
    encoder.finish().what("lz4")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const FORMS: [Form; 8] = [
        Form::Stored,
        Form::Zlib,
        Form::Zstd,
        Form::Lz4,
        Form::ZlibBlocks,
        Form::ZstdBlocks,
        Form::Lz4Blocks,
        Form::Lz4Frame,
    ];

    /// Decodes by the libraries' own decoders, not by those that the benchmark measures.
    fn decode(codec: CodecId, stored: &[u8], out: &mut [u8]) {
        match codec {
            CodecId::ZLIB => {
                let mut decoder = libdeflater::Decompressor::new();
                decoder.zlib_decompress(stored, out).unwrap();
            }
            CodecId::ZSTD => drop(zstd_safe::decompress(out, stored).unwrap()),
            CodecId::LZ4 => {
                let mut decoder = lz4_flex::frame::FrameDecoder::new(stored);
                decoder.read_exact(out).unwrap();
                assert_eq!(decoder.read(&mut [0]).unwrap(), 0);
            }
            CodecId::LZ4_BLOCK => drop(lz4_flex::block::decompress_into(stored, out).unwrap()),
            _ => out.copy_from_slice(stored),
        }
    }

    #[test]
    fn every_form_decodes_to_the_raw_bytes_whole_or_block_by_block() {
        let mut raw = vec![0; 3 * CODEC_BLOCK_BYTES + 1001];
        crate::corpus::generate::fill(5, &mut raw);
        for form in FORMS {
            let encoded = encode(form, raw.clone()).unwrap();
            let mut out = vec![0; raw.len()];
            if form.has_blocks() {
                let mut rest = &encoded.bytes[..];
                for (len, out) in encoded
                    .block_lens
                    .iter()
                    .zip(out.chunks_mut(CODEC_BLOCK_BYTES))
                {
                    let stored = rest.split_off(..*len as usize).unwrap();
                    decode(form.codec(), stored, out);
                }
                assert!(rest.is_empty(), "{form:?}");
            } else {
                decode(form.codec(), &encoded.bytes, &mut out);
                assert!(encoded.block_lens.is_empty());
            }
            assert!(out == raw, "{form:?}");
            assert!(form == Form::Stored || encoded.bytes.len() < raw.len());
        }
    }
}
