//! Code lengths: reading a dynamic block's, checking them, sorting them into canonical codes.

use super::lanes::{Lanes, Words};
use crate::error::ErrorKind;
use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_SYMBOL_COUNT, LANE_COUNT, LITLEN_SYMBOL_COUNT, PRECODE_BITS_MAX,
    PRECODE_ORDER, PRECODE_SYMBOL_COUNT,
};

/// The longest a repeat item can run.
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
    /// Those of a static block.
    pub(crate) fn fixed() -> Self {
        let mut litlen = [8; LITLEN_SYMBOL_COUNT];
        litlen[144..256].fill(9);
        litlen[256..280].fill(7);
        Self {
            litlen,
            distance: [5; DISTANCE_SYMBOL_COUNT],
        }
    }

    #[inline(never)]
    /// Reads a dynamic block's header behind its type. The codes themselves are checked by
    /// [`Canonical::new`].
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
        let precode = precode_table(&precode_lengths)?;
        let total = litlen_count + distance_count;
        let mut all = [0; LITLEN_SYMBOL_COUNT + DISTANCE_SYMBOL_COUNT + REPEAT_MAX];
        read_items(lanes, words, &precode, &mut all, total)?;
        let mut lengths = Self {
            litlen: [0; LITLEN_SYMBOL_COUNT],
            distance: [0; DISTANCE_SYMBOL_COUNT],
        };
        lengths.litlen[..litlen_count].copy_from_slice(&all[..litlen_count]);
        lengths.distance[..distance_count].copy_from_slice(&all[litlen_count..total]);
        Ok(lengths)
    }
}

/// Reads items until `total` lengths are known. The last repeat may run past `total`; what it says
/// there means nothing.
fn read_items(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    precode: &[u8; PRECODE_TABLE_LEN],
    all: &mut [u8; LITLEN_SYMBOL_COUNT + DISTANCE_SYMBOL_COUNT + REPEAT_MAX],
    total: usize,
) -> Result<(), ErrorKind> {
    let mut known = 0;
    let mut lane = 0;
    while known < total {
        let entry = precode[lanes.bits[lane] as usize % PRECODE_TABLE_LEN];
        if entry == 0 {
            return Err(ErrorKind::BadSymbol);
        }
        lanes.take(lane, u32::from(entry & 7));
        let symbol = entry >> 3;
        if symbol < 16 {
            all[known] = symbol;
            known += 1;
        } else {
            let (value, count) = match symbol {
                16 if known == 0 => return Err(ErrorKind::BadCode),
                16 => (all[known - 1], 3 + lanes.take(lane, 2)),
                17 => (0, 3 + lanes.take(lane, 3)),
                _ => (0, 11 + lanes.take(lane, 7)),
            };
            all[known..known + count as usize].fill(value);
            known += count as usize;
        }
        lanes.refill(lane, words)?;
        lane = (lane + 1) % LANE_COUNT;
    }
    Ok(())
}

/// By the next seven bits: symbol << 3 | length, or 0 where no codeword begins so.
fn precode_table(
    lengths: &[u8; PRECODE_SYMBOL_COUNT],
) -> Result<[u8; PRECODE_TABLE_LEN], ErrorKind> {
    let code = Canonical::new(lengths)?;
    let mut table = [0; PRECODE_TABLE_LEN];
    for (symbol, &len) in lengths.iter().enumerate().filter(|&(_, &len)| len > 0) {
        let codeword = code.codeword_of(lengths, symbol);
        let reversed = codeword.reverse_bits() >> (32 - u32::from(len));
        for at in (reversed as usize..PRECODE_TABLE_LEN).step_by(1 << len) {
            table[at] = (symbol as u8) << 3 | len;
        }
    }
    Ok(table)
}

/// How many codewords of each length a code has and where they begin; all that decides a canonical
/// code but the symbols' order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canonical {
    /// Codewords by length.
    pub(crate) counts: [u16; CODEWORD_BITS_MAX + 1],
    /// The first codeword of each length, first bit highest.
    pub(crate) first: [u32; CODEWORD_BITS_MAX + 1],
}

impl Canonical {
    /// Counts and checks a code: complete, or empty, or one single codeword of one bit.
    pub(crate) fn new(lengths: &[u8]) -> Result<Self, ErrorKind> {
        let mut counts = [0_u16; CODEWORD_BITS_MAX + 1];
        for &len in lengths {
            counts[usize::from(len) % (CODEWORD_BITS_MAX + 1)] += 1;
        }
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

    /// The codeword of one symbol, first bit highest. For short codes: it counts its way there.
    fn codeword_of(&self, lengths: &[u8], symbol: usize) -> u32 {
        let len = lengths[symbol];
        let before = lengths[..symbol]
            .iter()
            .filter(|&&other| other == len)
            .count();
        self.first[usize::from(len)] + before as u32
    }
}
