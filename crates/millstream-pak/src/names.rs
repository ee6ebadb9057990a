//! Names of entries: which a package may have, and how they are hashed.
//!
//! A name is UTF-8, with parts separated by `/`, none of them empty, `.` or `..`; it does not begin
//! with `/` and holds no NUL. So a name never leads out of a folder, and each file has one name.
//! Names of devices (`NUL`, `com1.txt`) and drives (`c:`) are refused too: on Windows they are not
//! files, and a package should unpack everywhere.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{NAME_BYTES_MAX, NAME_PART_BYTES_MAX};

pub use escape::{escape, unescape};

pub(crate) mod escape;

/// Names that Windows reserves for devices, with any extension and in any case.
const DEVICES: [&[u8]; 6] = [b"con", b"prn", b"aux", b"nul", b"conin$", b"conout$"];

/// Devices that are numbered from 1 to 9, as `com1`.
const NUMBERED_DEVICES: [&[u8]; 2] = [b"com", b"lpt"];

/// Checks that a package may have this name.
///
/// # Errors
/// `BadName`, with the rule that it breaks.
pub fn check(name: &[u8]) -> Result<()> {
    let wrong = |cause: &str| Err(Error::new(ErrorKind::BadName, cause).entry(name));
    if name.is_empty() {
        return wrong("the name is empty");
    }
    if name.len() > NAME_BYTES_MAX {
        return wrong("the name has more than 4096 bytes");
    }
    if std::str::from_utf8(name).is_err() {
        return wrong("the name is not UTF-8");
    }
    if name[0] == b'/' {
        return wrong("the name is absolute");
    }
    if name.len() >= 2 && name[1] == b':' && name[0].is_ascii_alphabetic() {
        return wrong("the name begins with the letter of a drive");
    }
    for part in name.split(|&byte| byte == b'/') {
        match part {
            b"" => return wrong("the name has an empty part"),
            b"." => return wrong("the name has a part `.`"),
            b".." => return wrong("the name has a part `..`, which leads out of its folder"),
            _ if part.len() > NAME_PART_BYTES_MAX => {
                return wrong("the name has a part of more than 255 bytes");
            }
            _ if part.contains(&0) => return wrong("the name holds a NUL"),
            _ if is_device(part) => return wrong("the name is that of a device on some systems"),
            _ => {}
        }
    }
    Ok(())
}

fn is_device(part: &[u8]) -> bool {
    let stem = part.split(|&byte| byte == b'.').next().unwrap_or(part);
    let stem = stem.trim_ascii_end();
    let numbered = |device: &&[u8]| {
        stem.len() == 4
            && stem[..3].eq_ignore_ascii_case(device)
            && stem[3].is_ascii_digit()
            && stem[3] != b'0'
    };
    DEVICES
        .iter()
        .any(|device| stem.eq_ignore_ascii_case(device))
        || NUMBERED_DEVICES.iter().any(numbered)
}

/// Returns the path of a name's file, relative to the folder that the package is unpacked to;
/// `BadName` if this system does not take the name.
pub(crate) fn path(name: &[u8]) -> Result<&Path> {
    millstream_io::fs::names::path(name)
        .map_err(|error| Error::new(ErrorKind::BadName, error.cause).entry(name))
}

/// Returns the hash of a name.
#[inline]
pub(crate) fn hash(name: &[u8], seed: u64, fold_case: bool) -> u64 {
    if !fold_case {
        return xxh3_64_with_seed(name, seed);
    }
    let mut short = [0; 256];
    match short.get_mut(..name.len()) {
        Some(folded) => {
            folded.copy_from_slice(name);
            folded.make_ascii_lowercase();
            xxh3_64_with_seed(folded, seed)
        }
        None => xxh3_64_with_seed(&name.to_ascii_lowercase(), seed),
    }
}

/// Returns the bytes of a name with ASCII letters in lower case.
pub(crate) fn in_lower_case(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(u8::to_ascii_lowercase)
}

/// Whether two names are the same.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8], fold_case: bool) -> bool {
    a == b || (fold_case && a.eq_ignore_ascii_case(b))
}

/// Returns a name without its letters' case, by which file systems that ignore case may compare it.
#[must_use]
pub fn without_case(name: &[u8]) -> String {
    let letters = String::from_utf8_lossy(name);
    let upper = letters.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

/// Whether a name matches a pattern: `*` matches any bytes except `/`, `**` any bytes, `?` one
/// character except `/`. A pattern that is a folder, as `a` or `a/`, matches everything below it. A
/// `./` at its beginning has no meaning.
#[must_use]
pub fn matches(mut pattern: &[u8], name: &[u8]) -> bool {
    while let Some(rest) = pattern.strip_prefix(b"./") {
        pattern = rest;
    }
    let below = name
        .strip_prefix(pattern.strip_suffix(b"/").unwrap_or(pattern))
        .is_some_and(|rest| rest.first() == Some(&b'/'));
    below || glob(pattern, name)
}

/// Backtracks to the last `*` and to the last `**` only, so the time is at most in proportion to
/// the length of the pattern and the square of that of the name.
pub(crate) fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    let mut deep: Option<(usize, usize)> = None;
    loop {
        match pattern.get(p) {
            Some(b'*') if pattern.get(p + 1) == Some(&b'*') => {
                p += 2;
                deep = Some((p, n));
                star = None;
                // `**/` matches no folder, too.
                if pattern.get(p) == Some(&b'/') && (n == 0 || name[n - 1] == b'/') {
                    p += 1;
                }
                continue;
            }
            Some(b'*') => {
                p += 1;
                star = Some((p, n));
                continue;
            }
            Some(b'?') if n < name.len() && name[n] != b'/' => {
                p += 1;
                let more = name[n + 1..]
                    .iter()
                    .take(if name[n] < 0xc0 { 0 } else { 3 });
                n += 1 + more.take_while(|byte| **byte & 0xc0 == 0x80).count();
                continue;
            }
            Some(&byte) if n < name.len() && byte == name[n] => {
                p += 1;
                n += 1;
                continue;
            }
            None if n == name.len() => return true,
            _ => {}
        }
        match (star, deep) {
            (Some((at, from)), _) if from < name.len() && name[from] != b'/' => {
                star = Some((at, from + 1));
                (p, n) = (at, from + 1);
            }
            (_, Some((at, from))) if from < name.len() => {
                deep = Some((at, from + 1));
                star = None;
                (p, n) = (at, from + 1);
            }
            _ => return false,
        }
    }
}
