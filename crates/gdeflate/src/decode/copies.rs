//! Phase two: literals and matches put together in the output.
//!
//! Everything that decides where bytes go is checked here, per match and before its first byte: the
//! match ends inside the output, and its distance reaches no further back than the tile. So a
//! kernel that gave wrong streams could make wrong bytes, but never touch foreign memory.
//!
//! # Safety
//! While a match ends at least [`SLACK`] bytes before the output does, literals and matches are
//! copied in whole vectors, overshooting by less than that. The bound: a run or a match of n bytes
//! is copied in pieces of 16 that begin below n or at 0 or 16, so it ends below n + 16 or at 32;
//! [`SLACK`] is 64. What an overshoot spoils lies behind the end of the match and is
//! written later, because bytes are made in ascending order. Literal loads stay inside the literal
//! stream, which has [`STREAM_SLACK`] bytes behind the most literals a tile can have. Near the end
//! of the output safe code does the rest.
#![expect(
    unsafe_code,
    reason = "overshooting copies within checked bounds; see # Safety"
)]

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
            return Err(if at > raw.len() {
                ErrorKind::RawTooLong
            } else {
                ErrorKind::Distance
            });
        }
        if end <= fast_end {
            // SAFETY: end + SLACK <= raw.len() and distance <= at, both just checked. The literals
            // read lie below literal + run <= position + run <= TILE_RAW_BYTES, because every
            // literal taken so far advanced `position`, too.
            unsafe {
                let out = raw.as_mut_ptr();
                copy_literals(
                    tokens.literals.as_ptr().add(literal),
                    out.add(position),
                    run,
                );
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
    let run = tokens
        .literal_count
        .checked_sub(literal)
        .ok_or(ErrorKind::RawTooLong)?;
    let target = raw
        .get_mut(position..position + run)
        .ok_or(ErrorKind::RawTooLong)?;
    target.copy_from_slice(&tokens.literals[literal..literal + run]);
    Ok(position + run)
}

/// Copies `len` literals, and up to 15 bytes more.
///
/// # Safety
/// `len + 16` bytes are readable at `from` and writable at `to`, and they do not overlap.
#[inline(always)]
unsafe fn copy_literals(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: 16 bytes or `len`; the caller upholds the rest.
    unsafe {
        copy16(from, to);
        if len > 16 {
            copy_many(from, to, len);
        }
    }
}

/// A long run of literals; apart, to keep the loop over matches in registers.
///
/// # Safety
/// Both are valid for `len` bytes and do not overlap.
#[inline(never)]
unsafe fn copy_many(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe { to.copy_from_nonoverlapping(from, len) }
}

/// # Safety
/// Both are valid for 16 bytes.
#[inline(always)]
unsafe fn copy16(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        to.cast::<[u8; 16]>()
            .write_unaligned(from.cast::<[u8; 16]>().read_unaligned())
    }
}

/// Copies a match of `len` bytes from `distance` before `to`, and up to 31 bytes more.
///
/// # Safety
/// `distance` bytes are readable before `to`, `len + SLACK` bytes readable and writable from it on,
/// all in one allocation; `distance > 0`.
#[inline(always)]
unsafe fn copy_match(to: *mut u8, distance: usize, len: usize) {
    // SAFETY: pieces begin at 0 and 16, or are the others' business; the caller upholds the rest.
    unsafe {
        if distance >= 16 {
            let from = to.sub(distance).cast_const();
            // One after the other: the second may read what the first has written.
            copy16(from, to);
            copy16(from.add(16), to.add(16));
            if len > 32 {
                copy_far(to, distance, len);
            }
        } else {
            copy_near(to, distance, len);
        }
    }
}

/// What is left of a long match after 32 bytes.
///
/// # Safety
/// As for [`copy_match`], with a distance of 16 or more.
#[inline(never)]
unsafe fn copy_far(to: *mut u8, distance: usize, len: usize) {
    // SAFETY: every piece begins below `len` and is 16 bytes long; the caller upholds the rest.
    unsafe {
        let from = to.sub(distance).cast_const();
        if distance >= len {
            to.add(32).copy_from_nonoverlapping(from.add(32), len - 32);
            return;
        }
        let mut done = 32;
        while done < len {
            copy16(from.add(done), to.add(done));
            done += 16;
        }
    }
}

/// A match that overlaps itself within a vector. The period is widened to 16 bytes in a register,
/// and written at multiples of itself: reading back what was just written would have to wait.
///
/// # Safety
/// As for [`copy_match`], with a distance below 16.
#[inline(never)]
unsafe fn copy_near(to: *mut u8, distance: usize, len: usize) {
    // SAFETY: every piece begins below `len` (or at 0 and 15) and is 16 bytes long; `distance` is
    // below 16; the caller upholds the rest.
    unsafe {
        let pattern = widen(to.sub(distance), distance).to_le_bytes();
        let step = usize::from(PATTERN_STEP[distance]);
        let put = |done: usize| to.add(done).cast::<[u8; 16]>().write_unaligned(pattern);
        put(0);
        put(step);
        let mut done = 2 * step;
        while done < len {
            put(done);
            done += step;
        }
    }
}

/// Largest multiple of a distance below 16 that is not above 16.
const PATTERN_STEP: [u8; 16] = [
    16, 16, 16, 15, 16, 15, 12, 14, 16, 9, 10, 11, 12, 13, 14, 15,
];

/// 16 bytes that repeat the `distance` bytes at `from`.
///
/// # Safety
/// 16 bytes are readable at `from`; `0 < distance < 16`.
#[inline(always)]
unsafe fn widen(from: *const u8, distance: usize) -> u128 {
    // SAFETY: no more than 16 bytes are read; the caller upholds the rest.
    unsafe {
        match distance {
            1 => u128::from(*from) * (u128::MAX / 0xFF),
            2 => {
                let period = u16::from_le_bytes(from.cast::<[u8; 2]>().read_unaligned());
                u128::from(period) * (u128::MAX / 0xFFFF)
            }
            4 => {
                let period = u32::from_le_bytes(from.cast::<[u8; 4]>().read_unaligned());
                u128::from(period) * (u128::MAX / 0xFFFF_FFFF)
            }
            8 => {
                let period = u64::from_le_bytes(from.cast::<[u8; 8]>().read_unaligned());
                u128::from(period) << 64 | u128::from(period)
            }
            _ => {
                let bytes = from.cast::<[u8; 16]>().read_unaligned();
                let mut pattern = u128::from_le_bytes(bytes) & ((1 << (8 * distance)) - 1);
                let mut period = 8 * distance;
                while period < 128 {
                    pattern |= pattern << period;
                    period *= 2;
                }
                pattern
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
