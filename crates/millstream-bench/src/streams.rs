//! Workload `streams`: 1.2 MB through streams, four bytes at a time and in larger pieces, to memory
//! and to files.
//!
//! The study wrote and read 100,000 vectors of three floats in 300,000 calls. Each case here moves
//! the same bytes in calls of one size; the figures are nanoseconds per call, of wall-clock and of
//! processor time. A case with files counts everything from open to close; all is cached.
//! Contenders that read four bytes at a time sum the words, so that no call can be left out. In the
//! cases called `disturbed` another process writes to the same disk all the time.

use std::path::{Path, PathBuf};

use millstream::Storage;

use crate::ours::storage;
use crate::prelude::*;
use crate::streams::load::{Load, sync};
use crate::threads::Disturber;

pub(crate) mod contenders;
pub(crate) mod load;

/// The folder of the files, and the storage for them.
pub(crate) struct Place {
    folder: PathBuf,
    storage: Storage,
}

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let place = Place {
        folder: session.corpus.folder().join("streams"),
        storage: storage("millstream")?,
    };
    make_folder(&place.folder)?;
    for instance in session.cases("streams", "calls") {
        calls(session, &instance, &place)?;
    }
    std::fs::remove_dir_all(&place.folder).on("remove", &place.folder)
}

fn calls(session: &mut Session<'_>, instance: &Instance, place: &Place) -> Result<()> {
    // Bytes per call: from a field to a texture; `bulk` is one call for all.
    let (chunk, way): (String, String) = (instance.get("chunk"), instance.get("way"));
    let load = &Load::new(Bytes::parse(&chunk).map(Bytes::len));
    // The study's disturbance, a process that writes and syncs.
    const WRITES: &str = "while :; do dd if=/dev/zero of=\"$1\" bs=1M count=64 conv=fsync; done";
    let disturbance = place.folder.join("disturbance");
    let is_disturbed = way.contains("disturbed");
    let _disturber = is_disturbed.then(|| Disturber::start(WRITES, &disturbance, 0));
    let path = match way.starts_with("file read") {
        true => load.file(&place.folder)?,
        false => place.folder.join("written"),
    };
    let mut case = session.begin(instance);
    case.practice = Some(PRACTICE);
    let len = load.bytes.len();
    match &*way {
        "memory write" => {
            let all = instance.contenders();
            all.for_each(|name| contenders::memory_write(&mut case, name, load));
            let wanted = Some(load.sign_of(&load.bytes));
            case.check(len, move |_, work| {
                ensure(work.digest == wanted, "other bytes than were written")
            });
        }
        "memory read" => {
            let all = instance.contenders();
            all.for_each(|name| contenders::memory_read(&mut case, name, load));
            case.check(len, |bytes, work| load.check(bytes, work));
        }
        _ if way.starts_with("file read") => {
            for name in instance.contenders() {
                contenders::file_read(&mut case, name, load, place, &path)?;
            }
            case.check(len, |bytes, work| load.check(bytes, work));
        }
        _ => {
            replace(&path, &load.bytes)?;
            for name in instance.contenders() {
                contenders::file_write(&mut case, name, load, place, &path)?;
            }
            written(&mut case, load, &path, way != "file write existing");
        }
    }
    session.run(case)
}

fn written<'a>(case: &mut Case<'a>, load: &'a Load, path: &Path, is_new: bool) {
    let (before, after) = (path.to_owned(), path.to_owned());
    // What the last run left dirty is written back before the next one, untimed.
    case.prepare(move || match is_new {
        true => remove(&before),
        false => sync(&before),
    });
    case.check(load.bytes.len(), move |_, _| {
        let bytes = std::fs::read(&after).on("read", &after)?;
        let right = bytes == load.bytes[..];
        ensure(right, "the file holds other bytes than were written")
    });
}
