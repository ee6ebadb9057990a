//! Memory registered with the ring: the kernel pins it once instead of at each operation.
//!
//! Registered memory counts against RLIMIT_MEMLOCK, 8 MiB for an ordinary user, so registering is
//! best effort: up to 16 MiB of a region is tried, then halves of it from its start, then nothing.
//! Where the limit is known to apply, the first try is within it, because the kernel faults in all
//! pages before it counts.
//!
//! From 5.13 on the table is created sparse and filled later; before that, only the first region is
//! registered.

use std::sync::Arc;

use io_uring::IoUring;

use crate::device::Segment;
use crate::limits::{URING_REGION_BYTES_MAX, URING_REGION_BYTES_MIN, URING_REGIONS_MAX};
use crate::memory::Region;

const PAGE: usize = 4096;
/// Bit of CAP_IPC_LOCK in a capability set.
const CAP_IPC_LOCK: u64 = 1 << 14;

struct Piece {
    start: usize,
    len: usize,
    /// Keeps the memory alive while the kernel may use it.
    _region: Arc<Region>,
}

/// The table of registered memory.
pub(super) struct Registered {
    /// In the order of the kernel's table.
    pieces: Vec<Piece>,
    /// The kernel has no sparse table, or the mask hides it.
    fixed_table: bool,
    table_made: bool,
    /// Why the last region offered is registered in part or not at all; empty if neither.
    pub(super) why_not: &'static str,
}

impl Registered {
    pub(super) fn new(fixed_table: bool) -> Registered {
        Registered {
            pieces: Vec::with_capacity(URING_REGIONS_MAX),
            fixed_table,
            table_made: false,
            why_not: "nothing was offered",
        }
    }

    /// Returns the index of the registered piece that holds the whole segment.
    pub(super) fn index_of(&self, segment: &Segment) -> Option<u16> {
        let start = segment.pointer() as usize;
        let inside = |piece: &Piece| {
            start >= piece.start
                && segment.len() <= piece.len
                && start - piece.start <= piece.len - segment.len()
        };
        self.pieces
            .iter()
            .position(inside)
            .map(|index| index as u16)
    }

    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len).sum()
    }

    /// Registers as much of the region as the limits allow, and returns the number of bytes.
    /// `quiet`: nothing is in flight.
    pub(super) fn add(&mut self, ring: &IoUring, region: &Arc<Region>, quiet: bool) -> usize {
        if self.fixed_table && (self.table_made || !quiet) {
            self.why_not = "before Linux 5.13 only the first region can be registered, and only \
                            before anything is in flight";
            return 0;
        }
        if self.pieces.len() == URING_REGIONS_MAX {
            self.why_not = "the table of regions is full";
            return 0;
        }
        let whole = region.len().min(URING_REGION_BYTES_MAX);
        let mut len = whole.min(memlock_bytes());
        while len >= URING_REGION_BYTES_MIN {
            match self.try_register(ring, region.pointer() as usize, len) {
                Ok(()) => {
                    self.why_not = if len < whole {
                        "RLIMIT_MEMLOCK allows only a part"
                    } else {
                        ""
                    };
                    self.pieces.push(Piece {
                        start: region.pointer() as usize,
                        len,
                        _region: Arc::clone(region),
                    });
                    return len;
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                    len = (len / 2).next_multiple_of(PAGE);
                }
                Err(_) => {
                    self.why_not = "the kernel refused the memory";
                    return 0;
                }
            }
        }
        self.why_not = "RLIMIT_MEMLOCK is used up";
        0
    }

    fn try_register(&mut self, ring: &IoUring, start: usize, len: usize) -> std::io::Result<()> {
        let vector = libc::iovec {
            iov_base: start as *mut libc::c_void,
            iov_len: len,
        };
        let submitter = ring.submitter();
        if self.fixed_table {
            // SAFETY: the region is kept alive by a Piece as long as the ring is (dropped after it,
            // or leaked with it).
            unsafe { submitter.register_buffers(&[vector]) }?;
            self.table_made = true;
            return Ok(());
        }
        if !self.table_made {
            let empty = libc::iovec {
                iov_base: std::ptr::null_mut(),
                iov_len: 0,
            };
            let (table, tags) = ([empty; URING_REGIONS_MAX], [0; URING_REGIONS_MAX]);
            // SAFETY: empty entries register nothing.
            unsafe { submitter.register_buffers2(&table, &tags) }?;
            self.table_made = true;
        }
        let index = self.pieces.len() as u32;
        // SAFETY: as above.
        unsafe { submitter.register_buffers_update(index, &[vector], Some(&[0])) }
    }

    /// Leaks the regions.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.pieces));
    }
}

/// Returns the limit of RLIMIT_MEMLOCK in bytes, as far as it is known beforehand.
fn memlock_bytes() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    match limit.current {
        Some(bytes) if !may_lock_memory() => {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            bytes / PAGE * PAGE
        }
        _ => usize::MAX,
    }
}

/// Whether the process has CAP_IPC_LOCK, which lifts the limit. (In a user namespace this is true
/// although the limit applies; halving then finds the limit.)
fn may_lock_memory() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    set.is_some_and(|set| set & CAP_IPC_LOCK != 0)
}
