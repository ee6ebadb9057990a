//! Sets a ring up with the best features that the kernel has.
//!
//! Setup flags are tried, best set first: a kernel that does not know a flag returns `EINVAL`. The
//! other features follow from the parameters that the call returns. A [`FeatureMask`] hides any.

use std::time::Duration;

use io_uring::IoUring;

use crate::device::FeatureMask;
use crate::device::features::UringFeatures;
use crate::error::{Errno, IoError};
use crate::limits::{
    URING_OWN_ENTRIES, URING_SETUP_RETRY_NS, URING_SETUP_TRIES, URING_SUBMISSION_ENTRIES,
};

/// Setup flags that are tried together.
#[derive(Clone, Copy)]
struct Flags {
    single_issuer: bool,
    defer_taskrun: bool,
    coop_taskrun: bool,
}

impl Flags {
    /// Best first.
    const TRIED: [Flags; 4] = [
        Flags::of(true, true, false),
        Flags::of(true, false, true),
        Flags::of(false, false, true),
        Flags::of(false, false, false),
    ];

    const fn of(single_issuer: bool, defer_taskrun: bool, coop_taskrun: bool) -> Flags {
        Flags {
            single_issuer,
            defer_taskrun,
            coop_taskrun,
        }
    }

    fn allowed(self, single_issuer: bool, mask: FeatureMask) -> bool {
        (!self.single_issuer || (single_issuer && !mask.single_issuer))
            && !(self.defer_taskrun && mask.defer_taskrun)
            && !(self.coop_taskrun && mask.coop_taskrun)
    }
}

/// Makes a ring for `depth` operations.
pub(super) fn set_up(
    depth: u32,
    single_issuer: bool,
    mask: FeatureMask,
) -> Result<(IoUring, UringFeatures), IoError> {
    let mut refused = Errno::INVALID;
    for flags in Flags::TRIED {
        if !flags.allowed(single_issuer, mask) {
            continue;
        }
        match try_patiently(depth, flags, mask) {
            Ok(ring) => return examine(ring, flags, mask),
            Err(error) => refused = Errno::from(&error),
        }
        if refused != Errno::INVALID {
            break;
        }
    }
    // The cause, as far as the system tells.
    let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
    let cause = cause_of(refused, sysctl.as_deref().map(str::trim));
    Err(IoError::because("io_uring_setup", refused, cause))
}

/// Retries the setup a few times after `ENOMEM`: the kernel delays releasing what a ring that has
/// just been closed counted against RLIMIT_MEMLOCK.
fn try_patiently(depth: u32, flags: Flags, mask: FeatureMask) -> std::io::Result<IoUring> {
    for _ in 1..URING_SETUP_TRIES {
        match try_flags(depth, flags, mask) {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                std::thread::sleep(Duration::from_nanos(URING_SETUP_RETRY_NS));
            }
            result => return result,
        }
    }
    try_flags(depth, flags, mask)
}

fn try_flags(depth: u32, flags: Flags, mask: FeatureMask) -> std::io::Result<IoUring> {
    let mut builder = IoUring::builder();
    let completion_entries = if mask.large_completion_queue {
        URING_SUBMISSION_ENTRIES
    } else {
        (2 * depth + URING_OWN_ENTRIES).max(URING_SUBMISSION_ENTRIES)
    };
    builder
        .dontfork()
        .setup_clamp()
        .setup_cqsize(completion_entries);
    if flags.single_issuer {
        // Disabled until its owner enables it: often another thread than the one that makes it.
        builder.setup_single_issuer().setup_r_disabled();
    }
    if flags.defer_taskrun {
        builder.setup_defer_taskrun().setup_taskrun_flag();
    }
    if flags.coop_taskrun {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    builder.build(URING_SUBMISSION_ENTRIES)
}

fn examine(
    ring: IoUring,
    flags: Flags,
    mask: FeatureMask,
) -> Result<(IoUring, UringFeatures), IoError> {
    let params = ring.params();
    // Both are in 5.10. Without the first, completions could be lost; without the second, a read of
    // the doorbell would occupy a kernel thread.
    if !params.is_feature_nodrop() || !params.is_feature_fast_poll() {
        let cause = "the kernel's io_uring is older than Linux 5.10";
        return Err(IoError::because(
            "io_uring_setup",
            Errno(libc::ENOSYS),
            cause,
        ));
    }
    let features = UringFeatures {
        single_issuer: flags.single_issuer,
        defer_taskrun: flags.defer_taskrun,
        coop_taskrun: flags.coop_taskrun,
        task_run_flag: flags.defer_taskrun || flags.coop_taskrun,
        ext_arg: params.is_feature_ext_arg() && !mask.ext_arg,
        resource_tags: params.is_feature_resource_tagging() && !mask.registration,
        submission_entries: params.sq_entries(),
        completion_entries: params.cq_entries(),
        registered_bytes: 0,
        registered_why_not: "",
    };
    Ok((ring, features))
}

fn cause_of(errno: Errno, sysctl: Option<&str>) -> &'static str {
    match (errno.0, sysctl) {
        (libc::EPERM, Some("2")) => "io_uring disabled by sysctl kernel.io_uring_disabled = 2",
        (libc::EPERM, Some("1")) => {
            "io_uring is for the group of sysctl kernel.io_uring_group alone \
             (kernel.io_uring_disabled = 1)"
        }
        (libc::EPERM | libc::EACCES, _) => {
            "a seccomp filter or security module forbids io_uring, as in many containers"
        }
        (libc::ENOSYS, _) => {
            "the kernel has no io_uring, or a seccomp filter hides it, as in many containers"
        }
        (libc::ENOMEM, _) => {
            "the ring counts against RLIMIT_MEMLOCK, together with all rings of this user \
             (before Linux 5.12 and since 6.13)"
        }
        (libc::EMFILE | libc::ENFILE, _) => "no file descriptor is left (RLIMIT_NOFILE)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_likely_cause() {
        let cause = |errno, sysctl| cause_of(Errno(errno), sysctl);
        assert!(cause(libc::EPERM, Some("2")).contains("kernel.io_uring_disabled = 2"));
        assert!(cause(libc::EPERM, Some("1")).contains("io_uring_group"));
        assert!(cause(libc::EPERM, Some("0")).contains("seccomp"));
        assert!(cause(libc::EPERM, None).contains("seccomp"));
        assert!(cause(libc::ENOSYS, None).contains("seccomp"));
        assert!(cause(libc::ENOMEM, Some("0")).contains("RLIMIT_MEMLOCK"));
        assert_eq!(cause(libc::EIO, None), "");
    }
}
