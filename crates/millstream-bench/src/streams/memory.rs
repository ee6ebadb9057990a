//! The cases in memory. Everyone recycles its memory, but for `fresh` and `vec`, which grow.

use std::io::Cursor;

use millstream_stream::{MemoryStream, Mode, Stream, StreamView};

use super::calls::{read, std_read, std_write, write};
use crate::error::{Error, Result, ensure};
use crate::memory::Destination;
use crate::session::Session;
use crate::streams::load::{Load, WORKLOAD, check_read, measure, reader};

pub(super) fn writes(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    destination: &mut Destination,
) -> Result<()> {
    let Some(mut case) = session.begin(WORKLOAD, format!("memory write {name}")) else {
        return Ok(());
    };
    let mut stream = MemoryStream::new();
    reader(&mut case, load, "millstream", move |load, _| {
        stream.clear();
        write(load, &mut stream)?;
        Ok(Some(sign_of(load, stream.as_slice())))
    });
    let mut kept = Some(MemoryStream::new());
    reader(&mut case, load, "millstream-view", move |load, _| {
        let mut stream = kept.take().unwrap_or_default();
        stream.clear();
        let mut view = StreamView::new(stream, 0, load.bytes.len() as u64, Mode::Write)?;
        write(load, &mut view)?;
        let stream = kept.insert(view.into_inner());
        Ok(Some(sign_of(load, stream.as_slice())))
    });
    reader(&mut case, load, "millstream-fresh", |load, _| {
        let mut stream = MemoryStream::new();
        write(load, &mut stream)?;
        Ok(Some(sign_of(load, stream.as_slice())))
    });
    let mut cursor = Cursor::new(Vec::new());
    reader(&mut case, load, "cursor", move |load, _| {
        cursor.set_position(0);
        std_write(load, &mut cursor)?;
        Ok(Some(sign_of(load, cursor.get_ref())))
    });
    reader(&mut case, load, "vec", |load, _| {
        let mut bytes = Vec::new();
        std_write(load, &mut bytes)?;
        Ok(Some(sign_of(load, &bytes)))
    });
    let wanted = Some(sign_of(load, &load.bytes));
    case.check(load.bytes.len(), move |_, work| {
        ensure(work.digest == wanted, "other bytes than were written")
    });
    measure(session, case, load, destination)
}

/// Of what was written, the length and the last word: a sum of all would cost as much as the write.
fn sign_of(load: &Load, bytes: &[u8]) -> u64 {
    let same_len = bytes.len() == load.bytes.len();
    let last = bytes.last_chunk::<4>().copied().unwrap_or_default();
    u64::from(u32::from_le_bytes(last)) << 1 | u64::from(same_len)
}

pub(super) fn reads(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    destination: &mut Destination,
) -> Result<()> {
    let Some(mut case) = session.begin(WORKLOAD, format!("memory read {name}")) else {
        return Ok(());
    };
    let mut stream = MemoryStream::from_vec(load.bytes.to_vec());
    reader(&mut case, load, "millstream", move |load, into| {
        stream.seek_to(0)?;
        read(load, &mut stream, into)
    });
    let mut kept = Some(MemoryStream::from_vec(load.bytes.to_vec()));
    reader(&mut case, load, "millstream-view", move |load, into| {
        let stream = kept.take();
        let stream = stream.ok_or_else(|| Error::new("an earlier run failed"))?;
        let mut view = StreamView::new(stream, 0, load.bytes.len() as u64, Mode::Read)?;
        let digest = read(load, &mut view, into)?;
        kept = Some(view.into_inner());
        Ok(digest)
    });
    let bytes = load.bytes.to_vec();
    reader(&mut case, load, "cursor", move |load, into| {
        std_read(load, &mut Cursor::new(&bytes[..]), into)
    });
    case.check(load.bytes.len(), |bytes, work| {
        check_read(load, bytes, work)
    });
    measure(session, case, load, destination)
}
