//! Encoding zlib, gzip and raw deflate: whole blocks by libdeflate (feature `c`), else by zlib-rs.

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::append;
use crate::Scratch;
use crate::error::Fault;
use crate::format::wrapper::{Tally, Wrapper};

/// Log2 of the window: the largest compresses best, and every decoder supports it.
const WINDOW_BITS: u8 = 15;

/// Appends `raw`, encoded as one member.
pub(super) fn encode(
    wrapper: Wrapper,
    level: i32,
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
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
    let mut encoder = Body::new(level);
    loop {
        let mut ended = false;
        append(out, crate::limits::GROW_BYTES_MIN, |target| {
            let (taken, written, end) = encoder.step(raw, target, true)?;
            raw = &raw[taken..];
            ended = end;
            Ok(written)
        })?;
        if ended {
            return Ok(());
        }
    }
}

/// A stream of raw deflate.
pub(crate) struct Body {
    deflate: Deflate,
}

impl Body {
    pub(crate) fn new(level: i32) -> Body {
        Body {
            deflate: Deflate::new(level, false, WINDOW_BITS),
        }
    }

    /// Encodes `raw` (`last`: nothing follows); returns bytes taken, bytes written, stream ended.
    pub(crate) fn step(
        &mut self,
        raw: &[u8],
        stored: &mut [u8],
        last: bool,
    ) -> Result<(usize, usize, bool), Fault> {
        let (in_before, out_before) = (self.deflate.total_in(), self.deflate.total_out());
        let flush = if last {
            DeflateFlush::Finish
        } else {
            DeflateFlush::NoFlush
        };
        let status = self.deflate.compress(raw, stored, flush);
        let taken = (self.deflate.total_in() - in_before) as usize;
        let written = (self.deflate.total_out() - out_before) as usize;
        match status {
            Ok(status) => Ok((taken, written, status == Status::StreamEnd)),
            Err(_) => Err(Fault::OUT_OF_MEMORY),
        }
    }
}
