//! The contract of [`Device`](millstream_io::Device): the same tests over the ring (with the flags
//! of new and old kernels), the thread pool, and the simulated disk.
//!
//! # Safety
//! The tests lend memory of [`common::Memory`], which lives until after the completion (it is
//! dropped after the device) or is leaked where an operation was abandoned.

#![expect(
    unsafe_code,
    reason = "pushing an operation is unsafe: it lends memory"
)]

mod common;
mod fake;
#[cfg(target_os = "linux")]
mod hang;
mod modeled;
#[cfg(target_os = "linux")]
mod ring;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use common::Rig;
use common::{Memory, descriptor, each, lend, lend_all, pattern, read, write};
use millstream_io::{DeviceKind, Errno, Segment, Segments};
use millstream_testing::PATIENCE;

#[test]
fn a_file_is_read_in_blocks_at_depth() {
    each(32, |rig| {
        let content = pattern(1_000_003);
        let file = rig.file(&content);
        for (block, offload) in [(4096, false), (65_536, false), (65_536, true)] {
            let memory = Memory::new(content.len());
            let operations = (0..content.len()).step_by(block).map(|offset| {
                let len = block.min(content.len() - offset);
                let mut operation = read(
                    offset as u64,
                    file,
                    offset as u64,
                    memory.segment(offset, len),
                );
                operation.offload = offload;
                operation
            });
            let completions = rig.run(operations);
            assert_eq!(completions.len(), content.len().div_ceil(block));
            for completion in &completions {
                let len = block.min(content.len() - completion.id as usize);
                assert_eq!(completion.moved(), Ok(len as u64), "{}", completion.id);
            }
            assert!(memory.bytes() == content, "{}: the bytes differ", rig.name);
            memory.check_canaries();
        }
    });
}

#[test]
fn a_direct_read_moves_the_same_bytes() {
    each(16, |rig| {
        let content = pattern(1 << 20);
        let Some(file) = rig.direct_file(&content) else {
            println!("SKIP: no direct I/O in the folder for temporary files");
            return;
        };
        let memory = Memory::new(content.len());
        let block = 64 << 10;
        let operations = (0..content.len()).step_by(block).map(|offset| {
            read(
                offset as u64,
                file,
                offset as u64,
                memory.segment(offset, block),
            )
        });
        for completion in rig.run(operations) {
            assert_eq!(completion.moved(), Ok(block as u64));
        }
        assert!(memory.bytes() == content, "{}: the bytes differ", rig.name);
        memory.check_canaries();
    });
}

#[test]
fn segments_are_filled_in_file_order() {
    each(4, |rig| {
        let content = pattern(20_000);
        let file = rig.file(&content);
        let memory = Memory::new(20_000);
        // Pieces of different lengths, back to front in memory.
        let pieces = [(12_000, 5000), (3000, 1), (0, 3000), (5000, 7000)];
        let segments = pieces.map(|(at, len)| memory.segment(at, len)).to_vec();
        let mut operation = read(7, file, 100, memory.segment(0, 0));
        operation.segments = Segments::list(&segments);
        let completions = rig.run([operation]);
        assert_eq!(completions[0].moved(), Ok(15_001));
        let mut offset = 100;
        for (at, len) in pieces {
            assert_eq!(
                memory.bytes()[at..at + len],
                content[offset..offset + len],
                "{}",
                rig.name
            );
            offset += len;
        }
    });
}

#[test]
fn the_end_of_the_file_makes_a_read_short_and_then_empty() {
    each(4, |rig| {
        let content = pattern(5000);
        let file = rig.file(&content);
        let memory = Memory::new(12_288);
        let operations = [
            read(0, file, 4096, memory.segment(0, 4096)),
            read(1, file, 5000, memory.segment(4096, 4096)),
            read(2, file, 1 << 40, memory.segment(8192, 4096)),
        ];
        let results: Vec<_> = rig.run(operations).iter().map(|one| one.moved()).collect();
        assert_eq!(results, [Ok(904), Ok(0), Ok(0)], "{}", rig.name);
        assert_eq!(memory.bytes()[..904], content[4096..]);
        assert!(
            memory.is_poison(904, 12_288 - 904),
            "{}: written past the end",
            rig.name
        );
    });
}

#[test]
fn empty_operations_move_nothing() {
    each(4, |rig| {
        let file = rig.file(&pattern(100));
        let memory = Memory::new(4096);
        let empty = [memory.segment(0, 0), memory.segment(8, 0)];
        let mut none = read(1, file, 0, memory.segment(0, 0));
        none.segments = Segments::list(&empty);
        let operations = [read(0, file, 10, memory.segment(0, 0)), none];
        for completion in rig.run(operations) {
            assert_eq!(completion.moved(), Ok(0), "{} {}", rig.name, completion.id);
        }
        assert!(memory.is_poison(0, 4096));
    });
}

#[test]
fn a_bad_operation_fails_alone() {
    each(8, |rig| {
        let content = pattern(8192);
        let file = rig.file(&content);
        let memory = Memory::new(8 * 4096);
        let at = |index: usize| memory.segment(index * 4096, 4096);
        let operations = [
            read(0, descriptor(u64::MAX), 0, at(0)),
            // In 32 bits this is descriptor 0.
            read(1, descriptor(1 << 32), 0, at(1)),
            read(2, file, 0, at(2)),
            // As a signed offset this is -1, which to some calls means the descriptor's own
            // position.
            read(3, file, u64::MAX, at(3)),
            read(4, file, 1 << 63, at(4)),
            read(5, file, 4096, at(5)),
        ];
        let results: Vec<_> = rig.run(operations).iter().map(|one| one.moved()).collect();
        let (bad_file, invalid) = (Err(Errno::BAD_DESCRIPTOR), Err(Errno::INVALID));
        let wanted = [bad_file, bad_file, Ok(4096), invalid, invalid, Ok(4096)];
        assert_eq!(results, wanted, "{}", rig.name);
        assert_eq!(memory.bytes()[2 * 4096..3 * 4096], content[..4096]);
        assert_eq!(memory.bytes()[5 * 4096..6 * 4096], content[4096..]);
    });
}

#[test]
fn a_misaligned_direct_read_is_refused() {
    each(4, |rig| {
        let Some(file) = rig.direct_file(&pattern(65_536)) else {
            println!("SKIP: no direct I/O in the folder for temporary files");
            return;
        };
        let memory = Memory::new(65_536);
        let operations = [
            read(0, file, 1, memory.segment(0, 4096)),
            read(1, file, 0, memory.segment(0, 100)),
            read(2, file, 4096, memory.segment(8192, 4096)),
        ];
        let results: Vec<_> = rig.run(operations).iter().map(|one| one.moved()).collect();
        let wanted = [Err(Errno::INVALID), Err(Errno::INVALID), Ok(4096)];
        assert_eq!(results, wanted, "{}", rig.name);
    });
}

#[test]
fn writes_change_the_given_range() {
    each(8, |rig| {
        let content = pattern(20_000);
        let file = rig.file(&[0; 4096]);
        let memory = Memory::holding(&content);
        let mut vectored = write(1, file, 8192, memory.segment(0, 0));
        let pieces = [
            memory.segment(8192, 4096),
            memory.segment(12_288, 20_000 - 12_288),
        ];
        vectored.segments = Segments::list(&pieces);
        let operations = [write(0, file, 0, memory.segment(0, 8192)), vectored];
        let results: Vec<_> = rig.run(operations).iter().map(|one| one.moved()).collect();
        assert_eq!(results, [Ok(8192), Ok(20_000 - 8192)], "{}", rig.name);
        assert!(
            rig.content(file) == content,
            "{}: the file differs",
            rig.name
        );
        let read_only = rig.read_only_file(&[1; 10]);
        let completions = rig.run([write(2, read_only, 0, memory.segment(0, 10))]);
        let denied = match rig.device.kind() {
            // ERROR_ACCESS_DENIED: Windows checks what a handle was opened for.
            kind if cfg!(windows) && kind != DeviceKind::Custom => Errno(5),
            _ => Errno::BAD_DESCRIPTOR,
        };
        assert_eq!(completions[0].moved(), Err(denied), "{}", rig.name);
    });
}

#[test]
fn beyond_its_depth_a_device_takes_nothing() {
    each(5, |rig| {
        let file = rig.file(&pattern(4096));
        let memory = Memory::new(6 * 4096);
        let depth = rig.device.depth();
        assert_eq!(depth, 5);
        for id in 0..5 {
            let operation = read(id, file, 0, memory.segment(id as usize * 4096, 4096));
            assert!(lend(rig.device.as_mut(), operation).is_ok());
        }
        for _ in 0..3 {
            let back = lend(
                rig.device.as_mut(),
                read(99, file, 0, memory.segment(5 * 4096, 4096)),
            );
            assert_eq!(back.err().map(|operation| operation.id), Some(99));
            // Also after it has started: only reaping makes room.
            rig.device.submit().unwrap();
        }
        assert_eq!(rig.device.in_flight(), 5);
        assert_eq!(rig.finish().len(), 5);
        assert_eq!(rig.device.in_flight(), 0);
        assert_eq!(
            rig.run([read(6, file, 0, memory.segment(0, 4096))]).len(),
            1
        );
    });
}

#[test]
fn a_slice_is_taken_from_its_front_up_to_the_depth() {
    each(5, |rig| {
        let content = pattern(8 * 4096);
        let file = rig.file(&content);
        let memory = Memory::new(8 * 4096);
        let reads: Vec<_> = (0..8)
            .map(|id| {
                let at = id as usize * 4096;
                read(id, file, at as u64, memory.segment(at, 4096))
            })
            .collect();
        assert_eq!(lend_all(rig.device.as_mut(), &[]), 0);
        assert_eq!(lend_all(rig.device.as_mut(), &reads[..2]), 2);
        assert_eq!(lend_all(rig.device.as_mut(), &reads[2..]), 3);
        assert_eq!(lend_all(rig.device.as_mut(), &reads[5..]), 0);
        let mut ids: Vec<u64> = rig.finish().iter().map(|one| one.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2, 3, 4], "{}", rig.name);
        assert_eq!(lend_all(rig.device.as_mut(), &reads[5..]), 3);
        assert_eq!(rig.finish().len(), 3);
        assert!(memory.bytes() == content, "{}: the bytes differ", rig.name);
    });
}

#[test]
fn nothing_starts_before_submit() {
    each(4, |rig| {
        let file = rig.file(&pattern(4096));
        let memory = Memory::new(4096);
        let pushed = lend(
            rig.device.as_mut(),
            read(0, file, 0, memory.segment(0, 4096)),
        );
        assert!(pushed.is_ok());
        let mut completions = Vec::new();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(rig.device.reap(&mut completions), 0);
        assert!(memory.is_poison(0, 4096), "{}: started too early", rig.name);
        assert_eq!(rig.finish().len(), 1);
    });
}

#[test]
fn the_doorbell_ends_a_sleep() {
    each(4, |rig| {
        for round in 0..20 {
            let bell = rig.device.doorbell();
            let awake = Arc::new(AtomicBool::new(false));
            let ringer = std::thread::spawn({
                let awake = Arc::clone(&awake);
                move || {
                    // Alternates between a ring during the sleep (most likely) and before it.
                    if round % 2 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    awake.store(true, Ordering::SeqCst);
                    bell.ring();
                }
            });
            let began = Instant::now();
            while !awake.load(Ordering::SeqCst) {
                rig.device
                    .wait(None, &mut || awake.load(Ordering::SeqCst))
                    .unwrap();
                assert!(began.elapsed() < PATIENCE, "{}: not woken", rig.name);
            }
            ringer.join().unwrap();
        }
    });
}

#[test]
fn a_ring_is_remembered_until_the_next_wait() {
    each(4, |rig| {
        rig.device.doorbell().ring();
        // No timeout, and `awake` returns false: only the remembered ring can end this.
        rig.device.wait(None, &mut || false).unwrap();
    });
}

#[test]
fn a_bell_may_be_rung_after_its_device_is_gone() {
    each(4, |rig| {
        let bell = rig.device.doorbell();
        rig.shut_down(Duration::ZERO);
        bell.ring();
        bell.clone().ring();
    });
}

#[test]
fn a_wait_ends_with_its_timeout() {
    each(4, |rig| {
        for timeout_ms in [0, 1, 20] {
            let timeout = Duration::from_millis(timeout_ms);
            let began = rig.now();
            rig.device.wait(Some(timeout), &mut || false).unwrap();
            let passed = rig.now() - began;
            assert!(passed >= timeout, "{}: {passed:?} of {timeout:?}", rig.name);
        }
    });
}

#[test]
fn wait_returns_at_once_if_the_owner_is_awake() {
    each(4, |rig| {
        let mut asked = 0;
        rig.device
            .wait(None, &mut || {
                asked += 1;
                true
            })
            .unwrap();
        assert_eq!(asked, 1, "{}", rig.name);
    });
}

#[test]
fn a_wait_ends_with_a_completion() {
    each(4, |rig| {
        let content = pattern(65_536);
        let Some(file) = rig.direct_file(&content) else {
            println!("SKIP: no direct I/O in the folder for temporary files");
            return;
        };
        let memory = Memory::new(65_536);
        let mut completions = Vec::new();
        for id in 0..50 {
            let operation = read(id, file, 0, memory.segment(0, 65_536));
            assert!(lend(rig.device.as_mut(), operation).is_ok());
            rig.device.submit().unwrap();
            let began = Instant::now();
            while rig.device.reap(&mut completions) == 0 {
                rig.device.wait(Some(PATIENCE * 2), &mut || false).unwrap();
                assert!(
                    began.elapsed() < PATIENCE,
                    "{}: slept over a completion",
                    rig.name
                );
            }
        }
        assert_eq!(completions.len(), 50);
    });
}

#[test]
fn a_shutdown_with_nothing_in_flight_returns_at_once() {
    each(4, |rig| {
        let file = rig.file(&pattern(4096));
        let memory = Memory::new(4096);
        rig.run([read(0, file, 0, memory.segment(0, 4096))]);
        let began = Instant::now();
        let (abandoned, completions) = rig.shut_down(PATIENCE * 2);
        assert!(
            abandoned.operations.is_empty() && completions.is_empty(),
            "{}",
            rig.name
        );
        assert!(
            began.elapsed() < PATIENCE,
            "{}: waited for nothing",
            rig.name
        );
    });
}

#[test]
fn a_shutdown_accounts_for_every_operation() {
    each(64, |rig| {
        let content = pattern(1 << 20);
        let file = match rig.direct_file(&content) {
            Some(file) => file,
            None => rig.file(&content),
        };
        let memory = Memory::new(64 * 16_384);
        for id in 0..64 {
            if id == 48 {
                rig.device.submit().unwrap();
            }
            let segment = memory.segment(id as usize * 16_384, 16_384);
            let pushed = lend(rig.device.as_mut(), read(id, file, id * 16_384, segment));
            assert!(pushed.is_ok());
        }
        let (abandoned, completions) = rig.shut_down(PATIENCE);
        assert!(
            abandoned.operations.is_empty(),
            "{}: {abandoned:?}",
            rig.name
        );
        let mut ids: Vec<u64> = completions.iter().map(|one| one.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..64).collect::<Vec<u64>>(), "{}", rig.name);
        for completion in completions {
            if completion.id >= 48 {
                assert_eq!(completion.moved(), Err(Errno::CANCELED), "{}", rig.name);
            } else if completion.moved().is_ok() {
                let at = completion.id as usize * 16_384;
                assert!(memory.bytes()[at..at + 16_384] == content[at..at + 16_384]);
            }
        }
    });
}

#[test]
fn dropping_a_device_at_work_is_safe() {
    each(64, |rig| {
        let content = pattern(1 << 20);
        let file = rig.file(&content);
        // Never freed: without a shutdown the end of the system's use is unknown.
        let memory = Box::leak(Box::new(Memory::new(1 << 20)));
        for id in 0..64 {
            let segment = memory.segment(id as usize * 16_384, 16_384);
            let mut operation = read(id, file, id * 16_384, segment);
            operation.offload = true;
            assert!(lend(rig.device.as_mut(), operation).is_ok());
            if id == 40 {
                rig.device.submit().unwrap();
            }
        }
        rig.drop_device();
    });
}

/// Resident memory of this process.
#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[cfg(target_os = "linux")]
#[test]
fn memory_stays_flat_over_a_hundred_thousand_operations() {
    // Alone in a process, because the other tests take memory too.
    assert!(common::child("devices::child_soaks", |_| {}).is_some());
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the test above in a process of its own"]
fn child_soaks() {
    const COUNT: u64 = 100_000;
    // Of the 90,000 operations that count: less than 12 bytes each.
    const GROWTH_BYTES_MAX: u64 = 1 << 20;
    each(64, |rig| {
        let content = pattern(1 << 20);
        let file = rig.file(&content);
        let memory = Memory::new(64 * 4096);
        let mut completions = Vec::new();
        let mut free: Vec<u64> = (0..64).collect();
        let (mut started, mut ended, mut resident_before) = (0, 0, 0);
        while ended < COUNT {
            while started < COUNT
                && let Some(place) = free.pop()
            {
                let segment = memory.segment(place as usize * 4096, 4096);
                let offset = (started * 7919) % 256 * 4096;
                assert!(lend(rig.device.as_mut(), read(place, file, offset, segment)).is_ok());
                started += 1;
            }
            rig.device.submit().unwrap();
            if rig.device.reap(&mut completions) == 0 {
                rig.device.wait(Some(PATIENCE), &mut || false).unwrap();
            }
            for completion in completions.drain(..) {
                assert_eq!(completion.moved(), Ok(4096));
                free.push(completion.id);
                ended += 1;
            }
            rig.forget_log();
            if resident_before == 0 && ended > COUNT / 10 {
                resident_before = resident_bytes();
            }
        }
        let grown = resident_bytes().saturating_sub(resident_before);
        println!("{}: grew by {grown} bytes", rig.name);
        assert!(
            grown < GROWTH_BYTES_MAX,
            "{}: grew by {grown} bytes",
            rig.name
        );
    });
}

#[test]
fn every_device_reports_its_kind() {
    each(1, |rig| {
        let wanted = match rig.name {
            "threads" | "one thread" => DeviceKind::Threads,
            "sim" => DeviceKind::Custom,
            "iocp" => DeviceKind::Iocp,
            _ => DeviceKind::Uring,
        };
        assert_eq!(rig.device.kind(), wanted);
    });
}

#[test]
fn a_segment_keeps_its_numbers() {
    let memory = Memory::new(10);
    let segment: Segment = memory.segment(3, 5);
    assert_eq!(segment.len(), 5);
    assert!(!segment.is_empty() && memory.segment(0, 0).is_empty());
}

/// The exit status of a forked child, in which the rig's device lives as well.
#[cfg(target_os = "linux")]
fn fork_and<F: FnOnce(&mut Rig)>(rig: &mut Rig, in_child: F) -> i32 {
    millstream_testing::forked(|| {
        in_child(rig);
        0
    })
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_does_no_harm() {
    each(32, |rig| {
        let content = pattern(32 * 4096);
        let file = rig.file(&content);
        let memory = Memory::new(32 * 4096);
        for round in 0..3 {
            for id in 0..32 {
                let at = id as usize * 4096;
                let operation = read(id, file, at as u64, memory.segment(at, 4096));
                assert!(lend(rig.device.as_mut(), operation).is_ok());
                if id == 20 {
                    rig.device.submit().unwrap();
                }
            }
            let status = match round {
                0 => fork_and(rig, |_| {}),
                1 => fork_and(rig, Rig::drop_device),
                // The simulator has nothing that a fork would lose.
                _ if rig.device.kind() == DeviceKind::Custom => 0,
                _ => fork_and(rig, |rig| {
                    let (abandoned, done) = rig.shut_down(Duration::from_secs(10));
                    assert!(abandoned.operations.is_empty() && done.is_empty());
                }),
            };
            assert_eq!(status, 0, "{}: the child fell over", rig.name);
            assert_eq!(rig.finish().len(), 32, "{}", rig.name);
            assert!(memory.bytes() == content, "{}: the bytes differ", rig.name);
        }
    });
}
