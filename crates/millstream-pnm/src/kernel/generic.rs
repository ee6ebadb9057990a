//! The vector kernel: one algorithm, which `avx2`, `avx512` and `neon` instantiate.
//!
//! See `kernel` for the algorithm; a step is one or two vectors. A mask is a vector of which only
//! the signs count: after `'0'` is subtracted, separators are negative and digits are not, so
//! digits need no comparison. (Stray bytes may have any sign; they fail the chunk.)
//!
//! # Safety
//! A value of a [`Vector`] is created only by its unsafe functions, whose callers guarantee that
//! the machine has the features of the type; so a value proves it, and its methods are safe. All
//! are `#[inline(always)]`: their instructions may be used only inside a function with the matching
//! `#[target_feature]`, which is the one that calls [`run`].
//!
//! Loads begin at most `BEFORE_BYTES` before a step and end within it. At most half of the bytes of
//! a step are ends, because two ends are never adjacent, and stores reach no further than that many
//! samples from the position of the next one.
#![expect(unsafe_code, reason = "unaligned loads and stores")]

use super::tables::{HUNDREDS, ONES, Row, TENS, TOO_LARGE_BIT, TOP_MAX, WHITE};
use super::{Chunk, Job, Run, SAMPLES_PER_BLOCK, by_chunks};

/// A vector of bytes, see the module. Comparisons are of unsigned bytes.
pub(super) trait Vector: Copy {
    /// Bytes per vector.
    const BYTES: usize;
    /// Vectors per step, 1 or 2; with 1, the second of a pair is ignored.
    const PARTS: usize;
    /// Slots per step, half of its bytes: two ends are never adjacent.
    const SLOTS: usize = Self::BYTES * Self::PARTS / 2;
    /// Number of equal groups in which the slots of a step are moved to the front.
    const GROUPS: usize;
    /// The occupied slots of a group, at the front; zeros follow.
    type Group: Copy;
    /// The slots of a group as sixteen-bit samples.
    type Words: Copy;

    /// # Safety
    /// The machine has the features of the type, and a vector can be read at `from`.
    unsafe fn load(from: *const u8) -> Self;
    /// Returns a vector of equal bytes.
    ///
    /// # Safety
    /// The machine has the features of the type.
    unsafe fn splat(byte: u8) -> Self;
    /// Returns a vector of equal rows.
    ///
    /// # Safety
    /// The machine has the features of the type.
    unsafe fn row(row: &Row) -> Self;

    fn add(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// `self & !other`.
    fn and_not(self, other: Self) -> Self;
    /// All bits set in equal bytes, 0 in others.
    fn eq(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// Saturating subtraction: by how much bytes exceed those of `most`, or 0.
    fn excess(self, most: Self) -> Self;
    /// Entries of a row, by indices below 16; 0 for negative ones.
    fn look_up(self, indices: Self) -> Self;
    /// Converts bytes without a sign to indices of a row: their low four bits. (The x86 shuffle
    /// ignores the other bits.)
    #[inline(always)]
    fn low_bits(self) -> Self {
        self
    }
    /// The bytes where the sign of `signs` is set, 0 elsewhere.
    fn where_signed(self, signs: Self) -> Self;
    fn is_zero(self) -> bool;
    fn has_signs(self) -> bool;

    /// The mask of occupied slots, by the signs of both vectors of a step.
    fn occupied(self, second: Self) -> u64;
    /// The slots of a step; bytes that are not ends must be 0. A step of one vector is unchanged.
    #[inline(always)]
    fn slots(self, _second: Self) -> Self {
        self
    }
    /// One group of slots, and the number of occupied ones.
    fn group(self, occupied: u64, index: usize) -> (Self::Group, usize);
    /// Stores the samples of a group.
    ///
    /// # Safety
    /// `to` has room for a byte for each slot of the group.
    unsafe fn store(group: Self::Group, to: *mut u8);

    /// Words of 0.
    fn no_words(self) -> Self::Words;
    /// `low + 100 * high + 10_000 * top`, recorded in `seen`.
    fn sum(groups: [Self::Group; 3], seen: &mut Seen<Self::Words>) -> Self::Words;
    /// Whether a sum is above `maxval` or overflowed 65535.
    fn exceeds(seen: &Seen<Self::Words>, maxval: u16) -> bool;
    /// Stores the samples of a group.
    ///
    /// # Safety
    /// `to` has room for two bytes for each slot of the group.
    unsafe fn store_words(words: Self::Words, to: *mut u8);
}

/// Defines methods of a [`Vector`] from intrinsics.
macro_rules! operations {
    (unsafe: $(fn $make:ident($($from:ident: $type:ty),*) $(-> $made:ty)? $how:block)*
     safe: $(fn $name:ident($($arg:tt $(: $arg_type:ty)?),*) -> $result:ty $body:block)*) => {
        $(
            #[inline(always)]
            unsafe fn $make($($from: $type),*) $(-> $made)? {
                // SAFETY: guaranteed by the caller, see `Vector`.
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

/// The checks of the sixteen-bit sums so far.
pub(super) struct Seen<W> {
    /// Signs: sums that overflowed 65535. 40000 and more have the sign set, so a sum with such a
    /// term but without the sign has overflowed.
    pub(super) over: W,
    /// The greatest sum of each element.
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
        // SAFETY: guaranteed by the caller.
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

    /// Loads the vector that begins `before` bytes before `at`, and subtracts `'0'` from each byte.
    ///
    /// # Safety
    /// The bytes are inside the text.
    #[inline(always)]
    unsafe fn digits(&self, at: *const u8, before: usize) -> V {
        // SAFETY: guaranteed by the caller.
        unsafe { V::load(at.sub(before)) }.add(self.minus_zero_digit)
    }
}

/// The failures so far, as vectors that are checked once per chunk.
struct Wrong<V> {
    /// Fails if any byte is not zero.
    stray: V,
    /// Fails if any sign is set.
    signs: V,
    /// The bitwise OR of all hundreds of narrow samples.
    looked_up: V,
    /// The greatest narrow sample, or ten thousands digit, of each element.
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

    /// Whether any check failed; `most` is the limit of `self.most`.
    ///
    /// # Safety
    /// The machine has the features of the type.
    #[inline(always)]
    unsafe fn is_any(&self, most: u8) -> bool {
        // SAFETY: guaranteed by the caller.
        let (too_large, most) = unsafe { (V::splat(TOO_LARGE_BIT), V::splat(most)) };
        !self.stray.is_zero()
            || self.signs.has_signs()
            || !self.looked_up.and(too_large).is_zero()
            || !self.most.excess(most).is_zero()
    }

    /// Returns the separators directly after a digit, as signs. Records stray bytes.
    ///
    /// # Safety
    /// A vector can be read at `at`, of which `s1` are the digits one byte earlier.
    #[inline(always)]
    unsafe fn ends(&mut self, at: *const u8, s1: V, c: &Constants<V>) -> V {
        // SAFETY: guaranteed by the caller.
        let bytes = unsafe { V::load(at) };
        let s0 = bytes.add(c.minus_zero_digit);
        let separators = c.white.look_up(bytes.low_bits()).eq(bytes);
        self.stray = self.stray.or(s0.excess(c.nine).and_not(separators));
        s0.and_not(s1)
    }
}

/// Converts text to samples of one or two bytes.
///
/// # Safety
/// The machine has the features of the type.
#[inline(always)]
pub(super) unsafe fn run<V, const BYTES: usize>(job: Job<'_>) -> Run
where
    V: Vector,
{
    let maxval = job.maxval;
    // SAFETY: guaranteed by the caller.
    let c = unsafe { Constants::<V>::new() };
    by_chunks(job, BYTES, |chunk| {
        // SAFETY: guaranteed by the caller, and for the chunk by `by_chunks`.
        unsafe {
            match BYTES {
                1 => narrow(chunk, maxval, &c),
                _ => wide(chunk, maxval, &c),
            }
        }
    })
}

/// Returns the pointers to the steps of a chunk, each with room for its samples.
#[inline(always)]
fn steps<V: Vector>(chunk: &Chunk<'_>) -> impl Iterator<Item = *const u8> + use<V> {
    let first = chunk.text[chunk.at..].as_ptr();
    let steps = 0..chunk.blocks * SAMPLES_PER_BLOCK / V::SLOTS;
    steps.map(move |step| first.wrapping_add(step * 2 * V::SLOTS))
}

/// Converts a chunk to eight-bit samples; returns how many, or `None` if a check failed.
///
/// # Safety
/// The machine has the features of the type, and the chunk is as `Chunk` says.
#[inline(always)]
unsafe fn narrow<V: Vector>(chunk: Chunk<'_>, maxval: u16, c: &Constants<V>) -> Option<usize> {
    let mut next = 0;
    let mut wrong = Wrong::nothing(c);
    for step in steps::<V>(&chunk) {
        let (mut values, mut ends) = ([c.zero; 2], [c.zero; 2]);
        for part in 0..V::PARTS {
            // SAFETY: all are in this step or at most BEFORE_BYTES before it, in the text.
            let (end, s1, s2, s3, s4) = unsafe {
                let at = step.add(part * V::BYTES);
                let s1 = c.digits(at, 1);
                let end = wrong.ends(at, s1, c);
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
            // SAFETY: the chunk has room for all slots, and earlier groups wrote no more samples.
            unsafe { V::store(samples, chunk.out.as_mut_ptr().add(next)) };
            next += count;
        }
    }
    // SAFETY: guaranteed by the caller.
    (!unsafe { wrong.is_any(maxval as u8) }).then_some(next)
}

/// Converts a chunk to sixteen-bit samples, like [`narrow`].
///
/// # Safety
/// As [`narrow`].
#[inline(always)]
unsafe fn wide<V: Vector>(chunk: Chunk<'_>, maxval: u16, c: &Constants<V>) -> Option<usize> {
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
                (wrong.ends(at, digits[0], c), digits)
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
    // SAFETY: guaranteed by the caller.
    let bad = unsafe { wrong.is_any(TOP_MAX) };
    (!bad && !V::exceeds(&seen, maxval)).then_some(next)
}
