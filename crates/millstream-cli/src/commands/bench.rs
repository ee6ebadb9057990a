//! `bench`: the workloads of `millstream-bench`, run and shown.

use std::ffi::OsStr;
use std::io::IsTerminal as _;

use millstream_bench::{Options, Report, Workload};
use serde_json::{Value, json};

use crate::args::BenchArgs;
use crate::failure::{Ending, Failure};
use crate::{output, progress};

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
    let ran = millstream_bench::run(&options, &workloads);
    progress::clear();
    let report = ran.map_err(|error| Failure::new(OsStr::new("bench"), error.to_string()))?;
    if args.json {
        output::print_json(&document(&report))?;
    } else {
        output::print(&report.render())?;
    }
    match report.failures.first() {
        None => Ok(()),
        Some(first) => Err(Ending::Failed {
            count: report.failures.len() as u64,
            first: Failure::new(OsStr::new("bench"), first),
        }),
    }
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
