//! Costs in fractions of a bit.

use super::tokens::{Frequencies, SHORT_MATCH_BYTES_MAX, length_symbol};
use crate::limits::{
    DISTANCE_EXTRA, DISTANCE_SYMBOL_COUNT, END_OF_BLOCK, LENGTH_EXTRA, MATCH_BYTES_MIN,
};

/// Cost units per bit.
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
pub(crate) const fn log2(number: u32) -> u32 {
    let shift = number.leading_zeros();
    let fraction = (number << shift << 1) >> 24;
    (31 - shift) * BIT + LOG2_FRACTION[fraction as usize] as u32
}

/// Approximate bits of a dynamic block's header per symbol with a codeword, and besides.
const HEADER_BITS_PER_SYMBOL: u32 = 4;
const HEADER_BITS: u32 = 75;

/// Counts below this have their share of the entropy tabulated; larger ones are rare.
const SMALL_COUNT: usize = 2048;

/// For small counts, the amount that a symbol with this count subtracts from the entropy: the count
/// times its logarithm.
static COUNT_LOG2_COUNT: [u32; SMALL_COUNT] = {
    let mut table = [0; SMALL_COUNT];
    let mut count = 1;
    while count < SMALL_COUNT {
        table[count] = count as u32 * log2(count as u32);
        count += 1;
    }
    table
};

/// Estimates the bits of a dynamic block: the entropy of its symbols, extra bits, header.
#[inline(always)]
pub(crate) fn estimated_bits(frequencies: &Frequencies) -> u32 {
    let mut cost = 0_u64;
    let mut symbols = 0;
    for counts in [&frequencies.litlen[..], &frequencies.distance[..]] {
        let mut total = 0;
        let mut own = 0;
        for &count in counts {
            total += count;
            symbols += u32::from(count > 0);
            own += match COUNT_LOG2_COUNT.get(count as usize) {
                Some(&part) => u64::from(part),
                None => u64::from(count) * u64::from(log2(count)),
            };
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

/// Number of tabulated length costs: the short lengths, and room to read several at once.
pub(crate) const LENGTH_COST_COUNT: usize = SHORT_MATCH_BYTES_MAX + 1 + 16;

/// The cost of each symbol in a block, extra bits included.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    pub(crate) literals: [i32; 256],
    /// By length; equal for all lengths above the longest short one.
    pub(crate) lengths: [i32; LENGTH_COST_COUNT],
    pub(crate) distances: [i32; DISTANCE_SYMBOL_COUNT],
}

impl Costs {
    pub(crate) const ZERO: Self = Self {
        literals: [0; 256],
        lengths: [0; LENGTH_COST_COUNT],
        distances: [0; DISTANCE_SYMBOL_COUNT],
    };

    /// Returns the cost of a match length, short or long.
    #[inline]
    pub(crate) fn of_length(&self, len: usize) -> i32 {
        self.lengths[len.min(LENGTH_COST_COUNT - 1)]
    }

    /// Sets the costs from the entropy of these frequencies. A symbol that does not occur counts as
    /// half an occurrence, so that it can come into use.
    pub(crate) fn set_from(&mut self, frequencies: &Frequencies) {
        let litlen = symbol_costs(&frequencies.litlen);
        self.literals.copy_from_slice(&litlen[..END_OF_BLOCK]);
        for len in MATCH_BYTES_MIN..LENGTH_COST_COUNT {
            let symbol = length_symbol(len);
            self.lengths[len] =
                litlen[257 + symbol] + (BIT * u32::from(LENGTH_EXTRA[symbol])) as i32;
        }
        self.distances = symbol_costs(&frequencies.distance);
        for (cost, &bits) in self.distances.iter_mut().zip(&DISTANCE_EXTRA) {
            *cost += (BIT * u32::from(bits)) as i32;
        }
    }
}

fn symbol_costs<const N: usize>(frequencies: &[u32; N]) -> [i32; N] {
    // In half occurrences.
    let total: u32 = frequencies.iter().map(|&count| (2 * count).max(1)).sum();
    let total_log = log2(total);
    let mut costs = [0; N];
    for (cost, &count) in costs.iter_mut().zip(frequencies) {
        *cost = (total_log - log2((2 * count).max(1))).clamp(BIT / 4, 15 * BIT) as i32;
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
