//! Encoding zlib, gzip and raw deflate: whole blocks by libdeflate (feature `c`), else by zlib-rs.

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::append;
use crate::error::Fault;
use crate::format::wrapper::{Tally, Wrapper};
use crate::{CodecId, Scratch};

/// Log2 of the window: the largest compresses best, and every decoder supports it.
const WINDOW_BITS: u8 = 15;

/// Appends `raw`, encoded as one member.
pub(crate) fn encode(
    codec: CodecId,
    level: i32,
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let wrapper = Wrapper::of(codec);
    out.extend_from_slice(wrapper.header());
    encode_body(level, scratch, raw, out)?;
    let mut tally = Tally::new(wrapper);
    tally.add(raw);
    let (trailer, trailer_bytes) = tally.trailer();
    out.extend_from_slice(&trailer[..trailer_bytes]);
    Ok(())
}

#[cfg(feature = "c")]
fn encode_body(
    level: i32,
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let encoder = scratch.deflate_encoder(level)?;
    let bound_bytes = encoder.bound(raw.len());
    append(out, bound_bytes, |target| {
        encoder.encode(raw, target).ok_or(Fault::OUT_OF_MEMORY)
    })
}

#[cfg(not(feature = "c"))]
fn encode_body(
    level: i32,
    _: &mut Scratch,
    mut raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut encoder = encoder(level);
    loop {
        let mut ended = false;
        append(out, crate::limits::GROW_BYTES_MIN, |target| {
            let (taken, written, end) = step(&mut encoder, raw, target, true)?;
            raw = &raw[taken..];
            ended = end;
            Ok(written)
        })?;
        if ended {
            return Ok(());
        }
    }
}

/// Returns an encoder of raw deflate.
pub(crate) fn encoder(level: i32) -> Deflate {
    Deflate::new(level, false, WINDOW_BITS)
}

/// Encodes `raw` (`last`: nothing follows); returns bytes taken, bytes written, stream ended.
pub(crate) fn step(
    encoder: &mut Deflate,
    raw: &[u8],
    stored: &mut [u8],
    last: bool,
) -> Result<(usize, usize, bool), Fault> {
    let (in_before, out_before) = (encoder.total_in(), encoder.total_out());
    let flush = match last {
        true => DeflateFlush::Finish,
        false => DeflateFlush::NoFlush,
    };
    let status = encoder.compress(raw, stored, flush);
    let taken = (encoder.total_in() - in_before) as usize;
    let written = (encoder.total_out() - out_before) as usize;
    match status {
        Ok(status) => Ok((taken, written, status == Status::StreamEnd)),
        Err(_) => Err(Fault::OUT_OF_MEMORY),
    }
}
