//! The match finders' copy of a tile, with padding after its end and 16-bit positions.
//!
//! Finding matches is mostly loads at computed positions. With an array longer than the sum of any
//! position and any offset, none of them needs a bounds check, and the code stays safe.

use alloc::boxed::Box;

use crate::limits::TILE_RAW_BYTES;
use crate::zeroed;

/// Longest common prefix that [`Window::common`] finds.
pub(crate) const COMMON_MAX: usize = 511;

/// A tile, the longest offset, and eight bytes.
const WINDOW_BYTES: usize = TILE_RAW_BYTES + COMMON_MAX + 1 + 8;

/// The bytes of one tile, followed by zeros.
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

    /// Copies a tile into the window.
    pub(crate) fn set(&mut self, raw: &[u8]) {
        self.bytes[..raw.len()].copy_from_slice(raw);
        self.bytes[raw.len()..].fill(0);
        self.len = raw.len();
    }

    /// Returns the number of bytes from a position to the end.
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

    /// Returns the length of the common prefix of two positions, up to `len_max`, which is at most
    /// [`COMMON_MAX`]. The first `len` bytes are known to be equal.
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

    /// Like [`Window::common`], but limited only by the end of the tile; `b` is the later position.
    #[cold]
    #[inline(never)]
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
