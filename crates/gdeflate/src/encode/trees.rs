//! Match finding for the thorough levels: binary trees over one tile.
//!
//! For each hash of four bytes there is a search tree of the positions with that hash, ordered by
//! the bytes that follow, newest at the root. Looking up a position makes it the new root and finds
//! its best matches on the way, by ascending length and distance. All matches of a tile are found
//! once and kept, because the parse goes over them several times.

use alloc::boxed::Box;

use super::chains::{HASH3_BITS, HASH4_BITS, NONE, hashes};
use super::matches::Matches;
use super::window::{COMMON_MAX, Window};
use crate::limits::TILE_RAW_BYTES;
use crate::zeroed;

/// The trees.
#[derive(Debug)]
pub(crate) struct Trees {
    window: Window,
    head4: Box<[u16; 1 << HASH4_BITS]>,
    head3: Box<[u16; 1 << HASH3_BITS]>,
    /// The smaller and the larger child of each inserted position (unspecified for others).
    children: Box<[[u16; 2]; TILE_RAW_BYTES]>,
}

impl Trees {
    pub(crate) fn new() -> Self {
        Self {
            window: Window::new(),
            head4: zeroed(),
            head3: zeroed(),
            children: zeroed(),
        }
    }

    /// Finds the matches of a whole tile.
    pub(crate) fn find_all(&mut self, raw: &[u8], depth: u32, nice: usize, matches: &mut Matches) {
        self.window.set(raw);
        self.head4.fill(NONE);
        self.head3.fill(NONE);
        matches.clear();
        let mut skip_end = 0;
        let mut skip_distance = 0;
        for position in 0..raw.len() {
            matches.begin_position();
            if raw.len() - position < 4 {
                continue;
            }
            if position < skip_end {
                self.look_up(position as u16, depth, nice, |_, _| ());
                matches.push(skip_end - position, skip_distance);
                continue;
            }
            let mut longest = (0, 0);
            self.look_up(position as u16, depth, nice, |len, distance| {
                longest = (len, usize::from(distance));
                matches.push(len, usize::from(distance));
            });
            if longest.0 >= nice {
                // Lookups stop at the nice length; this match is taken, so its full length matters.
                let from = position - longest.1;
                let len = self.window.common_to_end(from as u16, position as u16);
                matches.lengthen_last(len);
                skip_end = position + len;
                skip_distance = longest.1;
            }
        }
        matches.begin_position();
    }

    /// Makes `position` the root of its tree; calls `tell` with each match's length and distance.
    #[inline]
    fn look_up(
        &mut self,
        position: u16,
        depth: u32,
        nice: usize,
        mut tell: impl FnMut(usize, u16),
    ) {
        let window = &self.window;
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
        for _ in 0..depth {
            if node == NONE {
                break;
            }
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
                return;
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
    }
}
