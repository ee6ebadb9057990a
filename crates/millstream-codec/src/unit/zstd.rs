//! Units of zstd: frames that state their content size, as in the output of `pzstd`, the seekable
//! format and concatenated files. A frame's checksum, if it has one, is verified with the unit.

use super::steps::{Place, Scanner, Step, Steps};
use super::{Unit, UnitScanner};
use crate::error::Fault;
use crate::format::zstd_frame::{self, Walk};
use crate::format::{Head, SKIPPABLE_HEADER_BYTES, first_frame};
use crate::limits::UNIT_STORED_BYTES_MAX;
use crate::{CodecId, Scratch};

/// Returns a scanner if the first frame states its size and is not the whole stream.
pub(crate) fn scanner(head: &[u8], raw_len: u64) -> Option<Box<dyn UnitScanner>> {
    let content_bytes = first_frame(head, zstd_frame::parse)?.content_bytes?;
    (content_bytes < raw_len).then(|| Scanner::boxed(Frames::default(), raw_len))
}

pub(crate) fn declared(head: &[u8], stored_len: u64) -> Option<u64> {
    if (head.len() as u64) < stored_len {
        return first_frame(head, zstd_frame::parse)?.content_bytes;
    }
    let (mut consumed, mut raw_bytes) = (0, 0u64);
    while consumed < head.len() {
        let (len, header) = zstd_frame::measure(&head[consumed..], consumed == 0).ok()?;
        let content_bytes = header.map_or(Some(0), |header| header.content_bytes);
        raw_bytes = raw_bytes.checked_add(content_bytes?)?;
        consumed += len;
    }
    (consumed > 0).then_some(raw_bytes)
}

/// Decodes one frame.
pub(crate) fn decode(scratch: &mut Scratch, stored: &[u8], raw: &mut [u8]) -> Result<(), Fault> {
    let raw_len = raw.len();
    match crate::block::decode_zstd_frame(scratch, stored, raw)? {
        raw_bytes if raw_bytes == raw_len => Ok(()),
        _ => Err(zstd_frame::TOO_SHORT),
    }
}

/// The scanner's steps: skippable frames, frame headers, and whole frames.
#[derive(Default)]
struct Frames {
    /// Bytes of a skippable frame that are still to come.
    skip_bytes: u64,
    /// The frame whose end is not found yet; it begins where the next step begins.
    walk: Option<Walk>,
    any_frame: bool,
}

/// Returns the unit of a frame with this content size; the caller adds its place in the input.
fn unit(stored_len: usize, content_bytes: Option<u64>, place: Place) -> Result<Unit, Fault> {
    let content_bytes =
        content_bytes.ok_or(Fault::unsupported("a zstd frame without its content size"))?;
    if content_bytes > place.raw_len - place.raw_bytes {
        return Err(Fault::RAW_TOO_LONG);
    }
    let raw_len = usize::try_from(content_bytes)
        .map_err(|_| Fault::unsupported("a zstd frame too long to be a unit"))?;
    Ok(Unit {
        stored_start: 0,
        stored_len,
        raw_start: place.raw_bytes,
        raw_len,
        form: 0,
    })
}

impl Steps for Frames {
    const CODEC: CodecId = CodecId::ZSTD;
    const SHORTAGE: Fault = Fault::RAW_TOO_SHORT;

    fn step(&mut self, rest: &[u8], place: Place) -> Result<Option<Step>, Fault> {
        if self.skip_bytes > 0 {
            let taken = self.skip_bytes.min(rest.len() as u64);
            self.skip_bytes -= taken;
            return Ok((taken > 0).then_some((taken as usize, None)));
        }
        if let Some(mut walk) = self.walk {
            let found = walk.advance(rest)?;
            self.walk = Some(walk);
            if found.unwrap_or(walk.walked_bytes) > UNIT_STORED_BYTES_MAX {
                return Err(Fault::unsupported("a zstd frame too long to be a unit"));
            }
            let Some(stored_len) = found.filter(|&stored_len| stored_len <= rest.len()) else {
                return Ok(None);
            };
            self.walk = None;
            let unit = unit(stored_len, walk.header.content_bytes, place)?;
            return Ok(Some((stored_len, Some(unit))));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let taken = match zstd_frame::parse(rest, !self.any_frame)? {
            Head::Incomplete => return Ok(None),
            Head::Skippable { content_bytes } => {
                self.skip_bytes = u64::from(content_bytes);
                SKIPPABLE_HEADER_BYTES
            }
            Head::Frame(header) => {
                self.walk = Some(Walk::new(header));
                0
            }
        };
        self.any_frame = true;
        Ok(Some((taken, None)))
    }

    fn is_open(&self) -> bool {
        self.walk.is_some() || self.skip_bytes > 0 || !self.any_frame
    }
}
