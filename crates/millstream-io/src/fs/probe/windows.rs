//! What Windows reports about a machine and a place.

use std::path::Path;

use super::{Machine, MountFacts};
use crate::error::IoError;
use crate::fs::os;
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
pub(super) fn place(path: &Path) -> Result<MountFacts, IoError> {
    let (device, volume) = os::volume_of(path)?;
    Ok(MountFacts {
        rotating: volume.rotating,
        ..MountFacts::on(volume.kind, device, volume.direct())
    })
}
