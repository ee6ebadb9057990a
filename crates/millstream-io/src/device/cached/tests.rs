//! Copies of real files in the page cache, and of a test file system.
#![expect(unsafe_code, reason = "pushes operations, which lend memory")]

use super::*;
use crate::device::fake::{self, Fake, PANICS};
use crate::device::{Descriptor, Segment, Segments, Verb};
use crate::error::Errno;
use crate::fs::{OpenMode, OsFileSystem};

const LONG: Duration = Duration::from_secs(20);

fn device(fs: Arc<dyn FileSystem>, threads: usize, depth: usize) -> Cached {
    Cached::new(CachedOptions {
        fs,
        bell: Doorbell::condvar(),
        threads,
        settings: ThreadSettings::default(),
        depth,
    })
}

fn read(id: u64, offset: u64, into: &mut [u8]) -> Operation {
    let segment = Segment::new(into.as_mut_ptr(), into.len());
    fake::read(id, Descriptor(0), offset, segment)
}

fn push(device: &mut Cached, operations: &[Operation]) -> usize {
    // SAFETY: the tests keep the memory until the completion or the end of the device.
    unsafe { device.push(operations) }
}

fn reap_all(device: &mut Cached) -> Vec<Completion> {
    let mut done = Vec::new();
    let until = Instant::now() + LONG;
    loop {
        device.reap(&mut done);
        if device.in_flight() == 0 {
            break;
        }
        assert!(Instant::now() < until, "a copy is lost");
        device.wait(Some(LONG), &mut || false).unwrap();
    }
    done.sort_by_key(|completion| completion.id);
    done
}

#[test]
fn without_threads_reap_copies_everything_in_order() {
    let mut device = device(Fake::with_cached(Some(1000)), 0, 64);
    let mut memory = vec![[0_u8; 10]; 40];
    let operations: Vec<Operation> = memory
        .iter_mut()
        .enumerate()
        .map(|(at, into)| read(at as u64, at as u64 * 10, into))
        .collect();
    assert_eq!(push(&mut device, &operations), 40);
    let mut done = Vec::new();
    assert_eq!(device.reap(&mut done), 0, "nothing starts before submit");
    device.submit().unwrap();
    assert_eq!(device.waiting(), 40);
    assert_eq!(device.reap(&mut done), 40);
    let ids: Vec<u64> = done.iter().map(|completion| completion.id).collect();
    assert!(ids.is_sorted() && done.iter().all(|completion| completion.result == 10));
    assert_eq!(memory[39][9], (399 % 251) as u8);
    assert_eq!(device.in_flight(), 0);
}

#[test]
fn results_say_how_much_was_in_the_cache() {
    let mut known = device(Fake::with_cached(Some(100)), 0, 8);
    let (mut first, mut second) = ([0; 60], [0; 60]);
    let pieces = [&mut first, &mut second].map(|piece| Segment::new(piece.as_mut_ptr(), 60));
    let many = Operation {
        segments: Segments::list(&pieces),
        ..read(1, 0, &mut [])
    };
    let write = Operation {
        verb: Verb::Write,
        ..many
    };
    let (mut short, mut none) = ([0; 60], [0; 60]);
    let operations = [
        many,
        read(2, 70, &mut short),
        read(3, 500, &mut none),
        Operation { id: 4, ..write },
    ];
    push(&mut known, &operations);
    known.submit().unwrap();
    let results: Vec<i64> = reap_all(&mut known)
        .iter()
        .map(|done| done.result)
        .collect();
    assert_eq!(results, [100, 30, 0, -i64::from(Errno::INVALID.0)]);
    assert_eq!((second[39], second[40]), (99, 0));

    let mut unknown = device(Fake::with_cached(None), 0, 8);
    push(&mut unknown, &[read(1, 0, &mut short)]);
    unknown.submit().unwrap();
    assert_eq!(reap_all(&mut unknown)[0].moved(), Err(Errno::INVALID));
}

#[test]
fn a_panic_of_the_file_system_is_an_error() {
    let mut device = device(Fake::with_cached(None), 0, 1);
    let panics = Operation {
        file: PANICS,
        ..read(1, 0, &mut [0; 8])
    };
    push(&mut device, &[panics]);
    device.submit().unwrap();
    assert_eq!(reap_all(&mut device)[0].moved(), Err(Errno::IO));
}

#[test]
fn helpers_and_owner_copy_a_real_file_together() {
    let mut path = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|at| (at / 7 % 253) as u8).collect();
    std::io::Write::write_all(&mut path, &bytes).unwrap();
    path.as_file().sync_all().unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
    let file = fs
        .open(path.path(), OpenMode::default())
        .unwrap()
        .descriptor;
    if fs.read_cached(*file, 0, &mut [0; 16]) != Some(16) {
        println!("SKIP: this file system reads nothing without waiting");
        return;
    }
    let mut device = device(Arc::clone(&fs), 2, 64);
    let mut whole = 0;
    for _ in 0..20 {
        let mut into = vec![0; bytes.len()];
        let operations: Vec<Operation> = into
            .chunks_mut(64 << 10)
            .enumerate()
            .map(|(at, into)| Operation {
                file: *file,
                ..read(at as u64, at as u64 * (64 << 10), into)
            })
            .collect();
        assert_eq!(push(&mut device, &operations), 64);
        device.submit().unwrap();
        // The kernel may have dropped pages: then a result is short, never wrong.
        for completion in reap_all(&mut device) {
            let (start, count) = ((completion.id as usize) << 16, completion.moved().unwrap());
            let range = start..start + count as usize;
            assert!(into[range.clone()] == bytes[range], "bytes differ");
            whole += usize::from(count == 64 << 10);
        }
    }
    assert!(whole > 0, "nothing was found in the cache");
    assert!(!device.spin(&mut || true), "nothing is in flight");
    let abandoned = Box::new(device).shutdown(Instant::now(), &mut Vec::new());
    assert!(abandoned.operations.is_empty());
    fs.close(file).unwrap();
}

#[test]
fn a_helper_is_called_only_for_more_than_its_wake_and_rings() {
    let fs = Fake::with_cached(Some(usize::MAX));
    fs.shut("read");
    let mut device = device(Arc::clone(&fs) as Arc<dyn FileSystem>, 1, 64);
    let mut memory = vec![vec![0_u8; 4096]; 64];
    let mut operations: Vec<Operation> = Vec::new();
    for (at, into) in memory.iter_mut().enumerate() {
        operations.push(read(at as u64, 0, into));
    }
    push(&mut device, &operations[..8]);
    device.submit().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    fs.await_state("5 µs of work wake no helper", |state| state.hanging == 0);
    push(&mut device, &operations[8..]);
    device.submit().unwrap();
    fs.await_state("a helper came", |state| state.hanging > 0);
    let until = Instant::now() + LONG;
    assert_eq!(device.waiting(), 64 - 32, "half is left to the owner");
    fs.release();
    while !device.has_done() {
        assert!(Instant::now() < until, "the helper finished nothing");
        assert!(device.spin(&mut || true));
    }
    let bell = device.doorbell();
    while bell.arm() {
        bell.disarm();
        assert!(Instant::now() < until, "the helper does not ring");
        std::thread::yield_now();
    }
    assert_eq!(reap_all(&mut device).len(), 64);
}

#[test]
fn shutdown_gives_back_what_no_thread_began_and_reports_what_hangs() {
    let fs = Fake::with_cached(Some(usize::MAX));
    fs.shut("read");
    let mut device = device(Arc::clone(&fs) as Arc<dyn FileSystem>, 1, 8);
    // Never freed: a helper hangs while it may write to it.
    let memory = Vec::leak(vec![0_u8; 8 << 20]);
    let operations: Vec<Operation> = memory
        .chunks_mut(1 << 20)
        .enumerate()
        .map(|(at, into)| read(at as u64, 0, into))
        .collect();
    push(&mut device, &operations);
    device.submit().unwrap();
    fs.await_state("a helper came", |state| state.hanging > 0);
    let mut done = Vec::new();
    let abandoned = Box::new(device).shutdown(Instant::now(), &mut done);
    assert_eq!(abandoned.operations, [0]);
    let ids: Vec<u64> = done.iter().map(|completion| completion.id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
    assert!(done.iter().all(|one| one.moved() == Err(Errno::CANCELED)));
    fs.release();
}
