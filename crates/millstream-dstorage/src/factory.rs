//! `IDStorageFactory` and the queue of custom decompression, which is another interface of it.
//!
//! There is one factory for the process, in static memory: a pointer to it never dangles, and a
//! call after the last release fails with `E_DSTORAGE_NOT_RUNNING`. The last release closes the
//! storage, unless queues or files still use it; they close it then. `GLOBAL` owns the count of
//! references, the configuration and the storage, so that a release and `DStorageGetFactory` on
//! two threads do not cross.
#![expect(unsafe_code, reason = "implements methods on raw pointers")]

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, Weak};

use crate::abi::*;
use crate::com::{self, check_query, lock, methods};
use crate::runtime::{Configuration, Runtime};
use crate::vtables::{
    IDStorageCustomDecompressionQueue1Vtbl, IDStorageCustomDecompressionQueueVtbl,
    IDStorageFactoryVtbl, IUnknownVtbl,
};
use crate::{custom, file, log, queue, status, system};

const INTERFACES: &[GUID] = &[
    IID_IDStorageFactory,
    IID_IDStorageCustomDecompressionQueue,
    IID_IDStorageCustomDecompressionQueue1,
];

/// The two tables of the factory. The address of the first is its identity.
#[repr(C)]
struct Factory {
    factory: &'static IDStorageFactoryVtbl,
    custom: &'static IDStorageCustomDecompressionQueue1Vtbl,
}

const UNKNOWN: IUnknownVtbl = IUnknownVtbl {
    QueryInterface: query_interface,
    AddRef: add_ref,
    Release: release,
};

static FACTORY_TABLE: IDStorageFactoryVtbl = IDStorageFactoryVtbl {
    base: UNKNOWN,
    CreateQueue: create_queue,
    OpenFile: open_file,
    CreateStatusArray: create_status_array,
    SetDebugFlags: set_debug_flags,
    SetStagingBufferSize: set_staging_buffer_size,
};

static CUSTOM_TABLE: IDStorageCustomDecompressionQueue1Vtbl =
    IDStorageCustomDecompressionQueue1Vtbl {
        base: IDStorageCustomDecompressionQueueVtbl {
            base: UNKNOWN,
            GetEvent: get_event,
            GetRequests: get_requests,
            SetRequestResults: set_request_results,
        },
        GetRequests1: get_requests1,
    };

static FACTORY: Factory = Factory {
    factory: &FACTORY_TABLE,
    custom: &CUSTOM_TABLE,
};

struct Global {
    references: u32,
    configuration: Configuration,
    /// Held while the factory has references.
    runtime: Option<Arc<Runtime>>,
    /// The same, for as long as a queue or file holds it.
    last: Weak<Runtime>,
}

static GLOBAL: Mutex<Global> = Mutex::new(Global {
    references: 0,
    configuration: Configuration::DEFAULT,
    runtime: None,
    last: Weak::new(),
});

impl Global {
    /// Returns the storage, which is created if there is none.
    fn runtime(&mut self) -> Result<Arc<Runtime>, HRESULT> {
        if self.references == 0 {
            return Err(E_DSTORAGE_NOT_RUNNING);
        }
        if let Some(runtime) = &self.runtime {
            return Ok(Arc::clone(runtime));
        }
        let runtime = match self.last.upgrade() {
            Some(runtime) => runtime,
            None => Runtime::new(&self.configuration)?,
        };
        self.last = Arc::downgrade(&runtime);
        self.runtime = Some(Arc::clone(&runtime));
        Ok(runtime)
    }

    /// Changes the configuration of the storage that the next queue or file creates; fails while a
    /// queue or file is open. Returns the storage that is no longer used as well, to be dropped
    /// without the lock.
    fn change(
        &mut self,
        change: impl FnOnce(&mut Configuration),
    ) -> (HRESULT, Option<Arc<Runtime>>) {
        let runtime = self.runtime.take().or_else(|| self.last.upgrade());
        if runtime.as_ref().is_some_and(|it| it.has_users()) {
            if self.references > 0 {
                self.runtime.clone_from(&runtime);
            }
            return (E_DSTORAGE_STAGING_BUFFER_LOCKED, runtime);
        }
        self.last = Weak::new();
        change(&mut self.configuration);
        (S_OK, runtime)
    }
}

fn runtime() -> Result<Arc<Runtime>, HRESULT> {
    lock(&GLOBAL).runtime()
}

/// Sets the configuration; fails while a queue or a file is open.
pub(crate) fn configure(change: impl FnOnce(&mut Configuration)) -> HRESULT {
    let (result, unused) = lock(&GLOBAL).change(change);
    drop(unused);
    result
}

/// Stores the factory, with one more reference, in `out`.
///
/// # Safety
/// The pointers are null or valid.
pub(crate) unsafe fn get(iid: *const GUID, out: *mut *mut c_void) -> HRESULT {
    // SAFETY: as the caller promises.
    unsafe {
        let result = check_query(iid, out, INTERFACES);
        if result == S_OK {
            *out = interface(iid.read());
            count(1);
        }
        result
    }
}

/// Returns the pointer of an interface of the factory.
fn interface(iid: GUID) -> *mut c_void {
    let interface: *const c_void = match iid == IID_IUnknown || iid == IID_IDStorageFactory {
        true => std::ptr::from_ref(&FACTORY.factory).cast(),
        false => std::ptr::from_ref(&FACTORY.custom).cast(),
    };
    interface.cast_mut()
}

/// Adds to the references; returns how many there are. The last release closes the storage.
fn count(change: i32) -> u32 {
    if system::is_exiting() {
        return 0;
    }
    let mut global = lock(&GLOBAL);
    let before = global.references;
    // A release too many changes nothing.
    global.references = before.saturating_add_signed(change);
    let references = global.references;
    let closed = match references {
        0 => global.runtime.take(),
        _ => None,
    };
    drop(global);
    match (before, references) {
        (0, 1..) => log::line(|| String::from("factory created")),
        (1.., 0) => {
            log::line(|| String::from("factory released"));
            custom::close_event();
        }
        _ => {}
    }
    // Without the lock: it waits for the threads of the storage.
    drop(closed);
    references
}

methods! {
    fn query_interface(iid: *const GUID, out: *mut *mut c_void) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or valid pointers.
        unsafe { get(iid, out) }
    }

    fn add_ref() -> u32, or 0; {
        count(1)
    }

    fn release() -> u32, or 0; {
        count(-1)
    }

    fn create_queue(
        description: *const DSTORAGE_QUEUE_DESC,
        iid: *const GUID,
        out: *mut *mut c_void
    ) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or valid pointers.
        unsafe { queue::create(runtime, description, iid, out) }
    }

    fn open_file(
        path: *const u16,
        iid: *const GUID,
        out: *mut *mut c_void
    ) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or valid pointers.
        unsafe { file::open(runtime, path, iid, out) }
    }

    fn create_status_array(
        capacity: u32,
        _name: *const c_char,
        iid: *const GUID,
        out: *mut *mut c_void
    ) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or valid pointers.
        unsafe { status::create(capacity, iid, out) }
    }

    fn set_debug_flags(flags: u32) {
        log::set_flags(flags);
    }

    fn set_staging_buffer_size(size: u32) -> HRESULT, or E_FAIL; {
        let references = lock(&GLOBAL).references;
        match references {
            0 => E_DSTORAGE_NOT_RUNNING,
            _ => configure(|configuration| configuration.staging_bytes = size),
        }
    }

    fn get_event() -> HANDLE, or std::ptr::null_mut(); {
        custom::event()
    }

    fn get_requests(
        most: u32,
        requests: *mut DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST,
        count: *mut u32
    ) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or room for `most`.
        unsafe { take(DSTORAGE_GET_REQUEST_FLAG_SELECT_ALL, most, requests, count) }
    }

    fn get_requests1(
        flags: DSTORAGE_GET_REQUEST_FLAGS,
        most: u32,
        requests: *mut DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST,
        count: *mut u32
    ) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or room for `most`.
        unsafe { take(flags, most, requests, count) }
    }

    fn set_request_results(
        count: u32,
        results: *const DSTORAGE_CUSTOM_DECOMPRESSION_RESULT
    ) -> HRESULT, or E_FAIL; {
        let mut all_known = true;
        for at in 0..count as usize {
            // SAFETY: the caller passes null or an array of that many.
            let Some(result) = (unsafe { com::read(results.wrapping_add(at)) }) else {
                return E_POINTER;
            };
            all_known &= custom::finish(result.Id, result.Result);
        }
        match all_known {
            true => S_OK,
            false => E_INVALIDARG,
        }
    }
}

/// Stores requests that wait, and their number.
///
/// # Safety
/// The pointers are null or have room for `most` requests and the number.
unsafe fn take(
    flags: DSTORAGE_GET_REQUEST_FLAGS,
    most: u32,
    requests: *mut DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST,
    count: *mut u32,
) -> HRESULT {
    // SAFETY: as the caller promises.
    if unsafe { com::store(count, 0) } != S_OK || requests.is_null() && most > 0 {
        return E_POINTER;
    }
    if flags == 0 || flags & !DSTORAGE_GET_REQUEST_FLAG_SELECT_ALL != 0 {
        return E_INVALIDARG;
    }
    let taken = custom::take(flags, most as usize);
    for (at, request) in taken.iter().enumerate() {
        // SAFETY: no more than `most` were taken.
        unsafe { com::store(requests.add(at), *request) };
    }
    // SAFETY: as above.
    unsafe { com::store(count, taken.len() as u32) }
}
