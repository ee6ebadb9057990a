//! What a run of the benchmark is made of: options in, a report out.

use std::path::PathBuf;

use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, CaseResult, Contender, take_turns};
use crate::memory::Destination;
use crate::peers::Peers;
use crate::rows::{self, Row};
use crate::{codecs, goals, packages, pnm, read, requests, scenes, startup, streams, table};

/// The workloads of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// One big file into memory, as fast as possible.
    Read,
    /// Many small requests, batched.
    Requests,
    /// Thousands of small files before the first frame.
    Startup,
    /// glTF scenes, every image decoded.
    Scenes,
    /// Packages beside loose files.
    Packages,
    /// Decoding and encoding in memory.
    Codecs,
    /// Text images parsed at the speed of the disk.
    Pnm,
    /// Fields and objects through streams, and objects used in place.
    Streams,
}

impl Workload {
    /// All there are, in the order in which they run.
    pub const ALL: [Workload; 8] = [
        Workload::Read,
        Workload::Requests,
        Workload::Startup,
        Workload::Scenes,
        Workload::Packages,
        Workload::Codecs,
        Workload::Pnm,
        Workload::Streams,
    ];

    /// Its name, in rows and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Workload::Read => "read",
            Workload::Requests => "requests",
            Workload::Startup => "startup",
            Workload::Scenes => "scenes",
            Workload::Packages => "packages",
            Workload::Codecs => "codecs",
            Workload::Pnm => "pnm",
            Workload::Streams => "streams",
        }
    }

    /// The workload of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Told what runs now, a line at a time.
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
    /// Told what runs now.
    pub progress: Option<Box<Progress>>,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// Every figure.
    pub rows: Vec<Row>,
    /// Wrong bytes of anyone, and failures of our own contenders: reasons not to trust the rest.
    pub failures: Vec<String>,
    /// The goals that these rows can judge.
    pub goals: Vec<goals::Verdict>,
}

impl Report {
    /// Tables and goals as text for a terminal.
    #[must_use]
    pub fn render(&self) -> String {
        table::render(self)
    }
}

/// Runs workloads, in the order given.
///
/// # Errors
/// The corpus cannot be made, rows cannot be written, or an option makes no sense. What a
/// contender cannot do is no error: it is a row that says why, or one of the report's failures.
pub fn run(options: &Options, workloads: &[Workload]) -> Result<Report> {
    check(options)?;
    if let Some(path) = &options.rows {
        rows::check(path)?;
    }
    let corpus = Corpus::open(options.corpus.as_deref())?;
    let mut session = Session {
        options,
        corpus,
        peers: Peers::default(),
        report: Report::default(),
    };
    for workload in workloads {
        match workload {
            Workload::Read => read::run(&mut session)?,
            Workload::Requests => requests::run(&mut session)?,
            Workload::Startup => startup::run(&mut session)?,
            Workload::Scenes => scenes::run(&mut session)?,
            Workload::Packages => packages::run(&mut session)?,
            Workload::Codecs => codecs::run(&mut session)?,
            Workload::Pnm => pnm::run(&mut session)?,
            Workload::Streams => streams::run(&mut session)?,
        }
    }
    let mut report = session.report;
    report.goals = goals::judge(&report.rows);
    Ok(report)
}

fn check(options: &Options) -> Result<()> {
    if options
        .runs
        .is_some_and(|runs| runs == 0 || runs > limits::RUNS_MAX)
    {
        return Err(Error::new(format!(
            "runs must be 1 to {}",
            limits::RUNS_MAX
        )));
    }
    if options
        .throttle
        .iter()
        .any(|rate| !rate.is_finite() || *rate < 0.1)
    {
        return Err(Error::new("a throttle is a rate in MB/s, 0.1 or more"));
    }
    Ok(())
}

/// What a workload works with.
pub(crate) struct Session<'a> {
    pub(crate) options: &'a Options,
    pub(crate) corpus: Corpus,
    pub(crate) peers: Peers,
    report: Report,
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

    /// Tells what runs now.
    pub(crate) fn say(&self, what: &str) {
        if let Some(progress) = &self.options.progress {
            progress(what);
        }
    }

    /// Runs a case and keeps what came out.
    pub(crate) fn case(
        &mut self,
        case: &Case<'_>,
        contenders: Vec<Box<dyn Contender>>,
        destination: &mut Destination,
    ) -> Result<()> {
        self.say(&format!("{}: {}", case.workload, case.name));
        self.case_quietly(case, contenders, destination)
    }

    /// The same without a word: for one of many small cases of the same name.
    pub(crate) fn case_quietly(
        &mut self,
        case: &Case<'_>,
        contenders: Vec<Box<dyn Contender>>,
        destination: &mut Destination,
    ) -> Result<()> {
        self.case_rows(case, contenders, destination).map(|_| ())
    }

    /// The same, and gives the rows to who makes more of them.
    pub(crate) fn case_rows(
        &mut self,
        case: &Case<'_>,
        contenders: Vec<Box<dyn Contender>>,
        destination: &mut Destination,
    ) -> Result<Vec<Row>> {
        let CaseResult { rows, failures } = take_turns(case, contenders, destination);
        self.report.failures.extend(failures);
        self.keep(rows.clone())?;
        Ok(rows)
    }

    /// Keeps rows, and appends them to the file of rows at once: an interrupted run keeps what it
    /// measured.
    pub(crate) fn keep(&mut self, rows: Vec<Row>) -> Result<()> {
        if let Some(path) = &self.options.rows {
            rows::append(path, &rows)?;
        }
        self.report.rows.extend(rows);
        Ok(())
    }

    /// Keeps a reason not to trust the rest.
    pub(crate) fn fail(&mut self, failure: String) {
        self.report.failures.push(failure);
    }
}

/// Contenders that came to be, and skipped rows for those that did not.
pub(crate) struct Field {
    workload: &'static str,
    pub(crate) case: String,
    pub(crate) contenders: Vec<Box<dyn Contender>>,
    pub(crate) skipped: Vec<Row>,
}

impl Field {
    pub(crate) fn new(workload: &'static str, case: &str) -> Field {
        Field {
            workload,
            case: case.to_owned(),
            contenders: Vec::new(),
            skipped: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, contender: impl Contender + 'static) {
        self.contenders.push(Box::new(contender));
    }

    /// Adds a contender, or the reason why there is none.
    pub(crate) fn try_add<C: Contender + 'static>(&mut self, name: &str, contender: Result<C>) {
        match contender {
            Ok(contender) => self.add(contender),
            Err(error) => self.skipped.push(Row::skipped(
                self.workload,
                &self.case,
                name,
                &error.to_string(),
            )),
        }
    }
}
