//! Whole streams: encoding them, and decoding and encoding on several threads.
//!
//! Tiles are claimed one after the other from a common counter, so that a slow tile holds up only
//! the thread that has it. The calling thread works, too.

use alloc::vec::Vec;

use crate::encode::{Encoder, Level};
use crate::error::Error;
use crate::limits::{HEADER_BYTES, TABLE_ENTRY_BYTES, TILE_RAW_BYTES};
use crate::stream::Header;
#[cfg(feature = "std")]
use crate::{decode::Decoder, stream::TileStream};

/// Tiles that one job encodes: enough that a claim costs nothing beside it.
#[cfg(feature = "std")]
const ENCODE_JOB_TILES: usize = 4;

/// Encodes `raw` as one stream. No bytes make a stream of no tiles. With the feature `std` up to
/// `threads` threads work on it (0 counts as 1; never more than there is work for); without it one.
/// The result is the same for any number of threads, and at most
/// [`compress_bound`](crate::compress_bound) bytes long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if `raw` is longer than a stream can hold.
pub fn compress(raw: &[u8], level: Level, threads: usize) -> Result<Vec<u8>, Error> {
    let header = Header::of_raw_len(raw.len() as u64)?;
    let mut out = Vec::new();
    out.extend_from_slice(&header.to_bytes());
    out.resize(HEADER_BYTES + header.table_bytes(), 0);
    let mut tile_ends = Vec::with_capacity(header.tile_count() as usize);
    encode_tiles(raw, level, threads, &mut out, &mut tile_ends)?;
    let data_start = header.data_start();
    let last_start = match tile_ends.as_slice() {
        [.., before, _] => *before,
        _ => data_start,
    };
    // Entry 0 holds the size of the last tile; the others where their tile begins.
    let firsts = tile_ends.last().map(|end| end - last_start).into_iter();
    let starts = tile_ends
        .iter()
        .rev()
        .skip(1)
        .rev()
        .map(|end| end - data_start);
    let entries = out[HEADER_BYTES..data_start].chunks_exact_mut(TABLE_ENTRY_BYTES);
    for (entry, value) in entries.zip(firsts.chain(starts)) {
        // A full stream of stored tiles is a little more than 4 GiB; its last tile begins below.
        let value = u32::try_from(value)
            .map_err(|_| Error::new(crate::ErrorKind::TooLarge, value as u64))?;
        entry.copy_from_slice(&value.to_le_bytes());
    }
    Ok(out)
}

/// Appends all tiles and notes where each ends.
#[cfg(not(feature = "std"))]
fn encode_tiles(
    raw: &[u8],
    level: Level,
    _threads: usize,
    out: &mut Vec<u8>,
    tile_ends: &mut Vec<usize>,
) -> Result<(), Error> {
    encode_piece(&mut Encoder::new(level), raw, out, tile_ends)
}

fn encode_piece(
    encoder: &mut Encoder,
    raw: &[u8],
    out: &mut Vec<u8>,
    tile_ends: &mut Vec<usize>,
) -> Result<(), Error> {
    for tile in raw.chunks(TILE_RAW_BYTES) {
        encoder.encode_tile(tile, out)?;
        tile_ends.push(out.len());
    }
    Ok(())
}

/// Appends all tiles and notes where each ends.
#[cfg(feature = "std")]
fn encode_tiles(
    raw: &[u8],
    level: Level,
    threads: usize,
    out: &mut Vec<u8>,
    tile_ends: &mut Vec<usize>,
) -> Result<(), Error> {
    let jobs: Vec<&[u8]> = raw.chunks(ENCODE_JOB_TILES * TILE_RAW_BYTES).collect();
    let threads = threads.min(jobs.len());
    if threads <= 1 {
        return encode_piece(&mut Encoder::new(level), raw, out, tile_ends);
    }
    let results = run_jobs(
        threads,
        jobs.len(),
        || Encoder::new(level),
        |encoder, job| {
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            encode_piece(encoder, jobs[job], &mut bytes, &mut ends).map(|()| (bytes, ends))
        },
    )?;
    for (bytes, ends) in results {
        let start = out.len();
        out.extend_from_slice(&bytes);
        tile_ends.extend(ends.iter().map(|end| start + end));
    }
    Ok(())
}

/// Runs `job_count` jobs on `threads` threads, this one included; their results in order, or the
/// error of the first job that failed. After a failure no further job begins.
#[cfg(feature = "std")]
fn run_jobs<State, Output: Send>(
    threads: usize,
    job_count: usize,
    state: impl Fn() -> State + Sync,
    job: impl Fn(&mut State, usize) -> Result<Output, Error> + Sync,
) -> Result<Vec<Output>, Error> {
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        let mut state = state();
        let mut results = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= job_count {
                break;
            }
            let result = job(&mut state, index);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.push((index, result));
        }
        results
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map_while(|_| {
                let builder = std::thread::Builder::new().name("gdeflate".into());
                // Where no thread can be had, those that there are do the work.
                builder.spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(results) => all.extend(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Decodes a whole stream into `raw`, which must have exactly its raw length, on up to `threads`
/// threads (0 counts as 1; never more than tiles).
///
/// # Errors
/// Those of [`Decoder::decode`]; of several broken tiles the first that was found.
#[cfg(feature = "std")]
pub fn decompress_into(
    stream: &TileStream<'_>,
    raw: &mut [u8],
    threads: usize,
) -> Result<(), Error> {
    use std::sync::{Mutex, PoisonError};

    let threads = threads.min(stream.tile_count() as usize);
    if threads <= 1 || raw.len() as u64 != stream.raw_len() {
        return Decoder::new().decode(stream, raw);
    }
    // Each job takes its own piece of the output out of its slot.
    let tiles: Vec<Mutex<Option<&mut [u8]>>> = raw
        .chunks_mut(TILE_RAW_BYTES)
        .map(|tile| Mutex::new(Some(tile)))
        .collect();
    run_jobs(threads, tiles.len(), Decoder::new, |decoder, index| {
        let target = tiles[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        decoder.decode_one(stream, index as u32, target.expect("each job runs once"))
    })?;
    Ok(())
}

/// Decodes a whole stream into new memory, see [`decompress_into`]. As much memory is asked for as
/// the stream's header declares, at most 512 times the stored bytes: a tile has 128 bytes or more.
///
/// # Errors
/// Those of [`TileStream::parse`], bytes behind the last tile included, and of [`decompress_into`].
#[cfg(feature = "std")]
pub fn decompress(stored: &[u8], threads: usize) -> Result<Vec<u8>, Error> {
    let stream = TileStream::parse(stored, crate::stream::ParseOptions::default())?;
    let raw_len =
        usize::try_from(stream.raw_len()).map_err(|_| Error::new(crate::ErrorKind::TooLarge, 0))?;
    let mut raw = alloc::vec![0; raw_len];
    decompress_into(&stream, &mut raw, threads)?;
    Ok(raw)
}
