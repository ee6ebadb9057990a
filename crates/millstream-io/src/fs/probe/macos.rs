//! What macOS reports about a machine and a place: little is queried.

use std::path::Path;

use super::{Machine, MountFacts};
use crate::error::IoError;
use crate::fs::{FileSystem as _, OpenMode, OsFileSystem};

pub(super) fn machine() -> Machine {
    Machine::default()
}

/// See [`super::place`]. Fails for folders and block devices.
pub(super) fn place(path: &Path) -> Result<MountFacts, IoError> {
    let files = OsFileSystem::new();
    let opened = files.open(path, OpenMode::default())?;
    files.close(opened.descriptor)?;
    let device = opened.identity.device;
    Ok(MountFacts::on(opened.mount_kind, device, opened.direct))
}
