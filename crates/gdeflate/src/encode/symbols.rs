//! A block's symbols as turns, in the order in which the lanes take them.
//!
//! Lanes take turns in order, so a block's turns are a plain sequence: turn n belongs to lane n
//! modulo 32. A token takes the first free turn, and a match's distance the turn 32 after its
//! length, which belongs to the same lane. A mask holds which of the next turns are taken; the next
//! free one is found by counting its trailing ones.
//!
//! Literals and matches follow each other in an unpredictable order, so every token takes the same
//! steps: one lookup by literal or length, and a distance, which is written for a literal, too,
//! into a free turn that is overwritten when it is reached.

use alloc::boxed::Box;

use super::codes::Codes;
use super::dealer::{Dealer, Turn};
use super::tokens::{
    Coded, ITEM_COUNT, LENGTHS_FROM, LONG, LONG_AT, SHORT_MATCH_BYTES_MAX, length_extra,
    length_symbol,
};
use crate::limits::{
    DISTANCE_EXTRA, DISTANCE_SYMBOL_COUNT, END_OF_BLOCK, LANE_COUNT, MATCH_BYTES_MIN,
};

/// Turns that are collected before they are dealt, so that they stay in the nearest cache.
const BATCH: usize = 32 * LANE_COUNT;

/// A writer of a block's symbols, with its tables.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// Turns of the block's codes for literals, and for lengths with their extra bits.
    items: Box<[Turn; ITEM_COUNT]>,
    /// Codewords of distances, counted with the extra bits to come, and where these begin.
    distances: [(Turn, u32); 2 * DISTANCE_SYMBOL_COUNT],
    turns: Box<[Turn; BATCH + 4 * LANE_COUNT]>,
}

impl Symbols {
    pub(crate) fn new() -> Self {
        Self {
            items: Box::new([Turn::NONE; ITEM_COUNT]),
            distances: [(Turn::NONE, 0); 2 * DISTANCE_SYMBOL_COUNT],
            turns: Box::new([Turn::NONE; BATCH + 4 * LANE_COUNT]),
        }
    }

    fn set_codes(&mut self, codes: &Codes) {
        let litlen = |symbol: usize| {
            Turn::new(
                codes.litlen.words[symbol].into(),
                codes.litlen.lengths[symbol].into(),
            )
        };
        for literal in 0..LENGTHS_FROM {
            self.items[literal] = litlen(literal);
        }
        for len in MATCH_BYTES_MIN..=SHORT_MATCH_BYTES_MAX {
            let symbol = length_symbol(len);
            let (extra, bits) = length_extra(symbol, len);
            self.items[LENGTHS_FROM + len] = litlen(257 + symbol).then(extra, bits);
        }
        self.items[LENGTHS_FROM + LONG_AT] = litlen(257 + LONG);
        for (symbol, &bits) in DISTANCE_EXTRA.iter().enumerate() {
            let len = codes.distance.lengths[symbol].into();
            let word = codes.distance.words[symbol].into();
            self.distances[symbol] = (Turn::new(word, len + u32::from(bits)), len);
        }
    }

    /// Writes tokens, the end of the block, and the distances still pending there.
    #[inline(always)]
    pub(crate) fn write(&mut self, dealer: &mut Dealer, tokens: &[Coded], codes: &Codes) {
        self.set_codes(codes);
        let turns = &mut *self.turns;
        // Bit n: turn `at + n` is taken.
        let mut taken = 0_u64;
        let mut at = 0;
        for &token in tokens {
            let skip = taken.trailing_ones();
            at += skip as usize;
            taken >>= skip;
            if at >= BATCH {
                deal(dealer, &turns[..BATCH]);
                turns.copy_within(BATCH..BATCH + 2 * LANE_COUNT, 0);
                at -= BATCH;
            }
            let mut turn = self.items[token.item() % ITEM_COUNT];
            if token.item() == LENGTHS_FROM + LONG_AT {
                let (extra, bits) = length_extra(LONG, token.raw_len());
                turn = turn.then(extra, bits);
            }
            let symbol = token.distance_symbol() % (2 * DISTANCE_SYMBOL_COUNT);
            let (distance, extra_from) = self.distances[symbol];
            turns[at] = turn;
            turns[at + LANE_COUNT] = distance.with(token.distance_extra(), extra_from);
            let is_match = u64::from(symbol < DISTANCE_SYMBOL_COUNT);
            taken = (taken | is_match << LANE_COUNT) >> 1;
            at += 1;
        }
        let skip = taken.trailing_ones();
        at += skip as usize;
        taken >>= skip;
        turns[at] = Turn::new(
            codes.litlen.words[END_OF_BLOCK].into(),
            codes.litlen.lengths[END_OF_BLOCK].into(),
        );
        for step in 1..2 * LANE_COUNT {
            if step >= LANE_COUNT || taken >> step & 1 == 0 {
                turns[at + step] = Turn::NONE;
            }
        }
        deal(
            dealer,
            &turns[..(at + LANE_COUNT).next_multiple_of(LANE_COUNT)],
        );
    }
}

/// Writes rounds of turns.
#[inline(always)]
fn deal(dealer: &mut Dealer, turns: &[Turn]) {
    let (rounds, _) = turns.as_chunks();
    rounds.iter().for_each(|round| dealer.round(round));
}
