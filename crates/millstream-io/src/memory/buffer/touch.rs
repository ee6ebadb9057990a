//! A thread that touches fresh memory ahead of the reads into it.
//!
//! The first touch of a page costs more than reading its bytes. Direct reads touch their pages
//! while they are submitted, one after the other on one thread: at 2 GB/s into small pages that was
//! all it did, and the disk waited (4 GiB cold: 1177 MB/s; with this thread 1611 and 1657).
//!
//! The thread holds a region while it touches it, so nothing is unmapped under it, drops what
//! nobody else holds, and has ended when the pool is gone. Touching changes no bytes.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "advises the system on memory")
)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::fork::ForkGuard;
use crate::memory::region::Region;

/// Bytes that are touched at a time.
const PIECE_BYTES: usize = 4 << 20;

/// Starts its thread with the first region.
#[derive(Default)]
pub(super) struct Toucher {
    thread: Mutex<Option<Started>>,
}

struct Started {
    regions: Sender<Arc<Region>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    fork: ForkGuard,
}

impl Started {
    fn new() -> Option<Started> {
        let (regions, received) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let builder = Builder::new().name("ms-touch".into());
        let thread = builder.spawn(move || run(&received, &stopped)).ok()?;
        Some(Started {
            regions,
            stop,
            thread,
            fork: ForkGuard::new(),
        })
    }
}

impl Toucher {
    fn lock(&self) -> MutexGuard<'_, Option<Started>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a region touched from its first page on. Returns at once. Without a thread, or if the
    /// system cannot do it, the pages are touched by who uses them.
    pub(super) fn touch(&self, region: &Arc<Region>) {
        let mut thread = self.lock();
        if thread.is_none() {
            *thread = Started::new();
        }
        if let Some(started) = &*thread {
            let _ = started.regions.send(Arc::clone(region));
        }
    }

    /// Ends the thread, which then holds no region any more.
    pub(super) fn end(&self) {
        let started = self.lock().take();
        if let Some(started) = started {
            started.stop.store(true, Relaxed);
            drop(started.regions);
            // A forked child has no such thread.
            if !started.fork.is_child() {
                let _ = started.thread.join();
            }
        }
    }
}

fn run(regions: &Receiver<Arc<Region>>, stop: &AtomicBool) {
    while let Ok(region) = regions.recv() {
        let mut start = 0;
        while start < region.len() && Arc::strong_count(&region) > 1 && !stop.load(Relaxed) {
            let len = PIECE_BYTES.min(region.len() - start);
            if !touched(&region, start, len) {
                return;
            }
            start += len;
        }
    }
}

/// Touches a part of a region; whether the system can (Linux 5.14 and later).
#[cfg(target_os = "linux")]
fn touched(region: &Region, start: usize, len: usize) -> bool {
    let pointer = region.pointer().wrapping_add(start);
    // SAFETY: inside of a region that the caller holds; it changes no bytes.
    unsafe { libc::madvise(pointer.cast(), len, libc::MADV_POPULATE_WRITE) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn touched(_: &Region, _: usize, _: usize) -> bool {
    false
}
