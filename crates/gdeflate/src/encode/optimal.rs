//! Near-optimal parsing: the cheapest way through a block, given what symbols cost.
//!
//! From the block's end backwards, the cheapest way from each position on is the cheapest of its
//! literal and its matches, each followed by what is known to be cheapest behind it. Costs depend
//! on the codes, which depend on the parse, so it is done a few times, starting from the symbols
//! of a quick parse; each time the costs fit the block better.

use alloc::vec::Vec;

use super::cost::Costs;
use super::matches::Matches;
use super::tokens::{Frequencies, SHORT_MATCH_BYTES_MAX, Token, distance_symbol};
use crate::limits::{DISTANCE_SYMBOL_COUNT, MATCH_BYTES_MIN};

/// Memory of the parse.
#[derive(Debug, Default)]
pub(crate) struct Optimal {
    /// Cheapest from each position of the block to its end.
    costs_behind: Vec<u32>,
    /// The first token of that way.
    choices: Vec<Token>,
}

impl Optimal {
    /// Appends to `tokens` the cheapest parse of `raw[start..end]`.
    pub(crate) fn parse(
        &mut self,
        raw: &[u8],
        (start, end): (usize, usize),
        matches: &Matches,
        costs: &Costs,
        tokens: &mut Vec<Token>,
    ) {
        let len = end - start;
        self.costs_behind.clear();
        self.costs_behind.resize(len + 1, 0);
        self.choices.clear();
        self.choices.resize(len, Token::literal(0));
        for at in (0..len).rev() {
            let literal = raw[start + at];
            let behind = &self.costs_behind[at + 1..];
            let mut cheapest = behind[0] + costs.literals[usize::from(literal)];
            let mut choice = Token::literal(literal);
            let mut len_next = MATCH_BYTES_MIN;
            for &(match_len, distance) in matches.at(start + at) {
                let distance = usize::from(distance);
                let match_len = usize::from(match_len).min(behind.len());
                let base = costs.distances[distance_symbol(distance) % DISTANCE_SYMBOL_COUNT];
                if match_len > SHORT_MATCH_BYTES_MAX {
                    // Taken whole or not at all; inside it the rest of it is a match again.
                    let cost = behind[match_len - 1] + costs.long_length + base;
                    if cost < cheapest {
                        cheapest = cost;
                        choice = Token::of_match(match_len, distance);
                    }
                } else if len_next <= match_len {
                    let ways = behind[len_next - 1..match_len]
                        .iter()
                        .zip(&costs.lengths[len_next..=match_len]);
                    let mut best = (u32::MAX, 0);
                    for (index, (&rest, &length)) in ways.enumerate() {
                        let cost = rest + length;
                        if cost <= best.0 {
                            best = (cost, index);
                        }
                    }
                    if best.0 + base < cheapest {
                        cheapest = best.0 + base;
                        choice = Token::of_match(len_next + best.1, distance);
                    }
                    len_next = match_len + 1;
                }
            }
            self.costs_behind[at] = cheapest;
            self.choices[at] = choice;
        }
        let mut at = 0;
        while at < len {
            let token = self.choices[at];
            tokens.push(token);
            at += token.raw_len();
        }
    }
}

/// Costs for a block from a parse of it.
pub(crate) fn costs_of(tokens: &[Token], costs: &mut Costs) {
    costs.set_from(&Frequencies::of_block(tokens));
}
