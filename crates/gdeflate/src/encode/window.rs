//! A tile as the match finders see it: with room behind its end, and positions of 16 bits.
//!
//! Finding matches is little but loads at computed positions. With an array that is longer than any
//! position and any offset together can be, none of them needs a check, and the code stays safe.

use alloc::boxed::Box;

use crate::limits::TILE_RAW_BYTES;
use crate::zeroed;

/// Longest common beginning that [`Window::common`] finds.
pub(crate) const COMMON_MAX: usize = 511;

/// A tile, the longest offset, and a word.
const WINDOW_BYTES: usize = TILE_RAW_BYTES + COMMON_MAX + 1 + 8;

/// The bytes of one tile, zeros behind them.
#[derive(Debug)]
pub(crate) struct Window {
    bytes: Box<[u8; WINDOW_BYTES]>,
    len: usize,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            bytes: zeroed(),
            len: 0,
        }
    }

    /// Takes over a tile.
    pub(crate) fn set(&mut self, raw: &[u8]) {
        self.bytes[..raw.len()].copy_from_slice(raw);
        self.bytes[raw.len()..].fill(0);
        self.len = raw.len();
    }

    /// Bytes from a position to the end.
    #[inline]
    pub(crate) fn left(&self, position: u16) -> usize {
        self.len.saturating_sub(usize::from(position))
    }

    /// `N` bytes at an offset of at most [`COMMON_MAX`].
    #[inline(always)]
    fn bytes<const N: usize>(&self, position: u16, offset: usize) -> [u8; N] {
        let at = usize::from(position) + (offset & COMMON_MAX);
        let bytes = self.bytes[at..].first_chunk();
        *bytes.expect("the room behind the last position")
    }

    /// Four bytes.
    #[inline(always)]
    pub(crate) fn word(&self, position: u16) -> u32 {
        self.word_behind(position, 0)
    }

    /// Four bytes at an offset of at most [`COMMON_MAX`].
    #[inline(always)]
    pub(crate) fn word_behind(&self, position: u16, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(position, offset))
    }

    /// Eight bytes, the first one lowest.
    #[inline(always)]
    pub(crate) fn eight(&self, position: u16) -> u64 {
        u64::from_le_bytes(self.bytes(position, 0))
    }

    /// How many bytes at a position are the lowest of `eight`, up to all eight.
    #[inline(always)]
    pub(crate) fn common_eight(&self, position: u16, eight: u64) -> usize {
        ((self.eight(position) ^ eight).trailing_zeros() / 8) as usize
    }

    /// The byte at an offset of at most [`COMMON_MAX`].
    #[inline(always)]
    pub(crate) fn byte(&self, position: u16, offset: usize) -> u8 {
        self.bytes[usize::from(position) + (offset & COMMON_MAX)]
    }

    /// How many bytes two positions have in common from `len` on, `len` included, up to `len_max`,
    /// which is at most [`COMMON_MAX`].
    #[inline(always)]
    pub(crate) fn common(&self, a: u16, b: u16, mut len: usize, len_max: usize) -> usize {
        debug_assert!(len_max <= COMMON_MAX);
        while len < len_max {
            let eight = |position| u64::from_le_bytes(self.bytes(position, len));
            let different = eight(a) ^ eight(b);
            if different != 0 {
                len += (different.trailing_zeros() / 8) as usize;
                break;
            }
            len += 8;
        }
        len.min(len_max)
    }

    /// The same without a limit but the end of the tile; `b` is the later one.
    pub(crate) fn common_to_end(&self, a: u16, b: u16) -> usize {
        let (a, b) = (usize::from(a), usize::from(b));
        let (behind, ahead) = (&self.bytes[a..], &self.bytes[b..self.len]);
        let mut len = 0;
        for (a, b) in behind.chunks_exact(8).zip(ahead.chunks_exact(8)) {
            if a != b {
                break;
            }
            len += 8;
        }
        len + behind[len..]
            .iter()
            .zip(&ahead[len..])
            .take_while(|(a, b)| a == b)
            .count()
    }
}
