//! Every codec of `millstream-codec` in blocks, GDeflate's kernels in tiles, the libraries called
//! directly, and a bare copy.

use gdeflate::{Decoder, Encoder, Kernel, Level};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use millstream_codec::{CodecId, Scratch, decode_block, default_level, encode_block};

use crate::prelude::*;

/// Encodes raw bytes into an empty vector.
type Encode = Box<dyn FnMut(&[u8], &mut Vec<u8>) -> Result<()> + Send>;
/// Decodes into memory of the raw length.
type Decode = Box<dyn FnMut(&[u8], &mut [u8]) -> Result<()> + Send>;

/// Encodes and decodes one piece at a time; keeps its state between pieces.
pub(crate) struct Coder {
    pub(crate) encode: Encode,
    pub(crate) decode: Decode,
}

impl Coder {
    fn new(
        encode: impl FnMut(&[u8], &mut Vec<u8>) -> Result<()> + Send + 'static,
        decode: impl FnMut(&[u8], &mut [u8]) -> Result<()> + Send + 'static,
    ) -> Coder {
        Coder {
            encode: Box::new(encode),
            decode: Box::new(decode),
        }
    }
}

/// Returns the coder of a contender of `cases.toml`, and the level to show; without `level` it
/// works at its default.
pub(crate) fn of(name: &str, level: Option<i32>) -> Result<(Coder, Option<i32>)> {
    let zlib = level.unwrap_or(default_level(CodecId::ZLIB));
    let zstd = default_level(CodecId::ZSTD);
    Ok(match name {
        "memcpy" => (copying(), None),
        "lz4_flex" => (lz4(), None),
        "libdeflate" => (libdeflate(zlib, level.is_none())?, Some(zlib)),
        "zlib-rs" => (zlib_rs(zlib), Some(zlib)),
        "zstd" => (libzstd(zstd), Some(zstd)),
        "millstream" => (tiles(zlib, Kernel::fastest())?, level),
        _ => {
            let word = name.strip_prefix("millstream-").unwrap_or(name);
            if level.is_some() {
                let mut kernels = Kernel::ALL.iter();
                let kernel = kernels.find(|it| format!("{it:?}").eq_ignore_ascii_case(word));
                let kernel = kernel.filter(|kernel| kernel.is_available());
                let lacks = || Error::new("this processor lacks what the kernel needs");
                return Ok((tiles(zlib, *kernel.ok_or_else(lacks)?)?, level));
            }
            let codec = CodecId::from_name(word).expect("a codec of cases.toml");
            (ours(codec), Some(default_level(codec)))
        }
    })
}

fn ours(codec: CodecId) -> Coder {
    let (mut scratch, mut other) = (Scratch::default(), Scratch::default());
    Coder::new(
        move |raw, stored| {
            let level = default_level(codec);
            Ok(encode_block(codec, level, &mut scratch, raw, stored)?)
        },
        move |stored, raw| {
            decode_block(codec, &mut other, stored, raw)?;
            Ok(())
        },
    )
}

fn tiles(level: i32, kernel: Kernel) -> Result<Coder> {
    let level = Level::new(level as u8).ok_or(Error::new(format!("no level {level}")))?;
    let (mut encoder, mut decoder) = (Encoder::new(level), Decoder::with_kernel(kernel));
    Ok(Coder::new(
        move |raw, stored| Ok(encoder.encode_tile(raw, stored)?),
        move |stored, raw| Ok(decoder.decode_tile(stored, raw)?),
    ))
}

/// Calls libdeflate directly: bare deflate, or with zlib's wrapper and its checksum.
fn libdeflate(level: i32, wrapped: bool) -> Result<Coder> {
    let level = CompressionLvl::new(level)
        .map_err(|_| Error::new(format!("libdeflate has no level {level}")))?;
    let (mut compressor, mut decompressor) = (Compressor::new(level), Decompressor::new());
    Ok(Coder::new(
        move |raw, stored| {
            // The wrapper's bound holds for bare deflate, too.
            stored.resize(compressor.zlib_compress_bound(raw.len()), 0);
            let len = match wrapped {
                true => compressor.zlib_compress(raw, stored),
                false => compressor.deflate_compress(raw, stored),
            };
            stored.truncate(len.what("libdeflate")?);
            Ok(())
        },
        move |stored, raw| {
            let decoded = match wrapped {
                true => decompressor.zlib_decompress(stored, raw),
                false => decompressor.deflate_decompress(stored, raw),
            };
            decoded.map(drop).what("libdeflate")
        },
    ))
}

/// Calls zlib-rs directly, with zlib's wrapper and its checksum.
fn zlib_rs(level: i32) -> Coder {
    let result = |code| match code {
        zlib_rs::ReturnCode::Ok => Ok(()),
        code => Err(Error::new(format!("zlib-rs: {code:?}"))),
    };
    Coder::new(
        move |raw, stored| {
            stored.resize(zlib_rs::compress_bound(raw.len()), 0);
            let config = zlib_rs::DeflateConfig::new(level);
            let (filled, code) = zlib_rs::compress_slice(stored, raw, config);
            let len = filled.len();
            stored.truncate(len);
            result(code)
        },
        move |stored, raw| {
            let len = raw.len();
            let config = zlib_rs::InflateConfig::default();
            let (filled, code) = zlib_rs::decompress_slice(raw, stored, config);
            let is_whole = filled.len() == len;
            result(code)?;
            ensure(
                is_whole,
                "zlib-rs: the stream is shorter than its raw bytes",
            )
        },
    )
}

fn libzstd(level: i32) -> Coder {
    fn failed(code: usize) -> Error {
        Error::new(format!("zstd: {}", zstd_safe::get_error_name(code)))
    }
    let mut compressor = zstd_safe::CCtx::create();
    let mut decompressor = zstd_safe::DCtx::create();
    Coder::new(
        move |raw, stored| {
            stored.reserve(zstd_safe::compress_bound(raw.len()));
            let compressed = compressor.compress(stored, raw, level);
            compressed.map(drop).map_err(failed)
        },
        move |stored, raw| {
            let decompressed = decompressor.decompress(raw, stored);
            decompressed.map(drop).map_err(failed)
        },
    )
}

fn lz4() -> Coder {
    Coder::new(
        |raw, stored| {
            *stored = lz4_flex::block::compress(raw);
            Ok(())
        },
        |stored, raw| {
            let decoded = lz4_flex::block::decompress_into(stored, raw);
            decoded.map(drop).what("lz4")
        },
    )
}

/// A bare copy: what memory allows.
fn copying() -> Coder {
    Coder::new(
        |raw, stored| {
            stored.extend_from_slice(raw);
            Ok(())
        },
        |stored, raw| {
            raw.copy_from_slice(stored);
            Ok(())
        },
    )
}
