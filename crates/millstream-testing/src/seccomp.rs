//! Seccomp filters: the kernel itself refuses system calls to this process.
//!
//! A filter is a small BPF program that sees the architecture, the number and the arguments of a
//! call. [`Program`] builds one from rules; [`refuse_io_uring`] is what containers do to
//! io_uring (Docker and Podman answer `EPERM`, old kernels and gVisor `ENOSYS`).
//!
//! A filter cannot be removed and is inherited: use it in a [`child`](crate::child), or through
//! the program `no-uring`.
//!
//! # Safety
//! Installing a filter reads the program, which lives through the call, and changes nothing in
//! memory. A filter that kills or traps does so only for the calls its rules name.

#![expect(unsafe_code, reason = "installs filters through prctl and seccomp")]

use std::io;
use std::mem::offset_of;

use crate::Unavailable;

/// How io_uring is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// `EPERM`: not permitted, as container runtimes answer.
    NotPermitted,
    /// `ENOSYS`: no such call, as kernels without io_uring answer.
    NoSuchCall,
}

impl Refusal {
    fn errno(self) -> i32 {
        match self {
            Refusal::NotPermitted => libc::EPERM,
            Refusal::NoSuchCall => libc::ENOSYS,
        }
    }
}

/// `io_uring_setup`, `io_uring_enter`, `io_uring_register`; the same numbers everywhere.
const IO_URING_CALLS: [i64; 3] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// `AUDIT_ARCH_*` of linux/audit.h: the ELF machine with the bits for 64 bit and little endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// Which threads a filter binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binds {
    /// The calling thread and what it starts later.
    Thread,
    /// All threads of the process.
    Process,
}

/// When a rule holds back from a call that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unless {
    /// Never: the rule is about every such call.
    Never,
    /// The low half of argument `index` has one of these bits.
    Bits {
        /// Which argument.
        index: usize,
        /// The bits.
        bits: u32,
    },
    /// The low half of argument `index` is at most this.
    AtMost {
        /// Which argument.
        index: usize,
        /// The bound.
        value: u32,
    },
}

/// A filter under construction: allows whatever no rule names.
#[derive(Debug, Clone)]
pub struct Program {
    code: Vec<libc::sock_filter>,
}

impl Program {
    /// A filter that allows everything.
    ///
    /// # Errors
    /// An architecture whose calls this module does not know.
    pub fn new() -> Result<Program, Unavailable> {
        let Some(architecture) = ARCHITECTURE else {
            return Err(Unavailable::because(
                "no seccomp filter for this architecture",
            ));
        };
        let mut program = Program { code: Vec::new() };
        // A call by way of another architecture's entry (32 bit) has other numbers: it is killed,
        // since no rule could judge it.
        program.load(offset_of!(libc::seccomp_data, arch));
        program.jump(libc::BPF_JEQ, architecture, 1, 0);
        program.give(libc::SECCOMP_RET_KILL_PROCESS);
        Ok(program)
    }

    /// Answers `call` with `action` (a `SECCOMP_RET_*`), but for what `unless` names.
    #[must_use]
    pub fn rule(mut self, call: i64, unless: Unless, action: u32) -> Program {
        let number = u32::try_from(call).expect("call numbers are small");
        self.load(offset_of!(libc::seccomp_data, nr));
        match unless {
            Unless::Never => self.jump(libc::BPF_JEQ, number, 0, 1),
            Unless::Bits { index, bits } => {
                self.jump(libc::BPF_JEQ, number, 0, 3);
                self.load(argument_offset(index));
                self.jump(libc::BPF_JSET, bits, 1, 0);
            }
            Unless::AtMost { index, value } => {
                self.jump(libc::BPF_JEQ, number, 0, 3);
                self.load(argument_offset(index));
                self.jump(libc::BPF_JGT, value, 0, 1);
            }
        }
        self.give(action);
        self
    }

    /// Installs the filter. It holds from now on and for ever.
    ///
    /// # Errors
    /// A kernel without seccomp filters, or one that forbids more of them.
    pub fn install(mut self, binds: Binds) -> Result<(), Unavailable> {
        self.give(libc::SECCOMP_RET_ALLOW);
        let len = u16::try_from(self.code.len()).expect("a filter has few instructions");
        let program = libc::sock_fprog {
            len,
            filter: self.code.as_mut_ptr(),
        };
        // SAFETY: takes numbers alone.
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        if result != 0 {
            return Err(refused("prctl(PR_SET_NO_NEW_PRIVS)"));
        }
        let flags = match binds {
            Binds::Thread => 0,
            Binds::Process => libc::SECCOMP_FILTER_FLAG_TSYNC,
        };
        // SAFETY: the kernel reads `program` and the `len` instructions it points to, both alive.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(refused("seccomp"))
        }
    }

    fn load(&mut self, offset: usize) {
        let offset = u32::try_from(offset).expect("seccomp_data is small");
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    }

    fn jump(&mut self, test: u32, value: u32, if_true: u8, if_false: u8) {
        self.push(libc::BPF_JMP | test | libc::BPF_K, value, if_true, if_false);
    }

    fn give(&mut self, action: u32) {
        self.push(libc::BPF_RET | libc::BPF_K, action, 0, 0);
    }

    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        let code = u16::try_from(code).expect("BPF codes are 16 bits");
        self.code.push(libc::sock_filter { code, jt, jf, k });
    }
}

/// Offset of the low half of an argument (both architectures are little endian).
fn argument_offset(index: usize) -> usize {
    assert!(index < 6, "a system call has six arguments");
    offset_of!(libc::seccomp_data, args) + index * size_of::<u64>()
}

fn refused(call: &str) -> Unavailable {
    Unavailable::because(format!("{call}: {}", io::Error::last_os_error()))
}

/// From now on the kernel refuses io_uring to this process and what it starts. Rings that exist
/// already cannot be entered any more.
///
/// # Errors
/// See [`Program::install`].
pub fn refuse_io_uring(refusal: Refusal) -> Result<(), Unavailable> {
    let action = libc::SECCOMP_RET_ERRNO | refusal.errno().cast_unsigned();
    let mut program = Program::new()?;
    for call in IO_URING_CALLS {
        program = program.rule(call, Unless::Never, action);
    }
    program.install(Binds::Process)
}
