//! A block's symbols as turns, in the order in which the lanes take them.
//!
//! Every turn of a block belongs to the next lane, so its turns are a plain sequence: turn n is of
//! lane n modulo 32. A token takes the first turn that is free, and a match's distance the turn 32
//! behind its length, which is of the same lane. Which of the next turns are taken is a mask, and
//! finding the next free one counts its trailing ones.
//!
//! Literals and matches follow each other in an unpredictable order, so a token costs the same
//! whatever it is: one look-up by literal or length, and a distance that for a literal is written,
//! too, where it does no harm: a free turn that is overwritten when it is reached.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::codes::Codes;
use super::dealer::{Dealer, Turn};
use super::tokens::{
    SHORT_MATCH_BYTES_MAX, Token, chosen, distance_extra, distance_symbol, length_extra,
    length_symbol,
};
use crate::limits::{DISTANCE_SYMBOL_COUNT, END_OF_BLOCK, LANE_COUNT, MATCH_BYTES_MIN};

/// Where the lengths begin in the table of turns, and how many entries that has, a power of two.
const LENGTHS_FROM: usize = 256;
const TURN_COUNT: usize = 1024;

/// Symbol of the long matches less 257, and where its codeword is kept, at a length that is none.
const LONG: usize = 28;
const LONG_AT: usize = 1;

const _: () = assert!(LONG_AT < MATCH_BYTES_MIN);
const _: () = assert!(LENGTHS_FROM + SHORT_MATCH_BYTES_MAX < TURN_COUNT);

/// Memory of the writer.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// Literals, and lengths with their extra bits, as turns of the block's codes.
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

    /// Writes tokens, the end of the block, and the distances that are pending then.
    #[inline(always)]
    pub(crate) fn write(&mut self, dealer: &mut Dealer, tokens: &[Token], codes: &Codes) {
        self.set_codes(codes);
        let room = 2 * tokens.len() + 2 * LANE_COUNT;
        if self.turns.len() < room {
            self.turns.resize(room, Turn::NONE);
        }
        let turns = &mut self.turns[..room];
        // Bit n: the turn n behind `at` is taken.
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
