//! The cases with files: everything from the open to the close counts.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use millstream_stream::{Mode, StreamView, Streams};

use super::Place;
use super::calls::{read, std_read, std_write, write};
use super::cpp;
use crate::case::Case;
use crate::error::{Context, Result, ensure};
use crate::files::{open_buffered, remove};
use crate::memory::Destination;
use crate::session::Session;
use crate::streams::load::{Load, WORKLOAD, check_read, measure, reader, sync, writer};

/// Reading a cached file, and writing one that is there and one that is not.
pub(super) fn all(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    place: &Place,
    destination: &mut Destination,
) -> Result<()> {
    if let Some(case) = session.begin(WORKLOAD, format!("file read {name}")) {
        reads(session, case, load, place, destination)?;
    }
    for is_new in [true, false] {
        let state = if is_new { "new" } else { "existing" };
        if let Some(case) = session.begin(WORKLOAD, format!("file write {state} {name}")) {
            writes(session, case, load, is_new, place, destination)?;
        }
    }
    Ok(())
}

pub(super) fn reads<'a>(
    session: &mut Session<'_>,
    mut case: Case<'a>,
    load: &'a Load,
    place: &Place,
    destination: &mut Destination,
) -> Result<()> {
    let path = load.file(&place.folder)?;
    let streams = Streams::new(&place.storage)?;
    let (from, opener) = (path.clone(), streams.clone());
    reader(&mut case, load, "millstream", move |load, into| {
        let mut stream = opener.open(&from)?;
        let digest = read(load, &mut stream, into)?;
        stream.close()?;
        Ok(digest)
    });
    let from = path.clone();
    reader(&mut case, load, "millstream-view", move |load, into| {
        let stream = streams.open(&from)?;
        let mut view = StreamView::new(stream, 0, load.bytes.len() as u64, Mode::Read)?;
        let digest = read(load, &mut view, into)?;
        view.into_inner().close()?;
        Ok(digest)
    });
    let from = path.clone();
    reader(&mut case, load, "read", move |load, into| {
        // One call, whatever the size of the calls of the others.
        std_read(&load.in_one_call(), &mut open_buffered(&from)?, into)?;
        Ok(None)
    });
    let from = path.clone();
    reader(&mut case, load, "bufreader", move |load, into| {
        std_read(load, &mut BufReader::new(open_buffered(&from)?), into)
    });
    cpp::add(&mut case, "read", load, place, &path);
    case.check(load.bytes.len(), |bytes, work| {
        check_read(load, bytes, work)
    });
    measure(session, case, load, destination)
}

pub(super) fn writes<'a>(
    session: &mut Session<'_>,
    mut case: Case<'a>,
    load: &'a Load,
    is_new: bool,
    place: &Place,
    destination: &mut Destination,
) -> Result<()> {
    let path = place.folder.join("written");
    crate::corpus::replace(&path, &load.bytes)?;
    add_writers(&mut case, load, place, &path)?;
    // What is dirty from the last run is written back before the next one, untimed.
    let written = path.clone();
    case.prepare(move || match is_new {
        true => remove(&written),
        false => sync(&written),
    });
    case.check(load.bytes.len(), move |_, _| {
        let bytes = std::fs::read(&path).on("read", &path)?;
        let right = bytes == load.bytes[..];
        ensure(right, "the file holds other bytes than were written")
    });
    measure(session, case, load, destination)
}

fn add_writers(case: &mut Case<'_>, load: &Load, place: &Place, path: &Path) -> Result<()> {
    let streams = Streams::new(&place.storage)?;
    let (to, opener) = (path.to_owned(), streams.clone());
    writer(case, load, "millstream", move |load| {
        let mut stream = opener.create(&to)?;
        write(load, &mut stream)?;
        Ok(stream.close()?)
    });
    let to = path.to_owned();
    writer(case, load, "millstream-view", move |load| {
        let stream = streams.create(&to)?;
        let mut view = StreamView::new(stream, 0, load.bytes.len() as u64, Mode::Write)?;
        write(load, &mut view)?;
        Ok(view.into_inner().close()?)
    });
    let create = |path: &Path| File::create(path).on("create", path);
    let to = path.to_owned();
    writer(case, load, "write", move |load| {
        std_write(&load.in_one_call(), &mut create(&to)?)
    });
    let to = path.to_owned();
    writer(case, load, "memory+write", move |load| {
        // What the study decided for: an archive in memory, streamed to the file afterwards.
        let mut bytes = Vec::with_capacity(load.bytes.len());
        std_write(load, &mut bytes)?;
        create(&to)?.write_all(&bytes).on("write", &to)
    });
    let to = path.to_owned();
    writer(case, load, "bufwriter", move |load| {
        let mut file = BufWriter::new(create(&to)?);
        std_write(load, &mut file)?;
        file.flush().on("write", &to)
    });
    cpp::add(case, "write", load, place, path);
    Ok(())
}
