//! Every codec of `millstream-codec` in blocks, the libraries called directly, and a bare copy.

use std::sync::Arc;

use millstream_codec::{CodecId, Scratch, decode_block, default_level, encode_block};

use super::WORKLOAD;
use super::data::Corpus;
use super::pieces::{Coder, Decoding, Encoding, Label, Pieces};
use crate::error::{Error, Result};
use crate::limits::CODEC_BLOCK_BYTES;
use crate::workload::Field;

/// All contenders decoding.
pub(super) fn decode_field(case: &str, corpus: &Corpus) -> Result<Field> {
    let mut field = Field::new(WORKLOAD, case);
    for (label, mut coder) in contenders()? {
        let name = label.name.clone();
        let pieces = Pieces::encode(corpus, CODEC_BLOCK_BYTES, coder.as_mut());
        let decoding = pieces.map(|pieces| Decoding {
            label,
            pieces,
            coder,
        });
        field.try_add(&name, decoding);
    }
    Ok(field)
}

/// All contenders encoding.
pub(super) fn encode_field(case: &str, corpus: &Arc<Corpus>) -> Result<Field> {
    let mut field = Field::new(WORKLOAD, case);
    for (label, coder) in contenders()? {
        field.add(Encoding {
            label,
            corpus: corpus.clone(),
            piece_bytes: CODEC_BLOCK_BYTES,
            coder,
        });
    }
    Ok(field)
}

fn contenders() -> Result<Vec<(Label, Box<dyn Coder>)>> {
    let mut all: Vec<(Label, Box<dyn Coder>)> = Vec::new();
    for codec in CodecId::ALL {
        let ours = Ours {
            codec,
            level: default_level(codec),
            scratch: Scratch::default(),
        };
        let name = format!("millstream-{}", codec.name());
        all.push((Label::new(name, ours.level), Box::new(ours)));
    }
    let level = default_level(CodecId::ZLIB);
    all.push((Label::new("libdeflate", level), Box::new(Zlib::new(level)?)));
    all.push((Label::new("zlib-rs", level), Box::new(ZlibRs { level })));
    let level = default_level(CodecId::ZSTD);
    all.push((Label::new("zstd", level), Box::new(Zstd::new(level))));
    all.push((Label::new("lz4_flex", None), Box::new(Lz4)));
    all.push((Label::new("memcpy", None), Box::new(Copying)));
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
        encode_block(self.codec, self.level, &mut self.scratch, raw, stored)
            .map_err(|error| Error::new(error.to_string()))
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        decode_block(self.codec, &mut self.scratch, stored, raw)
            .map(|_| ())
            .map_err(|error| Error::new(error.to_string()))
    }
}

/// libdeflate called directly, with zlib's wrapper and its checksum.
struct Zlib {
    compressor: libdeflater::Compressor,
    decompressor: libdeflater::Decompressor,
}

impl Zlib {
    fn new(level: i32) -> Result<Zlib> {
        let level = libdeflater::CompressionLvl::new(level)
            .map_err(|_| Error::new(format!("libdeflate has no level {level}")))?;
        Ok(Zlib {
            compressor: libdeflater::Compressor::new(level),
            decompressor: libdeflater::Decompressor::new(),
        })
    }
}

impl Coder for Zlib {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.resize(self.compressor.zlib_compress_bound(raw.len()), 0);
        let len = self
            .compressor
            .zlib_compress(raw, stored)
            .map_err(|error| Error::new(format!("libdeflate: {error}")))?;
        stored.truncate(len);
        Ok(())
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        self.decompressor
            .zlib_decompress(stored, raw)
            .map(|_| ())
            .map_err(|error| Error::new(format!("libdeflate: {error}")))
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
        zlib_rs_result(code)?;
        match filled.len() == len {
            true => Ok(()),
            false => Err(Error::new(
                "zlib-rs: the stream is shorter than its raw bytes",
            )),
        }
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
        self.compressor
            .compress(stored, raw, self.level)
            .map(|_| ())
            .map_err(zstd_error)
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        self.decompressor
            .decompress(raw, stored)
            .map(|_| ())
            .map_err(zstd_error)
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
        lz4_flex::block::decompress_into(stored, raw)
            .map(|_| ())
            .map_err(|error| Error::new(format!("lz4: {error}")))
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
