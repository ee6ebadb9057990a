//! Dealing bits to lanes: the decoder's refills, played in advance.
//!
//! The order of a tile's words is the order in which a decoder asks for them, so the writer plays
//! the decoder: a lane owns the places of the words that the decoder has fetched for it, and after
//! each turn it reserves the next free place if the decoder would refill then. A lane's bits go to
//! its places in order. Unread are always 32 to 63 bits, so between turns a lane owns two places
//! while its current word is begun, and one when it ends on a word's border.
//!
//! Whether a word is full after a turn is as good as random, so a turn has no branch: the current
//! word is stored each time, full or not, and places move by selection.

use alloc::vec::Vec;

use crate::limits::{LANE_COUNT, WORD_BYTES};

/// Writes one tile.
#[derive(Debug, Default)]
pub(crate) struct Dealer {
    /// Room for words, of which `len` are reserved.
    words: Vec<u32>,
    len: usize,
    lanes: [Lane; LANE_COUNT],
}

#[derive(Debug, Default, Clone, Copy)]
struct Lane {
    /// Bits that are written and not in a finished word yet, fewer than 32 between turns.
    bits: u64,
    count: u32,
    /// The place of the current word, and of the next while the current one is begun.
    place: u32,
    next: u32,
}

impl Dealer {
    /// Begins a tile: each lane owns one place.
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

    /// Makes room for so many turns; each reserves one word at most.
    pub(crate) fn make_room(&mut self, turns: usize) {
        let needed = self.len + turns;
        if self.words.len() < needed {
            self.words.resize(needed, 0);
        }
    }

    /// A lane's turn of at most 31 bits, for which there is room.
    #[inline]
    pub(crate) fn turn(&mut self, lane: usize, bits: u32, count: u32) {
        debug_assert!(count <= 31 && bits >> count == 0);
        let lane = &mut self.lanes[lane % LANE_COUNT];
        let begun = lane.count > 0;
        let all = lane.bits | u64::from(bits) << lane.count;
        let all_count = lane.count + count;
        self.words[lane.place as usize] = all as u32;
        let full = all_count >= 32;
        lane.place = if full { lane.next } else { lane.place };
        lane.bits = if full { all >> 32 } else { all };
        lane.count = all_count % 32;
        // Owned are one place, one more if a word was begun, one less if it is full; needed are one
        // and one more if a word is begun now. A missing one is always the second.
        let owned = 1 + usize::from(begun) - usize::from(full);
        let reserve = 1 + usize::from(lane.count > 0) - owned;
        debug_assert!(reserve <= 1);
        lane.next = if reserve > 0 {
            self.len as u32
        } else {
            lane.next
        };
        self.len += reserve;
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

    /// Bytes that the tile has now.
    pub(crate) fn stored_len(&self) -> usize {
        self.len * WORD_BYTES
    }
}
