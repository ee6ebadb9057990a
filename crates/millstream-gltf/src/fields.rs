//! Typed access to the fields of JSON objects, with the place of each error.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::limits;

/// An object, and its place in the JSON.
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    place: String,
}

pub(crate) fn invalid(place: impl Into<String>, cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, place, cause)
}

/// The type of a value, for messages.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::from("null"),
        Value::Bool(_) => String::from("a boolean"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => {
            format!("the string {:?}", text.chars().take(40).collect::<String>())
        }
        Value::Array(_) => String::from("an array"),
        Value::Object(_) => String::from("an object"),
    }
}

/// A whole number that is not negative. `3.0` is one, as in JSON Schema.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    let exact = |float: f64| {
        // 2⁵³: up to there every whole number is a float.
        let fits = (0.0..=9_007_199_254_740_992.0).contains(&float) && float.fract() == 0.0;
        fits.then_some(float as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(exact))
}

impl<'a> Fields<'a> {
    pub(crate) fn new(value: &'a Value, place: impl Into<String>) -> Result<Fields<'a>> {
        let place = place.into();
        match value {
            Value::Object(object) => Ok(Fields { object, place }),
            other => Err(invalid(
                place,
                format!("must be an object, is {}", shown(other)),
            )),
        }
    }

    /// The place of a field; of one that would be too long to tell, the place of the object.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.place.is_empty() {
            return name.to_owned();
        }
        if self.place.len() + name.len() > limits::PLACE_BYTES_MAX {
            return self.place.clone();
        }
        format!("{}.{name}", self.place)
    }

    pub(crate) fn wrong(&self, name: &str, cause: impl Into<String>) -> Error {
        invalid(self.at(name), cause)
    }

    fn mistyped(&self, name: &str, wanted: &str, value: &Value) -> Error {
        self.wrong(name, format!("must be {wanted}, is {}", shown(value)))
    }

    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.object.iter()
    }

    /// A field, if the object has it.
    pub(crate) fn get<T: Field<'a>>(&self, name: &str) -> Result<Option<T>> {
        let read = |value| T::read(value).ok_or_else(|| self.mistyped(name, T::WANTED, value));
        self.value(name).map(read).transpose()
    }

    pub(crate) fn required<T: Field<'a>>(&self, name: &str) -> Result<T> {
        self.get(name)?
            .ok_or_else(|| self.wrong(name, "is missing"))
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>> {
        self.value(name)
            .map(|value| Fields::new(value, self.at(name)))
            .transpose()
    }

    /// An object that must be there.
    pub(crate) fn inner(&self, name: &str) -> Result<Fields<'a>> {
        self.object(name)?
            .ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// The object of an extension.
    pub(crate) fn extension(&self, name: &str) -> Result<Option<Fields<'a>>> {
        match self.object("extensions")? {
            Some(extensions) => extensions.object(name),
            None => Ok(None),
        }
    }

    /// Indices by name, as a primitive's attributes.
    pub(crate) fn named_indices(&self) -> Result<Vec<(String, usize)>> {
        let index = |(name, _): (&String, &Value)| Ok((name.clone(), self.required(name)?));
        self.entries().map(index).collect()
    }
}

/// What a field may be.
pub(crate) trait Field<'a>: Sized {
    const WANTED: &'static str;

    fn read(value: &'a Value) -> Option<Self>;
}

macro_rules! fields {
    ($($type:ty, $wanted:literal, $read:expr;)*) => {$(
        impl<'a> Field<'a> for $type {
            const WANTED: &'static str = $wanted;

            fn read(value: &'a Value) -> Option<$type> {
                $read(value)
            }
        }
    )*};
}

fields! {
    u64, "a number of 0 or more", whole;
    // An index into another array; whether that element exists is checked later.
    usize, "an index", |value| usize::try_from(whole(value)?).ok();
    bool, "true or false", Value::as_bool;
    &'a str, "a string", Value::as_str;
    &'a [Value], "an array", |value: &'a Value| value.as_array().map(Vec::as_slice);
}
