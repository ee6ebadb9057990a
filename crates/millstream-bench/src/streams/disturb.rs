//! The study's disturbance: another process writes to the same disk all the while.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use millstream::Storage;

use super::{Load, WORKLOAD, files};
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::rows::Row;
use crate::workload::Session;

/// A process that writes and syncs, until it is dropped.
struct Disturber {
    child: Child,
    path: PathBuf,
}

impl Disturber {
    fn start(folder: &Path) -> Result<Disturber> {
        let path = folder.join("disturbance");
        let script = "while :; do dd if=/dev/zero of=\"$1\" bs=1M count=64 conv=fsync; done";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Error::io("start a process that writes", error))?;
        Ok(Disturber { child, path })
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end. A `dd` that it started goes on
        // to its end, which is near.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

pub(super) fn run(
    session: &mut Session<'_>,
    folder: &Path,
    storage: &Storage,
    destination: &mut Destination,
) -> Result<()> {
    let load = Load::new(4);
    for (case, reads) in [
        ("file write disturbed 4", false),
        ("file read disturbed 4", true),
    ] {
        if !session.wants(case) {
            continue;
        }
        match Disturber::start(folder) {
            Ok(disturber) => {
                if reads {
                    files::reads(session, &load, "disturbed 4", folder, storage, destination)?;
                } else {
                    files::one_write(session, &load, case, "new", folder, storage, destination)?;
                }
                drop(disturber);
            }
            Err(error) => {
                let why = error.to_string();
                session.keep(vec![Row::skipped(WORKLOAD, case, "millstream", &why)])?;
            }
        }
    }
    Ok(())
}
