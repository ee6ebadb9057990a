//! The kernel for x86-64 with AVX2 (Haswell, Zen and later).
//!
//! As `kernel` describes; the values are moved to the front in two steps. Token ends never stand
//! side by side, so each pair of bytes holds at most one: pairs become slots of one byte, and eight
//! slots at a time are compacted by a shuffle out of a table with 256 entries. (Bit extraction
//! would do it too, and takes hundreds of cycles on the first two generations of Zen.)
//!
//! # Safety
//! Every function here needs the features that [`is_available`] asks for. Loads and stores are
//! bounded as in `avx512`: a group of 16 bytes of text has at most 8 token ends and stores 8
//! samples from the place of the next sample on.
#![expect(
    unsafe_code,
    reason = "vector instructions and unaligned loads and stores"
)]

use std::arch::x86_64::*;

use super::tables::{COMPACT, HUNDREDS, ONES, Row, TENS, TOO_LARGE_BIT, TOP_MAX, WHITE};
use super::{BLOCK_BYTES, Chunk, Job, Run, SAMPLES_PER_BLOCK, by_chunks, count_by_masks};

/// Whether this machine can run it.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
}

/// Bytes of a vector.
const HALF_BYTES: usize = 32;

/// Constants in registers.
struct Constants {
    minus_zero: __m256i,
    nine: __m256i,
    white: __m256i,
    ones: __m256i,
    tens: __m256i,
    hundreds: __m256i,
    one: __m256i,
}

/// What is wrong so far, as vectors that are looked at once in a chunk.
struct Wrong {
    /// Bytes that are not zero.
    stray: __m256i,
    /// Bytes with their sign set.
    signs: __m256i,
    /// The union of all hundreds.
    looked_up: __m256i,
    /// The greatest byte at each place.
    most: __m256i,
}

/// Which bytes are no digits, with what the block before left.
struct Gaps {
    gaps: u64,
    pairs: u64,
    /// Bits are cleared where a run of digits is too long.
    good: u64,
}

#[inline]
#[target_feature(enable = "avx2")]
fn row(row: &Row) -> __m256i {
    // SAFETY: a row has sixteen bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(row.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn constants() -> Constants {
    Constants {
        minus_zero: _mm256_set1_epi8((b'0' as i8).wrapping_neg()),
        nine: _mm256_set1_epi8(9),
        white: row(&WHITE),
        ones: row(&ONES),
        tens: row(&TENS),
        hundreds: row(&HUNDREDS),
        one: _mm256_set1_epi8(1),
    }
}

impl Wrong {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn nothing() -> Wrong {
        Wrong {
            stray: _mm256_setzero_si256(),
            signs: _mm256_setzero_si256(),
            looked_up: _mm256_setzero_si256(),
            most: _mm256_setzero_si256(),
        }
    }

    /// Whether anything was wrong but samples above the maximal value.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn is_any(&self) -> bool {
        let bits = _mm256_set1_epi8(TOO_LARGE_BIT as i8);
        _mm256_testz_si256(self.stray, self.stray) == 0
            || _mm256_movemask_epi8(self.signs) != 0
            || _mm256_testz_si256(self.looked_up, bits) == 0
    }
}

impl Gaps {
    /// Before the first block: behind a separator.
    const NONE: Gaps = Gaps {
        gaps: u64::MAX,
        pairs: u64::MAX,
        good: u64::MAX,
    };

    #[inline]
    fn add<const WIDE: bool>(&mut self, gaps: u64) {
        let pairs = gaps | gaps << 1 | self.gaps >> 63;
        let fours = pairs | pairs << 2 | self.pairs >> 62;
        self.good &= if WIDE {
            fours | pairs << 4 | self.pairs >> 60
        } else {
            fours
        };
        self.gaps = gaps;
        self.pairs = pairs;
    }
}

/// The 32 bytes that begin `before` bytes ahead of `half`, each less `'0'`.
///
/// # Safety
/// They are inside the text.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn digits_before(half: *const u8, before: usize, c: &Constants) -> __m256i {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm256_loadu_si256(half.sub(before).cast()) };
    _mm256_add_epi8(bytes, c.minus_zero)
}

/// `values` where the sign of `signs` is set, else 0.
#[inline]
#[target_feature(enable = "avx2")]
fn where_signed(signs: __m256i, values: __m256i) -> __m256i {
    _mm256_blendv_epi8(_mm256_setzero_si256(), values, signs)
}

/// Bytes of `half` less `'0'`; strays are noted.
///
/// # Safety
/// 32 bytes from `half` on are inside the text.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn classified<const COMMAS: bool>(
    half: *const u8,
    s1: __m256i,
    wrong: &mut Wrong,
    c: &Constants,
) -> __m256i {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm256_loadu_si256(half.cast()) };
    let s0 = _mm256_add_epi8(bytes, c.minus_zero);
    let mut separators = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(c.white, bytes), bytes);
    if COMMAS {
        let commas = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b',' as i8));
        separators = _mm256_or_si256(separators, commas);
        // A comma must follow a number at once; all other ways are the plain parser's.
        wrong.signs = _mm256_or_si256(wrong.signs, _mm256_and_si256(commas, s1));
    }
    let stray = _mm256_andnot_si256(separators, _mm256_subs_epu8(s0, c.nine));
    wrong.stray = _mm256_or_si256(wrong.stray, stray);
    s0
}

/// The slots of two halves: 32 bytes, in the order of text 0-15, 32-47, 16-31, 48-63.
#[inline]
#[target_feature(enable = "avx2")]
fn slots(halves: [__m256i; 2], c: &Constants) -> __m256i {
    // Of the two bytes of a pair one is zero at least, so their sum is the other.
    let pair = |half| _mm256_maddubs_epi16(half, c.one);
    _mm256_packus_epi16(pair(halves[0]), pair(halves[1]))
}

/// Bit n: slot n is occupied. `ends` have their sign set at token ends.
#[inline]
#[target_feature(enable = "avx2")]
fn occupied(ends: [__m256i; 2]) -> u32 {
    let pair = |half| _mm256_or_si256(half, _mm256_slli_epi16::<8>(half));
    _mm256_movemask_epi8(_mm256_packs_epi16(pair(ends[0]), pair(ends[1]))) as u32
}

/// The four groups of a block in the order of the text: which 128-bit lane, which half of it.
const GROUPS: [(bool, usize); 4] = [(false, 0), (true, 0), (false, 1), (true, 1)];

/// Eight slots of a block, compacted, and their number.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn group(slots: __m256i, occupied: u32, group: (bool, usize)) -> (__m128i, usize) {
    let (upper, half) = group;
    let lane = if upper {
        _mm256_extracti128_si256::<1>(slots)
    } else {
        _mm256_castsi256_si128(slots)
    };
    let set = occupied >> (16 * u32::from(upper) + 8 * half as u32) & 0xFF;
    let order = &COMPACT[half][set as usize];
    // SAFETY: an entry has eight bytes.
    let order = unsafe { _mm_loadl_epi64(order.as_ptr().cast()) };
    (_mm_shuffle_epi8(lane, order), set.count_ones() as usize)
}

/// As `count_by_masks`.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn count(blocks: &[[u8; BLOCK_BYTES]]) -> (usize, bool) {
    let c = constants();
    count_by_masks(blocks, |block| {
        let mask = |half: usize| {
            // SAFETY: a block has two halves.
            let digits = unsafe { digits_before(block.as_ptr().add(half * HALF_BYTES), 0, &c) };
            let digits = _mm256_cmpeq_epi8(_mm256_min_epu8(digits, c.nine), digits);
            u64::from(_mm256_movemask_epi8(digits) as u32)
        };
        mask(0) | mask(1) << 32
    })
}

/// Eight-bit samples.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn narrow<const COMMAS: bool>(job: Job<'_>) -> Run {
    let maxval = job.maxval;
    let c = constants();
    let mut gaps = Gaps::NONE;
    by_chunks(job, 1, |chunk| {
        let Chunk {
            text,
            at,
            blocks,
            out,
        } = chunk;
        let mut next = 0;
        let mut wrong = Wrong::nothing();
        for block in 0..blocks {
            // SAFETY: `by_chunks` promises `blocks` whole blocks from `at` on in the text, and that
            // `at` is at least BEFORE_BYTES behind its start.
            let block = unsafe { text.as_ptr().add(at + block * BLOCK_BYTES) };
            let (mut values, mut ends, mut bits) = ([c.one; 2], [c.one; 2], [0; 2]);
            for half in 0..2 {
                // SAFETY: as above, for both halves of the block.
                let (s0, s1, s2, s3) = unsafe {
                    let half = block.add(half * HALF_BYTES);
                    let s1 = digits_before(half, 1, &c);
                    (
                        classified::<COMMAS>(half, s1, &mut wrong, &c),
                        s1,
                        digits_before(half, 2, &c),
                        digits_before(half, 3, &c),
                    )
                };
                bits[half] = _mm256_movemask_epi8(s0) as u32;
                let end = _mm256_andnot_si256(s1, s0);
                let third = _mm256_andnot_si256(s2, end);
                let low = _mm256_add_epi8(s1, _mm256_shuffle_epi8(c.tens, s2));
                let high = where_signed(third, _mm256_shuffle_epi8(c.hundreds, s3));
                let sum = _mm256_add_epi8(low, high);
                wrong.signs = _mm256_or_si256(wrong.signs, _mm256_andnot_si256(sum, high));
                wrong.looked_up = _mm256_or_si256(wrong.looked_up, high);
                values[half] = where_signed(end, sum);
                wrong.most = _mm256_max_epu8(wrong.most, values[half]);
                ends[half] = end;
            }
            gaps.add::<false>(u64::from(bits[0]) | u64::from(bits[1]) << 32);
            let (slots, set) = (slots(values, &c), occupied(ends));
            debug_assert!(next + SAMPLES_PER_BLOCK <= out.len());
            for which in GROUPS {
                let (samples, count) = group(slots, set, which);
                // SAFETY: `by_chunks` promises room for SAMPLES_PER_BLOCK samples for each
                // block, eight for each group; no group before this one made more.
                unsafe { _mm_storel_epi64(out.as_mut_ptr().add(next).cast(), samples) };
                next += count;
            }
        }
        let most = _mm256_set1_epi8(maxval as u8 as i8);
        let too_large = _mm256_subs_epu8(wrong.most, most);
        if wrong.is_any() || gaps.good != u64::MAX || _mm256_testz_si256(too_large, too_large) == 0
        {
            return None;
        }
        Some(next)
    })
}

/// Sixteen-bit samples; `out` holds two bytes for each.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn wide<const COMMAS: bool>(job: Job<'_>) -> Run {
    let maxval = job.maxval;
    let c = constants();
    let weights = _mm_set1_epi16(100 << 8 | 1);
    let mut gaps = Gaps::NONE;
    by_chunks(job, 2, |chunk| {
        let Chunk {
            text,
            at,
            blocks,
            out,
        } = chunk;
        let mut next = 0;
        let mut wrong = Wrong::nothing();
        let (mut over, mut most) = (_mm_setzero_si128(), _mm_setzero_si128());
        for block in 0..blocks {
            // SAFETY: as in `narrow`.
            let block = unsafe { text.as_ptr().add(at + block * BLOCK_BYTES) };
            let mut parts = [[c.one; 2]; 3];
            let (mut ends, mut bits) = ([c.one; 2], [0; 2]);
            for half in 0..2 {
                // SAFETY: as in `narrow`.
                let (s0, s1, s2, s3, s4, s5) = unsafe {
                    let half = block.add(half * HALF_BYTES);
                    let s1 = digits_before(half, 1, &c);
                    (
                        classified::<COMMAS>(half, s1, &mut wrong, &c),
                        s1,
                        digits_before(half, 2, &c),
                        digits_before(half, 3, &c),
                        digits_before(half, 4, &c),
                        digits_before(half, 5, &c),
                    )
                };
                bits[half] = _mm256_movemask_epi8(s0) as u32;
                let end = _mm256_andnot_si256(s1, s0);
                let third = _mm256_andnot_si256(s2, end);
                let fourth = _mm256_andnot_si256(s3, third);
                let fifth = _mm256_andnot_si256(s4, fourth);
                let low = _mm256_add_epi8(s1, _mm256_shuffle_epi8(c.tens, s2));
                let high = _mm256_add_epi8(
                    where_signed(third, _mm256_shuffle_epi8(c.ones, s3)),
                    where_signed(fourth, _mm256_shuffle_epi8(c.tens, s4)),
                );
                let top = where_signed(fifth, _mm256_shuffle_epi8(c.ones, s5));
                wrong.most = _mm256_max_epu8(wrong.most, top);
                parts[0][half] = where_signed(end, low);
                parts[1][half] = high;
                parts[2][half] = top;
                ends[half] = end;
            }
            gaps.add::<true>(u64::from(bits[0]) | u64::from(bits[1]) << 32);
            let (parts, set) = (parts.map(|part| slots(part, &c)), occupied(ends));
            debug_assert!(2 * (next + SAMPLES_PER_BLOCK) <= out.len());
            for which in GROUPS {
                let (low, count) = group(parts[0], set, which);
                let (high, _) = group(parts[1], set, which);
                let (top, _) = group(parts[2], set, which);
                let low = _mm_maddubs_epi16(_mm_unpacklo_epi8(low, high), weights);
                let top = _mm_mullo_epi16(_mm_cvtepu8_epi16(top), _mm_set1_epi16(10_000));
                let sum = _mm_add_epi16(low, top);
                // 40000 and more have the sign set; a sum without it has gone past 65535.
                over = _mm_or_si128(over, _mm_andnot_si128(sum, top));
                // Slots that are not occupied are 0.
                most = _mm_max_epu16(most, sum);
                // SAFETY: as in `narrow`, with two bytes for each sample.
                unsafe { _mm_storeu_si128(out.as_mut_ptr().add(2 * next).cast(), sum) };
                next += count;
            }
        }
        let too_large = _mm_subs_epu16(most, _mm_set1_epi16(maxval as i16));
        let top_too_large = _mm256_subs_epu8(wrong.most, _mm256_set1_epi8(TOP_MAX as i8));
        let over = _mm_and_si128(over, _mm_set1_epi16(i16::MIN));
        if wrong.is_any()
            || gaps.good != u64::MAX
            || _mm_testz_si128(too_large, too_large) == 0
            || _mm256_testz_si256(top_too_large, top_too_large) == 0
            || _mm_testz_si128(over, over) == 0
        {
            return None;
        }
        Some(next)
    })
}
