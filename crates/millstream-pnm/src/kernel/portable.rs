//! The portable kernel: safe code for any machine.
//!
//! Two steps for each block. The first computes for every place what the vector kernels compute:
//! whether it is a digit, and the pairs of digits before it (ones and tens; hundreds and thousands;
//! ten thousands). It is written as loops over bytes of arrays whose length is known, with nothing
//! but comparisons, additions and logic, of which compilers make vectors on every machine that has
//! some. The second gathers the ends into a bit mask, a word of eight bytes at a time, and takes
//! them out of it one by one. No step waits for the number before.
//!
//! (Words of eight bytes instead of bytes in the first step, which need no vectors, took twice the
//! time, and so did finding the digits anew for each number in the word before its end.)

use super::{BEFORE_BYTES, BLOCK_BYTES, Job, Run, SAMPLES_PER_BLOCK, back_up, blocks_of_chunk};

/// Samples that are made without asking how many are left.
const GROUP: usize = 4;

const _: () = assert!(SAMPLES_PER_BLOCK.is_multiple_of(GROUP));

/// What samples of the portable kernel are.
pub(super) trait Sample {
    /// Bytes of a sample in memory.
    const BYTES: usize;
    /// Whether it has more than three digits.
    const WIDE: bool;
    /// Puts the sample into its bytes.
    fn put(value: u32, to: &mut [u8]);
}

impl Sample for u8 {
    const BYTES: usize = 1;
    const WIDE: bool = false;
    #[inline]
    fn put(value: u32, to: &mut [u8]) {
        to[0] = value as u8;
    }
}

impl Sample for u16 {
    const BYTES: usize = 2;
    const WIDE: bool = true;
    #[inline]
    fn put(value: u32, to: &mut [u8]) {
        to.copy_from_slice(&(value as u16).to_ne_bytes());
    }
}

/// A block and the bytes before it.
type Around = [u8; BEFORE_BYTES + BLOCK_BYTES];

/// A byte for each place of a block.
type Bytes = [u8; BLOCK_BYTES];

/// What a block holds, place for place; one place more, which is 0, for [`samples`].
struct Places {
    /// 1 at bytes that are no digits, and at commas that separate; else 0.
    gaps: Bytes,
    commas: Bytes,
    /// Ones and tens of the number before each place.
    low: [u8; BLOCK_BYTES + 1],
    /// Hundreds, and thousands of wide samples.
    high: [u8; BLOCK_BYTES + 1],
    /// Ten thousands.
    top: [u8; BLOCK_BYTES + 1],
    /// Not zero if there are bytes that are neither digit nor separator, or numbers with too many
    /// digits.
    wrong: u8,
}

/// The bytes of a block, `before` bytes earlier.
#[inline]
fn earlier(around: &Around, before: usize) -> &Bytes {
    let bytes = around[BEFORE_BYTES - before..].first_chunk();
    bytes.expect("before is 8 at most")
}

/// The digit that a byte is; 10 or more if it is none.
#[inline]
fn digit(byte: u8) -> u8 {
    byte.wrapping_sub(b'0')
}

#[inline]
fn places<S: Sample, const COMMAS: bool>(around: &Around) -> Places {
    let mut places = Places {
        gaps: [0; BLOCK_BYTES],
        commas: [0; BLOCK_BYTES],
        low: [0; BLOCK_BYTES + 1],
        high: [0; BLOCK_BYTES + 1],
        top: [0; BLOCK_BYTES + 1],
        wrong: 0,
    };
    let (here, one, two) = (earlier(around, 0), earlier(around, 1), earlier(around, 2));
    let (three, four) = (earlier(around, 3), earlier(around, 4));
    let (five, six) = (earlier(around, 5), earlier(around, 6));
    let mut wrong = 0;
    for (at, &byte) in here.iter().enumerate() {
        let is_digit = digit(byte) < 10;
        let mut known = is_digit | (byte == b' ') | (byte.wrapping_sub(0x09) < 5);
        if COMMAS {
            known |= byte == b',';
            places.commas[at] = u8::from(byte == b',');
        }
        places.gaps[at] = u8::from(!is_digit);
        wrong |= u8::from(!known);
    }
    for at in 0..BLOCK_BYTES {
        let (ones, tens) = (digit(one[at]), digit(two[at]));
        let (hundreds, thousands) = (digit(three[at]), digit(four[at]));
        let second = (ones < 10) & (tens < 10);
        let third = second & (hundreds < 10);
        let fourth = third & (thousands < 10);
        places.low[at] = ones.wrapping_add(if second { 10 * tens } else { 0 });
        let mut high = if third { hundreds } else { 0 };
        let mut long = fourth;
        if S::WIDE {
            let fifth = fourth & (digit(five[at]) < 10);
            high += if fourth { 10 * thousands } else { 0 };
            places.top[at] = if fifth { digit(five[at]) } else { 0 };
            long = fifth & (digit(six[at]) < 10);
        }
        places.high[at] = high;
        wrong |= places.gaps[at] & u8::from(long);
    }
    places.wrong = wrong;
    places
}

/// Bit n: byte n, all of which are 0 or 1.
#[inline]
fn mask(bytes: &Bytes) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.iter().enumerate();
    words.fold(0, |mask, (index, word)| {
        // The product's highest byte has each of the eight at its own bit.
        let bits = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask | bits << (8 * index)
    })
}

/// Makes the samples that end at `ends`; the greatest.
///
/// Works on four at a time without asking how many are left, so that the branch is foreseen: with
/// none left it takes the place behind the block, which is 0.
#[inline]
fn samples<S: Sample>(places: &Places, mut ends: u64, slots: &mut [u8]) -> u32 {
    let mut most = 0;
    let groups = (ends.count_ones() as usize).div_ceil(GROUP);
    for group in slots.chunks_exact_mut(GROUP * S::BYTES).take(groups) {
        for slot in group.chunks_exact_mut(S::BYTES) {
            let end = ends.trailing_zeros() as usize;
            ends &= ends.wrapping_sub(1);
            let mut value = u32::from(places.low[end]) + 100 * u32::from(places.high[end]);
            if S::WIDE {
                value += 10_000 * u32::from(places.top[end]);
            }
            most = most.max(value);
            S::put(value, slot);
        }
    }
    most
}

/// Converts.
pub(super) fn run<S: Sample, const COMMAS: bool>(job: Job<'_>) -> Run {
    let Job {
        text,
        start,
        out,
        maxval,
    } = job;
    let (mut at, mut produced) = (start, 0);
    let mut gap_before = 1;
    assert!(start >= BEFORE_BYTES && start <= text.len());
    loop {
        let blocks = blocks_of_chunk(text.len() - at, out.len() / S::BYTES - produced);
        if blocks == 0 {
            break;
        }
        let (mut next, mut wrong, mut most) = (produced, 0, 0);
        for block in 0..blocks {
            let base = at + block * BLOCK_BYTES;
            // Eight bytes before the block are there, see the assertion.
            let around = text[base - BEFORE_BYTES..]
                .first_chunk()
                .expect("a whole block");
            let places = places::<S, COMMAS>(around);
            let gaps = mask(&places.gaps);
            let behind_gaps = gaps << 1 | gap_before;
            let ends = gaps & !behind_gaps;
            gap_before = gaps >> 63;
            wrong |= u64::from(places.wrong);
            if COMMAS {
                // A comma must follow a number at once; all other ways are the plain parser's.
                wrong |= mask(&places.commas) & behind_gaps;
            }
            let slots = &mut out[next * S::BYTES..][..SAMPLES_PER_BLOCK * S::BYTES];
            most = samples::<S>(&places, ends, slots).max(most);
            next += ends.count_ones() as usize;
        }
        if wrong != 0 || most > u32::from(maxval) {
            break;
        }
        at += blocks * BLOCK_BYTES;
        produced = next;
    }
    back_up(text, start, at, produced)
}
