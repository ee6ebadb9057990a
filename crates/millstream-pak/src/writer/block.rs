//! The encoding of one block: with the codec asked for, or the one that the cost model chooses.

use std::borrow::Cow;

use millstream::CodecId;
use millstream_codec::DictionaryEncoder;
use xxhash_rust::xxh3::xxh3_64;

use super::choose::{AUTO_ZSTD_LEVEL, CANDIDATES, CostModel, shrinks};
use super::encoder::BlockEncoder;
use super::plan::BlockKind;
use super::{Coding, PackOptions};
use crate::error::Result;

/// A block as one codec stores it.
pub(super) struct Encoded<'a> {
    pub(super) codec: CodecId,
    /// Borrowed where a block is stored as it lies in memory.
    pub(super) stored: Cow<'a, [u8]>,
    pub(super) checksum: u64,
    /// The number of its dictionary; 0 for none.
    pub(super) dictionary: u16,
}

impl<'a> Encoded<'a> {
    pub(super) fn new(
        codec: CodecId,
        stored: Cow<'a, [u8]>,
        with: Option<&DictionaryEncoder>,
    ) -> Encoded<'a> {
        let named = with.is_some() && codec == CodecId::ZSTD;
        Encoded {
            codec,
            checksum: xxh3_64(&stored),
            stored,
            dictionary: u16::from(named),
        }
    }
}

/// The block as it is encoded; `None` where it is stored as it is.
pub(super) fn encode_block(
    (raw, kind): (&[u8], BlockKind),
    options: &PackOptions<'_>,
    (model, with): (&CostModel, Option<&DictionaryEncoder>),
    encoder: &mut BlockEncoder<'_>,
) -> Result<Option<Encoded<'static>>> {
    if let (BlockKind::Gpu, Some(rate)) = (kind, options.gpu_megabytes_per_second) {
        return encode_for_gpu(raw, (model, rate), encoder);
    }
    match options.coding {
        Coding::Fixed(CodecId::STORED) => Ok(None),
        Coding::Fixed(codec) => {
            let level = options.level;
            let level = level.unwrap_or(millstream_codec::default_level(codec));
            let stored = encoder.encode((codec, level), with, raw)?;
            if stored.len() >= raw.len() {
                encoder.keep(stored);
                return Ok(None);
            }
            Ok(Some(Encoded::new(codec, Cow::Owned(stored), with)))
        }
        Coding::Auto(_) => {
            let best = encode_best(raw, options, (model, with), encoder)?;
            Ok(best.map(|(codec, stored)| Encoded::new(codec, Cow::Owned(stored), with)))
        }
    }
}

/// A block that a GPU decodes: GDeflate, if that loads faster.
fn encode_for_gpu(
    raw: &[u8],
    (model, rate): (&CostModel, f64),
    encoder: &mut BlockEncoder<'_>,
) -> Result<Option<Encoded<'static>>> {
    let codec = CodecId::GDEFLATE;
    let level = millstream_codec::default_level(codec);
    let stored = encoder.encode((codec, level), None, raw)?;
    if stored.len() >= raw.len() || !model.gains_on_gpu(rate, raw.len(), stored.len()) {
        encoder.keep(stored);
        return Ok(None);
    }
    Ok(Some(Encoded::new(codec, Cow::Owned(stored), None)))
}

/// The candidate that `auto` takes; `None` for the block as it is.
fn encode_best(
    raw: &[u8],
    options: &PackOptions<'_>,
    (model, with): (&CostModel, Option<&DictionaryEncoder>),
    encoder: &mut BlockEncoder<'_>,
) -> Result<Option<(CodecId, Vec<u8>)>> {
    let quick = encoder.encode((quick_codec(), 1), None, raw)?;
    let quick_bytes = quick.len();
    encoder.keep(quick);
    // What a quick encoder does not shrink, a slow one hardly does.
    if with.is_none() && !shrinks(raw.len(), quick_bytes) {
        return Ok(None);
    }
    let mut best: Option<(CodecId, Vec<u8>)> = None;
    let mut sizes = vec![(CodecId::STORED, raw.len())];
    for codec in CANDIDATES {
        let levels = millstream_codec::block_level_range(codec);
        let has_dictionary = with.is_some() && codec == CodecId::ZSTD;
        let is_tried = has_dictionary || model.may_take(codec, raw.len(), quick_bytes, &sizes);
        if levels.is_empty() || !is_tried {
            continue;
        }
        let level = match codec {
            CodecId::ZSTD => options.level.unwrap_or(AUTO_ZSTD_LEVEL),
            codec => millstream_codec::default_level(codec),
        };
        let level = level.clamp(*levels.start(), *levels.end());
        let stored = encoder.encode((codec, level), with, raw)?;
        let mut passed = Some(stored);
        if let Some(stored) = passed.take_if(|stored| stored.len() < raw.len()) {
            sizes.push((codec, stored.len()));
            passed = match model.choose(raw.len(), &sizes) == sizes.len() - 1 {
                true => best.replace((codec, stored)).map(|(_, before)| before),
                false => Some(stored),
            };
        }
        passed.into_iter().for_each(|buffer| encoder.keep(buffer));
    }
    Ok(best)
}

/// The codec whose first level shows whether a block shrinks.
fn quick_codec() -> CodecId {
    match millstream_codec::block_level_range(CodecId::ZSTD).is_empty() {
        true => CodecId::ZLIB,
        false => CodecId::ZSTD,
    }
}
