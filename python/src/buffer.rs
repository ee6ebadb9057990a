//! `Buffer`: memory of the library, shown through the buffer protocol without a copy.
//!
//! # Safety
//! A view that Python takes points into the memory, so the memory is neither dropped nor changed
//! while a view is out: `exports` counts them, and `release` refuses meanwhile.
#![expect(unsafe_code, reason = "the buffer protocol is made of raw pointers")]

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors;

/// What a buffer shows.
pub(crate) enum Memory {
    /// A buffer of its own, which may be written to.
    Own(millstream::Buffer),
    /// A part of what a request for several entries of a package has read.
    Part(millstream_pak::Loaded),
    /// A part of an expert in its slot.
    Expert(millstream_weights::Expert, usize),
}

/// Bytes that were read, in page-aligned memory of the library.
///
/// Offers the buffer protocol, so numpy, torch and memoryview see it without a copy:
/// `numpy.frombuffer(buffer, dtype)`. Its memory goes back to the pool with the last reference, or
/// at once with :meth:`release`.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Buffer {
    memory: Mutex<Option<Memory>>,
    exports: AtomicUsize,
}

impl Buffer {
    pub(crate) fn new(memory: Memory) -> Buffer {
        Buffer {
            memory: Mutex::new(Some(memory)),
            exports: AtomicUsize::new(0),
        }
    }

    /// First byte, length, and whether it is read-only.
    fn span(&self) -> Option<(*mut u8, usize, bool)> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match memory.as_mut()? {
            Memory::Own(buffer) => (buffer.as_mut_ptr(), buffer.len(), false),
            Memory::Part(part) => (part.as_ptr().cast_mut(), part.len(), true),
            Memory::Expert(expert, nth) => {
                let part = expert.part(*nth);
                (part.as_ptr().cast_mut(), part.len(), true)
            }
        })
    }

    fn live(&self, py: Python<'_>) -> PyResult<(*mut u8, usize, bool)> {
        let released = || errors::simple(py, "released", "the buffer was released");
        self.span().ok_or_else(released)
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.live(py).map(|(_, len, _)| len)
    }

    /// Length in bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.__len__(py)
    }

    /// Address of the first byte.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<usize> {
        self.live(py).map(|(pointer, _, _)| pointer.addr())
    }

    /// Whether views of it cannot be written to.
    #[getter]
    fn readonly(&self, py: Python<'_>) -> PyResult<bool> {
        self.live(py).map(|(_, _, readonly)| readonly)
    }

    /// Whether it was released.
    #[getter]
    fn released(&self) -> bool {
        self.span().is_none()
    }

    /// Gives the memory back to the pool. Does nothing if it was released before.
    ///
    /// Raises BufferError while views of it exist, and Closed on later use.
    /// A tensor of `torch.frombuffer` holds the buffer, but no view of it: do not use the tensor
    /// after the release, nor after the `with` block of the buffer.
    fn release(&self) -> PyResult<()> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if self.exports.load(Ordering::Acquire) > 0 {
            let cause = "the buffer cannot be released while views of it exist";
            return Err(PyBufferError::new_err(cause));
        }
        drop(memory.take());
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.release()
    }

    /// The bytes as an object of their own: a copy.
    fn __bytes__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().live(slf.py())?;
        let view = slf
            .py()
            .import("builtins")?
            .getattr("memoryview")?
            .call1((slf,))?;
        view.call_method0("tobytes")
    }

    fn __repr__(&self) -> String {
        match self.span() {
            Some((_, len, _)) => format!("<millstream.Buffer of {len} bytes>"),
            None => String::from("<millstream.Buffer, released>"),
        }
    }

    // SAFETY: called by the interpreter with a view to fill; see the module.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let own = slf.get();
        // Counted before the memory is looked at: `release` looks at the count under the lock.
        own.exports.fetch_add(1, Ordering::AcqRel);
        let filled = own.live(slf.py()).and_then(|(pointer, len, readonly)| {
            let len = isize::try_from(len).expect("no memory is longer");
            let (object, readonly) = (slf.as_ptr(), c_int::from(readonly));
            // SAFETY: `view` is the interpreter's; the memory stays while `exports` is not zero.
            let status = unsafe {
                ffi::PyBuffer_FillInfo(view, object, pointer.cast(), len, readonly, flags)
            };
            match status {
                0 => Ok(()),
                _ => Err(PyErr::fetch(slf.py())),
            }
        });
        if filled.is_err() {
            own.exports.fetch_sub(1, Ordering::AcqRel);
        }
        filled
    }

    // SAFETY: called by the interpreter, once for each view that was filled.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.exports.fetch_sub(1, Ordering::AcqRel);
    }
}
