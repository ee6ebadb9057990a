//! What macOS reports about a machine and a place: little is asked.

use std::path::Path;

use super::{Machine, Place};
use crate::error::IoError;
use crate::fs::{FileSystem as _, MountKind, OpenMode, OsFileSystem};

pub(super) fn machine() -> Machine {
    Machine::default()
}

/// See [`super::place`]. Folders are not looked at.
pub(super) fn place(path: &Path) -> Result<Place, IoError> {
    let files = OsFileSystem::new();
    let opened = files.open(path, OpenMode::default())?;
    files.close(opened.descriptor)?;
    let local = opened.mount_kind == MountKind::Local;
    Ok(Place {
        mount_kind: opened.mount_kind,
        file_system: if local {
            "local volume"
        } else {
            "network share"
        }
        .to_owned(),
        device: opened.identity.device,
        device_name: None,
        rotating: false,
        direct: opened.direct,
        cachestat: false,
    })
}
