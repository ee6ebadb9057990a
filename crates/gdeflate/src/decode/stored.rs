//! Stored blocks: bytes dealt to the lanes in turn.
//!
//! In four rounds of 32 bytes every lane reads 32 bits, which its buffer holds already, and takes
//! exactly one word, in the round after which fewer than 32 bits are left. So the portable form
//! does 128 bytes at a time: it knows the order of the words beforehand, and its loops turn into
//! vector code without help.

use super::lanes::{Lanes, Words};
use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, WORD_BYTES};

/// Bytes of four rounds.
pub(crate) const GROUP_BYTES: usize = 4 * LANE_COUNT;

/// For each lane, which of a group's 32 words it takes: by round, then by lane.
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

/// Decodes as many whole groups of a stored block as `raw` holds, with the lanes refilled; returns
/// the bytes done.
pub(crate) fn groups(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<usize, ErrorKind> {
    let order = word_order(&lanes.counts);
    let mut done = 0;
    for group in raw.chunks_exact_mut(GROUP_BYTES) {
        let Some(chunk) = words.chunk() else {
            return Err(ErrorKind::TruncatedTile);
        };
        four_rounds(
            lanes,
            chunk,
            &order,
            group.try_into().expect("a whole group"),
        );
        words.advance(LANE_COUNT);
        done += GROUP_BYTES;
    }
    Ok(done)
}

/// Decodes the last bytes of a stored block, one by one.
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

fn four_rounds(
    lanes: &mut Lanes,
    chunk: &[u8; LANE_COUNT * WORD_BYTES],
    order: &[u32; LANE_COUNT],
    raw: &mut [u8; GROUP_BYTES],
) {
    let mut taken = [0_u32; LANE_COUNT];
    for lane in 0..LANE_COUNT {
        taken[lane] = lanes.bits[lane] as u32;
        let at = order[lane] as usize % LANE_COUNT * WORD_BYTES;
        let word = u32::from_le_bytes([chunk[at], chunk[at + 1], chunk[at + 2], chunk[at + 3]]);
        let count = (lanes.counts[lane] - 32) & 31;
        lanes.bits[lane] = lanes.bits[lane] >> 32 | u64::from(word) << count;
    }
    for (round, bytes) in raw.chunks_exact_mut(LANE_COUNT).enumerate() {
        for lane in 0..LANE_COUNT {
            bytes[lane] = (taken[lane] >> (8 * round)) as u8;
        }
    }
}
