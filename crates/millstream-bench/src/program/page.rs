//! The page of a run: what `millstream-report` draws, made of a report and the machine's facts.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::{fs, io};

use millstream_bench::corpus::Corpus;
use millstream_bench::{Options, Report, study};
use millstream_io::fs::AtomicFile;
use millstream_report::bench as page;
use millstream_report::record::Version;
use millstream_report::rows::Row;

use crate::{Args, machine, record};

/// Where the page is written to.
pub(crate) enum Output {
    /// A regular file, replaced as a whole.
    File(AtomicFile, PathBuf),
    /// A device or a pipe, written through.
    Through(PathBuf),
}

impl Output {
    /// Makes sure that `name` can be written. An unfinished page is removed when this is dropped.
    pub(crate) fn create(name: &OsStr) -> Result<Output, String> {
        let path = PathBuf::from(name);
        let about = fs::metadata(&path);
        if about.is_ok_and(|about| !about.is_file()) {
            return Ok(Output::Through(path));
        }
        let file = AtomicFile::create(&path);
        let file = file.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Output::File(file, path))
    }

    /// Writes the page and makes it visible under its name.
    pub(crate) fn write(self, html: &str) -> Result<(), String> {
        let (path, written) = match self {
            Output::Through(path) => {
                let written = fs::write(&path, html);
                (path, written)
            }
            Output::File(file, path) => {
                let mask = AtomicFile::KEEP_PERMISSIONS;
                let written = file.write_and_commit(html.as_bytes(), mask);
                (path, written.map_err(io::Error::from))
            }
        };
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// The page of a report.
pub(crate) fn html(
    args: &Args,
    options: &Options,
    report: &Report,
    load_before: Option<String>,
) -> Result<String, String> {
    let corpus = Corpus::open(options.corpus.as_deref()).map_err(|error| error.to_string())?;
    let mut facts = machine::facts(corpus.folder());
    let load = |load: Option<String>| load.unwrap_or_else(|| "unknown".into());
    facts.push(("load before".into(), load(load_before)));
    facts.push(("load after".into(), load(machine::load_average())));
    facts.push(("call".into(), call(args)));
    let rows: Vec<Row> = report.rows.iter().cloned().map(Row::arranged).collect();
    let studies = report.rows.iter().filter_map(|row| {
        Some(page::Study {
            workload: row.workload.clone(),
            case: row.case.clone(),
            contender: row.contender.clone(),
            figures: study::beside(&row.workload, &row.case, &row.contender)?.to_owned(),
        })
    });
    let studies = studies.collect();
    let earlier = record::of_this_machine(args.rows.as_deref());
    for cause in earlier.left_out {
        facts.push(("record left out".into(), cause));
    }
    let mut history = earlier.versions;
    if !history.is_empty() {
        history.push(Version {
            name: "now".into(),
            rows: rows.clone(),
        });
    }
    Ok(page::page(&page::Run {
        rows,
        goals: report.goals.clone(),
        studies,
        published: study::published().to_vec(),
        failures: report.failures.clone(),
        facts,
        history,
    }))
}

/// The options that another run needs to be comparable.
fn call(args: &Args) -> String {
    let mut words = String::from("millstream-bench");
    for workload in &args.workloads {
        words.push_str(&format!(" {workload}"));
    }
    if args.quick {
        words.push_str(" --quick");
    }
    if let Some(runs) = args.runs {
        words.push_str(&format!(" --runs {runs}"));
    }
    if !args.throttle.is_empty() {
        let rates: Vec<String> = args.throttle.iter().map(f64::to_string).collect();
        words.push_str(&format!(" --throttle {}", rates.join(",")));
    }
    let peers = cfg!(feature = "peers");
    words + if peers { ", with feature `peers`" } else { "" }
}
