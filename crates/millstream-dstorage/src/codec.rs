//! `IDStorageCompressionCodec`.
//!
//! Both directions pass through memory of the library where the format's encoder needs it, so a
//! call writes to the program's buffer only what fits.
#![expect(unsafe_code, reason = "implements methods on raw pointers")]

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use gdeflate::Level;
use millstream_codec::{
    CodecErrorKind, CodecId, Scratch, declared_raw_len, decode_block, default_level, encode_block,
};

use crate::abi::*;
use crate::com::{self, Class, lock, methods, unknown};
use crate::memory::codec_of;
use crate::vtables::IDStorageCompressionCodecVtbl;

const ERROR_INSUFFICIENT_BUFFER: HRESULT = hresult_from_win32(122);

/// Most threads of a codec.
const THREADS_MAX: usize = 256;

struct CompressionCodec {
    codec: CodecId,
    threads: usize,
    /// The documentation asks for one codec a thread; the lock makes a violation slow, not wrong.
    scratch: Mutex<Scratch>,
}

impl Class for CompressionCodec {
    type Vtable = IDStorageCompressionCodecVtbl;

    const INTERFACES: &'static [GUID] = &[IID_IDStorageCompressionCodec];

    const VTABLE: &'static IDStorageCompressionCodecVtbl = &IDStorageCompressionCodecVtbl {
        base: unknown::<CompressionCodec>(),
        CompressBuffer: compress_buffer,
        DecompressBuffer: decompress_buffer,
        CompressBufferBound: compress_buffer_bound,
    };
}

/// `DStorageCreateCompressionCodec`.
///
/// # Safety
/// The pointers are null or valid.
pub(crate) unsafe fn create(
    format: DSTORAGE_COMPRESSION_FORMAT,
    threads: u32,
    iid: *const GUID,
    out: *mut *mut c_void,
) -> HRESULT {
    let make = || {
        let codec = codec_of(format).ok_or(E_INVALIDARG)?;
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads as usize,
        };
        Ok(Arc::new(CompressionCodec {
            codec,
            threads: threads.min(THREADS_MAX),
            scratch: Mutex::default(),
        }))
    };
    // SAFETY: as the caller promises.
    unsafe { com::create(iid, out, make) }
}

impl CompressionCodec {
    fn compress(&self, raw: &[u8], setting: DSTORAGE_COMPRESSION) -> Result<Vec<u8>, HRESULT> {
        let (gdeflate_level, level) = match setting {
            DSTORAGE_COMPRESSION_FASTEST => (Level::FASTEST, 1),
            DSTORAGE_COMPRESSION_DEFAULT => (Level::DEFAULT, default_level(self.codec)),
            DSTORAGE_COMPRESSION_BEST_RATIO => (Level::BEST_RATIO, 19),
            _ => return Err(E_INVALIDARG),
        };
        if self.codec == CodecId::GDEFLATE {
            let compressed = gdeflate::compress(raw, gdeflate_level, self.threads);
            return compressed.map_err(|_| E_INVALIDARG);
        }
        let mut compressed = Vec::new();
        let mut scratch = lock(&self.scratch);
        match encode_block(self.codec, level, &mut scratch, raw, &mut compressed) {
            Ok(()) => Ok(compressed),
            Err(error) if error.kind == CodecErrorKind::OutOfMemory => Err(E_OUTOFMEMORY),
            Err(_) => Err(E_NOTIMPL),
        }
    }

    fn decompress(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, HRESULT> {
        // A header that declares more than the buffer has room for is no error of the data.
        if let Some(declared) = declared_raw_len(self.codec, stored, stored.len() as u64)
            && declared > raw.len() as u64
        {
            return Err(ERROR_INSUFFICIENT_BUFFER);
        }
        let decoded = decode_block(self.codec, &mut lock(&self.scratch), stored, raw);
        decoded.map_err(|error| match error.kind {
            CodecErrorKind::OutOfMemory => E_OUTOFMEMORY,
            _ => E_DSTORAGE_DECOMPRESSION_ERROR,
        })
    }

    fn bound(&self, raw_len: usize) -> usize {
        match self.codec {
            CodecId::GDEFLATE => gdeflate::compress_bound(raw_len),
            // A frame header, and 3 bytes a block of 128 KiB, as zstd's own bound covers.
            _ => raw_len.saturating_add(raw_len >> 8).saturating_add(512),
        }
    }
}

/// Returns the bytes of a buffer of the program; `None` if it is null and not empty, or longer than
/// any memory.
///
/// # Safety
/// The buffer is null or readable, and is not written to during the call.
unsafe fn bytes<'a>(address: *const c_void, len: usize) -> Option<&'a [u8]> {
    match len {
        0 => Some(&[]),
        _ if address.is_null() || isize::try_from(len).is_err() => None,
        // SAFETY: as the caller promises.
        _ => Some(unsafe { std::slice::from_raw_parts(address.cast(), len) }),
    }
}

/// Returns the buffer for a result; `None` as for [`bytes`].
///
/// # Safety
/// The buffer is null or writable, and nothing else uses it during the call.
unsafe fn bytes_mut<'a>(address: *mut c_void, len: usize) -> Option<&'a mut [u8]> {
    match len {
        0 => Some(&mut []),
        _ if address.is_null() || isize::try_from(len).is_err() => None,
        // SAFETY: as the caller promises.
        _ => Some(unsafe { std::slice::from_raw_parts_mut(address.cast(), len) }),
    }
}

methods! { CompressionCodec as codec;
    fn compress_buffer(
        raw: *const c_void,
        raw_len: usize,
        setting: DSTORAGE_COMPRESSION,
        buffer: *mut c_void,
        buffer_len: usize,
        written: *mut usize
    ) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or buffers of these lengths.
        let (raw, buffer, stored) = unsafe {
            (bytes(raw, raw_len), bytes_mut(buffer, buffer_len), com::store(written, 0))
        };
        let (Some(raw), Some(buffer), S_OK) = (raw, buffer, stored) else {
            return E_INVALIDARG;
        };
        let compressed = match codec.compress(raw, setting) {
            Ok(compressed) => compressed,
            Err(error) => return error,
        };
        let Some(written_to) = buffer.get_mut(..compressed.len()) else {
            return ERROR_INSUFFICIENT_BUFFER;
        };
        written_to.copy_from_slice(&compressed);
        // SAFETY: as above.
        unsafe { com::store(written, compressed.len()) }
    }

    fn decompress_buffer(
        stored: *const c_void,
        stored_len: usize,
        buffer: *mut c_void,
        buffer_len: usize,
        written: *mut usize
    ) -> HRESULT, or E_FAIL; {
        // SAFETY: the caller passes null or buffers of these lengths.
        let (bytes, raw, zero) = unsafe {
            (bytes(stored, stored_len), bytes_mut(buffer, buffer_len), com::store(written, 0))
        };
        let (Some(bytes), Some(raw), S_OK) = (bytes, raw, zero) else {
            return E_INVALIDARG;
        };
        match codec.decompress(bytes, raw) {
            // SAFETY: as above.
            Ok(len) => unsafe { com::store(written, len) },
            Err(error) => error,
        }
    }

    fn compress_buffer_bound(raw_len: usize) -> usize, or 0; {
        codec.bound(raw_len)
    }
}
