//! Visits: all bytes of many entries, in the order in which they lie in the file.
//!
//! For callers that read everything (verification, extraction): groups of entries are loaded ahead
//! of the visitor, with bounded memory whatever the sizes. Long entries come in pieces, in order.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use millstream::Queue;

use super::batch::{Batch, BatchOptions, Loaded, Piece};
use super::content::ContentCheck;
use super::{Package, plan};
use crate::error::Result;
use crate::limits::{VISIT_AHEAD, VISIT_GROUP_BYTES, VISIT_GROUP_PIECES, VISIT_PIECE_BYTES};
use crate::memory;

/// Loads entries and shows their pieces to `each`, until it breaks. An entry of no bytes is shown
/// as one empty piece. Of an entry whose content has another hash, the last piece is an error. An
/// entry that cannot be loaded is shown with its error, and the visit goes on; of a long one every
/// piece that fails is.
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
    let mut pieces = Vec::new();
    for (_, nth, raw_bytes) in places {
        let cut = cut(entries[nth], raw_bytes, &mut pieces);
        if let Err(error) = cut
            && fail(entries[nth], error).is_break()
        {
            return;
        }
    }
    let mut ahead: VecDeque<(&[Piece], Result<Batch>)> = VecDeque::new();
    let mut rest = &pieces[..];
    let mut check = None;
    loop {
        while ahead.len() < VISIT_AHEAD && !rest.is_empty() {
            let (group, later) = rest.split_at(group_len(rest));
            rest = later;
            ahead.push_back((group, package.enqueue_each(queue, group, options)));
        }
        let Some((group, loads)) = ahead.pop_front() else {
            return;
        };
        for (nth, piece) in group.iter().enumerate() {
            let loaded = match &loads {
                Ok(loads) => loads.wait(nth),
                Err(_) => Err(memory::no_memory(size_of_val(group))),
            };
            let loaded = loaded
                .and_then(|loaded| checked(package, piece, loaded, &mut check))
                .map_err(|error| package.blame(piece.index, error));
            if each(piece, loaded).is_break() {
                let later = ahead.iter().map(|(_, loads)| loads);
                let all = [&loads].into_iter().chain(later);
                all.flatten().for_each(Batch::cancel);
                return;
            }
        }
    }
}

/// A piece, once the entry's hash is compared if it is the last one.
fn checked(
    package: &Package,
    piece: &Piece,
    loaded: Loaded,
    check: &mut Option<ContentCheck>,
) -> Result<Loaded> {
    if piece.offset == 0 {
        *check = Some(package.content_check(piece.index)?);
    }
    // Where the first piece failed, there is nothing to compare: pieces of one entry are neighbors.
    if let Some(check) = check.as_mut().filter(|check| check.index == piece.index) {
        check.take(&loaded)?;
    }
    Ok(loaded)
}

/// Where an entry's first block is, and its place in it.
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

/// Appends the pieces of an entry: all or none.
fn cut(index: u32, raw_bytes: u64, pieces: &mut Vec<Piece>) -> Result<()> {
    let count = raw_bytes.div_ceil(VISIT_PIECE_BYTES).max(1);
    memory::reserve(pieces, usize::try_from(count).unwrap_or(usize::MAX))?;
    pieces.extend((0..count).map(|nth| {
        let offset = nth * VISIT_PIECE_BYTES;
        let len = (raw_bytes - offset).min(VISIT_PIECE_BYTES);
        Piece { index, offset, len }
    }));
    Ok(())
}

fn group_len(rest: &[Piece]) -> usize {
    let mut bytes = 0;
    for (nth, piece) in rest.iter().enumerate() {
        bytes += piece.len;
        if nth > 0 && (bytes > VISIT_GROUP_BYTES || nth == VISIT_GROUP_PIECES) {
            return nth;
        }
    }
    rest.len()
}
