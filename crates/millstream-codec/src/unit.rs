//! Units: parts of one stored stream that decode independently, so that one request can keep all
//! workers busy.
//!
//! A scanner knows a unit's raw size before it is decoded, because its raw bytes must have a place.
//! zstd frames and GDeflate tiles say it. LZ4 blocks do not: a compressed block that is not its
//! frame's last is taken to be full, as every common encoder makes them. Where that proves wrong,
//! scanning or decoding says `Unsupported`, and the caller decodes the whole again as a stream; so
//! about sizes the LZ4 units never give a verdict, the stream decoder does.
//!
//! gzip members have no sizes before they are decoded, and deflate none at all: no units.

mod gdeflate;
mod lz4;
mod steps;
mod zstd;

use crate::error::{CodecError, Fault};
use crate::{CodecId, Scratch};

/// A part of a stored stream that decodes independently of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// First stored byte, relative to the input of the `scan` call that found it.
    pub stored_start: usize,
    /// Stored bytes.
    pub stored_len: usize,
    /// Where its first raw byte goes in the request's raw bytes.
    pub raw_start: u64,
    /// Its exact raw bytes.
    pub raw_len: usize,
    /// For `decode_unit` alone: how it is encoded.
    pub form: u32,
}

/// Finds independent units in a stored stream while it arrives. Cheap: it reads headers, not data.
pub trait UnitScanner: Send {
    /// Looks at `stored`, which begins where the last call's `consumed` ended; appends the units
    /// that lie wholly inside it, and says how many bytes it is done with. `end`: nothing follows.
    ///
    /// A unit is at most [`UNIT_STORED_BYTES_MAX`](crate::limits::UNIT_STORED_BYTES_MAX) long, and
    /// found once 4 bytes behind it are there too (LZ4 must see
    /// whether a block is the last). With `end`, success means that everything was
    /// consumed and the units fill the raw bytes exactly.
    ///
    /// # Errors
    /// See [`CodecErrorKind`](crate::CodecErrorKind). `Unsupported`: from here on the stream cannot
    /// be cut into units of known size: the caller decodes it as a stream from the start.
    fn scan(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, CodecError>;

    /// Checks what no single unit can: checksums over the raw bytes of several. To be called once
    /// after the last `scan`, when every unit is decoded; `raw` is all raw bytes of the stream.
    /// It reads them at memory speed where the stream has such checksums, and does nothing else.
    ///
    /// # Errors
    /// `Checksum`.
    fn verify(&self, raw: &[u8]) -> Result<(), CodecError> {
        let _ = raw;
        Ok(())
    }
}

/// A scanner, if `head` (the first bytes of the stored stream) shows that the stream probably has
/// independent units of known raw size: more than one zstd frame with content size, lz4 frames with
/// independent blocks, GDeflate. `raw_len` is the raw size of the whole stream.
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
    match codec {
        CodecId::ZSTD => zstd::scanner(head, raw_len),
        CodecId::LZ4 => lz4::scanner(head, raw_len),
        CodecId::GDEFLATE => gdeflate::scanner(head, raw_len),
        _ => None,
    }
}

/// Decodes one unit; `raw` has exactly its raw length, `stored` its stored length.
///
/// # Errors
/// See [`CodecErrorKind`](crate::CodecErrorKind); the offset counts from the unit's first byte.
/// `Unsupported`: the unit has another raw size than the scanner took it to have; the caller
/// decodes the whole as a stream.
///
/// # Panics
/// If `stored` or `raw` has another length than the unit says.
pub fn decode_unit(
    codec: CodecId,
    unit: &Unit,
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<(), CodecError> {
    assert_eq!(stored.len(), unit.stored_len, "a unit's stored bytes");
    assert_eq!(raw.len(), unit.raw_len, "a unit's raw bytes");
    let decoded = match codec {
        CodecId::ZSTD => zstd::decode(scratch, stored, raw),
        CodecId::LZ4 => lz4::decode(unit, stored, raw),
        CodecId::GDEFLATE => crate::gdeflate::decode_tile(scratch, stored, raw),
        _ => Err(Fault::unsupported("this codec has no units")),
    };
    decoded.map_err(|fault| fault.at(codec, 0))
}

/// Raw size as the head of a stored stream declares it (zstd, lz4 frame, GDeflate), if it does.
///
/// If `head` is the whole stream, the size is that of the whole stream. Otherwise it is what the
/// first frame with data says, which is the whole stream's unless more frames follow; a decoder
/// given that much room then says `RawTooLong`, and a caller who sized its memory by this number
/// alone should decode as a stream into memory that grows.
#[must_use]
pub fn declared_raw_len(codec: CodecId, head: &[u8], stored_len: u64) -> Option<u64> {
    match codec {
        CodecId::STORED => Some(stored_len),
        CodecId::ZSTD => zstd::declared(head, stored_len),
        CodecId::LZ4 => lz4::declared(head, stored_len),
        CodecId::GDEFLATE => crate::gdeflate::declared(head),
        _ => None,
    }
}
