//! Blocks: the cost of each type, the header of a dynamic block, and writing them.

use super::codes::Codes;
use super::dealer::{Dealer, Turn};
use super::huffman::Code;
use super::symbols::Symbols;
use super::tokens::{Coded, Frequencies};
use crate::limits::{
    DISTANCE_SYMBOL_COUNT, LANE_COUNT, LITLEN_SYMBOL_COUNT, PRECODE_BITS_MAX, PRECODE_ORDER,
    PRECODE_SYMBOL_COUNT, STORED_BLOCK_RAW_BYTES_MAX, stored_bits,
};

/// Block types as the format numbers them.
const STORED: u32 = 0;
const STATIC: u32 = 1;
const DYNAMIC: u32 = 2;

const ITEM_COUNT_MAX: usize = LITLEN_SYMBOL_COUNT + DISTANCE_SYMBOL_COUNT;

/// Maximum turns of a block besides its tokens: type, counts, precode, items, end.
const HEADER_TURNS_MAX: usize = 3 + PRECODE_SYMBOL_COUNT + ITEM_COUNT_MAX;

/// The header of a dynamic block: the lengths of its codes as run-length items in a third code.
struct Header {
    litlen_count: usize,
    distance_count: usize,
    precode_count: usize,
    precode: Code<PRECODE_SYMBOL_COUNT>,
    /// Symbol, value of the extra bits, number of extra bits.
    items: [(u8, u8, u8); ITEM_COUNT_MAX],
    item_count: usize,
}

impl Header {
    fn new(codes: &Codes) -> Self {
        let last = |lengths: &[u8]| {
            lengths
                .iter()
                .rposition(|&len| len > 0)
                .map_or(0, |at| at + 1)
        };
        let litlen_count = last(&codes.litlen.lengths).max(257);
        let distance_count = last(&codes.distance.lengths).max(1);
        let mut lengths = [0; ITEM_COUNT_MAX];
        lengths[..litlen_count].copy_from_slice(&codes.litlen.lengths[..litlen_count]);
        let total = litlen_count + distance_count;
        lengths[litlen_count..total].copy_from_slice(&codes.distance.lengths[..distance_count]);
        let mut header = Self {
            litlen_count,
            distance_count,
            precode_count: 0,
            precode: Code::of_lengths([0; PRECODE_SYMBOL_COUNT]),
            items: [(0, 0, 0); ITEM_COUNT_MAX],
            item_count: 0,
        };
        header.make_items(&lengths[..total]);
        let mut frequencies = [0; PRECODE_SYMBOL_COUNT];
        for item in &header.items[..header.item_count] {
            frequencies[usize::from(item.0)] += 1;
        }
        header.precode = Code::of_frequencies(&frequencies, PRECODE_BITS_MAX);
        header.precode_count = PRECODE_ORDER
            .iter()
            .rposition(|&symbol| header.precode.lengths[usize::from(symbol)] > 0)
            .map_or(4, |at| (at + 1).max(4));
        header
    }

    fn push(&mut self, symbol: u8, value: usize, bits: u8) {
        self.items[self.item_count] = (symbol, value as u8, bits);
        self.item_count += 1;
    }

    fn make_items(&mut self, lengths: &[u8]) {
        for run in lengths.chunk_by(|a, b| a == b) {
            let mut left = run.len();
            if run[0] == 0 {
                while left >= 11 {
                    let count = left.min(138);
                    self.push(18, count - 11, 7);
                    left -= count;
                }
                if left >= 3 {
                    self.push(17, left - 3, 3);
                    left = 0;
                }
            } else if left >= 4 {
                self.push(run[0], 0, 0);
                left -= 1;
                while left >= 3 {
                    // Seven are repeated as 4 + 3, not as 6 plus a single length.
                    let count = if left == 7 { 4 } else { left.min(6) };
                    self.push(16, count - 3, 2);
                    left -= count;
                }
            }
            for _ in 0..left {
                self.push(run[0], 0, 0);
            }
        }
    }

    fn bits(&self) -> u32 {
        let items = self.items[..self.item_count]
            .iter()
            .map(|item| u32::from(self.precode.lengths[usize::from(item.0)]) + u32::from(item.2));
        14 + 3 * self.precode_count as u32 + items.sum::<u32>()
    }

    /// Writes the block's type and this header.
    fn write(&self, dealer: &mut Dealer, last: bool) {
        let counts = (self.litlen_count - 257)
            | (self.distance_count - 1) << 5
            | (self.precode_count - 4) << 10;
        // Turns in a row of one lane are one turn.
        dealer.turns([block_type(DYNAMIC, last).then(counts as u32, 14)]);
        let precode = PRECODE_ORDER[..self.precode_count].iter();
        dealer.turns(precode.map(|&symbol| {
            let len = self.precode.lengths[usize::from(symbol)];
            Turn::new(len.into(), 3)
        }));
        let items = self.items[..self.item_count].iter();
        dealer.turns(items.map(|&(symbol, value, bits)| {
            let word = self.precode.words[usize::from(symbol)];
            let len = self.precode.lengths[usize::from(symbol)];
            Turn::new(word.into(), len.into()).then(value.into(), bits.into())
        }));
    }
}

/// Returns the turn that begins a block.
fn block_type(number: u32, last: bool) -> Turn {
    Turn::new(u32::from(last) | number << 1, 3)
}

/// The contents of a block.
pub(crate) struct Block<'a> {
    pub(crate) raw: &'a [u8],
    /// Tokens that encode these bytes.
    pub(crate) tokens: &'a [Coded],
    /// Frequencies of the tokens' symbols and the end of block.
    pub(crate) frequencies: &'a Frequencies,
}

/// Writes one block in its cheapest form. `fixed` holds the static codes.
#[inline(always)]
pub(crate) fn write(
    dealer: &mut Dealer,
    symbols: &mut Symbols,
    fixed: &Codes,
    block: &Block<'_>,
    last: bool,
) {
    let Block {
        raw,
        tokens,
        frequencies,
    } = *block;
    let codes = Codes::of_frequencies(frequencies);
    let header = Header::new(&codes);
    let dynamic_bits = 3 + header.bits() + codes.cost(frequencies);
    let static_bits = 3 + fixed.cost(frequencies);
    let stored_bits = stored_bits(raw.len()) as u32;
    dealer.make_room(HEADER_TURNS_MAX + LANE_COUNT + 2 * tokens.len());
    if dynamic_bits < static_bits.min(stored_bits) {
        header.write(dealer, last);
        symbols.write(dealer, tokens, &codes);
    } else if static_bits < stored_bits {
        dealer.turns([block_type(STATIC, last)]);
        symbols.write(dealer, tokens, fixed);
    } else {
        write_stored(dealer, raw, last);
    }
}

/// Writes `raw` as stored blocks; an empty `raw` as one empty block.
pub(crate) fn write_stored(dealer: &mut Dealer, raw: &[u8], last: bool) {
    let mut rest = raw;
    loop {
        let (piece, behind) = rest.split_at(rest.len().min(STORED_BLOCK_RAW_BYTES_MAX));
        rest = behind;
        dealer.make_room(2 + piece.len());
        let begin = block_type(STORED, last && rest.is_empty());
        dealer.turns([begin.then(piece.len() as u32, 16)]);
        dealer.turns(piece.iter().map(|&byte| Turn::new(byte.into(), 8)));
        if rest.is_empty() {
            return;
        }
    }
}
