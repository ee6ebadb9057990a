//! Greedy and lazy parsing: which matches to take, decided as they come.

use alloc::vec::Vec;

use super::matches::{Match, Matches};
use super::tokens::Token;
use super::window::{COMMON_MAX, Window};
use crate::limits::TILE_RAW_BYTES;

/// Finds matches while a tile is parsed.
pub(crate) trait MatchFinder {
    /// Bytes that must follow from a position on that is made known.
    const NEXT_BYTES: usize;
    /// The first position that is made known.
    const FIRST: usize;

    /// Begins a tile.
    fn start(&mut self, raw: &[u8]);

    /// The tile.
    fn window(&self) -> &Window;

    /// Makes a position known.
    fn insert(&mut self, position: u16);

    /// Makes a position known and returns its longest match, of up to [`COMMON_MAX`] bytes. It may
    /// ignore those that are not longer than `longer_than`, look at no more than `depth`
    /// candidates, and no further once one has `nice` bytes.
    fn insert_and_find(
        &mut self,
        position: u16,
        longer_than: usize,
        depth: u32,
        nice: usize,
    ) -> Match;
}

/// How much of a tile a quick level looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Candidates per position, where the finder has a choice; half as many one position ahead.
    depth: u32,
    /// Positions inside a match that are made known, from its beginning; the rest is skipped.
    insert_max: usize,
    /// After this many literals in a row (a power of two) every other position is not looked at,
    /// after twice as many only every third, and so on. For data that does not compress.
    patience: usize,
}

impl Effort {
    pub(crate) const LEAST: Self = Self {
        depth: 0,
        insert_max: 16,
        patience: 64,
    };

    pub(crate) const fn of_depth(depth: u32) -> Self {
        Self {
            depth,
            insert_max: TILE_RAW_BYTES,
            patience: 256,
        }
    }
}

/// Appends to `tokens` the parse of a whole tile that looks one position ahead of matches shorter
/// than `nice`, whether a better one begins there.
#[inline(always)]
pub(crate) fn as_found<F: MatchFinder>(
    raw: &[u8],
    finder: &mut F,
    effort: Effort,
    nice: usize,
    tokens: &mut Vec<Token>,
) {
    tokens.reserve(raw.len());
    finder.start(raw);
    let len_min = shortest_worthwhile(raw);
    let end = raw.len().saturating_sub(F::NEXT_BYTES - 1);
    let mut position = F::FIRST.min(raw.len());
    push_literals(tokens, &raw[..position]);
    let mut literals_in_row = 0;
    while position < end {
        let mut found = finder.insert_and_find(position as u16, len_min - 1, effort.depth, nice);
        if found.len < len_min || !worthwhile(found) {
            let stop = (position + 1 + literals_in_row / effort.patience).min(raw.len());
            push_literals(tokens, &raw[position..stop]);
            literals_in_row += stop - position;
            position = stop;
            continue;
        }
        literals_in_row = 0;
        let mut known = position;
        while found.len < nice && position + 1 < end {
            known = position + 1;
            let depth = effort.depth / 2;
            let next = finder.insert_and_find(known as u16, found.len - 1, depth, nice);
            if next.len < len_min || !better(next, found) {
                break;
            }
            push_literals(tokens, &raw[position..known]);
            position = known;
            found = next;
        }
        if found.len >= COMMON_MAX {
            let from = (position - found.distance) as u16;
            found.len = finder.window().common_to_end(from, position as u16);
        }
        tokens.push(Token::of_match(found.len, found.distance));
        let stop = (position + found.len)
            .min(position + effort.insert_max)
            .min(end);
        for inside in known + 1..stop {
            finder.insert(inside as u16);
        }
        position += found.len;
    }
    push_literals(tokens, &raw[position..]);
}

#[inline(always)]
fn push_literals(tokens: &mut Vec<Token>, literals: &[u8]) {
    tokens.extend(literals.iter().map(|&byte| Token::literal(byte)));
}

/// Appends to `tokens` the parse of a whole tile, one position ahead, from matches that are found
/// already.
#[inline(always)]
pub(crate) fn of_found(raw: &[u8], matches: &Matches, tokens: &mut Vec<Token>) {
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
            let next = (position + 1 < raw.len()).then(|| longest(position + 1));
            next.flatten().is_none_or(|next| !better(next, taken))
        });
        let token = match taken {
            Some(taken) => Token::of_match(taken.len, taken.distance),
            None => Token::literal(raw[position]),
        };
        tokens.push(token);
        position += token.raw_len();
    }
}

/// Whether `next`, one position later, is worth the literal. A byte of length weighs as much as
/// four bits of distance, roughly what the codes make of them.
fn better(next: Match, taken: Match) -> bool {
    let gain = 4 * (next.len as i32 - taken.len as i32)
        + (taken.distance.ilog2() as i32 - next.distance.ilog2() as i32);
    gain > 4
}

/// A match of three bytes far away costs more than three literals.
fn worthwhile(found: Match) -> bool {
    found.len > 3 || (found.len == 3 && found.distance <= 4096)
}

/// Shortest match that is likely to be cheaper than its literals: few different bytes in the tile
/// mean cheap literals.
fn shortest_worthwhile(raw: &[u8]) -> usize {
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
