//! The decoded symbols of a block, which connect the two phases of its decoding.
//!
//! Phase one, a kernel, splits the symbols into three streams: literals; lengths, each with the
//! number of literals before it; distances. Their orders agree, because a distance comes exactly
//! 32 turns after its length, so the n-th distance belongs to the n-th length. Phase two, in
//! `copies`, combines them. A decoder that wrote directly to the output would write literals after
//! the gap of a match whose distance is not yet known, and could not fill the gap in whole vectors
//! without overwriting them.
//!
//! Invariant: at the start of a round `literal_count <= TILE_RAW_BYTES` and
//! `length_count <= TILE_MATCH_COUNT_MAX` hold because [`Tokens::check_room`] is called before
//! every round; a round adds at most 32 of either. `distance_count <= length_count`, and they are
//! equal when a block is complete.

use alloc::boxed::Box;

use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, MATCH_BYTES_MIN, TILE_MATCH_COUNT_MAX, TILE_RAW_BYTES};
use crate::zeroed;

/// Bytes that a vector store or load may extend past a stream's end.
pub(crate) const STREAM_SLACK: usize = 64;

/// Capacity for literals: those of a tile, those of one round, and the slack.
pub(crate) const LITERAL_ROOM: usize = TILE_RAW_BYTES + LANE_COUNT + STREAM_SLACK;

/// Capacity for matches: a power of two, so that a masked index needs no other check.
pub(crate) const MATCH_ROOM: usize = 32_768;
/// Index mask for `MATCH_ROOM`.
pub(crate) const MATCH_MASK: usize = MATCH_ROOM - 1;

// A round stores at most 32 literals and 32 matches, the last of them in whole vectors.
const _: () = assert!(TILE_MATCH_COUNT_MAX + LANE_COUNT + STREAM_SLACK <= MATCH_ROOM);

/// Where the values of matches begin in [`Tokens::matches`]: the number of literals of this block
/// before each match, modulo 2^16; lengths minus 3; distances minus 1.
pub(crate) const BEFORES: usize = 0;
pub(crate) const LENGTHS: usize = MATCH_ROOM;
pub(crate) const DISTANCES: usize = 2 * MATCH_ROOM;

/// The three streams of a block.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    pub(crate) literals: Box<[u8; LITERAL_ROOM]>,
    /// Together, so that a kernel needs one register for their address.
    pub(crate) matches: Box<[u16; 3 * MATCH_ROOM]>,
    pub(crate) literal_count: usize,
    pub(crate) length_count: usize,
    pub(crate) distance_count: usize,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            literals: zeroed(),
            matches: zeroed(),
            literal_count: 0,
            length_count: 0,
            distance_count: 0,
        }
    }

    /// Returns the values of the matches from `first` on: literals before, length, distance.
    #[inline]
    pub(crate) fn matches_from(&self, first: usize) -> impl Iterator<Item = (u16, usize, usize)> {
        let of = |start: usize| self.matches[start + first..start + self.length_count].iter();
        let values = of(BEFORES).zip(of(LENGTHS)).zip(of(DISTANCES));
        values.map(|((&before, &length), &distance)| {
            let length = usize::from(length) + MATCH_BYTES_MIN;
            (before, length, usize::from(distance) + 1)
        })
    }

    /// Begins a block.
    pub(crate) fn clear(&mut self) {
        self.literal_count = 0;
        self.length_count = 0;
        self.distance_count = 0;
    }

    /// Returns an error if the literals and matches of minimum length already exceed `room` bytes.
    /// Phase two checks exact sizes.
    #[inline]
    pub(crate) fn check_room(&self, room: usize) -> Result<(), ErrorKind> {
        debug_assert!(room <= TILE_RAW_BYTES);
        if self.literal_count + MATCH_BYTES_MIN * self.length_count > room {
            return Err(ErrorKind::RawTooLong);
        }
        Ok(())
    }
}
