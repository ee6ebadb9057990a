//! Greedy and lazy parsing: decides which matches to take from left to right.
//!
//! Lazy parsing looks up to two positions ahead for a better match, with the rule of libdeflate's
//! `deflate_compress.c` for what is better.

use super::links::{Links, Search};
use super::matches::{Match, Matches};
use super::tokens::Coded;
use super::window::Window;
use crate::limits::TILE_RAW_BYTES;

/// Room for the tokens of any tile.
pub(crate) type TileTokens = [Coded; TILE_RAW_BYTES];

struct Writer<'a> {
    tokens: &'a mut TileTokens,
    count: usize,
}

impl Writer<'_> {
    #[inline(always)]
    fn push(&mut self, token: Coded) {
        self.tokens[self.count] = token;
        self.count += 1;
    }

    #[inline(always)]
    fn literals(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.push(Coded::literal(byte)));
    }
}

/// Writes the parse of a whole tile by its links, with a lookahead of `ahead` positions, and
/// returns the number of tokens. Matches have at least `len_min` bytes; if these are three, threes
/// must be linked, too.
#[inline(always)]
pub(crate) fn by_links(
    raw: &[u8],
    window: &Window,
    links: &mut Links,
    len_min: usize,
    (search, ahead): (Search, usize),
    tokens: &mut TileTokens,
) -> usize {
    let mut tokens = Writer { tokens, count: 0 };
    let end = usize::from(links.linked(window).end);
    let mut position = end.min(1);
    tokens.literals(&raw[..position]);
    while position < end {
        let least = Match::longer_than(len_min - 1);
        let mut found = links.find(window, position as u16, least, search, |_| ());
        if found.distance == 0 {
            tokens.push(Coded::literal(raw[position]));
            position += 1;
            continue;
        }
        let mut step = 1;
        while step <= ahead && found.len < search.nice && position + step < end {
            let at = (position + step) as u16;
            let least = Match::longer_than(found.len - 1);
            let depth = search.depth >> step;
            let next = links.find(window, at, least, Search { depth, ..search }, |_| ());
            if next.distance == 0 || !better(next, found, step) {
                step += 1;
                continue;
            }
            tokens.literals(&raw[position..position + step]);
            position += step;
            found = next;
            step = 1;
        }
        tokens.push(Coded::of_match(found.len, found.distance));
        position += found.len;
    }
    tokens.literals(&raw[position..]);
    tokens.count
}

/// Writes the parse of a whole tile, with a lookahead of one position, from matches already found;
/// returns the number of tokens.
#[inline(always)]
pub(crate) fn of_found(raw: &[u8], matches: &Matches, tokens: &mut TileTokens) -> usize {
    let mut tokens = Writer { tokens, count: 0 };
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
            next.flatten().is_none_or(|next| !better(next, taken, 1))
        });
        let token = match taken {
            Some(taken) => Coded::of_match(taken.len, taken.distance),
            None => Coded::literal(raw[position]),
        };
        tokens.push(token);
        position += token.raw_len();
    }
    tokens.count
}

/// Whether a match some positions later is worth the literals before it. A byte of length weighs as
/// much as four bits of distance, which approximates their cost in the codes.
fn better(next: Match, taken: Match, positions: usize) -> bool {
    let gain = 4 * (next.len as i32 - taken.len as i32)
        + (taken.distance.ilog2() as i32 - next.distance.ilog2() as i32);
    next.len >= taken.len && gain > 4 * positions as i32 - 2
}

/// Whether a match pays: one of three bytes far away costs more than three literals.
fn worthwhile(found: Match) -> bool {
    found.len > 3 || (found.len == 3 && found.distance <= 4096)
}

/// Returns the shortest match length likely to be cheaper than literals: few different bytes in the
/// tile mean cheap literals.
pub(crate) fn shortest_worthwhile(raw: &[u8]) -> usize {
    let mut seen = [false; 256];
    // A sample of the tile is enough.
    for &byte in raw.iter().step_by(1 + raw.len() / 2048) {
        seen[usize::from(byte)] = true;
    }
    match seen.iter().filter(|&&seen| seen).count() {
        0..=7 => 8,
        8..=11 => 7,
        12..=16 => 6,
        17..=44 => 5,
        45..=79 => 4,
        _ => 3,
    }
}
