//! GDeflate streams: the table first, then tile by tile.
//!
//! A tile decodes as a whole, so its stored bytes are collected first, unless the input holds them
//! all; its raw bytes go directly to the caller if they fit there, and through `pending` otherwise.

use super::buffers::{Collected, Pending};
use super::{Core, Progress};
use crate::error::{After, Fault};
use crate::gdeflate::{Table, TableReader, fault};

/// The decoder of one stream.
#[derive(Default)]
pub(crate) struct Gdeflate {
    decoder: gdeflate::Decoder,
    reader: TableReader,
    table: Option<Table>,
    /// Number of the next tile to decode.
    tile: u32,
    stored: Collected,
    pending: Pending,
}

fn decode_tile(
    decoder: &mut gdeflate::Decoder,
    tile: &[u8],
    raw: &mut [u8],
) -> Result<usize, Fault> {
    decoder.decode_tile(tile, raw).map_err(fault)?;
    Ok(raw.len())
}

impl Core for Gdeflate {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        if self.table.is_none() {
            (consumed, self.table) = self.reader.read(stored)?;
        }
        let at_end = loop {
            produced += self.pending.flush(&mut raw[produced..]);
            if !self.pending.is_empty() {
                break false;
            }
            let Some(Table { header, tile_lens }) = &self.table else {
                break false;
            };
            let rest = &stored[consumed..];
            let Some(&stored_len) = tile_lens.get(self.tile as usize) else {
                if !rest.is_empty() {
                    return Err(Fault::TRAILING_BYTES.after(consumed));
                }
                break true;
            };
            let raw_len = header.tile_raw_len(self.tile);
            let place = raw[produced..].get_mut(..raw_len);
            let (decoder, pending) = (&mut self.decoder, &mut self.pending);
            let decode = |tile: &[u8]| match place {
                Some(raw) => decode_tile(decoder, tile, raw),
                None => pending
                    .fill(raw_len, |raw| decode_tile(decoder, tile, raw))
                    .map(|_| 0),
            };
            let step = self.stored.take(rest, stored_len as usize, decode);
            let (taken, written) = step.after(consumed)?;
            consumed += taken;
            let Some(written) = written else {
                break false;
            };
            produced += written;
            self.tile += 1;
        };
        Ok(Progress {
            consumed,
            produced,
            at_end,
        })
    }
}
