//! The transposition of a stored group with SSE2, which every x86-64 processor has: what the
//! compiler makes of a loop takes twice as many instructions.
//!
//! # Safety
//! Loads and stores are of 16 bytes of slices that safe code has cut.
#![expect(
    unsafe_code,
    reason = "vector loads and stores of whole chunks; see # Safety"
)]

use core::arch::x86_64::*;

use crate::decode::lanes::Chunk;

/// The words of 16 lanes.
type Quad = [__m128i; 4];

/// Rotates the places of bytes by one bit to the left.
#[inline]
#[target_feature(enable = "sse2")]
fn interleave([a, b, c, d]: Quad) -> Quad {
    [
        _mm_unpacklo_epi8(a, c),
        _mm_unpackhi_epi8(a, c),
        _mm_unpacklo_epi8(b, d),
        _mm_unpackhi_epi8(b, d),
    ]
}

/// Writes four rounds of bytes: the lowest of every lane, then the next of every lane, and so on.
/// `first` is the word of the first lane.
#[inline(always)]
pub(super) fn deal(words: &Chunk, first: u32, raw: &mut Chunk) {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { transpose(words, first, raw) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn transpose(words: &Chunk, first: u32, raw: &mut Chunk) {
    let (from, to) = (words.as_chunks::<16>().0, raw.as_chunks_mut::<16>().0);
    for half in 0..2 {
        let mut quad = [_mm_setzero_si128(); 4];
        for (at, vector) in quad.iter_mut().enumerate() {
            // SAFETY: a chunk of 16 bytes.
            *vector = unsafe { _mm_loadu_si128(from[half * 4 + at].as_ptr().cast()) };
        }
        if half == 0 {
            let first = _mm_castsi128_ps(_mm_cvtsi32_si128(first as i32));
            quad[0] = _mm_castps_si128(_mm_move_ss(_mm_castsi128_ps(quad[0]), first));
        }
        // A place is four bits of the lane and two of the round: four rotations swap them.
        let rounds = interleave(interleave(interleave(interleave(quad))));
        for (round, vector) in rounds.into_iter().enumerate() {
            // SAFETY: a chunk of 16 bytes.
            unsafe { _mm_storeu_si128(to[round * 2 + half].as_mut_ptr().cast(), vector) };
        }
    }
}
