//! The vectors of aarch64.
//!
//! Samples are moved to the front as with AVX2; an addition of neighbors makes the slots of two
//! vectors.
//!
//! # Safety
//! See `generic`; [`run`] needs what [`is_available`] checks.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::aarch64::*;

use super::generic::{self, Seen, Vector, operations};
use super::tables::{COMPACT, Row};
use super::{Job, Run};

/// Whether this machine can run the kernel.
pub(super) fn is_available() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

/// # Safety
/// The machine has the features.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run<const BYTES: usize>(job: Job<'_>) -> Run {
    // SAFETY: guaranteed by the caller.
    unsafe { generic::run::<uint8x16_t, BYTES>(job) }
}

/// The bit of each slot in the mask of its group.
const BITS: Row = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

impl Vector for uint8x16_t {
    const BYTES: usize = 16;
    const PARTS: usize = 2;
    const GROUPS: usize = 2;
    type Group = uint8x8_t;
    type Words = uint16x8_t;

    operations! {
        unsafe:
        fn load(from: *const u8) -> Self { vld1q_u8(from) }
        fn splat(byte: u8) -> Self { vdupq_n_u8(byte) }
        fn row(row: &Row) -> Self { vld1q_u8(row.as_ptr()) }
        fn store(group: uint8x8_t, to: *mut u8) { vst1_u8(to, group) }
        fn store_words(words: uint16x8_t, to: *mut u8) { vst1q_u8(to, vreinterpretq_u8_u16(words)) }

        safe:
        fn add(self, other: Self) -> Self { vaddq_u8(self, other) }
        fn and(self, other: Self) -> Self { vandq_u8(self, other) }
        fn or(self, other: Self) -> Self { vorrq_u8(self, other) }
        fn and_not(self, other: Self) -> Self { vbicq_u8(self, other) }
        fn eq(self, other: Self) -> Self { vceqq_u8(self, other) }
        fn max(self, other: Self) -> Self { vmaxq_u8(self, other) }
        fn excess(self, most: Self) -> Self { vqsubq_u8(self, most) }
        fn look_up(self, indices: Self) -> Self { vqtbl1q_u8(self, indices) }
        fn low_bits(self) -> Self { vandq_u8(self, vdupq_n_u8(15)) }
        fn where_signed(self, signs: Self) -> Self {
            vandq_u8(self, vcltzq_s8(vreinterpretq_s8_u8(signs)))
        }
        fn is_zero(self) -> bool { vmaxvq_u8(self) == 0 }
        fn has_signs(self) -> bool { vmaxvq_u8(self) > 0x7f }
        fn occupied(self, second: Self) -> u64 {
            let ends = vpmaxq_u8(self, second);
            let set = vld1q_u8(BITS.as_ptr()).where_signed(ends);
            let [first, second] = [vget_low_u8(set), vget_high_u8(set)].map(|half| vaddv_u8(half));
            u64::from(first) | u64::from(second) << 8
        }
        fn slots(self, second: Self) -> Self {
            // At least one byte of a pair is zero, so their sum is the other.
            vpaddq_u8(self, second)
        }
        fn group(self, occupied: u64, index: usize) -> (uint8x8_t, usize) {
            let set = occupied >> (8 * index) & 0xff;
            let order = vld1_u8(COMPACT[index][set as usize].as_ptr());
            (vqtbl1_u8(self, order), set.count_ones() as usize)
        }
        fn no_words(self) -> uint16x8_t { vdupq_n_u16(0) }
        fn sum(groups: [uint8x8_t; 3], seen: &mut Seen<uint16x8_t>) -> uint16x8_t {
            let [low, high, top] = groups.map(|group| vmovl_u8(group));
            let top = vmulq_n_u16(top, 10_000);
            let sum = vaddq_u16(vmlaq_n_u16(low, high, 100), top);
            seen.over = vorrq_u16(seen.over, vbicq_u16(top, sum));
            seen.most = vmaxq_u16(seen.most, sum);
            sum
        }
        fn exceeds(seen: &Seen<uint16x8_t>, maxval: u16) -> bool {
            vmaxvq_u16(seen.over) > 0x7fff || vmaxvq_u16(seen.most) > maxval
        }
    }
}
