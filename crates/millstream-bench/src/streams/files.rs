//! The cases with files: everything from the open to the close counts.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use millstream::Storage;
use millstream_stream::{Mode, StreamView, Streams};

use super::calls::{read, std_read, std_write, write};
use super::{Load, WORKLOAD, add, add_writer, case, check_read, cpp, failed, sync};
use crate::error::{Error, Result};
use crate::measure::Work;
use crate::memory::Destination;
use crate::workload::{Field, Session};

/// Reading a cached file.
pub(super) fn reads(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    folder: &Path,
    storage: &Storage,
    destination: &mut Destination,
) -> Result<()> {
    let case_name = format!("file read {name}");
    if !session.wants(&case_name) {
        return Ok(());
    }
    let path = load.file(folder)?;
    let mut field = Field::new(WORKLOAD, &case_name);
    let streams = Streams::new(storage).map_err(failed)?;
    let (of, from, opener) = (load.clone(), path.clone(), streams.clone());
    add(&mut field, "millstream", move |into| {
        let mut stream = opener.open(&from).map_err(failed)?;
        let digest = read(&of, &mut stream, into)?;
        stream.close().map_err(failed)?;
        Ok(of.work(digest))
    });
    let (of, from) = (load.clone(), path.clone());
    add(&mut field, "millstream-view", move |into| {
        let stream = streams.open(&from).map_err(failed)?;
        let len = of.bytes.len() as u64;
        let mut view = StreamView::new(stream, 0, len, Mode::Read).map_err(failed)?;
        let digest = read(&of, &mut view, into)?;
        view.into_inner().close().map_err(failed)?;
        Ok(of.work(digest))
    });
    let (of, from) = (load.clone(), path.clone());
    add(&mut field, "read", move |into| {
        // One call, whatever the size of the calls of the others.
        let mut file = File::open(&from).map_err(|error| Error::file("open", &from, error))?;
        let mut whole = of.clone();
        whole.chunk = of.bytes.len();
        std_read(&whole, &mut file, into)?;
        Ok(of.work(None))
    });
    let (of, from) = (load.clone(), path.clone());
    add(&mut field, "bufreader", move |into| {
        let file = File::open(&from).map_err(|error| Error::file("open", &from, error))?;
        let digest = std_read(&of, &mut BufReader::new(file), into)?;
        Ok(of.work(digest))
    });
    cpp::readers(&mut field, load, folder, &path);
    let check = |bytes: &[u8], work: &Work| check_read(load, bytes, work);
    case(
        session,
        &case_name,
        load,
        field,
        &|| Ok(()),
        &check,
        destination,
    )
}

/// Writing a file that is there, and one that is not.
pub(super) fn writes(
    session: &mut Session<'_>,
    load: &Load,
    name: &str,
    folder: &Path,
    storage: &Storage,
    destination: &mut Destination,
) -> Result<()> {
    for state in ["new", "existing"] {
        let case_name = format!("file write {state} {name}");
        if session.wants(&case_name) {
            one_write(
                session,
                load,
                &case_name,
                state,
                folder,
                storage,
                destination,
            )?;
        }
    }
    Ok(())
}

pub(super) fn one_write(
    session: &mut Session<'_>,
    load: &Load,
    case_name: &str,
    state: &str,
    folder: &Path,
    storage: &Storage,
    destination: &mut Destination,
) -> Result<()> {
    let path = folder.join("written");
    std::fs::write(&path, &load.bytes).map_err(|error| Error::file("write", &path, error))?;
    let field = writers(load, case_name, folder, &path, storage)?;
    // What is dirty from the last run is written back before the next one, by nobody's clock.
    let prepare = || {
        if state == "existing" {
            return sync(&path);
        }
        std::fs::remove_file(&path).map_err(|error| Error::file("remove", &path, error))
    };
    let check = |_: &[u8], _: &Work| {
        let bytes = std::fs::read(&path).map_err(|error| Error::file("read", &path, error))?;
        if bytes == load.bytes[..] {
            Ok(())
        } else {
            Err(Error::new("the file holds other bytes than were written"))
        }
    };
    case(
        session,
        case_name,
        load,
        field,
        &prepare,
        &check,
        destination,
    )
}

fn writers(
    load: &Load,
    case_name: &str,
    folder: &Path,
    path: &Path,
    storage: &Storage,
) -> Result<Field> {
    let mut field = Field::new(WORKLOAD, case_name);
    let streams = Streams::new(storage).map_err(failed)?;
    let (of, to, opener) = (load.clone(), path.to_owned(), streams.clone());
    add_writer(&mut field, "millstream", move |_| {
        let mut stream = opener.create(&to).map_err(failed)?;
        write(&of, &mut stream)?;
        stream.close().map_err(failed)?;
        Ok(of.work(None))
    })?;
    let (of, to) = (load.clone(), path.to_owned());
    add_writer(&mut field, "millstream-view", move |_| {
        let stream = streams.create(&to).map_err(failed)?;
        let len = of.bytes.len() as u64;
        let mut view = StreamView::new(stream, 0, len, Mode::Write).map_err(failed)?;
        write(&of, &mut view)?;
        view.into_inner().close().map_err(failed)?;
        Ok(of.work(None))
    })?;
    let create = |path: &Path| File::create(path).map_err(|e| Error::file("create", path, e));
    let (of, to) = (load.clone(), path.to_owned());
    add_writer(&mut field, "write", move |_| {
        let mut whole = of.clone();
        whole.chunk = of.bytes.len();
        std_write(&whole, &mut create(&to)?)?;
        Ok(of.work(None))
    })?;
    let (of, to) = (load.clone(), path.to_owned());
    add_writer(&mut field, "memory+write", move |_| {
        // What the study decided for: an archive in memory, streamed to the file afterwards.
        let mut bytes = Vec::with_capacity(of.bytes.len());
        std_write(&of, &mut bytes)?;
        let written = create(&to)?.write_all(&bytes);
        written.map_err(|error| Error::file("write", &to, error))?;
        Ok(of.work(None))
    })?;
    let (of, to) = (load.clone(), path.to_owned());
    add_writer(&mut field, "bufwriter", move |_| {
        let mut file = BufWriter::new(create(&to)?);
        std_write(&of, &mut file)?;
        file.flush()
            .map_err(|error| Error::file("write", &to, error))?;
        Ok(of.work(None))
    })?;
    cpp::writers(&mut field, load, folder, path);
    Ok(field)
}
