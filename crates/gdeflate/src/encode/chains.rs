//! Match finding for the quick levels: hash chains over one tile.
//!
//! A tile is its own window, so positions are plain 16-bit numbers that never slide and never go
//! stale. Position 65,535 cannot begin a match, which leaves its number free to mean "none".

use alloc::boxed::Box;
use alloc::vec;

use crate::limits::TILE_RAW_BYTES;

const HASH4_BITS: u32 = 15;
const HASH3_BITS: u32 = 14;
const NONE: u16 = u16::MAX;

/// A match: how long, how far back. Length 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Match {
    pub(crate) len: usize,
    pub(crate) distance: usize,
}

/// The newest position of each hash, and for each position the one before it with its hash.
#[derive(Debug)]
pub(crate) struct Chains {
    head4: Box<[u16]>,
    head3: Box<[u16]>,
    previous: Box<[u16]>,
}

impl Chains {
    pub(crate) fn new() -> Self {
        Self {
            head4: vec![NONE; 1 << HASH4_BITS].into(),
            head3: vec![NONE; 1 << HASH3_BITS].into(),
            previous: vec![NONE; TILE_RAW_BYTES].into(),
        }
    }

    /// Begins a tile.
    pub(crate) fn clear(&mut self) {
        self.head4.fill(NONE);
        self.head3.fill(NONE);
    }

    /// Makes a position known. At least four bytes must follow from it on.
    #[inline]
    pub(crate) fn insert(&mut self, raw: &[u8], position: usize) {
        let (hash4, hash3) = hashes(raw, position);
        self.head3[hash3] = position as u16;
        self.previous[position] = self.head4[hash4];
        self.head4[hash4] = position as u16;
    }

    /// Makes a position known and returns its longest match that is longer than `len_min`, looking
    /// at no more than `depth` candidates and no further once one has `nice` bytes.
    #[inline]
    pub(crate) fn insert_and_find(
        &mut self,
        raw: &[u8],
        position: usize,
        len_min: usize,
        depth: u32,
        nice: usize,
    ) -> Match {
        let (hash4, hash3) = hashes(raw, position);
        let mut candidate = self.head4[hash4];
        self.previous[position] = candidate;
        self.head4[hash4] = position as u16;
        let newest3 = core::mem::replace(&mut self.head3[hash3], position as u16);
        let mut best = Match {
            len: len_min,
            distance: 0,
        };
        if best.len < 3 && newest3 != NONE {
            let at = usize::from(newest3);
            if raw[at..at + 3] == raw[position..position + 3] {
                best = Match {
                    len: 3,
                    distance: position - at,
                };
            }
        }
        let mut left = depth;
        while candidate != NONE && left > 0 {
            let at = usize::from(candidate);
            // The byte that would make it longer than the best is the likeliest to differ.
            let longer = position + best.len < raw.len()
                && raw[at + best.len] == raw[position + best.len]
                && word(raw, at) == word(raw, position);
            if longer {
                let len = 4 + common(&raw[at + 4..], &raw[position + 4..]);
                if len > best.len {
                    best = Match {
                        len,
                        distance: position - at,
                    };
                    if len >= nice {
                        break;
                    }
                }
            }
            candidate = self.previous[at];
            left -= 1;
        }
        if best.distance == 0 {
            Match::default()
        } else {
            best
        }
    }
}

#[inline]
pub(crate) fn word(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

#[inline]
fn hashes(raw: &[u8], position: usize) -> (usize, usize) {
    let word = word(raw, position);
    let hash4 = word.wrapping_mul(0x9E37_79B1) >> (32 - HASH4_BITS);
    let hash3 = (word << 8).wrapping_mul(0x9E37_79B1) >> (32 - HASH3_BITS);
    (hash4 as usize, hash3 as usize)
}

/// Length of the common beginning; `ahead` is the shorter one.
#[inline]
pub(crate) fn common(behind: &[u8], ahead: &[u8]) -> usize {
    let mut len = 0;
    let words = behind.chunks_exact(8).zip(ahead.chunks_exact(8));
    for (a, b) in words {
        let a = u64::from_le_bytes(a.try_into().expect("eight bytes"));
        let b = u64::from_le_bytes(b.try_into().expect("eight bytes"));
        if a != b {
            return len + ((a ^ b).trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    len + behind[len..]
        .iter()
        .zip(&ahead[len..])
        .take_while(|(a, b)| a == b)
        .count()
}
