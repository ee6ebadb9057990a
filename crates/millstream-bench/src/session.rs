//! A run of the benchmark as its workloads see it.

use std::path::PathBuf;

use millstream_report::rows::Row;
use toml::{Table, Value};

use crate::case::Case;
use crate::cases::{self, Instance};
use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::limits;
use crate::memory::Destination;
use crate::metric::Metric;
use crate::rows;

/// Receives a line about what runs now.
pub type Progress = dyn Fn(&str) + Send + Sync;

/// How to run.
#[derive(Default)]
pub struct Options {
    /// Small files and few runs: seconds, not minutes. Every contender still runs.
    pub quick: bool,
    /// Where the corpus is kept; by default below the system's folder for temporary files.
    /// Folders of it in `packages` are cases of that workload.
    pub corpus: Option<PathBuf>,
    /// Counted rounds of every case.
    pub runs: Option<usize>,
    /// Also read under these rates, in MB/s (10⁶ bytes).
    pub throttle: Vec<f64>,
    /// Only cases whose name contains this: for looking at one of them closely.
    pub only: Option<String>,
    /// Append rows to this file as they come.
    pub rows: Option<PathBuf>,
    /// Receives a line about what runs now.
    pub progress: Option<Box<Progress>>,
}

/// What a workload works with.
pub(crate) struct Session<'a> {
    pub(crate) options: &'a Options,
    pub(crate) corpus: Corpus,
    pub(crate) rows: Vec<Row>,
    pub(crate) failures: Vec<String>,
}

impl Session<'_> {
    /// Counted rounds.
    pub(crate) fn runs(&self) -> usize {
        let default = self.size(limits::RUNS, limits::QUICK_RUNS);
        self.options.runs.unwrap_or(default)
    }

    /// One of two sizes.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    /// The cases of a kind that are to run.
    pub(crate) fn cases(&self, workload: &str, kind: &str) -> Vec<Instance> {
        self.cases_of(workload, kind, &Table::new())
    }

    /// The same with a variable whose values were found at run time.
    pub(crate) fn cases_with<T: Into<Value>>(
        &self,
        workload: &str,
        kind: &str,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Vec<Instance> {
        let values = Value::Array(values.into_iter().map(Into::into).collect());
        self.cases_of(
            workload,
            kind,
            &Table::from_iter([(name.to_owned(), values)]),
        )
    }

    fn cases_of(&self, workload: &str, kind: &str, found: &Table) -> Vec<Instance> {
        let mut all = cases::of(workload, kind, self.options.quick, found);
        if let Some(part) = &self.options.only {
            all.retain(|case| case.name.contains(part));
        }
        all
    }

    /// Announces a case and makes it, without contenders.
    pub(crate) fn begin<'a>(&self, instance: &Instance) -> Case<'a> {
        self.say(&format!("{}: {}", instance.workload, instance.name));
        let family = instance.family;
        let runs = self.runs().min(family.runs_max.unwrap_or(usize::MAX));
        let runs = runs * family.runs_times.unwrap_or(1);
        let mut case = Case::new(instance.workload, instance.name.as_str(), runs);
        (case.warm_up, case.limit) = (family.warm_up.unwrap_or(true), family.limit);
        if self.options.runs.is_none() {
            case.budget = limits::CASE_BUDGET;
        }
        let figures = family.figures.iter();
        let metrics: Vec<Metric> = figures.map(|text| Metric::of(text.as_str())).collect();
        case.figures(move |span, work| {
            let figures = metrics
                .iter()
                .map(|it| (*it, it.figure(span, work.bytes, work.requests)));
            figures.collect()
        });
        case
    }

    /// Reports what runs now.
    pub(crate) fn say(&self, what: &str) {
        if let Some(progress) = &self.options.progress {
            progress(what);
        }
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
    pub(crate) fn skip(&mut self, of: &Instance, contender: &str, why: &Error) -> Result<()> {
        let row = rows::skipped(of.workload, &of.name, contender, &why.to_string());
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
}
