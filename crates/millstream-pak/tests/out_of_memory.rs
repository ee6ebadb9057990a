//! Every allocation of some length that opening, looking up and decoding a package make fails once:
//! the call fails with an error, and nothing is leaked.
//!
//! The storage has no threads, so all that it allocates is counted on the thread of the test. Short
//! allocations do not fail here: their number and length do not depend on the package, and Rust
//! ends a process that cannot have them (`SECURITY.md`).
//!
//! # Safety
//! The allocator is the system's, but for some calls that it answers with null, as any allocator
//! may. The regions are zeroed, of the alignment that is asked for, and freed as they were
//! allocated.

#![expect(unsafe_code, reason = "an allocator that fails")]

#[path = "pak/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use millstream::{
    BlockSource, BlockTable, CodecId, Decode, QueueOptions, Read, RegionAllocator, Storage,
    StorageOptions,
};
use millstream_pak::{
    BatchOptions, Coding, ErrorKind, Item, PackOptions, Package, Result, visit, write_file,
};

millstream_testing::watch!();

/// Allocations from this length on may fail.
const FAILING_BYTES_MIN: usize = 8 << 10;

thread_local! {
    /// Which of the allocations to come fails; 0: none.
    static FAILS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that are allocated.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

struct Failing;

/// Counts an allocation, and says whether it is the one that fails.
fn fails(bytes: usize) -> bool {
    if bytes < FAILING_BYTES_MIN {
        return false;
    }
    let left = FAILS.get();
    FAILS.set(left.saturating_sub(1));
    left == 1
}

fn account(bytes: usize, pointer: *mut u8) -> *mut u8 {
    if !pointer.is_null() {
        LIVE.set(LIVE.get() + bytes.cast_signed());
    }
    pointer
}

// SAFETY: every call is the system allocator's, which keeps the contract, or fails.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promise is handed on.
        account(layout.size(), unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promise is handed on.
        account(layout.size(), unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if fails(bytes) {
            return null_mut();
        }
        // SAFETY: the caller's promise is handed on.
        let moved = unsafe { System.realloc(pointer, layout, bytes) };
        if !moved.is_null() {
            LIVE.set(LIVE.get() - layout.size().cast_signed());
        }
        account(bytes, moved)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size().cast_signed());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static FAILING: Failing = Failing;

/// Staging and buffers, from the allocator that fails.
struct Regions;

// SAFETY: the allocator returns zeroed, aligned memory that nothing else uses.
unsafe impl RegionAllocator for Regions {
    fn allocate(&self, len: usize, align: usize) -> *mut u8 {
        let layout = Layout::from_size_align(len, align).expect("lengths of the engine");
        // SAFETY: regions have a length.
        unsafe { std::alloc::alloc_zeroed(layout) }
    }

    unsafe fn free(&self, pointer: *mut u8, len: usize, align: usize) {
        let layout = Layout::from_size_align(len, align).expect("it was allocated so");
        // SAFETY: allocated above with this layout.
        unsafe { std::alloc::dealloc(pointer, layout) }
    }
}

fn storage() -> Storage {
    let mut options = StorageOptions::default();
    options.threads.pumped = true;
    options.retained_bytes = 0;
    options.staging_bytes = 1 << 20;
    options.block_bytes = 64 << 10;
    options.allocator = Some(Arc::new(Regions));
    Storage::new(options).expect("a storage")
}

/// A package with an entry of many blocks, and many entries with long names.
fn package(codec: CodecId, path: &Path) {
    let mut random = fastrand::Rng::with_seed(3);
    let mut items = vec![Item::from_bytes(
        "long",
        support::words(&mut random, 1 << 20),
    )];
    for nth in 0..2500 {
        let name = format!("{}/{nth}.txt", "folder".repeat(30));
        items.push(Item::from_bytes(name, support::words(&mut random, 300)));
    }
    let options = PackOptions {
        coding: Coding::Fixed(codec),
        block_bytes: Some(4096),
        ..PackOptions::default()
    };
    write_file(items, &options, path).expect("packed");
}

/// Opens, looks up, orders and loads; what was loaded is whole.
fn used(storage: &Storage, path: &Path) -> Result<()> {
    let package = Package::open(storage, path)?;
    package.preload()?;
    let found = package.lookup(b"long")?.expect("it is there");
    assert_eq!(found.raw_bytes, 1 << 20);
    package.storing(found.index)?;
    let all = package.matching(b"**")?;
    assert_eq!(all.len(), 2501);
    let queue = storage.queue(QueueOptions::default())?;
    let mut ticket = queue.submit(package.request(found.index)?)?;
    assert_eq!(ticket.wait()?.len(), 1 << 20);
    let mut failed = None;
    let options = BatchOptions::default();
    visit(&package, &queue, &all, &options, &mut |piece, loaded| {
        match loaded {
            Ok(bytes) => assert_eq!(bytes.len() as u64, piece.len),
            Err(error) => failed = Some(error),
        }
        ControlFlow::Continue(())
    });
    // What was read again for a neighbor may be on its way.
    queue.drain(None)?;
    failed.map_or(Ok(()), Err)
}

/// Lets allocation `nth` fail, and returns whether there were so many.
fn fail(storage: &Storage, path: &Path, nth: u64) -> bool {
    FAILS.set(nth);
    let outcome = used(storage, path);
    let reached = FAILS.replace(0) == 0;
    // What has another way does without.
    if let Err(error) = outcome {
        let text = error.to_string();
        assert!(
            reached && text.contains("memory"),
            "allocation {nth}: {text}"
        );
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "allocation {nth}");
        assert_eq!(error.path(), Some(path), "allocation {nth}: {text}");
    }
    // What was dropped is closed.
    while storage.pump() {}
    reached
}

fn every_allocation_fails(codec: CodecId) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.mpak");
    package(codec, &path);
    let storage = storage();
    for _ in 0..2 {
        assert!(!fail(&storage, &path, u64::MAX));
    }
    let mut nth = 1;
    while fail(&storage, &path, nth) {
        // The engine's lists may grow once, and are kept; what is leaked is leaked each time.
        let nothing_stays = (0..4).any(|_| {
            let live = LIVE.get();
            fail(&storage, &path, nth);
            LIVE.get() == live
        });
        assert!(nothing_stays, "allocation {nth} leaves memory each time");
        nth += 1;
    }
    assert!(nth > 40, "only {nth} allocations");
}

/// The bytes of another file.
struct Ones;

impl BlockSource for Ones {
    fn read_at(&self, _: u64, into: &mut [u8]) -> std::result::Result<(), millstream::Error> {
        into.fill(1);
        Ok(())
    }

    fn path(&self) -> Option<Arc<Path>> {
        None
    }
}

#[test]
fn a_block_of_another_file() {
    let storage = storage();
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let read = || {
        let mut table = BlockTable::new();
        table.push(CodecId::STORED, 0..16, 16);
        table.push(CodecId::STORED, 0..1 << 20, 1 << 20);
        table.external_block();
        let decode = Decode::table(table.external(Arc::new(Ones)));
        let read = Read::memory(Arc::from([1; 16])).decode(decode);
        queue.submit(read).expect("accepted").wait()
    };
    for _ in 0..2 {
        let bytes = read().expect("there is memory");
        assert!(bytes.len() == (1 << 20) + 16 && bytes.iter().all(|&byte| byte == 1));
    }
    let mut nth = 0;
    loop {
        nth += 1;
        FAILS.set(nth);
        let read = read();
        if FAILS.replace(0) > 0 {
            break;
        }
        if let Err(error) = read {
            assert_eq!(error.kind(), millstream::ErrorKind::OutOfMemory, "{error}");
        }
    }
    assert!(nth > 2, "only {nth} allocations");
}

#[test]
fn every_codec() {
    let encodes = |&codec: &CodecId| !millstream_codec::block_level_range(codec).is_empty();
    let all = CodecId::ALL.into_iter().filter(encodes);
    all.for_each(every_allocation_fails);
}
