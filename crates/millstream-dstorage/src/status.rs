//! `IDStorageStatusArray`.
#![expect(unsafe_code, reason = "implements methods on raw pointers")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::abi::*;
use crate::com::{self, Class, methods, unknown};
use crate::registry::Registry;
use crate::vtables::IDStorageStatusArrayVtbl;

/// Most entries of an array: far more than all queues hold entries.
const CAPACITY_MAX: u32 = 1 << 24;

static ARRAYS: Registry<Statuses> = Registry::new();

/// The entries of a status array. They begin as complete: an entry may be enqueued while it is.
pub(crate) struct Statuses(Box<[AtomicI32]>);

impl Statuses {
    /// Returns the entries of an `IDStorageStatusArray`, for an index that it has.
    pub(crate) fn find(object: *mut c_void, index: u32) -> Result<Arc<Statuses>, HRESULT> {
        let array = ARRAYS.find(object).ok_or(E_DSTORAGE_INVALID_STATUS_ARRAY)?;
        match array.0.get(index as usize) {
            Some(_) => Ok(array),
            None => Err(E_DSTORAGE_INDEX_BOUND),
        }
    }

    fn new(capacity: u32) -> Result<Statuses, HRESULT> {
        let mut entries = Vec::new();
        match capacity {
            0 => return Err(E_INVALIDARG),
            1..=CAPACITY_MAX => {}
            _ => return Err(E_OUTOFMEMORY),
        }
        let reserved = entries.try_reserve_exact(capacity as usize);
        reserved.map_err(|_| E_OUTOFMEMORY)?;
        entries.resize_with(capacity as usize, || AtomicI32::new(S_OK));
        Ok(Statuses(entries.into()))
    }

    /// Stores a result. Release: what the requests before it wrote is visible to whoever sees it.
    pub(crate) fn set(&self, index: u32, result: HRESULT) {
        self.0[index as usize].store(result, Ordering::Release);
    }

    fn get(&self, index: u32) -> HRESULT {
        let entry = self.0.get(index as usize);
        entry.map_or(E_DSTORAGE_INDEX_BOUND, |it| it.load(Ordering::Acquire))
    }
}

impl Class for Statuses {
    type Vtable = IDStorageStatusArrayVtbl;

    const INTERFACES: &'static [GUID] = &[IID_IDStorageStatusArray];

    const VTABLE: &'static IDStorageStatusArrayVtbl = &IDStorageStatusArrayVtbl {
        base: unknown::<Statuses>(),
        IsComplete: is_complete,
        GetHResult: get_hresult,
    };

    fn registry() -> Option<&'static Registry<Statuses>> {
        Some(&ARRAYS)
    }
}

/// `IDStorageFactory::CreateStatusArray`.
///
/// # Safety
/// The pointers are null or valid.
pub(crate) unsafe fn create(capacity: u32, iid: *const GUID, out: *mut *mut c_void) -> HRESULT {
    // SAFETY: as the caller promises.
    unsafe { com::create(iid, out, || Statuses::new(capacity).map(Arc::new)) }
}

methods! { Statuses as statuses;
    fn is_complete(index: u32) -> bool, or true; {
        statuses.get(index) != E_PENDING
    }

    fn get_hresult(index: u32) -> HRESULT, or E_FAIL; {
        statuses.get(index)
    }
}
