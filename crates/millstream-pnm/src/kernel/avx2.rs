//! The vectors of x86-64 with AVX2 (Haswell, Zen and later).
//!
//! Samples are moved to the front in two steps. Ends are never adjacent, so each pair of bytes
//! holds at most one: pairs become slots of one byte, and eight slots at a time are moved by a
//! shuffle from a table of 256 entries. (PEXT would do it, too, but takes hundreds of cycles on the
//! first two generations of Zen.)
//!
//! # Safety
//! See `generic`; the functions with `#[target_feature]` need what [`is_available`] checks.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use super::generic::{self, Seen, Vector, operations};
use super::tables::{COMPACT, Row};
use super::{BLOCK_BYTES, Job, Run, count_by_masks};

/// Whether this machine can run the kernel.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
}

/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn run<const BYTES: usize>(job: Job<'_>) -> Run {
    // SAFETY: guaranteed by the caller.
    unsafe { generic::run::<__m256i, BYTES>(job) }
}

/// See `count_by_masks`.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn count(blocks: &[[u8; BLOCK_BYTES]]) -> (usize, bool) {
    count_by_masks(blocks, |block| {
        let (halves, _) = block.as_chunks::<32>();
        let mask = |half: &[u8; 32]| {
            // SAFETY: a half has 32 bytes.
            let bytes = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
            let digits = _mm256_sub_epi8(bytes, _mm256_set1_epi8(b'0' as i8));
            let least = _mm256_min_epu8(digits, _mm256_set1_epi8(9));
            u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(least, digits)).cast_unsigned())
        };
        mask(&halves[0]) | mask(&halves[1]) << 32
    })
}

/// The groups of a step in text order: whether in the upper 128-bit lane, and which half of it.
const GROUPS: [(bool, usize); 4] = [(false, 0), (true, 0), (false, 1), (true, 1)];

impl Vector for __m256i {
    const BYTES: usize = 32;
    const PARTS: usize = 2;
    const GROUPS: usize = GROUPS.len();
    type Group = __m128i;
    type Words = __m128i;

    operations! {
        unsafe:
        fn load(from: *const u8) -> Self { _mm256_loadu_si256(from.cast()) }
        fn splat(byte: u8) -> Self { _mm256_set1_epi8(byte.cast_signed()) }
        fn row(row: &Row) -> Self {
            _mm256_broadcastsi128_si256(_mm_loadu_si128(row.as_ptr().cast()))
        }
        fn store(group: __m128i, to: *mut u8) { _mm_storel_epi64(to.cast(), group) }
        fn store_words(words: __m128i, to: *mut u8) { _mm_storeu_si128(to.cast(), words) }

        safe:
        fn add(self, other: Self) -> Self { _mm256_add_epi8(self, other) }
        fn and(self, other: Self) -> Self { _mm256_and_si256(self, other) }
        fn or(self, other: Self) -> Self { _mm256_or_si256(self, other) }
        fn and_not(self, other: Self) -> Self { _mm256_andnot_si256(other, self) }
        fn eq(self, other: Self) -> Self { _mm256_cmpeq_epi8(self, other) }
        fn max(self, other: Self) -> Self { _mm256_max_epu8(self, other) }
        fn excess(self, most: Self) -> Self { _mm256_subs_epu8(self, most) }
        fn look_up(self, indices: Self) -> Self { _mm256_shuffle_epi8(self, indices) }
        fn where_signed(self, signs: Self) -> Self {
            _mm256_blendv_epi8(_mm256_setzero_si256(), self, signs)
        }
        fn is_zero(self) -> bool { _mm256_testz_si256(self, self) != 0 }
        fn has_signs(self) -> bool { _mm256_movemask_epi8(self) != 0 }
        fn occupied(self, second: Self) -> u64 {
            let first = _mm256_or_si256(self, _mm256_slli_epi16::<8>(self));
            let second = _mm256_or_si256(second, _mm256_slli_epi16::<8>(second));
            let slots = _mm256_movemask_epi8(_mm256_packs_epi16(first, second));
            u64::from(slots.cast_unsigned())
        }
        // In the text order 0-15, 32-47, 16-31, 48-63.
        fn slots(self, second: Self) -> Self {
            // At least one byte of a pair is zero, so their sum is the other.
            let one = _mm256_set1_epi8(1);
            let first = _mm256_maddubs_epi16(self, one);
            _mm256_packus_epi16(first, _mm256_maddubs_epi16(second, one))
        }
        fn group(self, occupied: u64, index: usize) -> (__m128i, usize) {
            let (upper, half) = GROUPS[index];
            let lane = match upper {
                false => _mm256_castsi256_si128(self),
                true => _mm256_extracti128_si256::<1>(self),
            };
            let set = occupied >> (16 * u32::from(upper) + 8 * half as u32) & 0xff;
            let order = _mm_loadl_epi64(COMPACT[half][set as usize].as_ptr().cast());
            (_mm_shuffle_epi8(lane, order), set.count_ones() as usize)
        }
        fn no_words(self) -> __m128i { _mm_setzero_si128() }
        fn sum(groups: [__m128i; 3], seen: &mut Seen<__m128i>) -> __m128i {
            let [low, high, top] = groups;
            let weights = _mm_set1_epi16(100 << 8 | 1);
            let low = _mm_maddubs_epi16(_mm_unpacklo_epi8(low, high), weights);
            let top = _mm_mullo_epi16(_mm_cvtepu8_epi16(top), _mm_set1_epi16(10_000));
            let sum = _mm_add_epi16(low, top);
            seen.over = _mm_or_si128(seen.over, _mm_andnot_si128(sum, top));
            seen.most = _mm_max_epu16(seen.most, sum);
            sum
        }
        fn exceeds(seen: &Seen<__m128i>, maxval: u16) -> bool {
            let too_large = _mm_subs_epu16(seen.most, _mm_set1_epi16(maxval.cast_signed()));
            let over = _mm_and_si128(seen.over, _mm_set1_epi16(i16::MIN));
            _mm_testz_si128(too_large, too_large) == 0 || _mm_testz_si128(over, over) == 0
        }
    }
}
