//! Units: parts of one stored stream that decode independently, so that one request can keep all
//! workers busy.
//!
//! A scanner must know a unit's raw size before it is decoded, to place its raw bytes. zstd frames
//! and GDeflate tables state it. LZ4 blocks do not: a compressed block that is not its frame's last
//! is assumed to be full, as every common encoder writes them. If that proves wrong, scanning or
//! decoding returns `Unsupported`, and the caller decodes the whole again as a stream; so a wrong
//! size in LZ4 is reported by the stream decoder, never by the units.
//!
//! gzip and deflate have no units: their raw sizes are unknown before they are decoded.

pub(crate) mod gdeflate;
pub(crate) mod lz4;
mod steps;
pub(crate) mod zstd;

use crate::error::CodecError;
use crate::{CodecId, Scratch};

/// A part of a stored stream that decodes independently of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Offset of the first stored byte in the input of the `scan` call that found it.
    pub stored_start: usize,
    /// Stored size in bytes.
    pub stored_len: usize,
    /// Offset of the first raw byte in the raw bytes of the stream.
    pub raw_start: u64,
    /// Exact raw size in bytes.
    pub raw_len: usize,
    /// How the unit is encoded; for `decode_unit` only.
    pub form: u32,
}

/// A finder of independent units in a stored stream while it arrives. It reads only headers.
pub trait UnitScanner: Send {
    /// Scans `stored`, which begins after the bytes consumed by the last call; appends the units
    /// that lie wholly inside it, and returns the bytes consumed. `end`: nothing follows `stored`.
    ///
    /// A unit has at most [`UNIT_STORED_BYTES_MAX`](crate::limits::UNIT_STORED_BYTES_MAX) and is
    /// found at the latest with the 4 bytes that follow it (which tell LZ4 whether a block is the
    /// last). With `end`, success means that all bytes are consumed and the units fill the raw
    /// bytes exactly.
    ///
    /// # Errors
    /// See [`CodecErrorKind`](crate::CodecErrorKind). `Unsupported`: the rest of the stream cannot
    /// be split into units of known size; the caller decodes it as a stream from the start.
    fn scan(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, CodecError>;

    /// Verifies checksums over the raw bytes of several units. To be called once after the last
    /// `scan`, when every unit is decoded; `raw` is all raw bytes of the stream. It reads them at
    /// memory speed if the stream has such checksums, and does nothing otherwise.
    ///
    /// # Errors
    /// `Checksum` if one does not match; `RawTooShort` if `raw` is shorter than the units.
    fn verify(&self, raw: &[u8]) -> Result<(), CodecError> {
        let _ = raw;
        Ok(())
    }
}

/// Returns a scanner if `head` (the first bytes of the stored stream) shows that the stream
/// probably has several independent units of known raw size: zstd frames with a content size, LZ4
/// frames with independent blocks, GDeflate tiles. `raw_len` is the raw size of the whole stream.
#[must_use]
pub fn unit_scanner(
    codec: CodecId,
    head: &[u8],
    stored_len: u64,
    raw_len: u64,
) -> Option<Box<dyn UnitScanner>> {
    if head.len() as u64 > stored_len {
        return None;
    }
    (codec.facts().scanner?)(head, raw_len)
}

/// Decodes one unit; `raw` must have exactly its raw length, `stored` its stored length.
///
/// # Errors
/// See [`CodecErrorKind`](crate::CodecErrorKind); the offset counts from the unit's first byte.
/// `Unsupported`: the unit's raw size differs from the scanner's assumption; the caller decodes the
/// whole as a stream.
///
/// # Panics
/// If the length of `stored` or `raw` differs from the unit's.
pub fn decode_unit(
    codec: CodecId,
    unit: &Unit,
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<(), CodecError> {
    assert_eq!(stored.len(), unit.stored_len, "a unit's stored bytes");
    assert_eq!(raw.len(), unit.raw_len, "a unit's raw bytes");
    let decoded = (codec.facts().decode_unit)(unit, scratch, stored, raw);
    decoded.map_err(|fault| fault.at(codec, 0))
}

/// Returns the raw size that a stored stream's head declares, if any; `stored_len` for `STORED`.
///
/// If `head` is the whole stream, the size is that of the whole stream. Otherwise it is that of the
/// first frame with data, which is the whole stream's unless more frames follow; a decoder given
/// that much room then returns `RawTooLong`, and a caller that sized its memory by this number
/// alone should decode as a stream into memory that grows.
#[must_use]
pub fn declared_raw_len(codec: CodecId, head: &[u8], stored_len: u64) -> Option<u64> {
    (codec.facts().declared)(head, stored_len)
}
