//! The matches of a tile, found once and kept, because the parse goes over them several times.

use alloc::vec::Vec;

use super::tokens::Token;
use crate::limits::{MATCH_BYTES_MIN, TILE_RAW_BYTES};

/// The length and distance of a match; length 0 means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Match {
    pub(crate) len: usize,
    pub(crate) distance: usize,
}

/// A bound of the candidates that are compared in a tile, beyond that at each position: on data that
/// makes long chains everywhere the later positions are searched less thoroughly.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    each: u32,
    compared: u32,
}

impl Allowance {
    /// Candidates before the average counts, and those at a position in any case.
    const FIRST: u32 = 1 << 16;
    const LEAST: u32 = 4;

    /// Allows about `each` candidates a position on average.
    pub(crate) const fn new(each: u32) -> Self {
        Self { each, compared: 0 }
    }

    /// Returns how many candidates, up to `depth`, may be compared at a position.
    #[inline(always)]
    pub(crate) fn at(&self, position: u16, depth: u32) -> u32 {
        let most = Self::FIRST + self.each * u32::from(position);
        depth.min(most.saturating_sub(self.compared).max(Self::LEAST))
    }

    /// Counts candidates that were compared.
    #[inline(always)]
    pub(crate) fn count(&mut self, candidates: u32) {
        self.compared += candidates;
    }
}

/// Matches that can be written at once, see [`Matches::room`].
pub(crate) const MATCHES_AT_ONCE: usize = 16;

/// All matches worth considering.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// Matches of each position in turn, by ascending length and distance; from `len` on, room.
    all: Vec<Token>,
    len: usize,
    /// Start of each position's matches in `all`, and the end of the last.
    starts: Vec<u32>,
}

impl Matches {
    /// Returns the matches of one position.
    #[inline]
    pub(crate) fn at(&self, position: usize) -> &[Token] {
        &self.all[self.starts[position] as usize..self.starts[position + 1] as usize]
    }

    /// Returns the matches of the positions from `start` to `end`, last position first.
    #[inline(always)]
    pub(crate) fn backwards(&self, start: usize, end: usize) -> impl Iterator<Item = &[Token]> {
        let mut behind = self.starts[end] as usize;
        self.starts[start..end].iter().rev().map(move |&first| {
            let first = first as usize;
            let here = &self.all[first..behind];
            behind = first;
            here
        })
    }

    /// Begins a tile.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.starts.clear();
    }

    /// Begins the next position; called once more after the last one.
    #[inline]
    pub(crate) fn begin_position(&mut self) {
        self.starts.push(self.len as u32);
    }

    /// Returns room to write the next matches, each longer than the one before, without checks;
    /// [`Matches::commit`] adds them.
    #[inline(always)]
    pub(crate) fn room(&mut self) -> &mut [Token; MATCHES_AT_ONCE] {
        if self.all.len() < self.len + MATCHES_AT_ONCE {
            self.grow();
        }
        let room = self.all[self.len..].first_chunk_mut();
        room.expect("there is room now")
    }

    #[cold]
    fn grow(&mut self) {
        let len = 2 * self.len + TILE_RAW_BYTES;
        self.all.resize(len, Token::literal(0));
    }

    /// Adds the first `count` matches written to the room.
    #[inline(always)]
    pub(crate) fn commit(&mut self, count: usize) {
        self.len += count;
    }

    /// Adds a match, longer than those before at this position; ignores one below the minimum.
    #[inline]
    pub(crate) fn push(&mut self, len: usize, distance: usize) {
        if len >= MATCH_BYTES_MIN {
            self.room()[0] = Token::of_match(len, distance);
            self.len += 1;
        }
    }

    /// Sets the length of the last match.
    pub(crate) fn lengthen_last(&mut self, len: usize) {
        let last = &mut self.all[self.len - 1];
        *last = Token::of_match(len, last.low());
    }

    /// Returns the last match added.
    pub(crate) fn last(&self) -> Token {
        self.all[self.len - 1]
    }
}
