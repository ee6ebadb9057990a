//! LZ4 frame streams, over the block decoder of lz4_flex.
//!
//! lz4_flex has a frame decoder too, but it pulls from a `Read`; here bytes are pushed, and cut
//! anywhere. A block decodes as a whole, so its stored bytes are collected first, unless the input
//! holds them all; its raw bytes go to the caller's memory if they have room there, and through
//! `pending` otherwise. So frames in one piece are decoded as they would be without a stream.
//! Blocks that are linked see the 64 KiB before them through
//! `history`; independent blocks skip that copy.

use xxhash_rust::xxh32::Xxh32;

use super::{Core, Progress};
use crate::block::{broken_block, lz4_block, lz4_block_with_history};
use crate::error::{CodecErrorKind, Fault};
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
    /// Behind the end mark.
    Ending(Header),
}

/// The decoder of one stream.
pub(crate) struct Lz4 {
    state: State,
    frames: Frames<LZ4_HEADER_BYTES_MAX>,
    /// A block's size, or the content checksum.
    field: Field<4>,
    /// A block's stored bytes, when they come in pieces.
    stored: Vec<u8>,
    /// A block's raw bytes that had no room; the first `pending_start` are written.
    pending: Vec<u8>,
    pending_start: usize,
    pending_end: usize,
    /// The last raw bytes of the frame, for linked blocks: up to twice what they see.
    history: Vec<u8>,
    frame_raw_bytes: u64,
    hash: Xxh32,
}

impl Lz4 {
    pub(crate) fn new() -> Lz4 {
        Lz4 {
            state: State::Between,
            frames: Frames::new(),
            field: Field::new(),
            stored: Vec::new(),
            pending: Vec::new(),
            pending_start: 0,
            pending_end: 0,
            history: Vec::new(),
            frame_raw_bytes: 0,
            hash: Xxh32::new(0),
        }
    }

    /// Finds the next frame: bytes taken, and whether one began.
    fn read_header(&mut self, stored: &[u8]) -> Result<(usize, bool), Fault> {
        let found = |header, _: &[u8]| Ok(header);
        let (taken, header) = self.frames.next(stored, lz4_frame::parse, found)?;
        if let Some(header) = header {
            self.history.clear();
            self.frame_raw_bytes = 0;
            self.hash.reset(0);
            self.state = State::Size(header);
        }
        Ok((taken, header.is_some()))
    }

    /// Reads a block's size; `None` while it is incomplete.
    fn read_size(&mut self, stored: &[u8], header: Header) -> Result<(usize, bool), Fault> {
        let taken = self.field.fill(4, stored);
        let Some(word) = first_u32(self.field.bytes()) else {
            return Ok((taken, false));
        };
        self.field.clear();
        self.state = match lz4_frame::parse_block(word, &header)? {
            BlockHead::End => {
                let declared = header.content_bytes;
                if declared.is_some_and(|declared| declared != self.frame_raw_bytes) {
                    return Err(Fault::corrupt(
                        "an LZ4 frame holds less than its header says",
                    ));
                }
                State::Ending(header)
            }
            BlockHead::Block {
                stored_bytes,
                compressed,
            } => {
                self.stored.clear();
                State::Block {
                    header,
                    stored_bytes,
                    compressed,
                }
            }
        };
        Ok((taken, true))
    }

    /// Reads the content checksum, if there is one, and ends the frame.
    fn read_end(&mut self, stored: &[u8], header: &Header) -> Result<(usize, bool), Fault> {
        let mut taken = 0;
        if header.content_checksum {
            taken = self.field.fill(4, stored);
            let Some(checksum) = first_u32(self.field.bytes()) else {
                return Ok((taken, false));
            };
            self.field.clear();
            if checksum != self.hash.digest() {
                return Err(Fault::checksum(
                    "the data does not match the LZ4 content checksum: it is damaged",
                ));
            }
        }
        self.state = State::Between;
        Ok((taken, true))
    }

    /// Takes a block's stored bytes and decodes it once it is complete: consumed, produced,
    /// complete.
    fn read_block(
        &mut self,
        stored: &[u8],
        raw: &mut [u8],
        shape: (Header, usize, bool),
    ) -> Result<(usize, usize, bool), Fault> {
        let (header, stored_bytes, compressed) = shape;
        let wanted = stored_bytes + if header.block_checksum { 4 } else { 0 };
        let taken = (wanted - self.stored.len()).min(stored.len());
        if taken == wanted {
            let produced = self.decode_block(&stored[..wanted], raw, &header, compressed)?;
            return Ok((taken, produced, true));
        }
        if self.stored.try_reserve(taken).is_err() {
            return Err(Fault::of(CodecErrorKind::OutOfMemory));
        }
        self.stored.extend_from_slice(&stored[..taken]);
        if self.stored.len() < wanted {
            return Ok((taken, 0, false));
        }
        let block = std::mem::take(&mut self.stored);
        let produced = self.decode_block(&block, raw, &header, compressed);
        self.stored = block;
        Ok((taken, produced?, true))
    }

    /// Decodes a complete block (with its checksum) into `raw`, or into `pending` where that is too
    /// small; the raw bytes written to `raw`.
    fn decode_block(
        &mut self,
        block: &[u8],
        raw: &mut [u8],
        header: &Header,
        compressed: bool,
    ) -> Result<usize, Fault> {
        let block = lz4_frame::verify_block(block, header)?;
        let room = raw.len().min(header.block_bytes_max);
        match expand(block, &mut raw[..room], &self.history, compressed) {
            Ok(written) => {
                self.account(&raw[..written], header)?;
                return Ok(written);
            }
            Err(fault) if !is_short(fault, room, header) => return Err(broken_block(fault)),
            Err(_) => {}
        }
        let mut pending = std::mem::take(&mut self.pending);
        if pending.len() < header.block_bytes_max {
            let missing = header.block_bytes_max - pending.len();
            if pending.try_reserve_exact(missing).is_err() {
                return Err(Fault::of(CodecErrorKind::OutOfMemory));
            }
            pending.resize(header.block_bytes_max, 0);
        }
        let target = &mut pending[..header.block_bytes_max];
        let expanded = expand(block, target, &self.history, compressed);
        let written = expanded.map_err(broken_block)?;
        self.account(&pending[..written], header)?;
        self.pending = pending;
        self.pending_start = 0;
        self.pending_end = written;
        Ok(self.flush(raw))
    }

    /// Books a block's raw bytes: size, checksum, history.
    fn account(&mut self, raw: &[u8], header: &Header) -> Result<(), Fault> {
        self.frame_raw_bytes += raw.len() as u64;
        if header
            .content_bytes
            .is_some_and(|declared| self.frame_raw_bytes > declared)
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
            // Not at each block, as blocks may be tiny.
            if self.history.len() + kept > 2 * LZ4_WINDOW_BYTES {
                let still_seen = LZ4_WINDOW_BYTES - kept;
                self.history.drain(..self.history.len() - still_seen);
            }
            self.history.extend_from_slice(&raw[raw.len() - kept..]);
        }
        Ok(())
    }

    /// Writes what is pending; the bytes written.
    fn flush(&mut self, raw: &mut [u8]) -> usize {
        let written = (self.pending_end - self.pending_start).min(raw.len());
        let pending = &self.pending[self.pending_start..self.pending_start + written];
        raw[..written].copy_from_slice(pending);
        self.pending_start += written;
        written
    }
}

/// Whether a block failed only because the room was less than the frame's largest block takes.
fn is_short(fault: Fault, room: usize, header: &Header) -> bool {
    fault.kind == CodecErrorKind::RawTooLong && room < header.block_bytes_max
}

/// Decodes a block into `target`.
fn expand(
    block: &[u8],
    target: &mut [u8],
    history: &[u8],
    compressed: bool,
) -> Result<usize, Fault> {
    if !compressed {
        let target = target.get_mut(..block.len());
        let target = target.ok_or(Fault::of(CodecErrorKind::RawTooLong))?;
        target.copy_from_slice(block);
        return Ok(block.len());
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
            produced += self.flush(&mut raw[produced..]);
            if self.pending_start < self.pending_end {
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
                    self.read_block(rest, &mut raw[produced..], shape).map(
                        |(taken, written, complete)| {
                            produced += written;
                            if complete {
                                self.state = State::Size(header);
                            }
                            (taken, complete)
                        },
                    )
                }
            };
            let (taken, goes_on) = step.map_err(|fault| fault.after(consumed))?;
            consumed += taken;
            if !goes_on {
                break;
            }
        }
        let between = matches!(self.state, State::Between) && self.frames.may_end();
        let flushed = self.pending_start == self.pending_end;
        Ok(Progress {
            consumed,
            produced,
            at_end: between && flushed,
        })
    }
}
