//! Thread settings on Windows: priorities for nice values, and affinity masks. The kinds of cores
//! are not determined, so [`Cores::Performance`] and [`Cores::Efficiency`] mean any core;
//! [`Scheduling::Batch`](super::Scheduling::Batch) has no effect.
#![expect(
    unsafe_code,
    reason = "sets the priority and the cores of the calling thread"
)]

use windows_sys::Win32::System::Threading::{
    GetCurrentThread, SetThreadAffinityMask, SetThreadPriority, THREAD_PRIORITY_ABOVE_NORMAL,
    THREAD_PRIORITY_BELOW_NORMAL, THREAD_PRIORITY_HIGHEST, THREAD_PRIORITY_LOWEST,
};

use super::{Cores, ThreadSettings};

/// A nice value at least this far from 0 gets `THREAD_PRIORITY_LOWEST` or `_HIGHEST`.
const NICE_FAR: i32 = 10;

/// Applies settings to the calling thread, the `index`-th of its kind.
pub(super) fn apply(settings: &ThreadSettings, index: usize) {
    let priority = match settings.nice {
        NICE_FAR.. => Some(THREAD_PRIORITY_LOWEST),
        1.. => Some(THREAD_PRIORITY_BELOW_NORMAL),
        0 => None,
        nice if nice > -NICE_FAR => Some(THREAD_PRIORITY_ABOVE_NORMAL),
        _ => Some(THREAD_PRIORITY_HIGHEST),
    };
    if let Some(priority) = priority {
        // SAFETY: passes the pseudo-handle of the calling thread and a number.
        unsafe { SetThreadPriority(GetCurrentThread(), priority) };
    }
    if let Cores::List(list) = &settings.cores
        && !list.is_empty()
        && let Some(mask) =
            1_usize.checked_shl(u32::try_from(list[index % list.len()]).unwrap_or(u32::MAX))
    {
        // SAFETY: as above.
        unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) };
    }
}
