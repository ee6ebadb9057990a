//! Phase two: literals and matches put together in the output.
//!
//! Everything that decides where bytes go is checked here, per match and before its first byte: the
//! match ends inside the output, and its distance reaches no further back than the tile. So a
//! kernel that gave wrong streams could make wrong bytes, but never touch foreign memory.
//!
//! # Safety
//! While a match ends at least [`SLACK`] bytes before the output does, literals and matches are
//! copied in whole vectors, overshooting by less than that. The bound: a run of n bytes is copied
//! in pieces of 32 that begin below n, so it ends below n + 32; a match's piece of 16 begins below
//! its end; [`SLACK`] is 64. What an overshoot spoils lies behind the end of the match and is
//! written later, because bytes are made in ascending order. Literal loads stay inside the literal
//! stream, which has [`STREAM_SLACK`] bytes behind the most literals a tile can have. Near the end
//! of the output safe code does the rest.
#![expect(unsafe_code, reason = "overshooting copies within checked bounds; see # Safety")]

use super::tokens::{LITERAL_ROOM, MATCH_ROOM, STREAM_SLACK, Tokens};
use crate::error::ErrorKind;
use crate::limits::{MATCH_BYTES_MIN, TILE_RAW_BYTES};

/// Bytes that must be left behind a match for overshooting copies.
const SLACK: usize = 64;

const _: () = assert!(SLACK >= 32 + 32 && STREAM_SLACK >= 32);
const _: () = assert!(LITERAL_ROOM >= TILE_RAW_BYTES + STREAM_SLACK);

/// Appends a block's bytes to `raw`, of which `start` bytes are done. Returns how many are then.
pub(crate) fn run(tokens: &Tokens, raw: &mut [u8], start: usize) -> Result<usize, ErrorKind> {
    assert!(raw.len() <= TILE_RAW_BYTES && start <= raw.len());
    let match_count = tokens.length_count;
    assert!(match_count == tokens.distance_count && match_count <= MATCH_ROOM);
    let mut position = start;
    let mut literal = 0;
    let mut before = 0_u16;
    let fast_end = raw.len().saturating_sub(SLACK);
    for index in 0..match_count {
        let run = usize::from(tokens.literals_before[index].wrapping_sub(before));
        before = tokens.literals_before[index];
        let len = usize::from(tokens.lengths[index]) + MATCH_BYTES_MIN;
        let distance = usize::from(tokens.distances[index]) + 1;
        let at = position + run;
        let end = at + len;
        if distance > at {
            return Err(if at > raw.len() { ErrorKind::RawTooLong } else { ErrorKind::Distance });
        }
        if end <= fast_end {
            // SAFETY: end + SLACK <= raw.len() and distance <= at, both just checked. The literals
            // read lie below literal + run <= position + run <= TILE_RAW_BYTES, because every
            // literal taken so far advanced `position`, too.
            unsafe {
                let out = raw.as_mut_ptr();
                copy_literals(tokens.literals.as_ptr().add(literal), out.add(position), run);
                copy_match(out.add(at), distance, len);
            }
        } else {
            let target = raw.get_mut(position..at).ok_or(ErrorKind::RawTooLong)?;
            target.copy_from_slice(&tokens.literals[literal..literal + run]);
            copy_match_carefully(raw, at, distance, len)?;
        }
        literal += run;
        position = end;
    }
    let run = tokens.literal_count.checked_sub(literal).ok_or(ErrorKind::RawTooLong)?;
    let target = raw.get_mut(position..position + run).ok_or(ErrorKind::RawTooLong)?;
    target.copy_from_slice(&tokens.literals[literal..literal + run]);
    Ok(position + run)
}

/// Copies `len` literals, and up to 31 bytes more.
///
/// # Safety
/// `len + 32` bytes are readable at `from` and writable at `to`, and they do not overlap.
#[inline(always)]
unsafe fn copy_literals(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every piece begins below `len` (or at 0) and is at most 32 bytes long; the caller
    // upholds the rest.
    unsafe {
        to.cast::<[u8; 16]>().write_unaligned(from.cast::<[u8; 16]>().read_unaligned());
        let mut done = 16;
        while done < len {
            let piece = from.add(done).cast::<[u8; 32]>().read_unaligned();
            to.add(done).cast::<[u8; 32]>().write_unaligned(piece);
            done += 32;
        }
    }
}

/// Copies a match of `len` bytes from `distance` before `to`, and up to 63 bytes more.
///
/// # Safety
/// `distance` bytes are readable before `to`, `len + SLACK` bytes writable from it on, all in one
/// allocation; `distance > 0`.
#[inline(always)]
unsafe fn copy_match(to: *mut u8, distance: usize, len: usize) {
    // SAFETY: every piece begins below `len` (or at 0) and is at most 32 bytes long; reads end
    // where the corresponding write begins plus at most 32; the caller upholds the rest.
    unsafe {
        let from = to.sub(distance).cast_const();
        if distance >= 32 {
            to.cast::<[u8; 32]>().write_unaligned(from.cast::<[u8; 32]>().read_unaligned());
            let mut done = 32;
            while done < len {
                let piece = from.add(done).cast::<[u8; 32]>().read_unaligned();
                to.add(done).cast::<[u8; 32]>().write_unaligned(piece);
                done += 32;
            }
        } else if distance == 1 {
            let pattern = [*from; 32];
            let mut done = 0;
            while done < len {
                to.add(done).cast::<[u8; 32]>().write_unaligned(pattern);
                done += 32;
            }
        } else {
            // Each piece leaves `step` good bytes behind it and so doubles the distance from which
            // the next may copy: after at most four pieces a vector of 16 no longer overlaps.
            let mut step = distance;
            let mut done = 0;
            while step < 16 {
                let piece = from.cast::<[u8; 16]>().read_unaligned();
                to.add(done).cast::<[u8; 16]>().write_unaligned(piece);
                done += step;
                step *= 2;
            }
            while done < len {
                let piece = to.add(done).sub(step).cast::<[u8; 16]>().read_unaligned();
                to.add(done).cast::<[u8; 16]>().write_unaligned(piece);
                done += 16;
            }
        }
    }
}

/// The same for any place in `raw`, without touching a byte behind the match.
fn copy_match_carefully(
    raw: &mut [u8],
    at: usize,
    distance: usize,
    len: usize,
) -> Result<(), ErrorKind> {
    let target = raw.get_mut(..at + len).ok_or(ErrorKind::RawTooLong)?;
    let from = at - distance;
    let mut done = 0;
    while done < len {
        // All bytes from `from` up to here repeat with the period `distance`.
        let piece = (at + done - from).min(len - done);
        target.copy_within(from..from + piece, at + done);
        done += piece;
    }
    Ok(())
}
