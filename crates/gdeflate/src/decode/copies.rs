//! Phase two: expands literals and matches into the output.
//!
//! Everything that decides where bytes go is checked here, per match and before its first byte: the
//! match ends inside the output, and its distance reaches back no further than the tile. So a
//! kernel with wrong streams could produce wrong bytes, but never access other memory.
//!
//! Most runs and most matches are shorter than 16 bytes, so the loop copies one vector of each and
//! leaves longer ones to separate functions, which keeps its state in registers. A match that
//! overlaps itself within the vector is one shuffle where the machine has SSSE3: reading back bytes
//! just written in other pieces would stall on store forwarding, which costs more than everything
//! else here.
//!
//! # Safety
//! While a match ends at least [`SLACK`] bytes before the output does, literals and matches are
//! copied in whole vectors, overshooting by less than that. The bound: a run or a match of n bytes
//! is copied in pieces of 16 or [`SLACK`] bytes that begin below n or at 0, ending below n + SLACK.
//! The bytes that an overshoot overwrites lie after the end of the match and are written later,
//! because output is produced in ascending order. Literal loads stay inside the literal stream,
//! which has [`STREAM_SLACK`] bytes after the most literals a tile can have. Near the end of the
//! output safe code does the rest.
#![expect(
    unsafe_code,
    reason = "overshooting copies within checked bounds; see # Safety"
)]

#[cfg(target_arch = "x86_64")]
mod near;

use super::tokens::{LITERAL_ROOM, MATCH_ROOM, STREAM_SLACK, Tokens};
#[cfg(target_arch = "x86_64")]
use crate::cpu::cpu_has;
use crate::error::ErrorKind;
use crate::limits::TILE_RAW_BYTES;

/// Size of the pieces in which bytes are copied.
const PIECE: usize = 16;

/// Bytes that must be left after a match for overshooting copies.
const SLACK: usize = 64;

const _: () = assert!(SLACK >= 2 * PIECE && STREAM_SLACK >= PIECE);
const _: () = assert!(LITERAL_ROOM >= TILE_RAW_BYTES + STREAM_SLACK);

/// Returns the first 16 bytes of a match at `to`, by one SSSE3 shuffle if `SHUFFLE`, otherwise by
/// arithmetic.
///
/// # Safety
/// `distance` bytes are readable before `to` and 16 from it on; `distance > 0`; for `SHUFFLE` the
/// machine has SSSE3.
#[inline(always)]
unsafe fn begin<const SHUFFLE: bool>(to: *const u8, distance: usize) -> [u8; PIECE] {
    // SAFETY: 16 bytes from `to - distance` on are readable, by the caller.
    let bytes = unsafe { to.sub(distance).cast::<[u8; PIECE]>().read_unaligned() };
    #[cfg(target_arch = "x86_64")]
    if SHUFFLE {
        use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_shuffle_epi8, _mm_storeu_si128};

        let pattern = &REPEATS[distance.min(PIECE)];
        let mut repeated = [0; PIECE];
        // SAFETY: all three have 16 bytes.
        unsafe {
            let from = _mm_loadu_si128(bytes.as_ptr().cast());
            let pattern = _mm_loadu_si128(pattern.as_ptr().cast::<__m128i>());
            _mm_storeu_si128(
                repeated.as_mut_ptr().cast(),
                _mm_shuffle_epi8(from, pattern),
            );
        }
        return repeated;
    }
    if distance >= PIECE {
        return bytes;
    }
    let mut repeated = u128::from_le_bytes(bytes) & ((1 << (8 * distance)) - 1);
    let mut period = 8 * distance;
    while period < 128 {
        repeated |= repeated << period;
        period *= 2;
    }
    repeated.to_le_bytes()
}

/// For each distance up to 16, the shuffle that repeats the first `distance` bytes.
#[cfg(target_arch = "x86_64")]
static REPEATS: [[u8; PIECE]; PIECE + 1] = {
    let mut repeats = [[0; PIECE]; PIECE + 1];
    let mut distance = 1;
    while distance <= PIECE {
        let mut at = 0;
        while at < PIECE {
            repeats[distance][at] = (at % distance) as u8;
            at += 1;
        }
        distance += 1;
    }
    repeats
};

/// Appends a block's bytes to `raw`, of which `start` bytes are done. Returns the new count.
pub(crate) fn run(tokens: &Tokens, raw: &mut [u8], start: usize) -> Result<usize, ErrorKind> {
    #[cfg(target_arch = "x86_64")]
    if cpu_has!("ssse3") {
        // SAFETY: SSSE3 was just detected.
        return unsafe { run_ssse3(tokens, raw, start) };
    }
    // SAFETY: arithmetic needs no CPU feature.
    unsafe { run_by::<false>(tokens, raw, start) }
}

/// [`run`] with shuffles.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
fn run_ssse3(tokens: &Tokens, raw: &mut [u8], start: usize) -> Result<usize, ErrorKind> {
    // SAFETY: this function enables SSSE3.
    unsafe { run_by::<true>(tokens, raw, start) }
}

/// [`run`] with or without shuffles.
///
/// # Safety
/// For `SHUFFLE` the machine has SSSE3.
#[inline(always)]
unsafe fn run_by<const SHUFFLE: bool>(
    tokens: &Tokens,
    raw: &mut [u8],
    start: usize,
) -> Result<usize, ErrorKind> {
    assert!(raw.len() <= TILE_RAW_BYTES && start <= raw.len());
    let match_count = tokens.length_count;
    assert!(match_count == tokens.distance_count && match_count <= MATCH_ROOM);
    let mut place = Place {
        index: 0,
        before: 0,
        literal: 0,
        position: start,
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if SHUFFLE && near::are_most(tokens) {
            place = near::quickly(tokens, raw, place);
        }
        // Also what the other one has left.
        place = quickly::<SHUFFLE>(tokens, raw, place);
    }
    carefully(tokens, raw, place)
}

/// The progress of the copying.
struct Place {
    /// Matches done.
    index: usize,
    /// `literals_before` of the last of them.
    before: u16,
    /// Literals done.
    literal: usize,
    /// Bytes done.
    position: usize,
}

impl Place {
    /// Moves past a run of literals and the match of `len` bytes after it.
    #[inline(always)]
    fn pass(&mut self, literals_before: u16, run: usize, len: usize) {
        self.index += 1;
        self.before = literals_before;
        self.literal += run;
        self.position += run + len;
    }
}

/// The fast path: copies until a match is invalid or near the end of the output, or none is left.
///
/// # Safety
/// For `SHUFFLE` the machine has SSSE3.
#[inline(always)]
unsafe fn quickly<const SHUFFLE: bool>(tokens: &Tokens, raw: &mut [u8], mut place: Place) -> Place {
    let Some(end_max) = raw.len().checked_sub(SLACK) else {
        return place;
    };
    let (out, literals) = (raw.as_mut_ptr(), tokens.literals.as_ptr());
    for (literals_before, len, distance) in tokens.matches_from(place.index) {
        let run = usize::from(literals_before.wrapping_sub(place.before));
        let at = place.position + run;
        if distance > at || at + len > end_max {
            break;
        }
        // SAFETY: at + len + SLACK <= raw.len() and distance <= at, both just checked. The literals
        // read lie below literal + run <= at <= TILE_RAW_BYTES, because every literal taken so far
        // advanced `position`, too.
        unsafe {
            let (from, to) = (literals.add(place.literal), out.add(place.position));
            copy_piece(from, to);
            if run > PIECE {
                copy_many(from, to, run);
            }
            let to = out.add(at);
            to.cast::<[u8; PIECE]>()
                .write_unaligned(begin::<SHUFFLE>(to, distance));
            if len > PIECE {
                copy_rest(to, distance, len);
            }
        }
        place.pass(literals_before, run, len);
    }
    place
}

/// The slow path: copies the rest without overshooting, and reports invalid matches.
fn carefully(tokens: &Tokens, raw: &mut [u8], mut place: Place) -> Result<usize, ErrorKind> {
    for (literals_before, len, distance) in tokens.matches_from(place.index) {
        let run = usize::from(literals_before.wrapping_sub(place.before));
        let at = place.position + run;
        let target = raw.get_mut(place.position..at);
        let target = target.ok_or(ErrorKind::RawTooLong)?;
        if distance > at {
            return Err(ErrorKind::Distance);
        }
        target.copy_from_slice(&tokens.literals[place.literal..place.literal + run]);
        copy_match(raw, at, distance, len)?;
        place.pass(literals_before, run, len);
    }
    let rest = tokens.literals.get(place.literal..tokens.literal_count);
    let rest = rest.ok_or(ErrorKind::RawTooLong)?;
    let target = raw.get_mut(place.position..place.position + rest.len());
    target.ok_or(ErrorKind::RawTooLong)?.copy_from_slice(rest);
    Ok(place.position + rest.len())
}

/// Copies a match in safe code.
fn copy_match(raw: &mut [u8], at: usize, distance: usize, len: usize) -> Result<(), ErrorKind> {
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

/// Copies a long run of literals.
///
/// # Safety
/// Both are valid for `len` bytes and do not overlap.
#[inline(never)]
unsafe fn copy_many(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { to.copy_from_nonoverlapping(from, len) }
}

/// # Safety
/// Both are valid for 16 bytes.
#[inline(always)]
unsafe fn copy_piece(from: *const u8, to: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        to.cast::<[u8; PIECE]>()
            .write_unaligned(from.cast::<[u8; PIECE]>().read_unaligned())
    }
}

/// Copies the rest of a match of `len` bytes after its first 16, and fewer than [`SLACK`] more.
///
/// # Safety
/// `distance` bytes are readable before `to`, `len + SLACK` bytes readable and writable from it on,
/// all in one allocation; `distance > 0`; the first 16 bytes are written.
#[inline(never)]
unsafe fn copy_rest(to: *mut u8, distance: usize, len: usize) {
    // SAFETY: pieces of 16 bytes, and fours of them, begin below `len`; the `memcpy` ends at `len`
    // and does not overlap; the caller upholds the rest.
    unsafe {
        let from = to.sub(distance).cast_const();
        if distance < PIECE {
            let pattern = to.cast::<[u8; PIECE]>().read_unaligned();
            let step = usize::from(PATTERN_STEP[distance]);
            let mut done = step;
            while done < len {
                to.add(done).cast::<[u8; PIECE]>().write_unaligned(pattern);
                done += step;
            }
        } else if len > LIBRARY_BYTES && distance >= len {
            to.add(PIECE)
                .copy_from_nonoverlapping(from.add(PIECE), len - PIECE);
        } else {
            let mut done = PIECE;
            while done < len {
                // In fours: how many a match has is hard to predict.
                for _ in 0..SLACK / PIECE {
                    copy_piece(from.add(done), to.add(done));
                    done += PIECE;
                }
            }
        }
    }
}

/// Length above which a call of `memcpy` pays.
const LIBRARY_BYTES: usize = 256;

/// For each distance below 16 its largest multiple up to 16 (index 0 is not used).
const PATTERN_STEP: [u8; PIECE] = [
    16, 16, 16, 15, 16, 15, 12, 14, 16, 9, 10, 11, 12, 13, 14, 15,
];
