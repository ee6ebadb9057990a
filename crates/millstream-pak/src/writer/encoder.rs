//! Encodes blocks with the codec that the options name, or the one that the cost model chooses.
//!
//! Fresh memory costs more than the work done in it: the system clears each page, and in a virtual
//! machine the host must allocate it first. So buffers are recycled, from the thread that encodes
//! to the one that writes and back. Their number is bounded by that of the blocks held at once.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use millstream::CodecId;
use millstream_codec::{Scratch, block_level_range, default_level};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::choose::{AUTO_ZSTD_LEVEL, COSTS, CostModel, shrinks};
use super::plan::Part;
use super::{Coding, PackOptions, Target, tree};
use crate::error::{Error, ErrorKind, Result};

/// Buffers that are not in use.
#[derive(Default)]
pub(super) struct FreeBuffers(Mutex<Vec<Vec<u8>>>);

impl FreeBuffers {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a buffer back.
    pub(super) fn put(&self, buffer: Vec<u8>) {
        self.all().push(buffer);
    }

    /// Returns an empty buffer.
    fn take(&self) -> Vec<u8> {
        let mut buffer = self.all().pop().unwrap_or_default();
        buffer.clear();
        buffer
    }
}

/// An encoded block.
#[derive(Serialize, Deserialize)]
pub(super) struct Done<'a> {
    /// The number of its codec.
    pub(super) codec: u8,
    /// Borrowed if a block is stored and its item is in memory.
    #[serde(borrow, serialize_with = "super::task::as_bytes")]
    pub(super) stored: Cow<'a, [u8]>,
    pub(super) checksum: u64,
    pub(super) raw_bytes: u32,
    /// Hashes of the items of a shared block, or of this part of an item.
    pub(super) hashes: Vec<[u8; 32]>,
}

/// Encodes blocks according to the options, on one thread.
pub(super) struct Encoder<'a> {
    options: &'a PackOptions<'a>,
    /// Prices candidates.
    model: CostModel,
    free: &'a FreeBuffers,
    scratch: Scratch,
}

/// Returns the cost model of the target; without one, of the default target.
fn cost_model(options: &PackOptions<'_>) -> CostModel {
    CostModel::new(match options.coding {
        Coding::Auto(target) => target.recorded().expect("the options were checked"),
        Coding::Fixed(_) => Target::default(),
    })
}

impl<'a> Encoder<'a> {
    pub(super) fn new(options: &'a PackOptions<'a>, free: &'a FreeBuffers) -> Encoder<'a> {
        Encoder {
            options,
            model: cost_model(options),
            free,
            scratch: Scratch::default(),
        }
    }

    /// Encodes a block that consists of these parts; `on_gpu`: a GPU decodes it.
    pub(super) fn encode<'p>(&mut self, parts: &[Part<'p>], on_gpu: bool) -> Result<Done<'p>> {
        let in_memory = match parts {
            [one] => one.item.in_memory(one.offset, one.len),
            _ => None,
        };
        let mut buffer = self.free.take();
        if in_memory.is_none() {
            for part in parts {
                part.item.read(part.offset, part.len, &mut buffer)?;
            }
        }
        let raw = in_memory.unwrap_or(&buffer);
        let raw_bytes = raw.len() as u32;
        let (mut hashes, mut rest) = (Vec::with_capacity(parts.len()), raw);
        for part in parts {
            let bytes;
            (bytes, rest) = rest.split_at(part.len);
            hashes.push(tree::block(bytes, part.offset, part.is_whole()));
        }
        let (codec, stored) = match (self.shrink(raw, on_gpu)?, in_memory) {
            (Some((codec, stored)), _) => {
                self.free.put(buffer);
                (codec, Cow::Owned(stored))
            }
            (None, Some(raw)) => {
                self.free.put(buffer);
                (CodecId::STORED, Cow::Borrowed(raw))
            }
            (None, None) => (CodecId::STORED, Cow::Owned(buffer)),
        };
        Ok(Done {
            codec: codec.0,
            checksum: xxh3_64(&stored),
            stored,
            raw_bytes,
            hashes,
        })
    }

    /// Encodes a block with the codec that is taken for it; `None` if it is stored as it is.
    fn shrink(&mut self, raw: &[u8], on_gpu: bool) -> Result<Option<(CodecId, Vec<u8>)>> {
        let (codec, gpu) = match (on_gpu, self.options.gpu_megabytes_per_second) {
            (true, Some(rate)) => (CodecId::GDEFLATE, Some(rate)),
            _ => match self.options.coding {
                Coding::Auto(_) => return self.best(raw),
                Coding::Fixed(CodecId::STORED) => return Ok(None),
                Coding::Fixed(codec) => (codec, None),
            },
        };
        let level = self.options.level.filter(|_| gpu.is_none());
        let level = level.unwrap_or(default_level(codec));
        let stored = self.stored_as((codec, level), raw)?;
        let gains = |rate| self.model.gains_on_gpu(rate, raw.len(), stored.len());
        if stored.len() < raw.len() && gpu.is_none_or(gains) {
            return Ok(Some((codec, stored)));
        }
        self.free.put(stored);
        Ok(None)
    }

    /// Returns the candidate that `auto` takes; `None` if the block is stored as it is.
    fn best(&mut self, raw: &[u8]) -> Result<Option<(CodecId, Vec<u8>)>> {
        let quick = self.stored_as((quick_codec(), 1), raw)?;
        let quick_bytes = quick.len();
        self.free.put(quick);
        // A block that a quick encoder does not shrink, a slow one hardly shrinks.
        if !shrinks(raw.len(), quick_bytes) {
            return Ok(None);
        }
        let mut best: Option<(CodecId, Vec<u8>)> = None;
        let mut sizes = vec![(CodecId::STORED, raw.len())];
        for &(codec, ..) in &COSTS[1..] {
            let levels = block_level_range(codec);
            let is_tried = self.model.may_take(codec, raw.len(), quick_bytes, &sizes);
            if levels.is_empty() || !is_tried {
                continue;
            }
            let level = match codec {
                CodecId::ZSTD => self.options.level.unwrap_or(AUTO_ZSTD_LEVEL),
                codec => default_level(codec),
            };
            let level = level.clamp(*levels.start(), *levels.end());
            let stored = self.stored_as((codec, level), raw)?;
            if stored.len() < raw.len() {
                sizes.push((codec, stored.len()));
                if self.model.choose(raw.len(), &sizes) == sizes.len() - 1 {
                    if let Some((_, before)) = best.replace((codec, stored)) {
                        self.free.put(before);
                    }
                    continue;
                }
            }
            self.free.put(stored);
        }
        Ok(best)
    }

    /// Encodes a block with this codec.
    fn stored_as(&mut self, (codec, level): (CodecId, i32), raw: &[u8]) -> Result<Vec<u8>> {
        let mut stored = self.free.take();
        let scratch = &mut self.scratch;
        let encoded = millstream_codec::encode_block(codec, level, scratch, raw, &mut stored);
        encoded.map(|()| stored).map_err(|error| {
            let cause = format!("a block cannot be encoded: {error}");
            Error::new(ErrorKind::Limit, cause)
        })
    }
}

/// The codec whose first level shows whether a block shrinks.
fn quick_codec() -> CodecId {
    match block_level_range(CodecId::ZSTD).is_empty() {
        true => CodecId::ZLIB,
        false => CodecId::ZSTD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::item::Item;

    #[test]
    fn buffers_do_not_become_more_from_block_to_block() {
        let text = "the same words again, and again other words ".repeat(500);
        let items = [text.into_bytes(), vec![7; 10_000], (0..=255).collect()];
        let items = items.map(|bytes| Item::from_bytes("block", bytes));
        let free = FreeBuffers::default();
        let options = PackOptions::default();
        assert!(matches!(options.coding, Coding::Auto(_)));
        let mut encoder = Encoder::new(&options, &free);
        let mut counts = Vec::new();
        for _ in 0..4 {
            for item in &items {
                let len = item.len as usize;
                let offset = 0;
                let parts = [Part { item, offset, len }];
                let done = encoder.encode(&parts, false).unwrap();
                if let Cow::Owned(buffer) = done.stored {
                    free.put(buffer);
                }
            }
            counts.push(free.all().len());
        }
        assert_eq!(counts, [counts[0]; 4]);
    }
}
