//! Streams over files and entries: for code that reads or writes piece by piece.
//!
//! Windows are read ahead and written behind in the background. The fast path for small fields is
//! `mst_stream_window`: bytes that are in memory already, to be used in place.

use std::ffi::{c_char, c_void};

use millstream_stream::{FileStream, Mode, OpenOptions, ReadStream, Stream, WriteStream};

use crate::desc::{
    Descriptor, at, at_mut, border, border_to, bytes, out, path, read_desc_or_default, text,
};
use crate::error::{Failure, invalid, mst_result};
use crate::handle::{free, owned};
use crate::source::mst_source;
use crate::storage::{check_flags, mst_storage};

/// A position in a file or an entry. Used by one thread at a time.
/// `None` once it is closed.
pub struct mst_stream(Option<FileStream>);

/// # Safety
/// The pointer is NULL, or a stream that no other thread uses.
unsafe fn stream_at<'a>(stream: *mut mst_stream) -> Result<&'a mut FileStream, Failure> {
    // SAFETY: the caller's promise.
    let stream = unsafe { at_mut(stream)? };
    stream.0.as_mut().ok_or(invalid(c"the stream is closed"))
}

/// Bit of `mst_stream_desc.flags`: for writing. With neither this nor `MST_STREAM_READ`: for
/// reading.
pub const MST_STREAM_WRITE: u32 = 1;
/// Bit of `mst_stream_desc.flags`: for reading.
pub const MST_STREAM_READ: u32 = 2;
/// Bit of `mst_stream_desc.flags`: create the file if it does not exist.
pub const MST_STREAM_CREATE: u32 = 4;
/// Bit of `mst_stream_desc.flags`: truncate the file to length 0.
pub const MST_STREAM_TRUNCATE: u32 = 8;
/// Bit of `mst_stream_desc.flags`: start at the end.
pub const MST_STREAM_APPEND: u32 = 16;
/// Bit of `mst_stream_desc.flags`: replace the file as a whole, or create it. Nothing is seen at
/// its path before `mst_stream_commit`; a stream that is freed without it leaves the old file.
pub const MST_STREAM_REPLACE: u32 = 32;

/// How a stream of a file is opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_stream_desc {
    /// `sizeof(mst_stream_desc)`.
    pub size: usize,
    /// `MST_STREAM_` bits.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
}
// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_stream_desc {}

/// Opens a stream of a file, for reading if `desc` is NULL. Opens the file on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_open(
    storage: *mut mst_storage,
    name: *const c_char,
    desc: *const mst_stream_desc,
    stream: *mut *mut mst_stream,
) -> mst_result {
    border(|| {
        // SAFETY: pointers are as the header asks, here and in all calls.
        let (storage, name) = unsafe { (at(storage)?, path(name)?) };
        // SAFETY: as above.
        let (desc, result) = unsafe { (read_desc_or_default(desc)?, out(stream)?) };
        check_flags(desc.flags, 2 * MST_STREAM_REPLACE - 1)?;
        check_flags(desc.reserved, 0)?;
        let has = |flag| desc.flags & flag != 0;
        let streams = storage.streams()?;
        let opened = if has(MST_STREAM_REPLACE) {
            check_flags(desc.flags, MST_STREAM_REPLACE | MST_STREAM_WRITE)?;
            streams.replace(name)?
        } else {
            let mode = match (has(MST_STREAM_READ), has(MST_STREAM_WRITE)) {
                (_, false) => Mode::Read,
                (false, true) => Mode::Write,
                (true, true) => Mode::ReadWrite,
            };
            let options = OpenOptions {
                mode,
                create: has(MST_STREAM_CREATE),
                truncate: has(MST_STREAM_TRUNCATE),
                append: has(MST_STREAM_APPEND),
            };
            streams.open_with(name, options)?
        };
        result.write(owned(mst_stream(Some(opened))));
        Ok(())
    })
}

/// Opens a stream of an entry of a source, for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_open_entry(
    storage: *mut mst_storage,
    source: *const mst_source,
    name: *const c_char,
    stream: *mut *mut mst_stream,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let (storage, source) = unsafe { (at(storage)?, at(source)?) };
        // SAFETY: as above.
        let (name, result) = unsafe { (text(name)?, out(stream)?) };
        let opened = storage.streams()?.open_entry(&source.source, name)?;
        result.write(owned(mst_stream(Some(opened))));
        Ok(())
    })
}

/// Reads up to `size` bytes; fewer only at the end. `read` is how many. Waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_read(
    stream: *mut mst_stream,
    memory: *mut c_void,
    size: usize,
    read: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let (stream, read) = unsafe { (stream_at(stream)?, out(read)?) };
        read.write(0);
        if size == 0 {
            return Ok(());
        }
        if memory.is_null() || size > isize::MAX as usize {
            return Err(invalid(c"memory is NULL, or exceeds the address space"));
        }
        // SAFETY: the header asks for so many bytes, which are the library's during the call. They
        // are only written to.
        let into = unsafe { std::slice::from_raw_parts_mut(memory.cast::<u8>(), size) };
        let mut done = 0;
        while done < size {
            let count = stream.read_some(&mut into[done..])?;
            done += count;
            read.write(done);
            if count == 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Bytes at the position that are in memory: at least one, unless the stream is at its end. To be
/// used in place until the next call with this stream; `mst_stream_advance` moves past them. Waits
/// if none are in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_window(
    stream: *mut mst_stream,
    data: *mut *const c_void,
    size: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let (stream, data, size) = unsafe { (stream_at(stream)?, out(data)?, out(size)?) };
        let window = stream.window()?;
        data.write(window.as_ptr().cast());
        size.write(window.len());
        Ok(())
    })
}

/// Moves past `count` bytes of the window that `mst_stream_window` returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_advance(stream: *mut mst_stream, count: usize) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let stream = unsafe { stream_at(stream)? };
        if count > stream.window()?.len() {
            return Err(invalid(c"the window has not so many bytes"));
        }
        stream.advance(count);
        Ok(())
    })
}

/// Writes `size` bytes. They reach the disk in the background; what fails there is reported by a
/// later call, at the latest by `mst_stream_flush` or `mst_stream_close`. Waits while too much is
/// under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_write(
    stream: *mut mst_stream,
    memory: *const c_void,
    size: usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let (stream, from) = unsafe { (stream_at(stream)?, bytes(memory.cast::<u8>(), size)?) };
        Ok(stream.write_slice(from)?)
    })
}

/// Moves to a position, from the start on; it may lie behind the end of a file that is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_seek(stream: *mut mst_stream, position: u64) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let stream = unsafe { stream_at(stream)? };
        Ok(stream.seek_to(position)?)
    })
}

/// The position; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_position(stream: *const mst_stream) -> u64 {
    // SAFETY: see `mst_stream_open`.
    let stream = unsafe { stream.as_ref() }.and_then(|stream| stream.0.as_ref());
    stream.map_or(0, FileStream::position)
}

/// Bytes of the file or the entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_length(
    stream: *mut mst_stream,
    length: *mut u64,
) -> mst_result {
    // SAFETY: see `mst_stream_open`.
    unsafe { border_to(length, || Ok(stream_at(stream)?.len()?)) }
}

/// Waits until everything written has reached the file (not the disk), and reports what failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_flush(stream: *mut mst_stream) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        Ok(unsafe { stream_at(stream)? }.flush_all()?)
    })
}

/// Waits until everything written is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_sync(stream: *mut mst_stream) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        Ok(unsafe { stream_at(stream)? }.sync()?)
    })
}

/// Ends a replacement: makes the new content durable and puts it in the place of the old; if it
/// fails, the old file stays. The stream is closed in any case, and still to be freed. Waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_commit(stream: *mut mst_stream) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let stream = unsafe { at_mut(stream)? }.0.take();
        Ok(stream.ok_or(invalid(c"the stream is closed"))?.commit()?)
    })
}

/// Closes a stream, also if it fails: reports what could not be written. It is still to be freed
/// (`mst_stream_free`). Waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_close(stream: *mut mst_stream) -> mst_result {
    border(|| {
        // SAFETY: see `mst_stream_open`.
        let stream = unsafe { at_mut(stream)? }.0.take();
        Ok(stream.ok_or(invalid(c"the stream is closed"))?.close()?)
    })
}

/// Frees a stream without a report; a replacement that was not committed is discarded. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_stream_free(stream: *mut mst_stream) {
    // SAFETY: see `mst_stream_open`.
    unsafe { free(stream) }
}
