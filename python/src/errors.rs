//! Errors of the libraries as Python exceptions. The classes are Python's (`millstream._errors`),
//! because most have two bases.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// What an exception says beside its message.
#[derive(Default)]
struct Place<'a> {
    path: Option<&'a Path>,
    offset: Option<u64>,
    length: Option<u64>,
    name: Option<&'a str>,
    errno: Option<i32>,
}

fn make(py: Python<'_>, kind: &str, message: &str, place: &Place<'_>) -> PyErr {
    let made = MAKE
        .get_or_try_init(py, || {
            let module = py.import("millstream._errors")?;
            PyResult::Ok(module.getattr("make")?.unbind())
        })
        .and_then(|make| {
            let path = place.path.map(Path::as_os_str);
            let (offset, length) = (place.offset, place.length);
            make.call1(
                py,
                (kind, message, path, offset, length, place.name, place.errno),
            )
        });
    match made {
        Ok(exception) => PyErr::from_value(exception.into_bound(py)),
        Err(error) => error,
    }
}

/// An exception of a kind, of no file.
pub(crate) fn simple(py: Python<'_>, kind: &str, message: &str) -> PyErr {
    make(py, kind, message, &Place::default())
}

/// The exception of an argument of the right type and a wrong value. For attached threads.
pub(crate) fn invalid(cause: &str) -> PyErr {
    Python::attach(|py| simple(py, "invalid_argument", cause))
}

/// The exception of a file whose bytes violate their format at `offset`.
pub(crate) fn corrupt(py: Python<'_>, path: &Path, offset: u64, cause: &str) -> PyErr {
    let message = format!("\"{}\" (offset {offset}): {cause}", path.display());
    let place = Place {
        path: Some(path),
        offset: Some(offset),
        ..Place::default()
    };
    make(py, "corrupt", &message, &place)
}

/// `CamelCase` as `snake_case`.
fn kind_name(kind: impl std::fmt::Debug) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The engine's error as an exception.
pub(crate) fn engine(py: Python<'_>, error: &millstream::Error) -> PyErr {
    let known = error.path().is_some();
    let place = Place {
        path: error.path(),
        offset: known.then(|| error.offset()),
        // Of a whole file that was never opened it is not known.
        length: Some(error.len()).filter(|&len| known && len != u64::MAX),
        name: error.name(),
        errno: error.errno(),
    };
    make(py, &kind_name(error.kind()), &error.to_string(), &place)
}

/// An error of a package as an exception.
pub(crate) fn package(py: Python<'_>, error: &millstream_pak::Error) -> PyErr {
    let cause = error.engine();
    let system = error.system().and_then(std::io::Error::raw_os_error);
    let errno = system.or_else(|| cause.and_then(millstream::Error::errno));
    let kind = match (cause, errno) {
        (Some(cause), _) => kind_name(cause.kind()),
        (None, Some(libc::ENOENT)) => String::from("not_found"),
        (None, Some(libc::EACCES | libc::EPERM)) => String::from("permission_denied"),
        (None, _) => kind_name(error.kind()),
    };
    let place = Place {
        path: error.path(),
        offset: error.offset(),
        length: cause
            .map(millstream::Error::len)
            .filter(|&len| len != u64::MAX),
        name: error.entry_name(),
        errno,
    };
    make(py, &kind, &error.to_string(), &place)
}

/// Turns results of the libraries into Python's.
pub(crate) trait IntoPy<T> {
    /// The value, or the exception.
    fn into_py(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPy<T> for Result<T, millstream::Error> {
    fn into_py(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| engine(py, &error))
    }
}

impl<T> IntoPy<T> for Result<T, millstream_pak::Error> {
    fn into_py(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| package(py, &error))
    }
}
