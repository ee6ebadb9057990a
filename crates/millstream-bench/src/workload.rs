//! The entry points of a run: options in, a report out.

use millstream_report::bench::{self, Run as Report};
use millstream_report::rows::Row;

use crate::corpus::Corpus;
use crate::error::Result;
use crate::files::check_writable;
use crate::session::{Options, Session};
use crate::{codecs, gpu, packages, pnm, read, requests, scenes, startup, streams};
use crate::{goals, study, summary};

type Run = fn(&mut Session<'_>) -> Result<()>;

/// A workload of this crate; the module of the same name documents what it measures.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    name: &'static str,
    run: Run,
}

impl Workload {
    /// All workloads, in the order in which they run.
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

    /// Returns the name, as used in rows and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the workload of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|it| it.name == name)
    }
}

/// Renders the tables and goals of a report as text for a terminal.
#[must_use]
pub fn render(report: &Report) -> String {
    bench::text(report, &summary::facts(&report.rows))
}

/// Runs workloads in the given order.
///
/// # Errors
/// The corpus cannot be made, or rows cannot be written. A contender that fails is not an error: it
/// gets a row with the reason, or is one of the report's failures.
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
    Ok(Report {
        goals: goals::judge(&rows),
        rows: rows.into_iter().map(Row::arranged).collect(),
        failures,
        study: Some(study::beside),
        published: study::published().to_vec(),
        facts: Vec::new(),
    })
}
