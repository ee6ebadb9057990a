//! Lookup tables of the portable kernel: next bits of a lane → entry.
//!
//! Both codes share one array, so that a lane's pending length selects the code by an offset
//! instead of a branch. A codeword longer than the root index leads to a second table. Entries are
//! made so that literals, lengths and distances run through the same arithmetic: value = base +
//! extra bits, where a literal has no extra bits.
//!
//! | bits | field |
//! |---|---|
//! | 0–4 | codeword bits (root bits for a pointer) |
//! | 5–9 | extra bits (index bits of the second table for a pointer) |
//! | 10 | literal |
//! | 11 | length |
//! | 12 | distance |
//! | 13 | neither: end of block, pointer, or unassigned |
//! | 14 | end of block |
//! | 15 | pointer to a second table |
//! | 16–31 | value: literal, base, or the second table's place |

use super::codes::{Canonical, Lengths};
use crate::error::ErrorKind;
use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_BASE, DISTANCE_EXTRA, DISTANCE_SYMBOL_COUNT, END_OF_BLOCK,
    LENGTH_BASE, LENGTH_EXTRA, LITLEN_SYMBOL_COUNT,
};

/// Index bits of the literal/length root table.
pub(crate) const LITLEN_ROOT_BITS: u32 = 10;
/// Index bits of the distance root table.
pub(crate) const DISTANCE_ROOT_BITS: u32 = 8;
/// Where the distance tables begin. The literal/length tables need at most 1,334 entries
/// (288 symbols, root of 10 bits, codewords of at most 15).
pub(crate) const DISTANCE_START: usize = 2048;
/// All entries. The distance tables need at most 402.
pub(crate) const ENTRY_COUNT: usize = 4096;

pub(crate) const LITERAL: u32 = 1 << 10;
pub(crate) const LENGTH: u32 = 1 << 11;
pub(crate) const DISTANCE: u32 = 1 << 12;
pub(crate) const SPECIAL: u32 = 1 << 13;
pub(crate) const END: u32 = 1 << 14;
pub(crate) const POINTER: u32 = 1 << 15;

/// What a litlen symbol means, without its codeword length.
const LITLEN_MEANING: [u32; LITLEN_SYMBOL_COUNT] = {
    let mut meaning = [SPECIAL; LITLEN_SYMBOL_COUNT];
    let mut symbol = 0;
    while symbol < 286 {
        meaning[symbol] = if symbol < END_OF_BLOCK {
            (symbol as u32) << 16 | LITERAL
        } else if symbol == END_OF_BLOCK {
            SPECIAL | END
        } else {
            let index = symbol - 257;
            (LENGTH_BASE[index] as u32) << 16 | LENGTH | (LENGTH_EXTRA[index] as u32) << 5
        };
        symbol += 1;
    }
    meaning
};

/// What a distance symbol means.
const DISTANCE_MEANING: [u32; DISTANCE_SYMBOL_COUNT] = {
    let mut meaning = [0; DISTANCE_SYMBOL_COUNT];
    let mut symbol = 0;
    while symbol < DISTANCE_SYMBOL_COUNT {
        meaning[symbol] =
            (DISTANCE_BASE[symbol] as u32) << 16 | DISTANCE | (DISTANCE_EXTRA[symbol] as u32) << 5;
        symbol += 1;
    }
    meaning
};

/// The tables of one block.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) entries: [u32; ENTRY_COUNT],
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self {
            entries: [SPECIAL; ENTRY_COUNT],
        }
    }

    /// Builds both tables; the codes are checked on the way.
    pub(crate) fn build(&mut self, lengths: &Lengths) -> Result<(), ErrorKind> {
        let (litlen, distance) = self.entries.split_at_mut(DISTANCE_START);
        build(
            litlen,
            0,
            LITLEN_ROOT_BITS,
            &lengths.litlen,
            &LITLEN_MEANING,
        )?;
        build(
            distance,
            DISTANCE_START,
            DISTANCE_ROOT_BITS,
            &lengths.distance,
            &DISTANCE_MEANING,
        )
    }
}

/// Fills one code's tables. `place` is where `entries` begin in the common array.
fn build(
    entries: &mut [u32],
    place: usize,
    root_bits: u32,
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
    let root_len = 1 << root_bits;
    if symbol_count < 2 {
        // Empty, or one codeword 0 of one bit: what is not assigned must be found out.
        entries[..root_len].fill(SPECIAL);
    }
    let mut rank = 0;
    let mut end = root_len;
    let mut second = Second {
        prefix: usize::MAX,
        start: 0,
        bits: 0,
    };
    for len in 1..=CODEWORD_BITS_MAX as u32 {
        let count = u32::from(code.counts[len as usize]);
        for codeword in code.first[len as usize]..code.first[len as usize] + count {
            let entry = meaning[usize::from(sorted[rank])] | len;
            rank += 1;
            let reversed = (codeword.reverse_bits() >> (32 - len)) as usize;
            if len <= root_bits {
                for at in (reversed..root_len).step_by(1 << len) {
                    entries[at] = entry;
                }
                continue;
            }
            let prefix = reversed & (root_len - 1);
            if prefix != second.prefix {
                second = Second {
                    prefix,
                    start: end,
                    bits: second_bits(&code, len, codeword, root_bits),
                };
                end += 1 << second.bits;
                entries[prefix] = ((place + second.start) as u32) << 16
                    | SPECIAL
                    | POINTER
                    | second.bits << 5
                    | root_bits;
            }
            let table = &mut entries[second.start..second.start + (1 << second.bits)];
            for at in (reversed >> root_bits..table.len()).step_by(1 << (len - root_bits)) {
                table[at] = entry;
            }
        }
    }
    Ok(())
}

/// The second table being filled.
struct Second {
    prefix: usize,
    start: usize,
    bits: u32,
}

/// Index bits that the second table needs whose first codeword is `codeword` of `len` bits: as
/// many as make its codewords fill it.
fn second_bits(code: &Canonical, len: u32, codeword: u32, root_bits: u32) -> u32 {
    let mut bits = len - root_bits;
    // Codewords of this length from here on, in units of the current length.
    let index = codeword - code.first[len as usize];
    let mut filled = u32::from(code.counts[len as usize]) - index;
    while filled < 1 << bits && root_bits + bits < CODEWORD_BITS_MAX as u32 {
        bits += 1;
        filled = 2 * filled + u32::from(code.counts[(root_bits + bits) as usize]);
    }
    bits
}
