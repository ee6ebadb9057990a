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
use alloc::vec::Vec;

use super::codes::Codes;
use super::dealer::{Dealer, Turn};
use super::tokens::{
    SHORT_MATCH_BYTES_MAX, Token, chosen, distance_extra, distance_symbol, length_extra,
    length_symbol,
};
use crate::limits::{DISTANCE_SYMBOL_COUNT, END_OF_BLOCK, LANE_COUNT, MATCH_BYTES_MIN};

/// Index of the lengths in the table of turns, and the table's size, a power of two.
const LENGTHS_FROM: usize = 256;
const TURN_COUNT: usize = 1024;

/// Symbol of the long matches minus 257, and the unused length at which its codeword is kept.
const LONG: usize = 28;
const LONG_AT: usize = 1;

const _: () = assert!(LONG_AT < MATCH_BYTES_MIN);
const _: () = assert!(LENGTHS_FROM + SHORT_MATCH_BYTES_MAX < TURN_COUNT);

/// A writer of a block's symbols, with its tables.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// Turns of the block's codes for literals, and for lengths with their extra bits.
    by_token: Box<[Turn; TURN_COUNT]>,
    distances: [Turn; DISTANCE_SYMBOL_COUNT],
    turns: Vec<Turn>,
}

impl Symbols {
    pub(crate) fn new() -> Self {
        Self {
            by_token: Box::new([Turn::NONE; TURN_COUNT]),
            distances: [Turn::NONE; DISTANCE_SYMBOL_COUNT],
            turns: Vec::new(),
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
            self.by_token[literal] = litlen(literal);
        }
        for len in MATCH_BYTES_MIN..=SHORT_MATCH_BYTES_MAX {
            let symbol = length_symbol(len);
            let (extra, bits) = length_extra(symbol, len);
            self.by_token[LENGTHS_FROM + len] = litlen(257 + symbol).then(extra, bits);
        }
        self.by_token[LENGTHS_FROM + LONG_AT] = litlen(257 + LONG);
        for (symbol, turn) in self.distances.iter_mut().enumerate() {
            let word = codes.distance.words[symbol].into();
            *turn = Turn::new(word, codes.distance.lengths[symbol].into());
        }
    }

    /// Writes tokens, the end of the block, and the distances still pending there.
    #[inline(always)]
    pub(crate) fn write(&mut self, dealer: &mut Dealer, tokens: &[Token], codes: &Codes) {
        self.set_codes(codes);
        let room = 2 * tokens.len() + 2 * LANE_COUNT;
        if self.turns.len() < room {
            self.turns.resize(room, Turn::NONE);
        }
        let turns = &mut self.turns[..room];
        // Bit n: turn `at + n` is taken.
        let mut taken = 0_u64;
        let mut at = 0;
        for &token in tokens {
            let skip = taken.trailing_ones();
            at += skip as usize;
            taken >>= skip;
            let len = token.match_len();
            let from = chosen(
                u32::from(len > 0),
                (LENGTHS_FROM + len) as u32,
                token.low() as u32,
            );
            let mut turn = self.by_token[from as usize % TURN_COUNT];
            if len > SHORT_MATCH_BYTES_MAX {
                let (extra, bits) = length_extra(LONG, len);
                turn = self.by_token[LENGTHS_FROM + LONG_AT].then(extra, bits);
            }
            let symbol = distance_symbol(token.low()) % DISTANCE_SYMBOL_COUNT;
            let (extra, bits) = distance_extra(symbol, token.low());
            let next = &mut turns[at..=at + LANE_COUNT];
            next[0] = turn;
            next[LANE_COUNT] = self.distances[symbol].then(extra, bits);
            taken = (taken | u64::from(len > 0) << LANE_COUNT) >> 1;
            at += 1;
        }
        let skip = taken.trailing_ones();
        at += skip as usize;
        taken >>= skip;
        turns[at] = Turn::new(
            codes.litlen.words[END_OF_BLOCK].into(),
            codes.litlen.lengths[END_OF_BLOCK].into(),
        );
        for step in 1..LANE_COUNT {
            if taken >> step & 1 == 0 {
                turns[at + step] = Turn::NONE;
            }
        }
        dealer.turns(&turns[..at + LANE_COUNT]);
    }
}
