//! The calls by which a program writes, stopped one by one: each can be allowed, made to fail, or
//! be the program's last.
//!
//! A tracer ([`ptrace(2)`]) sees every system call of a child, so that tests can go through all the
//! places where it may die or fail: run it once for each call and answer that one otherwise. What
//! it writes through io_uring is one call, which submits it. Only calls that write to files are
//! shown, of files below one folder; a call that is not in the list of `calls/decode.rs` is allowed
//! unseen.
//!
//! Threads of the program go on while one of them stands before a call, so their order may differ
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

use crate::Unavailable;
use crate::child::Written;
use ptrace::{Event, Side, Thread};

mod decode;
mod ptrace;

/// How long a program may run; one that hangs is killed.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A call that writes.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its name in the manual.
    pub name: &'static str,
    /// The file, or the old name of one that gets another.
    pub path: PathBuf,
    /// The file's number, where it is there or, after the call, was made.
    pub inode: Option<u64>,
    /// What it does.
    pub op: Op,
    /// What it returned, an error as a negative number. `None` before the call.
    pub result: Option<i64>,
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Opens a file that may be created or truncated thereby; without a name for `O_TMPFILE`.
    Create {
        /// It gets no name.
        unnamed: bool,
    },
    /// Writes bytes; on its result depends how many.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Writes bytes of another file.
    Copy,
    /// Sets the length.
    Truncate(u64),
    /// Reserves blocks.
    Allocate,
    /// Changes the mode, the owner or an attribute.
    Attribute,
    /// Gives a file one more name.
    Link(PathBuf),
    /// Gives a file another name.
    Rename(PathBuf),
    /// Removes a name.
    Remove,
    /// Makes a folder.
    MakeFolder,
    /// Makes the file, or the names in the folder, durable.
    Sync,
    /// Makes a file system durable.
    SyncAll,
    /// Submits operations to a ring.
    Submit,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is made.
    Allow,
    /// It is not made, and returns this error number.
    Fail(i32),
    /// It is not made, and the program is killed.
    KillBefore,
    /// It is made, and the program is killed.
    KillAfter,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Its calls that returned, in that order.
    pub calls: Vec<Call>,
}

/// Runs a program whose calls that write to files below `folder`, and submissions to rings, are
/// answered by `answer`.
///
/// # Errors
/// The machine allows no tracing.
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
    let [stdout, stderr] = written.take();
    Ok(Ended {
        status,
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        calls: tracer.calls,
    })
}

/// Runs a program as [`answered`], and gives the call with this number, counted from 0, its answer;
/// all others are allowed. Submissions to rings are not counted, as their number differs between
/// runs. The call, if there was one.
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
    /// Threads inside a call that is shown.
    within: HashMap<Thread, (Call, Answer)>,
    /// Threads that have had the stop with which each begins.
    started: HashSet<Thread>,
    calls: Vec<Call>,
    /// System calls of any kind that it stopped at.
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
                    // Its number may be given to another thread.
                    self.started.remove(&thread);
                    self.within.remove(&thread);
                    continue;
                }
                Event::Call => {
                    // One that was killed meanwhile is in no call, and cannot be changed.
                    if let Ok(side) = ptrace::side(thread) {
                        self.stops += 1;
                        let _ = self.call(thread, side);
                    }
                    0
                }
                Event::Stopped(libc::SIGSTOP) if self.started.insert(thread) => 0,
                Event::Stopped(signal) => signal,
            };
            // A thread that was killed cannot be resumed; its end is waited for.
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

/// Kills a child after a while.
struct Limit {
    ended: mpsc::Sender<()>,
    watch: std::thread::JoinHandle<bool>,
}

impl Limit {
    fn of(child: &std::process::Child) -> Limit {
        let (ended, end) = mpsc::channel();
        // Not by its number, which another process may have by then.
        let process = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())
            .expect("the system has descriptors of processes");
        let watch = std::thread::spawn(move || {
            let late = end.recv_timeout(TIME_MAX) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                // It may have ended just now.
                let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
            }
            late
        });
        Limit { ended, watch }
    }

    /// Whether the time was up. To be called when the child has ended.
    fn reached(self) -> bool {
        drop(self.ended);
        self.watch.join().expect("watching does not panic")
    }
}
