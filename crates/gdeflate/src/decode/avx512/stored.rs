//! Stored blocks with AVX-512: 128 bytes, four rounds of all lanes, at once.
//!
//! The method of `decode::stored` in registers: the lanes' next 32 bits are output by a
//! transposition of 32 x 4 bytes, and each lane takes one of the next 32 words, in an order that
//! stays the same for the whole block.
//!
//! # Safety
//! The entry point must run on a CPU with the features that `is_available` checks; the caller is
//! the dispatch, which has checked. Loads and stores are of whole chunks of 128 bytes that safe
//! code has sliced.
#![expect(
    unsafe_code,
    reason = "vector loads and stores of whole chunks; see # Safety"
)]

use core::arch::x86_64::*;

use crate::decode::lanes::{Lanes, Words};
use crate::decode::stored::{GROUP_BYTES, word_order};
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

/// Two vectors of doublewords, lane by lane.
type Pair = [__m512i; 2];

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &[u32; LANE_COUNT]) -> Pair {
    let at = lanes.as_ptr();
    // SAFETY: the array has the size of two vectors.
    unsafe {
        [
            _mm512_loadu_si512(at.cast()),
            _mm512_loadu_si512(at.add(16).cast()),
        ]
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(pair: Pair) -> [u32; LANE_COUNT] {
    let mut lanes = [0; LANE_COUNT];
    let at = lanes.as_mut_ptr();
    // SAFETY: the array has the size of two vectors.
    unsafe {
        _mm512_storeu_si512(at.cast(), pair[0]);
        _mm512_storeu_si512(at.add(16).cast(), pair[1]);
    }
    lanes
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
    let order = load(&word_order(&lanes.counts));
    let [low, high, surplus, missing] = lanes.halves();
    let (mut low, mut high) = (load(&low), load(&high));
    let (surplus, missing) = (load(&surplus), load(&missing));
    // SAFETY: the table has the size of two vectors.
    let transposed = unsafe {
        let at = TRANSPOSED.as_ptr();
        [
            _mm512_loadu_si512(at.cast::<__m512i>()),
            _mm512_loadu_si512(at.add(64).cast()),
        ]
    };
    let mut done = 0;
    for group in raw.chunks_exact_mut(GROUP_BYTES) {
        let chunk = words.next_chunk()?;
        // SAFETY: chunk and group have the size of two vectors each.
        let next = unsafe {
            let to = group.as_mut_ptr();
            let bytes = |half: usize| _mm512_permutex2var_epi8(low[0], transposed[half], low[1]);
            _mm512_storeu_si512(to.cast(), bytes(0));
            _mm512_storeu_si512(to.add(64).cast(), bytes(1));
            let from = chunk.as_ptr();
            [
                _mm512_loadu_si512(from.cast::<__m512i>()),
                _mm512_loadu_si512(from.add(64).cast()),
            ]
        };
        for half in 0..2 {
            let word = _mm512_permutex2var_epi32(next[0], order[half], next[1]);
            low[half] = _mm512_or_si512(high[half], _mm512_sllv_epi32(word, surplus[half]));
            high[half] = _mm512_srlv_epi32(word, missing[half]);
        }
        done += GROUP_BYTES;
    }
    lanes.set_halves(store(low), store(high));
    Ok(done)
}
