//! The container: header, tile table, tiles.
//!
//! All metadata of a stream is checked here, once, so that the rest can rely on it: a
//! [`TileStream`] has only tiles of a valid size that lie inside its bytes. There are three types
//! because an engine receives a stream in pieces: [`Header`] from the first eight bytes,
//! [`TileTable`] once the table is complete, [`TileStream`] once the whole stream is.

use core::ops::Range;

use crate::error::{Error, ErrorKind};
use crate::limits::{
    HEADER_BYTES, STREAM_RAW_BYTES_MAX, TABLE_ENTRY_BYTES, TILE_RAW_BYTES, TILE_STORED_BYTES_MAX,
    TILE_STORED_BYTES_MIN, WORD_BYTES,
};

const ID: u8 = 4;
const MAGIC: u8 = ID ^ 0xFF;
const TILE_SIZE_INDEX_64K: u32 = 1;

/// The validated header of a stream, its first eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    tile_count: u32,
    last_tile_raw_len: u32,
}

impl Header {
    /// Reads the header from the first [`HEADER_BYTES`] of `stored`; what follows is ignored.
    ///
    /// # Errors
    /// Too few bytes, another format, a tile size other than 64 KiB, reserved bits, or an
    /// impossible last tile size.
    pub fn parse(stored: &[u8]) -> Result<Self, Error> {
        if stored
            .iter()
            .zip([ID, MAGIC])
            .any(|(&byte, magic)| byte != magic)
        {
            return Err(Error::new(ErrorKind::NotGdeflate, 0));
        }
        let Some(bytes) = stored.first_chunk::<HEADER_BYTES>() else {
            return Err(Error::new(ErrorKind::TruncatedHeader, stored.len() as u64));
        };
        let tile_count = u32::from(u16::from_le_bytes([bytes[2], bytes[3]]));
        let flags = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if flags & 3 != TILE_SIZE_INDEX_64K {
            return Err(Error::new(ErrorKind::TileSize, 4));
        }
        if flags >> 20 != 0 {
            return Err(Error::new(ErrorKind::ReservedBits, 4));
        }
        let last = (flags >> 2) & 0x3_FFFF;
        if last as usize >= TILE_RAW_BYTES || (tile_count == 0 && last != 0) {
            return Err(Error::new(ErrorKind::LastTileSize, 4));
        }
        let last_tile_raw_len = match (tile_count, last) {
            (0, _) => 0,
            (_, 0) => TILE_RAW_BYTES as u32,
            (_, last) => last,
        };
        Ok(Self {
            tile_count,
            last_tile_raw_len,
        })
    }

    /// Returns the header of a stream that holds `raw_len` bytes.
    pub(crate) fn of_raw_len(raw_len: u64) -> Result<Self, Error> {
        if raw_len > STREAM_RAW_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, 0));
        }
        let tile_count = raw_len.div_ceil(TILE_RAW_BYTES as u64) as u32;
        let full = u64::from(tile_count.saturating_sub(1)) * TILE_RAW_BYTES as u64;
        Ok(Self {
            tile_count,
            last_tile_raw_len: (raw_len - full) as u32,
        })
    }

    /// Returns the header in its stored form.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let last = self.last_tile_raw_len % TILE_RAW_BYTES as u32;
        let count = (self.tile_count as u16).to_le_bytes();
        let flags = (TILE_SIZE_INDEX_64K | (last << 2)).to_le_bytes();
        [
            ID, MAGIC, count[0], count[1], flags[0], flags[1], flags[2], flags[3],
        ]
    }

    /// Returns the number of tiles; 0 for an empty stream.
    #[must_use]
    pub const fn tile_count(&self) -> u32 {
        self.tile_count
    }

    /// Returns the raw size of the whole stream in bytes.
    #[must_use]
    pub const fn raw_len(&self) -> u64 {
        if self.tile_count == 0 {
            return 0;
        }
        (self.tile_count as u64 - 1) * TILE_RAW_BYTES as u64 + self.last_tile_raw_len as u64
    }

    /// Returns the offset of the first tile from the first byte of the stream.
    #[must_use]
    pub const fn data_start(&self) -> usize {
        HEADER_BYTES + self.tile_count as usize * TABLE_ENTRY_BYTES
    }

    /// Returns the raw size of one tile in bytes.
    ///
    /// # Panics
    /// If there is no such tile.
    #[must_use]
    pub const fn tile_raw_len(&self, tile: u32) -> usize {
        assert!(tile < self.tile_count, "no such tile");
        if tile + 1 == self.tile_count {
            self.last_tile_raw_len as usize
        } else {
            TILE_RAW_BYTES
        }
    }

    /// Returns the range of a tile's bytes in the raw data.
    ///
    /// # Panics
    /// If there is no such tile.
    #[must_use]
    pub const fn tile_raw_range(&self, tile: u32) -> Range<u64> {
        let start = tile as u64 * TILE_RAW_BYTES as u64;
        start..start + self.tile_raw_len(tile) as u64
    }
}

/// The validated header and tile table of a stream, which locate each tile.
#[derive(Debug, Clone, Copy)]
pub struct TileTable<'a> {
    header: Header,
    entries: &'a [u8],
}

impl<'a> TileTable<'a> {
    /// Reads header and table from the first bytes of a stream; what follows is ignored. At least
    /// [`Header::data_start`] bytes are needed.
    ///
    /// # Errors
    /// Those of [`Header::parse`]; too few bytes; a tile whose size is not a whole number of words,
    /// is negative, or is smaller or larger than a tile can be.
    pub fn parse(stored: &'a [u8]) -> Result<Self, Error> {
        let header = Header::parse(stored)?;
        let Some(entries) = stored.get(HEADER_BYTES..header.data_start()) else {
            return Err(Error::new(ErrorKind::TruncatedHeader, stored.len() as u64));
        };
        let table = Self { header, entries };
        for tile in 0..header.tile_count {
            let (start, end) = table.place(tile);
            let fits = end.checked_sub(start).is_some_and(|len| {
                len % WORD_BYTES as u64 == 0
                    && (TILE_STORED_BYTES_MIN as u64..=TILE_STORED_BYTES_MAX as u64).contains(&len)
            });
            if !fits {
                // The entry that determines where this tile ends: entry 0 for the last tile.
                let entry = (tile as usize + 1) % header.tile_count as usize;
                let offset = HEADER_BYTES + entry * TABLE_ENTRY_BYTES;
                return Err(Error::new(ErrorKind::TileTable, offset as u64).in_tile(tile, 0));
            }
        }
        Ok(table)
    }

    /// Returns the stream's header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the range of a tile's stored bytes, from the first byte of the stream.
    ///
    /// # Panics
    /// If there is no such tile.
    #[must_use]
    pub fn tile_range(&self, tile: u32) -> Range<u64> {
        assert!(tile < self.header.tile_count, "no such tile");
        let data = self.header.data_start() as u64;
        let (start, end) = self.place(tile);
        data + start..data + end
    }

    /// Returns the stored size of the whole stream in bytes, header and table included.
    #[must_use]
    pub fn stored_len(&self) -> u64 {
        match self.header.tile_count {
            0 => HEADER_BYTES as u64,
            count => self.tile_range(count - 1).end,
        }
    }

    fn entry(&self, index: u32) -> u64 {
        let at = index as usize * TABLE_ENTRY_BYTES;
        let bytes = self.entries[at..]
            .first_chunk()
            .expect("the table has tile_count entries");
        u64::from(u32::from_le_bytes(*bytes))
    }

    /// Returns a tile's start and end, from the end of the table.
    fn place(&self, tile: u32) -> (u64, u64) {
        let start = if tile == 0 { 0 } else { self.entry(tile) };
        let is_last = tile + 1 == self.header.tile_count;
        (
            start,
            if is_last {
                start + self.entry(0)
            } else {
                self.entry(tile + 1)
            },
        )
    }
}

/// A whole stream with a validated header and table; the tiles' contents are validated only when
/// they are decoded.
#[derive(Debug, Clone, Copy)]
pub struct TileStream<'a> {
    table: TileTable<'a>,
    stored: &'a [u8],
}

impl<'a> TileStream<'a> {
    /// Checks a stream's header and table. Takes time proportional to the number of tiles and
    /// allocates nothing.
    ///
    /// # Errors
    /// Those of [`TileTable::parse`]; a last tile that ends past `stored`; bytes after it.
    pub fn parse(stored: &'a [u8]) -> Result<Self, Error> {
        let stream = Self::parse_prefix(stored)?;
        let end = stream.table.stored_len();
        if end < stored.len() as u64 {
            return Err(Error::new(ErrorKind::TrailingBytes, end));
        }
        Ok(stream)
    }

    /// Like [`TileStream::parse`], but ignores any bytes after the stream, which ends at
    /// [`TileTable::stored_len`].
    ///
    /// # Errors
    /// Those of [`TileTable::parse`]; a last tile that ends past `stored`.
    pub fn parse_prefix(stored: &'a [u8]) -> Result<Self, Error> {
        let table = TileTable::parse(stored)?;
        if table.stored_len() > stored.len() as u64 {
            return Err(Error::new(ErrorKind::TruncatedStream, stored.len() as u64));
        }
        Ok(Self { table, stored })
    }

    /// Returns the stream's header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        self.table.header()
    }

    /// Returns the stream's tile table.
    #[must_use]
    pub const fn table(&self) -> &TileTable<'a> {
        &self.table
    }

    /// Returns a tile's stored bytes.
    ///
    /// # Panics
    /// If there is no such tile.
    #[must_use]
    pub fn tile(&self, tile: u32) -> &'a [u8] {
        let range = self.table.tile_range(tile);
        &self.stored[range.start as usize..range.end as usize]
    }
}
