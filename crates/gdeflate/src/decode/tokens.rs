//! What the symbols of a block say, between the two phases of its decoding.
//!
//! Phase one, a kernel, splits the symbols into three streams: literals; lengths, each with the
//! number of literals before it; distances. Their orders agree, because a distance comes exactly
//! 32 turns after its length, so the n-th distance belongs to the n-th length. Phase two, in
//! `copies`, puts them together. A decoder that wrote straight to the output would have literals
//! standing behind the hole of a match whose distance is not known yet, and could not copy in
//! whole vectors without harming them.
//!
//! Invariant: between rounds `literal_count <= TILE_RAW_BYTES` and
//! `length_count <= TILE_MATCH_COUNT_MAX` hold because [`Tokens::check_room`] is asked before every
//! round; a round adds at most 32 of either. `distance_count <= length_count`, and they are equal
//! when a block is complete.

use alloc::boxed::Box;

use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, MATCH_BYTES_MIN, TILE_MATCH_COUNT_MAX, TILE_RAW_BYTES};
use crate::zeroed;

/// Bytes that a vector store or load may go past a stream's end.
pub(crate) const STREAM_SLACK: usize = 64;

/// Room for literals: a tile's, one round's, and the slack.
pub(crate) const LITERAL_ROOM: usize = TILE_RAW_BYTES + LANE_COUNT + STREAM_SLACK;

/// Room for matches: a power of two, so that a masked index needs no other check.
pub(crate) const MATCH_ROOM: usize = 32_768;
/// Its mask.
pub(crate) const MATCH_MASK: usize = MATCH_ROOM - 1;

// A round stores at most 32 literals and 32 matches, the last of them as whole vectors.
const _: () = assert!(TILE_MATCH_COUNT_MAX + LANE_COUNT + STREAM_SLACK <= MATCH_ROOM);

/// The three streams of a block.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    pub(crate) literals: Box<[u8; LITERAL_ROOM]>,
    /// Literals of this block in front of each match, modulo 2^16.
    pub(crate) literals_before: Box<[u16; MATCH_ROOM]>,
    /// Match lengths minus 3.
    pub(crate) lengths: Box<[u16; MATCH_ROOM]>,
    /// Match distances minus 1.
    pub(crate) distances: Box<[u16; MATCH_ROOM]>,
    pub(crate) literal_count: usize,
    pub(crate) length_count: usize,
    pub(crate) distance_count: usize,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            literals: zeroed(),
            literals_before: zeroed(),
            lengths: zeroed(),
            distances: zeroed(),
            literal_count: 0,
            length_count: 0,
            distance_count: 0,
        }
    }

    /// Begins a block.
    pub(crate) fn clear(&mut self) {
        self.literal_count = 0;
        self.length_count = 0;
        self.distance_count = 0;
    }

    /// Refuses to go on if the literals and the shortest that the matches can be are longer than
    /// `room` already. Exact sizes are phase two's to check.
    #[inline]
    pub(crate) fn check_room(&self, room: usize) -> Result<(), ErrorKind> {
        debug_assert!(room <= TILE_RAW_BYTES);
        if self.literal_count + MATCH_BYTES_MIN * self.length_count > room {
            return Err(ErrorKind::RawTooLong);
        }
        Ok(())
    }
}
