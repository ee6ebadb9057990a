//! Opening a package and looking up a name allocate nothing per entry.
//!
//! # Safety
//! The allocator hands every call to the system's, unchanged.

#![expect(unsafe_code, reason = "an allocator that counts")]

#[path = "pak/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream::CodecId;
use millstream_pak::{Coding, Package};
use support::Bench;

millstream_testing::watch!();

static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every method is the system allocator's, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Calls and bytes of opening a package and looking one name up, all threads together.
fn opening(entries: usize) -> (u64, u64) {
    let bench = Bench::new();
    let name = |nth: usize| format!("folder/{}/{nth}", nth % 50);
    let contents: Vec<(String, Vec<u8>)> = (0..entries)
        .map(|nth| (name(nth), (nth as u32).to_le_bytes().to_vec()))
        .collect();
    let path = bench.pack("p.mpak", &contents, Coding::Fixed(CodecId::STORED));
    // The first one makes the engine's buffers and threads.
    drop(bench.open(&path));
    let before = (CALLS.load(Relaxed), BYTES.load(Relaxed));
    let package = Package::open(&bench.storage, &path).expect("a package");
    let found = package
        .lookup(name(entries / 2).as_bytes())
        .expect("looked up");
    let spent = (
        CALLS.load(Relaxed) - before.0,
        BYTES.load(Relaxed) - before.1,
    );
    assert_eq!(found.map(|entry| entry.raw_bytes), Some(4));
    spent
}

#[test]
fn opening_and_looking_up_allocate_nothing_per_entry() {
    let (few, many) = (opening(1000), opening(60_000));
    // A few more reads of a larger table; a word for each of its pages of 64 KiB.
    assert!(many.0 <= few.0 + 200, "{} calls, then {}", few.0, many.0);
    assert!(many.1 <= few.1 + 64_000, "{} bytes, then {}", few.1, many.1);
}
