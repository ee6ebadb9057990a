//! Settings of threads on Windows: priorities for nice values, and sets of cores by number. Which
//! cores are fast is not looked up, so [`Cores::Performance`] and [`Cores::Efficiency`] are any
//! core; there is no [`Scheduling::Batch`](super::Scheduling::Batch).
#![expect(
    unsafe_code,
    reason = "sets the priority and the cores of the calling thread"
)]

use windows_sys::Win32::System::Threading::{
    GetCurrentThread, SetThreadAffinityMask, SetThreadPriority, THREAD_PRIORITY_ABOVE_NORMAL,
    THREAD_PRIORITY_BELOW_NORMAL, THREAD_PRIORITY_HIGHEST, THREAD_PRIORITY_LOWEST,
};

use super::{Cores, ThreadSettings};

/// From this nice value on, in both directions, a thread gets the further of two priorities.
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
