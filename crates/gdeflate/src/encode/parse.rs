//! Greedy and lazy parsing: which matches to take, decided as they come.

use alloc::vec::Vec;

use super::buckets::{Buckets, Candidates, NEXT_BYTES};
use super::chains::Chains;
use super::matches::{Match, Matches};
use super::tokens::Token;
use super::window::COMMON_MAX;

/// How hard a quick level looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Candidates per position that a chain is followed for.
    pub(crate) depth: u32,
    /// A match this long is taken without looking further.
    pub(crate) nice: usize,
    /// How many positions ahead a better match may make us drop one: 0 greedy, 1 lazy.
    pub(crate) lookahead: usize,
    /// Positions inside a match that are made known, from its beginning; the rest is skipped.
    pub(crate) insert_max: usize,
    /// After this many literals in a row (a power of two) every other position is not looked at,
    /// after twice as many only every third, and so on. For data that does not compress.
    pub(crate) patience: usize,
}

/// Bytes that hashing a position needs.
const HASHED_BYTES: usize = 4;

/// Fills `tokens` with a greedy or lazy parse of a whole tile, by chains.
#[inline(always)]
pub(crate) fn by_chains(raw: &[u8], chains: &mut Chains, effort: Effort, tokens: &mut Vec<Token>) {
    tokens.clear();
    chains.start(raw);
    let len_min = shortest_worthwhile(raw);
    let hash_end = raw.len().saturating_sub(HASHED_BYTES - 1);
    let mut position = 0;
    let mut literals_in_row = 0;
    while position < hash_end {
        let found = chains.insert_and_find(position as u16, len_min - 1, effort.depth, effort.nice);
        if !worthwhile(found) {
            let end = (position + 1 + literals_in_row / effort.patience).min(raw.len());
            push_literals(tokens, &raw[position..end]);
            literals_in_row += end - position;
            position = end;
            continue;
        }
        literals_in_row = 0;
        let (start, taken, known) = look_ahead(chains, effort, position, found, hash_end);
        push_literals(tokens, &raw[position..start]);
        tokens.push(Token::of_match(taken.len, taken.distance));
        let end = start + taken.len;
        let insert_end = end.min(start + effort.insert_max).min(hash_end);
        for inside in known + 1..insert_end {
            chains.insert(inside as u16);
        }
        position = end;
    }
    push_literals(tokens, &raw[position..]);
}

/// Fills `tokens` with a greedy or lazy parse of a whole tile, by buckets.
#[inline(always)]
pub(crate) fn by_buckets<C: Candidates>(
    raw: &[u8],
    buckets: &mut Buckets,
    effort: Effort,
    tokens: &mut Vec<Token>,
) {
    tokens.clear();
    tokens.reserve(raw.len());
    buckets.start::<C>(raw);
    let len_min = shortest_worthwhile(raw);
    let end = raw.len().saturating_sub(NEXT_BYTES - 1);
    // The first position has none before it, and is what empty buckets say.
    let mut position = 1.min(raw.len());
    push_literals(tokens, &raw[..position]);
    let mut literals_in_row = 0;
    while position < end {
        let mut found = buckets.insert_and_find::<C>(position as u16);
        if found.len < len_min || !worthwhile(found) {
            let stop = (position + 1 + literals_in_row / effort.patience).min(raw.len());
            push_literals(tokens, &raw[position..stop]);
            literals_in_row += stop - position;
            position = stop;
            continue;
        }
        literals_in_row = 0;
        let mut known = position;
        while effort.lookahead > 0 && found.len < effort.nice && position + 1 < end {
            known = position + 1;
            let next = buckets.insert_and_find::<C>(known as u16);
            if next.len < len_min || !better(next, found, 1) {
                break;
            }
            push_literals(tokens, &raw[position..known]);
            position = known;
            found = next;
        }
        if found.len >= COMMON_MAX {
            found.len = buckets.end_of(position as u16, found.distance) - position;
        }
        tokens.push(Token::of_match(found.len, found.distance));
        let stop = (position + found.len)
            .min(position + effort.insert_max)
            .min(end);
        for inside in known + 1..stop {
            buckets.insert::<C>(inside as u16);
        }
        position += found.len;
    }
    push_literals(tokens, &raw[position..]);
}

#[inline(always)]
fn push_literals(tokens: &mut Vec<Token>, literals: &[u8]) {
    tokens.extend(literals.iter().map(|&byte| Token::literal(byte)));
}

/// Fills `tokens` with a lazy parse of a whole tile from matches that are found already.
#[inline(always)]
pub(crate) fn of_found(raw: &[u8], matches: &Matches, tokens: &mut Vec<Token>) {
    tokens.clear();
    let len_min = shortest_worthwhile(raw);
    let longest = |position: usize| {
        let found = matches.at(position).last();
        let found = found.map(|found| Match {
            len: found.match_len(),
            distance: found.low(),
        });
        found.filter(|&found| found.len >= len_min && worthwhile(found))
    };
    let mut position = 0;
    while position < raw.len() {
        let taken = longest(position).filter(|&taken| {
            let next = if position + 1 < raw.len() {
                longest(position + 1)
            } else {
                None
            };
            next.is_none_or(|next| !better(next, taken, 1))
        });
        let token = match taken {
            Some(taken) => Token::of_match(taken.len, taken.distance),
            None => Token::literal(raw[position]),
        };
        tokens.push(token);
        position += token.raw_len();
    }
}

/// Looks at the next positions for something better than `found` at `position`; returns the match
/// to take, where it begins, and the last position that is known already.
fn look_ahead(
    chains: &mut Chains,
    effort: Effort,
    position: usize,
    found: Match,
    hash_end: usize,
) -> (usize, Match, usize) {
    let mut start = position;
    let mut taken = found;
    let mut looked = position;
    while taken.len < effort.nice && looked < start + effort.lookahead && looked + 1 < hash_end {
        looked += 1;
        let depth = effort.depth >> (looked - start);
        let next = chains.insert_and_find(looked as u16, taken.len - 1, depth.max(1), effort.nice);
        if next.len > 0 && better(next, taken, looked - start) {
            start = looked;
            taken = next;
        }
    }
    (start, taken, looked)
}

/// Whether `next`, `literals` bytes later, is worth those literals. A byte of length weighs as
/// much as four bits of distance, roughly what the codes make of them.
fn better(next: Match, taken: Match, literals: usize) -> bool {
    let gain = 4 * (next.len as i32 - taken.len as i32)
        + (taken.distance.ilog2() as i32 - next.distance.ilog2() as i32);
    gain > 4 * literals as i32
}

/// A match of three bytes far away costs more than three literals.
fn worthwhile(found: Match) -> bool {
    found.len > 3 || (found.len == 3 && found.distance <= 4096)
}

/// Shortest match that is likely to be cheaper than its literals: few different bytes in the tile
/// mean cheap literals.
pub(crate) fn shortest_worthwhile(raw: &[u8]) -> usize {
    let mut seen = [false; 256];
    // A sample of the tile is enough to see what kind of data it is.
    for &byte in raw.iter().step_by(1 + raw.len() / 4096) {
        seen[usize::from(byte)] = true;
    }
    match seen.iter().filter(|&&seen| seen).count() {
        0..=5 => 7,
        6..=10 => 6,
        11..=20 => 5,
        21..=60 => 4,
        _ => 3,
    }
}
