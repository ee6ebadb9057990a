//! The bit writer: interleaves the lanes' bits by simulating the decoder's refills.
//!
//! The order of a tile's words is the order in which a decoder takes them, so the writer simulates
//! the decoder: a lane owns the slots of the words that the decoder has fetched for it, and after
//! each turn it reserves the next free slot if the decoder would refill then. A lane's bits go to
//! its slots in order. The decoder always holds 32 to 63 unread bits, so between turns a lane owns
//! two slots while its current word is partly written, and one when it ends on a word boundary.
//!
//! Whether a word is full after a turn is unpredictable, so a turn has no branch: the current word
//! is stored each time, full or not, and slots advance by selection.

use alloc::vec::Vec;

use super::tokens::chosen;
use crate::limits::{LANE_COUNT, WORD_BYTES};

/// A writer of one tile's words.
#[derive(Debug, Default)]
pub(crate) struct Dealer {
    /// Word slots, of which `len` are reserved.
    words: Vec<u32>,
    len: usize,
    lanes: [Lane; LANE_COUNT],
}

/// The bits that a lane writes in one turn, at most 31, and their number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn(u64);

impl Turn {
    /// A turn of no bits.
    pub(crate) const NONE: Self = Self(0);

    #[inline(always)]
    pub(crate) const fn new(bits: u32, count: u32) -> Self {
        Self(bits as u64 | (count as u64) << 32)
    }

    /// Appends more bits.
    #[inline(always)]
    pub(crate) const fn then(self, bits: u32, count: u32) -> Self {
        Self((self.0 | (bits as u64) << (self.0 >> 32 & 31)) + ((count as u64) << 32))
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Lane {
    /// Bits written that are not in a complete word yet, fewer than 32 between turns.
    bits: u64,
    count: u32,
    /// The slots of the current word, and of the next while the current one is partly written.
    place: u32,
    next: u32,
}

impl Lane {
    /// Writes a turn, with `len` words reserved, and returns the new number. Arithmetic, because
    /// compilers turn selections into branches here.
    #[inline(always)]
    fn turn(&mut self, words: &mut [u32], len: usize, turn: Turn) -> usize {
        let (bits, count) = (turn.0 & 0xFFFF_FFFF, (turn.0 >> 32) as u32);
        debug_assert!(count <= 31 && bits >> count == 0);
        let all = self.bits | bits << self.count;
        let all_count = self.count + count;
        words[self.place as usize] = all as u32;
        let full = all_count / 32;
        // Between turns a lane owns one slot more than it has partly written words.
        let reserve = all_count.div_ceil(32) - self.count.div_ceil(32);
        self.place = chosen(full, self.next, self.place);
        self.next = chosen(reserve, len as u32, self.next);
        self.bits = all >> (32 * full);
        self.count = all_count % 32;
        len + reserve as usize
    }
}

impl Dealer {
    /// Begins a tile: each lane owns one slot.
    pub(crate) fn start(&mut self) {
        self.len = 0;
        self.make_room(LANE_COUNT);
        self.len = LANE_COUNT;
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            *lane = Lane {
                bits: 0,
                count: 0,
                place: at as u32,
                next: 0,
            };
        }
    }

    /// Makes room for `turns` turns, each of which reserves at most one word.
    pub(crate) fn make_room(&mut self, turns: usize) {
        let needed = self.len + turns;
        if self.words.len() < needed {
            self.words.resize(needed, 0);
        }
    }

    /// Writes one lane's turn of at most 31 bits, for which there must be room.
    #[inline(always)]
    pub(crate) fn turn(&mut self, lane: usize, bits: u32, count: u32) {
        let lane = &mut self.lanes[lane % LANE_COUNT];
        self.len = lane.turn(&mut self.words, self.len, Turn::new(bits, count));
    }

    /// Writes turns of consecutive lanes, from the first lane on, for which there must be room.
    #[inline(always)]
    pub(crate) fn turns(&mut self, turns: &[Turn]) {
        let words = &mut self.words[..];
        let mut len = self.len;
        for round in turns.chunks(LANE_COUNT) {
            for (lane, &turn) in self.lanes.iter_mut().zip(round) {
                len = lane.turn(words, len, turn);
            }
        }
        self.len = len;
    }

    /// Ends the tile and appends its bytes to `out`.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        for lane in &self.lanes {
            self.words[lane.place as usize] = lane.bits as u32;
            if lane.count > 0 {
                self.words[lane.next as usize] = 0;
            }
        }
        out.reserve(self.stored_len());
        for word in &self.words[..self.len] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Returns the current size of the tile in bytes.
    pub(crate) fn stored_len(&self) -> usize {
        self.len * WORD_BYTES
    }
}
