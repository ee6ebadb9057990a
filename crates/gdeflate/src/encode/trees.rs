//! Match finding for the thorough levels: binary trees over one tile.
//!
//! For each hash of four bytes there is a search tree of the positions with that hash, ordered by
//! the bytes that follow, newest at the root. Looking up a position makes it the new root and finds
//! its best matches on the way, by ascending length and distance. All matches of a tile are found
//! once and kept, because the parse goes over them several times.

use alloc::boxed::Box;

use super::matches::{Allowance, Matches};
use super::window::{COMMON_MAX, Window};
use crate::limits::TILE_RAW_BYTES;
use crate::zeroed;

const HASH4_BITS: u32 = 16;
const HASH3_BITS: u32 = 15;

/// Candidates of a position, on average.
const CANDIDATES_EACH: u32 = 16;

/// Position 65,535 cannot begin a match.
const NONE: u16 = u16::MAX;

/// The trees.
#[derive(Debug)]
pub(crate) struct Trees {
    head4: Box<[u16; 1 << HASH4_BITS]>,
    head3: Box<[u16; 1 << HASH3_BITS]>,
    /// The smaller and the larger child of each inserted position (unspecified for others).
    children: Box<[[u16; 2]; TILE_RAW_BYTES]>,
}

impl Trees {
    pub(crate) fn new() -> Self {
        Self {
            head4: zeroed(),
            head3: zeroed(),
            children: zeroed(),
        }
    }

    /// Finds the matches of a whole tile.
    pub(crate) fn find_all(
        &mut self,
        window: &Window,
        depth: u32,
        nice: usize,
        matches: &mut Matches,
    ) {
        let len = window.left(0);
        self.head4.fill(NONE);
        self.head3.fill(NONE);
        matches.clear();
        let mut allowance = Allowance::new(CANDIDATES_EACH);
        let mut skip_end = 0;
        let mut skip_distance = 0;
        for position in 0..len {
            matches.begin_position();
            if len - position < 4 {
                continue;
            }
            let at = position as u16;
            let depth = allowance.at(at, depth);
            if position < skip_end {
                allowance.count(self.look_up(window, at, depth, nice, |_, _| ()));
                matches.push(skip_end - position, skip_distance);
                continue;
            }
            let mut longest = (0, 0);
            let compared = self.look_up(window, at, depth, nice, |len, distance| {
                longest = (len, usize::from(distance));
                matches.push(len, usize::from(distance));
            });
            allowance.count(compared);
            if longest.0 >= nice {
                // Lookups stop at the nice length; this match is taken, so its full length matters.
                let from = position - longest.1;
                let taken = window.common_to_end(from as u16, at);
                matches.lengthen_last(taken);
                skip_end = position + taken;
                skip_distance = longest.1;
            }
        }
        matches.begin_position();
    }

    /// Makes `position` the root of its tree; calls `tell` with each match's length and distance.
    /// Returns the number of candidates compared.
    #[inline]
    fn look_up(
        &mut self,
        window: &Window,
        position: u16,
        depth: u32,
        nice: usize,
        mut tell: impl FnMut(usize, u16),
    ) -> u32 {
        let children = &mut *self.children;
        let len_max = nice.min(window.left(position)).min(COMMON_MAX);
        let next = window.word(position);
        let (hash4, hash3) = hashes(next);
        let newest3 = core::mem::replace(&mut self.head3[hash3], position);
        let mut best = 2;
        if newest3 != NONE && (window.word(newest3) ^ next) << 8 == 0 {
            best = 3;
            tell(3, position - newest3);
        }
        let mut node = core::mem::replace(&mut self.head4[hash4], position);
        // Where the next smaller and the next larger position are attached.
        let mut hooks = [(position, 0), (position, 1)];
        // Length of the prefix that all nodes on either side share with this position.
        let mut known = [0, 0];
        let mut compared = 0;
        while compared < depth && node != NONE {
            compared += 1;
            let len = window.common(node, position, known[0].min(known[1]), len_max);
            if len > best {
                best = len;
                tell(len, position - node);
            }
            if len == len_max {
                // Equal as far as compared: the position replaces this node and takes its children.
                let [smaller, larger] = children[usize::from(node)];
                children[usize::from(hooks[0].0)][hooks[0].1] = smaller;
                children[usize::from(hooks[1].0)][hooks[1].1] = larger;
                return compared;
            }
            let side = usize::from(window.byte(node, len) > window.byte(position, len));
            let (hook, child) = hooks[side];
            children[usize::from(hook)][child % 2] = node;
            hooks[side] = (node, 1 - side);
            known[side] = len;
            node = children[usize::from(node)][1 - side];
        }
        children[usize::from(hooks[0].0)][hooks[0].1 % 2] = NONE;
        children[usize::from(hooks[1].0)][hooks[1].1 % 2] = NONE;
        compared
    }
}

/// Returns the hashes of the next four and the next three bytes.
#[inline]
fn hashes(word: u32) -> (usize, usize) {
    let hash4 = word.wrapping_mul(0x9E37_79B1) >> (32 - HASH4_BITS);
    let hash3 = (word << 8).wrapping_mul(0x9E37_79B1) >> (32 - HASH3_BITS);
    (hash4 as usize, hash3 as usize)
}
