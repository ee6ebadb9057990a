//! Every codec of `millstream-codec` in blocks, the libraries called directly, and a bare copy.

use std::sync::Arc;

use millstream_codec::{CodecId, Scratch, decode_block, default_level, encode_block};

use super::data::Corpus;
use super::pieces::{Coder, Pieces, decoder, encoder};
use crate::case::Case;
use crate::error::{Context, Error, Result, ensure};
use crate::limits::CODEC_BLOCK_BYTES;

/// Adds everyone decoding.
pub(super) fn add_decoders(case: &mut Case<'_>, corpus: &Arc<Corpus>) -> Result<()> {
    for (name, level, mut coder) in all()? {
        let pieces = Pieces::encode(corpus, CODEC_BLOCK_BYTES, coder.as_mut());
        let made = pieces.map(|pieces| decoder(&name, level, Arc::new(pieces), coder));
        case.try_push(&name, made);
    }
    Ok(())
}

/// Adds everyone encoding.
pub(super) fn add_encoders(case: &mut Case<'_>, corpus: &Arc<Corpus>) -> Result<()> {
    for (name, level, coder) in all()? {
        case.push(encoder(&name, level, corpus, CODEC_BLOCK_BYTES, coder));
    }
    Ok(())
}

/// A name, a level, and who encodes and decodes.
type Named = (String, Option<i32>, Box<dyn Coder>);

fn all() -> Result<Vec<Named>> {
    let mut all: Vec<Named> = Vec::new();
    for codec in CodecId::ALL {
        let ours = Ours {
            codec,
            level: default_level(codec),
            scratch: Scratch::default(),
        };
        let name = format!("millstream-{}", codec.name());
        all.push((name, Some(ours.level), Box::new(ours)));
    }
    let (zlib, zstd) = (default_level(CodecId::ZLIB), default_level(CodecId::ZSTD));
    let libdeflate = Libdeflate::new(zlib, true)?;
    all.push(("libdeflate".into(), Some(zlib), Box::new(libdeflate)));
    all.push((
        "zlib-rs".into(),
        Some(zlib),
        Box::new(ZlibRs { level: zlib }),
    ));
    all.push(("zstd".into(), Some(zstd), Box::new(Zstd::new(zstd))));
    all.push(("lz4_flex".into(), None, Box::new(Lz4)));
    all.push(("memcpy".into(), None, Box::new(Copying)));
    Ok(all)
}

/// One of the engine's codecs.
struct Ours {
    codec: CodecId,
    level: i32,
    scratch: Scratch,
}

impl Coder for Ours {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        encode_block(self.codec, self.level, &mut self.scratch, raw, stored)?;
        Ok(())
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        decode_block(self.codec, &mut self.scratch, stored, raw)?;
        Ok(())
    }
}

/// libdeflate called directly: bare deflate, or with zlib's wrapper and its checksum.
pub(super) struct Libdeflate {
    compressor: libdeflater::Compressor,
    decompressor: libdeflater::Decompressor,
    wrapped: bool,
}

impl Libdeflate {
    pub(super) fn new(level: i32, wrapped: bool) -> Result<Libdeflate> {
        let level = libdeflater::CompressionLvl::new(level)
            .map_err(|_| Error::new(format!("libdeflate has no level {level}")))?;
        Ok(Libdeflate {
            compressor: libdeflater::Compressor::new(level),
            decompressor: libdeflater::Decompressor::new(),
            wrapped,
        })
    }
}

impl Coder for Libdeflate {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        // The wrapper's bound holds for bare deflate, too.
        stored.resize(self.compressor.zlib_compress_bound(raw.len()), 0);
        let len = match self.wrapped {
            true => self.compressor.zlib_compress(raw, stored),
            false => self.compressor.deflate_compress(raw, stored),
        };
        stored.truncate(len.what("libdeflate")?);
        Ok(())
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        let decoded = match self.wrapped {
            true => self.decompressor.zlib_decompress(stored, raw),
            false => self.decompressor.deflate_decompress(stored, raw),
        };
        decoded.map(drop).what("libdeflate")
    }
}

/// zlib-rs called directly, with zlib's wrapper and its checksum.
struct ZlibRs {
    level: i32,
}

/// What a call of zlib-rs came to.
fn zlib_rs_result(code: zlib_rs::ReturnCode) -> Result<()> {
    match code {
        zlib_rs::ReturnCode::Ok => Ok(()),
        code => Err(Error::new(format!("zlib-rs: {code:?}"))),
    }
}

impl Coder for ZlibRs {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.resize(zlib_rs::compress_bound(raw.len()), 0);
        let config = zlib_rs::DeflateConfig::new(self.level);
        let (filled, code) = zlib_rs::compress_slice(stored, raw, config);
        let len = filled.len();
        stored.truncate(len);
        zlib_rs_result(code)
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        let len = raw.len();
        let config = zlib_rs::InflateConfig::default();
        let (filled, code) = zlib_rs::decompress_slice(raw, stored, config);
        let is_whole = filled.len() == len;
        zlib_rs_result(code)?;
        ensure(
            is_whole,
            "zlib-rs: the stream is shorter than its raw bytes",
        )
    }
}

/// libzstd called directly.
struct Zstd {
    level: i32,
    compressor: zstd_safe::CCtx<'static>,
    decompressor: zstd_safe::DCtx<'static>,
}

impl Zstd {
    fn new(level: i32) -> Zstd {
        Zstd {
            level,
            compressor: zstd_safe::CCtx::create(),
            decompressor: zstd_safe::DCtx::create(),
        }
    }
}

fn zstd_error(code: usize) -> Error {
    Error::new(format!("zstd: {}", zstd_safe::get_error_name(code)))
}

impl Coder for Zstd {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.reserve(zstd_safe::compress_bound(raw.len()));
        let compressed = self.compressor.compress(stored, raw, self.level);
        compressed.map(drop).map_err(zstd_error)
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        let decompressed = self.decompressor.decompress(raw, stored);
        decompressed.map(drop).map_err(zstd_error)
    }
}

/// lz4_flex called directly.
struct Lz4;

impl Coder for Lz4 {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        *stored = lz4_flex::block::compress(raw);
        Ok(())
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        let decoded = lz4_flex::block::decompress_into(stored, raw);
        decoded.map(drop).what("lz4")
    }
}

/// What memory allows.
pub(super) struct Copying;

impl Coder for Copying {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.extend_from_slice(raw);
        Ok(())
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        raw.copy_from_slice(stored);
        Ok(())
    }
}
