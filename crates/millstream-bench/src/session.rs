//! A run of the benchmark as its workloads see it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::case::Case;
use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::limits;
use crate::memory::Destination;
use crate::peers::Peers;
use crate::rows::{self, Row};

/// Receives a line about what runs now.
pub type Progress = dyn Fn(&str) + Send + Sync;

/// How to run.
#[derive(Default)]
pub struct Options {
    /// Small files and few runs: seconds, not minutes. Every contender still runs.
    pub quick: bool,
    /// Where the corpus is kept; by default below the system's folder for temporary files.
    /// `codecs` also takes what it knows of the files in it as corpora, `scenes` the scenes.
    pub corpus: Option<PathBuf>,
    /// Counted rounds of every case.
    pub runs: Option<usize>,
    /// Also read under these rates, in MB/s (10⁶ bytes).
    pub throttle: Vec<f64>,
    /// Only cases whose name contains this: for looking at one of them closely.
    pub only: Option<String>,
    /// Append rows to this file as they come.
    pub rows: Option<PathBuf>,
    /// The interpreter of the workload `python`, which has the package for Python; by default
    /// `python3`.
    pub python: Option<OsString>,
    /// Receives a line about what runs now.
    pub progress: Option<Box<Progress>>,
}

/// What a workload works with.
pub(crate) struct Session<'a> {
    pub(crate) options: &'a Options,
    pub(crate) corpus: Corpus,
    pub(crate) peers: Peers,
    pub(crate) rows: Vec<Row>,
    pub(crate) failures: Vec<String>,
}

impl Session<'_> {
    /// Counted rounds.
    pub(crate) fn runs(&self) -> usize {
        let default = if self.options.quick {
            limits::QUICK_RUNS
        } else {
            limits::RUNS
        };
        self.options.runs.unwrap_or(default)
    }

    /// One of two sizes.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    /// Whether a case is to run.
    pub(crate) fn wants(&self, case: &str) -> bool {
        let only = self.options.only.as_deref();
        only.is_none_or(|part| case.contains(part))
    }

    /// Reports what runs now.
    pub(crate) fn say(&self, what: &str) {
        if let Some(progress) = &self.options.progress {
            progress(what);
        }
    }

    /// Announces a case, if it is to run.
    pub(crate) fn begin<'a>(
        &self,
        workload: &'static str,
        name: impl Into<String>,
    ) -> Option<Case<'a>> {
        let name = name.into();
        if !self.wants(&name) {
            return None;
        }
        self.say(&format!("{workload}: {name}"));
        Some(Case::new(workload, name, self.runs()))
    }

    /// Runs a case and keeps what came out; its rows for who makes more of them.
    pub(crate) fn run(
        &mut self,
        mut case: Case<'_>,
        destination: &mut Destination,
    ) -> Result<Vec<Row>> {
        self.keep(std::mem::take(&mut case.skipped))?;
        let (rows, failures) = case.take_turns(destination);
        self.failures.extend(failures);
        self.keep(rows.clone())?;
        Ok(rows)
    }

    /// Keeps a row that says why a contender has no figures.
    pub(crate) fn skip(
        &mut self,
        workload: &'static str,
        case: &str,
        contender: &str,
        why: &Error,
    ) -> Result<()> {
        let row = Row::skipped(workload, case, contender, &why.to_string());
        self.keep(vec![row])
    }

    /// Keeps rows, and appends them to the file of rows at once: an interrupted run keeps what it
    /// measured.
    pub(crate) fn keep(&mut self, rows: Vec<Row>) -> Result<()> {
        if let Some(path) = &self.options.rows {
            rows::append(path, &rows)?;
        }
        self.rows.extend(rows);
        Ok(())
    }

    /// Keeps a reason not to trust the rest.
    pub(crate) fn fail(&mut self, failure: String) {
        self.failures.push(failure);
    }
}
