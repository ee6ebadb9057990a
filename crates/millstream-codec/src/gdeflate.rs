//! GDeflate: the border to the crate `gdeflate`, which knows the format.
//!
//! Its stream begins with a table of tiles, each 64 KiB raw (but the last) and independent of all
//! others, so a scanner needs the table once and no data. There is no stream decoder: the units are
//! one, and whole blocks decode tile by tile.

use std::ops::RangeInclusive;

use gdeflate::{Error, ErrorKind, Header, Level, ParseOptions, TileStream, TileTable};

use crate::error::{CodecError, CodecErrorKind, Fault};
use crate::unit::{Unit, UnitScanner, cut};
use crate::{CodecId, Scratch, limits};

pub(crate) const LEVELS: RangeInclusive<i32> =
    Level::STORED.number() as i32..=Level::BEST_RATIO.number() as i32;
pub(crate) const DEFAULT_LEVEL: i32 = Level::DEFAULT.number() as i32;
const _: () = assert!(limits::GDEFLATE_RAW_BYTES_MAX == gdeflate::limits::STREAM_RAW_BYTES_MAX);
const _: () = assert!(limits::UNIT_STORED_BYTES_MAX >= gdeflate::limits::TILE_STORED_BYTES_MAX);

/// Decodes a whole stream.
pub(crate) fn decode(scratch: &mut Scratch, stored: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
    let (stream, target) = open(stored, raw)?;
    let raw_bytes = target.len();
    scratch
        .gdeflate_decoder()
        .decode(&stream, target)
        .map_err(fault)?;
    Ok(raw_bytes)
}

/// Decodes a whole stream into new memory on up to `threads` threads. The table is checked before
/// memory is asked for, so that is at most 512 times the stored bytes (a tile has 128 or more).
pub(crate) fn decode_parallel(stored: &[u8], threads: usize) -> Result<Vec<u8>, Fault> {
    let stream = TileStream::parse(stored, ParseOptions::default()).map_err(fault)?;
    let out_of_memory = Fault::of(CodecErrorKind::OutOfMemory);
    let raw_len = usize::try_from(stream.raw_len()).map_err(|_| out_of_memory)?;
    let mut raw = Vec::new();
    raw.try_reserve_exact(raw_len).map_err(|_| out_of_memory)?;
    raw.resize(raw_len, 0);
    gdeflate::decompress_into(&stream, &mut raw, threads).map_err(fault)?;
    Ok(raw)
}

/// Checks a stream's table; gives the part of `raw` that it fills.
fn open<'a, 'b>(
    stored: &'a [u8],
    raw: &'b mut [u8],
) -> Result<(TileStream<'a>, &'b mut [u8]), Fault> {
    let stream = TileStream::parse(stored, ParseOptions::default()).map_err(fault)?;
    let target = usize::try_from(stream.raw_len())
        .ok()
        .and_then(|raw_len| raw.get_mut(..raw_len));
    target
        .map(|target| (stream, target))
        .ok_or(Fault::of(CodecErrorKind::RawTooLong))
}

/// Appends `raw` as a stream, encoded on up to `threads` threads; the bytes do not depend on them.
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
    crate::encode::reserve(out, stored.len())?;
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

/// A scanner, if there are several tiles, and as many as `raw_len` has.
pub(crate) fn scanner(head: &[u8], raw_len: u64) -> Option<Box<dyn UnitScanner>> {
    let header = Header::parse(head).ok()?;
    (header.tile_count() > 1 && header.raw_len() == raw_len)
        .then(|| Box::new(Scanner::new(header)) as Box<dyn UnitScanner>)
}

fn fault(error: Error) -> Fault {
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
    let cause = match error.kind {
        ErrorKind::NotGdeflate => "this is no GDeflate stream: it does not begin with 04 FB",
        ErrorKind::TileSize => "a GDeflate stream whose tiles are not 64 KiB",
        ErrorKind::ReservedBits => "a reserved bit is set in the GDeflate header",
        ErrorKind::TooLarge => "more bytes than one GDeflate stream can hold",
        ErrorKind::LastTileSize | ErrorKind::TileTable => "the GDeflate tile table is broken",
        _ if kind == CodecErrorKind::Corrupt => "the GDeflate data is broken",
        _ => kind.cause(),
    };
    Fault {
        kind,
        cause,
        offset: usize::try_from(error.offset).unwrap_or(usize::MAX),
    }
}

/// Cuts the stream along its table.
struct Scanner {
    header: Header,
    /// Stored lengths of all tiles, once the table has come.
    tile_lens: Option<Vec<u32>>,
    /// The next tile to come.
    tile: u32,
    stored_bytes: u64,
}

impl Scanner {
    fn new(header: Header) -> Scanner {
        Scanner {
            header,
            tile_lens: None,
            tile: 0,
            stored_bytes: 0,
        }
    }

    /// Reads the table at the start of the stream: its bytes, or `None` while it is not all there.
    fn read_table(&mut self, stored: &[u8]) -> Result<Option<usize>, Fault> {
        let data_start = self.header.data_start();
        if stored.len() < data_start {
            return Ok(None);
        }
        let table = TileTable::parse(stored).map_err(fault)?;
        if *table.header() != self.header {
            return Err(Fault::corrupt(
                "the stream does not begin with the head it was shown by",
            ));
        }
        let lens = (0..self.header.tile_count()).map(|tile| {
            let range = table.tile_range(tile);
            (range.end - range.start) as u32
        });
        self.tile_lens = Some(lens.collect());
        Ok(Some(data_start))
    }

    fn scan_all(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, Fault> {
        let mut consumed = 0;
        if self.tile_lens.is_none() {
            match self.read_table(stored)? {
                Some(taken) => consumed = taken,
                None if end => return Err(cut(stored.len())),
                None => return Ok(0),
            }
        }
        let tile_lens = self.tile_lens.as_deref().unwrap_or_default();
        while let Some(&stored_len) = tile_lens.get(self.tile as usize) {
            let stored_len = stored_len as usize;
            if stored.len() - consumed < stored_len {
                break;
            }
            units.push(Unit {
                stored_start: consumed,
                stored_len,
                raw_start: self.header.tile_raw_range(self.tile).start,
                raw_len: self.header.tile_raw_len(self.tile),
                form: 0,
                check: 0,
            });
            consumed += stored_len;
            self.tile += 1;
        }
        let whole = self.tile == self.header.tile_count();
        if whole && consumed < stored.len() {
            return Err(Fault::of(CodecErrorKind::TrailingBytes).after(consumed));
        }
        if end && !whole {
            return Err(cut(stored.len()));
        }
        Ok(consumed)
    }
}

impl UnitScanner for Scanner {
    fn scan(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, CodecError> {
        let consumed = self
            .scan_all(stored, end, units)
            .map_err(|fault| fault.at(CodecId::GDEFLATE, self.stored_bytes))?;
        self.stored_bytes += consumed as u64;
        Ok(consumed)
    }
}
