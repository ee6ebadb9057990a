//! Memory of Python objects as memory of requests.
//!
//! A [`Lent`] holds an exported buffer (`Py_buffer`), so the exporter can neither free nor resize
//! the memory before the engine has dropped it. The engine drops it on any of its threads, which
//! must not wait for the interpreter: the export goes into a lock-free list, and the next call into
//! this module that holds the interpreter releases it. Memory that the system still holds when a
//! storage closes is never dropped by the engine, and thus never released.
//!
//! # Safety
//! A `Py_buffer` is released once, by a thread that is attached to the interpreter. The memory
//! under it is plain bytes that Python code can change meanwhile, as with `readinto`: what such
//! code reads is unspecified, but it is memory of the exporter.
#![expect(
    unsafe_code,
    reason = "exports of the buffer protocol are raw pointers"
)]

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use millstream::{Destination, Place};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// An exported buffer, in a list of those to be released.
struct Export {
    view: ffi::Py_buffer,
    next: *mut Export,
}

/// Exports that the engine has dropped. A list, because a lock could be held by another thread
/// while the process forks.
static DROPPED: AtomicPtr<Export> = AtomicPtr::new(ptr::null_mut());

/// Memory of a Python object, kept in place for a request.
pub(crate) struct Lent(NonNull<Export>);

// SAFETY: the export is only read until it is dropped, and released by an attached thread.
unsafe impl Send for Lent {}

impl Lent {
    /// Exports the memory of an object: contiguous, and writable if `writable`.
    pub(crate) fn of(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Lent> {
        let flags: c_int = if writable {
            ffi::PyBUF_WRITABLE
        } else {
            ffi::PyBUF_SIMPLE
        };
        let mut export = Box::new(Export {
            view: ffi::Py_buffer::new(),
            next: ptr::null_mut(),
        });
        // SAFETY: the object is alive and this thread attached; the view has a stable address, as
        // some exporters keep it.
        let status = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut export.view, flags) };
        if status != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let lent = Lent(NonNull::from(Box::leak(export)));
        match lent.len() {
            Some(_) => Ok(lent),
            None => Err(PyBufferError::new_err(
                "the object exports a negative length",
            )),
        }
    }

    fn view(&self) -> &ffi::Py_buffer {
        // SAFETY: the export lives as long as this value, which has its only pointer.
        unsafe { &self.0.as_ref().view }
    }

    fn len(&self) -> Option<usize> {
        usize::try_from(self.view().len).ok()
    }

    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len().unwrap_or(0)
    }

    /// The bytes, copied.
    pub(crate) fn to_vec(&self, _attached: Python<'_>) -> Vec<u8> {
        let (pointer, len) = (self.view().buf.cast::<u8>(), self.bytes());
        if len == 0 {
            return Vec::new();
        }
        // SAFETY: an export names valid memory of its length. This thread is attached, so no other
        // Python code runs; memory that a request changes meanwhile gives unspecified bytes.
        unsafe { std::slice::from_raw_parts(pointer, len) }.to_vec()
    }
}

// SAFETY: an export names the same memory until it is released, which happens after the drop. That
// other code does not use it meanwhile is up to the caller of `read`, as the documentation says;
// code that does sees unspecified bytes, and nothing here depends on them.
unsafe impl Destination for Lent {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.view().buf.cast(),
            len: self.bytes(),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let export = self.0.as_ptr();
        let mut head = DROPPED.load(Ordering::Relaxed);
        loop {
            // SAFETY: the export belongs to this value until it is in the list.
            unsafe { (*export).next = head };
            match DROPPED.compare_exchange_weak(head, export, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

/// Releases the exports that the engine has dropped. Costs one load if there is none.
pub(crate) fn release_dropped(_attached: Python<'_>) {
    if DROPPED.load(Ordering::Relaxed).is_null() {
        return;
    }
    let mut next = DROPPED.swap(ptr::null_mut(), Ordering::Acquire);
    while !next.is_null() {
        // SAFETY: `Lent::of` made it as a box, and the swap made this thread its only owner.
        let mut export = unsafe { Box::from_raw(next) };
        next = export.next;
        // SAFETY: this thread is attached, and the export is released nowhere else.
        unsafe { ffi::PyBuffer_Release(&mut export.view) };
    }
}
