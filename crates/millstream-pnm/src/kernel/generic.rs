//! The kernel over vectors: one algorithm, which `avx2`, `avx512` and `neon` instantiate.
//!
//! As `kernel` describes, with a step of one or two vectors. A mask is a vector of which only the
//! signs count: after `'0'` is subtracted, separators are negative and digits are not, so no digit
//! has to be compared with anything. (Strays may have any sign; they fail the chunk.)
//!
//! # Safety
//! A value of a [`Vector`] is made only by its unsafe functions, whose callers promise that the
//! machine has the features of the type; so a value proves it, and its methods are safe. All are
//! `#[inline(always)]`: their instructions may be used only inside a function with the matching
//! `#[target_feature]`, which is the one that calls [`run`].
//!
//! Loads begin at most `BEFORE_BYTES` before a step and end with it. Half of the bytes of a step
//! are ends at most, because two ends never stand side by side, and stores reach no further than
//! so many samples from the place of the next one.
#![expect(unsafe_code, reason = "unaligned loads and stores")]

use super::tables::{HUNDREDS, ONES, Row, TENS, TOO_LARGE_BIT, TOP_MAX, WHITE};
use super::{Chunk, Job, Run, SAMPLES_PER_BLOCK, by_chunks};

/// A vector of bytes, see the module. Comparisons are of unsigned bytes.
pub(super) trait Vector: Copy {
    /// Bytes of a vector.
    const BYTES: usize;
    /// Vectors of a step, 1 or 2; with 1, the second of a pair is not looked at.
    const PARTS: usize;
    /// Slots of a step: two ends never stand side by side.
    const SLOTS: usize = Self::BYTES * Self::PARTS / 2;
    /// The slots of a step are moved to the front in so many groups of the same size.
    const GROUPS: usize;
    /// The occupied slots of a group, at the front; zeros follow.
    type Group: Copy;
    /// Those as sixteen-bit samples.
    type Words: Copy;

    /// # Safety
    /// The machine has the features of the type, and a vector can be read at `from`.
    unsafe fn load(from: *const u8) -> Self;
    /// A vector of equal bytes.
    ///
    /// # Safety
    /// The machine has the features of the type.
    unsafe fn splat(byte: u8) -> Self;
    /// A vector of equal rows.
    ///
    /// # Safety
    /// The machine has the features of the type.
    unsafe fn row(row: &Row) -> Self;

    fn add(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// `self & !other`.
    fn and_not(self, other: Self) -> Self;
    /// All bits of equal bytes.
    fn eq(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// By how much bytes exceed those of `most`, else 0.
    fn excess(self, most: Self) -> Self;
    /// Entries of a row, by indices below 16; 0 for negative ones.
    fn look_up(self, indices: Self) -> Self;
    /// Makes bytes without a sign indices of a row: their low four bits. (A shuffle of x86 looks at
    /// no others.)
    #[inline(always)]
    fn low_bits(self) -> Self {
        self
    }
    /// The bytes where the sign of `signs` is set, else 0.
    fn where_signed(self, signs: Self) -> Self;
    fn is_zero(self) -> bool;
    fn has_signs(self) -> bool;

    /// The set of slots that are occupied, by the signs of both vectors of a step.
    fn occupied(self, second: Self) -> u64;
    /// The slots of a step; bytes that are not ends are 0. A step of one vector has no pairs.
    #[inline(always)]
    fn slots(self, _second: Self) -> Self {
        self
    }
    /// One group of slots, and how many are occupied.
    fn group(self, occupied: u64, index: usize) -> (Self::Group, usize);
    /// Stores the samples of a group.
    ///
    /// # Safety
    /// `to` has room for a byte for each slot of the group.
    unsafe fn store(group: Self::Group, to: *mut u8);

    /// Words of 0.
    fn no_words(self) -> Self::Words;
    /// `low + 100 * high + 10_000 * top`, noted in `seen`.
    fn sum(groups: [Self::Group; 3], seen: &mut Seen<Self::Words>) -> Self::Words;
    /// Whether a sum is above `maxval` or went past 65535.
    fn exceeds(seen: &Seen<Self::Words>, maxval: u16) -> bool;
    /// Stores the samples of a group.
    ///
    /// # Safety
    /// `to` has room for two bytes for each slot of the group.
    unsafe fn store_words(words: Self::Words, to: *mut u8);
}

/// Defines methods of a [`Vector`] by instructions.
macro_rules! operations {
    (unsafe: $(fn $make:ident($($from:ident: $type:ty),*) $(-> $made:ty)? $how:block)*
     safe: $(fn $name:ident($($arg:tt $(: $arg_type:ty)?),*) -> $result:ty $body:block)*) => {
        $(
            #[inline(always)]
            unsafe fn $make($($from: $type),*) $(-> $made)? {
                // SAFETY: the caller's promise, see `Vector`.
                unsafe { $how }
            }
        )*
        $(
            #[inline(always)]
            fn $name($($arg $(: $arg_type)?),*) -> $result {
                // SAFETY: the vectors prove that the machine has the features, see `generic`.
                unsafe { $body }
            }
        )*
    };
}
pub(super) use operations;

/// What sixteen-bit sums were so far.
pub(super) struct Seen<W> {
    /// Signs: sums that went past 65535. 40000 and more have the sign set, so a sum of them
    /// without it has.
    pub(super) over: W,
    /// The greatest at each place.
    pub(super) most: W,
}

/// Constants in registers.
struct Constants<V> {
    zero: V,
    minus_zero_digit: V,
    nine: V,
    white: V,
    ones: V,
    tens: V,
    hundreds: V,
}

impl<V: Vector> Constants<V> {
    /// # Safety
    /// The machine has the features of the type.
    #[inline(always)]
    unsafe fn new() -> Constants<V> {
        // SAFETY: the caller's promise.
        unsafe {
            Constants {
                zero: V::splat(0),
                minus_zero_digit: V::splat(b'0'.wrapping_neg()),
                nine: V::splat(9),
                white: V::row(&WHITE),
                ones: V::row(&ONES),
                tens: V::row(&TENS),
                hundreds: V::row(&HUNDREDS),
            }
        }
    }

    /// The bytes that begin `before` bytes ahead of `at`, each less `'0'`.
    ///
    /// # Safety
    /// They are inside the text.
    #[inline(always)]
    unsafe fn digits(&self, at: *const u8, before: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(at.sub(before)) }.add(self.minus_zero_digit)
    }
}

/// What is wrong so far, as vectors that are looked at once in a chunk.
struct Wrong<V> {
    /// Bytes that are not zero.
    stray: V,
    /// Bytes with their sign set.
    signs: V,
    /// The union of all hundreds of narrow samples.
    looked_up: V,
    /// The greatest narrow sample, or digit of ten thousands, at each place.
    most: V,
}

impl<V: Vector> Wrong<V> {
    #[inline(always)]
    fn nothing(c: &Constants<V>) -> Wrong<V> {
        Wrong {
            stray: c.zero,
            signs: c.zero,
            looked_up: c.zero,
            most: c.zero,
        }
    }

    /// Whether anything was wrong, with `most` for the greatest bytes.
    ///
    /// # Safety
    /// The machine has the features of the type.
    #[inline(always)]
    unsafe fn is_any(&self, most: u8) -> bool {
        // SAFETY: the caller's promise.
        let (too_large, most) = unsafe { (V::splat(TOO_LARGE_BIT), V::splat(most)) };
        !self.stray.is_zero()
            || self.signs.has_signs()
            || !self.looked_up.and(too_large).is_zero()
            || !self.most.excess(most).is_zero()
    }

    /// Separators right behind a digit, as signs. Notes strays.
    ///
    /// # Safety
    /// A vector can be read at `at`, of which `s1` are the digits one byte earlier.
    #[inline(always)]
    unsafe fn ends<const COMMAS: bool>(&mut self, at: *const u8, s1: V, c: &Constants<V>) -> V {
        // SAFETY: the caller's promise.
        let (bytes, comma) = unsafe { (V::load(at), V::splat(b',')) };
        let s0 = bytes.add(c.minus_zero_digit);
        let mut separators = c.white.look_up(bytes.low_bits()).eq(bytes);
        if COMMAS {
            let commas = bytes.eq(comma);
            separators = separators.or(commas);
            // A comma must follow a number at once; all other ways are the plain parser's.
            self.signs = self.signs.or(commas.and(s1));
        }
        self.stray = self.stray.or(s0.excess(c.nine).and_not(separators));
        s0.and_not(s1)
    }
}

/// Converts to samples of one byte, or two.
///
/// # Safety
/// The machine has the features of the type.
#[inline(always)]
pub(super) unsafe fn run<V, const BYTES: usize, const COMMAS: bool>(job: Job<'_>) -> Run
where
    V: Vector,
{
    let maxval = job.maxval;
    // SAFETY: the caller's promise.
    let c = unsafe { Constants::<V>::new() };
    by_chunks(job, BYTES, |chunk| {
        // SAFETY: the caller's promise, and what `by_chunks` promises of a chunk.
        unsafe {
            match BYTES {
                1 => narrow::<V, COMMAS>(chunk, maxval, &c),
                _ => wide::<V, COMMAS>(chunk, maxval, &c),
            }
        }
    })
}

/// Where the steps of a chunk begin in the text, each with room for its samples.
#[inline(always)]
fn steps<V: Vector>(chunk: &Chunk<'_>) -> impl Iterator<Item = *const u8> + use<V> {
    let first = chunk.text[chunk.at..].as_ptr();
    let steps = 0..chunk.blocks * SAMPLES_PER_BLOCK / V::SLOTS;
    steps.map(move |step| first.wrapping_add(step * 2 * V::SLOTS))
}

/// Eight-bit samples of a chunk; how many, or `None` if something in it is not usual.
///
/// # Safety
/// The machine has the features of the type, and the chunk is as `Chunk` says.
#[inline(always)]
unsafe fn narrow<V: Vector, const COMMAS: bool>(
    chunk: Chunk<'_>,
    maxval: u16,
    c: &Constants<V>,
) -> Option<usize> {
    let mut next = 0;
    let mut wrong = Wrong::nothing(c);
    for step in steps::<V>(&chunk) {
        let (mut values, mut ends) = ([c.zero; 2], [c.zero; 2]);
        for part in 0..V::PARTS {
            // SAFETY: all are in this step or at most BEFORE_BYTES before it, in the text.
            let (end, s1, s2, s3, s4) = unsafe {
                let at = step.add(part * V::BYTES);
                let s1 = c.digits(at, 1);
                let end = wrong.ends::<COMMAS>(at, s1, c);
                (end, s1, c.digits(at, 2), c.digits(at, 3), c.digits(at, 4))
            };
            let third = end.and_not(s2);
            let long = third.and_not(s3).and_not(s4);
            let low = s1.add(c.tens.look_up(s2));
            let high = c.hundreds.look_up(s3).where_signed(third);
            let sum = low.add(high);
            wrong.signs = wrong.signs.or(long).or(high.and_not(sum));
            wrong.looked_up = wrong.looked_up.or(high);
            values[part] = sum.where_signed(end);
            wrong.most = wrong.most.max(values[part]);
            ends[part] = end;
        }
        let (slots, occupied) = (values[0].slots(values[1]), ends[0].occupied(ends[1]));
        debug_assert!(next + V::SLOTS <= chunk.out.len());
        for index in 0..V::GROUPS {
            let (samples, count) = slots.group(occupied, index);
            // SAFETY: the chunk has room for all slots, and no group before this one made more.
            unsafe { V::store(samples, chunk.out.as_mut_ptr().add(next)) };
            next += count;
        }
    }
    // SAFETY: the caller's promise.
    (!unsafe { wrong.is_any(maxval as u8) }).then_some(next)
}

/// Sixteen-bit samples of a chunk, as [`narrow`].
///
/// # Safety
/// As [`narrow`].
#[inline(always)]
unsafe fn wide<V: Vector, const COMMAS: bool>(
    chunk: Chunk<'_>,
    maxval: u16,
    c: &Constants<V>,
) -> Option<usize> {
    let mut next = 0;
    let mut wrong = Wrong::nothing(c);
    let mut seen = Seen {
        over: c.zero.no_words(),
        most: c.zero.no_words(),
    };
    for step in steps::<V>(&chunk) {
        let (mut parts, mut ends) = ([[c.zero; 2]; 3], [c.zero; 2]);
        for part in 0..V::PARTS {
            // SAFETY: as in `narrow`.
            let (end, [s1, s2, s3, s4, s5, s6]) = unsafe {
                let at = step.add(part * V::BYTES);
                let digits = [1, 2, 3, 4, 5, 6].map(|before| c.digits(at, before));
                (wrong.ends::<COMMAS>(at, digits[0], c), digits)
            };
            let third = end.and_not(s2);
            let fourth = third.and_not(s3);
            let fifth = fourth.and_not(s4);
            wrong.signs = wrong.signs.or(fifth.and_not(s5).and_not(s6));
            let hundreds = c.ones.look_up(s3).where_signed(third);
            let thousands = c.tens.look_up(s4).where_signed(fourth);
            let top = c.ones.look_up(s5).where_signed(fifth);
            wrong.most = wrong.most.max(top);
            parts[0][part] = s1.add(c.tens.look_up(s2)).where_signed(end);
            parts[1][part] = hundreds.add(thousands);
            parts[2][part] = top;
            ends[part] = end;
        }
        let slots = parts.map(|[first, second]| first.slots(second));
        let occupied = ends[0].occupied(ends[1]);
        debug_assert!(2 * (next + V::SLOTS) <= chunk.out.len());
        for index in 0..V::GROUPS {
            let groups = slots.map(|slots| slots.group(occupied, index).0);
            let sum = V::sum(groups, &mut seen);
            // SAFETY: as in `narrow`, with two bytes for each slot.
            unsafe { V::store_words(sum, chunk.out.as_mut_ptr().add(2 * next)) };
            next += slots[0].group(occupied, index).1;
        }
    }
    // SAFETY: the caller's promise.
    let bad = unsafe { wrong.is_any(TOP_MAX) };
    (!bad && !V::exceeds(&seen, maxval)).then_some(next)
}
