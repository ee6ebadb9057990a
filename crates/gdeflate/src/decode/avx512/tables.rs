//! The AVX-512 kernel's tables of a block's codes, and how they are built.
//!
//! Less than a kilobyte: limits, ranks, and the symbols in the order of their ranks. They are
//! sorted length by length: the symbols of that length are compressed to the end of the others.
//!
//! # Safety
//! The functions must run on a CPU with the features that `is_available` checks, which their
//! callers have done. Stores are of whole vectors into arrays that have room for a vector after the
//! last rank, which is asserted or follows from the number of symbols.
#![expect(
    unsafe_code,
    reason = "vector loads and stores with derived bounds; see # Safety"
)]

use core::arch::x86_64::*;

use super::{DISTANCE_RANK, END, SPECIAL, row};
use crate::decode::codes::{Canonical, Lengths};
use crate::error::ErrorKind;
use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_BASE, DISTANCE_EXTRA, END_OF_BLOCK, LENGTH_BASE, LENGTH_EXTRA,
};

/// A vector of 16-bit elements in memory.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Row(pub(super) [u16; 32]);

impl Row {
    pub(super) const ZERO: Self = Self([0; 32]);
}

/// The tables of a block's codes. Unless noted, rows are indexed by codeword bits minus 1, plus 16
/// for distances; index 15 (31) stands for "no codeword".
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct VectorTables {
    /// The limits 4, 8 and 12 of each code, for the first step.
    pub(super) coarse: [[u16; 3]; 2],
    /// Limits 1, 2 and 3 of each group of four, indexed by group, plus 4 for distances.
    pub(super) fine: [Row; 3],
    /// First codeword of each length that is not a literal's; 0 for distances.
    pub(super) others_from: Row,
    /// Rank among the non-literals or distances minus codeword, modulo 2^16.
    pub(super) other_rank: Row,
    /// Rank among the literals minus codeword, modulo 2^16.
    pub(super) literal_rank: Row,
    /// By rank, of the non-literals and the distances: base, and extra bits with flags.
    pub(super) base: [Row; 2],
    pub(super) extra: [Row; 2],
    /// Literals by rank.
    pub(super) literals: [u8; 256],
}

impl VectorTables {
    pub(crate) const ZERO: Self = Self {
        coarse: [[0; 3]; 2],
        fine: [Row::ZERO; 3],
        others_from: Row::ZERO,
        other_rank: Row::ZERO,
        literal_rank: Row::ZERO,
        base: [Row::ZERO; 2],
        extra: [Row::ZERO; 2],
        literals: [0; 256],
    };

    /// Builds the tables of a block and validates its codes.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
    pub(crate) fn build(&mut self, lengths: &Lengths) -> Result<(), ErrorKind> {
        let ranks = Ranks::sort(lengths, self);
        let counts = core::array::from_fn(|len| ranks.literals[len] + ranks.others[len]);
        let litlen = Canonical::of_counts(counts)?;
        let distance = Canonical::of_counts(ranks.distances)?;
        self.set_limits(0, &litlen);
        self.set_limits(1, &distance);
        // The first rank of each length.
        let (mut literal, mut other, mut far) = (0_u16, 0_u16, DISTANCE_RANK);
        for len in 1..=CODEWORD_BITS_MAX {
            let at = len - 1;
            let first = litlen.first[len] as u16;
            let others_from = first + ranks.literals[len];
            self.literal_rank.0[at] = literal.wrapping_sub(first);
            self.others_from.0[at] = others_from;
            self.other_rank.0[at] = other.wrapping_sub(others_from);
            self.other_rank.0[16 + at] = far.wrapping_sub(distance.first[len] as u16);
            literal += ranks.literals[len];
            other += ranks.others[len];
            far += ranks.distances[len];
        }
        // "No codeword" occurs in codes of at most one codeword, which leave the last ranks free.
        self.other_rank.0[15] = DISTANCE_RANK - 1;
        self.other_rank.0[31] = 2 * DISTANCE_RANK - 1;
        if usize::from(other) < self.extra[0].0.len() {
            self.extra[0].0[31] = SPECIAL;
        }
        if far < 2 * DISTANCE_RANK {
            self.extra[1].0[31] = SPECIAL;
        }
        Ok(())
    }

    fn set_limits(&mut self, code: usize, canonical: &Canonical) {
        let limit = |len: usize| {
            let behind = canonical.first[len] + u32::from(canonical.counts[len]);
            (behind << (CODEWORD_BITS_MAX - len)) as u16
        };
        self.coarse[code] = [limit(4), limit(8), limit(12)];
        for group in 0..4 {
            for step in 0..3 {
                self.fine[step].0[4 * code + group] = limit(4 * group + step + 1);
            }
        }
    }
}

/// Builds a row for symbols 256..=287: `values` from 257 on, `fill` for the others.
const fn others(values: [u16; 29], fill: u16) -> Row {
    let mut row = [fill; 32];
    let mut at = 0;
    while at < values.len() {
        row[at + 1] = values[at];
        at += 1;
    }
    Row(row)
}

const OTHER_BASE: Row = others(LENGTH_BASE, 0);

/// Extra bits with flags of symbols 256..=287.
const OTHER_EXTRA: Row = {
    let mut row = others(LENGTH_EXTRA, SPECIAL);
    row.0[0] = SPECIAL | END;
    row
};

/// 0, 1, 2, … in bytes.
const BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut at = 0;
    while at < 256 {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

/// Number of codewords of each length.
#[derive(Default)]
struct Ranks {
    literals: [u16; 16],
    others: [u16; 16],
    distances: [u16; 16],
}

impl Ranks {
    /// Puts every symbol at its rank: for each length, its symbols are packed after the previous
    /// ones. This also counts them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
    fn sort(lengths: &Lengths, tables: &mut VectorTables) -> Self {
        let mut ranks = Self::default();
        // Room for a vector after the last rank.
        let mut literals = [0_u8; 256 + 64];
        let mut others = [[0_u16; 64]; 2];
        let mut distances = [[0_u16; 64]; 2];
        let (mut literal, mut other, mut far) = (0, 0, 0);
        // SAFETY: the lengths are 288 and 32 bytes.
        let (literal_lengths, other_lengths, far_lengths) = unsafe {
            let at = lengths.litlen.as_ptr();
            (
                [0, 64, 128, 192].map(|from| _mm512_loadu_si512(at.add(from).cast::<__m512i>())),
                _mm256_loadu_si256(at.add(END_OF_BLOCK).cast()),
                _mm256_loadu_si256(lengths.distance.as_ptr().cast()),
            )
        };
        for len in 1..=CODEWORD_BITS_MAX {
            let wanted = _mm512_set1_epi8(len as i8);
            let before = literal;
            for (at, &piece) in literal_lengths.iter().enumerate() {
                let has = _mm512_cmpeq_epi8_mask(piece, wanted);
                // SAFETY: `BYTES` has four vectors; `literal` is at most 256, and 64 bytes follow.
                unsafe {
                    let symbols = _mm512_loadu_si512(BYTES.as_ptr().add(64 * at).cast());
                    let packed = _mm512_maskz_compress_epi8(has, symbols);
                    _mm512_storeu_si512(literals.as_mut_ptr().add(literal).cast(), packed);
                }
                literal += has.count_ones() as usize;
            }
            ranks.literals[len] = (literal - before) as u16;
            let wanted = _mm256_set1_epi8(len as i8);
            let has = _mm256_cmpeq_epi8_mask(other_lengths, wanted);
            pack(has, &OTHER_BASE, &mut others[0], other);
            pack(has, &OTHER_EXTRA, &mut others[1], other);
            ranks.others[len] = has.count_ones() as u16;
            other += has.count_ones() as usize;
            let has = _mm256_cmpeq_epi8_mask(far_lengths, wanted);
            pack(has, &Row(DISTANCE_BASE), &mut distances[0], far);
            pack(has, &Row(DISTANCE_EXTRA), &mut distances[1], far);
            ranks.distances[len] = has.count_ones() as u16;
            far += has.count_ones() as usize;
        }
        tables.literals.copy_from_slice(&literals[..256]);
        for (at, from) in [&others, &distances].into_iter().enumerate() {
            tables.base[at].0.copy_from_slice(&from[0][..32]);
            tables.extra[at].0.copy_from_slice(&from[1][..32]);
        }
        ranks
    }
}

/// Packs the elements of `from` selected by `mask` into `to` from `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn pack(mask: u32, from: &Row, to: &mut [u16; 64], at: usize) {
    assert!(at <= 32);
    let packed = _mm512_maskz_compress_epi16(mask, row(from));
    // SAFETY: 32 elements follow `at`, just asserted.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(at).cast(), packed) };
}
