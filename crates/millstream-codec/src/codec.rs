//! The codecs of this crate: their numbers and [`TABLE`], which holds the facts about each and its
//! functions. A new codec is a constant and an entry here, and a file with its functions.

use std::io::{Read, Write};
use std::ops::RangeInclusive;

use crate::encode::{NO_LEVELS, deflate, lz4 as lz4_encoder};
use crate::error::{Fault, StreamError};
use crate::format::lz4_frame::{LEGACY, MAGIC};
use crate::format::{parse_magic, wrapper::Wrapper, zstd_frame};
use crate::stream::{Deflate, Gdeflate, Lz4, Zstd, boxed, decode_whole};
use crate::{Scratch, StreamDecoder, Totals, Unit, UnitScanner};
use crate::{block, encode, gdeflate, signature, transfer, unit};

/// The number of a codec in requests and packages; from 0x80 on, the application's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

impl CodecId {
    /// Uncompressed bytes.
    pub const STORED: CodecId = CodecId(0);
    /// zlib (RFC 1950).
    pub const ZLIB: CodecId = CodecId(1);
    /// gzip (RFC 1952); concatenated members are one stream, and zeros after the last are ignored.
    pub const GZIP: CodecId = CodecId(2);
    /// Raw deflate (RFC 1951).
    pub const DEFLATE: CodecId = CodecId(3);
    /// Zstandard (RFC 8878); concatenated and skippable frames are one stream.
    pub const ZSTD: CodecId = CodecId(4);
    /// The LZ4 frame format; concatenated and skippable frames are one stream.
    pub const LZ4: CodecId = CodecId(5);
    /// One bare LZ4 block: the raw size must be known.
    pub const LZ4_BLOCK: CodecId = CodecId(6);
    /// A GDeflate tile stream.
    pub const GDEFLATE: CodecId = CodecId(7);
    /// The first number of the application's own codecs.
    pub const APPLICATION: CodecId = CodecId(0x80);

    /// All codecs of this crate, by ascending number.
    pub const ALL: [CodecId; TABLE.len()] = {
        let mut all = [CodecId::STORED; TABLE.len()];
        let mut number = 0;
        while number < all.len() {
            all[number] = CodecId(number as u8);
            number += 1;
        }
        all
    };

    /// Returns the codec's name, or `application` or `unknown` for codecs not of this crate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 >= CodecId::APPLICATION.0 {
            true => "application",
            false => self.facts().name,
        }
    }

    /// Returns the codec with this name, as [`CodecId::name`] spells it.
    ///
    /// ```
    /// use millstream_codec::CodecId;
    /// assert_eq!(CodecId::from_name("lz4-block"), Some(CodecId::LZ4_BLOCK));
    /// assert_eq!(CodecId::from_name("lzma"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<CodecId> {
        CodecId::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Returns the facts about the codec; one that is not of this crate can do nothing.
    #[must_use]
    pub const fn facts(self) -> &'static Codec {
        match (self.0 as usize) < TABLE.len() {
            true => &TABLE[self.0 as usize],
            false => &UNKNOWN,
        }
    }
}

type Decode = fn(CodecId, &mut Scratch, &[u8], &mut [u8]) -> Result<usize, Fault>;
type Scan = fn(&[u8], u64) -> Option<Box<dyn UnitScanner>>;
type DecodeUnit = fn(&Unit, &mut Scratch, &[u8], &mut [u8]) -> Result<(), Fault>;
type Encode = fn(CodecId, i32, &mut Scratch, &[u8], &mut Vec<u8>) -> Result<(), Fault>;
type Compress = fn(CodecId, i32, &mut dyn Read, &mut dyn Write) -> Result<Totals, StreamError>;

/// A codec: facts, and the functions behind those of this crate. They get the codec's number, which
/// tells apart those that share them.
pub struct Codec {
    pub(crate) name: &'static str,
    /// The name where blocks record their raw sizes and so need no frame, if it is worth offering.
    pub block_name: Option<&'static str>,
    /// Levels of streams, and of whole blocks; empty if this build cannot encode them.
    pub(crate) levels: (RangeInclusive<i32>, RangeInclusive<i32>),
    pub(crate) default_level: i32,
    /// Whether this build decodes it.
    pub(crate) decodes: bool,
    /// The name in error messages, and whether bytes, however few, may be the first of a stream.
    pub(crate) format: (&'static str, fn(&[u8]) -> bool),
    /// What identifies bytes as of this format, and its name then.
    pub(crate) signatures: &'static [(&'static [u8], &'static str)],
    /// Whether a stream's head declares the size of the whole stream, and not of its first frame.
    pub declares_whole: bool,
    pub(crate) declared: fn(&[u8], u64) -> Option<u64>,
    pub(crate) decode: Decode,
    /// Makes a decoder, if the codec has streams.
    pub stream: Option<fn(CodecId) -> Box<dyn StreamDecoder>>,
    /// Finds independent units, if streams may have them: gets the head and the raw size.
    pub scanner: Option<Scan>,
    pub(crate) decode_unit: DecodeUnit,
    pub(crate) encode: Encode,
    pub(crate) compress: Compress,
}

/// An unknown codec, and what an entry need not say.
const UNKNOWN: Codec = Codec {
    name: "unknown",
    block_name: None,
    levels: (NO_LEVELS, NO_LEVELS),
    default_level: 1,
    decodes: true,
    format: ("", |_| true),
    signatures: &[],
    declares_whole: false,
    declared: |_, _| None,
    decode: |_, _, _, _| Err(Fault::UNKNOWN_CODEC),
    stream: None,
    scanner: None,
    decode_unit: |_, _, _, _| Err(Fault::unsupported("this codec has no units")),
    encode: |_, _, _, _, _| Err(Fault::UNSUPPORTED),
    compress: |id, _, _, _| Err(Fault::UNSUPPORTED.at(id, 0).into()),
};

/// Raw deflate; zlib and gzip are the same in a [`Wrapper`]. zlib-rs encodes streams; libdeflate,
/// which encodes blocks, has more levels.
const DEFLATE: Codec = Codec {
    name: "deflate",
    levels: (0..=9, 0..=if cfg!(feature = "c") { 12 } else { 9 }),
    default_level: 6,
    format: ("raw deflate", |head| signature::of(head).is_none()),
    decode: |id, scratch, stored, raw| {
        decode_whole(scratch.stream_deflate(Wrapper::of(id)), stored, raw)
    },
    stream: Some(|id| boxed(id, Deflate::new(Wrapper::of(id)))),
    encode: deflate::encode,
    compress: transfer::compress_deflate,
    ..UNKNOWN
};

/// Levels of zstd: below -7 it gains hardly any speed, and its own tool ends there, too.
const ZSTD_LEVELS: RangeInclusive<i32> = -7..=if cfg!(feature = "c") { 22 } else { -8 };

/// All codecs, by number.
static TABLE: [Codec; 8] = [
    Codec {
        name: "stored",
        block_name: Some("stored"),
        levels: (1..=1, 1..=1),
        declared: |_, stored_len| Some(stored_len),
        decode: |_, _, stored, raw| block::decode_stored(stored, raw),
        encode: |_, _, _, raw, out| {
            encode::reserve(out, raw.len()).map(|()| out.extend_from_slice(raw))
        },
        compress: |_, _, raw, stored| transfer::copy(raw, stored),
        ..UNKNOWN
    },
    Codec {
        name: "zlib",
        block_name: Some("zlib"),
        format: ("zlib", signature::is_zlib),
        ..DEFLATE
    },
    Codec {
        name: "gzip",
        format: ("gzip", |head| signature::begins(head, &[0x1f, 0x8b])),
        signatures: &[(&[0x1f, 0x8b, 8], "gzip")],
        ..DEFLATE
    },
    DEFLATE,
    Codec {
        name: "zstd",
        block_name: Some("zstd"),
        levels: (ZSTD_LEVELS, ZSTD_LEVELS),
        default_level: 3,
        decodes: cfg!(any(feature = "c", feature = "rust")),
        format: ("zstd", |head| {
            parse_magic(head, &[zstd_frame::MAGIC], true, "").is_ok()
        }),
        signatures: &[(&zstd_frame::MAGIC.to_le_bytes(), "zstd")],
        declared: unit::zstd::declared,
        decode: |_, scratch, stored, raw| {
            block::zstd::decode(scratch, stored, raw)
                .or_else(|_| decode_whole(&mut Zstd::new(), stored, raw))
        },
        stream: Some(|id| boxed(id, Zstd::new())),
        scanner: Some(unit::zstd::scanner),
        decode_unit: |_, scratch, stored, raw| unit::zstd::decode(scratch, stored, raw),
        #[cfg(feature = "c")]
        encode: |_, level, scratch, raw, out| encode::zstd::encode(level, scratch, raw, out),
        #[cfg(feature = "c")]
        compress: transfer::compress_zstd,
        ..UNKNOWN
    },
    Codec {
        name: "lz4",
        levels: (1..=1, 1..=1),
        // The decoder refuses the legacy format by its name.
        format: ("an LZ4 frame", |head| {
            parse_magic(head, &[MAGIC, LEGACY], true, "").is_ok()
        }),
        signatures: &[
            (&MAGIC.to_le_bytes(), "LZ4 frame"),
            (&LEGACY.to_le_bytes(), "LZ4 frame of the legacy format"),
        ],
        declared: unit::lz4::declared,
        decode: |_, _, stored, raw| decode_whole(&mut Lz4::new(), stored, raw),
        stream: Some(|id| boxed(id, Lz4::new())),
        scanner: Some(unit::lz4::scanner),
        decode_unit: |unit, _, stored, raw| unit::lz4::decode(unit, stored, raw),
        encode: |_, _, scratch, raw, out| lz4_encoder::encode_frame(scratch, raw, out),
        compress: |_, _, raw, stored| transfer::compress_lz4(raw, stored),
        ..UNKNOWN
    },
    Codec {
        name: "lz4-block",
        block_name: Some("lz4"),
        levels: (NO_LEVELS, 1..=1),
        decode: |_, _, stored, raw| block::lz4_block(stored, raw),
        encode: |_, _, scratch, raw, out| lz4_encoder::encode_block(scratch, raw, out),
        ..UNKNOWN
    },
    Codec {
        name: "gdeflate",
        block_name: Some("gdeflate"),
        levels: (gdeflate::LEVELS, gdeflate::LEVELS),
        default_level: gdeflate::DEFAULT_LEVEL,
        format: ("GDeflate", |head| signature::begins(head, &[0x04, 0xfb])),
        declares_whole: true,
        declared: |head, _| gdeflate::declared(head),
        decode: |_, scratch, stored, raw| {
            gdeflate::decode(scratch, stored, raw)
                .or_else(|_| decode_whole(&mut Gdeflate::default(), stored, raw))
        },
        stream: Some(|id| boxed(id, Gdeflate::default())),
        scanner: Some(unit::gdeflate::scanner),
        decode_unit: |_, scratch, stored, raw| gdeflate::decode_tile(scratch, stored, raw),
        encode: |_, level, _, raw, out| gdeflate::encode(level, raw, 1, out),
        compress: |_, level, raw, stored| transfer::compress_gdeflate(level, raw, stored),
        ..UNKNOWN
    },
];
