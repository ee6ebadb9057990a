//! A run of the benchmark as its workloads see it.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::builder::TypedValueParser as _;
use clap::{ValueHint, value_parser};
use millstream_report::rows::Row;
use toml::Table;

use crate::case::Case;
use crate::cases::{self, Instance};
use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::limits;
use crate::metric::Metric;
use crate::rows;

#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Small data and few runs: at most 90 s instead of 20 minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where the data is kept [default: below the folder for temporary files]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) corpus: Option<PathBuf>,
    /// Counted runs of every case [default: 10; fewer, but at least 3, where these take over 3 s;
    /// with --quick 3]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..=limits::RUNS_MAX).map(usize::from))]
    pub(crate) runs: Option<usize>,
    /// Also read from a disk slowed down to these rates (needs root; 1 MB = 10^6 bytes)
    #[arg(long, value_name = "MBPS", value_delimiter = ',', value_parser = rate)]
    pub(crate) throttle: Vec<f64>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "PART")]
    pub(crate) only: Option<String>,
    /// Append every figure to this file, a JSON object a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) rows: Option<PathBuf>,
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate: &f64| rate.is_finite() && *rate >= limits::THROTTLE_MBPS_MIN);
    rate.ok_or_else(|| format!("a rate in MB/s, {} or more", limits::THROTTLE_MBPS_MIN))
}

pub(crate) struct Session<'a> {
    pub(crate) options: &'a Options,
    pub(crate) corpus: Corpus,
    pub(crate) rows: Vec<Row>,
    pub(crate) failures: Vec<String>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(options: &'a Options) -> Result<Session<'a>> {
        Ok(Session {
            options,
            corpus: Corpus::open(options.corpus.as_deref())?,
            rows: Vec::new(),
            failures: Vec::new(),
        })
    }

    pub(crate) fn runs(&self) -> usize {
        let default = self.size(limits::RUNS, limits::QUICK_RUNS);
        self.options.runs.unwrap_or(default)
    }

    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    pub(crate) fn cases(&self, workload: &str, kind: &str) -> Vec<Instance> {
        self.cases_with(workload, kind, Table::new())
    }

    /// The same with variables whose values, lists of texts, were found at run time.
    pub(crate) fn cases_with(&self, workload: &str, kind: &str, found: Table) -> Vec<Instance> {
        let mut all = cases::of(workload, kind, self.options.quick, &found);
        if let Some(part) = &self.options.only {
            all.retain(|case| case.name.contains(part));
        }
        all
    }

    pub(crate) fn begin<'c>(&self, instance: &Instance) -> Case<'c> {
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
            let figure = |it: &Metric| (*it, it.figure(span, work.bytes, work.requests));
            metrics.iter().map(figure).collect()
        });
        case
    }

    /// Shows what runs now, in a line that the next one replaces, if someone watches.
    pub(crate) fn say(&self, what: &str) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{what}\r");
        }
    }

    pub(crate) fn run(&mut self, mut case: Case<'_>) -> Result<()> {
        self.keep(std::mem::take(&mut case.skipped))?;
        let (rows, failures) = case.take_turns()?;
        self.failures.extend(failures);
        self.keep(rows)
    }

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
