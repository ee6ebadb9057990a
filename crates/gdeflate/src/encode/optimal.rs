//! Near-optimal parsing: the cheapest way through a block, given what symbols cost.
//!
//! From the block's end backwards, the cheapest way from each position on is the cheapest of its
//! literal and its matches, each followed by the cheapest way from its end. Costs depend on the
//! codes, which depend on the parse, so it is repeated a few times, starting from the symbols of a
//! fast parse; each time the costs fit the block better.
//!
//! A match may be shortened, so every length that no nearer match has is tried: four at once,
//! without a branch, the best being the smallest of numbers that hold a cost and its length. Wider
//! vectors are slower: loading a vector of costs just stored one by one stalls on store forwarding.
//! Only matches of at least the nice length are taken whole or not at all.

use alloc::vec::Vec;
use core::ops::Range;

use super::cost::{BIT, Costs, LENGTH_COST_COUNT};
use super::matches::Matches;
use super::tokens::{Coded, Token, distance_parts};
use crate::limits::{CODEWORD_BITS_MAX, DISTANCE_SYMBOL_COUNT, MATCH_BYTES_MIN, TILE_RAW_BYTES};

/// Number of lengths tried at once.
const STEP: usize = 4;
const STEP_BITS: u32 = STEP.ilog2();

// No way through a tile costs more than its bytes as literals of the longest codewords. With one
// more step added, the cost leaves room for the index below it and the sign above.
const _: () = assert!(
    (((TILE_RAW_BYTES + 4) * CODEWORD_BITS_MAX * BIT as usize) << STEP_BITS) < i32::MAX as usize
);

/// Costs of a tile's positions, of its end, and of what a step reads past it.
const COST_COUNT: usize = TILE_RAW_BYTES + 1 + STEP;

/// The cheapest way from a position on: its cost and its first token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    cost: i32,
    token: Token,
}

impl Way {
    const NONE: Self = Self {
        cost: 0,
        token: Token::literal(0),
    };
}

/// Sets `tokens` to the cheapest parse of a range of `raw`, and `ways` to the way from each of its
/// positions to its end. Matches of `nice` bytes and more are not shortened.
#[inline(always)]
pub(crate) fn parse(
    raw: &[u8],
    Range { start, end }: Range<usize>,
    matches: &Matches,
    costs: &Costs,
    nice: usize,
    ways: &mut Vec<Way>,
    tokens: &mut Vec<Coded>,
) {
    ways.resize(COST_COUNT, Way::NONE);
    let ways = &mut ways[..];
    ways[end] = Way::NONE;
    let positions = (start..end).zip(&raw[start..end]).rev();
    for ((at, &literal), matches) in positions.zip(matches.backwards(start, end)) {
        let mut best = Way {
            cost: ways[at + 1].cost + costs.literals[usize::from(literal)],
            token: Token::literal(literal),
        };
        let mut len_next = MATCH_BYTES_MIN;
        for &found in matches {
            let base = costs.distances[distance_parts(found.low()).0 % DISTANCE_SYMBOL_COUNT];
            // The bytes after the block's end belong to another block.
            let len_max = found.match_len().min(end - at);
            let way = if found.match_len() >= nice {
                whole(found, len_max, base, &ways[at..], costs)
            } else {
                cut(found, (len_next, len_max), base, &ways[at..], costs)
            };
            len_next = found.match_len() + 1;
            best = if way.cost < best.cost { way } else { best };
        }
        ways[at] = best;
    }
    tokens.clear();
    let mut at = start;
    while at < end {
        let token = ways[at].token;
        tokens.push(token.into());
        at += token.raw_len();
    }
}

/// Takes a match at its full length; `behind` holds the ways from its first position on.
#[inline(always)]
fn whole(found: Token, len: usize, base: i32, behind: &[Way], costs: &Costs) -> Way {
    Way {
        cost: match len >= MATCH_BYTES_MIN {
            true => behind[len].cost + costs.of_length(len) + base,
            false => i32::MAX,
        },
        token: Token::of_parts(len, found.low() as u16),
    }
}

/// Takes a match at the best of some lengths; `behind` holds the ways from its first position on.
#[inline(always)]
fn cut(
    found: Token,
    (len_min, len_max): (usize, usize),
    base: i32,
    behind: &[Way],
    costs: &Costs,
) -> Way {
    let mut best = i32::MAX;
    let mut best_from = 0;
    let mut from = len_min;
    while from <= len_max {
        let rest = behind
            .get(from..)
            .and_then(|rest| rest.first_chunk::<STEP>());
        let lengths = costs
            .lengths
            .get(from..)
            .and_then(|rest| rest.first_chunk::<STEP>());
        let (Some(rest), Some(lengths)) = (rest, lengths) else {
            break;
        };
        let beyond = &BEYOND[(len_max + 1 - from).min(STEP)];
        let mut keys = [0; STEP];
        for at in 0..STEP {
            // Of equal costs the longest wins.
            keys[at] =
                (((rest[at].cost + lengths[at]) << STEP_BITS) + LONGEST_FIRST[at]) | beyond[at];
        }
        let step_best = keys.into_iter().fold(i32::MAX, i32::min);
        if step_best < best {
            best = step_best;
            best_from = from;
        }
        from += STEP;
    }
    let len = best_from + STEP - 1 - (best as usize & (STEP - 1));
    Way {
        cost: (best >> STEP_BITS) + base,
        token: Token::of_parts(len, found.low() as u16),
    }
}

/// The low bits of a step's keys.
const LONGEST_FIRST: [i32; STEP] = [3, 2, 1, 0];

/// Indexed by the number of lengths in a step: the maximum where there is no length.
const BEYOND: [[i32; STEP]; STEP + 1] = {
    let mut beyond = [[0; STEP]; STEP + 1];
    let mut count = 0;
    while count <= STEP {
        let mut at = count;
        while at < STEP {
            beyond[count][at] = i32::MAX;
            at += 1;
        }
        count += 1;
    }
    beyond
};

const _: () = assert!(LENGTH_COST_COUNT >= super::tokens::SHORT_MATCH_BYTES_MAX + 1 + STEP);
