//! The cursor over a stream's current buffer: the fast path of every call.
//!
//! `base` is the position in the stream of the memory's first byte, `at` the offset of the cursor
//! in it. A read is allowed up to `read_end`, a write up to `write_end`; where the mode does not
//! allow it, or the stream is closed or has failed, that end is 0, so that one comparison checks
//! state, mode and bounds together, and the slow path finds the reason. `at` serves both
//! directions, so that a stream of both modes has one position.
//!
//! The end for writes may be an [`Alarm`], which other threads set to 0: a write that completes or
//! fails in the background sends the writer's next call to the slow path. That costs each call one
//! more load, and no comparison.
//!
//! # Safety
//! `read_end` and `write_end` never exceed the memory's length: both are set through
//! [`Cursor::open`], which asserts it, and the memory is replaced or grown only through
//! [`Cursor::replace`] and [`Cursor::with_memory`], which set both to 0 first. Other threads can
//! only set `write_end` to 0. So the unchecked copies of `take` and `put` stay inside.
#![expect(
    unsafe_code,
    reason = "copies fixed numbers of bytes inside a bound that one comparison has checked"
)]

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use millstream::Buffer;

/// Memory under a cursor.
///
/// # Safety
/// `base` must be the start of `len` initialized bytes that belong to `self`, and that move or
/// change their number only through an exclusive reference to it.
pub(crate) unsafe trait Memory {
    fn base(&self) -> *const u8;
    fn base_mut(&mut self) -> *mut u8;
    fn len(&self) -> usize;
}

// SAFETY: a vector's bytes are its own.
unsafe impl Memory for Vec<u8> {
    #[inline(always)]
    fn base(&self) -> *const u8 {
        self.as_ptr()
    }
    #[inline(always)]
    fn base_mut(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }
    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }
}

// SAFETY: a buffer's memory is its own, `capacity` bytes from its base, all initialized.
unsafe impl Memory for Buffer {
    #[inline(always)]
    fn base(&self) -> *const u8 {
        Buffer::base(self)
    }
    #[inline(always)]
    fn base_mut(&mut self) -> *mut u8 {
        Buffer::base(self)
    }
    #[inline(always)]
    fn len(&self) -> usize {
        self.capacity()
    }
}

/// The end of the memory that may be written.
pub(crate) trait WriteEnd: Default {
    fn get(&self) -> usize;
    fn set(&mut self, end: usize);
}

impl WriteEnd for usize {
    #[inline(always)]
    fn get(&self) -> usize {
        *self
    }
    #[inline(always)]
    fn set(&mut self, end: usize) {
        *self = end;
    }
}

/// An end that becomes 0 when it is woken, on any thread.
#[derive(Default)]
pub(crate) struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Alarm>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Alarm>) {
        // Pairs with `set`.
        self.0.store(0, Ordering::Release);
    }
}

impl WriteEnd for Arc<Alarm> {
    #[inline(always)]
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
    /// After an earlier wake, what happened before that wake is visible; a later wake leaves 0. So
    /// a caller that sets an end and then checks the writes misses none.
    fn set(&mut self, end: usize) {
        self.0.swap(end, Ordering::AcqRel);
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Cursor<M, E = usize> {
    memory: M,
    base: u64,
    at: usize,
    read_end: usize,
    write_end: E,
}

impl<M: Memory, E: WriteEnd> Cursor<M, E> {
    /// Creates a cursor at `base`, closed for reads and writes.
    pub(crate) fn new(memory: M, base: u64) -> Cursor<M, E> {
        Cursor {
            memory,
            base,
            at: 0,
            read_end: 0,
            write_end: E::default(),
        }
    }

    /// The end for writes.
    pub(crate) fn write_end(&self) -> &E {
        &self.write_end
    }

    /// Position in the stream.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        // A window that begins within its buffer has a base before it, which may wrap below 0.
        self.base.wrapping_add(self.at as u64)
    }

    /// Position of the memory's first byte.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The end of the memory that may be read.
    pub(crate) fn read_end(&self) -> usize {
        self.read_end
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Allows reads and writes up to these ends.
    pub(crate) fn open(&mut self, read_end: usize, write_end: usize) {
        assert!(
            read_end <= self.memory.len() && write_end <= self.memory.len(),
            "the ends lie within the memory"
        );
        self.read_end = read_end;
        self.write_end.set(write_end);
    }

    /// Allows neither reads nor writes; the position stays.
    pub(crate) fn shut(&mut self) {
        self.read_end = 0;
        self.write_end.set(0);
    }

    /// Moves to byte `at` of memory that begins at `base` of the stream. Allows neither reads nor
    /// writes.
    pub(crate) fn go(&mut self, base: u64, at: usize) {
        self.shut();
        self.base = base;
        self.at = at;
    }

    /// Moves to a position if it lies in `bytes` of the memory; returns whether it does. The ends
    /// stay.
    pub(crate) fn seek_within(&mut self, bytes: RangeInclusive<usize>, position: u64) -> bool {
        match usize::try_from(position.wrapping_sub(self.base)) {
            Ok(at) if *bytes.end() > 0 && bytes.contains(&at) => {
                self.at = at;
                true
            }
            _ => false,
        }
    }

    /// Replaces the memory and returns the old one. Allows neither reads nor writes.
    pub(crate) fn replace(&mut self, memory: M, base: u64, at: usize) -> M {
        self.go(base, at);
        std::mem::replace(&mut self.memory, memory)
    }

    /// Calls `change` with the memory, to grow or change it. Then allows neither reads nor writes.
    pub(crate) fn with_memory<T>(&mut self, change: impl FnOnce(&mut M) -> T) -> T {
        self.shut();
        change(&mut self.memory)
    }

    /// Returns the next bytes, if all are in the memory.
    #[inline(always)]
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let at = self.at;
        if at + N > self.read_end {
            return None;
        }
        self.at = at + N;
        // SAFETY: at + N <= read_end <= the memory's length (module's Safety); `at` is far below
        // the largest number, so that the sum does not wrap.
        Some(unsafe {
            self.memory
                .base()
                .add(at)
                .cast::<[u8; N]>()
                .read_unaligned()
        })
    }

    /// Writes bytes, if there is room for all; returns whether there was.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        let at = self.at;
        if at + N > self.write_end.get() {
            return false;
        }
        self.at = at + N;
        // SAFETY: at + N <= write_end <= the memory's length, as in `take`.
        unsafe {
            let to = self.memory.base_mut().add(at);
            to.cast::<[u8; N]>().write_unaligned(*bytes);
        }
        true
    }

    /// The bytes that can be read without a refill.
    #[inline(always)]
    pub(crate) fn readable(&self) -> &[u8] {
        let len = self.read_end.saturating_sub(self.at);
        let at = if len == 0 { 0 } else { self.at };
        // SAFETY: at + len <= read_end <= the memory's length; the bytes are initialized.
        unsafe { std::slice::from_raw_parts(self.memory.base().add(at), len) }
    }

    /// The bytes that can be written without a flush.
    #[inline(always)]
    pub(crate) fn writable(&mut self) -> &mut [u8] {
        let len = self.write_end.get().saturating_sub(self.at);
        let at = if len == 0 { 0 } else { self.at };
        // SAFETY: as in `readable`; the exclusive borrow makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.memory.base_mut().add(at), len) }
    }

    /// Moves past `count` bytes of [`Cursor::readable`].
    #[inline(always)]
    pub(crate) fn advance(&mut self, count: usize) {
        assert!(
            count <= self.read_end.saturating_sub(self.at),
            "no more than what was shown"
        );
        self.at += count;
    }

    /// Copies what is readable, up to the length of `into`; returns how many bytes.
    #[inline]
    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        let from = self.readable();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        self.at += count;
        count
    }

    /// Copies as many bytes as there is room for; returns how many.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let to = self.writable();
        let count = to.len().min(bytes.len());
        to[..count].copy_from_slice(&bytes[..count]);
        self.at += count;
        count
    }
}
