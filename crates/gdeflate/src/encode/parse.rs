//! Greedy and lazy parsing: decides which matches to take from left to right.

use alloc::vec::Vec;

use super::matches::{Match, Matches};
use super::tokens::Token;
use super::window::{COMMON_MAX, Window};
use crate::limits::TILE_RAW_BYTES;

/// A finder of matches while a tile is parsed.
pub(crate) trait MatchFinder {
    /// Bytes that must be left at a position that is inserted.
    const NEXT_BYTES: usize;
    /// The first position that is inserted.
    const FIRST: usize;

    /// Begins a tile.
    fn start(&mut self, raw: &[u8]);

    /// Returns the tile.
    fn window(&self) -> &Window;

    /// Inserts a position.
    fn insert(&mut self, position: u16);

    /// Inserts a position and returns its longest match, of up to [`COMMON_MAX`] bytes. It may
    /// ignore matches not longer than `longer_than`, and stop after `depth` candidates or at a
    /// match of `nice` bytes.
    fn insert_and_find(
        &mut self,
        position: u16,
        longer_than: usize,
        depth: u32,
        nice: usize,
    ) -> Match;
}

/// The amount of searching done at a fast level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Maximum candidates per position, for finders that use it; half as many one position ahead.
    depth: u32,
    /// Positions inserted from the beginning of a match; the rest of it is skipped.
    insert_max: usize,
    /// After this many literals in a row (a power of two) only every second position is searched,
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

/// Appends to `tokens` the parse of a whole tile. For a match shorter than `nice` it checks whether
/// a better one begins at the next position.
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

/// Appends to `tokens` the parse of a whole tile, with a lookahead of one position, from matches
/// already found.
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

/// Whether `next`, one position later, is worth a literal. A byte of length weighs as much as four
/// bits of distance, which approximates their cost in the codes.
fn better(next: Match, taken: Match) -> bool {
    let gain = 4 * (next.len as i32 - taken.len as i32)
        + (taken.distance.ilog2() as i32 - next.distance.ilog2() as i32);
    gain > 4
}

/// Whether a match pays: one of three bytes far away costs more than three literals.
fn worthwhile(found: Match) -> bool {
    found.len > 3 || (found.len == 3 && found.distance <= 4096)
}

/// Returns the shortest match length likely to be cheaper than literals: few different bytes in the
/// tile mean cheap literals.
fn shortest_worthwhile(raw: &[u8]) -> usize {
    let mut seen = [false; 256];
    // A sample of the tile is enough.
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
