//! What only the ring has: overflow of its completion queue, registered memory under a small
//! RLIMIT_MEMLOCK, a refusal at the start or later, one owner.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use millstream_io::device::uring::{FeatureMask, Uring, UringOptions, describe};
use millstream_io::limits::URING_REGION_BYTES_MAX;
use millstream_io::{Descriptor, Device, Errno, IoError, Region, Segment};

use crate::devices::common::{
    Memory, Rig, child, descriptor, lend, lend_all, pattern, read, ring, rings,
};

#[test]
fn a_completion_queue_smaller_than_the_depth_loses_nothing() {
    for mask in [FeatureMask::default(), FeatureMask::linux_5_10()] {
        let mask = FeatureMask {
            large_completion_queue: true,
            ..mask
        };
        let Some(ring) = ring(1024, true, mask) else {
            return;
        };
        assert!(describe(&ring).completion_entries < 1024);
        let mut rig = Rig::real("overflow", Box::new(ring));
        let content = pattern(1 << 20);
        let file = rig.file(&content);
        let memory = Memory::new(1 << 20);
        for round in 0..5 {
            // All at once, from the page cache and from kernel threads, without reaping meanwhile.
            for id in 0..1024 {
                let at = id as usize * 1024;
                let mut operation = read(id, file, at as u64, memory.segment(at, 1024));
                operation.offload = round % 2 == 1;
                assert!(lend(rig.device.as_mut(), operation).is_ok());
            }
            let mut ids: Vec<u64> = rig.finish().iter().map(|one| one.id).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..1024).collect::<Vec<u64>>());
            assert!(memory.bytes() == content);
        }
    }
}

#[test]
fn described_features_are_allowed_ones() {
    for (name, single_issuer, mask) in rings() {
        let Some(ring) = ring(8, single_issuer, mask) else {
            return;
        };
        let features = describe(&ring);
        println!("{name}: {features:?}");
        assert!(!(features.single_issuer && (mask.single_issuer || !single_issuer)));
        assert!(!(features.defer_taskrun && mask.defer_taskrun));
        assert!(!(features.coop_taskrun && mask.coop_taskrun));
        assert!(!(features.ext_arg && mask.ext_arg));
        assert!(!(features.resource_tags && mask.registration));
        assert_eq!(features.registered_bytes, 0);
    }
}

#[test]
fn a_ring_with_one_issuer_belongs_to_the_thread_that_uses_it_first() {
    let Some(ring) = ring(8, true, FeatureMask::default()) else {
        return;
    };
    let alone = describe(&ring).single_issuer;
    let mut rig = Rig::real("moved", Box::new(ring));
    let content = pattern(4096);
    let file = rig.file(&content);
    let memory = Memory::new(8192);
    let (here, there) = (memory.segment(0, 4096), memory.segment(4096, 4096));
    std::thread::scope(|scope| {
        let device = &mut rig.device;
        scope.spawn(move || {
            assert!(lend(device.as_mut(), read(0, file, 0, there)).is_ok());
            device
                .submit()
                .expect("a ring may be used by another thread than made it");
            let mut completions = Vec::new();
            while device.reap(&mut completions) == 0 {
                device.wait(None, &mut || false).unwrap();
            }
        });
    });
    assert!(memory.bytes()[4096..] == content);
    assert!(lend(rig.device.as_mut(), read(1, file, 0, here)).is_ok());
    let submitted = rig.device.submit();
    assert_eq!(submitted.is_err(), alone, "{submitted:?}");
    if let Err(error) = submitted {
        assert!(error.to_string().contains("second thread"), "{error}");
    }
}

/// Registers 32 MiB under the present limit and reads through it; prints what was registered.
fn register_and_read() -> usize {
    let mut registered = 0;
    for mask in [FeatureMask::default(), FeatureMask::linux_5_10()] {
        let Some(mut ring) = ring(8, true, mask) else {
            return 0;
        };
        let region = Region::new(32 << 20, None).unwrap();
        let bytes = ring.register(&region);
        let features = describe(&ring);
        assert_eq!(features.registered_bytes, bytes);
        assert_eq!(
            features.registered_why_not.is_empty(),
            bytes == region.len().min(URING_REGION_BYTES_MAX)
        );
        println!("registered={bytes} ({})", features.registered_why_not);
        registered = registered.max(bytes);
        let mut rig = Rig::real("registered", Box::new(ring));
        let content = pattern(8192);
        let file = rig.file(&content);
        // At the start, across the end of what is registered, and at the end of the region.
        let middle = bytes.clamp(4096, region.len() - 8192) - 4096;
        for at in [0, middle, region.len() - 8192] {
            // SAFETY: within the region, which lives until the end of the turn.
            let pointer = unsafe { region.pointer().add(at) };
            let segment = millstream_io::Segment::new(pointer, 8192);
            let completions = rig.run([read(at as u64, file, 0, segment)]);
            assert_eq!(completions[0].moved(), Ok(8192));
            // SAFETY: as above; the read has ended.
            assert!(unsafe { std::slice::from_raw_parts(pointer, 8192) } == content);
        }
        drop(rig);
    }
    registered
}

#[test]
fn registered_memory_is_read_into() {
    println!("{} bytes", register_and_read());
}

#[test]
#[ignore = "run by the tests below in a process of its own"]
fn child_registers() {
    register_and_read();
}

/// Runs `child_registers` with a limit, as an ordinary user if `ordinary`; returns its output.
fn child_with_limit(limit: u64, ordinary: bool) -> Option<String> {
    let set_limit = move || {
        let limit = libc::rlimit {
            rlim_cur: limit,
            rlim_max: limit,
        };
        // SAFETY: a valid struct.
        match unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    child("devices::ring::child_registers", |child| {
        child.current_dir("/");
        if ordinary {
            child.uid(65_534).gid(65_534);
        }
        // SAFETY: only setrlimit, which may be called between fork and exec.
        unsafe { child.pre_exec(set_limit) };
    })
}

fn registered_bytes(text: &str) -> Vec<usize> {
    let numbers = text.split("registered=").skip(1);
    numbers
        .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn an_ordinary_user_registers_what_the_limit_allows() {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("running as an ordinary user");
    }
    for (limit, at_most) in [(4096, 0), (1 << 20, 1 << 20), (8 << 20, 8 << 20)] {
        let Some(text) = child_with_limit(limit, root) else {
            return;
        };
        if text.contains("SKIP") {
            // Since 6.13 the ring itself counts too. Else io_uring is refused for another reason.
            println!("limit {limit}: {text}");
            assert!(limit == 4096 || !text.contains("os error 12"), "{text}");
            assert_eq!(
                text.contains("os error 12"),
                text.contains("RLIMIT_MEMLOCK"),
                "{text}"
            );
            continue;
        }
        let registered = registered_bytes(&text);
        println!("limit {limit}: registered {registered:?}");
        assert_eq!(registered.len(), 2, "{text}");
        assert!(registered.iter().all(|bytes| *bytes <= at_most), "{text}");
        if limit == 8 << 20 {
            assert!(
                registered[0] > 0,
                "nothing was registered within 8 MiB: {text}"
            );
        }
    }
}

/// Makes the system calls fail with an errno from now on, as seccomp filters of containers do.
fn forbid(calls: &[libc::c_long], errno: i32) -> std::io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The number of the call is the first word.
    let mut program = vec![step(LOAD, 0, 0, 0)];
    for call in calls {
        program.push(step(JUMP_IF_EQUAL, 0, 1, *call as u32));
        program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the filter outlives the calls; both only change this process.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const filter,
            ) == 0
    };
    if set {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[test]
#[ignore = "run by the test below in a process of its own"]
fn child_is_refused() {
    let error = Uring::new(UringOptions::default())
        .err()
        .expect("the filter refuses");
    println!("refused: {error}");
}

#[test]
fn a_refused_ring_says_why() {
    for (errno, wanted) in [
        (libc::EPERM, "forbids io_uring"),
        (libc::ENOSYS, "hides it"),
    ] {
        let text = child("devices::ring::child_is_refused", |child| {
            // SAFETY: prctl and a small allocation, which glibc allows between fork and exec.
            unsafe { child.pre_exec(move || forbid(&[libc::SYS_io_uring_setup], errno)) };
        });
        let Some(text) = text else {
            return;
        };
        let disabled = text.contains("kernel.io_uring_disabled");
        assert!(
            text.contains("refused: ") && (disabled || text.contains(wanted)),
            "{text}"
        );
    }
}

/// A ring that works, with a read of a pipe in the kernel and a completion not yet reaped.
struct Working {
    rig: Rig,
    deferred: bool,
    file: Descriptor,
    pipe: (std::io::PipeReader, std::io::PipeWriter),
    /// Leaked: the read of the pipe may be abandoned.
    memory: &'static Memory,
}

const PAGE: usize = 4096;

fn working_rings() -> Vec<Working> {
    let mut all = Vec::new();
    for (name, single_issuer, mask) in rings() {
        let Some(ring) = ring(8, single_issuer, mask) else {
            return Vec::new();
        };
        let deferred = describe(&ring).defer_taskrun;
        let mut rig = Rig::real(name, Box::new(ring));
        let file = rig.file(&pattern(PAGE));
        let memory = &*Box::leak(Box::new(Memory::new(6 * PAGE)));
        let pipe = std::io::pipe().unwrap();
        assert_eq!(
            rig.run([read(1, file, 0, memory.segment(0, PAGE))]).len(),
            1
        );
        let from_pipe = descriptor(pipe.0.as_raw_fd() as u64);
        let reads = [
            read(2, from_pipe, 0, memory.segment(2 * PAGE, PAGE)),
            read(3, file, 0, memory.segment(3 * PAGE, PAGE)),
        ];
        assert_eq!(lend_all(rig.device.as_mut(), &reads), 2);
        rig.device.submit().unwrap();
        all.push(Working {
            rig,
            deferred,
            file,
            pipe,
            memory,
        });
    }
    all
}

/// Checks the contract of a broken ring. `by_wait`: it breaks in `wait`, else in `submit`.
fn check_broken(working: Working, by_wait: bool) {
    let Working {
        mut rig,
        deferred,
        file,
        pipe: (_reader, mut writer),
        memory,
    } = working;
    let name = rig.name;
    let at = |id: usize| read(id as u64, file, 0, memory.segment(id * PAGE, PAGE));
    let denied = |result: Result<(), IoError>| {
        let error = result.expect_err("the kernel denies the call");
        assert_eq!((error.call, error.errno.0), ("io_uring_enter", libc::EPERM));
    };
    let began = Instant::now();
    let patience = Some(Duration::from_secs(30));
    lend(rig.device.as_mut(), at(4)).unwrap();
    let mut completions = Vec::new();
    if by_wait {
        // The completion of 3 ends the first wait; the ring is not entered before.
        rig.device.reap(&mut completions);
        denied(rig.device.wait(patience, &mut || false));
    }
    denied(rig.device.submit());
    lend(rig.device.as_mut(), at(5)).unwrap();
    for _ in 0..100 {
        denied(rig.device.submit());
        denied(rig.device.wait(patience, &mut || false));
    }
    rig.device.reap(&mut completions);
    assert_eq!(rig.device.in_flight(), 3, "{name}");
    // Without deferred work the kernel posts the completion of the pipe by itself.
    writer.write_all(b"data").unwrap();
    let (abandoned, last) = rig.shut_down(Duration::from_secs(if deferred { 30 } else { 5 }));
    assert!(began.elapsed() < Duration::from_secs(20), "{name}: waited");
    completions.extend(last);
    completions.sort_by_key(|one| one.id);
    let found: Vec<_> = completions
        .iter()
        .map(|one| (one.id, one.moved()))
        .collect();
    let canceled = Err(Errno(libc::ECANCELED));
    let mut wanted = vec![(3, Ok(PAGE as u64)), (4, canceled), (5, canceled)];
    if !deferred {
        wanted.insert(0, (2, Ok(4)));
    }
    assert_eq!(found, wanted, "{name}");
    let held: &[u64] = if deferred { &[2] } else { &[] };
    assert_eq!(abandoned.operations, held, "{name}");
    assert!(
        memory.is_poison(4 * PAGE, 2 * PAGE),
        "{name}: canceled, but read"
    );
    println!("broken: {name}");
}

#[test]
#[ignore = "run by the test below in a process of its own"]
fn child_is_denied_later() {
    let working = working_rings();
    let unused = ring(8, true, FeatureMask::default());
    let calls = [libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    if let Err(error) = forbid(&calls, libc::EPERM) {
        println!("SKIP: seccomp: {error}");
        return;
    }
    for (index, one) in working.into_iter().enumerate() {
        check_broken(one, index % 2 == 1);
    }
    // One that was never used: with a single issuer, enabling it fails.
    let Some(unused) = unused else {
        return;
    };
    let call = match describe(&unused).single_issuer {
        true => "io_uring_register(ENABLE_RINGS)",
        false => "io_uring_enter",
    };
    let mut rig = Rig::real("unused", Box::new(unused));
    let file = rig.file(&pattern(PAGE));
    let memory = Memory::new(PAGE);
    lend(
        rig.device.as_mut(),
        read(1, file, 0, memory.segment(0, PAGE)),
    )
    .unwrap();
    for _ in 0..3 {
        let error = rig.device.wait(None, &mut || false).unwrap_err();
        assert_eq!((error.call, error.errno.0), (call, libc::EPERM));
    }
    let (abandoned, completions) = rig.shut_down(Duration::from_secs(30));
    assert!(abandoned.operations.is_empty());
    assert_eq!(completions[0].moved(), Err(Errno(libc::ECANCELED)));
    println!("broken: unused");
}

#[test]
fn a_ring_that_breaks_later_reports_it_and_accounts_for_every_operation() {
    let text =
        child("devices::ring::child_is_denied_later", |_| {}).expect("a process can be started");
    let broken_count = text.matches("broken: ").count();
    assert!(
        broken_count == rings().len() + 1 || text.contains("SKIP"),
        "{text}"
    );
}

/// A read of an empty pipe, in the kernel.
fn read_of_a_pipe(
    device: &mut dyn Device,
    into: Segment,
) -> (std::io::PipeReader, std::io::PipeWriter) {
    let pipe = std::io::pipe().unwrap();
    let file = descriptor(pipe.0.as_raw_fd() as u64);
    assert!(lend(device, read(1, file, 0, into)).is_ok());
    device.submit().unwrap();
    pipe
}

#[test]
fn what_a_thread_left_in_a_ring_of_several_owners_is_to_be_submitted_again() {
    for mask in [FeatureMask::default(), FeatureMask::linux_5_10()] {
        let Some(ring) = ring(8, false, mask) else {
            return;
        };
        let mut rig = Rig::real("left", Box::new(ring));
        let memory = Memory::new(PAGE);
        let (device, into) = (rig.device.as_mut(), memory.segment(0, 1));
        let (_reader, mut writer) = std::thread::scope(|scope| {
            let submitter = scope.spawn(move || read_of_a_pipe(device, into));
            submitter.join().unwrap()
        });
        // The kernel would go on with the read in the thread that submitted it.
        writer.write_all(b"x").unwrap();
        let done = rig.finish();
        let moved = done[0].moved();
        assert!(
            matches!(moved, Err(Errno::CANCELED | Errno::INTERRUPTED)),
            "{moved:?}"
        );
    }
}

#[test]
fn the_longest_timeouts_do_not_wrap() {
    // In nanoseconds the second is 2^64 and more.
    let timeouts = [Duration::MAX, Duration::from_secs(18_446_744_074)];
    for (name, single_issuer, mask) in rings() {
        for timeout in timeouts {
            let Some(ring) = ring(8, single_issuer, mask) else {
                return;
            };
            let mut rig = Rig::real(name, Box::new(ring));
            let memory = Memory::new(PAGE);
            let (_reader, mut writer) = read_of_a_pipe(rig.device.as_mut(), memory.segment(0, 1));
            let writer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                writer.write_all(b"x").unwrap();
                writer
            });
            // A call may return early, but not each.
            let mut done = Vec::new();
            for _ in 0..16 {
                if rig.device.reap(&mut done) > 0 {
                    break;
                }
                rig.device.wait(Some(timeout), &mut || false).unwrap();
            }
            rig.device.reap(&mut done);
            let writer = writer.join().unwrap();
            assert_eq!(done.len(), 1, "{name}: {timeout:?} passed at once");
            drop(writer);
        }
    }
}

/// The kernel may set its flag of task work after the owner took the work, and leaves it set until
/// there is more. A flag that is stale must not keep the owner awake.
#[test]
fn an_owner_without_work_sleeps_whatever_was_rung_before() {
    for (name, single_issuer, mask) in rings() {
        let Some(mut ring) = ring(8, single_issuer, mask) else {
            return;
        };
        let step = Duration::from_millis(2);
        let mut completions = Vec::new();
        for burst in 0..40 {
            let bell = ring.doorbell();
            let ringer = std::thread::spawn(move || {
                for ring in 0..1000 {
                    bell.ring();
                    for _ in 0..(ring * burst) % 512 {
                        std::hint::spin_loop();
                    }
                }
            });
            while !ringer.is_finished() {
                ring.wait(Some(Duration::from_micros(50)), &mut || false)
                    .unwrap();
                ring.reap(&mut completions);
            }
            ringer.join().unwrap();
            // The first may return at once, for a ring from before.
            let slept = (0..20).any(|_| {
                let started = Instant::now();
                ring.wait(Some(step), &mut || false).unwrap();
                ring.reap(&mut completions);
                started.elapsed() >= step
            });
            assert!(slept, "{name}: awake for no reason after burst {burst}");
        }
    }
}
