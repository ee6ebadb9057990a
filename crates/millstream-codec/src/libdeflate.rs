//! The FFI to libdeflate: raw deflate, a whole block per call.
//!
//! # Safety
//! An [`Encoder`] or [`Decoder`] owns its C object from `new` to `drop` and never exposes it, so
//! the pointer is valid whenever a method runs. libdeflate's objects are not tied to a thread, and
//! every call takes `&mut self`, so moving them between threads is sound. Lengths and pointers
//! given to C come from one slice each; C writes only to the output slice and keeps no pointer.
#![expect(unsafe_code, reason = "the library is C; this file is its only user")]

use std::ffi::c_void;
use std::ptr::NonNull;

use libdeflate_sys as sys;

/// A compressor of one level.
pub(crate) struct Encoder {
    pointer: NonNull<sys::libdeflate_compressor>,
    pub(crate) level: i32,
}

// SAFETY: the object is owned and not tied to a thread (see the module's notes).
unsafe impl Send for Encoder {}

impl Encoder {
    /// Creates a compressor; `None` if out of memory, or if libdeflate has no such level.
    pub(crate) fn new(level: i32) -> Option<Encoder> {
        // SAFETY: any level is allowed; null is handled.
        let pointer = unsafe { sys::libdeflate_alloc_compressor(level) };
        NonNull::new(pointer).map(|pointer| Encoder { pointer, level })
    }

    /// Returns the maximum size of the encoding of `raw_bytes` bytes.
    pub(crate) fn bound(&mut self, raw_bytes: usize) -> usize {
        // SAFETY: the pointer is valid by the type's invariant.
        unsafe { sys::libdeflate_deflate_compress_bound(self.pointer.as_ptr(), raw_bytes) }
    }

    /// Encodes `raw` as one raw deflate stream; returns its size, `None` if `stored` is too small.
    pub(crate) fn encode(&mut self, raw: &[u8], stored: &mut [u8]) -> Option<usize> {
        // SAFETY: the pointer is valid by the type's invariant; the slices give pointers valid for
        // their lengths, the second for writes.
        let written = unsafe {
            sys::libdeflate_deflate_compress(
                self.pointer.as_ptr(),
                raw.as_ptr().cast::<c_void>(),
                raw.len(),
                stored.as_mut_ptr().cast::<c_void>(),
                stored.len(),
            )
        };
        assert!(written <= stored.len());
        (written > 0).then_some(written)
    }
}

/// A decompressor.
pub(crate) struct Decoder(NonNull<sys::libdeflate_decompressor>);

// SAFETY: the object is owned and not tied to a thread (see the module's notes).
unsafe impl Send for Decoder {}

impl Decoder {
    /// Creates a decompressor; `None` if out of memory.
    pub(crate) fn new() -> Option<Decoder> {
        // SAFETY: null is handled.
        NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() }).map(Decoder)
    }

    /// Decodes a raw deflate stream that is all of `stored`; returns the number of raw bytes.
    /// `None`: it is damaged, as far as libdeflate notices, or does not fit.
    pub(crate) fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Option<usize> {
        let (mut consumed, mut made) = (0, 0);
        // SAFETY: the pointer is valid by the type's invariant; the slices give pointers valid for
        // their lengths, the second for writes; the numbers outlive the call.
        let result = unsafe {
            sys::libdeflate_deflate_decompress_ex(
                self.0.as_ptr(),
                stored.as_ptr().cast::<c_void>(),
                stored.len(),
                raw.as_mut_ptr().cast::<c_void>(),
                raw.len(),
                &raw mut consumed,
                &raw mut made,
            )
        };
        let is_whole = result == sys::libdeflate_result_LIBDEFLATE_SUCCESS;
        (is_whole && consumed == stored.len() && made <= raw.len()).then_some(made)
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the object came from the matching allocation and is not used again.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: the object came from the matching allocation and is not used again.
        unsafe { sys::libdeflate_free_compressor(self.pointer.as_ptr()) }
    }
}
