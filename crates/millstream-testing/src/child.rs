//! Runs a test again in a process of its own.
//!
//! A seccomp filter, another user and a lower limit cannot be undone, so they must not apply to the
//! test process. [`Child::run`] starts the running test binary again with the name of the calling
//! test; there the same call recognizes the child (by an environment variable that only this module
//! uses), restricts the process, and runs the body. A forked child would be simpler and wrong:
//! other test threads may hold the locks of the allocator and the standard library at the fork.
//!
//! The parent trusts nothing: a child that ran no test, or another one, is a failure.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, setrlimit};

use crate::seccomp::{self, Refusal};
use crate::{Unavailable, alive, user, wait_for_end, watchdog};

/// Set only in the child, to the name of the test it runs and its case.
const MARK: &str = "MILLSTREAM_TESTING_CHILD";

/// Printed by the child if the machine cannot restrict it as requested.
const UNAVAILABLE_PREFIX: &str = "unavailable in the child: ";

/// Default time limit of a child: a child that hangs is a failed test, not a hung one. The child's
/// own watchdog shows its stacks before.
const CHILD_TIME_MAX: Duration = Duration::from_secs(120);

/// The part of the time limit that the child's own watchdog leaves it.
const WATCHDOG_PART: f64 = 0.75;

/// Expands to the full name of the enclosing test function, as the test harness knows it.
#[macro_export]
macro_rules! this_test {
    () => {{
        fn here() {}
        fn name_of<T>(_: T) -> &'static str {
            std::any::type_name::<T>()
        }
        // The path begins with the crate's name and ends with `here`; the harness shows neither.
        let name = name_of(here).trim_end_matches("::here");
        name.split_once("::").map_or(name, |(_, rest)| rest)
    }};
}

/// The outcome of a [`Child`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildOutcome {
    /// This process is the child, and the body has run or belongs to another case: there is nothing
    /// to judge here.
    WasChild,
    /// The body ran in the child without a panic; holds the child's output.
    Passed(String),
    /// The child failed by a panic, a signal or a time-out; holds the reason and its output.
    Failed(String),
}

/// A child process to be started, with its restrictions.
#[derive(Debug, Clone)]
#[must_use]
pub struct Child {
    test: &'static str,
    case: String,
    refusal: Option<Refusal>,
    nobody: bool,
    limits: Vec<(Resource, u64)>,
    leaks: bool,
    time_max: Duration,
}

impl Child {
    /// Creates a child that runs the test named `test`: always `this_test!()`.
    pub fn of(test: &'static str) -> Child {
        Child {
            test,
            case: String::new(),
            refusal: None,
            nobody: false,
            limits: Vec::new(),
            leaks: false,
            time_max: CHILD_TIME_MAX.max(watchdog::limit()),
        }
    }

    /// Names one of several children of a test. A child also reaches the calls of the other cases,
    /// and skips them.
    pub fn case(mut self, case: &str) -> Child {
        case.clone_into(&mut self.case);
        self
    }

    /// Makes the kernel refuse io_uring to the child.
    pub fn refuse_io_uring(mut self, refusal: Refusal) -> Child {
        self.refusal = Some(refusal);
        self
    }

    /// Runs the child as an ordinary user without capabilities. Needs root, unless the parent is an
    /// ordinary user already.
    pub fn as_nobody(mut self) -> Child {
        self.nobody = true;
        self
    }

    /// Limits the child's locked (and registered) memory to `bytes`. Root is exempt from the limit;
    /// combine with [`Child::as_nobody`].
    pub fn locked_bytes_max(mut self, bytes: u64) -> Child {
        self.limits.push((Resource::Memlock, bytes));
        self
    }

    /// Limits the child to descriptors below `count`.
    pub fn descriptors_max(mut self, count: u64) -> Child {
        self.limits.push((Resource::Nofile, count));
        self
    }

    /// Declares that the body leaks on purpose (what a hung read holds is never freed): turns off
    /// the leak sanitizer for this child, if there is one.
    pub fn leaks_on_purpose(mut self) -> Child {
        self.leaks = true;
        self
    }

    /// Sets the time after which the child is killed and has failed.
    pub fn time_max(mut self, time_max: Duration) -> Child {
        self.time_max = time_max;
        self
    }

    /// Runs `body` in the child, and fails the test if it fails there. In the child itself,
    /// restricts the process and runs `body`.
    ///
    /// # Errors
    /// The machine cannot apply a restriction.
    ///
    /// # Panics
    /// If the body panicked, was killed, or took too long; the message has the child's output.
    pub fn run(self, body: impl FnOnce()) -> Result<(), Unavailable> {
        let test = self.test;
        match self.outcome(body)? {
            ChildOutcome::WasChild => Ok(()),
            ChildOutcome::Passed(written) => {
                pass_on_skips(&written);
                Ok(())
            }
            ChildOutcome::Failed(why) => panic!("{test} failed in its own process: {why}"),
        }
    }

    /// As [`Child::run`], but returns the outcome: for bodies that must fail.
    ///
    /// # Errors
    /// The machine cannot apply a restriction.
    ///
    /// # Panics
    /// In the child, if the body does.
    pub fn outcome(self, body: impl FnOnce()) -> Result<ChildOutcome, Unavailable> {
        if let Ok(mark) = std::env::var(MARK) {
            let (test, case) = mark.split_once('=').expect("set by start");
            assert_eq!(
                test, self.test,
                "a child that runs another test than its own"
            );
            if case != self.case {
                return Ok(ChildOutcome::WasChild);
            }
            match self.restrict() {
                Ok(()) => body(),
                Err(unavailable) => println!("{UNAVAILABLE_PREFIX}{unavailable}"),
            }
            return Ok(ChildOutcome::WasChild);
        }
        self.start()
    }

    /// Applies the restrictions in the child. The filter comes last: it forbids gaining privileges,
    /// and the calls before it need nothing that it refuses.
    fn restrict(&self) -> Result<(), Unavailable> {
        for &(resource, value) in &self.limits {
            let (current, maximum) = (Some(value), Some(value));
            setrlimit(resource, Rlimit { current, maximum }).map_err(|error| {
                Unavailable::because(format!("setrlimit of {resource:?} to {value}: {error}"))
            })?;
        }
        if self.nobody {
            user::become_nobody()?;
        }
        if let Some(refusal) = self.refusal {
            seccomp::refuse_io_uring(refusal)?;
        }
        Ok(())
    }

    fn start(self) -> Result<ChildOutcome, Unavailable> {
        let binary = std::env::current_exe()
            .map_err(|error| Unavailable::because(format!("the test's own program: {error}")))?;
        let mut command = Command::new(binary);
        if self.leaks {
            let set = std::env::var("ASAN_OPTIONS").unwrap_or_default();
            command.env("ASAN_OPTIONS", format!("{set}:detect_leaks=0"));
        }
        let started = |error| Unavailable::because(format!("starting a child: {error}"));
        let output = Written::of(&mut command).map_err(started)?;
        let mut child = command
            .args([self.test, "--exact", "--nocapture", "--test-threads=1"])
            .arg("--include-ignored")
            .env(MARK, format!("{}={}", self.test, self.case))
            .env(
                watchdog::VARIABLE,
                (self.time_max.as_secs_f64() * WATCHDOG_PART).to_string(),
            )
            .stdin(Stdio::null())
            .spawn()
            .map_err(started)?;
        let status = if wait_for_end(Pid::from_child(&child), self.time_max) {
            Some(child.wait().expect("our own child can be waited for"))
        } else {
            // The child may have just ended by itself; then there is nothing to kill. One that
            // cannot die at once must not block the test.
            let _ = child.kill();
            None
        };
        alive();
        let written = String::from_utf8_lossy(&output.take().concat()).into_owned();
        if let Some((_, reason)) = written.split_once(UNAVAILABLE_PREFIX) {
            let reason = reason.lines().next().unwrap_or_default();
            return Err(Unavailable::because(reason));
        }
        let why = match status {
            None => format!("still running after {:?}", self.time_max),
            Some(status) if status.signal().is_some() => format!("killed: {status}"),
            Some(status) if !status.success() => format!("{status}"),
            Some(_) if !written.contains("test result: ok. 1 passed") => {
                "it did not run exactly this test".to_owned()
            }
            Some(_) => return Ok(ChildOutcome::Passed(written)),
        };
        Ok(ChildOutcome::Failed(format!(
            "{why}\n--- it wrote:\n{written}"
        )))
    }
}

/// Reports the child's SKIP lines as this process's own.
fn pass_on_skips(written: &str) {
    for line in written.lines() {
        if let Some((_, reason)) = line.split_once("SKIP: ") {
            Unavailable::because(reason).announce();
        }
    }
}

/// The output of a process, in files, since pipes would have to be read while it runs. Two files,
/// so that a warning on standard error does not split the harness's result line.
pub(crate) struct Written {
    stdout: File,
    stderr: File,
}

impl Written {
    /// Redirects the output of a command that is about to be started.
    pub(crate) fn of(command: &mut Command) -> io::Result<Written> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?);
        Ok(Written { stdout, stderr })
    }

    /// Returns what was written to standard output and to standard error so far.
    pub(crate) fn take(self) -> [Vec<u8>; 2] {
        [self.stdout, self.stderr].map(|mut file| {
            let mut bytes = Vec::new();
            file.rewind()
                .and_then(|()| file.read_to_end(&mut bytes))
                .expect("a file of our own");
            bytes
        })
    }
}
