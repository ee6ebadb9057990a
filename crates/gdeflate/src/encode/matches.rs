//! The matches of a tile, found once and kept, because the parse goes over them several times.

use alloc::vec::Vec;

use super::tokens::Token;

/// The length and distance of a match; distance 0 means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Match {
    pub(crate) len: usize,
    pub(crate) distance: usize,
}

impl Match {
    /// No match, to be replaced by one longer than this.
    pub(crate) const fn longer_than(len: usize) -> Self {
        Self { len, distance: 0 }
    }
}

/// All matches worth considering.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// Matches of each position in turn, by ascending length and distance.
    all: Vec<Token>,
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
        self.all.clear();
        self.starts.clear();
    }

    /// Begins the next position; called once more after the last one.
    #[inline]
    pub(crate) fn begin_position(&mut self) {
        self.starts.push(self.all.len() as u32);
    }

    /// Adds a match, longer than those before at this position.
    #[inline]
    pub(crate) fn push(&mut self, found: Match) {
        self.all.push(Token::of_match(found.len, found.distance));
    }
}
