//! Types without offsets: numbers, arrays, plain data of zerocopy, booleans and enumerations.
//!
//! # Safety
//! Numbers and what zerocopy calls `FromBytes` are valid for any bytes. Booleans and enumerations
//! are validated; an enumeration is kept as its number.
#![expect(unsafe_code, reason = "vouches for types of which any bytes are valid")]

use std::fmt;
use std::ops::Deref;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Build, Builder, Checker, Record, Schema, fail};
use crate::error::{ErrorKind, Result};

macro_rules! numbers {
    ($($number:ty),*) => {$(
        // SAFETY: any bytes are a number.
        unsafe impl Record for $number {
            const PLAIN: bool = true;
            fn describe(schema: &mut Schema) {
                schema.leaf::<$number>(stringify!($number));
            }
            #[inline(always)]
            fn validate(_: &mut Checker<'_>, _: usize) -> Result<()> {
                Ok(())
            }
        }
        impl Build<$number> for $number {
            fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
                builder.put(at, &self.to_le_bytes());
                Ok(())
            }
            fn store_all(values: &[$number], builder: &mut Builder, at: usize) -> Result<()> {
                if cfg!(target_endian = "little") {
                    builder.put(at, values.as_bytes());
                    return Ok(());
                }
                super::build::store_each::<$number, $number>(values, builder, at)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

// SAFETY: validated to be 0 or 1.
unsafe impl Record for bool {
    fn describe(schema: &mut Schema) {
        schema.leaf::<bool>("bool");
    }

    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()> {
        match checker.bytes(at, 1)[0] {
            0 | 1 => Ok(()),
            _ => fail(
                ErrorKind::Corrupt,
                at,
                1,
                "a truth value is neither 0 nor 1",
            ),
        }
    }
}

impl Build<bool> for bool {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        builder.put(at, &[u8::from(*self)]);
        Ok(())
    }
}

// SAFETY: each element is validated.
unsafe impl<T: Record, const N: usize> Record for [T; N] {
    const PLAIN: bool = T::PLAIN;

    fn describe(schema: &mut Schema) {
        schema.repeated(N);
        T::describe(schema);
    }

    #[inline]
    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()> {
        if T::PLAIN {
            return Ok(());
        }
        for index in 0..N {
            T::validate(checker, at + index * size_of::<T>())?;
        }
        Ok(())
    }
}

impl<T: Record, U: Build<T>, const N: usize> Build<[T; N]> for [U; N] {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        U::store_all(self, builder, at)
    }
}

/// Plain data of zerocopy as a field of a record, or an element of an array. The schema has its
/// name, size and alignment, but not its fields: rename the type when its fields change.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Plain<T>(pub T);

impl<T> Deref for Plain<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns a type's name without its path and those of its arguments, since types may move to
/// other modules.
fn without_paths(name: &str) -> String {
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' | b')' | b']' => depth -= 1,
            b':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let name = &name[start..];
    let (before, last) = name.rsplit_once("::").unwrap_or(("", name));
    let before = before.split("::");
    let before = before.map(|part| part.trim_end_matches(is_word));
    before.chain([last]).collect()
}

// SAFETY: zerocopy's traits say that any bytes are valid and that nothing is mutable inside.
unsafe impl<T: FromBytes + Immutable + KnownLayout + Copy + 'static> Record for Plain<T> {
    const PLAIN: bool = true;

    fn describe(schema: &mut Schema) {
        schema.leaf::<T>(&without_paths(std::any::type_name::<T>()));
    }

    #[inline(always)]
    fn validate(_: &mut Checker<'_>, _: usize) -> Result<()> {
        Ok(())
    }
}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static> Build<Plain<T>> for T {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        builder.put(at, self.as_bytes());
        Ok(())
    }

    fn store_all(values: &[T], builder: &mut Builder, at: usize) -> Result<()> {
        builder.put(at, values.as_bytes());
        Ok(())
    }
}

/// An enumeration with numbers, implemented by [`stored_enum!`](crate::stored_enum).
pub trait Enumerated: Copy + 'static {
    /// The type of its numbers.
    type Raw: Record + Copy + Build<Self::Raw>;
    /// Its name, for the schema.
    const NAME: &'static str;

    /// Returns the value with this number, if there is one.
    fn from_raw(raw: Self::Raw) -> Option<Self>;

    /// Returns the number.
    fn into_raw(self) -> Self::Raw;
}

/// An enumeration in a blob, stored as its number.
#[repr(transparent)]
pub struct Stored<E: Enumerated> {
    raw: E::Raw,
}

impl<E: Enumerated> Stored<E> {
    /// Returns the value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> E {
        E::from_raw(self.raw).expect("validated")
    }
}

impl<E: Enumerated + fmt::Debug> fmt::Debug for Stored<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

// SAFETY: it holds a number, of which any bytes are valid.
unsafe impl<E: Enumerated> Record for Stored<E> {
    fn describe(schema: &mut Schema) {
        schema.pointer(E::NAME);
        E::Raw::describe(schema);
    }

    #[inline]
    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()> {
        const {
            assert!(
                <E::Raw as Record>::PLAIN,
                "an enumeration is kept as a number"
            )
        }
        let bytes = checker.bytes(at, size_of::<E::Raw>());
        // SAFETY: as many bytes as the number has, of which any are valid (PLAIN).
        let raw = unsafe { bytes.as_ptr().cast::<E::Raw>().read_unaligned() };
        if E::from_raw(raw).is_some() {
            return Ok(());
        }
        let cause = "a number is none of an enumeration's";
        fail(ErrorKind::Corrupt, at, bytes.len(), cause)
    }
}

impl<E: Enumerated> Build<Stored<E>> for E {
    fn store(&self, builder: &mut Builder, at: usize) -> Result<()> {
        self.into_raw().store(builder, at)
    }
}

#[cfg(test)]
mod tests {
    use super::without_paths;

    #[test]
    fn names_lose_all_their_paths() {
        for (name, wanted) in [
            ("f32", "f32"),
            ("a::b::Pose", "Pose"),
            ("a::Meters<b::c::Pose>", "Meters<Pose>"),
            ("a::Pair<b::X, (c::Y, [d::Z; 3])>", "Pair<X, (Y, [Z; 3])>"),
            ("[a::b::X; 2]", "[X; 2]"),
            ("<a::S as b::T>::f::Local", "Local"),
            ("a::Outer<_>::f::{{closure}}::Local", "Local"),
        ] {
            assert_eq!(without_paths(name), wanted);
        }
    }
}
