//! The study's disturbance: another process writes to the same disk all the while.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Place, files};
use crate::error::{Context, Result};
use crate::memory::Destination;
use crate::session::Session;
use crate::streams::load::{Load, WORKLOAD};

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
            .what("start a process that writes")?;
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
    place: &Place,
    destination: &mut Destination,
) -> Result<()> {
    let load = Load::new(4);
    for name in ["file write disturbed 4", "file read disturbed 4"] {
        let Some(case) = session.begin(WORKLOAD, name) else {
            continue;
        };
        match Disturber::start(&place.folder) {
            Ok(_disturber) if name.contains("read") => {
                files::reads(session, case, &load, place, destination)?;
            }
            Ok(_disturber) => files::writes(session, case, &load, true, place, destination)?,
            Err(error) => session.skip(WORKLOAD, name, "millstream", &error)?,
        }
    }
    Ok(())
}
