//! The tokens of a tile, literals and matches, and the frequencies of their symbols.

use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_BASE, DISTANCE_EXTRA, DISTANCE_SYMBOL_COUNT, END_OF_BLOCK,
    LENGTH_BASE, LENGTH_EXTRA, LITLEN_SYMBOL_COUNT, MATCH_BYTES_MIN,
};

/// Longest match that symbols below 285 can encode.
pub(crate) const SHORT_MATCH_BYTES_MAX: usize = 258;

const _: () = assert!(CODEWORD_BITS_MAX == 15);

/// A literal or a match: length in the high half (0 for a literal), literal or distance in the
/// low half. A tile has at most 65,536 bytes, so a match has at most 65,535.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(u32);

impl Token {
    pub(crate) const fn literal(byte: u8) -> Self {
        Self(byte as u32)
    }

    pub(crate) fn of_match(len: usize, distance: usize) -> Self {
        debug_assert!((MATCH_BYTES_MIN..=0xFFFF).contains(&len));
        debug_assert!((1..=0xFFFF).contains(&distance));
        Self((len as u32) << 16 | distance as u32)
    }

    /// Creates a match from unchecked parts, which need not be valid if the token is not used.
    #[inline(always)]
    pub(crate) const fn of_parts(len: usize, distance: u16) -> Self {
        Self((len as u32) << 16 | distance as u32)
    }

    /// Returns the length of a match; 0 for a literal.
    #[inline]
    pub(crate) const fn match_len(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// Returns the literal, or the distance of a match.
    #[inline]
    pub(crate) const fn low(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    /// Returns the number of raw bytes it encodes.
    #[inline]
    pub(crate) const fn raw_len(self) -> usize {
        let len = self.match_len();
        if len == 0 { 1 } else { len }
    }
}

/// Length symbol minus 257 of the lengths 3..=258, by length minus 3.
static LENGTH_SYMBOL: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    let mut symbol = 0;
    while at < 256 {
        while symbol < 27 && LENGTH_BASE[symbol + 1] as usize <= at {
            symbol += 1;
        }
        table[at] = symbol as u8;
        at += 1;
    }
    table
};

/// Returns the length symbol minus 257.
#[inline(always)]
pub(crate) fn length_symbol(len: usize) -> usize {
    if len > SHORT_MATCH_BYTES_MAX {
        28
    } else {
        usize::from(LENGTH_SYMBOL[len - 3])
    }
}

/// Distances minus 1 below this are looked up directly; from it on a symbol covers at least 128
/// distances, so the upper bits determine it.
const NEAR: usize = 256;
const FAR_SHIFT: u32 = 7;

/// Distance symbols of the near distances, then those of the far ones by their upper bits.
static DISTANCE_SYMBOL: [u8; 1024] = {
    let mut table = [0; 1024];
    let mut at = 0;
    while at < NEAR + (0x1_0000 >> FAR_SHIFT) {
        let distance = if at < NEAR {
            at
        } else {
            (at - NEAR) << FAR_SHIFT
        };
        let mut symbol = 0;
        while symbol < DISTANCE_SYMBOL_COUNT - 1 && DISTANCE_BASE[symbol + 1] as usize <= distance {
            symbol += 1;
        }
        table[at] = symbol as u8;
        at += 1;
    }
    table
};

/// Returns the distance symbol, looked up without a branch.
#[inline(always)]
pub(crate) fn distance_symbol(distance: usize) -> usize {
    let distance = distance.wrapping_sub(1) as u32 & 0xFFFF;
    let far = NEAR as u32 + (distance >> FAR_SHIFT);
    let at = chosen(u32::from(distance < NEAR as u32), distance, far);
    usize::from(DISTANCE_SYMBOL[at as usize % 1024])
}

/// Returns `one` if `which` is 1, `zero` if it is 0. Compilers turn selections that they assume to
/// be predictable into branches; tokens are not predictable.
#[inline(always)]
pub(crate) fn chosen(which: u32, one: u32, zero: u32) -> u32 {
    zero ^ ((one ^ zero) & which.wrapping_neg())
}

/// Returns the value and the number of the extra bits of a length.
#[inline(always)]
pub(crate) fn length_extra(symbol: usize, len: usize) -> (u32, u32) {
    let value = len - MATCH_BYTES_MIN - usize::from(LENGTH_BASE[symbol]);
    (value as u32, u32::from(LENGTH_EXTRA[symbol]))
}

/// Returns the value and the number of the extra bits of a distance.
#[inline(always)]
pub(crate) fn distance_extra(symbol: usize, distance: usize) -> (u32, u32) {
    let symbol = symbol % DISTANCE_SYMBOL_COUNT;
    let value = distance.wrapping_sub(1 + usize::from(DISTANCE_BASE[symbol])) & 0xFFFF;
    (value as u32, u32::from(DISTANCE_EXTRA[symbol]))
}

/// The number of occurrences of each symbol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frequencies {
    pub(crate) litlen: [u32; LITLEN_SYMBOL_COUNT],
    pub(crate) distance: [u32; DISTANCE_SYMBOL_COUNT],
}

impl Frequencies {
    /// Counts the symbols of a block of these tokens, its end included.
    #[inline(always)]
    pub(crate) fn of_block(tokens: impl Iterator<Item = Token>) -> Self {
        // Powers of two, so that an index needs no check. For literals, too, a distance is counted,
        // in elements after the real ones, so that no branch depends on the kind of token.
        let mut litlens = [0; 512];
        let mut distances = [0; 2 * DISTANCE_SYMBOL_COUNT];
        for token in tokens {
            let len = token.match_len();
            let is_match = u32::from(len > 0);
            let short = usize::from(LENGTH_SYMBOL[len.wrapping_sub(MATCH_BYTES_MIN) & 0xFF]);
            let long = u32::from(len > SHORT_MATCH_BYTES_MAX);
            let length = 257 + chosen(long, 28, short as u32);
            let litlen = chosen(is_match, length, token.low() as u32);
            litlens[litlen as usize % 512] += 1;
            let unused = DISTANCE_SYMBOL_COUNT as u32 * (1 - is_match);
            let symbol = distance_symbol(token.low()) as u32 + unused;
            distances[symbol as usize % (2 * DISTANCE_SYMBOL_COUNT)] += 1;
        }
        litlens[END_OF_BLOCK] = 1;
        Self {
            litlen: *litlens.first_chunk().expect("more than symbols"),
            distance: *distances.first_chunk().expect("more than symbols"),
        }
    }

    /// Merges the frequencies of the next block into these.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, &count) in self.litlen.iter_mut().zip(&other.litlen) {
            *sum += count;
        }
        for (sum, &count) in self.distance.iter_mut().zip(&other.distance) {
            *sum += count;
        }
        self.litlen[END_OF_BLOCK] = 1;
    }

    /// Returns the extra bits of all symbols, which do not depend on the codes.
    pub(crate) fn extra_bits(&self) -> u32 {
        let lengths = self.litlen[257..286].iter().zip(&LENGTH_EXTRA);
        let distances = self.distance.iter().zip(&DISTANCE_EXTRA);
        lengths
            .chain(distances)
            .map(|(&count, &bits)| count * u32::from(bits))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_distance_has_a_symbol_that_says_it() {
        for len in 3..=65_535 {
            let symbol = length_symbol(len);
            let (value, bits) = length_extra(symbol, len);
            assert!(value < 1 << bits, "length {len}");
        }
        for distance in 1..=65_535 {
            let symbol = distance_symbol(distance);
            let (value, bits) = distance_extra(symbol, distance);
            assert!(value < 1 << bits, "distance {distance}");
        }
    }
}
