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

use super::matches::{MATCHES_AT_ONCE, Matches};
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

/// The buckets of all hashes.
#[derive(Debug)]
pub(crate) struct Buckets {
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

impl Buckets {
    pub(crate) fn new() -> Self {
        Self {
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
        let eight = &mut self.by8[hash(next, HASH8_BITS)];
        let found = Found {
            three: *three,
            four: *four,
            eight: *eight,
        };
        *three = position;
        *four = *four << 16 | Bucket::from(position);
        *eight = *eight << 16 | Bucket::from(position);
        found
    }
}

impl Buckets {
    /// Finds the matches of a whole tile that are worth considering, for each position by ascending
    /// length.
    #[inline(always)]
    pub(crate) fn find_all(&mut self, window: &Window, nice: usize, matches: &mut Matches) {
        self.by3.fill(0);
        self.by4.fill(0);
        self.by8.fill(0);
        let len = window.left(0);
        matches.clear();
        let mut position = 0;
        while position < len {
            matches.begin_position();
            let at = position as u16;
            position += 1;
            if window.left(at) < NEXT_BYTES {
                continue;
            }
            let next = window.eight(at);
            let found = self.exchange(at, next);
            if at == 0 {
                continue;
            }
            let mut longest = tell_short(window, at, next, found, matches);
            let long = ways(found.eight).map(|candidate| window.eight(candidate) == next);
            if long.contains(&true) {
                longest = tell_long(window, at, next, found, longest, matches);
            }
            if longest < nice {
                continue;
            }
            // It will be taken, so its full length matters, and inside it only its remainder.
            let distance = matches.last().low();
            let from = usize::from(at) - distance;
            let taken = window.common_to_end(from as u16, at);
            let end = usize::from(at) + taken;
            matches.lengthen_last(taken);
            while position < end {
                matches.begin_position();
                matches.push(end - position, distance);
                if window.left(position as u16) >= NEXT_BYTES {
                    self.exchange(position as u16, window.eight(position as u16));
                }
                position += 1;
            }
        }
        matches.begin_position();
    }
}

/// Adds matches of up to eight bytes; returns the length of the longest.
#[inline(always)]
fn tell_short(window: &Window, at: u16, next: u64, found: Found, matches: &mut Matches) -> usize {
    let room = matches.room();
    let mut best = MATCH_BYTES_MIN - 1;
    let mut count = 0;
    for candidate in found.short() {
        let len = window.common_eight(candidate, next);
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
    window: &Window,
    at: u16,
    next: u64,
    found: Found,
    mut best: usize,
    matches: &mut Matches,
) -> usize {
    let len_max = window.left(at).min(COMMON_MAX);
    for candidate in ways(found.eight) {
        if window.eight(candidate) == next {
            let len = window.common(candidate, at, NEXT_BYTES, len_max);
            if len > best {
                matches.push(len, usize::from(at - candidate));
                best = len;
            }
        }
    }
    best
}

#[inline(always)]
fn hash(bytes: u64, bits: u32) -> usize {
    (bytes.wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - bits)) as usize
}
