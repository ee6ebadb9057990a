//! Proves that a piece of code makes no file-system call.
//!
//! [`without_file_calls`] runs it on a new thread whose seccomp filter forbids every call that
//! reads, writes, opens, closes, stats, renames or maps a file, and io_uring's calls, which can do
//! all of it. Such a call kills the process by SIGSYS: so it runs in a [`child`](crate::child),
//! which then fails. Unlike a tracer's log there is nothing to parse, and nothing to miss; `strace
//! -f` names the call.
//!
//! Allowed are memory, futexes, clocks, anonymous maps, a `write` of eight bytes (to an eventfd, to
//! wake another thread), and writes to standard output and error (for a panic's message).

use std::collections::BTreeMap;

use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use crate::Unavailable;
use crate::seccomp::{Binds, Filter};

/// Bytes of an eventfd's counter.
const EVENTFD_BYTES: u32 = 8;

/// Calls on files, on every architecture.
const FILE_CALLS: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_ioctl,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_io_submit,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls on files that only old architectures such as x86-64 have.
#[cfg(target_arch = "x86_64")]
const OLD_FILE_CALLS: &[i64] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_getdents,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FILE_CALLS: &[i64] = &[];

/// Runs `body` on a new thread on which a file-system call ends the process, and returns its
/// result. For use in a [`child`](crate::child).
///
/// Values moved into `body` are dropped on that thread, too: prefer references.
///
/// # Errors
/// The filter cannot be installed.
///
/// # Panics
/// If `body` does.
pub fn without_file_calls<R: Send>(body: impl FnOnce() -> R + Send) -> Result<R, Unavailable> {
    let filter = file_filter()?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            shrink_the_heap();
            filter.install(Binds::Thread)?;
            Ok(body())
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The first time that glibc returns memory of a thread's heap to the system it reads the
/// overcommit setting, once per process: a call of the allocator, not of the code under test.
fn shrink_the_heap() {
    const PIECES: usize = 64;
    const PIECE_BYTES: usize = 64 << 10;
    let pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; PIECE_BYTES]).collect();
    drop(std::hint::black_box(pieces));
}

fn file_filter() -> Result<Filter, Unavailable> {
    let calls = FILE_CALLS.iter().chain(OLD_FILE_CALLS);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        calls.map(|&call| (call, Vec::new())).collect();
    // A rule matches if all of its conditions match.
    let not_standard = || condition(0, SeccompCmpOp::Gt, libc::STDERR_FILENO.cast_unsigned());
    let not_eventfd = condition(2, SeccompCmpOp::Ne, EVENTFD_BYTES);
    let anonymous = u64::from(libc::MAP_ANONYMOUS.cast_unsigned());
    let not_anonymous = condition(3, SeccompCmpOp::MaskedEq(anonymous), 0);
    rules.insert(
        libc::SYS_write,
        vec![rule(vec![not_standard(), not_eventfd])],
    );
    rules.insert(libc::SYS_writev, vec![rule(vec![not_standard()])]);
    rules.insert(libc::SYS_mmap, vec![rule(vec![not_anonymous])]);
    Filter::new(rules, SeccompAction::KillProcess)
}

/// Returns a condition on the low 32 bits of an argument.
fn condition(argument: u8, operator: SeccompCmpOp, value: u32) -> SeccompCondition {
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        operator,
        u64::from(value),
    )
    .expect("a system call has six arguments")
}

fn rule(conditions: Vec<SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("a rule has a condition")
}
