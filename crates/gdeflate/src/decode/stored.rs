//! Stored blocks, whose bytes are distributed over the lanes in turn.
//!
//! In four rounds of 32 bytes every lane reads 32 bits, which its buffer already holds, and takes
//! exactly one word, in the round after which fewer than 32 bits are left. So 128 bytes are done at
//! a time with the order of the words known beforehand: which lane takes which word, and its
//! position in the lane's buffer, stay the same for the whole block. A word is shifted there by a
//! multiplication with a power of two, whose halves complete the low 32 bits and begin the high
//! ones: baseline vector instructions have no shift per lane, but do have this product. So the
//! compiler vectorizes all loops, wider where a caller is compiled for more.

use super::lanes::{Lanes, Words};
use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, WORD_BYTES};

/// Bytes of four rounds.
pub(crate) const GROUP_BYTES: usize = 4 * LANE_COUNT;

/// Returns for each lane the index of the word it takes among a group's 32: by round, then by lane.
pub(crate) fn word_order(counts: &[u32; LANE_COUNT]) -> [u32; LANE_COUNT] {
    let mut order = [0; LANE_COUNT];
    let mut next = 0;
    for round in 0..4 {
        for (lane, place) in order.iter_mut().enumerate() {
            if (counts[lane] - 32) / 8 == round {
                *place = next;
                next += 1;
            }
        }
    }
    order
}

/// Decodes as many whole groups of a stored block as `raw` has room for, with the lanes refilled;
/// returns the number of bytes written.
#[inline(always)]
pub(crate) fn groups(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<usize, ErrorKind> {
    let order = word_order(&lanes.counts);
    let [mut low, mut high, mut scale, _] = lanes.halves();
    for scale in &mut scale {
        *scale = 1 << (*scale & 31);
    }
    let mut done = 0;
    for group in raw.chunks_exact_mut(GROUP_BYTES) {
        let chunk = words.next_chunk()?;
        deal(&low, group.try_into().expect("a whole group"));
        let mut taken = [0_u32; LANE_COUNT];
        for (word, bytes) in taken.iter_mut().zip(chunk.chunks_exact(WORD_BYTES)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("a word"));
        }
        let mut next = [0; LANE_COUNT];
        for (next, place) in next.iter_mut().zip(order) {
            *next = taken[place as usize % LANE_COUNT];
        }
        for lane in 0..LANE_COUNT {
            let placed = u64::from(next[lane]) * u64::from(scale[lane]);
            low[lane] = high[lane] | placed as u32;
            high[lane] = (placed >> 32) as u32;
        }
        done += GROUP_BYTES;
    }
    lanes.set_halves(low, high);
    Ok(done)
}

/// Decodes the remaining bytes of a stored block one at a time.
pub(crate) fn rest(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<(), ErrorKind> {
    for (index, byte) in raw.iter_mut().enumerate() {
        let lane = index % LANE_COUNT;
        *byte = lanes.take(lane, 8) as u8;
        lanes.refill(lane, words)?;
    }
    Ok(())
}

/// Writes four rounds of bytes: the lowest of every lane, then the next of every lane, and so on.
#[inline(always)]
fn deal(taken: &[u32; LANE_COUNT], raw: &mut [u8; GROUP_BYTES]) {
    for (round, bytes) in raw.chunks_exact_mut(LANE_COUNT).enumerate() {
        for lane in 0..LANE_COUNT {
            bytes[lane] = (taken[lane] >> (8 * round)) as u8;
        }
    }
}
