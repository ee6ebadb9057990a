//! The 32 bit readers of a tile, and the word cursor they share.
//!
//! Invariant between turns: every lane holds 32 to 63 bits, the unread ones in the low end of its
//! buffer and zeros above them. A turn takes at most 32 bits and then refills: if fewer than 32 are
//! left, the next word of the tile goes above them. The order of refills defines the order of the
//! words in the tile, so callers must run turns, or at least their refills, in turn order.

use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, WORD_BYTES};

/// One word for each lane.
pub(crate) type Chunk = [u8; LANE_COUNT * WORD_BYTES];
/// Initial value of the buffer for [`Words::chunk`].
pub(crate) const PADDING: Chunk = [0; LANE_COUNT * WORD_BYTES];

/// A cursor over a tile's words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    bytes: &'a [u8],
    cursor: usize,
}

impl<'a> Words<'a> {
    /// Creates a cursor at the first word. `bytes` after the last whole word are never read; the
    /// caller has rejected such a tile.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, cursor: 0 }
    }

    /// Returns the number of words left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() / WORD_BYTES - self.cursor
    }

    /// Returns the number of bytes taken so far.
    pub(crate) fn offset(&self) -> usize {
        self.cursor * WORD_BYTES
    }

    /// Returns all bytes left.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.cursor * WORD_BYTES..]
    }

    /// Returns all bytes from some words before the next one on, which must have been taken.
    pub(crate) fn rest_from(&self, words_before: usize) -> &'a [u8] {
        &self.bytes[(self.cursor - words_before) * WORD_BYTES..]
    }

    /// Returns the next words as bytes without taking any. If fewer than a chunk are left, they are
    /// copied to `padding` and followed by zeros; [`Words::take`] rejects the padding.
    #[inline]
    pub(crate) fn chunk<'b>(&self, padding: &'b mut Chunk) -> &'b Chunk
    where
        'a: 'b,
    {
        self.rest().first_chunk().unwrap_or_else(|| {
            *padding = self.padded();
            padding
        })
    }

    /// Returns the words left, fewer than `LEN` bytes, followed by zeros.
    #[cold]
    pub(crate) fn padded<const LEN: usize>(&self) -> [u8; LEN] {
        let rest = self.rest();
        let mut padded = [0; LEN];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    }

    /// Takes `count` words; at least as many must be left.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.left());
        self.cursor += count;
    }

    /// Takes `count` words of a chunk, or fails if that many are not left.
    pub(crate) fn take(&mut self, count: usize) -> Result<(), ErrorKind> {
        if count > self.left() {
            return Err(ErrorKind::TruncatedTile);
        }
        self.advance(count);
        Ok(())
    }

    /// Takes the next word.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<u32, ErrorKind> {
        let word = self.rest().first_chunk().ok_or(ErrorKind::TruncatedTile)?;
        self.cursor += 1;
        Ok(u32::from_le_bytes(*word))
    }

    /// Takes the next 32 words, as bytes.
    #[inline]
    pub(crate) fn next_chunk(&mut self) -> Result<&'a Chunk, ErrorKind> {
        let chunk = self.rest().first_chunk().ok_or(ErrorKind::TruncatedTile)?;
        self.cursor += LANE_COUNT;
        Ok(chunk)
    }
}

/// The bit readers.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    /// Unread bits, the next one lowest; zeros above `counts` bits.
    pub(crate) bits: [u64; LANE_COUNT],
    /// Number of unread bits.
    pub(crate) counts: [u32; LANE_COUNT],
}

impl Lanes {
    /// Returns each lane's lower and upper half, and how many bits of the upper half are present.
    /// Every lane must hold at least 32 bits. A loop, because closures are not always inlined into
    /// functions with target features.
    #[inline(always)]
    pub(crate) fn halves(&self) -> [[u32; LANE_COUNT]; 3] {
        let [mut low, mut high, mut surplus] = [[0; LANE_COUNT]; 3];
        for lane in 0..LANE_COUNT {
            let (bits, count) = (self.bits[lane], self.counts[lane]);
            (low[lane], high[lane]) = (bits as u32, (bits >> 32) as u32);
            surplus[lane] = count - 32;
        }
        [low, high, surplus]
    }

    /// Sets the bits of all lanes from their lower and upper halves.
    #[inline(always)]
    pub(crate) fn set_halves(&mut self, low: [u32; LANE_COUNT], high: [u32; LANE_COUNT]) {
        for lane in 0..LANE_COUNT {
            self.bits[lane] = u64::from(high[lane]) << 32 | u64::from(low[lane]);
        }
    }

    /// Creates the lanes, each of which takes its first word.
    pub(crate) fn new(words: &mut Words<'_>) -> Result<Self, ErrorKind> {
        let mut bits = [0; LANE_COUNT];
        for lane in &mut bits {
            *lane = u64::from(words.next()?);
        }
        Ok(Self {
            bits,
            counts: [32; LANE_COUNT],
        })
    }

    /// Takes `count` bits of a lane without refilling it.
    #[inline]
    pub(crate) fn take(&mut self, lane: usize, count: u32) -> u32 {
        debug_assert!(count <= self.counts[lane] && count <= 16);
        let value = self.bits[lane] as u32 & ((1 << count) - 1);
        self.bits[lane] >>= count;
        self.counts[lane] -= count;
        value
    }

    /// Ends a turn of `lane`: takes the next word if fewer than 32 bits are left.
    #[inline]
    pub(crate) fn refill(&mut self, lane: usize, words: &mut Words<'_>) -> Result<(), ErrorKind> {
        if self.counts[lane] < 32 {
            self.bits[lane] |= u64::from(words.next()?) << self.counts[lane];
            self.counts[lane] += 32;
        }
        Ok(())
    }
}

/// Ends a turn with the words of a chunk, of which `used` (fewer than 32) are taken. Returns the
/// lane's new bits and their count, and the words taken, 0 or 1. Branchless, because a branch would
/// be mispredicted every third turn.
#[inline(always)]
pub(crate) fn refilled(bits: u64, count: u32, chunk: &Chunk, used: usize) -> (u64, u32, usize) {
    let at = used % LANE_COUNT * WORD_BYTES;
    let word = u32::from_le_bytes([chunk[at], chunk[at + 1], chunk[at + 2], chunk[at + 3]]);
    let is_short = count < 32;
    let more = u64::from(word & u32::from(is_short).wrapping_neg()).wrapping_shl(count);
    (bits | more, count | 32, usize::from(is_short))
}
