//! Match finding for the quick and the lazy levels: links between equal bytes of one tile.
//!
//! A tile is indexed before it is parsed: each position is linked to the newest one before it whose
//! next four bytes have the same hash, and to that of the next three. These loops have no branches,
//! so that their cache misses overlap; a parser then reads links in order, and need not insert the
//! positions inside of matches. The links of four bytes are the hash chains of libdeflate's
//! `hc_matchfinder.h`.
//!
//! A match longer than `n` bytes contains the four bytes at offset `n - 3`, which have links, too.
//! A search goes on along these if they lead farther back than those of the first four bytes, as
//! zlib-ng's `longest_match_slow` does, and so skips candidates that cannot be longer.

use alloc::boxed::Box;
use core::ops::Range;

use super::matches::{Allowance, Match};
use super::window::{COMMON_MAX, Window};
use crate::limits::TILE_RAW_BYTES;
use crate::zeroed;

const HASH3_BITS: u32 = 14;
const HASH4_BITS: u32 = 16;

/// Every position that is a multiple of this is looked at to see what data it is.
const SAMPLE_STEP: usize = 32;

/// Three bytes farther back than this cost more as a match than as literals.
const THREE_DISTANCE_MAX: usize = 4096;

/// Candidates of a position, on average.
const CANDIDATES_EACH: u32 = 10;

/// How much to search for a match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    /// Most candidates of a position; of the next one half as many, and so on.
    pub(crate) depth: u32,
    /// A match at least this long is taken without looking for a better one.
    pub(crate) nice: usize,
    /// How many positions ahead a better match is looked for.
    pub(crate) ahead: usize,
    /// If at so many positions of 256 there is a match of four bytes, none of three is looked for.
    pub(crate) threes_below: usize,
}

/// The links of a tile. 0 is no link, or one to the first position: either way it is compared.
#[derive(Debug)]
pub(crate) struct Links {
    newest: Box<[u16; 1 << HASH4_BITS]>,
    previous4: Box<[u16; TILE_RAW_BYTES]>,
    previous3: Box<[u16; TILE_RAW_BYTES]>,
    allowance: Allowance,
}

impl Links {
    pub(crate) fn new() -> Self {
        Self {
            newest: zeroed(),
            previous4: zeroed(),
            previous3: zeroed(),
            allowance: Allowance::default(),
        }
    }

    /// Links equal sequences of four bytes. Returns, in 1/256, at how many positions there is one.
    #[inline(always)]
    pub(crate) fn link_fours(&mut self, window: &Window) -> usize {
        link::<HASH4_BITS, 0>(window, &mut self.newest, &mut self.previous4);
        self.allowance = Allowance::new(CANDIDATES_EACH);
        let sample = linked(window).step_by(SAMPLE_STEP);
        let count = sample.len().max(1);
        let equal = sample.filter(|&at| {
            let previous = self.previous4[usize::from(at)];
            window.word(previous) == window.word(at)
        });
        256 * equal.count() / count
    }

    /// Links equal sequences of three bytes.
    #[inline(always)]
    pub(crate) fn link_threes(&mut self, window: &Window) {
        link::<HASH3_BITS, 8>(window, &mut self.newest, &mut self.previous3);
    }

    /// Returns the longest match at a position, of up to [`COMMON_MAX`] bytes, if it is longer than
    /// `longer_than`; otherwise one of distance 0. If that is below 3, threes must be linked.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        window: &Window,
        position: u16,
        longer_than: usize,
        depth: u32,
        nice: usize,
    ) -> Match {
        let next = window.word(position);
        let mut best = Match {
            len: longer_than,
            distance: 0,
        };
        if longer_than < 3 {
            let previous = self.previous3[usize::from(position)];
            if (window.word(previous) ^ next) << 8 != 0 {
                return best;
            }
            let distance = usize::from(position - previous);
            if distance <= THREE_DISTANCE_MAX {
                best = Match { len: 3, distance };
            }
        }
        let len_max = window.left(position).min(COMMON_MAX);
        let nice = nice.min(len_max);
        if best.len >= nice {
            return best;
        }
        let link_at = |offset: u16| self.previous4[usize::from(position.wrapping_add(offset))];
        // Where the four bytes begin whose links are followed, and those that a longer match has.
        let mut offset = best.len.saturating_sub(3) as u16;
        let mut tail = offset;
        let mut tail_word = window.word_behind(position, tail.into());
        let mut link = link_at(offset);
        let first = link_at(0);
        if i32::from(first) < i32::from(link) - i32::from(offset) {
            (link, offset) = (first, 0);
        }
        let depth = self.allowance.at(position, depth);
        let mut steps = 0;
        while steps < depth {
            steps += 1;
            let Some(candidate) = link.checked_sub(offset) else {
                break;
            };
            let is_first = link == 0;
            link = self.previous4[usize::from(link)];
            if window.word_behind(candidate, tail.into()) == tail_word
                && window.word(candidate) == next
            {
                let len = window.common(candidate, position, 4, len_max);
                steps += len as u32 / 16;
                if len > best.len {
                    let distance = usize::from(position - candidate);
                    best = Match { len, distance };
                    if len >= nice {
                        break;
                    }
                    tail = len as u16 - 3;
                    tail_word = window.word_behind(position, tail.into());
                    let other = link_at(tail);
                    if i32::from(other) - i32::from(tail) < i32::from(link) - i32::from(offset) {
                        (link, offset) = (other, tail);
                    }
                }
            }
            if is_first {
                break;
            }
        }
        self.allowance.count(steps);
        best
    }
}

/// Sets `previous` of each position to the newest one before it with the same hash of the next four
/// bytes without the last `IGNORED_BITS`.
#[inline(always)]
fn link<const HASH_BITS: u32, const IGNORED_BITS: u32>(
    window: &Window,
    newest: &mut [u16; 1 << HASH4_BITS],
    previous: &mut [u16; TILE_RAW_BYTES],
) {
    newest.fill(0);
    for position in linked(window) {
        let word = window.word(position) << IGNORED_BITS;
        let hash = word.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS);
        previous[usize::from(position)] = newest[hash as usize];
        newest[hash as usize] = position;
    }
}

/// Returns the positions that have links: all but the first and the last three.
pub(crate) fn linked(window: &Window) -> Range<u16> {
    1..window.left(0).saturating_sub(3) as u16
}
