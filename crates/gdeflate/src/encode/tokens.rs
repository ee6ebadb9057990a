//! The tokens of a tile, literals and matches, and the frequencies of their symbols.

use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_EXTRA, DISTANCE_SYMBOL_COUNT, END_OF_BLOCK, LENGTH_BASE,
    LENGTH_EXTRA, LITLEN_SYMBOL_COUNT, MATCH_BYTES_MIN,
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

/// A token with its symbols, as a block is counted and written.
///
/// From the lowest bit on, 16 bits each: the literal, or the length plus [`LENGTHS_FROM`], a long
/// one as [`LONG_AT`]; the distance symbol, of a literal one from [`DISTANCE_SYMBOL_COUNT`] on; the
/// value of the distance's extra bits; and the number of raw bytes it encodes, minus one. Literals
/// have different distance symbols because incrementing one counter again and again is slow.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Coded(u64);

/// The first length among the items, the number of items rounded up to a power of two, and the
/// unused length that stands for the long ones.
pub(crate) const LENGTHS_FROM: usize = 256;
pub(crate) const ITEM_COUNT: usize = 1024;
pub(crate) const LONG_AT: usize = 1;

/// Symbol of the long matches minus 257.
pub(crate) const LONG: usize = 28;

const _: () = assert!(LONG_AT < MATCH_BYTES_MIN);
const _: () = assert!(LENGTHS_FROM + SHORT_MATCH_BYTES_MAX < ITEM_COUNT);

impl Coded {
    #[inline(always)]
    pub(crate) const fn literal(byte: u8) -> Self {
        let distance = DISTANCE_SYMBOL_COUNT + byte as usize % DISTANCE_SYMBOL_COUNT;
        Self(byte as u64 | (distance as u64) << 16)
    }

    #[inline(always)]
    pub(crate) fn of_match(len: usize, distance: usize) -> Self {
        debug_assert!((MATCH_BYTES_MIN..=0xFFFF).contains(&len));
        debug_assert!((1..=0xFFFF).contains(&distance));
        let (symbol, extra, _) = distance_parts(distance);
        let short = if len > SHORT_MATCH_BYTES_MAX {
            LONG_AT
        } else {
            len
        };
        let low = (LENGTHS_FROM + short) | (symbol << 16);
        Self(low as u64 | (extra as u64) << 32 | (len as u64 - 1) << 48)
    }

    /// Returns the literal or length, below [`ITEM_COUNT`].
    #[inline(always)]
    pub(crate) const fn item(self) -> usize {
        self.0 as u16 as usize
    }

    /// Returns the distance symbol, from [`DISTANCE_SYMBOL_COUNT`] to twice that for a literal.
    #[inline(always)]
    pub(crate) const fn distance_symbol(self) -> usize {
        (self.0 >> 16) as u16 as usize
    }

    /// Returns the value of the distance's extra bits.
    #[inline(always)]
    pub(crate) const fn distance_extra(self) -> u32 {
        (self.0 >> 32) as u16 as u32
    }

    /// Returns the number of raw bytes it encodes.
    #[inline(always)]
    pub(crate) const fn raw_len(self) -> usize {
        (self.0 >> 48) as usize + 1
    }
}

impl From<Token> for Coded {
    fn from(token: Token) -> Self {
        match token.match_len() {
            0 => Self::literal(token.low() as u8),
            len => Self::of_match(len, token.low()),
        }
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

/// Returns the distance symbol, and the value and the number of its extra bits.
#[inline(always)]
pub(crate) fn distance_parts(distance: usize) -> (usize, u32, u32) {
    // Its two highest bits and its magnitude make the symbol of a distance.
    let rest = (distance as u32).wrapping_sub(1) & 0xFFFF;
    let bits = (rest | 2).ilog2() - 1;
    let symbol = (rest >> bits) + 2 * bits;
    (symbol as usize, rest & ((1 << bits) - 1), bits)
}

/// Returns the value and the number of the extra bits of a length.
#[inline(always)]
pub(crate) fn length_extra(symbol: usize, len: usize) -> (u32, u32) {
    let value = len - MATCH_BYTES_MIN - usize::from(LENGTH_BASE[symbol]);
    (value as u32, u32::from(LENGTH_EXTRA[symbol]))
}

/// The number of occurrences of each symbol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frequencies {
    pub(crate) litlen: [u32; LITLEN_SYMBOL_COUNT],
    pub(crate) distance: [u32; DISTANCE_SYMBOL_COUNT],
}

impl Frequencies {
    pub(crate) const ZERO: Self = Self {
        litlen: [0; LITLEN_SYMBOL_COUNT],
        distance: [0; DISTANCE_SYMBOL_COUNT],
    };

    /// Counts the symbols of a block of these tokens, its end included.
    #[inline(always)]
    pub(crate) fn of_block(tokens: &[Coded]) -> Self {
        // Powers of two, so that an index needs no check.
        let mut items = [0; ITEM_COUNT];
        let mut distances = [0; 2 * DISTANCE_SYMBOL_COUNT];
        for token in tokens {
            items[token.item() % ITEM_COUNT] += 1;
            distances[token.distance_symbol() % (2 * DISTANCE_SYMBOL_COUNT)] += 1;
        }
        let mut litlen = [0; LITLEN_SYMBOL_COUNT];
        litlen[..LENGTHS_FROM].copy_from_slice(&items[..LENGTHS_FROM]);
        let lengths = &items[LENGTHS_FROM + MATCH_BYTES_MIN..][..LENGTH_SYMBOL.len()];
        for (&symbol, &count) in LENGTH_SYMBOL.iter().zip(lengths) {
            litlen[257 + usize::from(symbol)] += count;
        }
        litlen[257 + LONG] = items[LENGTHS_FROM + LONG_AT];
        litlen[END_OF_BLOCK] = 1;
        Self {
            litlen,
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
    use crate::limits::DISTANCE_BASE;

    #[test]
    fn every_length_and_distance_has_a_symbol_that_says_it() {
        for len in 3..=65_535 {
            let symbol = length_symbol(len);
            let (value, bits) = length_extra(symbol, len);
            assert!(value < 1 << bits, "length {len}");
        }
        for distance in 1..=65_535 {
            let (symbol, value, bits) = distance_parts(distance);
            let base = usize::from(DISTANCE_BASE[symbol]);
            assert_eq!(base + 1 + value as usize, distance);
            assert_eq!(bits, u32::from(DISTANCE_EXTRA[symbol]));
        }
    }
}
