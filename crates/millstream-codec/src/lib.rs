//! The codecs of Millstream. Bytes in, bytes out; no I/O, no threads.
//!
//! Three ways to decode, chosen by the engine:
//! - a whole block: [`decode_block`], when all stored bytes are in one piece of memory;
//! - a stream: [`StreamDecoder`], block by block in bounded memory;
//! - independent units of one stored stream (zstd frames, lz4 blocks, GDeflate tiles, gzip members
//!   are not: their sizes are unknown before): a [`UnitScanner`] finds them while the
//!   bytes arrive, [`decode_unit`] decodes each on any thread.

use std::fmt;

/// A codec's number, as requests and packages store it. From 0x80 on: the application's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

impl CodecId {
    /// Bytes as they are.
    pub const STORED: CodecId = CodecId(0);
    /// RFC 1950.
    pub const ZLIB: CodecId = CodecId(1);
    /// RFC 1952; concatenated members are one stream.
    pub const GZIP: CodecId = CodecId(2);
    /// RFC 1951.
    pub const DEFLATE: CodecId = CodecId(3);
    /// RFC 8878; concatenated and skippable frames are one stream.
    pub const ZSTD: CodecId = CodecId(4);
    /// The LZ4 frame format; concatenated and skippable frames are one stream.
    pub const LZ4: CodecId = CodecId(5);
    /// One bare LZ4 block: the raw size must be known.
    pub const LZ4_BLOCK: CodecId = CodecId(6);
    /// GDeflate tile stream.
    pub const GDEFLATE: CodecId = CodecId(7);
    /// First number of the application's own codecs.
    pub const APPLICATION: CodecId = CodecId(0x80);
}

/// What is wrong with stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecErrorKind {
    /// The bytes break the format.
    Corrupt,
    /// The stored bytes end before the stream does.
    Truncated,
    /// Bytes follow the end of the stream.
    TrailingBytes,
    /// The stream holds more raw bytes than declared (a bomb).
    RawTooLong,
    /// The stream holds fewer raw bytes than declared.
    RawTooShort,
    /// A checksum does not match.
    Checksum,
    /// A valid feature that is not supported, or a codec not built in.
    Unsupported,
    /// Memory for tables could not be had.
    OutOfMemory,
}

/// An error with the place in the stored stream, as far as the codec tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecError {
    /// What is wrong.
    pub kind: CodecErrorKind,
    /// Which codec says so.
    pub codec: CodecId,
    /// Stored bytes consumed before it was seen (relative to what the decoder was given, from its first byte).
    pub offset: u64,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} {:?} at stored offset {}",
            self.codec, self.kind, self.offset
        )
    }
}

impl std::error::Error for CodecError {}

/// Reusable decoder state of one thread (tables, contexts). Made once per worker.
#[derive(Default)]
pub struct Scratch {}

/// Decodes a whole stored block into `raw`; the number of raw bytes written.
/// All of `stored` must be consumed. `raw` may be longer than needed: the caller compares sizes.
///
/// # Errors
/// See [`CodecErrorKind`]; `raw` is unspecified then.
pub fn decode_block(
    codec: CodecId,
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, CodecError> {
    let _ = (codec, scratch, stored, raw);
    unimplemented!()
}

/// What one call of a stream decoder did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Stored bytes taken.
    pub consumed: usize,
    /// Raw bytes written.
    pub produced: usize,
    /// The stream is at a place where it may end (end of a frame or member with nothing pending).
    pub at_end: bool,
}

/// Decodes a stream piece by piece, in bounded memory.
pub trait StreamDecoder: Send {
    /// Takes from `stored`, writes to `raw`, until either is used up. If there is room in `raw` and bytes in `stored`, it makes progress.
    /// With `raw` empty it consumes what produces nothing (ends, checksums) and fails with `RawTooLong` if the stream would go on to produce.
    ///
    /// # Errors
    /// See [`CodecErrorKind`].
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError>;
}

/// A stream decoder.
///
/// # Errors
/// `Unsupported` for codecs that have none (stored, lz4 block, GDeflate, the application's own).
pub fn stream_decoder(codec: CodecId) -> Result<Box<dyn StreamDecoder>, CodecError> {
    let _ = codec;
    unimplemented!()
}

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
    /// For `decode_unit` alone: a checksum or so.
    pub check: u64,
}

/// Finds independent units in a stored stream while it arrives. Cheap: it reads headers, not data.
pub trait UnitScanner: Send {
    /// Looks at `stored`, which begins where the last call's `consumed` ended; appends the units that lie wholly
    /// inside it, and says how many bytes it is done with. `end`: nothing follows.
    ///
    /// # Errors
    /// See [`CodecErrorKind`]. `Unsupported`: from here on the stream cannot be cut into units of known size: the caller decodes it as a stream from the start.
    fn scan(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, CodecError>;
}

/// A scanner, if `head` (the first bytes of the stored stream) shows that the stream probably has independent units
/// of known raw size: more than one zstd frame with content size, lz4 frames with independent blocks, GDeflate.
#[must_use]
pub fn unit_scanner(
    codec: CodecId,
    head: &[u8],
    stored_len: u64,
    raw_len: u64,
) -> Option<Box<dyn UnitScanner>> {
    let _ = (codec, head, stored_len, raw_len);
    unimplemented!()
}

/// Decodes one unit; `raw` has exactly its raw length.
///
/// # Errors
/// See [`CodecErrorKind`].
pub fn decode_unit(
    codec: CodecId,
    unit: &Unit,
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<(), CodecError> {
    let _ = (codec, unit, scratch, stored, raw);
    unimplemented!()
}

/// Raw size as the head of a stored stream declares it for the whole stream, if it does (zstd single frame, lz4 frame, GDeflate).
#[must_use]
pub fn declared_raw_len(codec: CodecId, head: &[u8], stored_len: u64) -> Option<u64> {
    let _ = (codec, head, stored_len);
    unimplemented!()
}
