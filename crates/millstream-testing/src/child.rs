//! A test, once more, in a process of its own.
//!
//! A seccomp filter, another user and a lower limit cannot be taken back, so they must not befall
//! the test process. [`Child::run`] starts the running test binary again with the name of the
//! calling test; there the same call finds itself in the child (by an environment variable that
//! only this module knows), restricts the process, and runs the body. A forked child would be
//! simpler and wrong: other test threads may hold the allocator's and the standard library's locks
//! at the fork.
//!
//! The parent believes nothing: a child that ran no test, or another one, is a failure.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::Unavailable;
use crate::seccomp::{self, Refusal};
use crate::user;

/// Set in the child alone, to the name of the test it runs and the case of it.
const MARK: &str = "MILLSTREAM_TESTING_CHILD";

/// What the child prints when the machine cannot restrict it as asked.
const UNAVAILABLE_PREFIX: &str = "unavailable in the child: ";

/// How long a child may run by default; a child that hangs is a failed test, not a hung one.
const CHILD_TIME_MAX: Duration = Duration::from_secs(120);

/// How often the parent looks whether the child has ended.
const POLL_STEP: Duration = Duration::from_millis(5);

/// The full name of the test function it is used in, as the test harness knows it.
#[macro_export]
macro_rules! this_test {
    () => {{
        fn here() {}
        fn name_of<T>(_: T) -> &'static str {
            std::any::type_name::<T>()
        }
        // The crate's own name comes first, `here` last; the harness shows neither.
        let name = name_of(here).trim_end_matches("::here");
        name.split_once("::").map_or(name, |(_, rest)| rest)
    }};
}

/// How a [`Child`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildOutcome {
    /// This process is the child, and the body has run, or belongs to another case than the child
    /// was started for: there is nothing to judge here.
    WasChild,
    /// The body ran in the child without a panic. What the child wrote.
    Passed(String),
    /// The child failed: by a panic, by a signal, by a time-out. Why, and what it wrote.
    Failed(String),
}

/// A process to be, with its restrictions.
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
    /// A child that runs the test named `test`: always `this_test!()`.
    pub fn of(test: &'static str) -> Child {
        Child {
            test,
            case: String::new(),
            refusal: None,
            nobody: false,
            limits: Vec::new(),
            leaks: false,
            time_max: CHILD_TIME_MAX,
        }
    }

    /// Names one of several children of one test. The child comes by the calls of the others
    /// too, and leaves them out.
    pub fn case(mut self, case: &str) -> Child {
        case.clone_into(&mut self.case);
        self
    }

    /// The kernel refuses io_uring to the child.
    pub fn refuse_io_uring(mut self, refusal: Refusal) -> Child {
        self.refusal = Some(refusal);
        self
    }

    /// The child is an ordinary user without capabilities. Needs root, unless the parent is one
    /// already.
    pub fn as_nobody(mut self) -> Child {
        self.nobody = true;
        self
    }

    /// The child may have at most `bytes` of locked (and registered) memory. Root is not bound by
    /// this; combine with [`Child::as_nobody`].
    pub fn locked_bytes_max(mut self, bytes: u64) -> Child {
        self.limits.push((Resource::Memlock, bytes));
        self
    }

    /// The child may have descriptors below `count` only.
    pub fn descriptors_max(mut self, count: u64) -> Child {
        self.limits.push((Resource::Nofile, count));
        self
    }

    /// The body leaks on purpose (what a hung read holds is never freed): where a leak sanitizer
    /// watches, it does not watch this child.
    pub fn leaks_on_purpose(mut self) -> Child {
        self.leaks = true;
        self
    }

    /// The child is ended after this time, and has failed then.
    pub fn time_max(mut self, time_max: Duration) -> Child {
        self.time_max = time_max;
        self
    }

    /// Runs `body` in the child, and fails the test if it fails there. In the child: restricts the
    /// process and runs it.
    ///
    /// # Errors
    /// A restriction cannot be had here.
    ///
    /// # Panics
    /// If the body panicked, was killed, or took too long; with all that the child wrote.
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

    /// Like [`Child::run`], but tells how it ended: for bodies that must fail.
    ///
    /// # Errors
    /// A restriction cannot be had here.
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

    /// In the child: takes away what is to be taken away. The filter comes last, for the calls
    /// before it need none of what it refuses, and it forbids gaining privileges.
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
            .stdin(Stdio::null())
            .spawn()
            .map_err(started)?;
        let until = Instant::now() + self.time_max;
        let status = loop {
            match child.try_wait().expect("our own child can be waited for") {
                Some(status) => break Some(status),
                None if Instant::now() >= until => {
                    // It may end by itself just now, then there is nothing to kill. And a child
                    // that cannot die at once must not hold us up: it is left to the system.
                    let _ = child.kill();
                    break None;
                }
                None => std::thread::sleep(POLL_STEP),
            }
        };
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

/// Shows the child's own SKIP lines as ours.
fn pass_on_skips(written: &str) {
    for line in written.lines() {
        if let Some((_, reason)) = line.split_once("SKIP: ") {
            Unavailable::because(reason).announce();
        }
    }
}

/// What a process writes, in files, since pipes would have to be emptied while it runs. Two of
/// them: a warning on standard error must not split the harness's result line.
pub(crate) struct Written {
    stdout: File,
    stderr: File,
}

impl Written {
    /// Of a command that is about to be started.
    pub(crate) fn of(command: &mut Command) -> io::Result<Written> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?);
        Ok(Written { stdout, stderr })
    }

    /// What was written to standard output and to standard error so far.
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
