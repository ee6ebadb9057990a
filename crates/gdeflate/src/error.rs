//! Errors: what is wrong with a stream, and where.

use core::fmt;

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Fewer bytes than the header and the tile table need.
    TruncatedHeader,
    /// The first two bytes are not those of a GDeflate stream.
    NotGdeflate,
    /// The header names a tile size other than 64 KiB.
    TileSize,
    /// Reserved header bits are set: a newer format, or not this one.
    ReservedBits,
    /// The header's last tile size is 64 KiB or more (0 is a full tile), or not 0 without tiles.
    LastTileSize,
    /// A tile's stored size is not a multiple of four, is negative, or is outside
    /// `TILE_STORED_BYTES_MIN` to `TILE_STORED_BYTES_MAX` of [`limits`](crate::limits).
    TileTable,
    /// A tile ends past the last stored byte.
    TruncatedStream,
    /// Bytes follow the last tile.
    TrailingBytes,
    /// A tile's bits continue past its last word.
    TruncatedTile,
    /// A tile has words left after its last block.
    UnusedWords,
    /// Block type 3.
    BlockType,
    /// A code's lengths are over-subscribed, incomplete, or repeat a length before the first.
    BadCode,
    /// A codeword that the code does not assign, or symbol 286 or 287.
    BadSymbol,
    /// A match reaches back beyond the tile's first byte.
    Distance,
    /// The tile holds more raw bytes than declared.
    RawTooLong,
    /// The tile holds fewer raw bytes than declared.
    RawTooShort,
    /// The length of the caller's buffer does not match the tiles, or a tile range lies outside the
    /// stream.
    Argument,
    /// More raw bytes than one stream, or this machine's address space, can hold.
    TooLarge,
}

impl ErrorKind {
    /// Returns a description of the likely cause: a sentence fragment without a full stop.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::TruncatedHeader => "the header or tile table is cut off",
            Self::NotGdeflate => "not a GDeflate stream (first bytes are not 04 FB)",
            Self::TileSize => "tile size is not 64 KiB (a private container variant?)",
            Self::ReservedBits => "reserved header bits are set",
            Self::LastTileSize => "the header's last tile size is impossible",
            Self::TileTable => "a tile table entry is impossible",
            Self::TruncatedStream => "the stream ends before its last tile does",
            Self::TrailingBytes => "bytes follow the last tile",
            Self::TruncatedTile => "the tile's bits go on behind its last word",
            Self::UnusedWords => "the tile ends before its last word",
            Self::BlockType => "block type 3 does not exist",
            Self::BadCode => "a prefix code is over-subscribed or incomplete",
            Self::BadSymbol => "a codeword is not assigned",
            Self::Distance => "a match reaches to before the tile",
            Self::RawTooLong => "the tile holds more bytes than declared",
            Self::RawTooShort => "the tile holds fewer bytes than declared",
            Self::Argument => "buffer length or tile range does not fit the stream",
            Self::TooLarge => "more bytes than one stream can hold",
        }
    }
}

/// An error and its position in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Number of the faulty tile, if the error lies in one and the call knows its number.
    pub tile: Option<u32>,
    /// Stored offset at which the error was detected, from the first byte of the stream, or of the
    /// tile if a single tile was decoded. Lanes read ahead, so inside a tile the offending bits lie
    /// at or before it.
    pub offset: u64,
}

impl Error {
    pub(crate) const fn new(kind: ErrorKind, offset: u64) -> Self {
        Self {
            kind,
            tile: None,
            offset,
        }
    }

    /// Attributes the error to `tile`, which begins at `start` in its stream.
    pub(crate) const fn in_tile(self, tile: u32, start: u64) -> Self {
        Self {
            kind: self.kind,
            tile: Some(tile),
            offset: self.offset + start,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GDeflate: {} at stored offset {}",
            self.kind.cause(),
            self.offset
        )?;
        if let Some(tile) = self.tile {
            write!(f, ", tile {tile}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}
