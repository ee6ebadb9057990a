//! The contenders of workload `streams`: our streams and views, and the standard library.
//!
//! In memory all contenders recycle their memory. With files everything from open to close counts.

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Write};
use std::path::Path;

use millstream_stream::{MemoryStream, Mode, Stream, StreamView, Streams};

use super::Place;
use crate::prelude::*;
use crate::streams::load::Load;

pub(super) fn memory_write<'a>(case: &mut Case<'a>, name: &'static str, load: &'a Load) {
    let len = load.bytes.len() as u64;
    let sign = |bytes: &[u8]| Ok(load.work(Some(load.sign_of(bytes))));
    let (mut kept, mut cursor) = (MemoryStream::new(), Cursor::new(Vec::new()));
    let method = move |_: &mut Destination| {
        if name == "cursor" {
            cursor.set_position(0);
            load.std_write(&mut cursor)?;
            return sign(cursor.get_ref());
        }
        kept.clear();
        if name == "millstream" {
            load.write(&mut kept)?;
        } else {
            let mut view = StreamView::new(std::mem::take(&mut kept), 0, len, Mode::Write)?;
            load.write(&mut view)?;
            kept = view.into_inner();
        }
        sign(kept.as_slice())
    };
    case.add(name, method);
}

pub(super) fn memory_read<'a>(case: &mut Case<'a>, name: &'static str, load: &'a Load) {
    let len = load.bytes.len() as u64;
    let mut kept = MemoryStream::from_vec(load.bytes.clone());
    let method = move |into: &mut Destination| match name {
        "cursor" => load.std_read(&mut Cursor::new(&load.bytes[..]), into),
        "millstream" => {
            kept.seek_to(0)?;
            load.read(&mut kept, into)
        }
        _ => {
            let mut view = StreamView::new(std::mem::take(&mut kept), 0, len, Mode::Read)?;
            let work = load.read(&mut view, into);
            kept = view.into_inner();
            work
        }
    };
    case.add(name, method);
}

pub(super) fn file_read<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    load: &'a Load,
    place: &Place,
    path: &'a Path,
) -> Result<()> {
    let streams = Streams::new(&place.storage)?;
    let method = move |into: &mut Destination| match name {
        "millstream" => {
            let mut stream = streams.open(path)?;
            let work = load.read(&mut stream, into)?;
            stream.close()?;
            Ok(work)
        }
        "millstream-view" => {
            let stream = streams.open(path)?;
            let mut view = StreamView::new(stream, 0, load.bytes.len() as u64, Mode::Read)?;
            let work = load.read(&mut view, into)?;
            view.into_inner().close()?;
            Ok(work)
        }
        // One call, whatever the call size of the other contenders.
        "read" => {
            let into = &mut into[..load.bytes.len()];
            let read = std::io::Read::read_exact(&mut open_buffered(path)?, into);
            read.on("read", path)?;
            Ok(load.work(None))
        }
        _ => load.std_read(&mut BufReader::new(open_buffered(path)?), into),
    };
    case.add(name, method);
    Ok(())
}

pub(super) fn file_write<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    load: &'a Load,
    place: &Place,
    path: &'a Path,
) -> Result<()> {
    let streams = Streams::new(&place.storage)?;
    let create = move || File::create(path).on("create", path);
    let run = move || match name {
        "millstream" => {
            let mut stream = streams.create(path)?;
            load.write(&mut stream)?;
            Ok(stream.close()?)
        }
        "millstream-view" => {
            let (stream, len) = (streams.create(path)?, load.bytes.len() as u64);
            let mut view = StreamView::new(stream, 0, len, Mode::Write)?;
            load.write(&mut view)?;
            Ok(view.into_inner().close()?)
        }
        "write" => create()?.write_all(&load.bytes).on("write", path),
        // The study's choice: an archive in memory, written to the file afterwards.
        "memory+write" => {
            let mut bytes = Vec::with_capacity(load.bytes.len());
            load.std_write(&mut bytes)?;
            create()?.write_all(&bytes).on("write", path)
        }
        _ => {
            let mut file = BufWriter::new(create()?);
            load.std_write(&mut file)?;
            file.flush().on("write", path)
        }
    };
    case.add(name, move |_| run().map(|()| load.work(None)));
    Ok(())
}
