//! The kernel for x86-64 with AVX-512 VBMI2 (Ice Lake, Zen 4 and later).
//!
//! As `kernel` describes, with masks in general registers and one compress for each 64 bytes of
//! text (three for sixteen-bit samples), which moves the values of all token ends to the front.
//!
//! # Safety
//! Every function here needs the features that [`is_available`] asks for. Loads reach
//! `BEFORE_BYTES` before a block and to its end; the loop asserts that the text has both. Stores
//! reach [`SAMPLES_PER_BLOCK`] samples from the place of the next sample on; the number of blocks
//! in a chunk is bounded by the room for so many samples for each of them, and a block of 64 bytes
//! has at most 32 token ends, because two never stand side by side.
#![expect(
    unsafe_code,
    reason = "vector instructions and unaligned loads and stores"
)]

use std::arch::x86_64::*;

use super::tables::{HUNDREDS, ONES, Row, TENS, TOO_LARGE_BIT, TOP_MAX, WHITE};
use super::{BLOCK_BYTES, Chunk, Job, Run, SAMPLES_PER_BLOCK, by_chunks, count_by_masks};

/// Whether this machine can run it.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// Constants in registers.
struct Constants {
    minus_zero: __m512i,
    ten: __m512i,
    white: __m512i,
    ones: __m512i,
    tens: __m512i,
    hundreds: __m512i,
}

/// What one block leaves for the next: the digits of its end.
#[derive(Clone, Copy, Default)]
struct Carry {
    digits: u64,
    pairs: u64,
}

/// Token ends of a block, and the digits before every place.
struct Marks {
    /// Separators right behind a digit.
    ends: u64,
    /// Bit n: the byte two before byte n is a digit; the next: three before; four before.
    two: u64,
    three: u64,
    four: u64,
    /// Ends of runs of digits that are longer than a sample may be.
    long: u64,
    /// Bytes that are neither digits nor separators.
    stray: u64,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn row(row: &Row) -> __m512i {
    // SAFETY: a row has sixteen bytes.
    let row = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    _mm512_broadcast_i32x4(row)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn constants() -> Constants {
    Constants {
        minus_zero: _mm512_set1_epi8((b'0' as i8).wrapping_neg()),
        ten: _mm512_set1_epi8(10),
        white: row(&WHITE),
        ones: row(&ONES),
        tens: row(&TENS),
        hundreds: row(&HUNDREDS),
    }
}

/// The 64 bytes that begin `before` bytes ahead of `block`, each less `'0'`.
///
/// # Safety
/// They are inside the text.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn digits_before(block: *const u8, before: usize, c: &Constants) -> __m512i {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm512_loadu_si512(block.sub(before).cast()) };
    _mm512_add_epi8(bytes, c.minus_zero)
}

/// # Safety
/// 64 bytes from `block` on are inside the text.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
unsafe fn marks<const COMMAS: bool, const WIDE: bool>(
    block: *const u8,
    carry: &mut Carry,
    c: &Constants,
) -> Marks {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm512_loadu_si512(block.cast()) };
    let digits = _mm512_cmplt_epu8_mask(_mm512_add_epi8(bytes, c.minus_zero), c.ten);
    let mut separators = _mm512_cmpeq_epi8_mask(_mm512_shuffle_epi8(c.white, bytes), bytes);
    let before = |count: u32| digits << count | carry.digits >> (64 - count);
    let one = before(1);
    let mut long = 0;
    if COMMAS {
        let commas = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b',' as i8));
        separators |= commas;
        // A comma must follow a number at once; all other ways are the plain parser's.
        long = commas & !one;
    }
    let pairs = digits & one;
    let fours = pairs & (pairs << 2 | carry.pairs >> 62);
    long |= if WIDE {
        fours & (pairs << 4 | carry.pairs >> 60)
    } else {
        fours
    };
    let marks = Marks {
        ends: one & !digits,
        two: before(2),
        three: before(3),
        four: before(4),
        long,
        stray: !(digits | separators),
    };
    *carry = Carry { digits, pairs };
    marks
}

/// As `count_by_masks`.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
pub(super) unsafe fn count(blocks: &[[u8; BLOCK_BYTES]]) -> (usize, bool) {
    let c = constants();
    count_by_masks(blocks, |block| {
        // SAFETY: a block has 64 bytes.
        let digits = unsafe { digits_before(block.as_ptr(), 0, &c) };
        _mm512_cmplt_epu8_mask(digits, c.ten)
    })
}

/// Eight-bit samples.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn narrow<const COMMAS: bool>(job: Job<'_>) -> Run {
    let maxval = job.maxval;
    let c = constants();
    let mut carry = Carry::default();
    by_chunks(job, 1, |chunk| {
        let Chunk {
            text,
            at,
            blocks,
            out,
        } = chunk;
        let mut next = 0;
        let mut wrong = 0;
        let (mut over, mut looked_up, mut most) = (
            _mm512_setzero_si512(),
            _mm512_setzero_si512(),
            _mm512_setzero_si512(),
        );
        for block in 0..blocks {
            // SAFETY: `by_chunks` promises `blocks` whole blocks from `at` on in the text, and that
            // `at` is at least BEFORE_BYTES behind its start.
            let block = unsafe { text.as_ptr().add(at + block * BLOCK_BYTES) };
            // SAFETY: as above.
            let (m, s1, s2, s3) = unsafe {
                (
                    marks::<COMMAS, false>(block, &mut carry, &c),
                    digits_before(block, 1, &c),
                    digits_before(block, 2, &c),
                    digits_before(block, 3, &c),
                )
            };
            wrong |= m.long | m.stray;
            let low = _mm512_add_epi8(s1, _mm512_shuffle_epi8(c.tens, s2));
            let high = _mm512_maskz_shuffle_epi8(m.ends & m.two, c.hundreds, s3);
            let sum = _mm512_add_epi8(low, high);
            // 0xF4: a | (b & !c), where c is the sum.
            over = _mm512_ternarylogic_epi64::<0xF4>(over, high, sum);
            looked_up = _mm512_or_si512(looked_up, high);
            let values = _mm512_maskz_compress_epi8(m.ends, sum);
            most = _mm512_max_epu8(most, values);
            debug_assert!(next + SAMPLES_PER_BLOCK <= out.len());
            // SAFETY: `by_chunks` promises room for SAMPLES_PER_BLOCK samples for each block,
            // and no block before this one made more.
            unsafe {
                let values = _mm512_castsi512_si256(values);
                _mm256_storeu_si256(out.as_mut_ptr().add(next).cast(), values);
            }
            next += m.ends.count_ones() as usize;
        }
        let too_large = _mm512_test_epi8_mask(looked_up, _mm512_set1_epi8(TOO_LARGE_BIT as i8))
            | _mm512_cmpgt_epu8_mask(most, _mm512_set1_epi8(maxval as u8 as i8))
            | _mm512_movepi8_mask(over);
        if wrong | too_large != 0 {
            return None;
        }
        Some(next)
    })
}

/// Sixteen-bit samples; `out` holds two bytes for each.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn wide<const COMMAS: bool>(job: Job<'_>) -> Run {
    let maxval = job.maxval;
    let c = constants();
    let mut carry = Carry::default();
    by_chunks(job, 2, |chunk| {
        let Chunk {
            text,
            at,
            blocks,
            out,
        } = chunk;
        let mut next = 0;
        let mut wrong = 0;
        let (mut over, mut most_top, mut most) = (
            _mm512_setzero_si512(),
            _mm256_setzero_si256(),
            _mm512_setzero_si512(),
        );
        for block in 0..blocks {
            // SAFETY: as in `narrow`.
            let block = unsafe { text.as_ptr().add(at + block * BLOCK_BYTES) };
            // SAFETY: as in `narrow`.
            let (m, s1, s2, s3, s4, s5) = unsafe {
                (
                    marks::<COMMAS, true>(block, &mut carry, &c),
                    digits_before(block, 1, &c),
                    digits_before(block, 2, &c),
                    digits_before(block, 3, &c),
                    digits_before(block, 4, &c),
                    digits_before(block, 5, &c),
                )
            };
            wrong |= m.long | m.stray;
            let third = m.ends & m.two;
            let fourth = third & m.three;
            let low = _mm512_add_epi8(s1, _mm512_shuffle_epi8(c.tens, s2));
            let high = _mm512_add_epi8(
                _mm512_maskz_shuffle_epi8(third, c.ones, s3),
                _mm512_maskz_shuffle_epi8(fourth, c.tens, s4),
            );
            let top = _mm512_maskz_shuffle_epi8(fourth & m.four, c.ones, s5);
            let packed =
                |values| _mm512_castsi512_si256(_mm512_maskz_compress_epi8(m.ends, values));
            let top = packed(top);
            most_top = _mm256_max_epu8(most_top, top);
            let top = _mm512_mullo_epi16(_mm512_cvtepu8_epi16(top), _mm512_set1_epi16(10_000));
            let high =
                _mm512_mullo_epi16(_mm512_cvtepu8_epi16(packed(high)), _mm512_set1_epi16(100));
            let low = _mm512_add_epi16(_mm512_cvtepu8_epi16(packed(low)), high);
            let sum = _mm512_add_epi16(low, top);
            // 40000 and more have the sign set; a sum without it has gone past 65535.
            over = _mm512_ternarylogic_epi64::<0xF4>(over, top, sum);
            most = _mm512_max_epu16(most, sum);
            debug_assert!(2 * (next + SAMPLES_PER_BLOCK) <= out.len());
            // SAFETY: as in `narrow`, with two bytes for each sample.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(2 * next).cast(), sum) };
            next += m.ends.count_ones() as usize;
        }
        let top_too_large = _mm256_cmpgt_epu8_mask(most_top, _mm256_set1_epi8(TOP_MAX as i8));
        let too_large = _mm512_cmpgt_epu16_mask(most, _mm512_set1_epi16(maxval as i16))
            | _mm512_movepi16_mask(over)
            | top_too_large;
        if wrong | u64::from(too_large) != 0 {
            return None;
        }
        Some(next)
    })
}
