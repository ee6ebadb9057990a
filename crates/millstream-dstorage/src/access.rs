//! Whether memory that a program names can be accessed: threads of the library write there later,
//! where a fault would end the process.
//!
//! Wine looks at each page up to the end of a region: 16 µs for 1 GiB. So the answer for a large
//! region is kept for some milliseconds, in which a program that frees it is not noticed.
#![expect(unsafe_code, reason = "asks the system about pages")]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_EXECUTE_READWRITE, PAGE_EXECUTE_WRITECOPY,
    PAGE_GUARD, PAGE_NOACCESS, PAGE_READWRITE, PAGE_WRITECOPY, VirtualQuery,
};

use crate::com::lock;

const WRITABLE: u32 =
    PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;

/// Least bytes of a large region, and how long its answer is kept.
const LARGE_BYTES: usize = 16 << 20;
const KEPT: Duration = Duration::from_millis(10);

/// The last large region that can be written: its pages, and when that was known.
static LARGE: Mutex<Option<(usize, usize, Instant)>> = Mutex::new(None);

/// Returns whether all pages of a range can be read, or also written. No pages can always be.
pub(crate) fn is_accessible(address: usize, len: usize, to_write: bool) -> bool {
    let Some(end) = address.checked_add(len) else {
        return false;
    };
    let mut at = address;
    while at < end {
        match region_end(at, to_write) {
            Some(region_end) => at = region_end,
            None => return false,
        }
    }
    true
}

/// Returns where the accessible region ends that begins with or before an address.
fn region_end(at: usize, to_write: bool) -> Option<usize> {
    if let Some((start, end, since)) = *lock(&LARGE)
        && (start..end).contains(&at)
        && since.elapsed() < KEPT
    {
        return Some(end);
    }
    let mut pages = MEMORY_BASIC_INFORMATION::default();
    let room = size_of::<MEMORY_BASIC_INFORMATION>();
    // SAFETY: any address may be asked for; `pages` has room for the answer.
    let answered = unsafe { VirtualQuery(at as *const _, &mut pages, room) };
    let is_writable = pages.Protect & WRITABLE != 0;
    if answered == 0
        || pages.State != MEM_COMMIT
        || to_write && !is_writable
        || pages.Protect & (PAGE_NOACCESS | PAGE_GUARD) != 0
    {
        return None;
    }
    let start = pages.BaseAddress as usize;
    let end = start.saturating_add(pages.RegionSize);
    if is_writable && end - start >= LARGE_BYTES {
        *lock(&LARGE) = Some((start, end, Instant::now()));
    }
    Some(end)
}
