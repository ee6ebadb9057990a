//! Lookup tables of the portable and AVX2 kernels: next bits of a lane → entry.
//!
//! Both codes share one array, so that a lane's pending length selects the code by an offset
//! instead of a branch. A codeword longer than the root index leads to a second-level table.
//! Entries are laid out so that literals, lengths and distances take the same arithmetic: value =
//! base + extra bits, where a literal has no extra bits.
//!
//! | bits | field |
//! |---|---|
//! | 0–4 | bits to take: codeword and extra bits (for a pointer: root and index bits) |
//! | 6 | neither literal nor length nor distance: end of block, pointer, or unassigned |
//! | 7 | distance; with bit 6: pointer to a second-level table |
//! | 8–11 | codeword bits (for a pointer: root bits) |
//! | 14 | literal |
//! | 15 | length |
//! | 16–31 | value: literal, base, index of the second-level table, or [`END_VALUE`] |
//!
//! Bits 5, 12 and 13 are zero, so that an entry, and an entry shifted right by 8, can be used as
//! shift counts modulo 64 without masking.

use super::codes::{Canonical, Lengths};
use crate::error::ErrorKind;
use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_BASE, DISTANCE_EXTRA, DISTANCE_SYMBOL_COUNT, END_OF_BLOCK,
    LENGTH_BASE, LENGTH_EXTRA, LITLEN_SYMBOL_COUNT,
};

/// Index bits of both root tables. The same for both, so that a turn masks its bits whatever is
/// pending; measured, that gains more than a smaller distance table.
pub(crate) const ROOT_BITS: u32 = 10;
/// Index of the distance tables. The literal/length tables need at most 1,334 entries (288 symbols,
/// a root of 10 bits, codewords of at most 15 bits).
pub(crate) const DISTANCE_START: usize = 2048;
/// Number of entries. The distance tables need 1,024 and at most 16 second-level tables of 32,
/// since each holds at least two codewords.
pub(crate) const ENTRY_COUNT: usize = 4096;

const _: () = assert!(DISTANCE_START + (1 << ROOT_BITS) + 16 * 32 <= ENTRY_COUNT);

pub(crate) const SPECIAL: u32 = 1 << 6;
pub(crate) const DISTANCE: u32 = 1 << 7;
pub(crate) const POINTER: u32 = SPECIAL | DISTANCE;
pub(crate) const LITERAL: u32 = 1 << 14;
pub(crate) const LENGTH: u32 = 1 << 15;
/// Mask of the bits to take.
pub(crate) const TAKE: u32 = 31;
/// The value of an end of block; other special entries that are not pointers have 0.
pub(crate) const END_VALUE: u32 = 1;

/// The entry of each litlen symbol, without its codeword length.
const LITLEN_MEANING: [u32; LITLEN_SYMBOL_COUNT] = {
    let mut meaning = [SPECIAL; LITLEN_SYMBOL_COUNT];
    let mut symbol = 0;
    while symbol < 286 {
        meaning[symbol] = if symbol < END_OF_BLOCK {
            (symbol as u32) << 16 | LITERAL
        } else if symbol == END_OF_BLOCK {
            SPECIAL | END_VALUE << 16
        } else {
            let index = symbol - 257;
            (LENGTH_BASE[index] as u32) << 16 | LENGTH | (LENGTH_EXTRA[index] as u32)
        };
        symbol += 1;
    }
    meaning
};

/// The entry of each distance symbol, without its codeword length.
const DISTANCE_MEANING: [u32; DISTANCE_SYMBOL_COUNT] = {
    let mut meaning = [0; DISTANCE_SYMBOL_COUNT];
    let mut symbol = 0;
    while symbol < DISTANCE_SYMBOL_COUNT {
        meaning[symbol] =
            (DISTANCE_BASE[symbol] as u32) << 16 | DISTANCE | (DISTANCE_EXTRA[symbol] as u32);
        symbol += 1;
    }
    meaning
};

/// The tables of one block. They are aligned to a cache line because building them is mostly
/// copying: unaligned, tiles of few words decode 1 to 2 % slower.
#[repr(align(64))]
pub(crate) struct Tables(pub(crate) [u32; ENTRY_COUNT]);

impl Tables {
    pub(crate) const EMPTY: Self = Self([SPECIAL; ENTRY_COUNT]);
}

/// Builds the tables of both codes and validates the codes.
pub(crate) fn build(tables: &mut Tables, lengths: &Lengths) -> Result<(), ErrorKind> {
    let (litlen, far) = tables.0.split_at_mut(DISTANCE_START);
    build_one(litlen, 0, &lengths.litlen, &LITLEN_MEANING)?;
    build_one(far, DISTANCE_START, &lengths.distance, &DISTANCE_MEANING)
}

/// Fills one code's tables. `place` is the index of `entries` in the common array.
fn build_one(
    entries: &mut [u32],
    place: usize,
    lengths: &[u8],
    meaning: &[u32],
) -> Result<(), ErrorKind> {
    let code = Canonical::new(lengths)?;
    let mut sorted = [0_u16; LITLEN_SYMBOL_COUNT];
    let mut next = [0_usize; CODEWORD_BITS_MAX + 2];
    for len in 1..=CODEWORD_BITS_MAX {
        next[len + 1] = next[len] + usize::from(code.counts[len]);
    }
    let symbol_count = next[CODEWORD_BITS_MAX + 1];
    for (symbol, &len) in lengths.iter().enumerate().filter(|&(_, &len)| len > 0) {
        let len = usize::from(len);
        sorted[next[len]] = symbol as u16;
        next[len] += 1;
    }
    let root_len = 1 << ROOT_BITS;
    let mut rank = 0;
    // The root table doubles with each length: the entries of the shorter lengths are copied, and
    // indices that no codeword of up to that length begins are filled later. So each codeword is
    // written once.
    let mut filled = 1;
    for len in 1..=ROOT_BITS {
        let first = code.first[len as usize];
        entries.copy_within(..filled, filled);
        filled *= 2;
        for codeword in first..first + u32::from(code.counts[len as usize]) {
            let reversed = (codeword.reverse_bits() >> (32 - len)) as usize;
            entries[reversed] = meaning[usize::from(sorted[rank])] + (len | len << 8);
            rank += 1;
        }
    }
    if symbol_count < 2 {
        // Empty, or one codeword 0 of one bit: unassigned codewords must be detected.
        for (index, entry) in entries[..root_len].iter_mut().enumerate() {
            if symbol_count == 0 || index % 2 == 1 {
                *entry = SPECIAL;
            }
        }
    }
    // Codewords longer than the root's index.
    let (mut second, mut end) = (root_len, root_len);
    let mut second_prefix = usize::MAX;
    for len in ROOT_BITS + 1..=CODEWORD_BITS_MAX as u32 {
        let first = code.first[len as usize];
        for codeword in first..first + u32::from(code.counts[len as usize]) {
            let reversed = (codeword.reverse_bits() >> (32 - len)) as usize;
            let prefix = reversed & (root_len - 1);
            if prefix != second_prefix {
                second_prefix = prefix;
                second = end;
                let bits = second_bits(&code, len, codeword);
                end += 1 << bits;
                entries[prefix] =
                    ((place + second) as u32) << 16 | POINTER | ROOT_BITS << 8 | (ROOT_BITS + bits);
            }
            let table = &mut entries[second..end];
            for at in (reversed >> ROOT_BITS..table.len()).step_by(1 << (len - ROOT_BITS)) {
                table[at] = meaning[usize::from(sorted[rank])] + (len | len << 8);
            }
            rank += 1;
        }
    }
    Ok(())
}

/// Returns the index bits of the second-level table whose first codeword is `codeword` of `len`
/// bits: as many as make its codewords fill it.
fn second_bits(code: &Canonical, len: u32, codeword: u32) -> u32 {
    let mut bits = len - ROOT_BITS;
    // Codewords of this length from here on, in units of the current length.
    let index = codeword - code.first[len as usize];
    let mut filled = u32::from(code.counts[len as usize]) - index;
    while filled < 1 << bits && ROOT_BITS + bits < CODEWORD_BITS_MAX as u32 {
        bits += 1;
        filled = 2 * filled + u32::from(code.counts[(ROOT_BITS + bits) as usize]);
    }
    bits
}

/// Returns the value of an entry, given the lane's bits: its base plus extra bits, or for a pointer
/// the table's index plus the index in it.
#[inline(always)]
pub(crate) fn value(entry: u32, bits: u64) -> u32 {
    let taken = bits & !(u64::MAX << (entry & TAKE));
    (entry >> 16) + (taken as u32).wrapping_shr(entry >> 8)
}
