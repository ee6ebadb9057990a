//! Decoding the body of a zstd frame with ruzstd: feature `rust` without `c`.
//!
//! ruzstd decodes only whole blocks: stored bytes are collected until one is complete. It retains
//! up to a window of raw bytes, so the frame has ended when its last block is decoded and nothing
//! is left to collect. It computes the checksum but does not verify it.

use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::FrameDecoderError;

use super::zstd::BodyProgress;
use crate::error::{After, Fault};
use crate::format::zstd_frame::{self, BLOCK_HEADER_BYTES, CHECKSUM_BYTES, Header, parse_block};
use crate::limits::ZSTD_WINDOW_BYTES_MAX;

/// A decoder of the bodies of consecutive frames.
pub(super) struct Body {
    decoder: FrameDecoder,
    header: Option<Header>,
    /// The bytes so far of the next block (or the checksum).
    block: Vec<u8>,
    /// Raw bytes of the frame so far.
    raw_bytes: u64,
    last_block_seen: bool,
}

impl Body {
    pub(super) fn new() -> Body {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
        Body {
            decoder,
            header: None,
            block: Vec::new(),
            raw_bytes: 0,
            last_block_seen: false,
        }
    }

    /// Begins a frame with its whole header.
    pub(super) fn begin(&mut self, header: &Header, bytes: &[u8]) -> Result<(), Fault> {
        self.decoder.reset(bytes).map_err(|error| fault(&error))?;
        self.header = Some(*header);
        self.block.clear();
        self.raw_bytes = 0;
        self.last_block_seen = false;
        Ok(())
    }

    /// Returns the number of bytes that `block` needs to be decoded, as far as is known.
    fn wanted(&self, header: &Header) -> Result<usize, Fault> {
        if self.last_block_seen {
            return Ok(usize::from(header.has_checksum) * CHECKSUM_BYTES);
        }
        let Some(head) = self.block.first_chunk::<BLOCK_HEADER_BYTES>() else {
            return Ok(BLOCK_HEADER_BYTES);
        };
        Ok(BLOCK_HEADER_BYTES + parse_block(*head, header.block_bytes_max())?.stored_bytes)
    }

    /// Takes the stored bytes of the next block; returns how many, and whether it is complete.
    fn collect(&mut self, stored: &[u8], header: &Header) -> Result<(usize, bool), Fault> {
        let mut consumed = 0;
        loop {
            let wanted = self.wanted(header).after(consumed)?;
            let taken = (wanted - self.block.len()).min(stored.len() - consumed);
            self.block
                .extend_from_slice(&stored[consumed..consumed + taken]);
            consumed += taken;
            if self.block.len() < wanted {
                return Ok((consumed, false));
            }
            if self.wanted(header).after(consumed)? == wanted {
                return Ok((consumed, true));
            }
        }
    }

    /// Continues decoding the frame.
    pub(super) fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<BodyProgress, Fault> {
        let header = self.header.expect("a frame has begun");
        let mut progress = BodyProgress {
            consumed: 0,
            produced: 0,
            ended: false,
        };
        loop {
            let room = &mut raw[progress.produced..];
            // Between the last block and the checksum ruzstd returns no data.
            if !self.last_block_seen || self.decoder.is_finished() {
                if self.decoder.can_collect() > 0 && !room.is_empty() {
                    let written = self.decode(&[], room).after(progress.consumed)?;
                    progress.produced += written;
                    continue;
                }
                if self.decoder.can_collect() == 0 && self.decoder.is_finished() {
                    self.finish(&header).after(progress.consumed)?;
                    progress.ended = true;
                    return Ok(progress);
                }
                if room.is_empty() {
                    return Ok(progress);
                }
            }
            let (taken, complete) = self
                .collect(&stored[progress.consumed..], &header)
                .after(progress.consumed)?;
            progress.consumed += taken;
            if !complete {
                return Ok(progress);
            }
            let block = std::mem::take(&mut self.block);
            if let Some(head) = block.first_chunk().filter(|_| !self.last_block_seen) {
                self.last_block_seen = parse_block(*head, header.block_bytes_max())?.last;
            }
            let target = &mut raw[progress.produced..];
            let decoded = self.decode(&block, target);
            self.block = block;
            self.block.clear();
            progress.produced += decoded.after(progress.consumed)?;
        }
    }

    /// Passes one block or nothing to the decoder and takes the raw bytes it returns.
    fn decode(&mut self, block: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
        let (_, written) = self
            .decoder
            .decode_from_to(block, raw)
            .map_err(|error| fault(&error))?;
        self.raw_bytes += written as u64;
        let content_bytes = self.header.and_then(|header| header.content_bytes);
        if content_bytes.is_some_and(|content_bytes| self.raw_bytes > content_bytes) {
            return Err(Fault::corrupt(
                "a zstd frame holds more than its header says",
            ));
        }
        Ok(written)
    }

    fn finish(&self, header: &Header) -> Result<(), Fault> {
        if header
            .content_bytes
            .is_some_and(|declared| self.raw_bytes != declared)
        {
            return Err(zstd_frame::TOO_SHORT);
        }
        if header.has_checksum
            && self.decoder.get_checksum_from_data() != self.decoder.get_calculated_checksum()
        {
            return Err(zstd_frame::DAMAGED);
        }
        Ok(())
    }
}

fn fault(error: &FrameDecoderError) -> Fault {
    match error {
        FrameDecoderError::WindowSizeTooBig { .. } => zstd_frame::WINDOW_TOO_LARGE,
        FrameDecoderError::DictNotProvided { .. } => zstd_frame::NEEDS_DICTIONARY,
        _ => zstd_frame::BROKEN,
    }
}
