//! Objects and memory that the application owns, on its side of the border.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call that cannot fail; the default after a panic.
pub(crate) fn unharmed<T>(default: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(default)
}

/// An object on its way to the application.
pub(crate) fn owned<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Frees an object that came from [`owned`]; NULL is none.
///
/// # Safety
/// The pointer is NULL, or was returned by [`owned`] and is not used again.
pub(crate) unsafe fn take<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller's promise.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

/// Frees an object as [`take`] does, dropping it behind the border.
///
/// # Safety
/// As [`take`].
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    // SAFETY: the caller's promise.
    unharmed((), || drop(unsafe { take(pointer) }));
}

/// Sets what the application asks for, unless the pointer is NULL.
///
/// # Safety
/// The pointer is NULL, or valid for a write and not used otherwise.
pub(crate) unsafe fn give<T>(pointer: *mut T, value: T) {
    // SAFETY: the caller's promise.
    if let Some(to) = unsafe { pointer.as_mut() } {
        *to = value;
    }
}
