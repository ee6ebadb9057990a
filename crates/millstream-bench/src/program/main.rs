//! The program `millstream-bench`: parses the options, runs the workloads of the library and prints
//! tables, JSON or a page.
//!
//! It ends with status 0 if all went well, 1 if something failed or delivered wrong bytes, and 2
//! after a usage error. Signals have their default actions: what is written beside its target (a
//! page, a file of the corpus) is renamed only when it is complete.

mod machine;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Parser, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use millstream_bench::corpus::Corpus;
use millstream_bench::error::Result;
use millstream_bench::{Options, Workload, check_writable, render, replace, run};
use millstream_report::bench::{self, Run as Report};
use serde_json::{Value, json};

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

Exit status: 0 success; 1 a failure or wrong bytes; 2 a usage error."
)]
struct Args {
    /// What to measure
    #[arg(value_name = "WORKLOAD")]
    #[arg(value_parser = PossibleValuesParser::new(Workload::ALL.map(Workload::name))
        .try_map(|name| Workload::from_name(&name).ok_or("no workload")))]
    workloads: Vec<Workload>,
    #[command(flatten)]
    options: Options,
    /// Also write a page with pictures, tables and the machine's facts, as one file of HTML
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    report: Option<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let mut args = Args::parse();
    let (report, failures) = match measure(&mut args) {
        Ok(report) => {
            let failures = report.failures.clone();
            (report, failures)
        }
        Err(error) => (Report::default(), vec![error.to_string()]),
    };
    if let Err(error) = print(&args, &report, &failures) {
        eprintln!("millstream-bench: cannot write to standard output: {error}");
        return ExitCode::FAILURE;
    }
    let Some(first) = failures.first() else {
        return ExitCode::SUCCESS;
    };
    let count = failures.len();
    let plural = if count == 1 { "failure" } else { "failures" };
    eprintln!("millstream-bench: {count} {plural}, the first: {first}");
    ExitCode::FAILURE
}

/// Runs the workloads and writes the page.
fn measure(args: &mut Args) -> Result<Report> {
    let workloads = match &*args.workloads {
        [] => &Workload::ALL,
        named => named,
    };
    let bar = progress();
    let shown = bar.clone();
    let progress = move |line: &str| shown.set_message(line.to_owned());
    args.options.progress = Some(Box::new(progress));
    // Before the work, so that a page that cannot be written is reported now and not in an hour.
    args.report.as_deref().map_or(Ok(()), check_writable)?;
    let load_before = machine::load_average();
    let report = run(&args.options, workloads);
    bar.finish_and_clear();
    let mut report = report?;
    if let Some(path) = &args.report {
        let corpus = Corpus::open(args.options.corpus.as_deref())?;
        report.facts = machine::facts(corpus.folder(), load_before);
        replace(path, bench::page(&report).as_bytes())?;
    }
    Ok(report)
}

/// A line on standard error that shows what runs now, if that is a terminal.
fn progress() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    let bar = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn print(args: &Args, report: &Report, failures: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &document(report, failures))?;
        writeln!(out)?;
    } else {
        out.write_all(render(report).as_bytes())?;
    }
    out.flush()
}

fn document(report: &Report, failures: &[String]) -> Value {
    let mut document =
        json!({ "rows": report.rows, "failures": report.failures, "goals": report.goals });
    if let Some(first) = failures.first() {
        let path = "bench";
        document["error"] =
            json!({ "kind": "failed", "path": path, "offset": null, "message": first });
    }
    document
}
