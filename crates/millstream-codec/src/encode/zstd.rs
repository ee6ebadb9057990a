//! Encoding zstd with libzstd: one frame with a checksum.

use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::append;
use crate::Scratch;
use crate::block::zstd_fault;
use crate::error::Fault;

/// Appends `raw` as one frame.
pub(crate) fn encode(
    level: i32,
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let context = scratch.zstd_encoder()?;
    prepare(context, level)?;
    append(out, zstd_safe::compress_bound(raw.len()), |target| {
        context.compress2(target, raw).map_err(zstd_fault)
    })
}

fn prepare(context: &mut CCtx<'static>, level: i32) -> Result<(), Fault> {
    context
        .reset(ResetDirective::SessionAndParameters)
        .and_then(|_| context.set_parameter(CParameter::CompressionLevel(level)))
        .and_then(|_| context.set_parameter(CParameter::ChecksumFlag(true)))
        .map_err(zstd_fault)?;
    Ok(())
}

/// Returns an encoder of a frame of unknown size.
pub(crate) fn encoder(level: i32) -> Result<CCtx<'static>, Fault> {
    let mut context = CCtx::try_create().ok_or(Fault::OUT_OF_MEMORY)?;
    prepare(&mut context, level).map(|()| context)
}

/// Encodes `raw` (`last`: nothing follows); returns bytes taken, bytes written, frame ended.
pub(crate) fn step(
    encoder: &mut CCtx<'static>,
    raw: &[u8],
    stored: &mut [u8],
    last: bool,
) -> Result<(usize, usize, bool), Fault> {
    use zstd_safe::zstd_sys::ZSTD_EndDirective as End;
    let mut input = InBuffer::around(raw);
    let mut output = OutBuffer::around(stored);
    let directive = match last {
        true => End::ZSTD_e_end,
        false => End::ZSTD_e_continue,
    };
    let left = encoder.compress_stream2(&mut output, &mut input, directive);
    let left = left.map_err(zstd_fault)?;
    let (taken, written) = (input.pos(), output.pos());
    Ok((taken, written, last && left == 0 && taken == raw.len()))
}
