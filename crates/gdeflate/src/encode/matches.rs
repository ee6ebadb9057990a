//! The matches of a tile, found once and kept, because the parse goes over them several times.

use alloc::vec::Vec;

use crate::limits::MATCH_BYTES_MIN;

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Search {
    /// Candidates per position.
    pub(crate) depth: u32,
    /// A match this long is taken as it is: inside it the rest of it is the only match.
    pub(crate) nice: usize,
}

/// All matches worth considering.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// Length and distance: for each position in turn, ever longer, ever further back.
    all: Vec<(u16, u16)>,
    /// Where each position's begin in `all`, and the end.
    starts: Vec<u32>,
}

impl Matches {
    /// The matches of one position.
    #[inline]
    pub(crate) fn at(&self, position: usize) -> &[(u16, u16)] {
        &self.all[self.starts[position] as usize..self.starts[position + 1] as usize]
    }

    /// Begins a tile.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.starts.clear();
    }

    /// Goes on to the next position, the first one at first.
    pub(crate) fn begin_position(&mut self) {
        self.starts.push(self.all.len() as u32);
    }

    /// Adds a match, longer than those before; ignores it if it is too short to be one.
    #[inline]
    pub(crate) fn push(&mut self, len: usize, distance: usize) {
        if len >= MATCH_BYTES_MIN {
            self.all.push((len as u16, distance as u16));
        }
    }

    /// Makes the last match longer.
    pub(crate) fn lengthen_last(&mut self, len: usize) {
        if let Some(last) = self.all.last_mut() {
            last.0 = len as u16;
        }
    }

    /// Ends a tile.
    pub(crate) fn end(&mut self) {
        self.begin_position();
    }
}
