//! What a command ends with when it does not end well, and the words for it.
//!
//! Status 1 means that something failed: standard error then holds one line with the number of
//! failures and the first of them, with file, offset and likely cause. Where the reader of a pipe
//! goes away, the program ends by SIGPIPE, without a message. Status 2 means that the call itself
//! was wrong.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use millstream_pak::names;

use crate::{progress, signals};

/// Status of a command of which something failed.
pub(crate) const STATUS_FAILED: u8 = 1;
/// Status of a call with wrong words.
pub(crate) const STATUS_USAGE: u8 = 2;

/// One thing that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The file's name as text.
    place: String,
    /// Where in the file.
    offset: Option<u64>,
    /// What is wrong and, as far as it can be told, why.
    cause: String,
}

impl Failure {
    /// A failure of a whole file.
    pub(crate) fn new(place: &OsStr, cause: impl Into<String>) -> Failure {
        Failure {
            place: names::escape(place.as_bytes()),
            offset: None,
            cause: cause.into(),
        }
    }

    /// A system call on a file failed; `doing` completes "cannot".
    pub(crate) fn io(place: &OsStr, doing: &str, error: &io::Error) -> Failure {
        Failure::new(place, format!("cannot {doing}: {}", explain(error)))
    }

    /// The same failure with words before its cause.
    pub(crate) fn with(self, words: &str) -> Failure {
        Failure {
            cause: words.to_owned() + &self.cause,
            ..self
        }
    }

    /// The same failure with its place in the file.
    pub(crate) fn at(self, offset: u64) -> Failure {
        Failure {
            offset: Some(offset),
            ..self
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(offset) = self.offset {
            write!(f, "at offset {offset}: ")?;
        }
        f.write_str(&self.cause)
    }
}

/// The system's words for an error, with a likely cause where they alone do not help.
pub(crate) fn explain(error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOSPC) => "the disk is full",
        Some(libc::EDQUOT) => "the user's share of the disk is used up",
        Some(libc::EFBIG) => "beyond the limit of ulimit -f or of the file system",
        Some(libc::EIO) => "the device failed, or was removed",
        Some(libc::EMFILE) => "ulimit -n is too low",
        Some(libc::ELOOP) => "links that lead to each other",
        Some(libc::EBADF) => "it was closed when the program started",
        Some(libc::ENXIO) => "a socket, or a device that is not there",
        Some(libc::ETXTBSY) => "the program in it is running",
        Some(libc::ESTALE) => "the network file system has lost the file",
        _ => return error.to_string(),
    };
    format!("{error}: {hint}")
}

/// How a command ends when it does not end well.
#[derive(Debug)]
pub(crate) enum Ending {
    /// So many things failed; the first of them.
    Failed {
        /// At least 1.
        count: u64,
        /// In the order of the work, not of time.
        first: Failure,
    },
    /// The reader of a pipe has gone.
    ClosedPipe,
    /// A signal ended the work; it was told already.
    Interrupted,
    /// The words of the call do not fit together, in a way that only the command can see.
    Usage(String),
}

impl From<Failure> for Ending {
    fn from(first: Failure) -> Ending {
        Ending::Failed { count: 1, first }
    }
}

impl Ending {
    /// Tells standard error, and gives the program's exit status.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Ending::Failed { count, first } => {
                tell(&summary(*count, first));
                ExitCode::from(STATUS_FAILED)
            }
            Ending::ClosedPipe => signals::end_by(libc::SIGPIPE),
            Ending::Interrupted => signals::end_by_last(),
            Ending::Usage(message) => {
                tell(message);
                tell("for the words of a command: millstream COMMAND --help");
                ExitCode::from(STATUS_USAGE)
            }
        }
    }
}

/// The line about failures.
pub(crate) fn summary(count: u64, first: &Failure) -> String {
    let noun = if count == 1 { "failure" } else { "failures" };
    format!("{count} {noun}, the first: {first}")
}

/// A line to standard error. Where nobody takes it, nothing can be done about it.
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
        let failure = Failure::new(OsStr::new("a\nb"), "cut").at(12);
        assert_eq!(
            summary(1, &failure),
            "1 failure, the first: a\\x0ab: at offset 12: cut"
        );
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        let failure = Failure::io(OsStr::new("x"), "write", &error);
        assert!(summary(3, &failure).starts_with("3 failures, the first: x: cannot write: "));
        assert!(failure.to_string().ends_with("the disk is full"));
    }
}
