//! What a run of the benchmark is made of: options in, a report out.

use millstream_report::bench::{self, Goal};
use millstream_report::rows::Row;

use crate::corpus::Corpus;
use crate::error::Result;
use crate::files::check_writable;
use crate::session::{Options, Session};
use crate::{codecs, gpu, packages, pnm, read, requests, scenes, startup, streams};
use crate::{goals, study, summary};

type Run = fn(&mut Session<'_>) -> Result<()>;

/// A workload of this crate; the module of its name says what it measures.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    name: &'static str,
    run: Run,
}

impl Workload {
    /// All there are, in the order in which they run.
    pub const ALL: [Workload; 9] = [
        Workload::new("read", read::run),
        Workload::new("requests", requests::run),
        Workload::new("startup", startup::run),
        Workload::new("scenes", scenes::run),
        Workload::new("packages", packages::run),
        Workload::new("codecs", codecs::run),
        Workload::new("pnm", pnm::run),
        Workload::new("streams", streams::run),
        Workload::new("gpu", gpu::run),
    ];

    const fn new(name: &'static str, run: Run) -> Workload {
        Workload { name, run }
    }

    /// Its name, in rows and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The workload of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|it| it.name == name)
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
    pub goals: Vec<Goal>,
}

impl Report {
    /// What a page or a terminal shows of it.
    #[must_use]
    pub fn shown(&self) -> bench::Run {
        let studies = self.rows.iter().filter_map(|row| {
            Some(bench::Study {
                workload: row.workload.clone(),
                case: row.case.clone(),
                contender: row.contender.clone(),
                figures: study::beside(&row.workload, &row.case, &row.contender)?.to_owned(),
            })
        });
        bench::Run {
            rows: self.rows.iter().cloned().map(Row::arranged).collect(),
            goals: self.goals.clone(),
            studies: studies.collect(),
            failures: self.failures.clone(),
            ..bench::Run::default()
        }
    }

    /// Tables and goals as text for a terminal.
    #[must_use]
    pub fn render(&self) -> String {
        bench::text(&self.shown(), &summary::facts(&self.rows))
    }
}

/// Runs workloads, in the order given.
///
/// # Errors
/// The corpus cannot be made, or rows cannot be written. What a contender cannot do is no error: it
/// is a row that says why, or one of the report's failures.
pub fn run(options: &Options, workloads: &[Workload]) -> Result<Report> {
    if let Some(path) = &options.rows {
        check_writable(path)?;
    }
    let mut session = Session {
        options,
        corpus: Corpus::open(options.corpus.as_deref())?,
        rows: Vec::new(),
        failures: Vec::new(),
    };
    for workload in workloads {
        (workload.run)(&mut session)?;
    }
    let Session { rows, failures, .. } = session;
    let goals = goals::judge(&rows);
    Ok(Report {
        rows,
        failures,
        goals,
    })
}
