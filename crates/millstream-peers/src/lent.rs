//! Memory lent to readers: tasks, threads, the kernel.
//!
//! Asynchronous interfaces want owned memory; the caller has borrowed memory. A [`Loan`] gives out
//! [`Room`]s, one for each read, each a disjoint part of the caller's memory that holds a reference
//! to the loan while it exists.
//!
//! # Safety
//! A `Room` points into a destination that the loan's owner has borrowed mutably. Rooms of a loan
//! never overlap: a [`Plan`] has been checked, and `take` gives each of its reads out once. The
//! loan's [`Lease`] is held inside the borrow, and its drop waits until every room is gone; if one
//! does not go, the process aborts, because to go on would be to free memory under a write. An
//! operation on a kernel ring owns its room, as it owns every buffer, until it has completed.
#![expect(
    unsafe_code,
    reason = "parts of a borrowed destination travel through interfaces that want owned memory"
)]

use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::named;
use crate::plan::{Plan, Read};

/// Maximum time that a lease waits for rooms still out after all reads should have ended. Tasks
/// that have reported their result may not have been dropped yet; that takes microseconds.
const RETURN_MAX: Duration = Duration::from_secs(10);

pub(crate) struct Loan {
    base: *mut u8,
    files: Arc<[PathBuf]>,
    reads: Arc<[Read]>,
    next: AtomicUsize,
    failed: Mutex<Option<io::Error>>,
}

// SAFETY: the pointer is only turned into rooms, which are disjoint; any thread may write memory.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

/// The loan's owner, which holds the mutable borrow.
pub(crate) struct Lease<'a> {
    loan: Arc<Loan>,
    destination: PhantomData<&'a mut [u8]>,
}

pub(crate) struct Room {
    pointer: *mut u8,
    len: usize,
    #[cfg(feature = "rust")]
    filled: usize,
    _loan: Arc<Loan>,
}

// SAFETY: a room is the only one that points to its bytes.
unsafe impl Send for Room {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Room {}

impl Loan {
    pub(crate) fn lend<'a>(plan: &Plan, destination: &'a mut [u8]) -> io::Result<Lease<'a>> {
        if destination.len() < plan.destination_len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the destination is smaller than its plan",
            ));
        }
        let (files, reads) = plan.shared();
        Ok(Lease {
            loan: Arc::new(Loan {
                base: destination.as_mut_ptr(),
                files,
                reads,
                next: AtomicUsize::new(0),
                failed: Mutex::new(None),
            }),
            destination: PhantomData,
        })
    }

    /// Returns the next read and its memory; `None` when all are taken, or after one has failed.
    pub(crate) fn take(self: &Arc<Loan>) -> Option<(Read, Room)> {
        let read = *self.reads.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        let room = Room {
            // SAFETY: the plan's places lie in the destination, whose length `lend` has checked.
            pointer: unsafe { self.base.add(read.place) },
            len: read.len as usize,
            #[cfg(feature = "rust")]
            filled: 0,
            _loan: Arc::clone(self),
        };
        Some((read, room))
    }

    pub(crate) fn path(&self, read: &Read) -> &Path {
        &self.files[read.file as usize]
    }

    /// Records the first failure; no read is taken after it.
    pub(crate) fn fail(&self, error: io::Error) {
        self.next.store(self.reads.len(), Ordering::Relaxed);
        self.failed().get_or_insert(error);
    }

    fn failed(&self) -> MutexGuard<'_, Option<io::Error>> {
        // The value is only ever set, so a panic elsewhere leaves it valid.
        self.failed
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

impl Lease<'_> {
    pub(crate) fn loan(&self) -> Arc<Loan> {
        Arc::clone(&self.loan)
    }

    /// Returns the first failure. Call after all workers have ended.
    pub(crate) fn finish(self) -> io::Result<()> {
        let failed = self.loan.failed().take();
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let start = Instant::now();
        while Arc::strong_count(&self.loan) > 1 {
            if start.elapsed() > RETURN_MAX {
                // Memory that a thread may still write to must not be reused.
                eprintln!("a rival keeps memory that it was lent; ending the process");
                std::process::abort();
            }
            std::thread::yield_now();
        }
    }
}

impl Room {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: see the module: the bytes are initialized, lent, and this room's alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// A system with reads in flight that reports their completions: a ring, a C library.
pub(crate) trait Flight<F> {
    /// Starts a read of `file` into memory that stays lent until the completion, which names the
    /// slot.
    fn begin(&mut self, slot: usize, file: F, read: &Read, to: *mut u8) -> io::Result<()>;

    /// Waits for a completion, and passes each completed slot with its outcome to `ended`.
    fn complete(&mut self, ended: &mut dyn FnMut(usize, io::Result<()>));

    fn is_pending(&self) -> bool;
}

/// Serves every read of a plan with up to `depth` in flight; `file_of` gives the file of each.
/// Returns the nanoseconds for which starting each read held the caller.
pub(crate) fn serve<F>(
    plan: &Plan,
    destination: &mut [u8],
    depth: usize,
    flight: &mut dyn Flight<F>,
    file_of: &mut dyn FnMut(&Path, &Read, usize) -> io::Result<F>,
) -> io::Result<Vec<u64>> {
    let lease = Loan::lend(plan, destination)?;
    let loan = lease.loan();
    let mut rooms: Vec<Option<(Read, Room)>> = (0..depth).map(|_| None).collect();
    let mut free: Vec<usize> = (0..depth).rev().collect();
    let mut held_ns = Vec::with_capacity(plan.reads().len());
    loop {
        while let Some(slot) = free.pop() {
            let Some((read, room)) = loan.take() else {
                break;
            };
            let begun = file_of(loan.path(&read), &read, slot).and_then(|file| {
                let start = Instant::now();
                let begun = flight.begin(slot, file, &read, room.pointer);
                held_ns.push(start.elapsed().as_nanos() as u64);
                begun
            });
            match begun {
                Ok(()) => rooms[slot] = Some((read, room)),
                Err(error) => loan.fail(named(error, loan.path(&read))),
            }
        }
        if !flight.is_pending() {
            break;
        }
        flight.complete(&mut |slot, result| {
            let (read, _room) = rooms[slot].take().expect("one completion for each read");
            free.push(slot);
            if let Err(error) = result {
                loan.fail(named(error, loan.path(&read)));
            }
        });
    }
    drop((rooms, loan));
    lease.finish().map(|()| held_ns)
}

/// compio's view of a room. The lender initialized its bytes; the length that compio sees is the
/// number of bytes read.
#[cfg(feature = "rust")]
mod owned {
    use std::mem::MaybeUninit;

    use compio::buf::{IoBuf, IoBufMut, SetLen};

    use super::Room;

    impl IoBuf for Room {
        fn as_init(&self) -> &[u8] {
            // SAFETY: as in `bytes`; `filled <= len` by `set_len`'s contract.
            unsafe { std::slice::from_raw_parts(self.pointer, self.filled) }
        }
    }

    impl IoBufMut for Room {
        fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
            // SAFETY: as in `bytes`; initialized bytes are valid as perhaps uninitialized ones, and
            // compio writes no uninitialized ones.
            unsafe { std::slice::from_raw_parts_mut(self.pointer.cast(), self.len) }
        }
    }

    impl SetLen for Room {
        unsafe fn set_len(&mut self, len: usize) {
            assert!(len <= self.len, "a length beyond the room");
            self.filled = len;
        }
    }
}
