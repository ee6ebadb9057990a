//! Units of LZ4: the independent blocks of frames.
//!
//! A block's raw size is that of its stored bytes if it is not compressed; otherwise the frame's
//! block size if another block follows; otherwise the rest of the frame's content size, or of the
//! whole stream if the frame does not state one (as the `lz4` tool writes them). A wrong guess is
//! `Unsupported`, see the parent module.
//!
//! Block checksums are verified with the unit. Content checksums cover whole frames, so the scanner
//! keeps them, and `verify` compares them at the end.

use xxhash_rust::xxh32::xxh32;

use super::steps::{Place, Scanner, Step, Steps};
use super::{Unit, UnitScanner};
use crate::CodecId;
use crate::block::{broken_block, lz4_block};
use crate::error::{CodecError, CodecErrorKind, Fault};
use crate::format::lz4_frame::{self, BlockHead, END_MARK, Header};
use crate::format::{Frames, Head, SKIPPABLE_HEADER_BYTES, first_frame, first_u32};
use crate::limits::LZ4_HEADER_BYTES_MAX;

/// Bits of [`Unit::form`].
const FORM_COMPRESSED: u32 = 1;
const FORM_CHECKED: u32 = 2;

const NOT_FULL: Fault =
    Fault::unsupported("an LZ4 block has another size than its place in the frame suggests");

/// Returns a scanner if blocks are independent and there is more than one.
pub(crate) fn scanner(head: &[u8], raw_len: u64) -> Option<Box<dyn UnitScanner>> {
    let header = first_frame(head, lz4_frame::parse)?;
    let several = raw_len > header.block_bytes_max as u64;
    (header.independent && several).then(|| Scanner::boxed(Blocks::new(), raw_len))
}

pub(crate) fn declared(head: &[u8], stored_len: u64) -> Option<u64> {
    if (head.len() as u64) < stored_len {
        return first_frame(head, lz4_frame::parse)?.content_bytes;
    }
    let (mut consumed, mut raw_bytes) = (0usize, 0u64);
    while consumed < head.len() {
        consumed += match lz4_frame::parse(&head[consumed..], consumed == 0).ok()? {
            Head::Incomplete => return None,
            Head::Skippable { content_bytes } => {
                SKIPPABLE_HEADER_BYTES.checked_add(content_bytes as usize)?
            }
            Head::Frame(header) => {
                raw_bytes = raw_bytes.checked_add(header.content_bytes?)?;
                frame_bytes(&head[consumed..], &header)?
            }
        };
    }
    (consumed > 0).then_some(raw_bytes)
}

/// Returns the stored size of the frame at the start of `stored`.
fn frame_bytes(stored: &[u8], header: &Header) -> Option<usize> {
    let mut walked = header.header_bytes;
    loop {
        let word = first_u32(stored.get(walked..)?)?;
        walked += 4;
        match lz4_frame::parse_block(word, header).ok()? {
            BlockHead::End => break,
            BlockHead::Block { stored_bytes, .. } => {
                walked += stored_bytes + if header.block_checksum { 4 } else { 0 };
            }
        }
    }
    Some(walked + if header.content_checksum { 4 } else { 0 })
}

/// Decodes one block, which its checksum follows, if it has one.
pub(crate) fn decode(unit: &Unit, stored: &[u8], raw: &mut [u8]) -> Result<(), Fault> {
    let block = lz4_frame::verify_block(stored, unit.form & FORM_CHECKED != 0)?;
    if unit.form & FORM_COMPRESSED == 0 {
        raw.copy_from_slice(block);
        return Ok(());
    }
    let raw_len = raw.len();
    match lz4_block(block, raw) {
        Ok(raw_bytes) if raw_bytes == raw_len => Ok(()),
        Ok(_) => Err(NOT_FULL),
        Err(fault) if fault.kind == CodecErrorKind::RawTooLong => Err(NOT_FULL),
        Err(fault) => Err(broken_block(fault)),
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    Between,
    /// Before a block's size; the frame's raw bytes begin at `raw_start`.
    Block {
        header: Header,
        raw_start: u64,
    },
    /// After the end mark.
    Ending {
        header: Header,
        raw_start: u64,
    },
}

/// A content checksum and the range of raw bytes it covers.
struct Content {
    raw_start: u64,
    raw_end: u64,
    checksum: u32,
    /// Offset of the checksum in the stored stream.
    offset: u64,
}

struct Blocks {
    frames: Frames<LZ4_HEADER_BYTES_MAX>,
    state: State,
    /// One for each frame with a content checksum (at least 15 stored bytes each).
    contents: Vec<Content>,
}

impl Blocks {
    fn new() -> Blocks {
        Blocks {
            frames: Frames::new(),
            state: State::Between,
            contents: Vec::new(),
        }
    }

    fn step_between(&mut self, rest: &[u8], place: Place) -> Result<Option<Step>, Fault> {
        let found = |header: Header, _: &[u8]| match header.independent {
            true => Ok(header),
            false => Err(Fault::unsupported("an LZ4 frame with linked blocks")),
        };
        let (taken, header) = self.frames.next(rest, lz4_frame::parse, found)?;
        if let Some(header) = header {
            let raw_start = place.raw_bytes;
            self.state = State::Block { header, raw_start };
        }
        Ok((taken > 0).then_some((taken, None)))
    }

    fn step_block(
        &mut self,
        rest: &[u8],
        header: Header,
        raw_start: u64,
        place: Place,
    ) -> Result<Option<Step>, Fault> {
        let Some(word) = first_u32(rest) else {
            return Ok(None);
        };
        let frame_raw_bytes = place.raw_bytes - raw_start;
        let BlockHead::Block {
            stored_bytes,
            compressed,
        } = lz4_frame::parse_block(word, &header)?
        else {
            if header
                .content_bytes
                .is_some_and(|bytes| bytes != frame_raw_bytes)
            {
                return Err(NOT_FULL);
            }
            self.state = State::Ending { header, raw_start };
            return Ok(Some((4, None)));
        };
        let stored_len = stored_bytes + if header.block_checksum { 4 } else { 0 };
        let Some(next) = rest.get(4 + stored_len..).and_then(first_u32) else {
            return Ok(None);
        };
        let left = match header.content_bytes {
            Some(bytes) => bytes.checked_sub(frame_raw_bytes).ok_or(NOT_FULL)?,
            None => place.raw_len - place.raw_bytes,
        };
        let raw_bytes = match compressed {
            false => stored_bytes as u64,
            true if next == END_MARK => left,
            true => header.block_bytes_max as u64,
        };
        let room = left
            .min(header.block_bytes_max as u64)
            .min(place.raw_len - place.raw_bytes);
        if raw_bytes > room {
            return Err(NOT_FULL);
        }
        let unit = Unit {
            stored_start: 4,
            stored_len,
            raw_start: place.raw_bytes,
            raw_len: raw_bytes as usize,
            form: if compressed { FORM_COMPRESSED } else { 0 }
                | if header.block_checksum {
                    FORM_CHECKED
                } else {
                    0
                },
        };
        Ok(Some((4 + stored_len, Some(unit))))
    }
}

impl Steps for Blocks {
    const CODEC: CodecId = CodecId::LZ4;
    const SHORTAGE: Fault = NOT_FULL;

    fn step(&mut self, rest: &[u8], place: Place) -> Result<Option<Step>, Fault> {
        match self.state {
            State::Between => self.step_between(rest, place),
            State::Block { header, raw_start } => self.step_block(rest, header, raw_start, place),
            State::Ending { header, raw_start } => {
                let mut taken = 0;
                if header.content_checksum {
                    let Some(checksum) = first_u32(rest) else {
                        return Ok(None);
                    };
                    self.contents.push(Content {
                        raw_start,
                        raw_end: place.raw_bytes,
                        checksum,
                        offset: place.stored_bytes,
                    });
                    taken = 4;
                }
                self.state = State::Between;
                Ok(Some((taken, None)))
            }
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self.state, State::Between) || !self.frames.may_end()
    }

    fn verify(&self, raw: &[u8]) -> Result<(), CodecError> {
        for content in &self.contents {
            let range = content.raw_start as usize..content.raw_end as usize;
            let fault = match raw.get(range) {
                Some(raw) if xxh32(raw, 0) == content.checksum => continue,
                Some(_) => lz4_frame::DAMAGED,
                None => Fault::RAW_TOO_SHORT,
            };
            return Err(fault.at(CodecId::LZ4, content.offset));
        }
        Ok(())
    }
}
