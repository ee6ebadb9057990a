//! Stored blocks with AVX2: the transposition of a group, see `decode::stored`.
//!
//! # Safety
//! The entry point must run on a CPU with AVX2; the caller is the dispatch, which has checked.
//! Loads and stores are of 16 and 32 bytes of arrays that safe code has cut.
#![expect(
    unsafe_code,
    reason = "vector loads and stores of whole chunks; see # Safety"
)]

use core::arch::x86_64::*;

use crate::decode::lanes::{Chunk, Lanes, Words};
use crate::decode::stored::{self, GROUP_BYTES};
use crate::error::ErrorKind;

/// Returns the words of lanes 4n to 4n + 3 and of those 16 further on, by rounds.
#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[[u8; 16]; 8], nth: usize, first: Option<u32>) -> __m256i {
    let by_round = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
    ));
    // SAFETY: two arrays of 16 bytes.
    let (mut low, high) = unsafe {
        (
            _mm_loadu_si128(words[nth].as_ptr().cast()),
            _mm_loadu_si128(words[nth + 4].as_ptr().cast()),
        )
    };
    if let Some(first) = first {
        low = _mm_blend_epi32::<1>(low, _mm_cvtsi32_si128(first as i32));
    }
    _mm256_shuffle_epi8(_mm256_set_m128i(high, low), by_round)
}

/// Writes the bytes of four rounds.
#[inline]
#[target_feature(enable = "avx2")]
fn deal(words: &Chunk, first: u32, raw: &mut [u8; GROUP_BYTES]) {
    let (words, _) = words.as_chunks::<16>();
    let words = words.try_into().expect("eight of them");
    let (a, b) = (load(words, 0, Some(first)), load(words, 1, None));
    let (c, d) = (load(words, 2, None), load(words, 3, None));
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_after, cd_after) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    let rounds = [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_after, cd_after),
        _mm256_unpackhi_epi64(ab_after, cd_after),
    ];
    for (round, raw) in rounds.into_iter().zip(raw.as_chunks_mut::<32>().0) {
        // SAFETY: an array of 32 bytes.
        unsafe { _mm256_storeu_si256(raw.as_mut_ptr().cast(), round) };
    }
}

/// Decodes as many whole groups of a stored block as `raw` has room for, with the lanes refilled;
/// returns the number of bytes written.
#[inline(never)]
#[target_feature(enable = "avx2")]
pub(crate) fn groups(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<usize, ErrorKind> {
    stored::groups(lanes, words, raw, |words, first, raw| {
        deal(words, first, raw)
    })
}
