//! Regions, the arena and the buffer pool on the system's own memory.

#![expect(
    unsafe_code,
    reason = "plays an application's allocator, which is raw memory"
)]

#[cfg(target_os = "linux")]
mod pages;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use millstream_io::Errno;
use millstream_io::limits::{HUGE_PAGE_BYTES, MEMORY_ALIGNMENT};
use millstream_io::memory::{Arena, Block, Buffer, BufferPool, Region, RegionAllocator};

const MIB: usize = 1 << 20;

/// An application's allocator that counts what is out, and can be told to fail.
#[derive(Default)]
struct Counting {
    out_bytes: AtomicUsize,
    calls: AtomicUsize,
    misalign: bool,
    refuse: bool,
    panic: bool,
}

// SAFETY: memory of the global allocator, zeroed, of the layout asked for; misaligned on purpose
// only as a test of the check.
unsafe impl RegionAllocator for Counting {
    fn allocate(&self, len: usize, align: usize) -> *mut u8 {
        assert!(!self.panic, "an allocator panics");
        if self.refuse {
            return std::ptr::null_mut();
        }
        self.calls.fetch_add(1, SeqCst);
        self.out_bytes.fetch_add(len, SeqCst);
        let layout = Layout::from_size_align(len + 64, align).unwrap();
        // SAFETY: the layout is not empty.
        let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
        pointer.wrapping_add(if self.misalign { 64 } else { 0 })
    }
    unsafe fn free(&self, pointer: *mut u8, len: usize, align: usize) {
        self.out_bytes.fetch_sub(len, SeqCst);
        let layout = Layout::from_size_align(len + 64, align).unwrap();
        let pointer = pointer.wrapping_sub(if self.misalign { 64 } else { 0 });
        // SAFETY: the pointer and the layout of `allocate`.
        unsafe { std::alloc::dealloc(pointer, layout) };
    }
}

#[test]
fn region_is_zeroed_aligned_and_rounded() {
    for len in [1, 4096, 4097, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, 5 * MIB] {
        let region = Region::new(len, None).unwrap();
        let align = if len >= HUGE_PAGE_BYTES {
            HUGE_PAGE_BYTES
        } else {
            MEMORY_ALIGNMENT
        };
        assert_eq!(region.len(), len.next_multiple_of(align));
        assert_eq!(region.pointer().addr() % align, 0);
        // SAFETY: the region's own bytes, referenced by nobody else.
        let bytes = unsafe { std::slice::from_raw_parts(region.pointer(), region.len()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn region_refuses_absurd_lengths() {
    for len in [0, usize::MAX, isize::MAX as usize, 1 << 60] {
        let error = Region::new(len, None).unwrap_err();
        assert_eq!(error.errno, Errno::NO_MEMORY, "{error}");
    }
}

#[test]
fn application_allocator_serves_and_gets_everything_back() {
    let allocator = Arc::new(Counting::default());
    let mut arena = Arena::new(3 * MIB, Some(allocator.clone())).unwrap();
    let block = arena.take(100).unwrap();
    arena.give(block);
    drop(arena);
    let pool = BufferPool::new(64 * MIB, Some(allocator.clone()));
    let small = pool.take(5000).unwrap();
    let large = pool.take(5 * MIB).unwrap();
    drop(pool);
    drop((small, large));
    assert!(allocator.calls.load(SeqCst) >= 3);
    assert_eq!(allocator.out_bytes.load(SeqCst), 0);
}

#[test]
fn application_allocator_that_fails_panics_or_misaligns_is_an_error() {
    let refusing = Arc::new(Counting {
        refuse: true,
        ..Counting::default()
    });
    assert!(Region::new(4096, Some(refusing.clone())).is_err());
    assert!(BufferPool::new(MIB, Some(refusing)).take(1).is_err());
    let panicking = Arc::new(Counting {
        panic: true,
        ..Counting::default()
    });
    let error = Region::new(4096, Some(panicking)).unwrap_err();
    assert!(error.cause.contains("panicked"), "{error}");
    let misaligning = Arc::new(Counting {
        misalign: true,
        ..Counting::default()
    });
    let error = Region::new(4096, Some(misaligning.clone())).unwrap_err();
    assert!(error.cause.contains("alignment"), "{error}");
    assert_eq!(misaligning.out_bytes.load(SeqCst), 0);
}

#[test]
fn arena_blocks_are_apart_and_keep_what_is_written() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut arena = Arena::new(9 * MIB + 1, None).unwrap();
    assert_eq!(arena.capacity(), 9 * MIB + 4096);
    let mut out: Vec<(Block, u8)> = Vec::new();
    for round in 0..3000_u32 {
        if random.u8(..) < 140 {
            let len = random.usize(0..600_000);
            if let Some(mut block) = arena.take(len) {
                assert_eq!(block.len(), len.div_ceil(4096).max(1) * 4096);
                assert_eq!(block.pointer().addr() % MEMORY_ALIGNMENT, 0);
                let mark = round as u8;
                block.as_mut_slice()[0] = mark;
                *block.as_mut_slice().last_mut().unwrap() = mark;
                out.push((block, mark));
            }
        } else if !out.is_empty() {
            let (block, mark) = out.swap_remove(random.usize(..out.len()));
            assert_eq!(
                (block.as_slice()[0], block.as_slice().last()),
                (mark, Some(&mark))
            );
            arena.give(block);
        }
        assert_eq!(
            arena.in_use(),
            out.iter().map(|(block, _)| block.len()).sum()
        );
        assert!(arena.in_use() <= arena.peak() && arena.peak() <= arena.capacity());
    }
    for (block, _) in out {
        arena.give(block);
    }
    assert_eq!(arena.in_use(), 0);
    let whole = arena.take(arena.capacity()).expect("all room is one again");
    assert!(arena.take(1).is_none());
    arena.give(whole);
    assert!(arena.take(usize::MAX).is_none());
    assert_eq!(arena.peak(), arena.capacity());
}

#[test]
#[should_panic(expected = "not from")]
fn arena_refuses_blocks_of_another() {
    let mut first = Arena::new(MIB, None).unwrap();
    let mut second = Arena::new(MIB, None).unwrap();
    second.give(first.take(4096).unwrap());
}

#[test]
fn arena_that_goes_before_its_blocks_leaves_them_usable() {
    let mut arena = Arena::new(4 * MIB, None).unwrap();
    let mut block = arena.take(MIB).unwrap();
    let lost = arena.take(4096).unwrap();
    drop(lost);
    assert_eq!(arena.in_use(), MIB + 4096, "a dropped block is lost");
    drop(arena);
    block.as_mut_slice().fill(9);
    assert!(block.as_slice().iter().all(|&byte| byte == 9));
}

#[test]
fn arena_sizes_out_of_reason_are_errors() {
    assert!(Arena::new(0, None).is_err());
    assert!(Arena::new(usize::MAX, None).is_err());
}

#[test]
fn buffers_are_apart_and_keep_what_is_written() {
    let pool = BufferPool::new(32 * MIB, None);
    let mut random = fastrand::Rng::with_seed(11);
    let mut out: BTreeMap<usize, (Buffer, u8)> = BTreeMap::new();
    for round in 0..4000_u32 {
        if out.len() < 60 && random.bool() {
            let len = match random.u8(..8) {
                0 => random.usize(1..6 * MIB),
                1..4 => random.usize(1..300_000),
                _ => random.usize(1..20_000),
            };
            let mut buffer = pool.take(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert!(buffer.capacity() >= len && buffer.base().addr() % 4096 == 0);
            let (base, end) = (
                buffer.base().addr(),
                buffer.base().addr() + buffer.capacity(),
            );
            let before = out.range(..end).next_back();
            assert!(
                before.is_none_or(|(other, (held, _))| other + held.capacity() <= base),
                "two buffers share memory"
            );
            let mark = round as u8;
            buffer[0] = mark;
            *buffer.last_mut().unwrap() = mark;
            out.insert(base, (buffer, mark));
        } else if let Some(&base) = out.keys().nth(random.usize(..out.len().max(1))) {
            let (buffer, mark) = out.remove(&base).unwrap();
            assert_eq!((buffer[0], buffer[buffer.len() - 1]), (mark, mark));
        }
    }
}

#[test]
fn buffers_are_recycled() {
    let pool = BufferPool::new(64 * MIB, None);
    for len in [1, 4096, 50_000, MIB, 2 * MIB, 7 * MIB] {
        let mut buffer = pool.take(len).unwrap();
        let base = buffer.base().addr();
        buffer.fill(1);
        drop(buffer);
        assert_eq!(pool.take(len).unwrap().base().addr(), base);
    }
}

#[test]
fn pool_of_no_bytes_keeps_nothing_and_bounds_hold() {
    for retained_max in [0, 3 * MIB, 20 * MIB] {
        let allocator = Arc::new(Counting::default());
        let pool = BufferPool::new(retained_max, Some(allocator.clone()));
        let sizes = [4096, 10_000, 100_000, MIB, 3 * MIB, 9 * MIB, 4096, 30_000];
        let buffers: Vec<Buffer> = sizes.iter().map(|&len| pool.take(len).unwrap()).collect();
        drop(buffers);
        let kept = allocator.out_bytes.load(SeqCst);
        assert!(kept <= retained_max, "{kept} bytes are kept");
        assert!(retained_max < 20 * MIB || kept > 0);
    }
}

#[test]
fn large_buffer_does_not_sit_in_a_much_larger_region() {
    let pool = BufferPool::new(64 * MIB, None);
    drop(pool.take(40 * MIB).unwrap());
    let buffer = pool.take(2 * MIB).unwrap();
    assert_eq!(buffer.capacity(), 2 * MIB);
}

#[test]
fn buffers_outlive_their_pool_and_end_on_any_thread() {
    let allocator = Arc::new(Counting::default());
    let pool = BufferPool::new(64 * MIB, Some(allocator.clone()));
    let threads: Vec<_> = (0..4_u8)
        .map(|mark| {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || {
                let mut kept = Vec::new();
                for round in 0..2000_usize {
                    let len = 1 + (round * 7919) % 70_000;
                    let mut buffer = pool.take(len).unwrap();
                    buffer.fill(mark);
                    kept.push(buffer);
                    if kept.len() > 10 {
                        let buffer = kept.swap_remove(round % 10);
                        assert!(buffer.iter().all(|&byte| byte == mark));
                    }
                }
                kept
            })
        })
        .collect();
    drop(pool);
    let kept: Vec<Vec<Buffer>> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(allocator.out_bytes.load(SeqCst) > 0);
    for (mark, buffers) in kept.iter().enumerate() {
        assert!(
            buffers
                .iter()
                .flat_map(|b| b.iter())
                .all(|&byte| byte as usize == mark)
        );
    }
    std::thread::spawn(move || drop(kept)).join().unwrap();
    assert_eq!(allocator.out_bytes.load(SeqCst), 0, "nothing stays mapped");
}

#[test]
fn leaked_buffer_is_never_reused_nor_unmapped() {
    let allocator = Arc::new(Counting::default());
    let pool = BufferPool::new(64 * MIB, Some(allocator.clone()));
    for len in [4096, 3 * MIB] {
        let buffer = pool.take(len).unwrap();
        let base = buffer.base();
        buffer.leak();
        for _ in 0..10 {
            assert_ne!(pool.take(len).unwrap().base(), base);
        }
    }
    drop(pool);
    assert_eq!(allocator.out_bytes.load(SeqCst), 2 * MIB + 4 * MIB);
}

#[test]
fn views_show_parts_and_stay_within() {
    let pool = BufferPool::new(MIB, None);
    let mut buffer = pool.take(5000).unwrap();
    assert_eq!(buffer.capacity(), 8192);
    buffer.set_view(0, 8192);
    buffer[100] = 7;
    buffer.set_view(100, 2);
    assert_eq!((buffer.len(), buffer[0]), (2, 7));
    buffer.set_view(8192, 0);
    assert!(buffer.is_empty());
    for (start, len) in [(8192, 1), (usize::MAX, 2), (1, usize::MAX), (0, 8193)] {
        let mut buffer = pool.take(5000).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            buffer.set_view(start, len);
        }));
        assert!(result.is_err(), "{start}+{len} is beyond the capacity");
    }
}

#[test]
fn empty_buffers_and_absurd_lengths() {
    let pool = BufferPool::new(MIB, None);
    for buffer in [Buffer::empty(), pool.take(0).unwrap()] {
        assert_eq!((buffer.len(), buffer.capacity()), (0, 0));
        assert_eq!(buffer.base().addr() % MEMORY_ALIGNMENT, 0);
    }
    for len in [
        usize::MAX,
        isize::MAX as usize,
        isize::MAX as usize / 2,
        1 << 50,
    ] {
        let error = pool.take(len).unwrap_err();
        assert_eq!(error.errno, Errno::NO_MEMORY, "{error}");
    }
}
