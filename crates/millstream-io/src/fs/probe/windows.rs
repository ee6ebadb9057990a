//! What Windows reports about a machine and a place.

use std::path::Path;

use super::{Machine, Place};
use crate::error::IoError;
use crate::fs::{MountKind, os};
use crate::system;

pub(super) fn machine() -> Machine {
    let (all, free) = system::memory();
    Machine {
        kernel: Some(system::version()),
        memory_bytes: Some(all),
        memory_available_bytes: Some(free),
        ..Machine::default()
    }
}

/// See [`super::place`].
pub(super) fn place(path: &Path) -> Result<Place, IoError> {
    let (device, volume) = os::volume_of(path)?;
    let local = volume.kind == MountKind::Local;
    Ok(Place {
        mount_kind: volume.kind,
        file_system: if local {
            "local volume"
        } else {
            "network share"
        }
        .to_owned(),
        device,
        device_name: None,
        rotating: volume.rotating,
        direct: volume.direct(),
        cachestat: false,
    })
}
