//! Code lengths: reading those of a dynamic block, validating them, deriving canonical codes.

use super::lanes::{Lanes, PADDING, Words, refilled};
use crate::error::ErrorKind;
use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_SYMBOL_COUNT, LANE_COUNT, LITLEN_SYMBOL_COUNT, PRECODE_BITS_MAX,
    PRECODE_ORDER, PRECODE_SYMBOL_COUNT,
};

/// Maximum number of lengths that one repeat item can state.
const REPEAT_MAX: usize = 138;

const PRECODE_TABLE_LEN: usize = 1 << PRECODE_BITS_MAX;

/// Code lengths of the two codes of a block.
#[derive(Debug, Clone)]
pub(crate) struct Lengths {
    /// By symbol; 0 where the symbol has no codeword.
    pub(crate) litlen: [u8; LITLEN_SYMBOL_COUNT],
    /// By symbol.
    pub(crate) distance: [u8; DISTANCE_SYMBOL_COUNT],
}

impl Lengths {
    /// Returns the code lengths of a static block.
    pub(crate) fn fixed() -> Self {
        let mut litlen = [8; LITLEN_SYMBOL_COUNT];
        litlen[144..256].fill(9);
        litlen[256..280].fill(7);
        Self {
            litlen,
            distance: [5; DISTANCE_SYMBOL_COUNT],
        }
    }

    /// Reads a dynamic block's header after its type. Its two codes are not validated here:
    /// [`Canonical`] does that.
    #[inline(never)]
    pub(crate) fn read(lanes: &mut Lanes, words: &mut Words<'_>) -> Result<Self, ErrorKind> {
        let litlen_count = lanes.take(0, 5) as usize + 257;
        let distance_count = lanes.take(0, 5) as usize + 1;
        let precode_count = lanes.take(0, 4) as usize + 4;
        lanes.refill(0, words)?;
        let mut precode_lengths = [0; PRECODE_SYMBOL_COUNT];
        for (lane, &symbol) in PRECODE_ORDER.iter().enumerate().take(precode_count) {
            precode_lengths[usize::from(symbol)] = lanes.take(lane, 3) as u8;
            lanes.refill(lane, words)?;
        }
        let items = item_table(&precode_lengths)?;
        let total = litlen_count + distance_count;
        let mut all = [0; LENGTH_ROOM];
        read_items(lanes, words, &items, &mut all, total)?;
        let mut lengths = Self {
            litlen: [0; LITLEN_SYMBOL_COUNT],
            distance: [0; DISTANCE_SYMBOL_COUNT],
        };
        lengths.litlen[..litlen_count].copy_from_slice(&all[..litlen_count]);
        lengths.distance[..distance_count].copy_from_slice(&all[litlen_count..total]);
        Ok(lengths)
    }
}

/// The items of the code lengths, indexed by the next seven bits.
///
/// | bits | field |
/// |---|---|
/// | 0–2 | codeword bits; 0: unassigned |
/// | 3–5 | extra bits |
/// | 8–15 | repeat count, without the extra bits' value |
/// | 16–19 | length |
/// | 24 | repeats the previous length instead |
type ItemTable = [u32; PRECODE_TABLE_LEN];

const ITEM_REPEATS: u32 = 1 << 24;

/// Lengths that are always written at once: nearly all items state fewer.
const ITEM_SPLAT: usize = 16;

/// Capacity for all lengths, the last item's excess, and a splat after it.
const LENGTH_ROOM: usize = LITLEN_SYMBOL_COUNT + DISTANCE_SYMBOL_COUNT + REPEAT_MAX + ITEM_SPLAT;

/// Reads items until `total` lengths are known. The last repeat may run past `total`; its excess is
/// ignored.
fn read_items(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    table: &ItemTable,
    all: &mut [u8; LENGTH_ROOM],
    total: usize,
) -> Result<(), ErrorKind> {
    let mut padding = PADDING;
    let mut known = 0;
    let mut value = 0;
    loop {
        let chunk = words.chunk(&mut padding);
        let mut used = 0;
        for lane in 0..LANE_COUNT {
            let bits = lanes.bits[lane];
            let item = table[bits as usize % PRECODE_TABLE_LEN];
            let code_bits = item & 7;
            if code_bits == 0 {
                return Err(ErrorKind::BadSymbol);
            }
            if item & ITEM_REPEATS == 0 {
                value = (item >> 16) as u8 & 15;
            } else if known == 0 {
                return Err(ErrorKind::BadCode);
            }
            let extra_bits = (item >> 3) & 7;
            let extra = (bits >> code_bits) as usize & ((1 << extra_bits) - 1);
            let count = (item >> 8) as usize % 256 + extra;
            all[known..known + ITEM_SPLAT].copy_from_slice(&[value; ITEM_SPLAT]);
            if count > ITEM_SPLAT {
                all[known..known + count].fill(value);
            }
            known += count;
            let bits = bits >> (code_bits + extra_bits);
            let left = lanes.counts[lane] - (code_bits + extra_bits);
            let (bits, left, taken) = refilled(bits, left, chunk, used);
            (lanes.bits[lane], lanes.counts[lane]) = (bits, left);
            used += taken;
            if known >= total {
                return words.take(used);
            }
        }
        words.take(used)?;
    }
}

fn item_table(lengths: &[u8; PRECODE_SYMBOL_COUNT]) -> Result<ItemTable, ErrorKind> {
    let code = Canonical::new(lengths)?;
    let mut next = code.first;
    let mut table = [0; PRECODE_TABLE_LEN];
    for (symbol, &len) in lengths.iter().enumerate().filter(|&(_, &len)| len > 0) {
        let codeword = next[usize::from(len)];
        next[usize::from(len)] += 1;
        let reversed = codeword.reverse_bits() >> (32 - u32::from(len));
        let meaning = match symbol {
            16 => ITEM_REPEATS | (3 << 8) | (2 << 3),
            17 => (3 << 8) | (3 << 3),
            18 => (11 << 8) | (7 << 3),
            length => ((length as u32) << 16) | (1 << 8),
        };
        for at in (reversed as usize..PRECODE_TABLE_LEN).step_by(1 << len) {
            table[at] = meaning | u32::from(len);
        }
    }
    Ok(table)
}

/// The number of codewords of each length and the first of each: all that defines a canonical code
/// except the order of its symbols.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canonical {
    /// Number of codewords by length.
    pub(crate) counts: [u16; CODEWORD_BITS_MAX + 1],
    /// The first codeword of each length, first bit highest.
    pub(crate) first: [u32; CODEWORD_BITS_MAX + 1],
}

impl Canonical {
    /// Counts and validates a code: it must be complete, empty, or a single codeword of one bit.
    pub(crate) fn new(lengths: &[u8]) -> Result<Self, ErrorKind> {
        // Four counters of each length: adjacent lengths are often equal, and increments of one
        // counter would wait for each other.
        let mut counters = [[0_u16; CODEWORD_BITS_MAX + 1]; 4];
        for (at, &len) in lengths.iter().enumerate() {
            counters[at % 4][usize::from(len) % (CODEWORD_BITS_MAX + 1)] += 1;
        }
        let counts = core::array::from_fn(|len| counters.iter().map(|counter| counter[len]).sum());
        Self::of_counts(counts)
    }

    /// Validates a code with these numbers of codewords by length; `counts[0]` is ignored.
    pub(crate) fn of_counts(mut counts: [u16; CODEWORD_BITS_MAX + 1]) -> Result<Self, ErrorKind> {
        counts[0] = 0;
        let mut first = [0; CODEWORD_BITS_MAX + 1];
        let mut next = 0_u32;
        let mut used = 0;
        let mut total = 0;
        for len in 1..=CODEWORD_BITS_MAX {
            let count = u32::from(counts[len]);
            next <<= 1;
            first[len] = next;
            next += count;
            total += count;
            used += count << (CODEWORD_BITS_MAX - len);
        }
        let complete = used == 1 << CODEWORD_BITS_MAX;
        if complete || total == 0 || (total == 1 && counts[1] == 1) {
            Ok(Self { counts, first })
        } else {
            Err(ErrorKind::BadCode)
        }
    }
}
