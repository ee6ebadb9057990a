//! The destination that every contender gets: backed by huge pages, touched before the first run,
//! and recycled from run to run.
//!
//! Fresh pages cost more than the read itself (100 MiB into fresh 4 KiB pages: 28 ms of processor
//! time; into recycled huge pages: 1.4 ms), so a contender with a policy of its own would be
//! measured by its memory instead of its reads. One region therefore serves all contenders of a
//! case in turn.
//!
//! Contenders that lend it to the kernel wait for every operation before their borrow ends; the
//! rings of `millstream-peers` do so when their reads in flight are dropped.
#![expect(unsafe_code, reason = "calls malloc_trim")]

use std::ops::{Deref, DerefMut, Range};

use memmap2::{Advice, MmapMut};

use crate::error::{Context, Error, Result};

/// Size of a huge page on x86-64 and (with 4 KiB pages) aarch64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Gives free memory of the C library's heap to the system, so that new memory has fresh pages.
pub(crate) fn trim_heap() {
    // SAFETY: it releases only memory that is free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Returns what `work` does, and the MiB by which it raised the resident memory of the process at
/// its peak.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> Result<(T, f64)> {
    let resident = |key: &str| {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.ok_or_else(|| Error::new(format!("the system reports no {key}")))
    };
    trim_heap();
    let before = resident("VmRSS:")?;
    // Makes the peak what is resident now.
    std::fs::write("/proc/self/clear_refs", "5").what("reset the peak of memory")?;
    let done = work();
    Ok((done, (resident("VmHWM:")? - before) / 1024.0))
}

/// Recycled, pre-faulted memory for results, aligned to a huge page.
pub(crate) struct Destination {
    /// One huge page longer than the part shown, so that this can be aligned.
    mapping: MmapMut,
    shown: Range<usize>,
}

impl Destination {
    /// Allocates at least `len` bytes, zeroed and touched.
    pub(crate) fn new(len: usize) -> Result<Destination> {
        let len = len.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        let mapping = MmapMut::map_anon(len + HUGE_PAGE_BYTES)
            .what(&format!("map {len} bytes for results"))?;
        // If huge pages are disabled the advice fails, and every contender gets small pages.
        let _ = mapping.advise(Advice::HugePage);
        let start = mapping.as_ptr().addr().next_multiple_of(HUGE_PAGE_BYTES);
        let start = start - mapping.as_ptr().addr();
        let shown = start..start + len;
        let mut destination = Destination { mapping, shown };
        destination.fill(0);
        Ok(destination)
    }
}

impl Deref for Destination {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.mapping[self.shown.clone()]
    }
}

impl DerefMut for Destination {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.mapping[self.shown.clone()]
    }
}
