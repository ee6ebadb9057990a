//! The portable kernel: safe code for any machine.
//!
//! Each block takes two steps. The first computes for every position what the vector kernels
//! compute: whether a sample ends there, its value (of a wide one in pairs of digits: ones and
//! tens; hundreds and thousands; ten thousands), and whether that is too large. It consists of
//! loops over byte arrays of constant length, with only comparisons, arithmetic and logic, which
//! compilers vectorize on every machine with vectors. The second gathers the ends into a bit mask,
//! a word of eight bytes at a time, and takes them out of it one by one. No step depends on the
//! previous number.
//!
//! (A first step on words of eight bytes, without vectors, takes twice the time, and so does
//! finding the digits of each number in the word before its end.)

use super::{BEFORE_BYTES, BLOCK_BYTES, Chunk, Job, Run, SAMPLES_PER_BLOCK, by_chunks, sample};

/// Samples written without checking how many are left.
const GROUP: usize = 4;

const _: () = assert!(SAMPLES_PER_BLOCK.is_multiple_of(GROUP));

/// A block and the bytes before it.
type Around = [u8; BEFORE_BYTES + BLOCK_BYTES];

/// A byte for each position of a block.
type Bytes = [u8; BLOCK_BYTES];

/// The result of a block's first step, by position.
struct Places {
    /// 1 at separators directly after a digit, where samples end, otherwise 0.
    ends: Bytes,
    /// Of the number before each position: the whole of a narrow sample; ones and tens of a wide
    /// one.
    low: Bytes,
    /// Hundreds and thousands of wide samples.
    high: Bytes,
    /// Ten thousands.
    top: Bytes,
    /// Not zero if there are bytes that are neither digit nor separator, or numbers with too many
    /// digits or above the maximal value.
    wrong: u8,
}

/// The maximal value in the same parts: ten thousands, hundreds with thousands, ones with tens.
#[derive(Clone, Copy)]
struct Most {
    top: u8,
    high: u8,
    low: u8,
}

impl Most {
    fn new(maxval: u16) -> Most {
        Most {
            top: (maxval / 10_000) as u8,
            high: (maxval / 100 % 100) as u8,
            low: (maxval % 100) as u8,
        }
    }
}

/// Returns the 64 bytes that begin `before` bytes before a block.
#[inline]
fn earlier(around: &Around, before: usize) -> &Bytes {
    let bytes = around[BEFORE_BYTES - before..].first_chunk();
    bytes.expect("before is 8 at most")
}

/// Returns the digit that a byte represents; 10 or more if it is not a digit.
#[inline]
fn digit(byte: u8) -> u8 {
    byte.wrapping_sub(b'0')
}

#[inline]
fn places<const BYTES: usize>(around: &Around, most: Most) -> Places {
    let mut places = Places {
        ends: [0; BLOCK_BYTES],
        low: [0; BLOCK_BYTES],
        high: [0; BLOCK_BYTES],
        top: [0; BLOCK_BYTES],
        wrong: 0,
    };
    let (here, one, two) = (earlier(around, 0), earlier(around, 1), earlier(around, 2));
    let (three, four) = (earlier(around, 3), earlier(around, 4));
    let (five, six) = (earlier(around, 5), earlier(around, 6));
    let mut wrong = false;
    for at in 0..BLOCK_BYTES {
        let byte = here[at];
        let is_digit = digit(byte) < 10;
        let (ones, tens) = (digit(one[at]), digit(two[at]));
        let (hundreds, thousands) = (digit(three[at]), digit(four[at]));
        let first = ones < 10;
        let second = first & (tens < 10);
        let third = second & (hundreds < 10);
        let fourth = third & (thousands < 10);
        let known = is_digit | (byte == b' ') | (byte.wrapping_sub(0x09) < 5);
        let end = !is_digit & first;
        places.ends[at] = u8::from(end);
        let low = ones.wrapping_add(if second { tens.wrapping_mul(10) } else { 0 });
        let mut high = if third { hundreds } else { 0 };
        let mut long = fourth;
        let mut too_large = (high == most.high) & (low > most.low) | (high > most.high);
        if BYTES == 2 {
            let fifth = fourth & (digit(five[at]) < 10);
            high += if fourth {
                thousands.wrapping_mul(10)
            } else {
                0
            };
            let top = if fifth { digit(five[at]) } else { 0 };
            long = fifth & (digit(six[at]) < 10);
            too_large = (high == most.high) & (low > most.low) | (high > most.high);
            too_large = (top == most.top) & too_large | (top > most.top);
            places.low[at] = low;
            places.high[at] = high;
            places.top[at] = top;
        } else {
            // Hundreds above 2 are too large, whatever the maximal value.
            let hundreds = if high > 0 { 100u8 } else { 0 };
            let more = if high > 1 { 100 } else { 0 };
            places.low[at] = low.wrapping_add(hundreds).wrapping_add(more);
        }
        wrong |= !known | end & (long | too_large);
    }
    places.wrong = u8::from(wrong);
    places
}

/// Returns a mask whose bit n is byte n; all bytes must be 0 or 1.
#[inline]
fn mask(bytes: &Bytes) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.iter().enumerate();
    words.fold(0, |mask, (index, word)| {
        // The product's highest byte has each of the eight bytes at its own bit.
        let bits = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask | bits << (8 * index)
    })
}

/// Writes the samples that end at `ends`.
///
/// Works on four at a time without checking how many are left, so that the branch is predictable:
/// with none left it writes samples from the last position, which are ignored. (With its highest
/// bit set, `ends` is never 0, which would need extra instructions on many machines.)
#[inline]
fn samples<const BYTES: usize>(places: &Places, mut ends: u64, slots: &mut [u8]) {
    let groups = (ends.count_ones() as usize).div_ceil(GROUP);
    for group in slots.chunks_exact_mut(GROUP * BYTES).take(groups) {
        for slot in group.as_chunks_mut::<BYTES>().0 {
            let end = (ends | 1 << (BLOCK_BYTES - 1)).trailing_zeros() as usize;
            ends &= ends.wrapping_sub(1);
            let mut value = u32::from(places.low[end]);
            if BYTES == 2 {
                value += 100 * u32::from(places.high[end]) + 10_000 * u32::from(places.top[end]);
            }
            *slot = sample::<BYTES>(value as u16);
        }
    }
}

/// Converts text to samples of one byte, or of two, which may have more than three digits.
pub(super) fn run<const BYTES: usize>(job: Job<'_>) -> Run {
    let most = Most::new(job.maxval);
    by_chunks(job, BYTES, |chunk| {
        let Chunk {
            text,
            at,
            blocks,
            out,
        } = chunk;
        let (mut next, mut wrong) = (0, 0);
        for block in 0..blocks {
            let base = at + block * BLOCK_BYTES;
            // `by_chunks` guarantees eight bytes before the block.
            let around = text[base - BEFORE_BYTES..]
                .first_chunk()
                .expect("a whole block");
            let places = places::<BYTES>(around, most);
            let ends = mask(&places.ends);
            wrong |= places.wrong;
            let slots = &mut out[next * BYTES..][..SAMPLES_PER_BLOCK * BYTES];
            samples::<BYTES>(&places, ends, slots);
            next += ends.count_ones() as usize;
        }
        (wrong == 0).then_some(next)
    })
}
