//! GDeflate: the adapter to the crate `gdeflate`, which implements the format.
//!
//! A stream begins with a table of tiles, each 64 KiB raw (except the last) and independent of all
//! others. So a scanner needs only the table, and a stream decoder needs memory only for the table
//! and one tile.

use std::ops::RangeInclusive;

use gdeflate::{Error, ErrorKind, Header, Level, TileStream, TileTable};

use crate::error::{CodecErrorKind, Fault};
use crate::{Scratch, limits};

pub(crate) const LEVELS: RangeInclusive<i32> =
    Level::STORED.number() as i32..=Level::BEST_RATIO.number() as i32;
pub(crate) const DEFAULT_LEVEL: i32 = Level::DEFAULT.number() as i32;
const _: () = assert!(limits::GDEFLATE_RAW_BYTES_MAX == gdeflate::limits::STREAM_RAW_BYTES_MAX);
const _: () = assert!(limits::UNIT_STORED_BYTES_MAX >= gdeflate::limits::TILE_STORED_BYTES_MAX);

/// Decodes a whole stream.
pub(crate) fn decode(scratch: &mut Scratch, stored: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
    let stream = TileStream::parse(stored).map_err(fault)?;
    let target = usize::try_from(stream.header().raw_len())
        .ok()
        .and_then(|raw_len| raw.get_mut(..raw_len))
        .ok_or(Fault::RAW_TOO_LONG)?;
    let decoder = scratch.gdeflate_decoder();
    decoder.decode(&stream, target).map_err(fault)?;
    Ok(target.len())
}

/// Encodes `raw` on up to `threads` threads and appends the stream, which does not depend on them.
pub(crate) fn encode(
    level: i32,
    raw: &[u8],
    threads: usize,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let level = u8::try_from(level).ok().and_then(Level::new);
    let level = level.ok_or(Fault::unsupported("the codec has no such level"))?;
    let stored = gdeflate::compress(raw, level, threads).map_err(fault)?;
    if out.is_empty() {
        *out = stored;
        return Ok(());
    }
    out.try_reserve(stored.len())
        .map_err(|_| Fault::OUT_OF_MEMORY)?;
    out.extend_from_slice(&stored);
    Ok(())
}

/// Decodes one tile.
pub(crate) fn decode_tile(
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<(), Fault> {
    scratch
        .gdeflate_decoder()
        .decode_tile(stored, raw)
        .map_err(fault)
}

pub(crate) fn declared(head: &[u8]) -> Option<u64> {
    Header::parse(head).ok().map(|header| header.raw_len())
}

pub(crate) fn fault(error: Error) -> Fault {
    let kind = match error.kind {
        ErrorKind::TruncatedHeader | ErrorKind::TruncatedStream => CodecErrorKind::Truncated,
        ErrorKind::TrailingBytes => CodecErrorKind::TrailingBytes,
        ErrorKind::RawTooLong => CodecErrorKind::RawTooLong,
        ErrorKind::RawTooShort => CodecErrorKind::RawTooShort,
        ErrorKind::TileSize | ErrorKind::ReservedBits | ErrorKind::TooLarge => {
            CodecErrorKind::Unsupported
        }
        _ => CodecErrorKind::Corrupt,
    };
    Fault {
        kind,
        cause: error.kind.cause(),
        offset: usize::try_from(error.offset).unwrap_or(usize::MAX),
    }
}

/// The header and tile table of a stream.
pub(crate) struct Table {
    pub(crate) header: Header,
    /// Stored length of each tile.
    pub(crate) tile_lens: Vec<u32>,
}

/// A reader of header and table, about 256 KiB at most, that may arrive in pieces.
#[derive(Default)]
pub(crate) struct TableReader {
    bytes: Vec<u8>,
}

impl TableReader {
    /// Takes bytes from `stored`; returns how many, and the table once it is complete.
    pub(crate) fn read(&mut self, stored: &[u8]) -> Result<(usize, Option<Table>), Fault> {
        let before = self.bytes.len();
        // The library's offset is from the start of the stream, a fault's from the current input.
        let here = |error| {
            let fault = fault(error);
            Fault {
                offset: fault.offset.saturating_sub(before),
                ..fault
            }
        };
        let mut taken = self.collect(stored, gdeflate::limits::HEADER_BYTES);
        let header = match Header::parse(&self.bytes) {
            Err(error) if error.kind == ErrorKind::TruncatedHeader => return Ok((taken, None)),
            parsed => parsed.map_err(here)?,
        };
        taken += self.collect(&stored[taken..], header.data_start());
        if self.bytes.len() < header.data_start() {
            return Ok((taken, None));
        }
        let table = TileTable::parse(&self.bytes).map_err(here)?;
        let tile_lens = (0..header.tile_count()).map(|tile| {
            let range = table.tile_range(tile);
            (range.end - range.start) as u32
        });
        Ok((
            taken,
            Some(Table {
                header,
                tile_lens: tile_lens.collect(),
            }),
        ))
    }

    /// Takes bytes from `stored` until `wanted` are collected; returns how many it took.
    fn collect(&mut self, stored: &[u8], wanted: usize) -> usize {
        let taken = wanted.saturating_sub(self.bytes.len()).min(stored.len());
        self.bytes.extend_from_slice(&stored[..taken]);
        taken
    }
}
