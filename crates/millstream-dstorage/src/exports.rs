//! The four functions that the library exports.
#![expect(unsafe_code, reason = "exports functions that take raw pointers")]
#![expect(non_snake_case, reason = "the names are those of dstorage.h")]
#![expect(
    clippy::missing_safety_doc,
    reason = "pointers are null or valid, as the page of the crate says"
)]

use std::ffi::c_void;
use std::sync::Once;

use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};

use crate::abi::*;
use crate::com::{guard, read};
use crate::{codec, factory};

/// Returns the factory of the process, with one more reference.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DStorageGetFactory(
    riid: *const GUID,
    ppv: *mut *mut c_void,
) -> HRESULT {
    guard(E_FAIL, || {
        pin();
        // SAFETY: null or valid, as the page of the crate says.
        unsafe { factory::get(riid, ppv) }
    })
}

/// Sets the configuration; fails while a queue or a file is open.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DStorageSetConfiguration(
    configuration: *const DSTORAGE_CONFIGURATION,
) -> HRESULT {
    guard(E_FAIL, || {
        // SAFETY: null or valid, as the page of the crate says.
        let Some(new) = (unsafe { read(configuration) }) else {
            return E_INVALIDARG;
        };
        configure(new.NumBuiltInCpuDecompressionThreads, false)
    })
}

/// As [`DStorageSetConfiguration`], with one member more.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DStorageSetConfiguration1(
    configuration: *const DSTORAGE_CONFIGURATION1,
) -> HRESULT {
    guard(E_FAIL, || {
        // SAFETY: null or valid, as the page of the crate says.
        let Some(new) = (unsafe { read(configuration) }) else {
            return E_INVALIDARG;
        };
        if new.ForceFileBuffering != 0 && new.DisableBypassIO == 0 {
            return E_DSTORAGE_FILEBUFFERING_REQUIRES_DISABLED_BYPASSIO;
        }
        let threads = new.NumBuiltInCpuDecompressionThreads;
        configure(threads, new.ForceFileBuffering != 0)
    })
}

/// Sets what has a meaning here: submit threads, telemetry, bypass I/O and GPUs have none.
fn configure(threads: i32, buffered: bool) -> HRESULT {
    if threads < DSTORAGE_DISABLE_BUILTIN_CPU_DECOMPRESSION {
        return E_INVALIDARG;
    }
    factory::configure(|configuration| {
        configuration.workers = usize::try_from(threads).ok().filter(|count| *count > 0);
        configuration.builtin = threads != DSTORAGE_DISABLE_BUILTIN_CPU_DECOMPRESSION;
        configuration.buffered = buffered;
    })
}

/// Creates a codec that compresses and decompresses memory.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DStorageCreateCompressionCodec(
    format: DSTORAGE_COMPRESSION_FORMAT,
    numThreads: u32,
    riid: *const GUID,
    ppv: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: null or valid, as the page of the crate says.
    guard(E_FAIL, || unsafe {
        codec::create(format, numThreads, riid, ppv)
    })
}

/// Keeps the library loaded from now on: its threads may still run when the program frees it,
/// and a queue that is released completes what was submitted.
fn pin() {
    static PINNED: Once = Once::new();
    PINNED.call_once(|| {
        let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
        let mut module = std::ptr::null_mut();
        let address = pin as fn() as *const u16;
        // SAFETY: an address of this library, and memory for the answer. If it fails, the library
        // stays loaded until the program frees it.
        unsafe { GetModuleHandleExW(flags, address, &mut module) };
    });
}
