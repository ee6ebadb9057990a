//! The two codes of a block: literals and lengths, distances.

use super::huffman::Code;
use super::tokens::Frequencies;
use crate::decode::Lengths;
use crate::limits::{CODEWORD_BITS_MAX, DISTANCE_SYMBOL_COUNT, LITLEN_SYMBOL_COUNT};

/// Longest litlen codeword that the encoder uses. Codewords longer than the decoder's root table
/// cost it a second lookup, and almost never pay.
const LITLEN_BITS_MAX: usize = 14;

/// The codes of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codes {
    pub(crate) litlen: Code<LITLEN_SYMBOL_COUNT>,
    pub(crate) distance: Code<DISTANCE_SYMBOL_COUNT>,
}

impl Codes {
    /// Returns the best codes for a block.
    pub(crate) fn of_frequencies(frequencies: &Frequencies) -> Self {
        Self {
            litlen: Code::of_frequencies(&frequencies.litlen, LITLEN_BITS_MAX),
            distance: Code::of_frequencies(&frequencies.distance, CODEWORD_BITS_MAX),
        }
    }

    /// Returns the codes of a static block.
    pub(crate) fn fixed() -> Self {
        let lengths = Lengths::fixed();
        Self {
            litlen: Code::of_lengths(lengths.litlen),
            distance: Code::of_lengths(lengths.distance),
        }
    }

    pub(crate) fn cost(&self, frequencies: &Frequencies) -> u32 {
        self.litlen.cost(&frequencies.litlen)
            + self.distance.cost(&frequencies.distance)
            + frequencies.extra_bits()
    }
}
