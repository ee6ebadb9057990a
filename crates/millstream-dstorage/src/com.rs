//! COM objects: identity, reference counts, and the boundary that no panic crosses.
//!
//! An object is a box whose first field points to its table of methods. All interfaces of an object
//! are versions of one interface, so they share one pointer, which is also its identity. The state
//! of an object (a queue, a file, the statuses) is an `Arc`, which each call and the threads of the
//! library hold as long as they need it: releasing an object never frees what a thread still uses.
#![expect(unsafe_code, reason = "implements IUnknown on raw pointers")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windows::core::{IUnknown, Interface};

use crate::abi::{E_NOINTERFACE, E_POINTER, GUID, HRESULT, IID_IUnknown, S_OK};
use crate::registry::Registry;
use crate::vtables::IUnknownVtbl;
use crate::{log, system};

/// The state of an object.
pub(crate) trait Class: Sized + Send + Sync + 'static {
    /// The table of its most derived interface.
    type Vtable: 'static;

    /// Its interfaces, without `IUnknown`.
    const INTERFACES: &'static [GUID];

    const VTABLE: &'static Self::Vtable;

    /// Returns where its objects are listed, if the program passes them to methods.
    fn registry() -> Option<&'static Registry<Self>> {
        None
    }

    /// Called once the last reference of the object is released.
    fn released(&self) {}
}

#[repr(C)]
struct Object<T: Class> {
    vtable: &'static T::Vtable,
    references: AtomicU32,
    state: Arc<T>,
}

/// Returns the methods of `IUnknown` of an object.
pub(crate) const fn unknown<T: Class>() -> IUnknownVtbl {
    IUnknownVtbl {
        QueryInterface: query_interface::<T>,
        AddRef: add_ref::<T>,
        Release: release::<T>,
    }
}

/// Makes an object with one reference of what `make` returns, and stores it in `out`; null on
/// failure. Checks `iid` and `out` before it calls `make`.
///
/// # Safety
/// `iid` and `out` are null or valid.
pub(crate) unsafe fn create<T: Class>(
    iid: *const GUID,
    out: *mut *mut c_void,
    make: impl FnOnce() -> Result<Arc<T>, HRESULT>,
) -> HRESULT {
    // SAFETY: as the caller promises.
    let result = unsafe { check_query(iid, out, T::INTERFACES) };
    if result != S_OK {
        return result;
    }
    let state = match make() {
        Ok(state) => state,
        Err(error) => return error,
    };
    let object = Box::into_raw(Box::new(Object {
        vtable: T::VTABLE,
        references: AtomicU32::new(1),
        state: Arc::clone(&state),
    }));
    if let Some(registry) = T::registry() {
        registry.add(object.cast(), state);
    }
    // SAFETY: `check_query` wrote to it.
    unsafe { *out = object.cast() };
    S_OK
}

/// Stores null in `out`; fails unless `iid` is `IUnknown` or one of `known`.
///
/// # Safety
/// `iid` and `out` are null or valid.
pub(crate) unsafe fn check_query(
    iid: *const GUID,
    out: *mut *mut c_void,
    known: &[GUID],
) -> HRESULT {
    if out.is_null() {
        return E_POINTER;
    }
    // SAFETY: valid, as it is not null.
    unsafe { *out = std::ptr::null_mut() };
    // SAFETY: as above.
    match unsafe { iid.as_ref() } {
        None => E_POINTER,
        Some(iid) if *iid == IID_IUnknown || known.contains(iid) => S_OK,
        Some(_) => E_NOINTERFACE,
    }
}

/// Returns the state of an object.
///
/// # Safety
/// `this` is an object of this class with a reference.
pub(crate) unsafe fn state<T: Class>(this: *mut c_void) -> Arc<T> {
    // SAFETY: as the caller promises.
    Arc::clone(unsafe { &(*this.cast::<Object<T>>()).state })
}

unsafe extern "system" fn query_interface<T: Class>(
    this: *mut c_void,
    iid: *const GUID,
    out: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: the caller passes null or valid pointers, and an object that it holds.
    unsafe {
        let result = check_query(iid, out, T::INTERFACES);
        if result == S_OK {
            add_ref::<T>(this);
            *out = this;
        }
        result
    }
}

unsafe extern "system" fn add_ref<T: Class>(this: *mut c_void) -> u32 {
    // SAFETY: the caller holds the object.
    let object = unsafe { &*this.cast::<Object<T>>() };
    object.references.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release<T: Class>(this: *mut c_void) -> u32 {
    if system::is_exiting() {
        return 0;
    }
    // SAFETY: the caller holds the object.
    let object = unsafe { &*this.cast::<Object<T>>() };
    let before = object.references.fetch_sub(1, Ordering::Release);
    if before == 1 {
        // Pairs with the Release of the others that released it.
        fence(Ordering::Acquire);
        guard((), || {
            if let Some(registry) = T::registry() {
                registry.remove(this);
            }
            object.state.released();
            // SAFETY: the last reference is gone, so no other call may use the object.
            drop(unsafe { Box::from_raw(this.cast::<Object<T>>()) });
        });
    }
    before.wrapping_sub(1)
}

/// Declares functions that COM calls: each runs its body under [`guard`], and returns the value
/// after `or` if the body panics. With a class, the body has the state of the object.
macro_rules! methods {
    (
        $(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty, or $panicked:expr;)?
            $body:block)*
    ) => {
        $(unsafe extern "system" fn $name(
            _: *mut std::ffi::c_void $(, $argument: $kind)*
        ) $(-> $result)? {
            $crate::com::guard(($($panicked)?), || $body)
        })*
    };
    (
        $class:ty as $state:ident;
        $(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty, or $panicked:expr;)?
            $body:block)*
    ) => {
        $(unsafe extern "system" fn $name(
            this: *mut std::ffi::c_void $(, $argument: $kind)*
        ) $(-> $result)? {
            $crate::com::guard(($($panicked)?), || {
                // SAFETY: the caller holds the object.
                let $state = unsafe { $crate::com::state::<$class>(this) };
                $body
            })
        })*
    };
}
pub(crate) use methods;

/// Runs the body of a method. A panic, which must not unwind into the program, is logged, and
/// `otherwise` is returned.
pub(crate) fn guard<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let text = text.unwrap_or("no message");
            log::line(|| format!("a fault of the library: {text}"));
            otherwise
        }
    }
}

/// Locks what stays consistent even if a thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a reference to an object of the program; `None` for null, and for an object without the
/// interface.
///
/// # Safety
/// `object` is null, or a COM object that the caller holds.
pub(crate) unsafe fn query<T: Interface>(object: *mut c_void) -> Option<T> {
    // SAFETY: as the caller promises.
    unsafe { IUnknown::from_raw_borrowed(&object) }?.cast().ok()
}

/// Copies what a program passes a pointer to; `None` for null.
///
/// # Safety
/// `pointer` is null or readable.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: as the caller promises; programs do not always align.
    (!pointer.is_null()).then(|| unsafe { pointer.read_unaligned() })
}

/// Stores a result where the program asks for it.
///
/// # Safety
/// `place` is null or writable.
pub(crate) unsafe fn store<T>(place: *mut T, value: T) -> HRESULT {
    if place.is_null() {
        return E_POINTER;
    }
    // SAFETY: as the caller promises.
    unsafe { place.write_unaligned(value) };
    S_OK
}

#[cfg(test)]
mod tests {
    use super::guard;

    #[test]
    fn a_panic_is_a_result() {
        assert_eq!(guard(-1, || panic!("a fault")), -1);
        assert_eq!(guard(-1, || 5), 5);
    }
}
