//! Costs in fractions of a bit.

use super::tokens::{Frequencies, SHORT_MATCH_BYTES_MAX, length_symbol};
use crate::limits::{
    DISTANCE_EXTRA, DISTANCE_SYMBOL_COUNT, END_OF_BLOCK, LENGTH_EXTRA, MATCH_BYTES_MIN,
};

/// One bit, in units of cost.
pub(crate) const BIT: u32 = 64;

/// Logarithm base 2 of 1 + n/256 in units of cost.
const LOG2_FRACTION: [u8; 257] = {
    let mut table = [0; 257];
    let mut at = 0;
    while at <= 256 {
        // Six binary digits of the logarithm by repeated squaring, in 1/2^30, and one to round.
        let mut x = (256 + at as u64) << 22;
        let mut digits = 0;
        let mut digit = 0;
        while digit < 7 {
            x = (x * x) >> 30;
            digits <<= 1;
            if x >= 2 << 30 {
                x >>= 1;
                digits |= 1;
            }
            digit += 1;
        }
        table[at] = if at == 256 { 64 } else { (digits + 1) / 2 } as u8;
        at += 1;
    }
    table
};

/// Logarithm base 2 in units of cost, of a number above zero.
#[inline]
pub(crate) fn log2(number: u32) -> u32 {
    let shift = number.leading_zeros();
    let fraction = (number << shift << 1) >> 24;
    (31 - shift) * BIT + u32::from(LOG2_FRACTION[fraction as usize])
}

/// Bits of a dynamic block's header per symbol that it gives a codeword, roughly; and the rest.
const HEADER_BITS_PER_SYMBOL: u32 = 3;
const HEADER_BITS: u32 = 60;

/// Roughly the bits of a dynamic block: the entropy of its symbols, extra bits, header.
pub(crate) fn estimated_bits(frequencies: &Frequencies) -> u32 {
    let mut cost = 0_u64;
    let mut symbols = 0;
    for counts in [&frequencies.litlen[..], &frequencies.distance[..]] {
        let total: u32 = counts.iter().sum();
        let mut own = 0;
        for &count in counts.iter().filter(|&&count| count > 0) {
            own += u64::from(count) * u64::from(log2(count));
            symbols += 1;
        }
        if total > 0 {
            cost += u64::from(total) * u64::from(log2(total)) - own;
        }
    }
    (cost / u64::from(BIT)) as u32
        + frequencies.extra_bits()
        + HEADER_BITS
        + HEADER_BITS_PER_SYMBOL * symbols
}

/// What each choice costs in a block, extra bits included.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    pub(crate) literals: [u32; 256],
    /// By length, up to the longest short one.
    pub(crate) lengths: [u32; SHORT_MATCH_BYTES_MAX + 1],
    /// Of any longer match.
    pub(crate) long_length: u32,
    pub(crate) distances: [u32; DISTANCE_SYMBOL_COUNT],
}

impl Costs {
    pub(crate) const ZERO: Self = Self {
        literals: [0; 256],
        lengths: [0; SHORT_MATCH_BYTES_MAX + 1],
        long_length: 0,
        distances: [0; DISTANCE_SYMBOL_COUNT],
    };

    /// What the entropy of these frequencies says. A symbol that did not occur costs as if it had
    /// occurred half a time, so that it can come into use.
    pub(crate) fn set_from(&mut self, frequencies: &Frequencies) {
        let litlen = symbol_costs(&frequencies.litlen);
        self.literals.copy_from_slice(&litlen[..END_OF_BLOCK]);
        for len in MATCH_BYTES_MIN..=SHORT_MATCH_BYTES_MAX {
            let symbol = length_symbol(len);
            self.lengths[len] = litlen[257 + symbol] + BIT * u32::from(LENGTH_EXTRA[symbol]);
        }
        self.long_length = litlen[285] + BIT * u32::from(LENGTH_EXTRA[28]);
        self.distances = symbol_costs(&frequencies.distance);
        for (cost, &bits) in self.distances.iter_mut().zip(&DISTANCE_EXTRA) {
            *cost += BIT * u32::from(bits);
        }
    }
}

fn symbol_costs<const N: usize>(frequencies: &[u32; N]) -> [u32; N] {
    // In half occurrences.
    let total: u32 = frequencies.iter().map(|&count| (2 * count).max(1)).sum();
    let total_log = log2(total);
    let mut costs = [0; N];
    for (cost, &count) in costs.iter_mut().zip(frequencies) {
        *cost = (total_log - log2((2 * count).max(1))).clamp(BIT / 4, 15 * BIT);
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right_to_a_fraction_of_a_bit() {
        for number in (1..100_000).chain([1 << 20, u32::MAX]) {
            let exact = f64::from(number).log2() * f64::from(BIT);
            let error = (f64::from(log2(number)) - exact).abs();
            assert!(error < 1.0, "{number}: {} {exact}", log2(number));
        }
    }
}
