//! What Windows reports about the machine, for limits and for diagnostics.
#![expect(unsafe_code, reason = "asks the system for numbers")]

use std::mem::size_of;
use std::time::Duration;

use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::SystemInformation::{
    GlobalMemoryStatusEx, MEMORYSTATUSEX, OSVERSIONINFOW,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

/// Returns the memory of the machine and the free part of it, in bytes.
pub(crate) fn memory() -> (u64, u64) {
    let mut status = MEMORYSTATUSEX {
        dwLength: size_of::<MEMORYSTATUSEX>() as u32,
        ..MEMORYSTATUSEX::default()
    };
    // SAFETY: the system writes one struct of the size passed.
    unsafe { GlobalMemoryStatusEx(&raw mut status) };
    (status.ullTotalPhys, status.ullAvailPhys)
}

/// Returns the processor time of all threads of this process.
pub(crate) fn processor_time() -> Duration {
    let mut times = [FILETIME::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: passes the pseudo-handle of this process; the system writes four structs.
    unsafe { GetProcessTimes(GetCurrentProcess(), created, ended, kernel, user) };
    let ticks =
        |time: FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos((ticks(times[2]) + ticks(times[3])) * 100)
}

/// Returns the version, as in `Windows 10.0.19045`.
pub(crate) fn version() -> String {
    let mut version = OSVERSIONINFOW {
        dwOSVersionInfoSize: size_of::<OSVERSIONINFOW>() as u32,
        ..OSVERSIONINFOW::default()
    };
    // SAFETY: the system writes one struct of the size passed.
    unsafe { RtlGetVersion(&raw mut version) };
    let (major, minor, build) = (
        version.dwMajorVersion,
        version.dwMinorVersion,
        version.dwBuildNumber,
    );
    format!("Windows {major}.{minor}.{build}")
}
