//! Reproducible benchmarks of the workloads that Millstream was founded on.
//!
//! Five studies of file loading motivated this project. Each of their experiments is a workload
//! here, with the study's own method as a rival, with current rivals, and with the *limit*: the
//! least that the hardware and the kernel demand, measured in the same run. A corpus is made from a
//! seed, contenders take turns, every byte they deliver is checked, and the result is rows, goals
//! and failures.
//!
//! Modules: `cases` has the cases, which are data (`cases.toml`); `case` runs contenders in turns;
//! `metric` computes figures from runs; `session` is a run as the workloads see it; `corpus` is
//! what is read and `memory` where to; `files` and `throttle` set the state of the page cache and
//! the disk; `read`, `requests`, `startup`, `packages`, `archives`, `streams`, `pnm`, `scenes`,
//! `codecs` and `weights` are the workloads; `ours` and `lend` have Millstream's storages and the
//! memory lent to them; `peers` has the rivals; `stats`, `rows` and `goals` evaluate the figures.
//! The tables of goals (`goals.toml`) and of the studies' figures (`study.toml`) are data, too.
//!
//! The program ends with status 0 if all went well, 1 if something failed or delivered wrong bytes,
//! and 2 after a usage error. Signals have their default actions: what is written beside its target
//! (a page, a file of the corpus) is renamed only when it is complete.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueHint};
use millstream_report::bench::{self, Run};

use crate::error::{Error, Result};
use crate::files::{check_writable, replace};
use crate::session::{Options, Session};

mod archives;
mod case;
mod cases;
mod clock;
mod codecs;
mod corpus;
mod error;
mod files;
mod goals;
mod lend;
mod limits;
mod machine;
mod memory;
mod metric;
mod ours;
mod packages;
mod peers;
mod pnm;
mod prelude;
mod read;
mod requests;
mod rows;
mod scenes;
mod session;
mod startup;
mod stats;
mod streams;
mod threads;
mod throttle;
mod weights;

#[cfg(test)]
millstream_testing::watch!();

type Workload = fn(&mut Session<'_>) -> Result<()>;

/// The workloads, in the order in which they run; the module of the same name documents each.
const WORKLOADS: [(&str, Workload); 10] = [
    ("read", read::run),
    ("requests", requests::run),
    ("startup", startup::run),
    ("scenes", scenes::run),
    ("packages", packages::run),
    ("archives", archives::run),
    ("codecs", codecs::run),
    ("pnm", pnm::run),
    ("streams", streams::run),
    ("weights", weights::run),
];

/// Measure Millstream beside its rivals, and both beside the limits of this machine.
///
/// Makes its own data from a seed, so it runs on a fresh machine. Every result is checked against a
/// hash. Without a WORKLOAD all of them run.
#[derive(Parser)]
#[command(
    name = "millstream-bench",
    version,
    after_help = "\
Examples:
  millstream-bench --quick
  millstream-bench --quick --report report.html
  millstream-bench read --throttle 48,550 --rows rows.jsonl

Exit status: 0 success; 1 a failure or wrong bytes; 2 a usage error.
Environment: MILLSTREAM_BACKEND (auto, uring, threads) names the backend."
)]
struct Args {
    /// What to measure
    #[arg(value_name = "WORKLOAD")]
    #[arg(value_parser = PossibleValuesParser::new(WORKLOADS.map(|it| it.0)))]
    workloads: Vec<String>,
    #[command(flatten)]
    options: Options,
    /// Also write a page with pictures, tables and the machine's facts, as one file of HTML
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    report: Option<PathBuf>,
}

fn main() -> ExitCode {
    let failures = match measure(&Args::parse()) {
        Err(error) => vec![error.to_string()],
        Ok(run) => match io::stdout().write_all(bench::text(&run).as_bytes()) {
            Err(error) => vec![format!("cannot write to standard output: {error}")],
            Ok(()) => run.failures,
        },
    };
    let Some(first) = failures.first() else {
        return ExitCode::SUCCESS;
    };
    let count = failures.len();
    let plural = if count == 1 { "failure" } else { "failures" };
    eprintln!("millstream-bench: {count} {plural}, the first: {first}");
    ExitCode::FAILURE
}

/// Runs the workloads and writes the page. A contender that fails is not an error: it has a row
/// with the reason, or is one of the failures of the run.
fn measure(args: &Args) -> Result<Run> {
    // Before the work, so that a file that cannot be written is reported now and not in an hour.
    let outputs = args.options.rows.iter().chain(&args.report);
    outputs
        .into_iter()
        .try_for_each(|path| check_writable(path))?;
    ours::defaults()?;
    let load_before = machine::load_average();
    let mut session = Session::new(&args.options)?;
    let is_wanted = |name| args.workloads.is_empty() || args.workloads.iter().any(|it| it == name);
    for (_, workload) in WORKLOADS.iter().filter(|(name, _)| is_wanted(*name)) {
        workload(&mut session)?;
    }
    session.say("");
    if let Some(part) = &args.options.only
        && session.rows.is_empty()
    {
        let cause = format!("no case of these workloads has {part:?} in its name");
        return Err(Error::new(cause));
    }
    let facts = machine::facts(session.corpus.folder(), load_before);
    let run = Run {
        goals: goals::judge(&session.rows),
        rows: session.rows,
        failures: session.failures,
        study: Some(goals::beside),
        facts,
    };
    if let Some(path) = &args.report {
        replace(path, bench::page(&run).as_bytes())?;
    }
    Ok(run)
}
