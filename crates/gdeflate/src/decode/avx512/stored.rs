//! Stored blocks with AVX-512: the transposition of a group, see `decode::stored`.
//!
//! # Safety
//! The entry point must run on a CPU with the features that `is_available` checks; the caller is
//! the dispatch, which has checked. Loads and stores are of whole chunks of 128 bytes.
#![expect(
    unsafe_code,
    reason = "vector loads and stores of whole chunks; see # Safety"
)]

use core::arch::x86_64::*;

use crate::decode::lanes::{Chunk, Lanes, Words};
use crate::decode::stored::{self, GROUP_BYTES};
use crate::error::ErrorKind;
use crate::limits::LANE_COUNT;

/// For each byte of a group its index in the lanes' 32 doublewords: byte `round` of `lane`.
static TRANSPOSED: [u8; GROUP_BYTES] = {
    let mut indices = [0; GROUP_BYTES];
    let mut at = 0;
    while at < GROUP_BYTES {
        indices[at] = (at % LANE_COUNT * 4 + at / LANE_COUNT) as u8;
        at += 1;
    }
    indices
};

const _: () = assert!(GROUP_BYTES == 2 * 64);

/// Returns a chunk as two vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; GROUP_BYTES]) -> [__m512i; 2] {
    let at = bytes.as_ptr();
    // SAFETY: the chunk has the size of two vectors.
    unsafe {
        [
            _mm512_loadu_si512(at.cast()),
            _mm512_loadu_si512(at.add(64).cast()),
        ]
    }
}

/// Writes the bytes of four rounds.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn deal(words: &Chunk, first: u32, raw: &mut [u8; GROUP_BYTES]) {
    let [low, high] = load(words);
    let low = _mm512_mask_set1_epi32(low, 1, first as i32);
    let to = raw.as_mut_ptr();
    let transposed = load(&TRANSPOSED).map(|half| _mm512_permutex2var_epi8(low, half, high));
    // SAFETY: the group has the size of two vectors.
    unsafe {
        _mm512_storeu_si512(to.cast(), transposed[0]);
        _mm512_storeu_si512(to.add(64).cast(), transposed[1]);
    }
}

/// Decodes as many whole groups of a stored block as `raw` has room for, with the lanes refilled;
/// returns the number of bytes written.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn groups(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<usize, ErrorKind> {
    stored::groups(lanes, words, raw, |words, first, raw| {
        deal(words, first, raw)
    })
}
