//! The bit writer: interleaves the lanes' bits by simulating the decoder's refills.
//!
//! The order of a tile's words is the order in which a decoder takes them, so the writer simulates
//! the decoder: a lane owns the slots of the words that the decoder has fetched for it, and after
//! each turn it takes the next free slot if the decoder would refill then. The decoder always holds
//! 32 to 63 unread bits, so a lane owns the slot of its current word and that of the next.
//!
//! Whether a word is full after a turn is unpredictable. So a round of all lanes appends their bits
//! in a loop without branches, which compilers vectorize, and a second loop visits the few lanes
//! whose words became full.

use alloc::vec::Vec;

use crate::limits::{LANE_COUNT, WORD_BYTES};

const WORD_BITS: u64 = 8 * WORD_BYTES as u64;

/// A slot that is not part of the tile.
const UNUSED: usize = 0;

/// A writer of one tile's words.
#[derive(Debug, Default)]
pub(crate) struct Dealer {
    /// Word slots, of which `len` are given out; the first is [`UNUSED`].
    words: Vec<u32>,
    len: usize,
    /// The bits of each lane's current word, and their number, at least one and at most 32: a word
    /// stays the current one until there is a bit of the next.
    bits: [u64; LANE_COUNT],
    counts: [u64; LANE_COUNT],
    /// The slots of each lane's current word and of its next.
    slots: [[u32; 2]; LANE_COUNT],
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

    /// Adds bits that are counted already, from bit `from` on.
    #[inline(always)]
    pub(crate) const fn with(self, bits: u32, from: u32) -> Self {
        Self(self.0 | (bits << (from % 32)) as u64)
    }
}

impl Dealer {
    /// Begins a tile: each lane owns one slot, and its current word is unused and full.
    pub(crate) fn start(&mut self) {
        self.len = UNUSED + 1;
        self.make_room(LANE_COUNT);
        self.len += LANE_COUNT;
        self.bits = [0; LANE_COUNT];
        self.counts = [WORD_BITS; LANE_COUNT];
        for (at, slots) in self.slots.iter_mut().enumerate() {
            *slots = [UNUSED as u32, (UNUSED + 1 + at) as u32];
        }
    }

    /// Makes room for `turns` turns, each of which takes at most one slot.
    pub(crate) fn make_room(&mut self, turns: usize) {
        let needed = self.len + turns;
        if self.words.len() < needed {
            self.words.resize(needed, 0);
        }
    }

    /// Writes turns of consecutive lanes, from the first on, for which there must be room.
    #[inline(always)]
    pub(crate) fn turns(&mut self, turns: impl IntoIterator<Item = Turn>) {
        let mut turns = turns.into_iter().peekable();
        while turns.peek().is_some() {
            let mut round = [Turn::NONE; LANE_COUNT];
            round
                .iter_mut()
                .zip(&mut turns)
                .for_each(|(to, turn)| *to = turn);
            self.round(&round);
        }
    }

    /// Writes a turn of each lane in order, for which there must be room.
    #[inline(always)]
    pub(crate) fn round(&mut self, turns: &[Turn; LANE_COUNT]) {
        let mut words = [0; LANE_COUNT];
        let mut full_lanes = 0;
        for (lane, turn) in turns.iter().enumerate() {
            let (bits, count) = (turn.0 & 0xFFFF_FFFF, turn.0 >> 32);
            debug_assert!(count < WORD_BITS && bits >> count == 0);
            let all = self.bits[lane] | bits << self.counts[lane];
            let last = self.counts[lane] + count - 1;
            let full = last / WORD_BITS;
            words[lane] = all as u32;
            self.bits[lane] = all >> (WORD_BITS * full);
            self.counts[lane] = last % WORD_BITS + 1;
            full_lanes |= full << lane;
        }
        while full_lanes != 0 {
            let lane = full_lanes.trailing_zeros() as usize % LANE_COUNT;
            full_lanes &= full_lanes - 1;
            // The first bit of a word makes the decoder fetch the one after it.
            let [current, next] = self.slots[lane];
            self.words[current as usize] = words[lane];
            self.slots[lane] = [next, self.len as u32];
            self.len += 1;
        }
    }

    /// Ends the tile and appends its bytes to `out`.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        for (&[current, next], &bits) in self.slots.iter().zip(&self.bits) {
            self.words[current as usize] = bits as u32;
            self.words[next as usize] = 0;
        }
        let words = &self.words[UNUSED + 1..self.len];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Returns the current size of the tile in bytes.
    pub(crate) fn stored_len(&self) -> usize {
        (self.len - UNUSED - 1) * WORD_BYTES
    }
}
