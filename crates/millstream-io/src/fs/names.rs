//! Names that a system forbids. Windows reserves more than other systems, and silently changes or
//! redirects some of what it reserves: a file `aux.txt` is a port, and `a.` is `a`. So such names
//! are refused, with the reason, before the system sees them.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::error::{Errno, IoError};

/// Characters that no part of a name may have on Windows, besides control characters.
const FORBIDDEN: [char; 8] = ['<', '>', ':', '"', '|', '?', '*', '\\'];

/// Names of devices in every folder, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Names of devices that are followed by a digit.
const NUMBERED: [&str; 2] = ["com", "lpt"];

/// Maximum length of a part of a name, in UTF-16 units.
const PART_UNITS_MAX: usize = 255;

/// Returns the path of a relative name whose parts are separated by `/`, as in packages.
///
/// # Errors
/// Windows does not allow the name; Unix allows all.
pub fn path(name: &[u8]) -> Result<&Path, IoError> {
    if cfg!(windows)
        && let Some(cause) = refused_by_windows(name)
    {
        return Err(IoError::because("open", Errno::BAD_NAME, cause));
    }
    os_str(name).map(Path::new)
}

/// Refuses, before any call on it, a path that names no file but would be opened as something else:
/// on Windows a device (`con`, which waits for keys), or a path relative to a drive.
///
/// # Errors
/// The path is refused, with the reason; never on Unix.
pub fn check(path: &Path) -> Result<(), IoError> {
    #[cfg(windows)]
    super::os::verbatim(path)?;
    #[cfg(unix)]
    let _ = path;
    Ok(())
}

/// Returns what exists at a path below `base` if ASCII case is ignored in each part: in the case of
/// the path itself if there is such, else the first in byte order. Lists the folders on the path.
/// Blocks.
#[must_use]
pub fn find_ignoring_case(base: PathBuf, path: &Path) -> Option<PathBuf> {
    let mut found = vec![base];
    for part in path.components() {
        found = found
            .iter()
            .flat_map(|base| in_any_case(base, part))
            .collect();
    }
    found.into_iter().next()
}

/// Returns what a folder has of a name in any case, that in the same case first.
fn in_any_case(base: &Path, part: Component<'_>) -> Vec<PathBuf> {
    let exact = base.join(part);
    let Component::Normal(name) = part else {
        return vec![exact];
    };
    let folder = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        base
    };
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let same = |other: &OsString| other != name && other.eq_ignore_ascii_case(name);
    let mut others: Vec<OsString> = listed.map(|it| it.file_name()).filter(same).collect();
    others.sort_unstable();
    let exact = Some(exact).filter(|exact| exact.symlink_metadata().is_ok());
    exact
        .into_iter()
        .chain(others.iter().map(|other| base.join(other)))
        .collect()
}

/// Returns the folder of the file that a path names.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str() != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

/// See [`FileSystem::anchored`](super::FileSystem::anchored).
pub(super) fn anchored(path: &Path) -> Option<PathBuf> {
    if path.is_absolute() || path.as_os_str().is_empty() {
        return None;
    }
    let Ok(anchored) = std::path::absolute(path) else {
        // The current folder is gone: so is what is in it.
        return Some(PathBuf::new());
    };
    // A longer one cannot be opened on Unix.
    (cfg!(windows) || anchored.as_os_str().len() < PATH_BYTES_MAX).then_some(anchored)
}

/// `PATH_MAX`: the bytes of a path, with the zero at its end.
const PATH_BYTES_MAX: usize = 4096;

/// Returns bytes as the system's string type: on Windows they are UTF-8.
///
/// # Errors
/// On Windows, they are not UTF-8.
pub fn os_str(bytes: &[u8]) -> Result<&OsStr, IoError> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        Ok(OsStr::from_bytes(bytes))
    }
    #[cfg(windows)]
    {
        let cause = "the name is not UTF-8, which Windows needs";
        let text = std::str::from_utf8(bytes);
        text.map(OsStr::new)
            .map_err(|_| IoError::because("open", Errno::BAD_NAME, cause))
    }
}

/// Returns the bytes of a relative path, with `/` between its parts as in packages.
#[must_use]
pub fn bytes(path: &Path) -> Vec<u8> {
    let mut name = path.as_os_str().as_encoded_bytes().to_vec();
    if cfg!(windows) {
        name.iter_mut()
            .filter(|byte| **byte == b'\\')
            .for_each(|byte| *byte = b'/');
    }
    name
}

/// Returns why Windows does not allow a relative name whose parts are separated by `/`.
fn refused_by_windows(name: &[u8]) -> Option<&'static str> {
    let Ok(name) = std::str::from_utf8(name) else {
        return Some("the name is not UTF-8, which Windows needs");
    };
    if name.starts_with(r"\\") {
        return Some(
            r"the name begins with \\, as only those of servers and devices do on Windows",
        );
    }
    let mut letters = name.chars();
    if letters
        .next()
        .is_some_and(|letter| letter.is_ascii_alphabetic())
        && letters.next() == Some(':')
    {
        return Some("the name begins with a drive on Windows");
    }
    name.split('/').find_map(part_refused_by_windows)
}

/// Returns why Windows does not allow one part of a name.
pub(crate) fn part_refused_by_windows(part: &str) -> Option<&'static str> {
    if part.contains(|letter| letter < ' ' || FORBIDDEN.contains(&letter)) {
        return Some(r#"Windows forbids control characters and < > : " | ? * \ in names"#);
    }
    // The folders `.` and `..` are allowed.
    if part.ends_with(['.', ' ']) && part != "." && part != ".." {
        return Some("Windows drops dots and spaces at the end of a name");
    }
    let stem = part.split('.').next().unwrap_or(part).trim_end_matches(' ');
    if is_device(&stem.to_lowercase()) {
        return Some(
            "Windows reserves the name for a device (con, prn, aux, nul, com1, lpt1, ...)",
        );
    }
    if part.encode_utf16().count() > PART_UNITS_MAX {
        return Some("Windows takes at most 255 characters between two slashes");
    }
    None
}

fn is_device(stem: &str) -> bool {
    let numbered = |device| {
        let number = stem.strip_prefix(device).map(|number| number.chars());
        number.is_some_and(|mut number| {
            // Superscript digits count as digits.
            let digit = number
                .next()
                .is_some_and(|it| it.is_ascii_digit() || "¹²³".contains(it));
            digit && number.next().is_none()
        })
    };
    DEVICES.contains(&stem) || NUMBERED.into_iter().any(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_refuses_what_it_reserves_and_tells_why() {
        let long = "x".repeat(256);
        for (name, reason) in [
            ("con", "device"),
            ("a/AUX", "device"),
            ("nul.txt", "device"),
            ("com1", "device"),
            ("LPT9.a.b", "device"),
            ("com\u{b9}", "device"),
            ("aux .txt", "device"),
            ("CONOUT$", "device"),
            ("a.", "end of a name"),
            ("a /b", "end of a name"),
            ("a/...", "end of a name"),
            ("a\tb", "control characters"),
            ("ab:stream", "control characters"),
            ("what?", "control characters"),
            (r"a\b", "control characters"),
            (r"\\?\C:\a", "servers and devices"),
            (r"\\.\pipe\a", "servers and devices"),
            ("C:a", "drive"),
            ("c:/a", "drive"),
            (&long, "255"),
        ] {
            let found = refused_by_windows(name.as_bytes());
            assert!(
                found.is_some_and(|found| found.contains(reason)),
                "{name}: {found:?}"
            );
        }
        assert!(refused_by_windows(b"a\xff").is_some_and(|found| found.contains("UTF-8")));
    }

    #[test]
    fn windows_takes_ordinary_names() {
        for name in [
            "a",
            "a.txt",
            "console",
            "com",
            "com10",
            "lpt",
            "nullify.txt",
            ".hidden",
            "a b",
        ] {
            assert_eq!(refused_by_windows(name.as_bytes()), None, "{name}");
        }
        assert_eq!(refused_by_windows("tex/größe/漢字.png".as_bytes()), None);
    }

    #[test]
    fn what_has_the_exact_name_is_found_before_others_and_in_any_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let find = |name: &str| find_ignoring_case(folder.path().to_owned(), Path::new(name));
        std::fs::create_dir_all(at("Data")).unwrap();
        std::fs::write(at("Data/Only"), "").unwrap();
        if at("data").exists() {
            println!("SKIP: the file system itself ignores case");
            return;
        }
        std::fs::create_dir_all(at("DATA")).unwrap();
        for name in ["DATA/x", "DATA/X", "Data/X"] {
            std::fs::write(at(name), "").unwrap();
        }
        assert_eq!(find("data/only"), Some(at("Data/Only")));
        assert_eq!(find("data/x"), Some(at("DATA/x")));
        assert_eq!(find("Data/x"), Some(at("Data/X")));
        assert_eq!(find("data/../DATA/X"), Some(at("DATA/../DATA/X")));
        assert_eq!(find("data/none"), None);
    }

    #[test]
    fn names_are_paths_of_every_system_and_back() {
        let found = path("tex/größe.png".as_bytes()).unwrap();
        assert_eq!(found, Path::new("tex").join("größe.png"));
        assert_eq!(
            bytes(&Path::new("tex").join("größe.png")),
            "tex/größe.png".as_bytes()
        );
        for name in [&b"con"[..], b"a\\..\\..\\b", b"c:/a", b"a\xff"] {
            assert_eq!(path(name).is_err(), cfg!(windows), "{name:?}");
        }
        for name in ["con", "a/aux.txt", "C:a", r"\\.\pipe\a", "what?"] {
            assert_eq!(check(Path::new(name)).is_err(), cfg!(windows), "{name}");
        }
        check(&std::env::temp_dir().join("file")).unwrap();
    }
}
