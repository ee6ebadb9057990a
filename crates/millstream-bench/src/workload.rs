//! What a run of the benchmark is made of: options in, a report out.

use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::limits;
use crate::peers::Peers;
use crate::rows::{self, Row};
use crate::session::{Options, Session};
use crate::{
    codecs, goals, packages, pnm, python, read, requests, scenes, startup, streams, summary, table,
};

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
    /// The package for Python beside what Python programs use.
    Python,
}

impl Workload {
    /// All there are, in the order in which they run.
    pub const ALL: [Workload; 9] = [
        Workload::Read,
        Workload::Requests,
        Workload::Startup,
        Workload::Scenes,
        Workload::Packages,
        Workload::Codecs,
        Workload::Pnm,
        Workload::Streams,
        Workload::Python,
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
            Workload::Python => "python",
        }
    }

    /// The workload of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|it| it.name() == name)
    }
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
        table::render(&self.rows, &self.failures, &self.goals)
            + &summary::render(&self.rows, &self.goals)
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
        rows: Vec::new(),
        failures: Vec::new(),
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
            Workload::Python => python::run(&mut session)?,
        }
    }
    let (rows, failures) = (session.rows, session.failures);
    let goals = goals::judge(&rows);
    Ok(Report {
        rows,
        failures,
        goals,
    })
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
        .any(|rate| !rate.is_finite() || *rate < limits::THROTTLE_MBPS_MIN)
    {
        return Err(Error::new("a throttle is a rate in MB/s, 0.1 or more"));
    }
    Ok(())
}
