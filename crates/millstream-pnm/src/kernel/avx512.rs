//! The vectors of x86-64 with AVX-512 VBMI2 (Ice Lake, Zen 4 and later).
//!
//! A step is one vector, and one compress instruction moves its samples to the front (three for
//! sixteen-bit samples).
//!
//! # Safety
//! See `generic`; the functions with `#[target_feature]` need what [`is_available`] checks.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use super::generic::{self, Seen, Vector, operations};
use super::tables::Row;
use super::{BLOCK_BYTES, Job, Run, count_by_masks};

/// Whether this machine can run the kernel.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("popcnt")
}

/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
pub(super) unsafe fn run<const BYTES: usize>(job: Job<'_>) -> Run {
    // SAFETY: guaranteed by the caller.
    unsafe { generic::run::<__m512i, BYTES>(job) }
}

/// See `count_by_masks`.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
pub(super) unsafe fn count(blocks: &[[u8; BLOCK_BYTES]]) -> (usize, bool) {
    count_by_masks(blocks, |block| {
        // SAFETY: a block has 64 bytes.
        let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let digits = _mm512_sub_epi8(bytes, _mm512_set1_epi8(b'0' as i8));
        _mm512_cmplt_epu8_mask(digits, _mm512_set1_epi8(10))
    })
}

impl Vector for __m512i {
    const BYTES: usize = 64;
    const PARTS: usize = 1;
    const GROUPS: usize = 1;
    type Group = __m256i;
    type Words = __m512i;

    operations! {
        unsafe:
        fn load(from: *const u8) -> Self { _mm512_loadu_si512(from.cast()) }
        fn splat(byte: u8) -> Self { _mm512_set1_epi8(byte.cast_signed()) }
        fn row(row: &Row) -> Self { _mm512_broadcast_i32x4(_mm_loadu_si128(row.as_ptr().cast())) }
        fn store(group: __m256i, to: *mut u8) { _mm256_storeu_si256(to.cast(), group) }
        fn store_words(words: __m512i, to: *mut u8) { _mm512_storeu_si512(to.cast(), words) }

        safe:
        fn add(self, other: Self) -> Self { _mm512_add_epi8(self, other) }
        fn and(self, other: Self) -> Self { _mm512_and_si512(self, other) }
        fn or(self, other: Self) -> Self { _mm512_or_si512(self, other) }
        fn and_not(self, other: Self) -> Self { _mm512_andnot_si512(other, self) }
        fn eq(self, other: Self) -> Self {
            _mm512_movm_epi8(_mm512_cmpeq_epi8_mask(self, other))
        }
        fn max(self, other: Self) -> Self { _mm512_max_epu8(self, other) }
        fn excess(self, most: Self) -> Self { _mm512_subs_epu8(self, most) }
        fn look_up(self, indices: Self) -> Self { _mm512_shuffle_epi8(self, indices) }
        fn where_signed(self, signs: Self) -> Self {
            _mm512_maskz_mov_epi8(_mm512_movepi8_mask(signs), self)
        }
        fn is_zero(self) -> bool { _mm512_test_epi8_mask(self, self) == 0 }
        fn has_signs(self) -> bool { _mm512_movepi8_mask(self) != 0 }
        fn occupied(self, _second: Self) -> u64 { _mm512_movepi8_mask(self) }
        fn group(self, occupied: u64, _index: usize) -> (__m256i, usize) {
            let values = _mm512_maskz_compress_epi8(occupied, self);
            (_mm512_castsi512_si256(values), occupied.count_ones() as usize)
        }
        fn no_words(self) -> __m512i { _mm512_setzero_si512() }
        fn sum(groups: [__m256i; 3], seen: &mut Seen<__m512i>) -> __m512i {
            let [low, high, top] = groups;
            let high = _mm512_mullo_epi16(_mm512_cvtepu8_epi16(high), _mm512_set1_epi16(100));
            let top = _mm512_mullo_epi16(_mm512_cvtepu8_epi16(top), _mm512_set1_epi16(10_000));
            let low = _mm512_add_epi16(_mm512_cvtepu8_epi16(low), high);
            let sum = _mm512_add_epi16(low, top);
            seen.over = _mm512_or_si512(seen.over, _mm512_andnot_si512(sum, top));
            seen.most = _mm512_max_epu16(seen.most, sum);
            sum
        }
        fn exceeds(seen: &Seen<__m512i>, maxval: u16) -> bool {
            let most = _mm512_set1_epi16(maxval.cast_signed());
            _mm512_cmpgt_epu16_mask(seen.most, most) | _mm512_movepi16_mask(seen.over) != 0
        }
    }
}
