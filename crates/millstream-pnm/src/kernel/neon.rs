//! The kernel for aarch64.
//!
//! As `avx2`, with vectors of 16 bytes; two of them make 16 slots by an addition of neighbours.
//!
//! # Safety
//! Loads and stores are bounded as in `avx2`.
#![expect(
    unsafe_code,
    reason = "vector instructions and unaligned loads and stores"
)]

use std::arch::aarch64::*;

use super::tables::{COMPACT, HUNDREDS, ONES, Row, TENS, TOO_LARGE_BIT, TOP_MAX, WHITE};
use super::{BLOCK_BYTES, Chunk, Job, Run, SAMPLES_PER_BLOCK, by_chunks};

/// Whether this machine can run it.
pub(super) fn is_available() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

/// Bytes of a vector.
const PART_BYTES: usize = 16;

/// Constants in registers.
struct Constants {
    zero: uint8x16_t,
    white: uint8x16_t,
    ones: uint8x16_t,
    tens: uint8x16_t,
    hundreds: uint8x16_t,
    /// The bit of each slot in the mask of its eight.
    bits: uint8x16_t,
}

/// What is wrong so far, as vectors that are looked at once in a chunk: bytes that are not zero;
/// the union of all hundreds; the greatest byte at each place.
struct Wrong {
    any: uint8x16_t,
    looked_up: uint8x16_t,
    most: uint8x16_t,
}

#[inline]
#[target_feature(enable = "neon")]
fn row(row: &Row) -> uint8x16_t {
    // SAFETY: a row has sixteen bytes.
    unsafe { vld1q_u8(row.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn constants() -> Constants {
    Constants {
        zero: vdupq_n_u8(b'0'),
        white: row(&WHITE),
        ones: row(&ONES),
        tens: row(&TENS),
        hundreds: row(&HUNDREDS),
        bits: row(&[1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128]),
    }
}

impl Wrong {
    #[inline]
    #[target_feature(enable = "neon")]
    fn nothing() -> Wrong {
        let zero = vdupq_n_u8(0);
        Wrong {
            any: zero,
            looked_up: zero,
            most: zero,
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn note(&mut self, wrong: uint8x16_t) {
        self.any = vorrq_u8(self.any, wrong);
    }
}

/// The 16 bytes that begin `before` bytes ahead of `part`, each less `'0'`, and all bits of those
/// that are digits.
///
/// # Safety
/// They are inside the text.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn digits_before(part: *const u8, before: usize, c: &Constants) -> (uint8x16_t, uint8x16_t) {
    // SAFETY: the caller's promise.
    let digits = vsubq_u8(unsafe { vld1q_u8(part.sub(before)) }, c.zero);
    (digits, vcltq_u8(digits, vdupq_n_u8(10)))
}

/// All bits of the bytes of `part` that are separators behind a digit; strays are noted.
///
/// # Safety
/// 16 bytes from `part` on are inside the text.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn ends<const COMMAS: bool>(
    part: *const u8,
    digit_before: uint8x16_t,
    wrong: &mut Wrong,
    c: &Constants,
) -> uint8x16_t {
    // SAFETY: the caller's promise.
    let bytes = unsafe { vld1q_u8(part) };
    let digits = vcltq_u8(vsubq_u8(bytes, c.zero), vdupq_n_u8(10));
    let low = vandq_u8(bytes, vdupq_n_u8(15));
    let mut separators = vceqq_u8(vqtbl1q_u8(c.white, low), bytes);
    if COMMAS {
        let commas = vceqq_u8(bytes, vdupq_n_u8(b','));
        separators = vorrq_u8(separators, commas);
        // A comma must follow a number at once; all other ways are the plain parser's.
        wrong.note(vbicq_u8(commas, digit_before));
    }
    wrong.note(vmvnq_u8(vorrq_u8(digits, separators)));
    vbicq_u8(digit_before, digits)
}

/// The sets of occupied slots of two groups.
#[inline]
#[target_feature(enable = "neon")]
fn occupied(ends: [uint8x16_t; 2], c: &Constants) -> [u8; 2] {
    let set = vandq_u8(vpmaxq_u8(ends[0], ends[1]), c.bits);
    [vaddv_u8(vget_low_u8(set)), vaddv_u8(vget_high_u8(set))]
}

/// The slots of group `half`, compacted.
#[inline]
#[target_feature(enable = "neon")]
fn group(slots: uint8x16_t, set: u8, half: usize) -> uint8x8_t {
    // SAFETY: an entry has eight bytes.
    let order = unsafe { vld1_u8(COMPACT[half][usize::from(set)].as_ptr()) };
    vqtbl1_u8(slots, order)
}

/// Eight-bit samples.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "neon")]
pub(super) unsafe fn narrow<const COMMAS: bool>(job: Job<'_>) -> Run {
    let maxval = job.maxval;
    let c = constants();
    by_chunks(job, 1, |chunk| {
        let Chunk {
            text,
            at,
            blocks,
            out,
        } = chunk;
        let mut next = 0;
        let mut wrong = Wrong::nothing();
        for pair in 0..blocks * BLOCK_BYTES / (2 * PART_BYTES) {
            let (mut values, mut found) = ([c.zero; 2], [c.zero; 2]);
            for part in 0..2 {
                // SAFETY: `by_chunks` promises `blocks` whole blocks from `at` on in the text,
                // and `at` is at least BEFORE_BYTES behind its start.
                let (end, (s1, _), (s2, d2), (s3, d3), (_, d4)) = unsafe {
                    let part = text.as_ptr().add(at + (2 * pair + part) * PART_BYTES);
                    let first = digits_before(part, 1, &c);
                    (
                        ends::<COMMAS>(part, first.1, &mut wrong, &c),
                        first,
                        digits_before(part, 2, &c),
                        digits_before(part, 3, &c),
                        digits_before(part, 4, &c),
                    )
                };
                let third = vandq_u8(end, d2);
                wrong.note(vandq_u8(vandq_u8(third, d3), d4));
                let low = vaddq_u8(s1, vqtbl1q_u8(c.tens, s2));
                let high = vandq_u8(third, vqtbl1q_u8(c.hundreds, s3));
                let sum = vaddq_u8(low, high);
                // With 200 and more, a sum without its highest bit has gone past 255.
                wrong.note(vandq_u8(vbicq_u8(high, sum), vdupq_n_u8(0x80)));
                wrong.looked_up = vorrq_u8(wrong.looked_up, high);
                values[part] = vandq_u8(end, sum);
                wrong.most = vmaxq_u8(wrong.most, values[part]);
                found[part] = end;
            }
            // Of the two bytes of a pair one is zero at least, so their sum is the other.
            let slots = vpaddq_u8(values[0], values[1]);
            let sets = occupied(found, &c);
            debug_assert!(next + SAMPLES_PER_BLOCK / 2 <= out.len());
            for (half, set) in sets.into_iter().enumerate() {
                // SAFETY: `by_chunks` promises room for SAMPLES_PER_BLOCK samples for each
                // block, eight for each group; no group before this one made more.
                unsafe { vst1_u8(out.as_mut_ptr().add(next), group(slots, set, half)) };
                next += set.count_ones() as usize;
            }
        }
        wrong.note(vandq_u8(wrong.looked_up, vdupq_n_u8(TOO_LARGE_BIT)));
        if vmaxvq_u8(wrong.any) != 0 || u16::from(vmaxvq_u8(wrong.most)) > maxval {
            return None;
        }
        Some(next)
    })
}

/// Sixteen-bit samples; `out` holds two bytes for each.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "neon")]
pub(super) unsafe fn wide<const COMMAS: bool>(job: Job<'_>) -> Run {
    let maxval = job.maxval;
    let c = constants();
    by_chunks(job, 2, |chunk| {
        let Chunk {
            text,
            at,
            blocks,
            out,
        } = chunk;
        let mut next = 0;
        let mut wrong = Wrong::nothing();
        let (mut over, mut most) = (vdupq_n_u16(0), vdupq_n_u16(0));
        for pair in 0..blocks * BLOCK_BYTES / (2 * PART_BYTES) {
            let mut parts = [[c.zero; 2]; 3];
            let mut found = [c.zero; 2];
            for part in 0..2 {
                // SAFETY: as in `narrow`.
                let (end, (s1, _), (s2, d2), (s3, d3), (s4, d4), (s5, d5), (_, d6)) = unsafe {
                    let part = text.as_ptr().add(at + (2 * pair + part) * PART_BYTES);
                    let first = digits_before(part, 1, &c);
                    (
                        ends::<COMMAS>(part, first.1, &mut wrong, &c),
                        first,
                        digits_before(part, 2, &c),
                        digits_before(part, 3, &c),
                        digits_before(part, 4, &c),
                        digits_before(part, 5, &c),
                        digits_before(part, 6, &c),
                    )
                };
                let third = vandq_u8(end, d2);
                let fourth = vandq_u8(third, d3);
                let fifth = vandq_u8(fourth, d4);
                wrong.note(vandq_u8(vandq_u8(fifth, d5), d6));
                let low = vaddq_u8(s1, vqtbl1q_u8(c.tens, s2));
                let high = vaddq_u8(
                    vandq_u8(third, vqtbl1q_u8(c.ones, s3)),
                    vandq_u8(fourth, vqtbl1q_u8(c.tens, s4)),
                );
                let top = vandq_u8(fifth, vqtbl1q_u8(c.ones, s5));
                wrong.most = vmaxq_u8(wrong.most, top);
                parts[0][part] = vandq_u8(end, low);
                parts[1][part] = high;
                parts[2][part] = top;
                found[part] = end;
            }
            let slots = [
                vpaddq_u8(parts[0][0], parts[0][1]),
                vpaddq_u8(parts[1][0], parts[1][1]),
                vpaddq_u8(parts[2][0], parts[2][1]),
            ];
            let sets = occupied(found, &c);
            debug_assert!(2 * (next + SAMPLES_PER_BLOCK / 2) <= out.len());
            for (half, set) in sets.into_iter().enumerate() {
                let low = vmovl_u8(group(slots[0], set, half));
                let high = vmovl_u8(group(slots[1], set, half));
                let top = vmulq_n_u16(vmovl_u8(group(slots[2], set, half)), 10_000);
                let sum = vaddq_u16(vmlaq_n_u16(low, high, 100), top);
                // 40000 and more have the highest bit; a sum without it has gone past 65535.
                over = vorrq_u16(over, vbicq_u16(top, sum));
                most = vmaxq_u16(most, sum);
                // SAFETY: as in `narrow`, with two bytes for each sample.
                unsafe {
                    let to = out.as_mut_ptr().add(2 * next);
                    vst1q_u8(to, vreinterpretq_u8_u16(sum));
                }
                next += set.count_ones() as usize;
            }
        }
        if vmaxvq_u8(wrong.any) != 0
            || vmaxvq_u8(wrong.most) > TOP_MAX
            || vmaxvq_u16(vandq_u16(over, vdupq_n_u16(0x8000))) != 0
            || vmaxvq_u16(most) > maxval
        {
            return None;
        }
        Some(next)
    })
}
