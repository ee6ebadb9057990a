//! Workload `codecs`: every codec of the engine, in memory.
//!
//! Rates are in MB of raw bytes per second of processor time, on one thread. Corpora are made from
//! a seed (the example `speed` of the crate `gdeflate` takes files). Two views:
//!
//! - *tiles*: GDeflate with each of its kernels, beside libdeflate, which decodes deflate of the
//!   same bytes, cut at the same 64 KiB, encoded at the same level: what a lane format costs or
//!   gains a CPU. Level 0 is stored blocks, beside a bare copy. Also how fast and how small both
//!   encode.
//! - *blocks*: all codecs through `millstream-codec`, in blocks as the engine's decode jobs have
//!   them, at their default levels, beside the libraries called directly and a bare copy.
//!
//! GDeflate's reference codec is no contender: it is not available as a library, and not safe to
//! run in the process.

use gdeflate::limits::TILE_RAW_BYTES;
use gdeflate::{Decoder, Encoder, Kernel, Level};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use millstream_codec::{CodecId, Scratch, decode_block, default_level, encode_block};
use toml::Table;

use crate::cases;
use crate::corpus::generate::Kind;
use crate::prelude::*;

const SEED: u64 = 0x6364_6563;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    // Not by `--only`, which names cases: the corpora are in all of theirs.
    let corpora = cases::of("codecs", "corpus", session.options.quick, &Table::new());
    let Some(size) = corpora.into_iter().next() else {
        return Ok(());
    };
    let bytes = size.get::<Bytes>("bytes").len();
    for kind in Kind::ALL {
        let raw = kind.made(SEED, bytes);
        let corpus = format!("made {}", kind.name());
        let found = Table::from_iter([("corpus".to_owned(), corpus.into())]);
        for instance in session.cases_with("codecs", "coders", found) {
            one(session, &instance, &raw)?;
        }
    }
    Ok(())
}

/// Runs a case. All contenders leave the corpus' raw bytes in the destination.
fn one(session: &mut Session<'_>, instance: &Instance, raw: &[u8]) -> Result<()> {
    let mut case = session.begin(instance);
    let level: Option<i32> = instance.find("level");
    let piece = if level.is_some() {
        TILE_RAW_BYTES
    } else {
        BLOCK_BYTES
    };
    let way: String = instance.get("way");
    for name in instance.contenders() {
        add(&mut case, name, &way, level, raw, piece)?;
    }
    case.check(raw.len(), |bytes, _| {
        ensure(bytes == raw, "other bytes than the corpus has")
    });
    session.run(case)
}

/// Adds a contender of `cases.toml`; `way` is `decode` or `encode`.
fn add<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    way: &str,
    level: Option<i32>,
    raw: &'a [u8],
    piece: usize,
) -> Result<()> {
    let mut coder = match coder_of(name, level) {
        Ok(coder) => coder,
        Err(why) => {
            case.skip(name, &why.to_string());
            return Ok(());
        }
    };
    match way {
        // The encoded data is decoded after the clock has stopped, to be checked.
        "encode" => case.add(name, move |into| {
            let (pieces, span) = span_of(|| Pieces::encode(raw, piece, &mut coder));
            let pieces = pieces?;
            pieces.decode(&mut coder, into)?;
            Ok(pieces.work().took(span))
        }),
        _ => {
            let pieces = Pieces::encode(raw, piece, &mut coder)?;
            case.add(name, move |into| {
                pieces.decode(&mut coder, into)?;
                Ok(pieces.work())
            })
        }
    };
    Ok(())
}

struct Pieces {
    stored: Vec<Vec<u8>>,
    raw_len: usize,
    piece_bytes: usize,
}

impl Pieces {
    fn encode(raw: &[u8], piece_bytes: usize, coder: &mut Coder) -> Result<Pieces> {
        let mut encode = |raw: &[u8]| {
            let mut stored = Vec::new();
            (coder.encode)(raw, &mut stored)?;
            Ok(stored)
        };
        let stored = raw.chunks(piece_bytes).map(&mut encode);
        Ok(Pieces {
            stored: stored.collect::<Result<_>>()?,
            raw_len: raw.len(),
            piece_bytes,
        })
    }

    fn decode(&self, coder: &mut Coder, raw: &mut [u8]) -> Result<()> {
        let places = raw[..self.raw_len].chunks_mut(self.piece_bytes);
        let mut pieces = self.stored.iter().zip(places);
        pieces.try_for_each(|(stored, raw)| (coder.decode)(stored, raw))
    }

    fn work(&self) -> Work {
        let stored: usize = self.stored.iter().map(Vec::len).sum();
        let ratio = self.raw_len as f64 / stored as f64;
        let ratio = vec![(Metric::of("ratio raw/stored"), ratio)];
        Work::of(self.raw_len as u64, 0).with(ratio)
    }
}

type Encode = Box<dyn FnMut(&[u8], &mut Vec<u8>) -> Result<()> + Send>;
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

/// Returns the coder of a contender of `cases.toml`; without `level` it works at its default.
fn coder_of(name: &str, level: Option<i32>) -> Result<Coder> {
    let zlib = level.unwrap_or(default_level(CodecId::ZLIB));
    Ok(match name {
        "memcpy" => copying(),
        "lz4_flex" => lz4(),
        "libdeflate" => libdeflate(zlib, level.is_none())?,
        "zstd" => libzstd(default_level(CodecId::ZSTD)),
        "millstream" => tiles(zlib, Kernel::fastest())?,
        _ => {
            let word = name.strip_prefix("millstream-").unwrap_or(name);
            if level.is_some() {
                let mut kernels = Kernel::ALL.iter();
                let kernel = kernels.find(|it| format!("{it:?}").eq_ignore_ascii_case(word));
                let kernel = kernel.filter(|kernel| kernel.is_available());
                let lacks = || Error::new("this processor lacks what the kernel needs");
                return tiles(zlib, *kernel.ok_or_else(lacks)?);
            }
            ours(CodecId::from_name(word).expect("a codec of cases.toml"))
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
