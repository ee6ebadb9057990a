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
            let mut candidates = candidates(raw, options, (model, with), encoder)?;
            let mut sizes = vec![(CodecId::STORED, raw.len())];
            sizes.extend(sizes_of(&candidates));
            let chosen = model.choose(raw.len(), &sizes).checked_sub(1);
            let chosen = chosen.map(|nth| candidates.swap_remove(nth));
            for (_, stored) in candidates {
                encoder.keep(stored);
            }
            let encoded =
                chosen.map(|(codec, stored)| Encoded::new(codec, Cow::Owned(stored), with));
            Ok(encoded)
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

/// What `auto` chooses from, beside the block as it is.
fn candidates(
    raw: &[u8],
    options: &PackOptions<'_>,
    (model, with): (&CostModel, Option<&DictionaryEncoder>),
    encoder: &mut BlockEncoder<'_>,
) -> Result<Vec<(CodecId, Vec<u8>)>> {
    let mut candidates: Vec<(CodecId, Vec<u8>)> = Vec::new();
    for codec in CANDIDATES {
        let levels = millstream_codec::block_level_range(codec);
        if levels.is_empty() {
            continue;
        }
        let level = match codec {
            CodecId::ZSTD if with.is_none() => {
                // What the fastest level does not shrink is not worth a slow one.
                let quick = encoder.encode((codec, 1), None, raw)?;
                let hardly = !shrinks(raw.len(), quick.len());
                encoder.keep(quick);
                if hardly {
                    continue;
                }
                options.level.unwrap_or(AUTO_ZSTD_LEVEL)
            }
            CodecId::GDEFLATE => {
                let others: Vec<_> = sizes_of(&candidates).collect();
                if !model.may_take_gdeflate(raw.len(), &others) {
                    continue;
                }
                millstream_codec::default_level(codec)
            }
            codec => millstream_codec::default_level(codec),
        };
        let level = level.clamp(*levels.start(), *levels.end());
        let stored = encoder.encode((codec, level), with, raw)?;
        if stored.len() < raw.len() {
            candidates.push((codec, stored));
        } else {
            encoder.keep(stored);
        }
    }
    Ok(candidates)
}

fn sizes_of(candidates: &[(CodecId, Vec<u8>)]) -> impl Iterator<Item = (CodecId, usize)> {
    candidates
        .iter()
        .map(|(codec, stored)| (*codec, stored.len()))
}
