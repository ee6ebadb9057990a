//! Match finding: links between equal bytes of one tile.
//!
//! A tile is indexed before it is parsed: each position is linked to the newest one before it whose
//! next four bytes have the same hash, and to that of the next three. In data of few different
//! bytes, where short matches do not pay, up to eight bytes take the place of the four. These loops
//! have no branches, so that their cache misses overlap; a parser then reads links in order, and
//! need not insert the positions inside of matches. Followed from link to link they are the hash
//! chains of libdeflate's `hc_matchfinder.h`.
//!
//! A match longer than `n` bytes contains the four bytes at offset `n - 3`, which have links, too.
//! A search goes on along these if they lead farther back than the others, as zlib-ng's
//! `longest_match_slow` does, and so skips candidates that cannot be longer.

use alloc::boxed::Box;
use core::ops::Range;

use super::matches::{Match, Matches};
use super::window::{COMMON_MAX, Window};
use crate::limits::{MATCH_BYTES_MIN, TILE_RAW_BYTES};
use crate::zeroed;

const HASH_BITS: u32 = 16;
const FEW_HASH_BITS: u32 = 14;

/// Every how many positions a link is checked to classify a tile.
const SAMPLE_STEP: usize = 64;

/// Three bytes farther back than this cost more as a match than as literals.
const THREE_DISTANCE_MAX: usize = 4096;

/// Candidates that a tile may compare beyond the average of its level, and those that a position
/// may compare in any case.
const CANDIDATES_BEYOND: u32 = 1 << 16;
const CANDIDATES_MIN: u32 = 4;

/// How much to search for matches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    /// Most candidates of a position.
    pub(crate) depth: u32,
    /// Most candidates of a position on average, which bounds the time on data with long chains
    /// everywhere: later positions compare fewer.
    pub(crate) depth_mean: u32,
    /// A match at least this long is taken without looking for a better one.
    pub(crate) nice: usize,
    /// Which matches of three bytes are found.
    pub(crate) threes: Threes,
    /// Matches of three bytes are looked for if fewer than this many of 256 positions have one of
    /// four.
    pub(crate) threes_below: usize,
}

/// Which matches of three bytes are found. Where none is found, longer ones are searched only with
/// `All`, although a collision of hashes may have hidden one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threes {
    /// Up to a distance of [`THREE_DISTANCE_MAX`], without those that collisions of a small table
    /// lose: they save less than they cost to search.
    Few,
    /// Up to that distance.
    Near,
    /// At any distance.
    All,
}

/// The links of a tile. 0 is no link, or one to the first position; it is compared in both cases.
#[derive(Debug)]
pub(crate) struct Links {
    newest: Box<[u16; 1 << HASH_BITS]>,
    previous: Box<[u16; TILE_RAW_BYTES]>,
    previous3: Box<[u16; TILE_RAW_BYTES]>,
    /// How many bytes are linked, four to eight: equal at both ends but for collisions of hashes.
    equal_bytes: usize,
    /// Candidates compared in this tile.
    compared: u32,
}

impl Links {
    pub(crate) fn new() -> Self {
        Self {
            newest: zeroed(),
            previous: zeroed(),
            previous3: zeroed(),
            equal_bytes: 4,
            compared: 0,
        }
    }

    /// Links equal sequences of `len_min` bytes, of four at least and of eight at most. Returns, in
    /// 1/256, at how many positions there is one.
    #[inline(always)]
    pub(crate) fn link(&mut self, window: &Window, len_min: usize) -> usize {
        self.equal_bytes = len_min.clamp(4, 8);
        self.compared = 0;
        let linked = self.linked(window);
        let sample = linked.clone().step_by(SAMPLE_STEP);
        let (newest, previous) = (&mut self.newest, &mut self.previous);
        link::<HASH_BITS>(window, linked, self.equal_bytes, newest, previous);
        let count = sample.len().max(1);
        let equal = sample.filter(|&at| {
            let previous = self.previous[usize::from(at)];
            window.word(previous) == window.word(at)
        });
        256 * equal.count() / count
    }

    /// Links equal sequences of three bytes.
    #[inline(always)]
    pub(crate) fn link_threes(&mut self, window: &Window, threes: Threes) {
        let linked = self.linked(window);
        let (newest, previous) = (&mut self.newest, &mut self.previous3);
        match threes {
            Threes::Few => link::<FEW_HASH_BITS>(window, linked, 3, newest, previous),
            _ => link::<HASH_BITS>(window, linked, 3, newest, previous),
        }
    }

    /// Returns the positions that have links: all but the first and the last ones.
    pub(crate) fn linked(&self, window: &Window) -> Range<u16> {
        1..window.left(0).saturating_sub(self.equal_bytes - 1) as u16
    }

    /// Finds the matches of a whole tile that are worth considering, for each position by ascending
    /// length. Matches have at least `len_min` bytes; if these are three, threes must be linked.
    /// Where the remainder of the match before has at least `carry` bytes, only longer ones are
    /// looked for.
    #[inline(always)]
    pub(crate) fn find_all(
        &mut self,
        window: &Window,
        len_min: usize,
        mut search: Search,
        carry: usize,
        matches: &mut Matches,
    ) {
        // Few different bytes make long chains, and matches long enough to be worth them.
        search.depth <<= (self.equal_bytes - 4).min(2);
        matches.clear();
        let linked = self.linked(window);
        let len = window.left(0);
        let mut longest = Match::default();
        let mut position = 0;
        while position < len {
            matches.begin_position();
            let at = position as u16;
            position += 1;
            if !linked.contains(&at) {
                continue;
            }
            longest.len = longest.len.saturating_sub(1);
            if longest.len >= carry {
                matches.push(longest);
            } else {
                longest = Match::longer_than(len_min - 1);
            }
            longest = self.find(window, at, longest, search, |found| matches.push(found));
            if longest.len < search.nice {
                continue;
            }
            // It will be taken, so inside it only its remainder matters.
            while longest.len > MATCH_BYTES_MIN && position < len {
                longest.len -= 1;
                matches.begin_position();
                matches.push(longest);
                position += 1;
            }
        }
        matches.begin_position();
    }

    /// Returns the longest match at a position that is longer than `best`, or `best`; calls `tell`
    /// with each match on the way, by ascending length and distance. Threes must be linked if
    /// `best` has less than three bytes.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        window: &Window,
        position: u16,
        mut best: Match,
        search: Search,
        mut tell: impl FnMut(Match),
    ) -> Match {
        debug_assert!(search.nice < COMMON_MAX);
        let next = window.word(position);
        if best.len < 3 {
            let previous = self.previous3[usize::from(position)];
            let distance = usize::from(position - previous);
            let equal = (window.word(previous) ^ next) << 8 == 0;
            let all = search.threes == Threes::All;
            if !equal && !all {
                return best;
            }
            if equal && (distance <= THREE_DISTANCE_MAX || all) {
                best = Match { len: 3, distance };
                tell(best);
            }
        }
        self.follow(window, position, best, search, tell)
    }

    /// Like [`Links::find`], without matches of three bytes.
    #[inline(always)]
    fn follow(
        &mut self,
        window: &Window,
        position: u16,
        mut best: Match,
        search: Search,
        mut tell: impl FnMut(Match),
    ) -> Match {
        let next = window.word(position);
        let len_max = window.left(position).min(COMMON_MAX);
        let nice = search.nice.min(len_max);
        if best.len >= nice {
            return best;
        }
        let link_at = |offset: u16| self.previous[usize::from(position.wrapping_add(offset))];
        // Where the bytes whose links are followed begin, and the last four that a longer match
        // has.
        let mut offset = (best.len + 1).saturating_sub(self.equal_bytes) as u16;
        let mut tail = best.len.saturating_sub(3);
        let mut tail_word = window.word_behind(position, tail);
        let mut link = link_at(offset);
        if offset > 0 {
            let first = link_at(0);
            if i32::from(first) < i32::from(link) - i32::from(offset) {
                (link, offset) = (first, 0);
            }
        }
        let most = CANDIDATES_BEYOND + search.depth_mean * u32::from(position);
        let most = most.saturating_sub(self.compared).max(CANDIDATES_MIN);
        let depth = search.depth.min(most);
        let mut steps = 0;
        while steps < depth {
            steps += 1;
            let Some(candidate) = link.checked_sub(offset) else {
                break;
            };
            let is_first = link == 0;
            link = self.previous[usize::from(link)];
            if window.word_behind(candidate, tail) == tail_word && window.word(candidate) == next {
                let mut len = window.common(candidate, position, 4, len_max);
                steps += len as u32 / 16;
                if len == COMMON_MAX {
                    len = window.common_to_end(candidate, position);
                }
                if len > best.len {
                    let distance = usize::from(position - candidate);
                    best = Match { len, distance };
                    tell(best);
                    if len >= nice {
                        break;
                    }
                    tail = len - 3;
                    tail_word = window.word_behind(position, tail);
                    let behind = (len + 1).saturating_sub(self.equal_bytes) as u16;
                    let other = link_at(behind);
                    if i32::from(other) - i32::from(behind) < i32::from(link) - i32::from(offset) {
                        (link, offset) = (other, behind);
                    }
                }
            }
            if is_first {
                break;
            }
        }
        self.compared += steps;
        best
    }
}

/// Sets `previous` of each position to the newest one before it with the same hash of the next
/// bytes.
#[inline(always)]
fn link<const BITS: u32>(
    window: &Window,
    linked: Range<u16>,
    bytes: usize,
    newest: &mut [u16; 1 << HASH_BITS],
    previous: &mut [u16; TILE_RAW_BYTES],
) {
    newest.fill(0);
    for position in linked {
        let next = window.eight(position) << (64 - 8 * bytes);
        let hash = next.wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - BITS);
        previous[usize::from(position)] = newest[hash as usize];
        newest[hash as usize] = position;
    }
}
