//! Whole streams from a reader to a writer, in memory that does not grow with them.
//!
//! Each direction holds one buffer of 256 KiB per side and the codec's own state. Encoding GDeflate
//! is the exception: its tile table precedes its tiles, so it holds the whole stream in memory, up
//! to the format's limit, and encodes on all cores.

use std::io::{ErrorKind, Read, Write};

use xxhash_rust::xxh32::Xxh32;

use crate::encode::{self, check_level};
use crate::error::{Fault, StreamError};
use crate::format::wrapper::{Tally, Wrapper};
use crate::limits::{GDEFLATE_RAW_BYTES_MAX, LZ4_ENCODE_BLOCK_BYTES, TRANSFER_BYTES};
use crate::{CodecId, Scratch, StreamDecoder, stream_decoder};

/// The number of bytes read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes on the encoded side.
    pub stored_bytes: u64,
    /// Bytes on the decoded side.
    pub raw_bytes: u64,
}

/// Reads `raw` to its end, encodes it, and writes it to `stored`. Does not flush the writer.
///
/// ```
/// use millstream_codec::{CodecId, compress, decompress};
/// let (mut stored, mut raw) = (Vec::new(), Vec::new());
/// let totals = compress(CodecId::GZIP, 6, &mut &b"seven..."[..], &mut stored)?;
/// assert_eq!(totals.raw_bytes, 8);
/// decompress(CodecId::GZIP, &mut &stored[..], &mut raw)?;
/// assert_eq!(raw, b"seven...");
/// # Ok::<(), millstream_codec::StreamError>(())
/// ```
///
/// # Errors
/// A failed read or write (interrupted ones are retried), `Unsupported` for a codec that cannot be
/// encoded as a stream or a level outside [`level_range`](crate::level_range), or `OutOfMemory`.
/// Output already written remains.
pub fn compress(
    codec: CodecId,
    level: i32,
    raw: &mut dyn Read,
    stored: &mut dyn Write,
) -> Result<Totals, StreamError> {
    check_level(codec, level, &encode::level_range(codec))?;
    (codec.facts().compress)(codec, level, raw, stored)
}

/// Reads `stored` to its end, decodes it, and writes it to `raw`. Does not flush the writer.
///
/// # Errors
/// A failed read or write (interrupted ones are retried), or an error of the codec: empty input and
/// cut streams are `Truncated`, bytes after the end `TrailingBytes`. Output already written
/// remains; it is unverified if its checksum comes later in the stream.
pub fn decompress(
    codec: CodecId,
    stored: &mut dyn Read,
    raw: &mut dyn Write,
) -> Result<Totals, StreamError> {
    match codec {
        CodecId::STORED => copy(stored, raw),
        _ => decompress_stream(codec, stream_decoder(codec)?.as_mut(), stored, raw),
    }
}

fn decompress_stream(
    codec: CodecId,
    decoder: &mut dyn StreamDecoder,
    stored: &mut dyn Read,
    raw: &mut dyn Write,
) -> Result<Totals, StreamError> {
    let mut input = vec![0; TRANSFER_BYTES];
    let mut output = vec![0; TRANSFER_BYTES];
    let mut totals = Totals::default();
    loop {
        let available = read_some(stored, &mut input)?;
        let mut consumed = 0;
        // One call more after the last bytes, to write out what the decoder still holds.
        loop {
            let progress = decoder.decode(&input[consumed..available], &mut output)?;
            write(raw, &output[..progress.produced])?;
            consumed += progress.consumed;
            totals.stored_bytes += progress.consumed as u64;
            totals.raw_bytes += progress.produced as u64;
            if progress.consumed > 0 || progress.produced > 0 {
                continue;
            }
            assert_eq!(
                consumed, available,
                "a decoder with bytes and room makes progress"
            );
            if available > 0 {
                break;
            }
            if progress.at_end {
                return Ok(totals);
            }
            return Err(Fault::TRUNCATED.at(codec, totals.stored_bytes).into());
        }
    }
}

#[cfg(feature = "c")]
pub(crate) fn compress_zstd(
    codec: CodecId,
    level: i32,
    raw: &mut dyn Read,
    stored: &mut dyn Write,
) -> Result<Totals, StreamError> {
    use encode::zstd::{encoder, step};
    let mut encoder = encoder(level).map_err(|fault| fault.at(codec, 0))?;
    let step = |raw: &[u8], to: &mut [u8], last: bool| step(&mut encoder, raw, to, last);
    pump(codec, raw, stored, step, |_| {})
}

pub(crate) fn compress_deflate(
    codec: CodecId,
    level: i32,
    raw: &mut dyn Read,
    stored: &mut dyn Write,
) -> Result<Totals, StreamError> {
    let wrapper = Wrapper::of(codec);
    write(stored, wrapper.header())?;
    use encode::deflate::{encoder, step};
    let mut encoder = encoder(level);
    let mut tally = Tally::new(wrapper);
    let step = |raw: &[u8], to: &mut [u8], last: bool| step(&mut encoder, raw, to, last);
    let mut totals = pump(codec, raw, stored, step, |raw| tally.add(raw))?;
    let (trailer, trailer_bytes) = tally.trailer();
    write(stored, &trailer[..trailer_bytes])?;
    totals.stored_bytes += (wrapper.header().len() + trailer_bytes) as u64;
    Ok(totals)
}

/// Drives an encoder of `codec`: `step(raw, stored, last)` returns the bytes taken, the bytes
/// written, and whether the stream is complete; `seen` gets all raw bytes in order.
fn pump(
    codec: CodecId,
    raw: &mut dyn Read,
    stored: &mut dyn Write,
    mut step: impl FnMut(&[u8], &mut [u8], bool) -> Result<(usize, usize, bool), Fault>,
    mut seen: impl FnMut(&[u8]),
) -> Result<Totals, StreamError> {
    let mut input = vec![0; TRANSFER_BYTES];
    let mut output = vec![0; TRANSFER_BYTES];
    let mut totals = Totals::default();
    loop {
        let available = read_some(raw, &mut input)?;
        let last = available == 0;
        seen(&input[..available]);
        let mut consumed = 0;
        loop {
            let (taken, written, ended) = step(&input[consumed..available], &mut output, last)
                .map_err(|fault| fault.at(codec, totals.raw_bytes))?;
            consumed += taken;
            totals.raw_bytes += taken as u64;
            totals.stored_bytes += written as u64;
            write(stored, &output[..written])?;
            if ended {
                return Ok(totals);
            }
            // Unused room means that the encoder has nothing more to write for now.
            if !last && consumed == available && written < output.len() {
                break;
            }
            assert!(
                taken > 0 || written > 0,
                "an encoder with bytes and room makes progress"
            );
        }
    }
}

pub(crate) fn compress_lz4(
    raw: &mut dyn Read,
    stored: &mut dyn Write,
) -> Result<Totals, StreamError> {
    let mut scratch = Scratch::default();
    let mut block = vec![0; LZ4_ENCODE_BLOCK_BYTES];
    let mut encoded = Vec::new();
    let mut hash = Xxh32::new(0);
    let mut totals = Totals::default();
    encode::lz4::begin_frame(None, &mut encoded);
    loop {
        let available = read_full(raw, &mut block)?;
        hash.update(&block[..available]);
        totals.raw_bytes += available as u64;
        if available > 0 {
            encode::lz4::encode_frame_block(&mut scratch, &block[..available], &mut encoded)
                .map_err(|fault| fault.at(CodecId::LZ4, totals.raw_bytes))?;
        }
        let last = available < block.len();
        if last {
            encode::lz4::end_frame(hash.digest(), &mut encoded);
        }
        write(stored, &encoded)?;
        totals.stored_bytes += encoded.len() as u64;
        encoded.clear();
        if last {
            return Ok(totals);
        }
    }
}

pub(crate) fn compress_gdeflate(
    level: i32,
    raw: &mut dyn Read,
    stored: &mut dyn Write,
) -> Result<Totals, StreamError> {
    let mut bytes = Vec::new();
    // The encoder rejects input with this one byte more as too large.
    raw.take(GDEFLATE_RAW_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(StreamError::Read)?;
    // All cores, because nothing overlaps encoding: the stream is read before and written after.
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut encoded = Vec::new();
    crate::gdeflate::encode(level, &bytes, threads, &mut encoded)
        .map_err(|fault| fault.at(CodecId::GDEFLATE, 0))?;
    write(stored, &encoded)?;
    Ok(Totals {
        stored_bytes: encoded.len() as u64,
        raw_bytes: bytes.len() as u64,
    })
}

pub(crate) fn copy(from: &mut dyn Read, to: &mut dyn Write) -> Result<Totals, StreamError> {
    let mut buffer = vec![0; TRANSFER_BYTES];
    let mut bytes = 0;
    loop {
        let available = read_some(from, &mut buffer)?;
        if available == 0 {
            return Ok(Totals {
                stored_bytes: bytes,
                raw_bytes: bytes,
            });
        }
        write(to, &buffer[..available])?;
        bytes += available as u64;
    }
}

fn write(to: &mut dyn Write, bytes: &[u8]) -> Result<(), StreamError> {
    to.write_all(bytes).map_err(StreamError::Write)
}

/// Reads once, retrying interrupted reads; returns 0 at the end.
fn read_some(from: &mut dyn Read, buffer: &mut [u8]) -> Result<usize, StreamError> {
    loop {
        match from.read(buffer) {
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(StreamError::Read(error)),
        }
    }
}

/// Reads until the buffer is full or the input ends; returns the bytes read.
fn read_full(from: &mut dyn Read, buffer: &mut [u8]) -> Result<usize, StreamError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read_some(from, &mut buffer[filled..])? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(filled)
}
