//! Waits with a time limit, for conditions of tests and for the ends of processes.

use std::time::{Duration, Instant};

/// The longest that a test waits for an event: far longer than any takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The longest pause between two looks at a condition.
const STEP_MAX: Duration = Duration::from_millis(2);

/// Waits until `condition` returns true, at most [`PATIENCE`]; returns whether it did. For events
/// that nothing announces; where the API has a wait with a timeout, use that.
#[must_use = "the condition may still be false"]
pub fn wait_for(condition: impl FnMut() -> bool) -> bool {
    wait_at_most(PATIENCE, condition)
}

/// As [`wait_for`], with another limit.
#[must_use = "the condition may still be false"]
pub fn wait_at_most(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    let mut step = Duration::from_micros(16);
    loop {
        // Before the look, so that the last one comes after the limit.
        let is_last = Instant::now() >= until;
        if condition() {
            return true;
        }
        if is_last {
            return false;
        }
        std::thread::sleep(step);
        step = STEP_MAX.min(step * 2);
    }
}

/// Waits until a child process has ended, at most `limit`; returns whether it has. It is left to be
/// reaped.
///
/// # Panics
/// If there is no such process, or the kernel has no descriptors of processes (Linux 5.3).
#[cfg(target_os = "linux")]
#[must_use = "the process may still run"]
pub fn wait_for_end(process: rustix::process::Pid, limit: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};

    let process = pidfd_open(process, PidfdFlags::empty()).expect("a child that is not reaped");
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).expect("a limit of less than years");
        let mut ends = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut ends, Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll of a process: {error}"),
        }
    }
}
