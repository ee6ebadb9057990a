//! Prefix codes: near-optimal lengths with a limit, and their codewords.
//!
//! Lengths come from the two-queue form of Huffman's algorithm on sorted frequencies. Leaves deeper
//! than the limit are moved up to it, and the excess code space is regained by lengthening the
//! longest codewords shorter than the limit. The loss against an optimal limited code is far below
//! a tenth of a percent, since it concerns only rare symbols.

use crate::decode::Canonical;
use crate::limits::{CODEWORD_BITS_MAX, LITLEN_SYMBOL_COUNT};

/// Maximum number of symbols of any code.
const SYMBOL_COUNT_MAX: usize = LITLEN_SYMBOL_COUNT;

/// Lengths and codewords of a code of up to `N` symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code<const N: usize> {
    /// Codeword bits by symbol; 0 for symbols without one.
    pub(crate) lengths: [u8; N],
    /// Codewords by symbol, first bit lowest, as they go into a lane.
    pub(crate) words: [u16; N],
}

impl<const N: usize> Code<N> {
    /// Returns a near-optimal code for these frequencies with codewords of at most `bits_max` bits.
    /// It is always complete or empty: a single used symbol gets a companion, because not every
    /// decoder accepts a code of one codeword.
    pub(crate) fn of_frequencies(frequencies: &[u32; N], bits_max: usize) -> Self {
        let mut lengths = [0; N];
        limited_lengths(frequencies, bits_max, &mut lengths);
        Self::of_lengths(lengths)
    }

    /// Returns the canonical code of these lengths, which must form a complete code or be all zero.
    pub(crate) fn of_lengths(lengths: [u8; N]) -> Self {
        let mut next = Canonical::new(&lengths).expect("a complete code").first;
        let mut words = [0; N];
        for (symbol, &len) in lengths.iter().enumerate().filter(|&(_, &len)| len > 0) {
            let word = next[usize::from(len)];
            next[usize::from(len)] += 1;
            words[symbol] = (word.reverse_bits() >> (32 - u32::from(len))) as u16;
        }
        Self { lengths, words }
    }

    /// Returns the bits that these symbols take, without extra bits.
    pub(crate) fn cost(&self, frequencies: &[u32; N]) -> u32 {
        frequencies
            .iter()
            .zip(&self.lengths)
            .map(|(&count, &len)| count * u32::from(len))
            .sum()
    }
}

/// Sets the lengths of all symbols that are used.
fn limited_lengths<const N: usize>(frequencies: &[u32; N], bits_max: usize, lengths: &mut [u8; N]) {
    // Frequency in the high bits, symbol in the low: one sort orders by frequency, ties by symbol.
    let mut used = [0_u64; SYMBOL_COUNT_MAX];
    let mut count = 0;
    for (symbol, &frequency) in frequencies.iter().enumerate().filter(|&(_, &f)| f > 0) {
        used[count] = u64::from(frequency) << 16 | symbol as u64;
        count += 1;
    }
    let used = &mut used[..count];
    if count < 2 {
        if let [only] = used {
            let symbol = (*only & 0xFFFF) as usize;
            lengths[symbol] = 1;
            lengths[usize::from(symbol == 0)] = 1;
        }
        return;
    }
    used.sort_unstable();
    let mut counts = depth_counts(used);
    limit_depths(&mut counts, bits_max);
    // The rarest symbols get the longest codewords.
    let mut at = 0;
    for len in (1..=bits_max).rev() {
        for _ in 0..counts[len] {
            lengths[(used[at] & 0xFFFF) as usize] = len as u8;
            at += 1;
        }
    }
    debug_assert_eq!(at, count);
}

/// Returns the number of leaves of the Huffman tree at each depth; the last element counts all
/// deeper ones.
fn depth_counts(sorted: &[u64]) -> [u32; CODEWORD_BITS_MAX + 2] {
    let count = sorted.len();
    let mut weights = [0_u64; SYMBOL_COUNT_MAX];
    let mut parents = [0_u16; SYMBOL_COUNT_MAX];
    let mut leaf = 0;
    let mut inner = 0;
    // Inner nodes are created in order of weight, so they are a second sorted queue.
    let mut leaf_parents = [0_u16; SYMBOL_COUNT_MAX];
    for node in 0..count - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            let take_leaf = leaf < count && (inner >= node || sorted[leaf] >> 16 <= weights[inner]);
            if take_leaf {
                weight += sorted[leaf] >> 16;
                leaf_parents[leaf] = node as u16;
                leaf += 1;
            } else {
                weight += weights[inner];
                parents[inner] = node as u16;
                inner += 1;
            }
        }
        weights[node] = weight;
    }
    let mut depths = [0_u16; SYMBOL_COUNT_MAX];
    for node in (0..count - 2).rev() {
        depths[node] = depths[usize::from(parents[node])] + 1;
    }
    let mut counts = [0; CODEWORD_BITS_MAX + 2];
    for &parent in &leaf_parents[..count] {
        let depth = usize::from(depths[usize::from(parent)]) + 1;
        counts[depth.min(CODEWORD_BITS_MAX + 1)] += 1;
    }
    counts
}

/// Moves leaves so that none lies deeper than `bits_max` and the code stays complete.
fn limit_depths(counts: &mut [u32; CODEWORD_BITS_MAX + 2], bits_max: usize) {
    let deeper: u32 = counts[bits_max + 1..].iter().sum();
    if deeper == 0 {
        return;
    }
    counts[bits_max + 1..].fill(0);
    counts[bits_max] += deeper;
    let full = 1_u32 << bits_max;
    let mut room: u32 = (1..=bits_max)
        .map(|len| counts[len] << (bits_max - len))
        .sum();
    while room > full {
        // A leaf at the limit becomes the sibling of the deepest leaf above it, which moves down by
        // one: the code space used shrinks by one leaf at the limit.
        let len = (1..bits_max)
            .rev()
            .find(|&len| counts[len] > 0)
            .expect("the alphabet fits");
        counts[len] -= 1;
        counts[len + 1] += 2;
        counts[bits_max] -= 1;
        room -= 1;
    }
    debug_assert_eq!(room, full);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_complete_and_limited_for_any_frequencies() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..2000 {
            let mut frequencies = [0_u32; 288];
            // A single symbol gets a companion.
            let used = random.usize(1..=288);
            for frequency in &mut frequencies[..used] {
                *frequency = 1 << random.u32(0..1 + round % 20);
            }
            for bits_max in [9, 14, 15] {
                let code = Code::of_frequencies(&frequencies, bits_max);
                let kraft: u32 = (code.lengths.iter().filter(|&&len| len > 0))
                    .map(|&len| 1 << (15 - len))
                    .sum();
                assert_eq!(kraft, 1 << 15, "round {round}, at most {bits_max}");
                assert!(code.lengths.iter().all(|&len| usize::from(len) <= bits_max));
            }
        }
    }

    #[test]
    fn unlimited_lengths_cost_what_huffman_costs() {
        // Fibonacci frequencies make the deepest tree; its cost is known from the merges.
        let mut frequencies = [0_u32; 32];
        let (mut a, mut b) = (1, 1);
        for frequency in &mut frequencies[..12] {
            *frequency = a;
            (a, b) = (b, a + b);
        }
        let mut heap: std::vec::Vec<u32> = frequencies[..12].to_vec();
        let mut cost = 0;
        while heap.len() > 1 {
            heap.sort_unstable_by(|x, y| y.cmp(x));
            let sum = heap.pop().unwrap() + heap.pop().unwrap();
            cost += sum;
            heap.push(sum);
        }
        assert_eq!(
            Code::of_frequencies(&frequencies, 15).cost(&frequencies),
            cost
        );
    }
}
