//! Splits parts of requests into pieces that fit a batch. Pure, except that parts are completed.
//!
//! A part ends with its last piece, with the first error of any piece.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdeflate::TileStream;
use millstream::{CodecId, DevicePart, Error, ErrorKind, PartForm, Priority};

use crate::context::Context;
use crate::limits;
use crate::target::Target;

/// A part on its way to the device.
pub(crate) struct Part {
    pub(crate) target: Arc<Target>,
    pub(crate) priority: Priority,
    pieces: AtomicUsize,
    state: Mutex<State>,
}

/// The outcome of a part.
struct State {
    /// `None` once the part has ended.
    part: Option<DevicePart>,
    /// The first error of a piece.
    error: Option<Error>,
}

/// What is to be done with a piece's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Copy,
    /// One tile of GDeflate.
    Tile,
    /// A tile that the device rejected, with this status: the processor decodes it.
    Refused(u32),
    /// The copy to an image, or the release, after all bytes have landed.
    Last,
}

/// A piece of a part.
pub(crate) struct Piece {
    pub(crate) part: Arc<Part>,
    pub(crate) work: Work,
    /// Its range of the part's bytes.
    pub(crate) bytes: Range<usize>,
    /// The offset of its raw bytes in the destination, and their number.
    pub(crate) at: u64,
    pub(crate) raw_len: usize,
}

impl Piece {
    /// Calls a function with its bytes.
    pub(crate) fn with_bytes<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        let state = self.part.state();
        let part = state.part.as_ref();
        let part = part.expect("a part has pieces that did not end");
        look(&part.bytes()[self.bytes.clone()])
    }

    /// Ends the piece with a result.
    pub(crate) fn end(self, result: Result<(), Error>) {
        self.part.piece_ended(result);
    }
}

impl Part {
    /// Makes a piece of this part from its plan.
    pub(crate) fn piece(self: &Arc<Part>, plan: Plan) -> Piece {
        Piece {
            part: Arc::clone(self),
            work: plan.work,
            bytes: plan.bytes,
            at: plan.at,
            raw_len: plan.raw_len,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One piece less.
    fn piece_ended(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.state().error.get_or_insert(error);
        }
        if self.pieces.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut state = self.state();
            let (part, error) = (state.part.take(), state.error.take());
            drop(state);
            let is_last = part.as_ref().is_some_and(|it| it.form() == PartForm::Last);
            self.target.part_ended(is_last && error.is_none());
            if let Some(part) = part {
                part.finish(error.map_or(Ok(()), Err));
            }
        }
    }
}

/// Plans the pieces of a part. An invalid part, or one without pieces, is ended here.
pub(crate) fn cut(
    context: &Arc<Context>,
    part: DevicePart,
    target: Arc<Target>,
) -> Option<(Arc<Part>, Vec<Plan>)> {
    let plans = match admit(context, &part, &target) {
        Ok(plans) if !plans.is_empty() => plans,
        ended => {
            part.finish(ended.map(drop));
            return None;
        }
    };
    let part = Part {
        target,
        priority: part.priority(),
        pieces: AtomicUsize::new(plans.len()),
        state: Mutex::new(State {
            part: Some(part),
            error: None,
        }),
    };
    Some((Arc::new(part), plans))
}

/// Returns the plans of a part; if there are any, its destination expects the part from now on.
fn admit(context: &Arc<Context>, part: &DevicePart, target: &Target) -> Result<Vec<Plan>, Error> {
    let (end, room) = (part.range().end, target.len());
    // A sink of the application that wraps this one may have reported more room.
    if end > room {
        let cause = "the part reaches past the end of the destination";
        return Err(Error::new(ErrorKind::DestinationTooSmall, cause));
    }
    // Texels that did not land would have undefined content.
    if part.form() == PartForm::Last && target.is_short(end) {
        let cause = format!("{end} bytes landed in an image of {room} bytes");
        return Err(Error::new(ErrorKind::RawSize, cause));
    }
    let plans = plan(part.form(), part.bytes(), part.range())?;
    if !plans.is_empty() {
        target.expect(context, part)?;
    }
    Ok(plans)
}

/// A planned piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    work: Work,
    bytes: Range<usize>,
    at: u64,
    raw_len: usize,
}

fn plan(form: PartForm, bytes: &[u8], range: Range<u64>) -> Result<Vec<Plan>, Error> {
    let raw_len = range.end - range.start;
    match form {
        PartForm::Raw => Ok(copies(bytes.len(), range.start)),
        PartForm::Tile if raw_len > limits::TILE_BYTES as u64 => Err(Error::new(
            ErrorKind::Corrupt,
            "a tile has more raw bytes than tiles have",
        )),
        PartForm::Tile => Ok(vec![Plan {
            work: Work::Tile,
            bytes: 0..bytes.len(),
            at: range.start,
            raw_len: raw_len as usize,
        }]),
        PartForm::Last => Ok(vec![Plan {
            work: Work::Last,
            bytes: 0..0,
            at: range.start,
            raw_len: 0,
        }]),
        PartForm::Encoded(codec) if codec != CodecId::GDEFLATE => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the device does not decode this codec",
        )),
        PartForm::Encoded(_) => {
            let stream = TileStream::parse(bytes);
            let stream = stream.map_err(|error| corrupt(&error))?;
            if stream.header().raw_len() != raw_len {
                let cause = "the GDeflate stream has another raw size than declared";
                return Err(Error::new(ErrorKind::RawSize, cause));
            }
            let tile = |tile: u32| {
                let stored = stream.table().tile_range(tile);
                let raw = stream.header().tile_raw_range(tile);
                Plan {
                    work: Work::Tile,
                    bytes: stored.start as usize..stored.end as usize,
                    at: range.start + raw.start,
                    raw_len: stream.header().tile_raw_len(tile),
                }
            };
            let (count, mut plans) = (stream.header().tile_count(), Vec::new());
            plans.try_reserve_exact(count as usize).map_err(|_| {
                Error::new(ErrorKind::OutOfMemory, "no memory for the list of tiles")
            })?;
            plans.extend((0..count).map(tile));
            Ok(plans)
        }
        _ => {
            let cause = "the device does not know this form of bytes";
            Err(Error::new(ErrorKind::UnknownCodec, cause))
        }
    }
}

fn copies(len: usize, at: u64) -> Vec<Plan> {
    let starts = (0..len).step_by(limits::COPY_BYTES);
    let copy = |start: usize| {
        let end = len.min(start + limits::COPY_BYTES);
        Plan {
            work: Work::Copy,
            bytes: start..end,
            at: at + start as u64,
            raw_len: end - start,
        }
    };
    starts.map(copy).collect()
}

/// Returns the error of a tile or stream that the decoder rejected.
pub(crate) fn corrupt(error: &gdeflate::Error) -> Error {
    Error::new(ErrorKind::Corrupt, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::CodecId;

    #[test]
    fn copies_cover_all_bytes_in_pieces_of_bounded_length() {
        let len = 2 * limits::COPY_BYTES + 5;
        let made = plan(PartForm::Raw, &vec![0; len], 100..100 + len as u64).unwrap();
        let lens: Vec<usize> = made.iter().map(|plan| plan.raw_len).collect();
        assert_eq!(lens, [limits::COPY_BYTES, limits::COPY_BYTES, 5]);
        assert_eq!(made[2].at, 100 + 2 * limits::COPY_BYTES as u64);
        assert_eq!(plan(PartForm::Raw, &[], 7..7).unwrap(), []);
        let error = plan(PartForm::Tile, &[0; 128], 0..65537).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_stream_is_cut_into_its_tiles() {
        let raw = vec![7; 150_000];
        let stored = gdeflate::compress(&raw, gdeflate::Level::default(), 1).unwrap();
        let form = PartForm::Encoded(CodecId::GDEFLATE);
        let made = plan(form, &stored, 1000..151_000).unwrap();
        let places: Vec<(u64, usize)> = made.iter().map(|plan| (plan.at, plan.raw_len)).collect();
        assert_eq!(places, [(1000, 65536), (66_536, 65536), (132_072, 18_928)]);
        assert_eq!(made[2].bytes.end, stored.len());

        let error = plan(form, &stored, 0..150_001).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RawSize);
        let error = plan(form, &stored[..stored.len() - 4], 0..150_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
