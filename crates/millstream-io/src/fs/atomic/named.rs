//! Systems without unnamed files, where a rename gives the new file the permissions of the old one
//! (Windows) or none of them (macOS).

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Errno, IoError};
use crate::fs::os::Folder;
use crate::fs::temporary::TemporaryFile;

pub(super) fn open_folder(path: &Path) -> Result<Folder, IoError> {
    Folder::open(path)
}

pub(super) fn unnamed_in(_: &Folder, _mode: u32) -> Result<File, IoError> {
    Err(IoError::new("create", Errno::UNSUPPORTED))
}

pub(super) fn link(_: &File, _: &Arc<Folder>) -> Result<TemporaryFile, IoError> {
    Err(IoError::new("link", Errno::UNSUPPORTED))
}

#[expect(clippy::unnecessary_wraps, reason = "another system's may fail")]
pub(super) fn check_replaceable(_: &Folder, _: &OsStr) -> Result<(), IoError> {
    Ok(())
}

/// The data is made durable by [`Folder::rename`].
pub(super) fn complete(_: &Folder, _: &File, _: &OsStr, _mode_mask: u32) -> Result<(), IoError> {
    Ok(())
}
