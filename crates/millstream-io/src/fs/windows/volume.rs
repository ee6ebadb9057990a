//! Properties of all files of a volume, queried once and cached.

use std::collections::HashMap;
use std::os::windows::io::AsRawHandle;
use std::sync::{PoisonError, RwLock};

use windows_sys::Win32::Storage::FileSystem as system;

use super::super::{DirectAlignment, MountKind, Numbering};
use super::calls;
use crate::limits::{MEMORY_ALIGNMENT, MOUNTS_REMEMBERED_MAX};

/// Properties of all files of a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Volume {
    pub(crate) kind: MountKind,
    /// Alignment of unbuffered transfers; `None` where there are none.
    pub(crate) alignment: Option<u32>,
    pub(crate) rotating: bool,
    /// FAT numbers files by the place of their entry, and servers as they like. Times of birth say
    /// nothing: a file made soon after another of its name was removed gets that one's.
    pub(crate) numbering: Numbering,
}

impl Volume {
    /// Returns what direct I/O requires on the volume.
    pub(crate) fn direct(&self) -> Option<DirectAlignment> {
        self.alignment.map(DirectAlignment::both)
    }

    /// Returns the number of its mount, never 0: a share may have the serial number of a local
    /// volume.
    pub(crate) fn mount(&self, serial: u64) -> u64 {
        match self.kind {
            MountKind::Slow => !serial.max(1),
            _ => serial.max(1),
        }
    }
}

/// Volumes seen so far, by serial number and whether they are remote: a server passes on its own
/// serial numbers, and some have none.
#[derive(Debug, Default)]
pub(crate) struct Volumes(RwLock<HashMap<(u64, bool), Volume>>);

impl Volumes {
    /// Returns the volume of an open file.
    pub(crate) fn of(&self, file: &impl AsRawHandle, serial: u64) -> Volume {
        let key = (serial, calls::is_remote(file));
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(volume) = known.get(&key) {
            return *volume;
        }
        drop(known);
        let volume = examine(file, key.1);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOUNTS_REMEMBERED_MAX {
            known.clear();
        }
        known.insert(key, volume);
        volume
    }
}

fn examine(file: &impl AsRawHandle, is_remote: bool) -> Volume {
    if is_remote {
        return Volume {
            kind: MountKind::Slow,
            alignment: None,
            rotating: false,
            numbering: Numbering::Other,
        };
    }
    // If the system does not report the sector size, a page is right on any volume.
    let sector = calls::sector_bytes(file).unwrap_or(0);
    let known = sector.is_power_of_two();
    Volume {
        kind: MountKind::Local,
        alignment: Some(if known {
            sector
        } else {
            MEMORY_ALIGNMENT as u32
        }),
        rotating: is_rotating(file).unwrap_or(false),
        numbering: match calls::file_system(file).as_deref() {
            Ok("NTFS" | "ReFS") => Numbering::Stable,
            _ => Numbering::Other,
        },
    }
}

/// Whether the disk of a file has a seek penalty, if the system reports it.
fn is_rotating(file: &impl AsRawHandle) -> Option<bool> {
    let kind = system::FILE_NAME_NORMALIZED | system::VOLUME_NAME_GUID;
    let name = calls::final_name(file, kind).ok()?;
    // \\?\Volume{...}\folder\file: the volume itself has no trailing backslash.
    let end = name.iter().position(|&unit| unit == u16::from(b'}'))? + 1;
    let volume: Vec<u16> = name[..end].iter().copied().chain([0]).collect();
    let volume = calls::open_as(&volume, 0, calls::ALL, system::OPEN_EXISTING, 0).ok()?;
    calls::has_seek_penalty(&volume).ok()
}
