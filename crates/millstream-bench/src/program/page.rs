//! The page of a run: what `millstream-report` draws, made of a report and the machine's facts.

use millstream_bench::corpus::Corpus;
use millstream_bench::error::Result;
use millstream_bench::{Options, Report, study};
use millstream_report::bench as page;
use millstream_report::record::Version;
use millstream_report::rows::Row;

use crate::{machine, record};

/// The page of a report.
pub(crate) fn html(
    options: &Options,
    report: &Report,
    load_before: Option<String>,
) -> Result<String> {
    let corpus = Corpus::open(options.corpus.as_deref())?;
    let mut facts = machine::facts(corpus.folder());
    let load = |load: Option<String>| load.unwrap_or_else(|| "unknown".into());
    facts.push(("load before".into(), load(load_before)));
    facts.push(("load after".into(), load(machine::load_average())));
    facts.push(("call".into(), call()));
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
    let earlier = record::of_this_machine(options.rows.as_deref());
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

/// The call, which another run needs to be comparable.
fn call() -> String {
    let words: Vec<_> = std::env::args_os().collect();
    let peers = cfg!(feature = "peers");
    let words = words.join(" ".as_ref());
    words.to_string_lossy().into_owned() + if peers { ", with feature `peers`" } else { "" }
}
