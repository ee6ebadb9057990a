//! Names for the system: UTF-16, and verbatim (`\\?\`), so that they may be long and are not
//! changed by the system.

use std::ffi::OsStr;
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf, Prefix};

use crate::error::{Errno, IoError};
use crate::fs::explain;
use crate::fs::names::part_refused_by_windows;

/// Returns the name as a zero-terminated UTF-16 string.
pub(super) fn wide(path: &Path) -> Result<Vec<u16>, IoError> {
    let path = verbatim(path)?;
    Ok(path.as_os_str().encode_wide().chain([0]).collect())
}

/// Returns the absolute name in verbatim form. Reads the current folder, but no file.
pub(in crate::fs) fn verbatim(path: &Path) -> Result<PathBuf, IoError> {
    let invalid = |cause| IoError::because("open", Errno::BAD_NAME, cause);
    if path.as_os_str().is_empty() {
        return Err(IoError::because(
            "open",
            Errno::NOT_FOUND,
            "the name is empty",
        ));
    }
    if path.as_os_str().encode_wide().any(|unit| unit == 0) {
        return Err(invalid("the name holds a zero character"));
    }
    if let Some(Component::Prefix(prefix)) = path.components().next() {
        let device = || IoError::because("open", Errno::NOT_A_FILE, "it is a device, not a file");
        match prefix.kind() {
            Prefix::DeviceNS(_) | Prefix::Verbatim(_) => return Err(device()),
            // The shares of a server's pipes.
            Prefix::UNC(_, share) | Prefix::VerbatimUNC(_, share)
                if ["pipe", "mailslot"]
                    .iter()
                    .any(|it| share.eq_ignore_ascii_case(it)) =>
            {
                return Err(device());
            }
            Prefix::Disk(_) if !path.has_root() => {
                return Err(invalid(
                    "the name is relative to the current folder of a drive (C:name); write C:\\name",
                ));
            }
            _ => {}
        }
    }
    for part in path.components() {
        if let Component::Normal(part) = part
            && let Some(cause) = part_refused_by_windows(&part.to_string_lossy())
        {
            return Err(invalid(cause));
        }
    }
    if is_verbatim(path) {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path);
    let absolute = absolute.map_err(|error| explain("open", &error))?;
    let text = absolute.as_os_str();
    let text: Vec<u16> = match absolute.components().next() {
        Some(Component::Prefix(prefix)) if matches!(prefix.kind(), Prefix::UNC(..)) => {
            let rest = text.encode_wide().skip(2);
            r"\\?\UNC\".encode_utf16().chain(rest).collect()
        }
        _ => r"\\?\".encode_utf16().chain(text.encode_wide()).collect(),
    };
    Ok(PathBuf::from(std::ffi::OsString::from_wide(&text)))
}

fn is_verbatim(path: &Path) -> bool {
    let first = path.components().next();
    matches!(first, Some(Component::Prefix(prefix)) if prefix.kind().is_verbatim())
}

/// Checks a single part below a verbatim name, where the system would accept anything.
pub(super) fn part(part: &OsStr) -> Result<&OsStr, IoError> {
    let cause = match part.to_str() {
        None => Some("the name is not UTF-8, which Windows needs"),
        Some("." | ".." | "") => Some("it is no name"),
        Some(text) if text.contains('/') => Some("it is more than one name"),
        Some(text) => part_refused_by_windows(text),
    };
    match cause {
        Some(cause) => Err(IoError::because("open", Errno::BAD_NAME, cause)),
        None => Ok(part),
    }
}
