//! Match finding for the lazy levels: hash chains over one tile.
//!
//! The window is the tile, so positions are 16-bit numbers that never slide and never become
//! stale. Position 65,535 cannot begin a match, so its number means "none".

use alloc::boxed::Box;

use super::matches::Match;
use super::parse::MatchFinder;
use super::window::{COMMON_MAX, Window};
use crate::limits::TILE_RAW_BYTES;
use crate::zeroed;

pub(super) const HASH4_BITS: u32 = 15;
pub(super) const HASH3_BITS: u32 = 13;
pub(super) const NONE: u16 = u16::MAX;

/// The newest position of each hash, and for each inserted position the previous one with the same
/// hash (unspecified for others).
#[derive(Debug)]
pub(crate) struct Chains {
    window: Window,
    head4: Box<[u16; 1 << HASH4_BITS]>,
    head3: Box<[u16; 1 << HASH3_BITS]>,
    previous: Box<[u16; TILE_RAW_BYTES]>,
}

impl Chains {
    pub(crate) fn new() -> Self {
        Self {
            window: Window::new(),
            head4: zeroed(),
            head3: zeroed(),
            previous: zeroed(),
        }
    }
}

impl MatchFinder for Chains {
    const NEXT_BYTES: usize = 4;
    const FIRST: usize = 0;

    fn start(&mut self, raw: &[u8]) {
        self.window.set(raw);
        self.head4.fill(NONE);
        self.head3.fill(NONE);
    }

    fn window(&self) -> &Window {
        &self.window
    }

    #[inline]
    fn insert(&mut self, position: u16) {
        let (hash4, hash3) = hashes(self.window.word(position));
        self.head3[hash3] = position;
        self.previous[usize::from(position)] = self.head4[hash4];
        self.head4[hash4] = position;
    }

    #[inline]
    fn insert_and_find(
        &mut self,
        position: u16,
        longer_than: usize,
        depth: u32,
        nice: usize,
    ) -> Match {
        let window = &self.window;
        let next = window.word(position);
        let (hash4, hash3) = hashes(next);
        let mut candidate = self.head4[hash4];
        self.previous[usize::from(position)] = candidate;
        self.head4[hash4] = position;
        let newest3 = core::mem::replace(&mut self.head3[hash3], position);
        let mut best = Match {
            len: longer_than,
            distance: 0,
        };
        let far = |at: u16| usize::from(position) - usize::from(at);
        if longer_than < 3 && newest3 != NONE && (window.word(newest3) ^ next) << 8 == 0 {
            best = Match {
                len: 3,
                distance: far(newest3),
            };
        }
        // Matches are measured up to here; the parser extends longer ones.
        let len_max = window.left(position).min(COMMON_MAX);
        if best.len >= len_max {
            return if best.distance == 0 {
                Match::default()
            } else {
                best
            };
        }
        let mut tail = best.len.max(3) - 3;
        let mut tail_word = window.word_behind(position, tail);
        for _ in 0..depth {
            if candidate == NONE {
                break;
            }
            // The bytes that would make it longer than the best are the most likely to differ.
            if window.word_behind(candidate, tail) == tail_word && window.word(candidate) == next {
                let len = window.common(candidate, position, 4, len_max);
                if len > best.len {
                    best = Match {
                        len,
                        distance: far(candidate),
                    };
                    if len >= nice.min(len_max) {
                        break;
                    }
                    tail = len - 3;
                    tail_word = window.word_behind(position, tail);
                }
            }
            candidate = self.previous[usize::from(candidate)];
        }
        if best.distance == 0 {
            return Match::default();
        }
        best
    }
}

/// Returns the hashes of the next four and the next three bytes.
#[inline]
pub(super) fn hashes(word: u32) -> (usize, usize) {
    let hash4 = word.wrapping_mul(0x9E37_79B1) >> (32 - HASH4_BITS);
    let hash3 = (word << 8).wrapping_mul(0x9E37_79B1) >> (32 - HASH3_BITS);
    (hash4 as usize, hash3 as usize)
}
