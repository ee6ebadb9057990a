//! Visits: all bytes of many entries, in the order in which they lie in the file.
//!
//! For callers that read everything (verification, extraction): groups of entries are loaded ahead
//! of the visitor, in bounded memory whatever their sizes. Long entries come in pieces, in order.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::ControlFlow;

use millstream::{ErrorKind, Queue};

use super::batch::{Batch, BatchOptions, Loaded, Piece};
use super::{Package, plan};
use crate::error::{Error, Result, corrupt};
use crate::limits::{VISIT_AHEAD, VISIT_GROUP_BYTES, VISIT_GROUP_PIECES, VISIT_PIECE_BYTES};
use crate::memory;

/// Loads entries and passes their pieces to `each`, until it breaks. An empty entry is one empty
/// piece. With [`PackageOptions::verify`](crate::PackageOptions::verify), an error replaces the
/// last piece of an entry whose content has another hash. An entry that cannot be loaded, and every
/// piece of a long one that cannot, is passed as an error, and the visit goes on.
pub fn visit(
    package: &Package,
    queue: &Queue,
    entries: &[u32],
    options: &BatchOptions,
    each: &mut dyn FnMut(&Piece, Result<Loaded>) -> ControlFlow<()>,
) {
    let mut fail = |index, error| {
        let (offset, len) = (0, 0);
        let piece = Piece { index, offset, len };
        each(&piece, Err(package.blame(index, error)))
    };
    let mut places = Vec::new();
    for (nth, &index) in entries.iter().enumerate() {
        // An entry may be in the list twice.
        let place = place(package, index)
            .and_then(|(place, raw_bytes)| memory::push(&mut places, (place, nth, raw_bytes)));
        if let Err(error) = place
            && fail(index, error).is_break()
        {
            return;
        }
    }
    places.sort_unstable();
    // Cut group by group: entries that name the same blocks may have more pieces than memory holds.
    let pieces = places.iter();
    let pieces = pieces.flat_map(|&(_, nth, raw_bytes)| cut(entries[nth], raw_bytes));
    let mut pieces = pieces.peekable();
    let mut ahead: VecDeque<(Vec<Piece>, Result<Batch>)> = VecDeque::new();
    let mut check = None;
    loop {
        while ahead.len() < VISIT_AHEAD && pieces.peek().is_some() {
            let group = next_group(&mut pieces);
            let loads = package.enqueue_pieces(queue, &group, options);
            ahead.push_back((group, loads));
        }
        let Some((group, loads)) = ahead.pop_front() else {
            return;
        };
        let mut again = None;
        for (nth, piece) in group.iter().enumerate() {
            let loaded = match &loads {
                Ok(loads) => loads.wait(nth).or_else(|error| {
                    if group.len() == 1 || ends_all(&error) {
                        return Err(error);
                    }
                    // The damage may be a neighbor's: the group is read again without merging.
                    if again.is_none() {
                        again = Some(package.enqueue(queue, &group, options, false)?);
                    }
                    again.as_ref().map_or(Err(error), |again| again.wait(nth))
                }),
                Err(error) => Err(error.clone()),
            };
            let loaded = loaded
                .and_then(|loaded| checked(package, piece, loaded, &mut check))
                .map_err(|error| {
                    check = None;
                    package.blame(piece.index, error)
                });
            if each(piece, loaded).is_break() {
                let later = ahead.iter().map(|(_, loads)| loads);
                let all = [&loads].into_iter().chain(later).flatten();
                all.chain(&again).for_each(Batch::cancel);
                return;
            }
        }
    }
}

/// Whether an error says nothing about the bytes of a read, so that reading again is no use.
fn ends_all(error: &Error) -> bool {
    use ErrorKind::{Canceled, Closed, OnStorageThread, TimedOut};
    let kind = error.engine().map(millstream::Error::kind);
    kind.is_some_and(|kind| [Canceled, Closed, OnStorageThread, TimedOut].contains(&kind))
}

/// The entry whose pieces are being hashed, to be compared with its content hash.
struct ContentCheck {
    index: u32,
    /// Raw bytes still to come.
    left: u64,
    hasher: blake3::Hasher,
}

/// Hashes a piece and returns it; after the last one of an entry, compares the content hash.
fn checked(
    package: &Package,
    piece: &Piece,
    loaded: Loaded,
    check: &mut Option<ContentCheck>,
) -> Result<Loaded> {
    if !package.0.options.verify {
        return Ok(loaded);
    }
    if piece.offset == 0 {
        *check = Some(ContentCheck {
            index: piece.index,
            left: package.info(piece.index)?.raw_bytes,
            hasher: blake3::Hasher::new(),
        });
    }
    // If a piece failed, there is nothing to compare. Pieces of one entry follow one another.
    if let Some(check) = check.as_mut().filter(|check| check.index == piece.index) {
        check.hasher.update(&loaded);
        check.left = check.left.saturating_sub(loaded.len() as u64);
        if check.left == 0
            && let Some(hash) = package.content_hash(piece.index)?
            && hash != *check.hasher.finalize().as_bytes()
        {
            return Err(corrupt(
                "the content has another hash than the package says",
            ));
        }
    }
    Ok(loaded)
}

/// Returns the first block of an entry and its offset in it, and the entry's raw bytes.
fn place(package: &Package, index: u32) -> Result<((u32, u32), u64)> {
    let info = package.info(index)?;
    // Also checks the entry's own fields.
    let span = plan::span(package.tables(), index, 0, info.raw_bytes)?;
    let place = (
        span.entry.first_block.get(),
        span.entry.offset_in_block.get(),
    );
    Ok((place, info.raw_bytes))
}

/// Returns the pieces of an entry.
fn cut(index: u32, raw_bytes: u64) -> impl Iterator<Item = Piece> {
    let count = raw_bytes.div_ceil(VISIT_PIECE_BYTES).max(1);
    (0..count).map(move |nth| {
        let offset = nth * VISIT_PIECE_BYTES;
        let len = (raw_bytes - offset).min(VISIT_PIECE_BYTES);
        Piece { index, offset, len }
    })
}

/// Returns the next pieces to load together; fewer if there is no memory for more.
fn next_group(pieces: &mut Peekable<impl Iterator<Item = Piece>>) -> Vec<Piece> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    while let Some(piece) = pieces.next_if(|piece| {
        let fits = bytes + piece.len <= VISIT_GROUP_BYTES && group.len() < VISIT_GROUP_PIECES;
        group.is_empty() || fits && group.try_reserve(1).is_ok()
    }) {
        bytes += piece.len;
        group.push(piece);
    }
    group
}
