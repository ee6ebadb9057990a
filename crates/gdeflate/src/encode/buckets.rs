//! Match finding by buckets: for each hash the newest positions, packed in one integer.
//!
//! A chain is followed link by link, each a dependent load and an unpredictable branch. Here all
//! candidates of a position are known at once: one that shares the hash of its next three bytes,
//! four of its next four, four of its next eight. The first five are compared over eight bytes
//! without a branch, which finds the short matches; the last four are examined only if one of them
//! has all eight bytes in common, and find the long ones. Inserting a position is a shift and a
//! store per bucket. Chains and trees find little beyond these nine candidates: by measurement at
//! most one percent of ratio, at three times the cost.

use alloc::boxed::Box;

use super::matches::{MATCHES_AT_ONCE, Match, Matches};
use super::parse::MatchFinder;
use super::tokens::Token;
use super::window::{COMMON_MAX, Window};
use crate::limits::MATCH_BYTES_MIN;
use crate::zeroed;

const HASH3_BITS: u32 = 13;
const HASH4_BITS: u32 = 14;
const HASH8_BITS: u32 = 14;

/// Bytes at a position that are compared at once; a position with fewer left begins no match.
const NEXT_BYTES: usize = 8;

/// The positions of a bucket, the newest in the low bits. Unfilled elements are position 0, which
/// is a valid candidate for all later positions.
type Bucket = u64;
const WAYS: usize = 4;

const _: () = assert!(2 * WAYS < MATCHES_AT_ONCE);

/// The buckets of all hashes; those by eight bytes are used only if `LONG`.
#[derive(Debug)]
pub(crate) struct Buckets<const LONG: bool> {
    window: Window,
    by3: Box<[u16; 1 << HASH3_BITS]>,
    by4: Box<[Bucket; 1 << HASH4_BITS]>,
    by8: Box<[Bucket; 1 << HASH8_BITS]>,
}

/// The candidates found for a position.
#[derive(Clone, Copy)]
struct Found {
    three: u16,
    four: Bucket,
    eight: Bucket,
}

impl Found {
    /// The candidates for short matches.
    #[inline(always)]
    fn short(self) -> [u16; 1 + WAYS] {
        let [a, b, c, d] = ways(self.four);
        [self.three, a, b, c, d]
    }
}

#[inline(always)]
fn ways(bucket: Bucket) -> [u16; WAYS] {
    [0, 16, 32, 48].map(|shift| (bucket >> shift) as u16)
}

impl<const LONG: bool> Buckets<LONG> {
    pub(crate) fn new() -> Self {
        Self {
            window: Window::new(),
            by3: zeroed(),
            by4: zeroed(),
            by8: zeroed(),
        }
    }

    /// Inserts a position, at which the bytes `next` begin; returns the candidates before it.
    #[inline(always)]
    fn exchange(&mut self, position: u16, next: u64) -> Found {
        let three = &mut self.by3[hash(next << 40, HASH3_BITS)];
        let four = &mut self.by4[hash(next << 32, HASH4_BITS)];
        let mut found = Found {
            three: *three,
            four: *four,
            eight: 0,
        };
        *three = position;
        *four = *four << 16 | Bucket::from(position);
        if LONG {
            let eight = &mut self.by8[hash(next, HASH8_BITS)];
            found.eight = *eight;
            *eight = *eight << 16 | Bucket::from(position);
        }
        found
    }
}

impl<const LONG: bool> MatchFinder for Buckets<LONG> {
    const NEXT_BYTES: usize = NEXT_BYTES;
    // Position 0 has no candidates, and empty buckets contain it already.
    const FIRST: usize = 1;

    fn start(&mut self, raw: &[u8]) {
        self.window.set(raw);
        self.by3.fill(0);
        self.by4.fill(0);
        if LONG {
            self.by8.fill(0);
        }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    #[inline(always)]
    fn insert(&mut self, position: u16) {
        self.exchange(position, self.window.eight(position));
    }

    #[inline(always)]
    fn insert_and_find(&mut self, position: u16, _: usize, _: u32, _: usize) -> Match {
        let next = self.window.eight(position);
        let found = self.exchange(position, next);
        let mut best = (0, position);
        for candidate in found.short() {
            let len = self.window.common_eight(candidate, next);
            best = if len > best.0 { (len, candidate) } else { best };
        }
        if best.0 == NEXT_BYTES {
            let bucket = if LONG { found.eight } else { found.four };
            let len_max = self.window.left(position).min(COMMON_MAX);
            for candidate in ways(bucket) {
                if self.window.eight(candidate) == next {
                    let len = self.window.common(candidate, position, NEXT_BYTES, len_max);
                    best = if len > best.0 { (len, candidate) } else { best };
                }
            }
        }
        Match {
            len: best.0,
            distance: usize::from(position - best.1),
        }
    }
}

impl Buckets<true> {
    /// Finds the matches of a whole tile that are worth considering, for each position by ascending
    /// length.
    #[inline(always)]
    pub(crate) fn find_all(&mut self, raw: &[u8], nice: usize, matches: &mut Matches) {
        self.start(raw);
        matches.clear();
        let mut position = 0;
        while position < raw.len() {
            matches.begin_position();
            let at = position as u16;
            position += 1;
            if self.window.left(at) < NEXT_BYTES {
                continue;
            }
            let next = self.window.eight(at);
            let found = self.exchange(at, next);
            if at == 0 {
                continue;
            }
            let mut longest = self.tell_short(at, next, found, matches);
            let long = ways(found.eight).map(|candidate| self.window.eight(candidate) == next);
            if long.contains(&true) {
                longest = self.tell_long(at, next, found, longest, matches);
            }
            if longest < nice {
                continue;
            }
            // It will be taken, so its full length matters, and inside it only its remainder.
            let distance = matches.last().low();
            let from = usize::from(at) - distance;
            let len = self.window.common_to_end(from as u16, at);
            let end = usize::from(at) + len;
            matches.lengthen_last(len);
            while position < end {
                matches.begin_position();
                matches.push(end - position, distance);
                if self.window.left(position as u16) >= NEXT_BYTES {
                    self.insert(position as u16);
                }
                position += 1;
            }
        }
        matches.begin_position();
    }

    /// Adds matches of up to eight bytes; returns the length of the longest.
    #[inline(always)]
    fn tell_short(&self, at: u16, next: u64, found: Found, matches: &mut Matches) -> usize {
        let room = matches.room();
        let mut best = MATCH_BYTES_MIN - 1;
        let mut count = 0;
        for candidate in found.short() {
            let len = self.window.common_eight(candidate, next);
            room[count % MATCHES_AT_ONCE] = Token::of_parts(len, at - candidate);
            let better = len > best;
            count += usize::from(better);
            best = if better { len } else { best };
        }
        matches.commit(count);
        best
    }

    /// Adds the matches among the long candidates that are longer than `best`, the longest so far;
    /// returns the new longest length, up to [`COMMON_MAX`].
    #[inline(never)]
    fn tell_long(
        &self,
        at: u16,
        next: u64,
        found: Found,
        mut best: usize,
        matches: &mut Matches,
    ) -> usize {
        let len_max = self.window.left(at).min(COMMON_MAX);
        for candidate in ways(found.eight) {
            if self.window.eight(candidate) == next {
                let len = self.window.common(candidate, at, NEXT_BYTES, len_max);
                if len > best {
                    matches.push(len, usize::from(at - candidate));
                    best = len;
                }
            }
        }
        best
    }
}

#[inline(always)]
fn hash(bytes: u64, bits: u32) -> usize {
    (bytes.wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - bits)) as usize
}
