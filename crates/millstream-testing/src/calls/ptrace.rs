//! `ptrace` of a child of the calling thread, whose threads stop at each system call.
//!
//! # Safety
//! Requests name threads by id, and the kernel refuses those that are not stopped tracees of the
//! calling thread. Memory is passed to it only for values of the documented types, which live
//! through the call.
#![expect(unsafe_code, reason = "ptrace(2) and waitpid(2)")]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use crate::Unavailable;

/// Id of a thread of the child; the process id is that of its first thread.
pub(super) type Thread = libc::pid_t;

/// An event of a thread of the child.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// The thread (the process, if it is the first) ended with a wait status.
    Ended(i32),
    /// The thread stopped at the entry or exit of a system call.
    Call,
    /// The thread stopped for another reason: for a signal, unless it is 0.
    Stopped(i32),
}

/// The side of a system call at which a thread stopped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    /// The call is about to be made.
    Entry { number: i64, arguments: [u64; 6] },
    /// The call was made and returned this value, a negative error number for an error.
    Exit(i64),
}

/// Starts a program that is traced by the calling thread, and stops it before its first
/// instruction. The program is killed when that thread ends.
pub(super) fn start(command: &mut Command) -> Result<Child, Unavailable> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Unavailable::because(
            "system calls are replaced on x86-64 alone",
        ));
    }
    let ask = || {
        // SAFETY: no memory is passed.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call, which is safe between fork and exec.
    unsafe { command.pre_exec(ask) };
    let mut child = command
        .spawn()
        .map_err(|error| Unavailable::because(format!("starting a traced program: {error}")))?;
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACECLONE;
    let thread = child.id().cast_signed();
    let set = wait().and_then(|_| {
        // SAFETY: no memory is passed; the options are a number.
        let set = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, thread, 0, options) };
        if set == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    });
    if let Err(error) = set.and_then(|()| resume(thread, 0)) {
        // The child is stopped: nothing else would end it.
        let _ = child.kill().and_then(|()| child.wait());
        return Err(Unavailable::because(format!("ptrace: {error}")));
    }
    Ok(child)
}

/// Waits for the next event of a child of the calling thread, or of one of its threads.
pub(super) fn wait() -> io::Result<(Thread, Event)> {
    let mut status = 0;
    let thread = loop {
        // SAFETY: the status lives through the call.
        let waited =
            unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        let error = io::Error::last_os_error();
        match waited {
            -1 if error.kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(error),
            thread => break thread,
        }
    };
    let event = if !libc::WIFSTOPPED(status) {
        Event::Ended(status)
    } else if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 {
        Event::Call
    } else if status >> 16 != 0 {
        Event::Stopped(0)
    } else {
        Event::Stopped(libc::WSTOPSIG(status))
    };
    Ok((thread, event))
}

/// Resumes a thread until the next system call entry or exit, with a signal if that is not 0.
pub(super) fn resume(thread: Thread, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    match unsafe { libc::ptrace(libc::PTRACE_SYSCALL, thread, 0, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct ptrace_syscall_info`, whose union holds numbers alone: for an entry the call's number
/// and arguments, for an exit the result.
#[repr(C)]
#[derive(Default)]
struct Info {
    operation: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    numbers: [u64; 8],
}

/// Returns the side of the system call at which a thread is stopped.
pub(super) fn side(thread: Thread) -> io::Result<Side> {
    let mut info = Info::default();
    // SAFETY: the kernel writes at most as many bytes as are passed; every value is valid.
    let filled = unsafe {
        libc::ptrace(
            libc::PTRACE_GET_SYSCALL_INFO,
            thread,
            size_of::<Info>(),
            &raw mut info,
        )
    };
    if filled <= 0 {
        return Err(io::Error::last_os_error());
    }
    let [number, arguments @ ..] = info.numbers;
    match info.operation {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            let [a, b, c, d, e, f, _] = arguments;
            let number = number.cast_signed();
            let arguments = [a, b, c, d, e, f];
            Ok(Side::Entry { number, arguments })
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => Ok(Side::Exit(number.cast_signed())),
        _ => Err(io::Error::other("a stop that is at no system call")),
    }
}

/// Skips the system call at whose entry a thread is stopped.
pub(super) fn skip(thread: Thread) -> io::Result<()> {
    change(thread, |registers| registers.orig_rax = u64::MAX)
}

/// Replaces the result of the system call at whose exit a thread is stopped.
pub(super) fn set_result(thread: Thread, result: i64) -> io::Result<()> {
    change(thread, |registers| registers.rax = result.cast_unsigned())
}

#[cfg(target_arch = "x86_64")]
use libc::user_regs_struct as Registers;

/// Stands in for registers that are never used: [`start`] refuses other architectures.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
struct Registers {
    orig_rax: u64,
    rax: u64,
}

#[cfg(not(target_arch = "x86_64"))]
fn change(_: Thread, _: impl FnOnce(&mut Registers)) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_arch = "x86_64")]
fn change(thread: Thread, change: impl FnOnce(&mut Registers)) -> io::Result<()> {
    // SAFETY: registers are integers, for which zeros are valid; the kernel fills in all of them.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    let request = |request, registers: *mut Registers| {
        // SAFETY: the registers live through the call, and have this architecture's type.
        match unsafe { libc::ptrace(request, thread, 0, registers) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    request(libc::PTRACE_GETREGS, &raw mut registers)?;
    change(&mut registers);
    request(libc::PTRACE_SETREGS, &raw mut registers)
}
