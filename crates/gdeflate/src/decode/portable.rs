//! The portable kernel: safe code, one lane after the other, no branch on what a symbol is.
//!
//! A lane's turn is a literal, a length or a distance, in an order nobody can predict, so a branch
//! on it is mispredicted every few bytes. Instead every turn does the same: look up the code that
//! the lane's state selects, add the extra bits to the base, write the value behind all three
//! streams, and advance only the one it belongs to. The lanes do not depend on each other but for
//! the word cursor, so a wide core runs several turns at once.

use super::lanes::{Lanes, Words};
use super::tables::{
    DISTANCE, DISTANCE_ROOT_BITS, DISTANCE_START, END, ENTRY_COUNT, LENGTH, LITERAL,
    LITLEN_ROOT_BITS, POINTER, SPECIAL, Tables,
};
use super::tokens::{MATCH_MASK, Tokens};
use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, WORD_BYTES};

/// Bits of a second table's index that a lane's buffer is masked with; a distance's or length's
/// extra bits, too.
const fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

/// Decodes the symbols of one Huffman block, from its first turn to the end of its tail, appending
/// to `tokens`. Stops with an error as soon as they are longer than `room` bytes.
#[inline(never)]
pub(crate) fn symbols(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    room: usize,
) -> Result<(), ErrorKind> {
    // Where each lane's table begins: 0 for a litlen symbol, DISTANCE_START with a length pending.
    let mut pending = [0_usize; LANE_COUNT];
    while let Some(chunk) = words.chunk() {
        tokens.check_room(room)?;
        let (used, end) = round(lanes, chunk, tables, tokens, &mut pending)?;
        words.advance(used);
        if let Some(lane) = end {
            lanes.refill(lane, words)?;
            return tail(lanes, words, tables, tokens, &mut pending, lane);
        }
    }
    finish(lanes, words, tables, tokens, room, &mut pending, 0)
}

/// Goes on turn by turn from `lane` to the end of the block's tail, with every refill checked: for
/// the last words of a tile, of which fewer are left than a round may take.
#[inline(never)]
pub(super) fn finish(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    room: usize,
    pending: &mut [usize; LANE_COUNT],
    mut lane: usize,
) -> Result<(), ErrorKind> {
    loop {
        if lane == 0 {
            tokens.check_room(room)?;
        }
        let end = turn(lanes, tables, tokens, pending, lane)?;
        lanes.refill(lane, words)?;
        if end {
            return tail(lanes, words, tables, tokens, pending, lane);
        }
        lane = (lane + 1) % LANE_COUNT;
    }
}

/// One turn of every lane, or up to the lane that ends the block, which is not refilled yet.
/// Returns the words taken and that lane.
#[inline(always)]
fn round(
    lanes: &mut Lanes,
    chunk: &[u8; LANE_COUNT * WORD_BYTES],
    tables: &Tables,
    tokens: &mut Tokens,
    pending: &mut [usize; LANE_COUNT],
) -> Result<(usize, Option<usize>), ErrorKind> {
    let mut used = 0;
    let mut literal_count = tokens.literal_count;
    let mut length_count = tokens.length_count;
    let mut distance_count = tokens.distance_count;
    for (lane, pending) in pending.iter_mut().enumerate() {
        let bits = lanes.bits[lane];
        let start = *pending;
        let root = if start == 0 {
            low_bits(LITLEN_ROOT_BITS)
        } else {
            low_bits(DISTANCE_ROOT_BITS)
        };
        let mut entry = tables.entries[(start + (bits & root) as usize) % ENTRY_COUNT];
        if entry & SPECIAL != 0 {
            if entry & POINTER != 0 {
                entry = second(tables, entry, bits);
            }
            if entry & SPECIAL != 0 {
                tokens.literal_count = literal_count;
                tokens.length_count = length_count;
                tokens.distance_count = distance_count;
                if entry & END == 0 {
                    return Err(ErrorKind::BadSymbol);
                }
                lanes.bits[lane] >>= entry & 31;
                lanes.counts[lane] -= entry & 31;
                return Ok((used, Some(lane)));
            }
        }
        let code_bits = entry & 31;
        let extra_bits = (entry >> 5) & 31;
        let value = (entry >> 16).wrapping_add(((bits >> code_bits) & low_bits(extra_bits)) as u32);
        let bits = bits >> (code_bits + extra_bits);
        let count = lanes.counts[lane] - (code_bits + extra_bits);
        let at = used % LANE_COUNT * WORD_BYTES;
        let word = u32::from_le_bytes([chunk[at], chunk[at + 1], chunk[at + 2], chunk[at + 3]]);
        // All ones where fewer than 32 bits are left; arithmetic, because a branch on it would be
        // mispredicted every third turn.
        let short = (i64::from(count) - 32) >> 63;
        lanes.bits[lane] = bits | ((u64::from(word) << (count & 31)) & short as u64);
        lanes.counts[lane] = count + (short as u32 & 32);
        used += (short & 1) as usize;

        tokens.literals[literal_count & 0xFFFF] = value as u8;
        literal_count += ((entry / LITERAL) & 1) as usize;
        tokens.literals_before[length_count & MATCH_MASK] = literal_count as u16;
        tokens.lengths[length_count & MATCH_MASK] = value as u16;
        length_count += ((entry / LENGTH) & 1) as usize;
        tokens.distances[distance_count & MATCH_MASK] = value as u16;
        distance_count += ((entry / DISTANCE) & 1) as usize;
        *pending = (entry & LENGTH) as usize * (DISTANCE_START / LENGTH as usize);
    }
    tokens.literal_count = literal_count;
    tokens.length_count = length_count;
    tokens.distance_count = distance_count;
    Ok((used, None))
}

#[cold]
fn second(tables: &Tables, entry: u32, bits: u64) -> u32 {
    let index = (bits >> (entry & 31)) & low_bits((entry >> 5) & 31);
    tables.entries[((entry >> 16) as usize + index as usize) % ENTRY_COUNT]
}

/// One turn of one lane without its refill. True if it was the end of the block.
fn turn(
    lanes: &mut Lanes,
    tables: &Tables,
    tokens: &mut Tokens,
    pending: &mut [usize; LANE_COUNT],
    lane: usize,
) -> Result<bool, ErrorKind> {
    let bits = lanes.bits[lane];
    let start = pending[lane];
    let root = if start == 0 {
        low_bits(LITLEN_ROOT_BITS)
    } else {
        low_bits(DISTANCE_ROOT_BITS)
    };
    let mut entry = tables.entries[start + (bits & root) as usize];
    if entry & POINTER != 0 {
        entry = second(tables, entry, bits);
    }
    let code_bits = entry & 31;
    let extra_bits = (entry >> 5) & 31;
    if entry & SPECIAL != 0 && entry & END == 0 {
        return Err(ErrorKind::BadSymbol);
    }
    let value = (entry >> 16) as u16 + ((bits >> code_bits) & low_bits(extra_bits)) as u16;
    lanes.bits[lane] >>= code_bits + extra_bits;
    lanes.counts[lane] -= code_bits + extra_bits;
    pending[lane] = 0;
    if entry & LITERAL != 0 {
        tokens.push_literal(value as u8);
    } else if entry & LENGTH != 0 {
        tokens.push_length(value);
        pending[lane] = DISTANCE_START;
    } else if entry & DISTANCE != 0 {
        tokens.push_distance(value);
    }
    Ok(entry & END != 0)
}

/// The distances that are still pending when `end_lane` has ended the block, in turn order.
fn tail(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    pending: &mut [usize; LANE_COUNT],
    end_lane: usize,
) -> Result<(), ErrorKind> {
    pending[end_lane] = 0;
    for step in 1..LANE_COUNT {
        let lane = (end_lane + step) % LANE_COUNT;
        if pending[lane] != 0 {
            turn(lanes, tables, tokens, pending, lane)?;
            lanes.refill(lane, words)?;
        }
    }
    Ok(())
}
