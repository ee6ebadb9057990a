//! Metadata: keys with typed values, kept as the bytes of a GGUF file and decoded when they are
//! asked for. A tokenizer of a million strings costs one copy of its bytes.
//!
//! ```
//! use millstream_weights::{Metadata, Value};
//!
//! let metadata = Metadata::from_strings([("format", "pt")]);
//! assert_eq!(metadata.get("format"), Some(Value::String(b"pt")));
//! assert_eq!(metadata.get("format").and_then(|value| value.as_str()), Some("pt"));
//! assert_eq!(metadata.iter().count(), 1);
//! ```

use std::ops::Range;

use crate::cursor::{Cursor, Step};
use crate::limits::GGUF_ARRAY_DEPTH_MAX;

/// Declares the types of numbers, in the order of the types of GGUF, up to `Bool`, and behind it.
macro_rules! values {
    ($($low:ident $low_of:ident,)* ; $($high:ident $high_of:ident,)*) => {
        /// The type of a value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names say all")]
        pub enum ValueKind {
            $($low,)*
            Bool,
            String,
            Array,
            $($high,)*
        }

        /// A value. Strings are UTF-8 in files that follow the format, but this is not checked:
        /// tokenizers may have others.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[expect(missing_docs, reason = "the names say all")]
        pub enum Value<'a> {
            $($low($low_of),)*
            Bool(bool),
            String(&'a [u8]),
            Array(Array<'a>),
            $($high($high_of),)*
        }

        impl ValueKind {
            /// By number.
            const ALL: &[ValueKind] = &[
                $(ValueKind::$low,)*
                ValueKind::Bool,
                ValueKind::String,
                ValueKind::Array,
                $(ValueKind::$high,)*
            ];

            /// Returns the bytes of a value; for strings and arrays, those of the shortest.
            fn bytes_min(self) -> u64 {
                (match self {
                    $(ValueKind::$low => size_of::<$low_of>(),)*
                    ValueKind::Bool => 1,
                    ValueKind::String => 8,
                    ValueKind::Array => 12,
                    $(ValueKind::$high => size_of::<$high_of>(),)*
                }) as u64
            }

            /// Takes a value of this type; `depth` is the number of arrays that it is in.
            pub(crate) fn take<'a>(self, cursor: &mut Cursor<'a>, depth: u32) -> Step<Value<'a>> {
                Ok(match self {
                    $(ValueKind::$low => Value::$low($low_of::from_le_bytes(cursor.array()?)),)*
                    ValueKind::Bool => match cursor.array()? {
                        [byte @ (0 | 1)] => Value::Bool(byte == 1),
                        [_] => return cursor.corrupt(1, String::from("a bool is neither 0 nor 1")),
                    },
                    ValueKind::String => Value::String(cursor.string()?),
                    ValueKind::Array => Value::Array(Array::take(cursor, depth + 1)?),
                    $(ValueKind::$high => Value::$high($high_of::from_le_bytes(cursor.array()?)),)*
                })
            }
        }
    };
}

values! {
    U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, F32 f32,;
    U64 u64, I64 i64, F64 f64,
}

impl ValueKind {
    /// Takes the number of a type.
    pub(crate) fn of_next(cursor: &mut Cursor<'_>) -> Step<ValueKind> {
        let number = cursor.u32()?;
        match ValueKind::ALL.get(number as usize) {
            Some(kind) => Ok(*kind),
            None => cursor.corrupt(4, format!("value type {number} is unknown")),
        }
    }
}

impl<'a> Value<'a> {
    /// Returns an integer of any width, unless it is negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::U64(value) => Some(value),
            Value::I8(value) => value.try_into().ok(),
            Value::I16(value) => value.try_into().ok(),
            Value::I32(value) => value.try_into().ok(),
            Value::I64(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// Returns a string, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Value::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

/// An array, whose values are decoded when they are iterated over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Array<'a> {
    /// The type of the values.
    pub kind: ValueKind,
    /// The number of values.
    pub len: u64,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Takes an array, and checks its values.
    fn take(cursor: &mut Cursor<'a>, depth: u32) -> Step<Array<'a>> {
        if depth > GGUF_ARRAY_DEPTH_MAX {
            let cause = format!("arrays are nested deeper than {GGUF_ARRAY_DEPTH_MAX}");
            return cursor.corrupt(0, cause);
        }
        let kind = ValueKind::of_next(cursor)?;
        let len = cursor.count(u64::MAX, kind.bytes_min(), "values")?;
        let begin = cursor.at;
        match kind {
            ValueKind::String | ValueKind::Array => {
                for _ in 0..len {
                    kind.take(cursor, depth)?;
                }
            }
            // Does not overflow: they fit into the file.
            _ => {
                let values = cursor.take(len * kind.bytes_min())?;
                if kind == ValueKind::Bool && values.iter().any(|byte| *byte > 1) {
                    return cursor.corrupt(len, String::from("a bool is neither 0 nor 1"));
                }
            }
        }
        let bytes = &cursor.bytes[begin..cursor.at];
        Ok(Array { kind, len, bytes })
    }

    /// Returns the values.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (kind, mut cursor) = (self.kind, Cursor::new(self.bytes, self.bytes.len() as u64));
        // They were checked, so there are as many.
        (0..self.len).map_while(move |_| kind.take(&mut cursor, 0).ok())
    }
}

/// Keys with typed values, in the byte order of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The bytes of the file up to the last value.
    bytes: Box<[u8]>,
    pairs: Vec<Pair>,
}

/// A key and its value, in the bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: Range<usize>,
    pub(crate) kind: ValueKind,
    pub(crate) value: usize,
}

impl Metadata {
    /// Creates metadata whose values are strings. Of several values of a key, one is found.
    pub fn from_strings<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Metadata {
        let (mut bytes, mut list) = (Vec::new(), Vec::new());
        for (key, text) in pairs {
            let begin = bytes.len();
            bytes.extend_from_slice(key.as_bytes());
            let value = bytes.len();
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
            list.push(Pair {
                key: begin..value,
                kind: ValueKind::String,
                value,
            });
        }
        Metadata::new(bytes.into(), list).0
    }

    /// Sorts checked pairs; returns a key that appears twice, too.
    pub(crate) fn new(bytes: Box<[u8]>, mut pairs: Vec<Pair>) -> (Metadata, Option<Range<usize>>) {
        let key = |pair: &Pair| &bytes[pair.key.clone()];
        pairs.sort_by(|a, b| key(a).cmp(key(b)));
        let mut twice = pairs.windows(2).filter(|two| key(&two[0]) == key(&two[1]));
        let twice = twice.next().map(|two| two[1].key.clone());
        (Metadata { bytes, pairs }, twice)
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        let order = |pair: &Pair| self.bytes[pair.key.clone()].cmp(key.as_bytes());
        let found = self.pairs.binary_search_by(order).ok()?;
        Some(self.value(&self.pairs[found]))
    }

    /// Returns all keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.pairs.iter().map(|pair| {
            let key = std::str::from_utf8(&self.bytes[pair.key.clone()]);
            (key.expect("keys are UTF-8"), self.value(pair))
        })
    }

    fn value(&self, pair: &Pair) -> Value<'_> {
        let bytes = &self.bytes[pair.value..];
        let mut cursor = Cursor::new(bytes, bytes.len() as u64);
        let value = pair.kind.take(&mut cursor, 0).ok();
        value.expect("the value was checked when it was parsed")
    }
}
