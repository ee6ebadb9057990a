//! The fast path of blocks in which most matches reach back less than 8 bytes, as in tables of
//! numbers.
//!
//! Such a match begins in bytes that were just written, in pieces that overlap. Reading them back
//! waits until all of them are in the cache, some 15 cycles, and the next match waits for this one.
//! So the last 16 bytes of the output are kept in a register, too, and shuffled into the match.
//! Where most matches reach further back, that would cost up to a fifth.
//!
//! # Safety
//! As in [`super`]: a match is checked before its first byte, and copied in pieces that begin below
//! its end, at least [`SLACK`] bytes before that of the output.
#![expect(
    unsafe_code,
    reason = "overshooting copies within checked bounds; see # Safety"
)]

use core::arch::x86_64::*;

use super::{PIECE, Place, SLACK, copy_many, copy_rest};
use crate::decode::tokens::Tokens;

/// Matches of a block that are looked at to choose the path.
const SAMPLE: usize = 256;

/// Index of a shuffle that gives zero.
const ZERO: u8 = 0x80;

/// For each number n of bytes up to 16, from n on the shuffle that moves the first n bytes of a
/// vector to its end, and from 16 + n on the one that drops the first n.
static MOVES: [u8; 3 * PIECE] = {
    let mut moves = [ZERO; 3 * PIECE];
    let mut at = 0;
    while at < PIECE {
        moves[PIECE + at] = at as u8;
        at += 1;
    }
    moves
};

/// For each distance below 16 the shuffle that repeats the last `distance` bytes.
static REPEATS: [[u8; PIECE]; PIECE] = {
    let mut repeats = [[0; PIECE]; PIECE];
    let mut distance = 1;
    while distance < PIECE {
        let mut at = 0;
        while at < PIECE {
            repeats[distance][at] = (PIECE - distance + at % distance) as u8;
            at += 1;
        }
        distance += 1;
    }
    repeats
};

/// Returns whether most matches of a block are near enough, by the first of its distances. Those of
/// 8 to 15 bytes can be kept in the register, but are as fast without.
pub(super) fn are_most(tokens: &Tokens) -> bool {
    let count = tokens.length_count.min(SAMPLE);
    let near = tokens.matches_from(0).take(count);
    2 * near.filter(|(.., distance)| *distance < 8).count() > count
}

/// # Safety
/// 16 bytes from `from` on are readable.
#[inline]
#[target_feature(enable = "ssse3")]
unsafe fn load(from: *const u8) -> __m128i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// Returns the last 16 bytes of `before` and the first `len` bytes, at most 16, of `bytes`.
#[inline]
#[target_feature(enable = "ssse3")]
fn append(before: __m128i, bytes: __m128i, len: usize) -> __m128i {
    let moves = &MOVES[len..len + 2 * PIECE];
    // SAFETY: 16 bytes each of a slice of 32.
    let (to_end, drop) = unsafe { (load(moves.as_ptr()), load(moves.as_ptr().add(PIECE))) };
    _mm_or_si128(
        _mm_shuffle_epi8(before, drop),
        _mm_shuffle_epi8(bytes, to_end),
    )
}

/// Copies until a match is invalid or near the end of the output, or none is left.
#[target_feature(enable = "ssse3")]
pub(super) fn quickly(tokens: &Tokens, raw: &mut [u8], mut place: Place) -> Place {
    let Some(end_max) = raw.len().checked_sub(SLACK) else {
        return place;
    };
    debug_assert_eq!(place.index, 0, "nothing of the block is done");
    let mut tail = _mm_setzero_si128();
    let done = &raw[..place.position];
    for &byte in &done[done.len().saturating_sub(PIECE)..] {
        tail = append(tail, _mm_cvtsi32_si128(byte.into()), 1);
    }
    let (out, literals) = (raw.as_mut_ptr(), tokens.literals.as_ptr());
    for (literals_before, len, distance) in tokens.matches_from(0) {
        let run = usize::from(literals_before.wrapping_sub(place.before));
        let at = place.position + run;
        if distance > at || at + len > end_max {
            break;
        }
        // SAFETY: as in the other fast path; a row of a table has 16 bytes.
        unsafe {
            let (from, to) = (literals.add(place.literal), out.add(place.position));
            let piece = load(from);
            _mm_storeu_si128(to.cast(), piece);
            if run > PIECE {
                copy_many(from, to, run);
                tail = load(from.add(run - PIECE));
            } else {
                tail = append(tail, piece, run);
            }
            let to = out.add(at);
            let piece = match REPEATS.get(distance) {
                Some(repeats) => _mm_shuffle_epi8(tail, load(repeats.as_ptr())),
                None => load(to.sub(distance)),
            };
            _mm_storeu_si128(to.cast(), piece);
            if len > PIECE {
                copy_rest(to, distance, len);
                tail = load(to.add(len - PIECE));
            } else {
                tail = append(tail, piece, len);
            }
        }
        place.pass(literals_before, run, len);
    }
    place
}
