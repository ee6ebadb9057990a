//! Seccomp filters: the kernel refuses system calls to this process.
//!
//! [`refuse`] makes calls fail with an error, as container runtimes and old kernels do; [`Filter`]
//! is the general case. The crate `seccompiler` compiles the BPF programs.
//!
//! A filter cannot be removed and is inherited: use it in a [`child`](crate::child), or through
//! the program `no-uring`.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

use crate::Unavailable;

/// The error of a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// `EPERM`: not permitted, as container runtimes return.
    NotPermitted,
    /// `ENOSYS`: no such call, as kernels without io_uring return.
    NoSuchCall,
}

impl Refusal {
    fn action(self) -> SeccompAction {
        let errno = match self {
            Refusal::NotPermitted => libc::EPERM,
            Refusal::NoSuchCall => libc::ENOSYS,
        };
        SeccompAction::Errno(errno.cast_unsigned())
    }
}

/// `io_uring_setup`, `io_uring_enter`, `io_uring_register`.
const IO_URING_CALLS: [i64; 3] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The threads that a filter applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binds {
    /// The calling thread and those it starts later.
    Thread,
    /// All threads of the process.
    Process,
}

/// A compiled filter.
#[derive(Debug)]
pub struct Filter(BpfProgram);

impl Filter {
    /// Compiles a filter that takes `action` on a listed call if one of its rules matches or it has
    /// none, and allows all other calls. A call through the entry of another architecture (32 bit),
    /// which has other numbers, kills the process.
    ///
    /// # Errors
    /// The architecture is not supported.
    pub fn new(
        rules: BTreeMap<i64, Vec<SeccompRule>>,
        action: SeccompAction,
    ) -> Result<Filter, Unavailable> {
        let architecture = std::env::consts::ARCH.try_into();
        let program = architecture
            .and_then(|arch| SeccompFilter::new(rules, SeccompAction::Allow, action, arch))
            .and_then(BpfProgram::try_from);
        let unavailable = |error| Unavailable::because(format!("a seccomp filter: {error}"));
        program.map(Filter).map_err(unavailable)
    }

    /// Installs the filter, which cannot be removed.
    ///
    /// # Errors
    /// The kernel has no seccomp filters, or allows no more of them.
    pub fn install(&self, binds: Binds) -> Result<(), Unavailable> {
        let installed = match binds {
            Binds::Thread => seccompiler::apply_filter(&self.0),
            Binds::Process => seccompiler::apply_filter_all_threads(&self.0),
        };
        installed.map_err(|error| Unavailable::because(format!("a seccomp filter: {error}")))
    }
}

/// Makes these system calls fail in this process and in those it starts later.
///
/// # Errors
/// See [`Filter::new`] and [`Filter::install`].
pub fn refuse(calls: &[i64], refusal: Refusal) -> Result<(), Unavailable> {
    let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
    Filter::new(rules, refusal.action())?.install(Binds::Process)
}

/// Refuses new threads and processes to this process.
///
/// # Errors
/// See [`refuse`].
pub fn refuse_threads() -> Result<(), Unavailable> {
    refuse(&[libc::SYS_clone, libc::SYS_clone3], Refusal::NotPermitted)
}

/// Refuses io_uring to this process and to those it starts later. Existing rings cannot be entered
/// any more.
///
/// # Errors
/// See [`refuse`].
pub fn refuse_io_uring(refusal: Refusal) -> Result<(), Unavailable> {
    refuse(&IO_URING_CALLS, refusal)
}
