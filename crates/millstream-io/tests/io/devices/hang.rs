//! Reads that hang: in a page fault that is never resolved (userfaultfd), in the middle of the
//! kernel's copy to the destination; and on the simulated disk.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::{Device, Errno, FileSystem, OpenMode, Segment};
use millstream_sim::{Sim, SimFileOptions, SimOptions};

use crate::devices::common::{Memory, Rig, descriptor, lend, owned, pattern, read, ring};

const PAGE: usize = 4096;

/// Memory whose every first touch hangs until the trap is dropped. Never unmapped.
struct Trap {
    _fd: OwnedFd,
    pages: *mut u8,
}

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdRegister {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;

impl Trap {
    /// `None` where the system forbids it.
    fn new(pages: usize) -> Option<Trap> {
        // SAFETY: plain system calls; each result is checked, the structs are ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
            if fd < 0 {
                println!("SKIP: userfaultfd: {}", std::io::Error::last_os_error());
                return None;
            }
            let fd = OwnedFd::from_raw_fd(fd as i32);
            let mut api = UffdApi {
                api: 0xaa,
                features: 0,
                ioctls: 0,
            };
            assert_eq!(libc::ioctl(fd.as_raw_fd(), UFFDIO_API, &raw mut api), 0);
            let (access, kind) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            let memory = libc::mmap(std::ptr::null_mut(), pages * PAGE, access, kind, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            let mut register = UffdRegister {
                start: memory as u64,
                len: (pages * PAGE) as u64,
                mode: UFFDIO_REGISTER_MODE_MISSING,
                ioctls: 0,
            };
            let registered = libc::ioctl(fd.as_raw_fd(), UFFDIO_REGISTER, &raw mut register);
            assert_eq!(registered, 0, "{}", std::io::Error::last_os_error());
            Some(Trap {
                _fd: fd,
                pages: memory.cast(),
            })
        }
    }

    fn segment(&self, page: usize) -> Segment {
        // SAFETY: within the mapping.
        Segment::new(unsafe { self.pages.add(page * PAGE) }, PAGE)
    }
}

#[test]
fn a_hung_read_holds_up_no_other_thread_and_is_abandoned_in_bounded_time() {
    let Some(trap) = Trap::new(4) else {
        return;
    };
    let options = ThreadsOptions {
        threads: 2,
        single: true,
        ..ThreadsOptions::default()
    };
    let mut rig = Rig::real("threads", Box::new(Threads::new(options).unwrap()));
    let content = pattern(40 * PAGE);
    let file = rig.file(&content);
    let memory = Memory::new(40 * PAGE);
    let lend_to = |rig: &mut Rig, id, at: usize, segment| {
        assert!(lend(rig.device.as_mut(), read(id, file, at as u64, segment)).is_ok());
    };
    // Reads that are fast, which a thread would take several of, behind one that hangs.
    let mut completions = Vec::new();
    for id in 0..40 {
        let at = id as usize * PAGE;
        lend_to(&mut rig, 100 + id, at, memory.segment(at, PAGE));
        if id == 20 {
            lend_to(&mut rig, 0, 0, trap.segment(0));
            rig.device.submit().unwrap();
        }
    }
    rig.device.submit().unwrap();
    while completions.len() < 40 {
        let most = Some(Duration::from_secs(10));
        rig.device.wait(most, &mut || false).unwrap();
        assert!(
            rig.device.reap(&mut completions) > 0,
            "blocked behind the hung read"
        );
    }
    assert!(memory.bytes() == content);
    completions.clear();
    for id in 1..4 {
        lend_to(&mut rig, id, 0, trap.segment(id as usize));
    }
    rig.device.submit().unwrap();
    let began = Instant::now();
    let (abandoned, completions) = rig.shut_down(Duration::from_millis(100));
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "the shutdown hangs too"
    );
    let mut held = abandoned.operations;
    held.sort_unstable();
    assert_eq!(held, [0, 1], "each thread holds one");
    let canceled: Vec<_> = completions
        .iter()
        .map(|one| (one.id, one.moved()))
        .collect();
    let error = Err(Errno(libc::ECANCELED));
    assert_eq!(canceled, [(2, error), (3, error)]);
}

#[test]
fn a_pool_beside_a_ring_wakes_the_rings_owner() {
    let Some(ring) = ring(8, true, Default::default()) else {
        return;
    };
    let mut rig = Rig::real("ring", Box::new(ring));
    let content = pattern(64 * PAGE);
    let file = rig.file(&content);
    let memory = Memory::new(64 * PAGE);
    let mut pool = Threads::new(ThreadsOptions {
        doorbell: Some(rig.device.doorbell()),
        ..ThreadsOptions::default()
    })
    .unwrap();
    let mut completions = Vec::new();
    for round in 0..50 {
        for id in 0..64 {
            let at = id as usize * PAGE;
            let operation = read(id, file, at as u64, memory.segment(at, PAGE));
            assert!(lend(&mut pool, operation).is_ok());
        }
        pool.submit().unwrap();
        while completions.len() < 64 {
            // No timeout: only the pool's threads can end this sleep.
            rig.device.wait(None, &mut || false).unwrap();
            pool.reap(&mut completions);
        }
        assert_eq!(pool.in_flight(), 0, "round {round}");
        completions.clear();
    }
    assert!(memory.bytes() == content);
    let operation = read(0, file, 0, memory.segment(0, PAGE));
    assert!(lend(&mut pool, operation).is_ok());
    pool.submit().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let abandoned = Box::new(pool).shutdown(deadline, &mut completions);
    assert!(abandoned.operations.is_empty());
    assert_eq!(
        (completions.len(), completions[0].moved()),
        (1, Ok(PAGE as u64))
    );
}

#[test]
fn a_hung_read_of_the_ring_is_abandoned_in_bounded_time() {
    let Some(trap) = Trap::new(1) else {
        return;
    };
    let Some(ring) = ring(8, true, Default::default()) else {
        return;
    };
    let mut rig = Rig::real("ring", Box::new(ring));
    let file = rig.file(&pattern(PAGE));
    let memory = Memory::new(PAGE);
    let mut hangs = read(1, file, 0, trap.segment(0));
    hangs.offload = true;
    assert!(lend(rig.device.as_mut(), hangs).is_ok());
    rig.device.submit().unwrap();
    let completions = {
        assert!(
            lend(
                rig.device.as_mut(),
                read(2, file, 0, memory.segment(0, PAGE))
            )
            .is_ok()
        );
        rig.device.submit().unwrap();
        let mut completions = Vec::new();
        while rig.device.reap(&mut completions) == 0 {
            rig.device.wait(None, &mut || false).unwrap();
        }
        completions
    };
    assert_eq!(
        (completions[0].id, completions[0].moved()),
        (2, Ok(PAGE as u64))
    );
    let began = Instant::now();
    let (abandoned, completions) = rig.shut_down(Duration::from_millis(100));
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "the shutdown hangs too"
    );
    // Whether the kernel could cancel it or not: it is accounted for once.
    let returned: Vec<u64> = completions.iter().map(|one| one.id).collect();
    assert_eq!([abandoned.operations, returned].concat(), [1]);
    // The kernel waits for the read when this thread ends: the trap has to be dropped first.
    drop(trap);
}

#[test]
fn a_read_that_waits_for_data_is_canceled_by_the_shutdown() {
    let Some(ring) = ring(8, true, Default::default()) else {
        return;
    };
    let (mut device, memory) = (Box::new(ring), Memory::new(PAGE));
    let (pipe, _writer) = std::io::pipe().unwrap();
    let file = descriptor(pipe.as_raw_fd() as u64);
    assert!(lend(device.as_mut(), read(5, file, 0, memory.segment(0, PAGE))).is_ok());
    device.submit().unwrap();
    let mut completions = Vec::new();
    let deadline = Instant::now() + Duration::from_millis(200);
    let abandoned = device.shutdown(deadline, &mut completions);
    assert!(abandoned.operations.is_empty(), "{abandoned:?}");
    assert_eq!(
        (completions[0].id, completions[0].moved()),
        (5, Err(Errno(libc::ECANCELED)))
    );
}

#[test]
fn a_hung_read_of_the_fake_disk_ends_when_it_is_released_or_writes_after_the_end() {
    let (mut sim, files) = Sim::new(SimOptions::default());
    let content = pattern(4 * PAGE);
    files.add("a", content.clone(), SimFileOptions::default());
    files.hang("a".as_ref(), 0..1, None);
    let opened = files.open("a".as_ref(), OpenMode::default());
    let file = *opened.unwrap().descriptor;
    let memory = Memory::new(4 * PAGE);
    let mut completions = Vec::new();
    for id in 0..4 {
        let at = id as usize * PAGE;
        let operation = read(id, file, at as u64, memory.segment(at, PAGE));
        assert!(lend(&mut sim, operation).is_ok());
    }
    sim.submit().unwrap();
    while completions.len() < 3 {
        sim.wait(None, &mut || false).unwrap();
        sim.reap(&mut completions);
    }
    sim.wait(Some(Duration::from_secs(3600)), &mut || false)
        .unwrap();
    assert_eq!(
        sim.reap(&mut completions),
        0,
        "a hung operation ended by itself"
    );
    assert!(files.now_ns() >= 3_600_000_000_000);
    files.release_hung();
    sim.wait(None, &mut || false).unwrap();
    assert_eq!(sim.reap(&mut completions), 1);
    assert!(memory.bytes() == content);

    // Again, but now the device is shut down first.
    let late = Memory::new(PAGE);
    files.hang("a".as_ref(), 0..1, None);
    assert!(lend(&mut sim, read(9, file, 0, late.segment(0, PAGE))).is_ok());
    sim.submit().unwrap();
    let abandoned = Box::new(sim).shutdown(Instant::now(), &mut completions);
    assert_eq!(abandoned.operations, [9]);
    assert!(late.is_poison(0, PAGE));
    files.release_hung();
    assert!(
        late.bytes() == &content[..PAGE],
        "what was abandoned is written, late"
    );
    assert_eq!(files.counts().closes_in_flight, 0);
    files.close(owned(file)).unwrap();
    assert_eq!(
        files.counts().closes_in_flight,
        1,
        "closed under an operation: it is counted"
    );
}
