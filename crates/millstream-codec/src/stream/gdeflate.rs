//! GDeflate streams: the table first, then tile by tile.
//!
//! A tile decodes as a whole, so its stored bytes are collected first, unless the input holds them
//! all; its raw bytes go straight to the caller if they have room there, and through `pending`
//! otherwise.

use gdeflate::limits::TILE_RAW_BYTES;

use super::{Core, Progress};
use crate::error::{CodecErrorKind, Fault};
use crate::gdeflate::{Table, TableReader, fault};

/// The decoder of one stream.
pub(crate) struct Gdeflate {
    decoder: gdeflate::Decoder,
    reader: TableReader,
    table: Option<Table>,
    /// The next tile to decode.
    tile: u32,
    /// Its stored bytes, when they come in pieces.
    stored: Vec<u8>,
    /// Raw bytes of the tile before that had no room; the first `pending_start` are written.
    pending: Vec<u8>,
    pending_start: usize,
}

impl Gdeflate {
    pub(crate) fn new() -> Gdeflate {
        Gdeflate {
            decoder: gdeflate::Decoder::new(),
            reader: TableReader::default(),
            table: None,
            tile: 0,
            stored: Vec::new(),
            pending: Vec::new(),
            pending_start: 0,
        }
    }

    /// Writes what is pending; the bytes written.
    fn flush(&mut self, raw: &mut [u8]) -> usize {
        let pending = &self.pending[self.pending_start..];
        let written = pending.len().min(raw.len());
        raw[..written].copy_from_slice(&pending[..written]);
        self.pending_start += written;
        written
    }

    /// Takes a tile's stored bytes and decodes it once it is complete: consumed, produced,
    /// complete.
    fn read_tile(
        &mut self,
        stored: &[u8],
        raw: &mut [u8],
        lens: (usize, usize),
    ) -> Result<(usize, usize, bool), Fault> {
        let (stored_len, raw_len) = lens;
        let taken = (stored_len - self.stored.len()).min(stored.len());
        if taken == stored_len {
            let produced = self.decode_tile(&stored[..taken], raw, raw_len)?;
            return Ok((taken, produced, true));
        }
        self.stored.extend_from_slice(&stored[..taken]);
        if self.stored.len() < stored_len {
            return Ok((taken, 0, false));
        }
        let tile = std::mem::take(&mut self.stored);
        let produced = self.decode_tile(&tile, raw, raw_len)?;
        self.stored = tile;
        self.stored.clear();
        Ok((taken, produced, true))
    }

    fn decode_tile(&mut self, tile: &[u8], raw: &mut [u8], raw_len: usize) -> Result<usize, Fault> {
        if let Some(target) = raw.get_mut(..raw_len) {
            self.decoder.decode_tile(tile, target).map_err(fault)?;
            return Ok(raw_len);
        }
        assert!(raw_len <= TILE_RAW_BYTES);
        self.pending.resize(raw_len, 0);
        self.pending_start = 0;
        self.decoder
            .decode_tile(tile, &mut self.pending)
            .map_err(fault)?;
        Ok(self.flush(raw))
    }
}

impl Core for Gdeflate {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        if self.table.is_none() {
            (consumed, self.table) = self.reader.read(stored)?;
        }
        let at_end = loop {
            produced += self.flush(&mut raw[produced..]);
            if self.pending_start < self.pending.len() {
                break false;
            }
            let Some(Table { header, tile_lens }) = &self.table else {
                break false;
            };
            let rest = &stored[consumed..];
            let Some(&stored_len) = tile_lens.get(self.tile as usize) else {
                if !rest.is_empty() {
                    return Err(Fault::of(CodecErrorKind::TrailingBytes).after(consumed));
                }
                break true;
            };
            let lens = (stored_len as usize, header.tile_raw_len(self.tile));
            let (taken, written, complete) = self
                .read_tile(rest, &mut raw[produced..], lens)
                .map_err(|fault| fault.after(consumed))?;
            consumed += taken;
            produced += written;
            if !complete {
                break false;
            }
            self.tile += 1;
        };
        Ok(Progress {
            consumed,
            produced,
            at_end,
        })
    }
}
