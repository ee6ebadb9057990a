//! Match finding for the quick levels: hash chains over one tile.
//!
//! A tile is its own window, so positions are plain 16-bit numbers that never slide and never go
//! stale. Position 65,535 cannot begin a match, which leaves its number free to mean "none".

use alloc::boxed::Box;

use super::matches::{Matches, Search};
use super::window::{COMMON_MAX, PerPosition, Window, filled};

const HASH4_BITS: u32 = 15;
const HASH3_BITS: u32 = 13;
const NONE: u16 = u16::MAX;

/// A match: how long, how far back. Length 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Match {
    pub(crate) len: usize,
    pub(crate) distance: usize,
}

/// The newest position of each hash, and for each position the one before it with its hash.
#[derive(Debug)]
pub(crate) struct Chains {
    window: Window,
    head4: Box<[u16; 1 << HASH4_BITS]>,
    head3: Box<[u16; 1 << HASH3_BITS]>,
    previous: PerPosition<u16>,
}

impl Chains {
    pub(crate) fn new() -> Self {
        Self {
            window: Window::new(),
            head4: filled(NONE),
            head3: filled(NONE),
            previous: filled(NONE),
        }
    }

    /// Begins a tile.
    pub(crate) fn start(&mut self, raw: &[u8]) {
        self.window.set(raw);
        self.head4.fill(NONE);
        self.head3.fill(NONE);
    }

    /// Makes a position known. At least four bytes must follow from it on.
    #[inline]
    pub(crate) fn insert(&mut self, position: u16) {
        let (hash4, hash3) = hashes(self.window.word(position));
        self.head3[hash3] = position;
        self.previous[usize::from(position)] = self.head4[hash4];
        self.head4[hash4] = position;
    }

    /// Makes a position known and returns its longest match that is longer than `len_min`, looking
    /// at no more than `depth` candidates and no further once one has `nice` bytes.
    #[inline]
    pub(crate) fn insert_and_find(
        &mut self,
        position: u16,
        len_min: usize,
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
            len: len_min,
            distance: 0,
        };
        let far = |at: u16| usize::from(position) - usize::from(at);
        if len_min < 3 && newest3 != NONE && (window.word(newest3) ^ next) << 8 == 0 {
            best = Match {
                len: 3,
                distance: far(newest3),
            };
        }
        // Matches are measured up to here; longer ones are made out afterwards.
        let len_max = window.left(position).min(COMMON_MAX);
        if best.len >= len_max {
            return if best.distance == 0 {
                Match::default()
            } else {
                best
            };
        }
        for _ in 0..depth {
            if candidate == NONE {
                break;
            }
            // The byte that would make it longer than the best is the likeliest to differ.
            if window.word(candidate) == next
                && window.byte(candidate, best.len) == window.byte(position, best.len)
            {
                let len = window.common(candidate, position, 4, len_max);
                if len > best.len {
                    best = Match {
                        len,
                        distance: far(candidate),
                    };
                    if len >= nice.min(len_max) {
                        break;
                    }
                }
            }
            candidate = self.previous[usize::from(candidate)];
        }
        if best.distance == 0 {
            return Match::default();
        }
        if best.len == COMMON_MAX {
            let from = usize::from(position) - best.distance;
            best.len = window.common_to_end(from as u16, position);
        }
        best
    }
}

impl Chains {
    /// Finds the matches of a whole tile that are worth considering: for each position the newest
    /// of each length, as the trees do, of fewer candidates and in less time.
    pub(crate) fn find_all(&mut self, raw: &[u8], search: Search, matches: &mut Matches) {
        self.start(raw);
        matches.clear();
        let mut skip_end = 0;
        let mut skip_distance = 0;
        for position in 0..raw.len() {
            matches.begin_position();
            if raw.len() - position < 4 {
                continue;
            }
            if position < skip_end {
                self.insert(position as u16);
                matches.push(skip_end - position, skip_distance);
                continue;
            }
            let longest = self.insert_and_tell(position as u16, search, |len, distance| {
                matches.push(len, distance);
            });
            if longest.len >= search.nice {
                let from = position - longest.distance;
                let len = self.window.common_to_end(from as u16, position as u16);
                matches.lengthen_last(len);
                skip_end = position + len;
                skip_distance = longest.distance;
            }
        }
        matches.end();
    }

    /// Makes a position known and tells ever longer matches; returns the longest.
    #[inline]
    fn insert_and_tell(
        &mut self,
        position: u16,
        search: Search,
        mut tell: impl FnMut(usize, usize),
    ) -> Match {
        let window = &self.window;
        let next = window.word(position);
        let (hash4, hash3) = hashes(next);
        let mut candidate = self.head4[hash4];
        self.previous[usize::from(position)] = candidate;
        self.head4[hash4] = position;
        let newest3 = core::mem::replace(&mut self.head3[hash3], position);
        let mut best = Match {
            len: 2,
            distance: 0,
        };
        if newest3 != NONE && (window.word(newest3) ^ next) << 8 == 0 {
            best = Match {
                len: 3,
                distance: usize::from(position - newest3),
            };
            tell(best.len, best.distance);
        }
        let len_max = search.nice.min(window.left(position)).min(COMMON_MAX);
        for _ in 0..search.depth {
            if candidate == NONE || best.len >= len_max {
                break;
            }
            if window.byte(candidate, best.len) == window.byte(position, best.len)
                && window.word(candidate) == next
            {
                let len = window.common(candidate, position, 4, len_max);
                if len > best.len {
                    best = Match {
                        len,
                        distance: usize::from(position - candidate),
                    };
                    tell(best.len, best.distance);
                }
            }
            candidate = self.previous[usize::from(candidate)];
        }
        best
    }
}

#[inline]
fn hashes(word: u32) -> (usize, usize) {
    let hash4 = word.wrapping_mul(0x9E37_79B1) >> (32 - HASH4_BITS);
    let hash3 = (word << 8).wrapping_mul(0x9E37_79B1) >> (32 - HASH3_BITS);
    (hash4 as usize, hash3 as usize)
}
