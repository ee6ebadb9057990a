//! Thread settings on Linux.
#![expect(unsafe_code, reason = "system calls that no safe binding offers")]

use std::fs;
use std::path::Path;

use super::{Cores, Scheduling, ThreadSettings};

/// How long a thread under the ordinary policy runs before another may take its core: the shortest
/// time that the kernel grants. A thread that is woken preempts one with a longer slice.
const SLICE_NS: u64 = 100_000;

/// Applies settings to the calling thread, the `index`-th of its kind.
pub(super) fn apply(settings: &ThreadSettings, index: usize) {
    set_nice(settings.nice);
    set_cores(&settings.cores, index);
    set_scheduling(settings.scheduling);
}

fn set_nice(nice: i32) {
    use rustix::process::{getpid, getpriority_process, setpriority_process};
    if nice == 0 {
        return;
    }
    // On Linux every thread has a nice value of its own, inherited from its parent. The base is the
    // main thread's, so that `nice` is not added twice in threads that such threads start.
    if let Ok(base) = getpriority_process(Some(getpid())) {
        let wanted = base.saturating_add(nice).clamp(-20, 19);
        let _ = setpriority_process(None, wanted);
    }
}

fn set_cores(cores: &Cores, index: usize) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let chosen = match cores {
        Cores::Any => return,
        Cores::List(list) if list.is_empty() => return,
        Cores::List(list) => vec![list[index % list.len()]],
        Cores::Performance => core_kinds(Path::new("/sys/devices")).0,
        Cores::Efficiency => core_kinds(Path::new("/sys/devices")).1,
    };
    let mut set = CpuSet::new();
    for core in chosen.into_iter().filter(|&core| core < CpuSet::MAX_CPU) {
        set.set(core);
    }
    if set.count() > 0 {
        let _ = sched_setaffinity(None, &set);
    }
}

fn set_scheduling(scheduling: Scheduling) {
    let policy = match scheduling {
        Scheduling::Batch => libc::SCHED_BATCH,
        Scheduling::Normal => libc::SCHED_OTHER,
    };
    // By number, since musl's wrappers fail with ENOSYS.
    // SAFETY: reads the policy of the calling thread; passes numbers only.
    let now = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    let ordinary = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    if !ordinary.map(libc::c_long::from).contains(&now) {
        return;
    }
    // The call sets the nice value as well.
    let Ok(nice) = rustix::process::getpriority_process(None) else {
        return;
    };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy.cast_unsigned(),
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        // Of ordinary threads the slice, from Linux 6.12 on; ignored before.
        sched_runtime: if policy == libc::SCHED_OTHER {
            SLICE_NS
        } else {
            0
        },
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the attributes.
    let refused = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if refused != 0 && now != libc::c_long::from(policy) {
        // Some sandboxes know the older call alone, which has no slice.
        let priority: libc::c_int = 0;
        // SAFETY: the kernel reads one int, the priority, which must be 0 for these policies.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    }
}

/// Returns the numbers of the fast and of the slow cores; none of either where all cores are of one
/// kind. Found below `/sys/devices`: in two lists on an Intel hybrid, else by each core's capacity.
fn core_kinds(devices: &Path) -> (Vec<usize>, Vec<usize>) {
    let list = |name: &str| {
        let text = fs::read_to_string(devices.join(name)).ok()?;
        Some(parse_list(&text)).filter(|list| !list.is_empty())
    };
    if let (Some(fast), Some(slow)) = (list("cpu_core/cpus"), list("cpu_atom/cpus")) {
        return (fast, slow);
    }
    let capacities = capacities(&devices.join("system/cpu"));
    let slowest = capacities.iter().map(|&(_, capacity)| capacity).min();
    if capacities.iter().all(|&(_, own)| Some(own) == slowest) {
        return Default::default();
    }
    let cores = |is_slow: bool| {
        let kind = capacities
            .iter()
            .filter(|(_, own)| (Some(*own) == slowest) == is_slow);
        kind.map(|(core, _)| *core).collect()
    };
    (cores(false), cores(true))
}

/// Returns each core with its capacity (1024 is the fastest), in ascending order.
fn capacities(folder: &Path) -> Vec<(usize, u64)> {
    let mut found: Vec<(usize, u64)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let core = entry
                .file_name()
                .to_str()?
                .strip_prefix("cpu")?
                .parse()
                .ok()?;
            let text = fs::read_to_string(entry.path().join("cpu_capacity")).ok()?;
            Some((core, text.trim().parse().ok()?))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Core numbers from this on are ignored as implausible.
const CORE_MAX: usize = 1 << 16;

/// Parses a list such as `0-3,8`; ranges that cannot be parsed or are implausible are skipped.
fn parse_list(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>())
            && last < CORE_MAX
        {
            cores.extend(first..=last);
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("5"), [5]);
        assert!(parse_list("\n").is_empty());
        assert!(parse_list("0-99999999999,x,-,3-1").is_empty());
    }

    #[test]
    fn hybrid_processors_are_read_from_their_lists() {
        let root = tempfile::tempdir().unwrap();
        for (name, list) in [("cpu_core", "0-3\n"), ("cpu_atom", "4-5,7\n")] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("cpus"), list).unwrap();
        }
        let kinds = core_kinds(root.path());
        assert_eq!(kinds, (vec![0, 1, 2, 3], vec![4, 5, 7]));
    }

    fn machine(capacities: &[u32]) -> (Vec<usize>, Vec<usize>) {
        let root = tempfile::tempdir().unwrap();
        for (core, capacity) in capacities.iter().enumerate() {
            let folder = root.path().join(format!("system/cpu/cpu{core}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpu_capacity"), format!("{capacity}\n")).unwrap();
        }
        core_kinds(root.path())
    }

    #[test]
    fn other_processors_are_told_apart_by_capacity() {
        let kinds = machine(&[400, 400, 900, 1024]);
        assert_eq!(kinds, (vec![2, 3], vec![0, 1]));
        assert_eq!(machine(&[1024, 1024]), Default::default());
        assert_eq!(machine(&[]), Default::default());
    }

    /// The slice that the calling thread has chosen; 0 before Linux 6.12.
    fn slice_ns() -> u64 {
        let mut attributes = std::mem::MaybeUninit::<libc::sched_attr>::zeroed();
        let (into, size) = (attributes.as_mut_ptr(), size_of::<libc::sched_attr>());
        // SAFETY: the kernel writes at most `size` bytes; zeros are attributes, too.
        unsafe {
            libc::syscall(libc::SYS_sched_getattr, 0, into, size, 0);
            attributes.assume_init().sched_runtime
        }
    }

    fn policy() -> i64 {
        // SAFETY: reads the policy of the calling thread.
        (unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }) as i64
    }

    #[test]
    fn settings_reach_the_calling_thread_and_add_up_once() {
        use rustix::process::{getpid, getpriority_process};
        let base = getpriority_process(Some(getpid())).unwrap();
        let before = policy();
        let settings = ThreadSettings {
            nice: 1,
            cores: Cores::List(vec![0]),
            scheduling: Scheduling::Batch,
        };
        std::thread::spawn(move || {
            settings.apply(3);
            settings.apply(3);
            assert_eq!(getpriority_process(None).unwrap(), (base + 1).min(19));
            if before == i64::from(libc::SCHED_OTHER) {
                assert_eq!(policy(), i64::from(libc::SCHED_BATCH));
            }
            let set = rustix::thread::sched_getaffinity(None).unwrap();
            assert!(set.is_set(0) || !settings_allowed(), "bound to core 0");
            ThreadSettings {
                scheduling: Scheduling::Normal,
                ..ThreadSettings::default()
            }
            .apply(0);
            if before == i64::from(libc::SCHED_OTHER) {
                assert_eq!(policy(), i64::from(libc::SCHED_OTHER));
            }
            assert_eq!(getpriority_process(None).unwrap(), (base + 1).min(19));
            let slice = slice_ns();
            assert!(slice == 0 || slice == SLICE_NS, "{slice}");
        })
        .join()
        .unwrap();
        assert_eq!(policy(), before, "other threads keep theirs");
    }

    /// Whether this process may run on core 0.
    fn settings_allowed() -> bool {
        let main = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()));
        main.is_ok_and(|set| set.is_set(0))
    }
}
