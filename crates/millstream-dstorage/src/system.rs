//! What the process is doing: whether it ends, and whether the calling thread may wait for threads.
#![expect(unsafe_code, reason = "calls functions of ntdll")]

use windows_sys::Win32::System::Threading::GetCurrentThreadId;

#[link(name = "ntdll")]
unsafe extern "system" {
    safe fn RtlDllShutdownInProgress() -> u8;
    safe fn RtlGetCurrentPeb() -> *const u8;
}

/// Offset of `LoaderLock`, a pointer to a critical section, in the process environment block, and
/// that of `OwningThread` in a critical section. Both are those of all versions of 64-bit Windows.
const LOADER_LOCK_OFFSET: usize = 0x110;
const OWNING_THREAD_OFFSET: usize = 16;

/// Returns whether the process ends: the system has ended all other threads, whatever they held, so
/// nothing may be waited for and no lock may be taken.
pub(crate) fn is_exiting() -> bool {
    RtlDllShutdownInProgress() != 0
}

/// Returns whether the calling thread holds the loader lock, as in `DllMain` and in destructors of
/// static objects of a library that is freed. A thread cannot end meanwhile.
pub(crate) fn holds_loader_lock() -> bool {
    // SAFETY: the block and its lock exist as long as the process; other threads change the owner,
    // but not to or from this thread.
    let owner = unsafe {
        let lock = RtlGetCurrentPeb().add(LOADER_LOCK_OFFSET);
        let lock = lock.cast::<*const u8>().read();
        if lock.is_null() {
            return false;
        }
        lock.add(OWNING_THREAD_OFFSET)
            .cast::<usize>()
            .read_volatile()
    };
    // SAFETY: without arguments.
    owner == unsafe { GetCurrentThreadId() } as usize
}
