//! Words of the Python interface as values of the libraries.

use std::sync::Arc;

use millstream::{Access, Backend, CodecId, DiskModel, Priority, StorageOptions};
use pyo3::prelude::*;

use crate::errors;
use crate::region::Inherited;

/// The value that a word names.
fn named<T, const N: usize>(what: &str, word: &str, names: [&str; N], all: [T; N]) -> PyResult<T> {
    let found = names.iter().zip(all).find(|(name, _)| **name == word);
    found.map(|(_, value)| value).ok_or_else(|| {
        let names = names.join(", ");
        errors::invalid(&format!("{what} {word:?} is none of {names}"))
    })
}

/// The names of the priorities.
pub(crate) const PRIORITIES: [&str; Priority::ALL.len()] = ["low", "normal", "high", "realtime"];

/// A priority by its name.
pub(crate) fn priority(word: &str) -> PyResult<Priority> {
    named("the priority", word, PRIORITIES, Priority::ALL)
}

/// A codec by its name.
pub(crate) fn codec(word: &str) -> PyResult<CodecId> {
    let names = CodecId::ALL.map(CodecId::name);
    named("the codec", word, names, CodecId::ALL)
}

/// How reads go.
pub(crate) fn access(word: &str) -> PyResult<Access> {
    let all = [Access::Auto, Access::Direct, Access::Buffered];
    named("the access", word, ["auto", "direct", "buffered"], all)
}

/// The device.
pub(crate) fn backend(word: &str) -> PyResult<Backend> {
    let all = [Backend::Auto, Backend::Uring, Backend::Threads];
    named("the backend", word, ["auto", "uring", "threads"], all)
}

/// The options of `Storage(…)`; what is `None` stays at its default.
pub(crate) struct Given<'a> {
    pub(crate) backend: &'a str,
    pub(crate) access: &'a str,
    pub(crate) depth: Option<u32>,
    pub(crate) block_bytes: Option<usize>,
    pub(crate) staging_bytes: Option<usize>,
    pub(crate) retained_bytes: Option<usize>,
    pub(crate) descriptors: Option<usize>,
    pub(crate) workers: Option<usize>,
    pub(crate) disk_model: Option<&'a str>,
}

impl Given<'_> {
    /// As the engine's options.
    pub(crate) fn options(&self) -> PyResult<StorageOptions> {
        let mut options = StorageOptions::default();
        options.backend = backend(self.backend)?;
        options.access = access(self.access)?;
        options.depth = self.depth.unwrap_or(options.depth);
        options.block_bytes = self.block_bytes.unwrap_or(options.block_bytes);
        options.staging_bytes = self.staging_bytes.unwrap_or(options.staging_bytes);
        options.retained_bytes = self.retained_bytes.unwrap_or(options.retained_bytes);
        options.descriptors = self.descriptors.unwrap_or(options.descriptors);
        options.threads.workers = self.workers;
        options.allocator = Some(Arc::new(Inherited::new()));
        if let Some(model) = self.disk_model {
            let parsed: Result<DiskModel, _> = model.parse();
            let parsed = parsed.map_err(|error| errors::invalid(&error.to_string()))?;
            options.disk_model = Some(parsed);
        }
        Ok(options)
    }
}
