//! Checks that memory that a program names can be accessed: worker threads write there later, where
//! a fault would end the process.
#![expect(unsafe_code, reason = "asks the system about pages")]

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_EXECUTE_READWRITE, PAGE_EXECUTE_WRITECOPY,
    PAGE_GUARD, PAGE_NOACCESS, PAGE_READWRITE, PAGE_WRITECOPY, VirtualQuery,
};

use crate::abi::{E_DSTORAGE_ACCESS_VIOLATION, HRESULT};

const WRITABLE: u32 =
    PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;

/// Checks that all pages of a range can be read, or also written. No pages always can.
pub(crate) fn check_memory(address: usize, len: u32, to_write: bool) -> Result<(), HRESULT> {
    let end = address.checked_add(len as usize);
    let (mut at, end) = (address, end.ok_or(E_DSTORAGE_ACCESS_VIOLATION)?);
    while at < end {
        at = region_end(at, to_write).ok_or(E_DSTORAGE_ACCESS_VIOLATION)?;
    }
    Ok(())
}

/// Returns where the accessible region ends that begins with or before an address.
fn region_end(at: usize, to_write: bool) -> Option<usize> {
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
    Some((pages.BaseAddress as usize).saturating_add(pages.RegionSize))
}
