//! The calls themselves, over our traits and over the standard library's.

use std::io::{Read, Write};

use millstream_stream::{ReadStream, ReadTyped, WriteStream, WriteTyped};

use crate::error::{Context, Result};
use crate::streams::load::Load;

/// Writes the load to a stream of ours.
#[inline(never)]
pub(super) fn write<W: WriteStream>(load: &Load, out: &mut W) -> Result<()> {
    if load.chunk == 4 {
        for word in load.bytes.chunks_exact(4) {
            let word = word.first_chunk().expect("four bytes");
            out.write_u32_le(u32::from_le_bytes(*word))?;
        }
        return Ok(());
    }
    for chunk in load.bytes.chunks(load.chunk) {
        out.write_slice(chunk)?;
    }
    Ok(())
}

/// Reads the load from a stream of ours; the sum, where the calls are of four bytes.
#[inline(never)]
pub(super) fn read<R: ReadStream>(
    load: &Load,
    input: &mut R,
    into: &mut [u8],
) -> Result<Option<u64>> {
    if load.chunk == 4 {
        let mut sum = 0u64;
        for _ in 0..load.calls() {
            sum = sum.wrapping_add(u64::from(input.read_u32_le()?));
        }
        return Ok(Some(sum));
    }
    for chunk in into[..load.bytes.len()].chunks_mut(load.chunk) {
        input.read_slice(chunk)?;
    }
    Ok(None)
}

/// Writes the load to a writer of the standard library.
#[inline(never)]
pub(super) fn std_write(load: &Load, out: &mut impl Write) -> Result<()> {
    if load.chunk == 4 {
        for word in load.bytes.chunks_exact(4) {
            let word = word.first_chunk::<4>().expect("four bytes");
            out.write_all(word).what("write")?;
        }
        return Ok(());
    }
    for chunk in load.bytes.chunks(load.chunk) {
        out.write_all(chunk).what("write")?;
    }
    Ok(())
}

/// Reads the load from a reader of the standard library.
#[inline(never)]
pub(super) fn std_read(load: &Load, input: &mut impl Read, into: &mut [u8]) -> Result<Option<u64>> {
    if load.chunk == 4 {
        let mut sum = 0u64;
        for _ in 0..load.calls() {
            let mut word = [0; 4];
            input.read_exact(&mut word).what("read")?;
            sum = sum.wrapping_add(u64::from(u32::from_le_bytes(word)));
        }
        return Ok(Some(sum));
    }
    for chunk in into[..load.bytes.len()].chunks_mut(load.chunk) {
        input.read_exact(chunk).what("read")?;
    }
    Ok(None)
}
