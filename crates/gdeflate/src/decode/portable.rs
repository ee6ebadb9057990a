//! The portable kernel: safe code, one lane after the other, no branch on the kind of symbol.
//!
//! A lane's turn is a literal, a length or a distance, in an unpredictable order, so a branch
//! on it is mispredicted every few bytes. Instead every turn does the same: look up the symbol in
//! the code that the lane's state selects, add the extra bits to the base, write the value at the
//! end of all three streams, and advance only the one it belongs to. The lanes depend on each other
//! only through the word cursor, so an out-of-order core overlaps several turns.

use super::lanes::{Chunk, Lanes, PADDING, Words, refilled};
use super::tables::{
    DISTANCE, DISTANCE_START, END_VALUE, ENTRY_COUNT, LENGTH, LITERAL, POINTER, ROOT_BITS, SPECIAL,
    TAKE, Tables, value,
};
use super::tokens::{BEFORES, DISTANCES, LENGTHS, MATCH_MASK, Tokens};
use crate::error::ErrorKind;
use crate::limits::LANE_COUNT;

/// Mask of the root tables' indices.
const ROOT: u64 = (1 << ROOT_BITS) - 1;

/// Decodes the symbols of one Huffman block, from its first turn to the end of its tail, appending
/// to `tokens`. Fails as soon as they are certain to expand to more than `room` bytes.
#[inline(always)]
pub(crate) fn symbols(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    room: usize,
) -> Result<(), ErrorKind> {
    // Of each lane one bit, DISTANCE_START, which a pending length sets: where its table starts.
    let mut pending = [0_usize; LANE_COUNT];
    while let Some(chunk) = words.rest().first_chunk() {
        tokens.check_room(room)?;
        let (used, end) = round(lanes, chunk, tables, tokens, &mut pending, 0)?;
        words.advance(used);
        if let Some(lane) = end {
            return tail(lanes, words, tables, tokens, &pending, lane);
        }
    }
    finish(lanes, words, tables, tokens, room, &mut pending, 0)
}

/// [`symbols`] compiled for BMI2, where a shift by a variable is one instruction instead of three.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "bmi1,bmi2")]
pub(crate) fn symbols_bmi2(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    room: usize,
) -> Result<(), ErrorKind> {
    symbols(lanes, words, tables, tokens, room)
}

/// Decodes from the turn of lane `first` to the end of the block's tail, even if fewer words are
/// left than a round may take.
#[inline(never)]
pub(super) fn finish(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    room: usize,
    pending: &mut [usize; LANE_COUNT],
    mut first: usize,
) -> Result<(), ErrorKind> {
    let mut padding = PADDING;
    loop {
        tokens.check_room(room)?;
        let chunk = words.chunk(&mut padding);
        let (used, end) = round(lanes, chunk, tables, tokens, pending, first)?;
        words.take(used)?;
        if let Some(lane) = end {
            return tail(lanes, words, tables, tokens, pending, lane);
        }
        first = 0;
    }
}

/// Runs one turn of every lane from `first` on, up to the lane that ends the block, if any, which
/// is not refilled yet. Returns the number of words taken and that lane.
#[inline(always)]
fn round(
    lanes: &mut Lanes,
    chunk: &Chunk,
    tables: &Tables,
    tokens: &mut Tokens,
    pending: &mut [usize; LANE_COUNT],
    first: usize,
) -> Result<(usize, Option<usize>), ErrorKind> {
    let mut used = 0;
    let mut literal_count = tokens.literal_count;
    let mut length_count = tokens.length_count;
    let mut distance_count = tokens.distance_count;
    #[expect(
        clippy::needless_range_loop,
        reason = "an iterator is one more counter"
    )]
    for lane in first..LANE_COUNT {
        let bits = lanes.bits[lane];
        let start = pending[lane] & DISTANCE_START;
        let mut entry = tables.0[start | (bits & ROOT) as usize];
        if entry & SPECIAL != 0 {
            entry = follow(tables, entry, bits);
            if entry & SPECIAL != 0 {
                tokens.literal_count = literal_count;
                tokens.length_count = length_count;
                tokens.distance_count = distance_count;
                if entry >> 16 != END_VALUE {
                    return Err(ErrorKind::BadSymbol);
                }
                lanes.bits[lane] >>= entry & TAKE;
                lanes.counts[lane] -= entry & TAKE;
                return Ok((used, Some(lane)));
            }
        }
        let value = value(entry, bits);
        let count = lanes.counts[lane] - (entry & TAKE);
        let (bits, count, taken) = refilled(bits.wrapping_shr(entry), count, chunk, used);
        lanes.bits[lane] = bits;
        lanes.counts[lane] = count;
        used += taken;

        tokens.literals[literal_count & 0xFFFF] = value as u8;
        literal_count += ((entry / LITERAL) & 1) as usize;
        tokens.matches[BEFORES + (length_count & MATCH_MASK)] = literal_count as u16;
        tokens.matches[LENGTHS + (length_count & MATCH_MASK)] = value as u16;
        length_count += ((entry / LENGTH) & 1) as usize;
        tokens.matches[DISTANCES + (distance_count & MATCH_MASK)] = value as u16;
        distance_count += ((entry / DISTANCE) & 1) as usize;
        pending[lane] = entry as usize / (LENGTH as usize / DISTANCE_START);
    }
    tokens.literal_count = literal_count;
    tokens.length_count = length_count;
    tokens.distance_count = distance_count;
    Ok((used, None))
}

/// Follows a pointer to a second-level table; returns any other entry unchanged.
#[inline]
fn follow(tables: &Tables, entry: u32, bits: u64) -> u32 {
    if entry & POINTER == POINTER {
        tables.0[value(entry, bits) as usize % ENTRY_COUNT]
    } else {
        entry
    }
}

/// Refills `end_lane`, which has ended the block, and reads the distances that are still pending,
/// in turn order.
#[inline(never)]
fn tail(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    pending: &[usize; LANE_COUNT],
    end_lane: usize,
) -> Result<(), ErrorKind> {
    lanes.refill(end_lane, words)?;
    for lane in (end_lane + 1..LANE_COUNT).chain(0..end_lane) {
        if pending[lane] & DISTANCE_START != 0 {
            let bits = lanes.bits[lane];
            let entry = tables.0[(DISTANCE_START + (bits & ROOT) as usize) % ENTRY_COUNT];
            let entry = follow(tables, entry, bits);
            if entry & SPECIAL != 0 {
                return Err(ErrorKind::BadSymbol);
            }
            tokens.matches[DISTANCES + tokens.distance_count] = value(entry, bits) as u16;
            tokens.distance_count += 1;
            lanes.bits[lane] = bits.wrapping_shr(entry);
            lanes.counts[lane] -= entry & TAKE;
            lanes.refill(lane, words)?;
        }
    }
    Ok(())
}
