//! Stored blocks, whose bytes are distributed over the lanes in turn.
//!
//! In four rounds of 32 bytes, a group, every lane reads 32 bits, which its buffer already holds,
//! and takes exactly one word, in the round after which fewer than 32 bits are left. So which lane
//! takes which word of a group, and its position in the lane's buffer, stay the same for the whole
//! block.
//!
//! **Aligned blocks.** In a tile that is stored as a whole, every lane but the first, which reads
//! the headers, holds 32 bits when a group begins. Those lanes output the words that they took one
//! group before, which lie in the tile in lane order: a group is one transposition of bytes, from
//! the tile to the output ([`deal`]), in which the first lane's word is replaced.
//!
//! **Other blocks** follow compressed ones. Each lane's word is looked up by the words' order, and
//! shifted by a multiplication with a power of two, whose halves complete the low 32 bits and begin
//! the high ones: baseline vector instructions have no shift per lane, but do have this product. So
//! the compiler vectorizes all loops, wider where a caller is compiled for more.

#[cfg(target_arch = "x86_64")]
mod sse2;

#[cfg(target_arch = "x86_64")]
use self::sse2::deal;
use super::lanes::{Chunk, Lanes, Words};
use crate::error::ErrorKind;
use crate::limits::LANE_COUNT;

/// Bytes of four rounds: as many as the words that they are read from.
const GROUP_BYTES: usize = size_of::<Chunk>();

/// Decodes as many whole groups of a stored block as `raw` has room for, with the lanes refilled;
/// returns the number of bytes written.
#[inline(always)]
pub(crate) fn groups(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<usize, ErrorKind> {
    let groups = raw.as_chunks_mut().0;
    let is_aligned = lanes.counts[1..].iter().all(|&count| count == 32);
    // Otherwise the tile is cut, which the other way reports where it ends.
    let has_words = words.left() >= groups.len() * LANE_COUNT;
    match groups {
        [] => {}
        [first, others @ ..] if is_aligned && has_words => aligned(lanes, words, first, others),
        _ => unaligned(lanes, words, groups)?,
    }
    Ok(raw.len() / GROUP_BYTES * GROUP_BYTES)
}

/// [`groups`] compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn groups_avx2(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<usize, ErrorKind> {
    groups(lanes, words, raw)
}

/// Decodes the groups of an aligned block, whose words are all present.
#[inline(always)]
fn aligned(lanes: &mut Lanes, words: &mut Words<'_>, first: &mut Chunk, others: &mut [Chunk]) {
    let mut held = [0; GROUP_BYTES];
    for (word, bits) in held.as_chunks_mut().0.iter_mut().zip(lanes.bits) {
        *word = (bits as u32).to_le_bytes();
    }
    let mut bits = lanes.bits[0];
    deal(&held, bits as u32, first);
    // The first lane takes a group's first word, or, if it has bits for another round, its last.
    let surplus = lanes.counts[0] - 32;
    let is_late = surplus >= 8;
    let place = if is_late { LANE_COUNT - 1 } else { 0 };
    let refill = |bits: u64, group: &Chunk| {
        let word = u32::from_le_bytes(group.as_chunks().0[place]);
        bits >> 32 | u64::from(word) << surplus
    };
    let (taken, _) = words.rest().as_chunks();
    // The same words by lane: of a late first lane, one word earlier.
    let (by_lane, _) = words.rest_from(usize::from(is_late)).as_chunks();
    for ((taken, by_lane), group) in taken.iter().zip(by_lane).zip(others.iter_mut()) {
        bits = refill(bits, taken);
        deal(by_lane, bits as u32, group);
    }
    lanes.bits[0] = refill(bits, &taken[others.len()]);
    let last = by_lane[others.len()].as_chunks().0;
    for (bits, word) in lanes.bits.iter_mut().zip(last).skip(1) {
        *bits = u64::from(u32::from_le_bytes(*word));
    }
    words.advance((others.len() + 1) * LANE_COUNT);
}

/// Decodes groups of any block.
#[inline(always)]
fn unaligned(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    groups: &mut [Chunk],
) -> Result<(), ErrorKind> {
    // For each lane the index of the word that it takes among a group's: by round, then by lane.
    let (mut order, mut next) = ([0; LANE_COUNT], 0);
    for round in 0..4 {
        for (lane, place) in order.iter_mut().enumerate() {
            if (lanes.counts[lane] - 32) / 8 == round {
                *place = next;
                next += 1;
            }
        }
    }
    let [mut low, mut high, mut scale] = lanes.halves();
    for scale in &mut scale {
        *scale = 1 << (*scale & 31);
    }
    for group in groups {
        let chunk = words.next_chunk()?;
        deal_words(&low, group);
        let taken = words_of(chunk);
        let mut next = [0; LANE_COUNT];
        for (next, place) in next.iter_mut().zip(order) {
            *next = taken[place % LANE_COUNT];
        }
        for lane in 0..LANE_COUNT {
            let placed = u64::from(next[lane]) * u64::from(scale[lane]);
            low[lane] = high[lane] | placed as u32;
            high[lane] = (placed >> 32) as u32;
        }
    }
    lanes.set_halves(low, high);
    Ok(())
}

/// Decodes the remaining bytes of a stored block, fewer than a group, round by round.
pub(crate) fn rest(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<(), ErrorKind> {
    for round in raw.chunks_mut(LANE_COUNT) {
        let mut is_short = false;
        for (lane, byte) in round.iter_mut().enumerate() {
            *byte = lanes.bits[lane] as u8;
            lanes.bits[lane] >>= 8;
            lanes.counts[lane] -= 8;
            is_short |= lanes.counts[lane] < 32;
        }
        if is_short {
            for lane in 0..round.len() {
                lanes.refill(lane, words)?;
            }
        }
    }
    Ok(())
}

/// Returns the words of a chunk.
#[inline(always)]
fn words_of(chunk: &Chunk) -> [u32; LANE_COUNT] {
    let mut words = [0; LANE_COUNT];
    for (word, bytes) in words.iter_mut().zip(chunk.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// Writes four rounds of bytes: the lowest of every lane, then the next of every lane, and so on.
#[inline(always)]
fn deal_words(words: &[u32; LANE_COUNT], raw: &mut Chunk) {
    for (round, bytes) in raw.chunks_exact_mut(LANE_COUNT).enumerate() {
        for lane in 0..LANE_COUNT {
            bytes[lane] = (words[lane] >> (8 * round)) as u8;
        }
    }
}

/// [`deal_words`] of a chunk, with `first` as the word of the first lane.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn deal(words: &Chunk, first: u32, raw: &mut Chunk) {
    let mut words = words_of(words);
    words[0] = first;
    deal_words(&words, raw);
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use crate::encode::{block::write_stored, dealer::Dealer};
    use crate::error::ErrorKind;
    use crate::{Decoder, Kernel};

    /// Encodes bytes as stored blocks of these lengths.
    fn tile_of(raw: &[u8], lens: &[usize]) -> Vec<u8> {
        let (mut dealer, mut tile, mut rest) = (Dealer::default(), Vec::new(), raw);
        dealer.start();
        for (nth, &len) in lens.iter().enumerate() {
            let block;
            (block, rest) = rest.split_at(len);
            write_stored(&mut dealer, block, nth + 1 == lens.len());
        }
        dealer.finish(&mut tile);
        tile
    }

    #[test]
    fn stored_blocks_behind_each_other_decode_with_every_kernel() {
        let mut random = fastrand::Rng::with_seed(0x5708);
        // Whole groups leave all lanes but the first aligned, and the first one with any surplus.
        let whole: Vec<usize> = (0..70).map(|nth| 128 * (nth % 5)).collect();
        let mut lists = vec![whole, vec![65_535, 1], vec![128], vec![256, 127, 0, 384]];
        for _ in 0..30 {
            let count = random.usize(1..20);
            lists.push((0..count).map(|_| random.usize(..1000)).collect());
        }
        for lens in lists {
            let raw_len = lens.iter().sum();
            let raw: Vec<u8> = (0..raw_len).map(|_| random.u8(..)).collect();
            let tile = tile_of(&raw, &lens);
            let cut = &tile[..random.usize(..tile.len() / 4) * 4];
            for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
                let (mut decoder, mut back) = (Decoder::with_kernel(*kernel), vec![0; raw_len]);
                decoder.decode_tile(&tile, &mut back).unwrap();
                assert!(back == raw, "{lens:?} {kernel:?}");
                let error = decoder.decode_tile(cut, &mut back).unwrap_err();
                assert_eq!(error.kind, ErrorKind::TruncatedTile, "{lens:?} {kernel:?}");
            }
        }
    }
}
