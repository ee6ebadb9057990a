//! The types with offsets, which follow them in place.
//!
//! # Safety
//! A pointer type is only ever seen by reference, inside a blob that was validated: it has no
//! constructor, is neither `Copy` nor `Clone`, and is never handed out by exclusive reference, so
//! that it cannot be moved to where its offset leads elsewhere. Validation claims the target from
//! the [`Checker`]: it is inside the blob, aligned, of the right type, and validated itself. The
//! blob's memory outlives every reference into it, for all of them borrow from it.
//!
//! The address of a target is computed from the address of its pointer, but a reference to a field
//! does not permit access beyond the field: so [`at`], through which every view begins, exposes the
//! provenance of the whole blob, which targets are reached by. (Both are free at run time.)
#![expect(
    unsafe_code,
    reason = "follows offsets that were validated; see the section Safety of this file"
)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::{Checker, Record, Schema, fail};
use crate::error::{ErrorKind, Result};

/// Returns the value at `at` of a blob.
///
/// # Safety
/// A valid `T` lies there, aligned, and all that it leads to is valid.
#[inline(always)]
pub(super) unsafe fn at<T>(blob: &[u8], at: usize) -> &T {
    blob.as_ptr().expose_provenance();
    // SAFETY: the caller's promise; the lifetime is that of the bytes.
    unsafe { &*blob.as_ptr().add(at).cast::<T>() }
}

/// Returns the target of a field's offset.
#[inline(always)]
fn target<F, T>(field: &F, offset: u32) -> *const T {
    let address = std::ptr::from_ref(field).addr() + offset as usize;
    std::ptr::with_exposed_provenance(address)
}

/// An owned record elsewhere in the blob.
#[repr(C)]
pub struct Ref<T> {
    offset: u32,
    of: PhantomData<T>,
}

/// An owned record elsewhere in the blob, or none.
#[repr(transparent)]
pub struct Maybe<T>(Ref<T>);

/// An owned array elsewhere in the blob.
#[repr(C)]
pub struct Array<T> {
    offset: u32,
    count: u32,
    of: PhantomData<T>,
}

/// Owned UTF-8 elsewhere in the blob.
#[repr(transparent)]
pub struct Text(Array<u8>);

impl<T: Record> Maybe<T> {
    /// Returns the record, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        (self.0.offset != 0).then(|| &*self.0)
    }
}

impl<T: Record> Deref for Ref<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: module's Safety: the offset leads to a validated T, that of `Maybe` if not 0.
        unsafe { &*target(self, self.offset) }
    }
}

impl<T: Record> Array<T> {
    /// Returns the elements.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: module's Safety: the offset leads to `count` validated elements.
        unsafe { std::slice::from_raw_parts(target(self, self.offset), self.count as usize) }
    }
}

impl<T: Record> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl Text {
    /// Returns the text.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        // SAFETY: module's Safety: the bytes were found to be UTF-8.
        unsafe { std::str::from_utf8_unchecked(&self.0) }
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

// SAFETY: the target is claimed and validated unless the offset is refused.
unsafe impl<T: Record> Record for Ref<T> {
    fn describe(schema: &mut Schema) {
        schema.pointer("ref");
        T::describe(schema);
    }

    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()> {
        let offset = checker.word(at);
        let target = checker.claim::<T>(at, offset, 1)?;
        match T::PLAIN {
            true => Ok(()),
            false => checker.deeper(target, T::validate),
        }
    }
}

// SAFETY: as of `Ref`; an offset of 0 is never followed.
unsafe impl<T: Record> Record for Maybe<T> {
    fn describe(schema: &mut Schema) {
        schema.pointer("maybe");
        T::describe(schema);
    }

    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()> {
        if checker.word(at) == 0 {
            return Ok(());
        }
        Ref::<T>::validate(checker, at)
    }
}

// SAFETY: all elements are claimed together, and validated; the offset of an empty array is not
// followed.
unsafe impl<T: Record> Record for Array<T> {
    fn describe(schema: &mut Schema) {
        schema.pointer("array");
        T::describe(schema);
    }

    #[inline]
    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()> {
        let (offset, count) = (checker.word(at), checker.word(at + 4) as usize);
        match (count, offset) {
            (0, 0) => return Ok(()),
            (0, _) => return fail(ErrorKind::Corrupt, at, 4, "something empty has an offset"),
            _ => {}
        }
        let first = checker.claim::<T>(at, offset, count)?;
        if T::PLAIN {
            return Ok(());
        }
        checker.deeper(first, |checker, first| {
            for index in 0..count {
                T::validate(checker, first + index * size_of::<T>())?;
            }
            Ok(())
        })
    }
}

// SAFETY: the bytes are validated as those of an array, and found to be UTF-8.
unsafe impl Record for Text {
    fn describe(schema: &mut Schema) {
        schema.pointer("text");
    }

    #[inline]
    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()> {
        Array::<u8>::validate(checker, at)?;
        let (start, len) = (
            at + checker.word(at) as usize,
            checker.word(at + 4) as usize,
        );
        if std::str::from_utf8(checker.bytes(start, len)).is_ok() {
            return Ok(());
        }
        fail(ErrorKind::Corrupt, start, len, "a text is not UTF-8")
    }
}

/// Formats a pointer as its target.
macro_rules! debug_as_target {
    ($([$($bounds:tt)*] $pointer:ty, $target:ident;)*) => {$(
        impl<$($bounds)*> fmt::Debug for $pointer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.$target().fmt(f)
            }
        }
    )*};
}

debug_as_target! {
    [T: Record + fmt::Debug] Ref<T>, deref;
    [T: Record + fmt::Debug] Maybe<T>, get;
    [T: Record + fmt::Debug] Array<T>, as_slice;
    [] Text, as_str;
}
