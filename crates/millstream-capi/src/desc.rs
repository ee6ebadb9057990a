//! What crosses the border: pointers that may be NULL, descriptors of other sizes, texts, and
//! panics that must not.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Failure, MST_ERROR_UNSUPPORTED, MST_OK, invalid, mst_result};

/// Runs a call of the application. A panic becomes `MST_ERROR_INTERNAL`.
pub(crate) fn border(call: impl FnOnce() -> Result<(), Failure>) -> mst_result {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => MST_OK,
        Ok(Err(failure)) => failure.report(),
        Err(panic) => Failure::panicked(panic.as_ref()).report(),
    }
}

/// As [`border`], for a call with one result, which goes to `result`; NULL is noticed before the
/// call.
///
/// # Safety
/// As [`out`].
pub(crate) unsafe fn border_to<T>(
    result: *mut T,
    call: impl FnOnce() -> Result<T, Failure>,
) -> mst_result {
    border(|| {
        // SAFETY: the caller's promise.
        let result = unsafe { out(result)? };
        result.write(call()?);
        Ok(())
    })
}

/// Sets an option, unless the descriptor leaves it at 0, which stands for its default.
pub(crate) fn set<T: Default + PartialEq>(option: &mut T, value: T) {
    if value != T::default() {
        *option = value;
    }
}

/// What a pointer of the application names.
///
/// # Safety
/// The pointer is NULL or valid for `'a`.
pub(crate) unsafe fn at<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(invalid(c"a pointer is NULL"))
}

/// As [`at`], to be changed.
///
/// # Safety
/// The pointer is NULL, or valid and not used otherwise for `'a`.
pub(crate) unsafe fn at_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or(invalid(c"a pointer is NULL"))
}

/// Where a result goes; NULL is noticed before there is one.
///
/// # Safety
/// The pointer is NULL, or valid for a write and not used otherwise for `'a`.
pub(crate) unsafe fn out<'a, T>(pointer: *mut T) -> Result<&'a mut MaybeUninit<T>, Failure> {
    // SAFETY: the caller's promise; a MaybeUninit asks for no value.
    unsafe { at_mut(pointer.cast()) }
}

/// A text of the application, up to its NUL.
///
/// # Safety
/// The pointer is NULL or a text that lives for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a [u8], Failure> {
    match pointer.is_null() {
        true => Err(invalid(c"a text is NULL")),
        // SAFETY: the caller's promise.
        false => Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes()),
    }
}

/// As [`text`]: a path, which must not be empty.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: the caller's promise.
    match unsafe { text(pointer)? } {
        [] => Err(invalid(c"a path is empty")),
        bytes => {
            let name = millstream_io::fs::names::os_str(bytes);
            Ok(Path::new(name.map_err(millstream::Error::from)?))
        }
    }
}

/// A text for messages; NULL is the empty one.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn name(pointer: *const c_char) -> String {
    // SAFETY: the caller's promise.
    let bytes = unsafe { text(pointer) }.unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes of the application; NULL only if there are none.
///
/// # Safety
/// The memory is valid for `'a`, and is not written to.
pub(crate) unsafe fn bytes<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], Failure> {
    let too_long = size_of::<T>().saturating_mul(count) > isize::MAX as usize;
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(invalid(c"memory is NULL")),
        _ if too_long => Err(invalid(c"memory exceeds the address space")),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// A time limit; `None` for none.
pub(crate) fn limit(nanoseconds: u64) -> Option<Duration> {
    (nanoseconds != u64::MAX).then(|| Duration::from_nanos(nanoseconds))
}

/// A moment so far from now; `None` for 0, and if it will never come.
pub(crate) fn deadline_of(nanoseconds: u64) -> Option<Instant> {
    let after = Duration::from_nanos(nanoseconds);
    (nanoseconds > 0).then(|| Instant::now().checked_add(after))?
}

/// A struct of the header that begins with its size.
///
/// # Safety
/// The first field is a `usize`, and all zeroes is a value.
pub(crate) unsafe trait Descriptor: Copy {
    /// A value with all defaults.
    fn zeroed() -> Self {
        // SAFETY: the trait's contract.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }
}

/// A descriptor of the application, which may know fewer fields than the library, or more as long
/// as they are zero. Of another size than the library's it is copied into `room`. The inner error
/// refuses a descriptor whose known fields can be read, so what they hand over can be freed.
///
/// # Safety
/// The pointer is NULL, or valid, as long as `room` is borrowed, for as many bytes
/// as the `usize` there says.
#[inline]
pub(crate) unsafe fn desc_at<T: Descriptor>(
    pointer: *const T,
    room: &mut MaybeUninit<T>,
) -> Result<(&T, Result<(), Failure>), Failure> {
    if pointer.is_null() {
        return Err(invalid(c"a descriptor is NULL"));
    }
    // SAFETY: the caller's promise.
    match unsafe { pointer.cast::<usize>().read() } {
        // SAFETY: as above.
        size if size == size_of::<T>() => Ok((unsafe { &*pointer }, Ok(()))),
        // SAFETY: as above.
        size => unsafe { copy_desc(pointer, size, room) },
    }
}

/// # Safety
/// The pointer is valid for `size` bytes.
#[cold]
unsafe fn copy_desc<T: Descriptor>(
    pointer: *const T,
    size: usize,
    room: &mut MaybeUninit<T>,
) -> Result<(&T, Result<(), Failure>), Failure> {
    if size < size_of::<usize>() || size > 1 << 16 {
        let cause = c"the size of a descriptor is wrong: set it to sizeof";
        return Err(invalid(cause));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: so many bytes are there, and in a descriptor.
    let more = unsafe {
        room.as_mut_ptr().write_bytes(0, 1);
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), room.as_mut_ptr().cast(), known);
        std::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known)
    };
    let checked = match more.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(Failure::Known(
            MST_ERROR_UNSUPPORTED,
            c"a descriptor uses members that this version of the library does not know",
        )),
    };
    // SAFETY: zeroes, and bytes of a descriptor of the same layout.
    Ok((unsafe { room.assume_init_ref() }, checked))
}

/// As [`desc_at`], copied.
///
/// # Safety
/// As [`desc_at`].
pub(crate) unsafe fn read_desc<T: Descriptor>(pointer: *const T) -> Result<T, Failure> {
    let mut room = MaybeUninit::uninit();
    // SAFETY: the caller's promise.
    let (desc, checked) = unsafe { desc_at(pointer, &mut room)? };
    checked.map(|()| *desc)
}

/// As [`read_desc`]; NULL stands for all defaults.
///
/// # Safety
/// As [`read_desc`].
pub(crate) unsafe fn read_desc_or_default<T: Descriptor>(pointer: *const T) -> Result<T, Failure> {
    match pointer.is_null() {
        true => Ok(T::zeroed()),
        // SAFETY: the caller's promise.
        false => unsafe { read_desc(pointer) },
    }
}

/// Checks a struct of the application that begins with its size, and is to be filled; its size.
///
/// # Safety
/// The pointer is NULL, or valid for the `usize` there.
pub(crate) unsafe fn check_sized<T: Descriptor>(pointer: *const T) -> Result<usize, Failure> {
    if pointer.is_null() {
        return Err(invalid(c"a pointer is NULL"));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { pointer.cast::<usize>().read() };
    match (size_of::<usize>()..=1 << 16).contains(&size) {
        true => Ok(size),
        false => Err(invalid(c"the size of a struct is wrong: set it to sizeof")),
    }
}

/// Fills a struct of the application that begins with its size, as far as the application knows it.
///
/// # Safety
/// The pointer is NULL, or valid for a write of as many bytes as the `usize` there says.
pub(crate) unsafe fn fill_sized<T: Descriptor>(pointer: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe { check_sized(pointer)? };
    let known = size.min(size_of::<T>());
    let skip = size_of::<usize>();
    // SAFETY: as above; the size itself stays.
    unsafe {
        let from = std::ptr::from_ref(value).cast::<u8>().add(skip);
        let to = pointer.cast::<u8>().add(skip);
        std::ptr::copy_nonoverlapping(from, to, known - skip);
        to.add(known - skip).write_bytes(0, size - known);
    }
    Ok(())
}
