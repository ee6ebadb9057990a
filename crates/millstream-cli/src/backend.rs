//! The options of every storage of the program.

use std::env;

use clap::ValueEnum as _;
use millstream::{Backend, StorageOptions};

use crate::args::BackendWord;
use crate::failure::Ending;

/// Names the backend where `--backend` does not. The library never reads it.
const VARIABLE: &str = "MILLSTREAM_BACKEND";

/// Returns the default options with the backend that `--backend` names, or the environment.
pub(crate) fn options(given: Option<BackendWord>) -> Result<StorageOptions, Ending> {
    let named = env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let word = match (given, named) {
        (Some(word), _) => word,
        (None, None) => BackendWord::Auto,
        (None, Some(value)) => value
            .to_str()
            .and_then(|value| BackendWord::from_str(value, false).ok())
            .ok_or_else(|| {
                let words = "auto, uring, iocp, threads";
                Ending::Usage(format!("{VARIABLE}: {value:?} is none of {words}"))
            })?,
    };
    let mut options = StorageOptions::default();
    options.backend = match word {
        BackendWord::Auto => Backend::Auto,
        BackendWord::Uring => Backend::Uring,
        BackendWord::Iocp => Backend::Iocp,
        BackendWord::Threads => Backend::Threads,
    };
    Ok(options)
}
