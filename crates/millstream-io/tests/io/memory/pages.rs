//! What Linux tells of pages: which are mapped, inherited, in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use millstream_io::limits::MEMORY_ALIGNMENT;
use millstream_io::memory::{Arena, Block, BufferPool, Region, RegionAllocator};

use super::{Counting, MIB};

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * MEMORY_ALIGNMENT
}

/// Whether the page at `address` is mapped in this process.
fn is_mapped(address: *mut u8) -> bool {
    let mut residency = 0_u8;
    // SAFETY: mincore reads nothing of the range, it only says whether it is mapped.
    unsafe { libc::mincore(address.cast(), MEMORY_ALIGNMENT, &raw mut residency) == 0 }
}

/// Whether all pages of a range have memory.
fn is_resident(address: *mut u8, len: usize) -> bool {
    let mut residency = vec![0_u8; len / MEMORY_ALIGNMENT];
    // SAFETY: as above, with a byte for each page.
    let result = unsafe { libc::mincore(address.cast(), len, residency.as_mut_ptr()) };
    assert_eq!(result, 0);
    residency.iter().all(|page| page & 1 == 1)
}

#[test]
fn region_is_unmapped_unless_leaked() {
    let region = Region::new(4 * MIB, None).unwrap();
    let address = region.pointer();
    assert!(is_mapped(address));
    region.leak();
    drop(region);
    assert!(is_mapped(address), "a leaked region stays");
    // Another thread of this test run may map something at an address just unmapped, so what must
    // be gone is counted with the application's allocator in the tests below.
}

#[test]
fn a_forked_child_has_zeros_in_the_place_of_its_buffers() {
    let pool = BufferPool::new(0, None);
    let mut buffers = [4096, 4 * MIB].map(|len| pool.take(len).unwrap());
    buffers.iter_mut().for_each(|buffer| buffer.fill(7));
    let mut all = Some((pool, buffers));
    let status = millstream_testing::forked(|| {
        let (pool, buffers) = all.take().expect("the child's");
        let mut bytes = buffers.iter().flat_map(|buffer| buffer.iter());
        let zero = bytes.all(|&byte| byte == 0);
        drop((buffers, pool));
        i32::from(!zero)
    });
    assert_eq!(status, 0, "the child has the bytes");
    let (_pool, buffers) = all.expect("the parent's");
    assert!(
        buffers
            .iter()
            .all(|buffer| buffer.iter().all(|&byte| byte == 7))
    );
}

#[test]
fn arena_costs_no_memory_until_it_is_used() {
    let before = resident_bytes();
    let mut arena = Arena::new(1 << 30, None).unwrap();
    let blocks: Vec<Block> = (0..100).map(|_| arena.take(4096).unwrap()).collect();
    let grown = resident_bytes().saturating_sub(before);
    assert!(
        grown < 256 * MIB,
        "an untouched gibibyte costs {grown} bytes"
    );
    for block in blocks {
        arena.give(block);
    }
}

#[test]
fn fresh_memory_is_touched_ahead_and_given_back_with_the_pool() {
    let probe = Region::new(MEMORY_ALIGNMENT, None).unwrap();
    // SAFETY: advice on a page of a region.
    let probed = unsafe {
        let page = probe.pointer().cast();
        libc::madvise(page, MEMORY_ALIGNMENT, libc::MADV_POPULATE_WRITE)
    };
    if probed != 0 {
        println!("SKIP: {}", std::io::Error::last_os_error());
        return;
    }
    let allocator = Arc::new(Counting::default());
    for own in [
        None,
        Some(Arc::clone(&allocator) as Arc<dyn RegionAllocator>),
    ] {
        let pool = BufferPool::new(0, own);
        let buffer = pool.take(32 * MIB).unwrap();
        buffer.touch_ahead();
        let is_touched = millstream_testing::wait_for(|| is_resident(buffer.base(), 32 * MIB));
        assert!(is_touched, "it is not touched");
        assert!(buffer.iter().all(|&byte| byte == 0));
        // One that goes while it is being touched.
        let other = pool.take(64 * MIB).unwrap();
        other.touch_ahead();
        drop((buffer, other, pool));
    }
    assert_eq!(allocator.out_bytes.load(SeqCst), 0);
}
