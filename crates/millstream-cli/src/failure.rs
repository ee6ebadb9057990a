//! Failures of commands, and their messages.
//!
//! Exit status 1 means that something failed: standard error then holds one line with the number of
//! failures and the first of them, followed by the next ones, with file, offset and likely cause.
//! If the reader of a pipe goes away, the program ends by SIGPIPE (on Windows with status 1),
//! without a message. Exit status 2 is a usage error.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;

use millstream::ErrorKind;
use millstream_io::IoError;
use millstream_io::fs::names as file_names;
use millstream_pak::names;
use serde_json::{Value, json};

use crate::limits::FAILURES_LISTED;
use crate::progress;

/// Exit status of a command in which something failed.
pub(crate) const STATUS_FAILED: u8 = 1;
/// Exit status of a usage error.
pub(crate) const STATUS_USAGE: u8 = 2;

/// One thing that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The file's name.
    place: Vec<u8>,
    /// Offset in the file.
    offset: Option<u64>,
    /// What is wrong and, if known, why.
    cause: String,
    /// Machine-readable kind.
    kind: String,
}

/// Escapes a name or path; Windows separators become `/`, because `\` begins an escape.
pub(crate) fn shown(name: impl AsRef<OsStr>) -> String {
    names::escape(&file_names::bytes(Path::new(name.as_ref())))
}

/// Sets the path of a document as it is; null, with its bytes beside it, if it is not UTF-8.
pub(crate) fn set_path(document: &mut Value, path: &[u8]) {
    let text = std::str::from_utf8(path).ok();
    document["path"] = json!(text);
    if text.is_none() {
        document["path_hex"] = json!(hex(path));
    }
}

/// Formats bytes as lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses a command-line path that names no file, before the standard library is called with it;
/// `doing` completes "cannot".
pub(crate) fn check_path(path: &Path, doing: &str) -> Result<(), Failure> {
    file_names::check(path).map_err(|error| Failure::system(path, doing, &error))
}

impl Failure {
    /// A failure of a whole file.
    pub(crate) fn new(place: impl AsRef<OsStr>, cause: impl Into<String>) -> Failure {
        Failure {
            place: file_names::bytes(Path::new(place.as_ref())),
            offset: None,
            cause: cause.into(),
            kind: String::from("failed"),
        }
    }

    /// Returns the failure of a system call on a file; `doing` completes "cannot".
    pub(crate) fn io(place: impl AsRef<OsStr>, doing: &str, error: &io::Error) -> Failure {
        let cause = format!("cannot {doing}: {}", explain(error));
        Failure::new(place, cause).kind(&error.kind())
    }

    /// Returns the failure of a `millstream-io` call on a file; `doing` completes "cannot".
    pub(crate) fn system(place: impl AsRef<OsStr>, doing: &str, error: &IoError) -> Failure {
        let system = io::Error::from_raw_os_error(error.errno.0);
        let cause = match error.cause {
            "" => explain(&system),
            cause => format!("{system}: {cause}"),
        };
        Failure::new(place, format!("cannot {doing}: {cause}")).kind(&system.kind())
    }

    /// Sets the kind: the name of an enum variant, in snake case.
    pub(crate) fn kind(self, variant: &dyn fmt::Debug) -> Failure {
        let mut kind = String::new();
        let name = format!("{variant:?}");
        for letter in name.chars().take_while(char::is_ascii_alphanumeric) {
            if letter.is_ascii_uppercase() && !kind.is_empty() {
                kind.push('_');
            }
            kind.push(letter.to_ascii_lowercase());
        }
        // The standard library's kind for errors that have none of their own, such as EIO.
        if kind == "uncategorized" {
            kind = String::from("io");
        }
        Failure { kind, ..self }
    }

    fn document(&self) -> Value {
        let mut document = json!({
            "kind": self.kind,
            "offset": self.offset,
            "message": self.cause,
        });
        set_path(&mut document, &self.place);
        document
    }

    /// Appends a name to the place, which is a folder or a package.
    pub(crate) fn below(mut self, name: &[u8]) -> Failure {
        if !self.place.ends_with(b"/") {
            self.place.push(b'/');
        }
        self.place.extend_from_slice(name);
        self
    }

    /// Puts words before the cause.
    pub(crate) fn with(mut self, words: &str) -> Failure {
        self.cause.insert_str(0, words);
        self
    }

    /// Appends what to do about it.
    pub(crate) fn hint(mut self, words: &str) -> Failure {
        self.cause.push_str("; ");
        self.cause.push_str(words);
        self
    }

    /// Sets the offset in the file, if it is known.
    pub(crate) fn at(mut self, offset: impl Into<Option<u64>>) -> Failure {
        self.offset = offset.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", names::escape(&self.place))?;
        if let Some(offset) = self.offset {
            write!(f, "at offset {offset}: ")?;
        }
        f.write_str(&self.cause)
    }
}

/// Returns the system's message for an error, with a likely cause if it does not help by itself.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.raw_os_error().and_then(hint) {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    }
}

#[cfg(unix)]
fn hint(code: i32) -> Option<&'static str> {
    Some(match code {
        libc::ENOSPC => "the disk is full",
        libc::EDQUOT => "the disk quota is exceeded",
        libc::EFBIG => "beyond the limit of ulimit -f or of the file system",
        libc::EIO => "the device failed, or was removed",
        libc::EMFILE => "ulimit -n is too low",
        libc::ELOOP => "a loop of symbolic links",
        libc::EBADF => "it was closed when the program started",
        libc::ENXIO => "a socket, or a device that is not there",
        libc::ETXTBSY => "the program in it is running",
        libc::ESTALE => "the network file system has lost the file",
        _ => return None,
    })
}

#[cfg(windows)]
fn hint(code: i32) -> Option<&'static str> {
    use windows_sys::Win32::Foundation as system;
    Some(match code as u32 {
        system::ERROR_DISK_FULL | system::ERROR_HANDLE_DISK_FULL => "the disk is full",
        system::ERROR_SHARING_VIOLATION => "another program has opened it for itself alone",
        system::ERROR_LOCK_VIOLATION => "another program has locked a part of it",
        system::ERROR_ACCESS_DENIED => "it is read-only, in use, being deleted, or not permitted",
        system::ERROR_INVALID_NAME => {
            "Windows forbids the name: a device, a drive without a folder, a dot or space at the \
             end, or one of < > : \" | ? *"
        }
        system::ERROR_INVALID_HANDLE => "it was closed when the program started",
        system::ERROR_IO_DEVICE | system::ERROR_DEVICE_NOT_CONNECTED => {
            "the device failed, or was removed"
        }
        _ => return None,
    })
}

/// Returns the ending for an engine that does not start: a usage error or a failure.
pub(crate) fn refused(error: millstream::Error) -> Ending {
    if error.kind() == ErrorKind::InvalidArgument {
        return Ending::Usage(String::from(error.cause()));
    }
    let system = error.errno().map(io::Error::from_raw_os_error);
    let cause = match system {
        Some(system) => format!("{}: {}", explain(&system), error.cause()),
        None => String::from(error.cause()),
    };
    Failure::new("the engine", cause).into()
}

/// Failures of a command: their number, and the first of them in the order of the work.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    /// Each with its position in the order of the work.
    listed: Vec<(usize, Failure)>,
    /// Whether they were reported in a JSON document.
    pub(crate) documented: bool,
}

impl Failures {
    /// `count` failures, of which `listed` are the first.
    pub(crate) fn new(count: u64, listed: impl IntoIterator<Item = Failure>) -> Failures {
        let mut failures = Failures::default();
        listed.into_iter().for_each(|failure| failures.add(failure));
        failures.count = count;
        failures
    }

    /// Adds a failure after all others.
    pub(crate) fn add(&mut self, failure: Failure) {
        self.add_at(usize::MAX, failure);
    }

    /// Adds a failure at a position in the order of the work.
    pub(crate) fn add_at(&mut self, place: usize, failure: Failure) {
        self.count += 1;
        let at = self.listed.partition_point(|(other, _)| *other <= place);
        if at < FAILURES_LISTED {
            self.listed.insert(at, (place, failure));
            self.listed.truncate(FAILURES_LISTED);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn first(&self) -> Option<&Failure> {
        self.listed.first().map(|(_, failure)| failure)
    }

    /// Returns how a command with these failures ends.
    pub(crate) fn ending(self) -> Result<(), Ending> {
        match self.count {
            0 => Ok(()),
            _ => Err(Ending::Failed(self)),
        }
    }

    /// Adds the failures to a command's document.
    pub(crate) fn document(&mut self, document: &mut Value) {
        self.documented = true;
        let first = self.first().map(Failure::document);
        document["error"] = first.expect("something failed");
        if self.count > 1 {
            let listed = self.listed.iter().map(|(_, failure)| failure.document());
            document["errors"] = listed.collect();
            document["failed"] = json!(self.count);
        }
    }

    /// Returns the lines that report them; `noun` names one of them.
    pub(crate) fn summary(&self, noun: &str) -> String {
        let mut lines = format!("{}, the first: ", counted(self.count, noun));
        let listed: Vec<String> = self.listed.iter().map(|(_, it)| it.to_string()).collect();
        lines.push_str(&listed.join("\n  "));
        let more = self.count - listed.len() as u64;
        if more > 0 {
            lines.push_str(&format!("\n  and {more} more"));
        }
        lines
    }
}

/// Formats a count with its noun in singular or plural.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// An unsuccessful end of a command.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Something failed.
    Failed(Failures),
    /// The reader of a pipe has closed it.
    ClosedPipe,
    /// A signal ended the work, and was already reported.
    Interrupted,
    /// A usage error that only the command can detect.
    Usage(String),
}

impl From<Failure> for Ending {
    fn from(first: Failure) -> Ending {
        Ending::Failed(Failures::new(1, [first]))
    }
}

/// Writes a line to standard error, ignoring errors.
pub(crate) fn tell(line: &str) {
    use io::Write as _;
    progress::aside(|| {
        let _ = writeln!(io::stderr().lock(), "millstream: {line}");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_file_offset_and_cause() {
        let failure = Failure::new("a\nb", "cut").at(12);
        assert_eq!(
            Failures::new(1, [failure]).summary("failure"),
            "1 failure, the first: a\\x0ab: at offset 12: cut"
        );
        let error = io::Error::from_raw_os_error(millstream_io::Errno::NO_SPACE.0);
        let failure = Failure::io("x", "write", &error);
        assert!(failure.to_string().ends_with("the disk is full"));
        assert_eq!(failure.document()["kind"], "storage_full");
    }

    #[test]
    fn the_first_ten_failures_are_listed_in_the_order_of_the_work() {
        let mut failures = Failures::default();
        for place in (0..25).rev() {
            failures.add_at(place, Failure::new(place.to_string(), "cut"));
        }
        let summary = failures.summary("failure");
        let lines: Vec<&str> = summary.lines().collect();
        assert_eq!(lines[0], "25 failures, the first: 0: cut");
        assert_eq!(lines[9..], ["  9: cut", "  and 15 more"]);
        let mut document = json!({});
        failures.document(&mut document);
        assert_eq!(document["failed"], 25);
        assert_eq!(document["error"]["path"], "0");
        assert_eq!(document["errors"].as_array().map(Vec::len), Some(10));
    }
}
