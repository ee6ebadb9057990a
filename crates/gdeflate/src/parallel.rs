//! Encoding and decoding whole streams on several threads.

use alloc::vec;
use alloc::vec::Vec;

use crate::decode::Decoder;
use crate::encode::{Encoder, Level};
use crate::error::{Error, ErrorKind};
use crate::limits::{HEADER_BYTES, TABLE_ENTRY_BYTES, TILE_RAW_BYTES};
use crate::stream::{Header, TileStream};

/// Tiles per encoding job: enough to make the cost of claiming a job negligible.
const PIECE_TILES: usize = 4;

/// Encodes `raw` as one stream, of no tiles if `raw` is empty. With the feature `std` up to
/// `threads` threads are used, including the caller's (0 counts as 1). The result is the same for
/// any number, and at most [`compress_bound`](crate::compress_bound) bytes long.
///
/// # Errors
/// [`ErrorKind::TooLarge`] if `raw` is longer than a stream can hold, or if a tile's offset exceeds
/// 32 bits, which can happen with almost 4 GiB of incompressible data.
pub fn compress(raw: &[u8], level: Level, threads: usize) -> Result<Vec<u8>, Error> {
    let header = Header::of_raw_len(raw.len() as u64)?;
    let mut out = Vec::from(header.to_bytes());
    out.resize(header.data_start(), 0);
    let pieces = raw.chunks(PIECE_TILES * TILE_RAW_BYTES);
    let (mut tile, mut start) = (0, 0);
    for piece in run_jobs(threads, pieces, || Encoder::new(level), encode_piece)? {
        out.extend_from_slice(&piece.bytes);
        for len in piece.tile_lens {
            // The first tile begins at 0; its entry holds the last tile's length instead.
            set_entry(&mut out, tile, start)?;
            set_entry(&mut out, 0, len)?;
            tile += 1;
            start += len;
        }
    }
    Ok(out)
}

fn set_entry(out: &mut [u8], index: usize, value: usize) -> Result<(), Error> {
    // Stored tiles are larger than their raw bytes: the last offsets of a full stream overflow.
    let value = u32::try_from(value).map_err(|_| Error::new(ErrorKind::TooLarge, value as u64))?;
    let at = HEADER_BYTES + index * TABLE_ENTRY_BYTES;
    out[at..at + TABLE_ENTRY_BYTES].copy_from_slice(&value.to_le_bytes());
    Ok(())
}

/// Consecutive encoded tiles.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    tile_lens: Vec<usize>,
}

fn encode_piece(encoder: &mut Encoder, raw: &[u8]) -> Result<Piece, Error> {
    let mut piece = Piece::default();
    for tile in raw.chunks(TILE_RAW_BYTES) {
        let before = piece.bytes.len();
        encoder.encode_tile(tile, &mut piece.bytes)?;
        piece.tile_lens.push(piece.bytes.len() - before);
    }
    Ok(piece)
}

/// Decodes a whole stream into new memory, with the feature `std` on up to `threads` threads (0
/// counts as 1; never more than there are tiles). It allocates the raw size that the header
/// declares, at most 512 times the stored bytes, since a tile has 128 bytes or more.
///
/// # Errors
/// Those of [`TileStream::parse`], bytes after the last tile included, and of [`Decoder::decode`];
/// of several broken tiles the first in the stream is reported.
pub fn decompress(stored: &[u8], threads: usize) -> Result<Vec<u8>, Error> {
    let stream = TileStream::parse(stored)?;
    let raw_len = usize::try_from(stream.header().raw_len())
        .map_err(|_| Error::new(ErrorKind::TooLarge, 0))?;
    let mut raw = vec![0; raw_len];
    let tiles = raw.chunks_mut(TILE_RAW_BYTES).enumerate();
    run_jobs(threads, tiles, Decoder::new, |decoder, (tile, raw)| {
        decoder.decode_range(&stream, tile as u32..tile as u32 + 1, raw)
    })?;
    Ok(raw)
}

/// Runs jobs in order and returns their results, or the error of the first that failed.
#[cfg(not(feature = "std"))]
fn run_jobs<Job, State, Output>(
    _threads: usize,
    jobs: impl Iterator<Item = Job>,
    state: impl Fn() -> State,
    job: impl Fn(&mut State, Job) -> Result<Output, Error>,
) -> Result<Vec<Output>, Error> {
    let mut state = state();
    jobs.map(|next| job(&mut state, next)).collect()
}

/// Runs jobs on up to `threads` threads, this one included, and returns their results in order, or
/// the error of the first job, in that order, that failed. Threads claim one job at a time, so that
/// a slow job delays only its own thread. After a failure no further job begins.
#[cfg(feature = "std")]
fn run_jobs<Job, State, Output: Send>(
    threads: usize,
    jobs: impl ExactSizeIterator<Item = Job> + Send,
    state: impl Fn() -> State + Sync,
    job: impl Fn(&mut State, Job) -> Result<Output, Error> + Sync,
) -> Result<Vec<Output>, Error> {
    use std::sync::{Mutex, PoisonError};

    let threads = threads.min(jobs.len());
    let unclaimed = Mutex::new(jobs.enumerate());
    let unclaimed = || unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let mut state = state();
        let mut results = Vec::new();
        loop {
            let Some((index, next)) = unclaimed().next() else {
                break results;
            };
            let result = job(&mut state, next);
            if result.is_err() {
                unclaimed().by_ref().for_each(drop);
            }
            results.push((index, result));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let spawn = |_| {
            let builder = std::thread::Builder::new().name("gdeflate".into());
            // If a thread cannot be started, the existing ones do the work.
            builder.spawn_scoped(scope, work).ok()
        };
        let others: Vec<_> = (1..threads).map_while(spawn).collect();
        let mut results = work();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
