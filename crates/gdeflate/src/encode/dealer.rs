//! Dealing bits to lanes: the decoder's refills, played in advance.
//!
//! The order of a tile's words is the order in which a decoder asks for them, so the writer plays
//! the decoder: a lane owns the places of the words that the decoder has fetched for it, and after
//! each turn it reserves the next free place if the decoder would refill then. A lane's bits go to
//! its places in order. Unread are always 32 to 63 bits, so a lane owns two places while its
//! current word is begun, and one when it ends on a word's border.

use alloc::vec::Vec;

use crate::limits::{LANE_COUNT, WORD_BYTES};

/// Writes one tile.
#[derive(Debug, Default)]
pub(crate) struct Dealer {
    words: Vec<u32>,
    lanes: [Lane; LANE_COUNT],
}

#[derive(Debug, Default, Clone, Copy)]
struct Lane {
    /// Bits that are written and not in a word yet, fewer than 32 between turns.
    bits: u64,
    count: u32,
    /// Places owned: of the current word and of the next, if it is reserved.
    places: [u32; 2],
    place_count: u32,
}

impl Dealer {
    /// Begins a tile: each lane owns one place.
    pub(crate) fn start(&mut self) {
        self.words.clear();
        self.words.resize(LANE_COUNT, 0);
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            *lane = Lane {
                bits: 0,
                count: 0,
                places: [at as u32, 0],
                place_count: 1,
            };
        }
    }

    /// Adds bits to a lane's turn, whose bits are at most 32 together.
    #[inline]
    pub(crate) fn put(&mut self, lane: usize, bits: u32, count: u32) {
        let lane = &mut self.lanes[lane];
        debug_assert!(count <= 31 && bits >> count == 0);
        lane.bits |= u64::from(bits) << lane.count;
        lane.count += count;
        if lane.count >= 32 {
            self.words[lane.places[0] as usize] = lane.bits as u32;
            lane.bits >>= 32;
            lane.count -= 32;
            lane.places[0] = lane.places[1];
            lane.place_count -= 1;
        }
    }

    /// Ends a lane's turn: the decoder refills here.
    #[inline]
    pub(crate) fn end_turn(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        let needed = 1 + u32::from(lane.count > 0);
        if lane.place_count < needed {
            lane.places[lane.place_count as usize] = self.words.len() as u32;
            lane.place_count += 1;
            self.words.push(0);
        }
    }

    /// A turn of one piece.
    #[inline]
    pub(crate) fn turn(&mut self, lane: usize, bits: u32, count: u32) {
        self.put(lane, bits, count);
        self.end_turn(lane);
    }

    /// Ends the tile and appends its bytes to `out`.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        for lane in &self.lanes {
            if lane.count > 0 {
                self.words[lane.places[0] as usize] = lane.bits as u32;
            }
        }
        out.reserve(self.words.len() * WORD_BYTES);
        for word in &self.words {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Bytes that the tile has now.
    pub(crate) fn stored_len(&self) -> usize {
        self.words.len() * WORD_BYTES
    }
}
