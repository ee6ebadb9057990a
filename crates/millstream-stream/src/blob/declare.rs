//! The macros that declare the types of blobs.

/// Declares a record: the type that lies in a blob, and after `from` the ordinary type that it is
/// built from, which may have attributes of its own. Each field has its type in the blob, `=`, and
/// its ordinary type.
///
/// ```
/// use millstream_stream::blob::{self, Array, Text};
/// millstream_stream::record! {
///     /// A named line.
///     pub struct Line from LineSource {
///         pub name: Text = String,
///         pub points: Array<[f32; 3]> = Vec<[f32; 3]>,
///     }
/// }
/// let line = LineSource { name: "a".into(), points: vec![[0.0; 3], [1.0; 3]] };
/// let bytes = blob::build::<Line, _>(&line)?;
/// assert_eq!(blob::view::<Line>(&bytes)?.points.len(), 2);
/// # Ok::<(), millstream_stream::Error>(())
/// ```
#[macro_export]
macro_rules! record {
    (
        $(#[$about:meta])*
        $visibility:vis struct $name:ident from $(#[$source_about:meta])* $source:ident {
            $(
                $(#[$field_about:meta])*
                $field_visibility:vis $field:ident : $stored:ty = $native:ty
            ),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Debug)]
        $visibility struct $name {
            $($(#[$field_about])* $field_visibility $field: $stored,)*
        }

        /// What the record is built from.
        $(#[$source_about])*
        #[derive(Debug, Clone)]
        $visibility struct $source {
            $($(#[$field_about])* $field_visibility $field: $native,)*
        }

        // SAFETY: the fields are described and validated one by one, with their own types and where
        // the compiler has put them; references to a record are all that is ever handed out.
        #[expect(unsafe_code, reason = "the macro names every field, as the trait demands")]
        unsafe impl $crate::blob::Record for $name {
            fn describe(schema: &mut $crate::blob::Schema) {
                schema.record::<$name>(stringify!($name), |schema| {
                    $(
                        schema.field(
                            stringify!($field),
                            ::core::mem::offset_of!($name, $field),
                        );
                        <$stored as $crate::blob::Record>::describe(schema);
                    )*
                });
            }

            #[inline]
            fn validate(
                checker: &mut $crate::blob::Checker<'_>,
                at: usize,
            ) -> $crate::Result<()> {
                $(
                    <$stored as $crate::blob::Record>::validate(
                        checker,
                        at + ::core::mem::offset_of!($name, $field),
                    )?;
                )*
                Ok(())
            }
        }

        impl $crate::blob::Build<$name> for $source {
            fn store(
                &self,
                builder: &mut $crate::blob::Builder,
                at: usize,
            ) -> $crate::Result<()> {
                $(
                    <$native as $crate::blob::Build<$stored>>::store(
                        &self.$field,
                        builder,
                        at + ::core::mem::offset_of!($name, $field),
                    )?;
                )*
                Ok(())
            }
        }
    };
}

/// Declares an enumeration that a blob may hold as [`Stored`](crate::blob::Stored): each value has
/// its number, which must not change.
///
/// ```
/// use millstream_stream::blob::{self, Stored};
/// millstream_stream::stored_enum! {
///     /// A side.
///     pub enum Side: u8 { Left = 1, Right = 2 }
/// }
/// let bytes = blob::build::<Stored<Side>, _>(&Side::Right)?;
/// assert_eq!(blob::view::<Stored<Side>>(&bytes)?.get(), Side::Right);
/// # Ok::<(), millstream_stream::Error>(())
/// ```
#[macro_export]
macro_rules! stored_enum {
    (
        $(#[$about:meta])*
        $visibility:vis enum $name:ident : $raw:ty {
            $($(#[$value_about:meta])* $value:ident = $number:expr),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr($raw)]
        $visibility enum $name {
            $($(#[$value_about])* #[doc = stringify!($value)] $value = $number,)*
        }

        impl $crate::blob::Enumerated for $name {
            type Raw = $raw;
            const NAME: &'static str = stringify!($name);

            #[inline]
            fn from_raw(raw: $raw) -> Option<$name> {
                $(
                    if raw == $number {
                        return Some($name::$value);
                    }
                )*
                None
            }

            fn into_raw(self) -> $raw {
                self as $raw
            }
        }
    };
}
