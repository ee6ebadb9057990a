//! Settings of the library's threads: scheduling, nice value, cores.
//!
//! All settings affect only speed, so a refusal by the system is no error; on macOS they have no
//! effect. Threads run under the ordinary policy with a short slice by default: on busy cores a
//! thread that is woken gets a core at once, not after the slices of others (3 to 4 ms each).

use std::time::Duration;

#[cfg(target_os = "linux")]
mod linux;

/// Which cores a thread may run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cores {
    /// Any core.
    #[default]
    Any,
    /// All but the slowest kind of core (Linux); any core elsewhere or where all are of one kind.
    Performance,
    /// The slowest kind of core (Linux); any core elsewhere or where all are of one kind.
    Efficiency,
    /// These cores, by the system's numbers. Thread `index` is bound to entry `index` modulo the
    /// length; an empty list is [`Cores::Any`].
    List(Vec<usize>),
}

/// How the system schedules a thread among others of the same nice value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Scheduling {
    /// The system's ordinary policy (`SCHED_OTHER`), with a slice of 0.1 ms where the system lets a
    /// thread choose it (Linux 6.12 and later): a thread that is woken preempts the running one.
    #[default]
    Normal,
    /// A thread that is woken does not preempt the running one, not even the caller that wakes it
    /// (`SCHED_BATCH`; elsewhere than on Linux the same as `Normal`). While other threads keep all
    /// cores busy, it waits milliseconds for one of them.
    Batch,
}

/// Settings of one kind of thread. The default is an unchanged nice value, any core and
/// [`Scheduling::Normal`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadSettings {
    /// Added to the nice value of the process (on Linux, of its main thread); on Windows, mapped to
    /// a thread priority. A positive value yields to others; a negative one needs privileges.
    pub nice: i32,
    /// The cores it may run on.
    pub cores: Cores,
    /// How it is scheduled. A thread whose parent runs under a real-time or idle policy keeps that
    /// policy.
    pub scheduling: Scheduling,
}

impl ThreadSettings {
    /// Applies the settings to the calling thread, the `index`-th of its kind. What the system
    /// refuses stays unchanged. May be called again.
    pub fn apply(&self, index: usize) {
        #[cfg(target_os = "linux")]
        linux::apply(self, index);
        #[cfg(windows)]
        windows::apply(self, index);
        #[cfg(not(any(target_os = "linux", windows)))]
        let _ = index;
    }
}

/// Returns the number of cores this process may use (by affinity and control groups), at least 1.
#[must_use]
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether this process certainly has no thread but the calling one.
#[must_use]
pub fn is_alone() -> bool {
    #[cfg(target_os = "linux")]
    {
        // Links: itself, its folder, and one for each thread.
        let tasks = rustix::fs::stat("/proc/self/task");
        tasks.is_ok_and(|tasks| tasks.st_nlink == 3)
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Returns the processor time of all threads of this process so far.
#[must_use]
pub fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(
            time.tv_sec.unsigned_abs(),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }
    #[cfg(windows)]
    {
        crate::system::processor_time()
    }
}

/// Thread settings on Windows: priorities for nice values, and affinity masks. The kinds of cores
/// are not determined, so [`Cores::Performance`] and [`Cores::Efficiency`] mean any core;
/// [`Scheduling::Batch`](super::Scheduling::Batch) has no effect.
#[cfg(windows)]
#[expect(
    unsafe_code,
    reason = "sets the priority and the cores of the calling thread"
)]
mod windows {
    use windows_sys::Win32::System::Threading::{
        GetCurrentThread, SetThreadAffinityMask, SetThreadPriority, THREAD_PRIORITY_ABOVE_NORMAL,
        THREAD_PRIORITY_BELOW_NORMAL, THREAD_PRIORITY_HIGHEST, THREAD_PRIORITY_LOWEST,
    };

    use super::{Cores, ThreadSettings};

    /// A nice value at least this far from 0 gets `THREAD_PRIORITY_LOWEST` or `_HIGHEST`.
    const NICE_FAR: i32 = 10;

    /// Applies settings to the calling thread, the `index`-th of its kind.
    pub(super) fn apply(settings: &ThreadSettings, index: usize) {
        let priority = match settings.nice {
            NICE_FAR.. => Some(THREAD_PRIORITY_LOWEST),
            1.. => Some(THREAD_PRIORITY_BELOW_NORMAL),
            0 => None,
            nice if nice > -NICE_FAR => Some(THREAD_PRIORITY_ABOVE_NORMAL),
            _ => Some(THREAD_PRIORITY_HIGHEST),
        };
        if let Some(priority) = priority {
            // SAFETY: passes the pseudo-handle of the calling thread and a number.
            unsafe { SetThreadPriority(GetCurrentThread(), priority) };
        }
        if let Cores::List(list) = &settings.cores
            && !list.is_empty()
            && let Some(mask) =
                1_usize.checked_shl(u32::try_from(list[index % list.len()]).unwrap_or(u32::MAX))
        {
            // SAFETY: as above.
            unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_changes_nothing() {
        let settings = ThreadSettings {
            nice: i32::MAX,
            cores: Cores::List(vec![usize::MAX]),
            ..ThreadSettings::default()
        };
        std::thread::spawn(move || settings.apply(usize::MAX))
            .join()
            .unwrap();
        assert!(available_cores() >= 1);
    }
}
