//! The known-answer test: whether a shader decodes on a device as the processor does.
//!
//! Decodes valid tiles with each kind of block, and corrupt ones, and compares with the results of
//! the processor's decoder. A shader that fails any of them is not used.

use std::sync::Arc;

use ash::vk;
use gdeflate::{Encoder, Level};
use millstream::Error;

use crate::batch::{Batch, Bytes, Copy, Source};
use crate::context::Context;
use crate::decoder::{Decoder, GOOD};
use crate::limits;
use crate::memory::DeviceBuffer;

/// A tile, its raw length, and its raw bytes if it is valid.
struct Known {
    stored: Vec<u8>,
    raw_len: usize,
    raw: Option<Vec<u8>>,
}

/// Returns why the decoder must not be used, if it fails the test.
pub(crate) fn refusal(
    context: &Arc<Context>,
    decoder: &Arc<Decoder>,
) -> Result<Option<String>, Error> {
    let mut batch = Batch::new(context, &context.compute, Some(Arc::clone(decoder)))?;
    let tiles = known();
    let usage = vk::BufferUsageFlags::TRANSFER_DST;
    let mut landed = DeviceBuffer::mapped(context, tiles.len() * limits::TILE_BYTES, usage)?;
    for (index, tile) in tiles.iter().enumerate() {
        let from = Source::Tile(batch.add_tile(Bytes::new(&tile.stored), tile.raw_len));
        let at = (index * limits::TILE_BYTES) as u64;
        batch.add_copy(Copy {
            from,
            to: (landed.buffer, at, tile.raw_len as u64),
        });
    }
    if let Err(error) = batch.submit().and_then(|()| batch.wait()) {
        context.keep_if_lost((batch, landed));
        return Err(error);
    }
    let places = landed.bytes().chunks(limits::TILE_BYTES);
    for ((index, tile), place) in tiles.iter().enumerate().zip(places) {
        let status = batch.status(index as u32);
        let right = match &tile.raw {
            Some(raw) => status == GOOD && place[..raw.len()] == **raw,
            None => status != GOOD,
        };
        if !right {
            let text = format!("tile {index} of the known-answer test is wrong, status {status}");
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn known() -> Vec<Known> {
    let mut tiles = Vec::new();
    for raw in samples() {
        for level in [Level::STORED, Level::FASTEST, Level::DEFAULT] {
            let mut stored = Vec::new();
            let encoded = Encoder::new(level).encode_tile(&raw, &mut stored);
            encoded.expect("no longer than a tile");
            tiles.push(judged(stored.clone(), raw.len()));
            // Truncated, with more raw bytes than declared, and with a bit flipped.
            tiles.push(judged(stored[..stored.len() - 4].to_vec(), raw.len()));
            tiles.push(judged(stored.clone(), raw.len() - 1));
            let middle = stored.len() / 2;
            stored[middle] ^= 16;
            tiles.push(judged(stored, raw.len()));
        }
    }
    tiles
}

/// Returns a tile with the result of the processor's decoder.
fn judged(stored: Vec<u8>, raw_len: usize) -> Known {
    let mut raw = vec![0; raw_len];
    let decoded = gdeflate::Decoder::new().decode_tile(&stored, &mut raw);
    Known {
        stored,
        raw_len,
        raw: decoded.ok().map(|()| raw),
    }
}

/// Returns noise, repetition at many distances, and a single repeated byte.
fn samples() -> [Vec<u8>; 3] {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let noise: Vec<u8> = (0..3001).map(|_| next()).collect();
    let mut repeated = noise[..97].to_vec();
    while repeated.len() < 9000 {
        let (distance, len) = (usize::from(next()) + 1, usize::from(next() & 63) + 3);
        let begin = repeated.len().saturating_sub(distance);
        let end = repeated.len().min(begin + len);
        repeated.extend_from_within(begin..end);
        repeated.push(next());
    }
    [noise, repeated, vec![7; 20_000]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tiles_are_good_and_bad() {
        let tiles = known();
        let good = tiles.iter().filter(|tile| tile.raw.is_some()).count();
        assert!(
            good >= 9 && tiles.len() - good >= 18,
            "{good} of {}",
            tiles.len()
        );
        assert!(tiles.len() <= limits::BATCH_TILES);
        assert!(tiles.iter().all(|tile| tile.stored.len().is_multiple_of(4)));
    }
}
