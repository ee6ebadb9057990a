//! The calls themselves, over our traits and over the standard library's; and the cases in memory.

use std::io::{Cursor, Read, Write};

use millstream_stream::{
    MemoryStream, Mode, ReadStream, ReadTyped, Stream, StreamView, WriteStream, WriteTyped,
};

use super::{Load, WORKLOAD, add, case, check_read, failed};
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::workload::{Field, Session};

/// The sum of the words of `bytes`.
pub(super) fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4).map(|word| {
        let word = word.first_chunk().expect("four bytes");
        u64::from(u32::from_le_bytes(*word))
    });
    words.fold(0, u64::wrapping_add)
}

/// Writes the load to a stream of ours.
#[inline(never)]
pub(super) fn write<W: WriteStream>(load: &Load, out: &mut W) -> Result<()> {
    if load.chunk == 4 {
        for word in load.bytes.chunks_exact(4) {
            let word = word.first_chunk().expect("four bytes");
            out.write_u32_le(u32::from_le_bytes(*word))
                .map_err(failed)?;
        }
        return Ok(());
    }
    for chunk in load.bytes.chunks(load.chunk) {
        out.write_slice(chunk).map_err(failed)?;
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
            sum = sum.wrapping_add(u64::from(input.read_u32_le().map_err(failed)?));
        }
        return Ok(Some(sum));
    }
    for chunk in into[..load.bytes.len()].chunks_mut(load.chunk) {
        input.read_slice(chunk).map_err(failed)?;
    }
    Ok(None)
}

/// Writes the load to a writer of the standard library.
#[inline(never)]
pub(super) fn std_write(load: &Load, out: &mut impl Write) -> Result<()> {
    let error = |error| Error::io("write", error);
    if load.chunk == 4 {
        for word in load.bytes.chunks_exact(4) {
            out.write_all(word.first_chunk::<4>().expect("four bytes"))
                .map_err(error)?;
        }
        return Ok(());
    }
    for chunk in load.bytes.chunks(load.chunk) {
        out.write_all(chunk).map_err(error)?;
    }
    Ok(())
}

/// Reads the load from a reader of the standard library.
#[inline(never)]
pub(super) fn std_read(load: &Load, input: &mut impl Read, into: &mut [u8]) -> Result<Option<u64>> {
    let error = |error| Error::io("read", error);
    if load.chunk == 4 {
        let mut sum = 0u64;
        for _ in 0..load.calls() {
            let mut word = [0; 4];
            input.read_exact(&mut word).map_err(error)?;
            sum = sum.wrapping_add(u64::from(u32::from_le_bytes(word)));
        }
        return Ok(Some(sum));
    }
    for chunk in into[..load.bytes.len()].chunks_mut(load.chunk) {
        input.read_exact(chunk).map_err(error)?;
    }
    Ok(None)
}

/// The cases in memory. Everyone recycles its memory, but for `fresh` and `vec`, which grow.
pub(super) fn memory(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    destination: &mut Destination,
) -> Result<()> {
    let case_name = format!("memory write {name}");
    if session.wants(&case_name) {
        memory_writes(session, load, &case_name, destination)?;
    }
    let case_name = format!("memory read {name}");
    if session.wants(&case_name) {
        memory_reads(session, load, &case_name, destination)?;
    }
    Ok(())
}

fn memory_writes(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    destination: &mut Destination,
) -> Result<()> {
    let mut field = Field::new(WORKLOAD, name);
    let mut stream = MemoryStream::new();
    let of = load.clone();
    add(&mut field, "millstream", move |_| {
        stream.clear();
        write(&of, &mut stream)?;
        Ok(of.work(Some(sum_of_if_short(&of, stream.as_slice()))))
    });
    let (of, mut view_of) = (load.clone(), Some(MemoryStream::new()));
    add(&mut field, "millstream-view", move |_| {
        let mut stream = view_of.take().unwrap_or_default();
        stream.clear();
        let len = of.bytes.len() as u64;
        let mut view = StreamView::new(stream, 0, len, Mode::Write).map_err(failed)?;
        write(&of, &mut view)?;
        let stream = view.into_inner();
        let sum = sum_of_if_short(&of, stream.as_slice());
        view_of = Some(stream);
        Ok(of.work(Some(sum)))
    });
    let of = load.clone();
    add(&mut field, "millstream-fresh", move |_| {
        let mut stream = MemoryStream::new();
        write(&of, &mut stream)?;
        Ok(of.work(Some(sum_of_if_short(&of, stream.as_slice()))))
    });
    let (of, mut cursor) = (load.clone(), Cursor::new(Vec::new()));
    add(&mut field, "cursor", move |_| {
        cursor.set_position(0);
        std_write(&of, &mut cursor)?;
        Ok(of.work(Some(sum_of_if_short(&of, cursor.get_ref()))))
    });
    let of = load.clone();
    add(&mut field, "vec", move |_| {
        let mut bytes = Vec::new();
        std_write(&of, &mut bytes)?;
        Ok(of.work(Some(sum_of_if_short(&of, &bytes))))
    });
    let wanted = sum_of_if_short(load, &load.bytes);
    let check = |_: &[u8], work: &crate::measure::Work| match work.digest {
        Some(sum) if sum == wanted => Ok(()),
        _ => Err(Error::new("other bytes than were written")),
    };
    case(session, name, load, field, &|| Ok(()), &check, destination)
}

/// Of what was written, the length and the last word: a sum of all would cost as much as the write.
fn sum_of_if_short(load: &Load, bytes: &[u8]) -> u64 {
    let same_len = bytes.len() == load.bytes.len();
    let last = bytes.last_chunk::<4>().copied().unwrap_or_default();
    u64::from(u32::from_le_bytes(last)) << 1 | u64::from(same_len)
}

fn memory_reads(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    destination: &mut Destination,
) -> Result<()> {
    let mut field = Field::new(WORKLOAD, name);
    let (of, mut stream) = (load.clone(), MemoryStream::from_vec(load.bytes.to_vec()));
    add(&mut field, "millstream", move |into| {
        stream.seek_to(0).map_err(failed)?;
        let digest = read(&of, &mut stream, into)?;
        Ok(of.work(digest))
    });
    let (of, mut kept) = (
        load.clone(),
        Some(MemoryStream::from_vec(load.bytes.to_vec())),
    );
    add(&mut field, "millstream-view", move |into| {
        let len = of.bytes.len() as u64;
        let stream = kept
            .take()
            .ok_or_else(|| Error::new("an earlier run failed"))?;
        let mut view = StreamView::new(stream, 0, len, Mode::Read).map_err(failed)?;
        let digest = read(&of, &mut view, into)?;
        kept = Some(view.into_inner());
        Ok(of.work(digest))
    });
    let (of, bytes) = (load.clone(), load.bytes.to_vec());
    add(&mut field, "cursor", move |into| {
        let digest = std_read(&of, &mut Cursor::new(&bytes[..]), into)?;
        Ok(of.work(digest))
    });
    let check = |bytes: &[u8], work: &crate::measure::Work| check_read(load, bytes, work);
    case(session, name, load, field, &|| Ok(()), &check, destination)
}
