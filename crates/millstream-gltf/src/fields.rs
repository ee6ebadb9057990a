//! Typed access to the fields of JSON objects, with the place of each error.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};

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
        Value::String(_) => String::from("a string"),
        Value::Array(_) => String::from("an array"),
        Value::Object(_) => String::from("an object"),
    }
}

/// A whole number that is not negative. `3.0` is one, as in JSON Schema.
fn whole(value: &Value) -> Option<u64> {
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

    /// The place of a field.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.place.is_empty() {
            return name.to_owned();
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

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        self.value(name)
            .map(|value| {
                whole(value).ok_or_else(|| self.mistyped(name, "a number of 0 or more", value))
            })
            .transpose()
    }

    pub(crate) fn required_number(&self, name: &str) -> Result<u64> {
        self.number(name)?
            .ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// An index into another array; whether that element exists is checked later.
    pub(crate) fn index(&self, name: &str) -> Result<Option<usize>> {
        let index = |number| {
            usize::try_from(number).map_err(|_| self.wrong(name, "exceeds the address space"))
        };
        self.number(name)?.map(index).transpose()
    }

    pub(crate) fn required_index(&self, name: &str) -> Result<usize> {
        self.index(name)?
            .ok_or_else(|| self.wrong(name, "is missing"))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.mistyped(name, "a string", other)),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.mistyped(name, "true or false", other)),
        }
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>> {
        self.value(name)
            .map(|value| Fields::new(value, self.at(name)))
            .transpose()
    }

    /// The error of a value that should be an object.
    pub(crate) fn not_an_object(&self, name: &str, value: &Value) -> Error {
        self.mistyped(name, "an object", value)
    }

    /// Checks that a value, if present, is a number or a list of numbers.
    pub(crate) fn check_numbers(&self, name: &str) -> Result<()> {
        match self.value(name) {
            None | Some(Value::Number(_)) => Ok(()),
            Some(Value::Array(values)) if values.iter().all(Value::is_number) => Ok(()),
            Some(other) => Err(self.mistyped(name, "a number or numbers", other)),
        }
    }

    /// The object of an extension.
    pub(crate) fn extension(&self, name: &str) -> Result<Option<Fields<'a>>> {
        match self.object("extensions")? {
            Some(extensions) => extensions.object(name),
            None => Ok(None),
        }
    }

    pub(crate) fn list(&self, name: &str) -> Result<&'a [Value]> {
        match self.value(name) {
            None => Ok(&[]),
            Some(Value::Array(values)) => Ok(values),
            Some(other) => Err(self.mistyped(name, "an array", other)),
        }
    }

    pub(crate) fn indices(&self, name: &str) -> Result<Vec<usize>> {
        let values = self.list(name)?.iter().enumerate();
        let index = |(at, value): (usize, &Value)| {
            let number = whole(value).and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| self.mistyped(&format!("{name}[{at}]"), "an index", value))
        };
        values.map(index).collect()
    }

    /// Indices by name, as a primitive's attributes.
    pub(crate) fn named_indices(&self) -> Result<Vec<(String, usize)>> {
        let index = |(name, _): (&String, &Value)| Ok((name.clone(), self.required_index(name)?));
        self.entries().map(index).collect()
    }

    /// Exactly `N` numbers.
    pub(crate) fn floats<const N: usize>(&self, name: &str) -> Result<Option<[f32; N]>> {
        if self.value(name).is_none() {
            return Ok(None);
        }
        let values = self.list(name)?;
        let numbers: Option<Vec<f32>> = values
            .iter()
            .map(|value| value.as_f64().map(|number| number as f32))
            .collect();
        numbers
            .and_then(|numbers| <[f32; N]>::try_from(numbers).ok())
            .map(Some)
            .ok_or_else(|| self.wrong(name, format!("must be {N} numbers")))
    }
}
