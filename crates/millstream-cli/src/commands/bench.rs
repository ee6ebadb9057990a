//! `bench`: the workloads of `millstream-bench`, run and shown.

use std::ffi::OsStr;
use std::io::IsTerminal as _;

use millstream_bench::corpus::Corpus;
use millstream_bench::{Options, Report, Workload, study};
use millstream_report::bench as page;
use millstream_report::record::Version;
use serde_json::{Value, json};

use crate::args::BenchArgs;
use crate::commands::report;
use crate::failure::{Ending, Failure, Failures};
use crate::output::Output;
use crate::{machine, output, progress, record};

/// Runs `bench`.
pub(crate) fn bench(args: &BenchArgs) -> Result<(), Ending> {
    let named: Vec<Workload> = args
        .workloads
        .iter()
        .filter_map(|name| Workload::from_name(name))
        .collect();
    let workloads = if named.is_empty() {
        Workload::ALL.to_vec()
    } else {
        named
    };
    let options = Options {
        quick: args.quick,
        corpus: args.corpus.clone(),
        runs: args.runs,
        throttle: args.throttle.clone(),
        rows: args.rows.clone(),
        progress: std::io::stderr()
            .is_terminal()
            .then(|| Box::new(progress::say as fn(&str)) as Box<millstream_bench::Progress>),
        ..Options::default()
    };
    // Before the work, so that a page that cannot be written is told now and not in an hour.
    let page_output = args.report.as_deref().map(Output::create).transpose()?;
    let load_before = machine::load_average();
    let ran = millstream_bench::run(&options, &workloads);
    progress::clear();
    let report = ran.map_err(|error| Failure::new(OsStr::new("bench"), error.to_string()))?;
    if let Some(page_output) = page_output {
        let run = page_of(args, &options, &report, load_before)?;
        report::write(page_output, &page::page(&run))?;
    }
    let mut failures = Failures::default();
    for failure in &report.failures {
        failures.add(Failure::new(OsStr::new("bench"), failure));
    }
    if args.json {
        return output::conclude(&document(&report), failures.ending());
    }
    output::print(&report.render())?;
    failures.ending()
}

/// What the page tells: the rows, and what surrounds them.
fn page_of(
    args: &BenchArgs,
    options: &Options,
    report: &Report,
    load_before: Option<String>,
) -> Result<page::Run, Ending> {
    let broken = |error: String| Failure::new(OsStr::new("bench"), error);
    let corpus = Corpus::open(options.corpus.as_deref()).map_err(|it| broken(it.to_string()))?;
    let mut facts = machine::facts(corpus.folder());
    let load = |load: Option<String>| load.unwrap_or_else(|| "unknown".into());
    facts.push(("load before".into(), load(load_before)));
    facts.push(("load after".into(), load(machine::load_average())));
    facts.push(("call".into(), call(args)));
    let mut lines = Vec::new();
    for row in &report.rows {
        serde_json::to_writer(&mut lines, row).map_err(|it| broken(it.to_string()))?;
        lines.push(b'\n');
    }
    let rows = millstream_report::rows::parse(&lines).map_err(|it| broken(it.to_string()))?;
    let studies = report.rows.iter().filter_map(|row| {
        Some(page::Study {
            workload: row.workload.to_owned(),
            case: row.case.clone(),
            contender: row.contender.clone(),
            figures: study::beside(row.workload, &row.case, &row.contender)?.to_owned(),
        })
    });
    let goals = report.goals.iter().map(|goal| page::Goal {
        workload: goal.workload.to_owned(),
        case: goal.case.clone(),
        contender: goal.contender.to_owned(),
        what: goal.what.clone(),
        bound: goal.bound_text(),
        value: goal.value,
        reached: goal.reached,
        within_noise: goal.within_noise,
    });
    let published = study::PUBLISHED.iter().map(|table| page::Published {
        workload: table.workload.to_owned(),
        caption: table.caption.to_owned(),
        columns: table.columns.iter().map(ToString::to_string).collect(),
        lines: table
            .lines
            .iter()
            .map(|line| line.iter().map(ToString::to_string).collect())
            .collect(),
    });
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
    Ok(page::Run {
        rows,
        goals: goals.collect(),
        studies: studies.collect(),
        published: published.collect(),
        failures: report.failures.clone(),
        facts,
        history,
    })
}

/// The call in its essentials: what another run needs to be comparable.
fn call(args: &BenchArgs) -> String {
    let mut words = String::from("bench");
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

fn document(report: &Report) -> Value {
    let goals: Vec<Value> = report
        .goals
        .iter()
        .map(|goal| {
            json!({
                "workload": goal.workload,
                "case": goal.case,
                "contender": goal.contender,
                "what": goal.what,
                "value": goal.value,
                "reached": goal.reached,
                "within_noise": goal.within_noise,
            })
        })
        .collect();
    json!({ "rows": report.rows, "failures": report.failures, "goals": goals })
}
