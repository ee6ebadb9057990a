//! The common part of all scanners: take steps until more bytes are needed, place units in the
//! input, and check the end of the stream. Each codec defines its steps.

use super::{Unit, UnitScanner};
use crate::CodecId;
use crate::error::{After, CodecError, Fault};
use crate::limits::{UNIT_STEP_RAW_BYTES, UNIT_STEPS_FREE};

/// The result of one step: bytes consumed, and a unit if found, with offsets from the step's start.
pub(super) type Step = (usize, Option<Unit>);

/// The progress of a scanner.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Stored bytes consumed.
    pub(super) stored_bytes: u64,
    /// Raw bytes of the units found.
    pub(super) raw_bytes: u64,
    /// Raw bytes of the whole stream.
    pub(super) raw_len: u64,
}

/// A codec's steps through its stored streams.
pub(super) trait Steps: Send {
    /// Codec to report in errors.
    const CODEC: CodecId;
    /// Fault of a stream that ends with fewer raw bytes than it must have.
    const SHORTAGE: Fault;

    /// Takes one step at `rest`, which begins at `place`; `None`: more bytes are needed. A unit
    /// begins at `place.raw_bytes` and ends within `place.raw_len`.
    fn step(&mut self, rest: &[u8], place: Place) -> Result<Option<Step>, Fault>;

    /// Whether a stream that ends here is truncated.
    fn is_open(&self) -> bool;

    /// See [`UnitScanner::verify`].
    fn verify(&self, raw: &[u8]) -> Result<(), CodecError> {
        let _ = raw;
        Ok(())
    }
}

/// The scanner over a codec's steps.
pub(super) struct Scanner<S> {
    steps: S,
    /// Where the next step begins.
    place: Place,
    /// Steps that may still be taken: bounds the memory for units and frames by a fraction of the
    /// raw bytes.
    steps_left: u64,
}

impl<S: Steps + 'static> Scanner<S> {
    pub(super) fn boxed(steps: S, raw_len: u64) -> Box<dyn UnitScanner> {
        Box::new(Scanner {
            steps,
            place: Place {
                stored_bytes: 0,
                raw_bytes: 0,
                raw_len,
            },
            steps_left: UNIT_STEPS_FREE + raw_len / UNIT_STEP_RAW_BYTES,
        })
    }
}

impl<S: Steps> Scanner<S> {
    fn scan_all(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, Fault> {
        let mut consumed = 0;
        loop {
            let step = self
                .steps
                .step(&stored[consumed..], self.place)
                .after(consumed)?;
            let Some((taken, unit)) = step else {
                break;
            };
            let left = self.steps_left.checked_sub(1);
            let too_small = Fault::unsupported("units too small to be decoded one by one");
            self.steps_left = left.ok_or(too_small.after(consumed))?;
            if let Some(unit) = unit {
                self.place.raw_bytes += unit.raw_len as u64;
                assert!(self.place.raw_bytes <= self.place.raw_len);
                units.push(Unit {
                    stored_start: consumed + unit.stored_start,
                    ..unit
                });
            }
            consumed += taken;
            self.place.stored_bytes += taken as u64;
        }
        if end {
            if consumed < stored.len() || self.steps.is_open() {
                return Err(Fault::TRUNCATED.after(stored.len()));
            }
            if self.place.raw_bytes < self.place.raw_len {
                return Err(S::SHORTAGE.after(consumed));
            }
        }
        Ok(consumed)
    }
}

impl<S: Steps> UnitScanner for Scanner<S> {
    fn scan(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, CodecError> {
        let start = self.place.stored_bytes;
        self.scan_all(stored, end, units)
            .map_err(|fault| fault.at(S::CODEC, start))
    }

    fn verify(&self, raw: &[u8]) -> Result<(), CodecError> {
        self.steps.verify(raw)
    }
}
