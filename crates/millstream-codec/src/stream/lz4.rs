//! LZ4 frame streams, over the block decoder of lz4_flex.
//!
//! lz4_flex has a frame decoder, too, but it pulls from a `Read`; here bytes are pushed, split
//! anywhere. A block decodes as a whole, so its stored bytes are collected first, unless the input
//! holds them all; its raw bytes go directly to the caller if they fit there, and through `pending`
//! otherwise. Linked blocks see the 64 KiB before them through `history`; independent blocks skip
//! that copy.

use xxhash_rust::xxh32::Xxh32;

use super::buffers::{Collected, Pending};
use super::{Core, Progress};
use crate::block::{broken_block, decode_stored, lz4_block, lz4_block_with_history};
use crate::error::{After, CodecErrorKind, Fault};
use crate::format::lz4_frame::{self, BlockHead, Header};
use crate::format::{Field, Frames, first_u32};
use crate::limits::{LZ4_HEADER_BYTES_MAX, LZ4_WINDOW_BYTES};

#[derive(Clone, Copy)]
enum State {
    /// Before a frame or within its header.
    Between,
    /// Before or within a block's size.
    Size(Header),
    /// Within a block and its checksum.
    Block {
        header: Header,
        stored_bytes: usize,
        compressed: bool,
    },
    /// After the end mark.
    Ending(Header),
}

/// The decoder of one stream.
pub(crate) struct Lz4 {
    state: State,
    frames: Frames<LZ4_HEADER_BYTES_MAX>,
    /// A block's size, or the content checksum.
    field: Field<4>,
    stored: Collected,
    pending: Pending,
    seen: Seen,
}

/// The state kept of the frame's raw bytes so far.
struct Seen {
    /// The last of them, for linked blocks: up to twice the 64 KiB that a block can see.
    history: Vec<u8>,
    raw_bytes: u64,
    hash: Xxh32,
}

impl Lz4 {
    pub(crate) fn new() -> Lz4 {
        Lz4 {
            state: State::Between,
            frames: Frames::new(),
            field: Field::new(),
            stored: Collected::default(),
            pending: Pending::default(),
            seen: Seen {
                history: Vec::new(),
                raw_bytes: 0,
                hash: Xxh32::new(0),
            },
        }
    }

    /// Finds the next frame; returns the bytes taken, and whether a frame began.
    fn read_header(&mut self, stored: &[u8]) -> Result<(usize, bool), Fault> {
        let found = |header, _: &[u8]| Ok(header);
        let (taken, header) = self.frames.next(stored, lz4_frame::parse, found)?;
        if let Some(header) = header {
            self.seen.history.clear();
            self.seen.raw_bytes = 0;
            self.seen.hash.reset(0);
            self.state = State::Size(header);
        }
        Ok((taken, header.is_some()))
    }

    /// Reads a block's size; returns the bytes taken, and whether it is complete.
    fn read_size(&mut self, stored: &[u8], header: Header) -> Result<(usize, bool), Fault> {
        let taken = self.field.fill(4, stored);
        let Some(word) = first_u32(self.field.bytes()) else {
            return Ok((taken, false));
        };
        self.field.clear();
        self.state = match lz4_frame::parse_block(word, &header)? {
            BlockHead::End => {
                let declared = header.content_bytes;
                if declared.is_some_and(|declared| declared != self.seen.raw_bytes) {
                    return Err(Fault::corrupt(
                        "an LZ4 frame holds less than its header says",
                    ));
                }
                State::Ending(header)
            }
            BlockHead::Block {
                stored_bytes,
                compressed,
            } => State::Block {
                header,
                stored_bytes,
                compressed,
            },
        };
        Ok((taken, true))
    }

    /// Reads the content checksum, if there is one, and ends the frame; returns the bytes taken,
    /// and whether the frame has ended.
    fn read_end(&mut self, stored: &[u8], header: &Header) -> Result<(usize, bool), Fault> {
        let mut taken = 0;
        if header.content_checksum {
            taken = self.field.fill(4, stored);
            let Some(checksum) = first_u32(self.field.bytes()) else {
                return Ok((taken, false));
            };
            self.field.clear();
            if checksum != self.seen.hash.digest() {
                return Err(lz4_frame::DAMAGED);
            }
        }
        self.state = State::Between;
        Ok((taken, true))
    }

    /// Takes a block's stored bytes and checksum. Once complete, decodes it into `raw`, or into
    /// `pending` if that is too small. Returns the bytes taken and, once decoded, the bytes written
    /// to `raw`.
    fn read_block(
        &mut self,
        stored: &[u8],
        raw: &mut [u8],
        shape: (Header, usize, bool),
    ) -> Result<(usize, Option<usize>), Fault> {
        let (header, stored_bytes, compressed) = shape;
        let (seen, pending) = (&mut self.seen, &mut self.pending);
        let len_max = header.block_bytes_max;
        let wanted = stored_bytes + if header.block_checksum { 4 } else { 0 };
        self.stored.take(stored, wanted, |block| {
            let block = lz4_frame::verify_block(block, header.block_checksum)?;
            let room = raw.len().min(len_max);
            match expand(block, &mut raw[..room], &seen.history, compressed) {
                Ok(written) => {
                    seen.add(&raw[..written], &header)?;
                    return Ok(written);
                }
                // The room may be too small for a valid block of this frame.
                Err(fault) if fault.kind == CodecErrorKind::RawTooLong && room < len_max => {}
                Err(fault) => return Err(broken_block(fault)),
            }
            let written = pending.fill(len_max, |target| {
                expand(block, target, &seen.history, compressed).map_err(broken_block)
            })?;
            seen.add(written, &header)?;
            Ok(0)
        })
    }
}

impl Seen {
    /// Adds a block's raw bytes to size, checksum and history.
    fn add(&mut self, raw: &[u8], header: &Header) -> Result<(), Fault> {
        self.raw_bytes += raw.len() as u64;
        if header
            .content_bytes
            .is_some_and(|declared| self.raw_bytes > declared)
        {
            return Err(Fault::corrupt(
                "an LZ4 frame holds more than its header says",
            ));
        }
        if header.content_checksum {
            self.hash.update(raw);
        }
        if !header.independent {
            let kept = raw.len().min(LZ4_WINDOW_BYTES);
            // Not for each block, since blocks may be tiny.
            if self.history.len() + kept > 2 * LZ4_WINDOW_BYTES {
                let still_seen = LZ4_WINDOW_BYTES - kept;
                self.history.drain(..self.history.len() - still_seen);
            }
            self.history.extend_from_slice(&raw[raw.len() - kept..]);
        }
        Ok(())
    }
}

/// Decodes a block into `target`; returns the bytes written.
fn expand(
    block: &[u8],
    target: &mut [u8],
    history: &[u8],
    compressed: bool,
) -> Result<usize, Fault> {
    if !compressed {
        return decode_stored(block, target);
    }
    let seen = &history[history.len().saturating_sub(LZ4_WINDOW_BYTES)..];
    match seen {
        [] => lz4_block(block, target),
        history => lz4_block_with_history(block, target, history),
    }
}

impl Core for Lz4 {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            produced += self.pending.flush(&mut raw[produced..]);
            if !self.pending.is_empty() {
                break;
            }
            let rest = &stored[consumed..];
            let step = match self.state {
                State::Between => self.read_header(rest),
                State::Size(header) => self.read_size(rest, header),
                State::Ending(header) => self.read_end(rest, &header),
                State::Block {
                    header,
                    stored_bytes,
                    compressed,
                } => {
                    let shape = (header, stored_bytes, compressed);
                    let step = self.read_block(rest, &mut raw[produced..], shape);
                    step.map(|(taken, written)| {
                        if let Some(written) = written {
                            produced += written;
                            self.state = State::Size(header);
                        }
                        (taken, written.is_some())
                    })
                }
            };
            let (taken, goes_on) = step.after(consumed)?;
            consumed += taken;
            if !goes_on {
                break;
            }
        }
        let between = matches!(self.state, State::Between) && self.frames.may_end();
        Ok(Progress {
            consumed,
            produced,
            at_end: between && self.pending.is_empty(),
        })
    }
}
