//! The error for a fault that cannot be produced on this machine.

use std::fmt;
use std::io::Write as _;

/// Why a fault cannot be produced: no root, no `/dev/fuse`, a program not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    reason: String,
}

impl Unavailable {
    /// Creates the error with a reason in words.
    #[must_use]
    pub fn because(reason: impl Into<String>) -> Unavailable {
        Unavailable {
            reason: reason.into(),
        }
    }

    /// Prints `SKIP: reason` directly to standard error, because the test harness captures what
    /// passing tests print with `println!` and `eprintln!`.
    pub fn announce(&self) {
        let line = format!("SKIP: {}\n", self.reason);
        // Nothing can be done about a closed standard error, and the test's result does not
        // depend on it.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Unavailable {}

/// Takes the value out of a `Result<T, Unavailable>`, or prints `SKIP: reason` and returns from
/// the test.
#[macro_export]
macro_rules! or_skip {
    ($attempt:expr) => {
        match $attempt {
            Ok(value) => value,
            Err(unavailable) => {
                $crate::Unavailable::announce(&unavailable);
                return;
            }
        }
    };
}
