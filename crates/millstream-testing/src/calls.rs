//! Stops each writing system call of a program: it can be allowed, fail, or be the program's last.
//!
//! A tracer ([`ptrace(2)`]) sees every system call of a child, so that tests can try every place
//! where it may die or fail: they run it once for each call and answer that one differently. Writes
//! through io_uring appear as one call, the one that submits them. Only calls that write to files
//! below one folder and submissions to io_uring are reported; a call that is not in the list of
//! `calls/decode.rs` is allowed without a report.
//!
//! Other threads of the program go on while one is stopped at a call, so their order may differ
//! between runs. Processes that it starts are not traced.
//!
//! [`ptrace(2)`]: https://man7.org/linux/man-pages/man2/ptrace.2.html

use std::collections::{HashMap, HashSet};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::child::Written;
use crate::{Unavailable, alive};
use ptrace::{Event, Side, Thread};

mod decode;
mod ptrace;

/// Maximum run time of a program; after it the program is killed.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A writing system call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Name of the call in the manual.
    pub name: &'static str,
    /// Path of the file; the old name if the call links or renames it.
    pub path: PathBuf,
    /// Inode number of the file: before the call if it exists, after the call if it was created.
    pub inode: Option<u64>,
    /// What it does.
    pub op: Op,
    /// Return value, a negative error number for an error; `None` before the call.
    pub result: Option<i64>,
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Opens a file that may be created or truncated by it; unnamed with `O_TMPFILE`.
    Create {
        /// Whether the file gets no name.
        unnamed: bool,
    },
    /// Writes bytes; the call's result is how many.
    Write {
        /// Offset in the file.
        offset: u64,
        /// The bytes passed to the call.
        bytes: Vec<u8>,
    },
    /// Copies bytes from another file.
    Copy,
    /// Sets the length of the file.
    Truncate(u64),
    /// Reserves blocks.
    Allocate,
    /// Changes the mode, the owner or an extended attribute.
    Attribute,
    /// Adds this name to a file.
    Link(PathBuf),
    /// Renames the file to this name.
    Rename(PathBuf),
    /// Removes a name.
    Remove,
    /// Creates a folder.
    MakeFolder,
    /// Makes the file's content, or the names in the folder, durable.
    Sync,
    /// Makes all of a file system durable.
    SyncAll,
    /// Submits operations to an io_uring.
    Submit,
}

/// What the tracer does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The call is made.
    Allow,
    /// The call is not made, and returns this error number.
    Fail(i32),
    /// The call is not made, and the program is killed.
    KillBefore,
    /// The call is made, and then the program is killed.
    KillAfter,
}

/// The outcome of a program.
#[derive(Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Bytes written to standard output.
    pub stdout: Vec<u8>,
    /// Text written to standard error.
    pub stderr: String,
    /// Calls that returned, in the order in which they did.
    pub calls: Vec<Call>,
}

/// Runs a program and applies `answer` to its calls that write to files below `folder` and to its
/// submissions to io_uring.
///
/// # Errors
/// The system allows no tracing.
///
/// # Panics
/// If the program runs for longer than a minute.
pub fn answered(
    command: &mut Command,
    folder: &Path,
    answer: impl FnMut(&Call) -> Answer,
) -> Result<Ended, Unavailable> {
    let unavailable = |error: std::io::Error| Unavailable::because(error.to_string());
    let folder = folder.canonicalize().map_err(unavailable)?;
    let written = Written::of(command).map_err(unavailable)?;
    let child = ptrace::start(command)?;
    let mut tracer = Tracer {
        process: child.id(),
        folder: &folder,
        answer,
        within: HashMap::new(),
        started: HashSet::from([child.id().cast_signed()]),
        calls: Vec::new(),
        stops: 0,
    };
    let limit = Limit::of(&child);
    let status = tracer.run().expect("a tracee can be waited for");
    assert!(
        !limit.reached(),
        "still running after {TIME_MAX:?}: {command:?}"
    );
    if tracer.stops == 0 {
        let reason = "the system reports no system calls to a tracer";
        return Err(Unavailable::because(reason));
    }
    alive();
    let [stdout, stderr] = written.take();
    Ok(Ended {
        status,
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        calls: tracer.calls,
    })
}

/// Runs a program as [`answered`], with `answer` for the call of this number, counted from 0; all
/// others are allowed. Submissions to io_uring are not counted, as their number differs between
/// runs. Also returns the call, if there was one.
///
/// # Errors
/// As [`answered`].
pub fn answered_at(
    command: &mut Command,
    folder: &Path,
    number: usize,
    answer: Answer,
) -> Result<(Ended, Option<Call>), Unavailable> {
    let (mut count, mut found) = (0, None);
    let ended = answered(command, folder, |call| {
        if call.op == Op::Submit {
            return Answer::Allow;
        }
        count += 1;
        if count != number + 1 {
            return Answer::Allow;
        }
        found = Some(call.clone());
        answer
    })?;
    Ok((ended, found))
}

struct Tracer<'a, F> {
    process: u32,
    folder: &'a Path,
    answer: F,
    /// Threads inside a reported call.
    within: HashMap<Thread, (Call, Answer)>,
    /// Threads whose initial stop has been seen.
    started: HashSet<Thread>,
    calls: Vec<Call>,
    /// Number of stops at system calls of any kind.
    stops: u64,
}

impl<F: FnMut(&Call) -> Answer> Tracer<'_, F> {
    fn run(&mut self) -> std::io::Result<ExitStatus> {
        loop {
            let (thread, event) = ptrace::wait()?;
            let signal = match event {
                Event::Ended(status) if thread == self.process.cast_signed() => {
                    return Ok(ExitStatus::from_raw(status));
                }
                Event::Ended(_) => {
                    // The thread id may be reused.
                    self.started.remove(&thread);
                    self.within.remove(&thread);
                    continue;
                }
                Event::Call => {
                    // A thread that was killed meanwhile is in no call, and cannot be changed.
                    if let Ok(side) = ptrace::side(thread) {
                        self.stops += 1;
                        let _ = self.call(thread, side);
                    }
                    0
                }
                Event::Stopped(libc::SIGSTOP) if self.started.insert(thread) => 0,
                Event::Stopped(signal) => signal,
            };
            // A thread that was killed cannot be resumed; its end is reported later.
            let _ = ptrace::resume(thread, signal);
        }
    }

    fn call(&mut self, thread: Thread, side: Side) -> std::io::Result<()> {
        match side {
            Side::Entry { number, arguments } => {
                let Some(call) = decode::decode(self.process, number, arguments) else {
                    return Ok(());
                };
                if call.op != Op::Submit && !self.is_below(&call) {
                    return Ok(());
                }
                let answer = (self.answer)(&call);
                self.within.insert(thread, (call, answer));
                match answer {
                    Answer::Fail(_) => ptrace::skip(thread),
                    Answer::KillBefore => self.kill(),
                    Answer::Allow | Answer::KillAfter => Ok(()),
                }
            }
            Side::Exit(result) => {
                let Some((mut call, answer)) = self.within.remove(&thread) else {
                    return Ok(());
                };
                let result = match answer {
                    Answer::Fail(error) => -i64::from(error),
                    _ => result,
                };
                if let (Op::Create { .. }, Ok(descriptor)) = (&call.op, u64::try_from(result)) {
                    call.inode = decode::inode(self.process, descriptor);
                }
                call.result = Some(result);
                self.calls.push(call);
                match answer {
                    Answer::Fail(_) => ptrace::set_result(thread, result),
                    Answer::KillAfter => self.kill(),
                    Answer::Allow | Answer::KillBefore => Ok(()),
                }
            }
        }
    }

    fn is_below(&self, call: &Call) -> bool {
        let target = match &call.op {
            Op::Link(to) | Op::Rename(to) => Some(to),
            _ => None,
        };
        let mut paths = std::iter::once(&call.path).chain(target);
        paths.any(|path| path.starts_with(self.folder))
    }

    fn kill(&self) -> std::io::Result<()> {
        let process = Pid::from_raw(self.process.cast_signed()).expect("a process has a number");
        Ok(rustix::process::kill_process(process, Signal::KILL)?)
    }
}

/// Kills a child after [`TIME_MAX`].
struct Limit {
    ended: mpsc::Sender<()>,
    watch: std::thread::JoinHandle<bool>,
}

impl Limit {
    fn of(child: &std::process::Child) -> Limit {
        let (ended, end) = mpsc::channel();
        // Not by process id, which may be reused.
        let process = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())
            .expect("the system has descriptors of processes");
        let watch = std::thread::spawn(move || {
            let late = end.recv_timeout(TIME_MAX) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                // The child may have ended just now.
                let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
            }
            late
        });
        Limit { ended, watch }
    }

    /// Returns whether the time was up. Call it after the child has ended.
    fn reached(self) -> bool {
        drop(self.ended);
        self.watch.join().expect("watching does not panic")
    }
}
