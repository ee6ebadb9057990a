//! The page of a run: what `millstream-report` draws, made of a report and the machine's facts.

use millstream_bench::corpus::Corpus;
use millstream_bench::error::Result;
use millstream_bench::{Options, Report, study};
use millstream_report::bench as page;

use crate::machine;

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
    let mut run = report.shown();
    run.facts = facts;
    run.published = study::published().to_vec();
    Ok(page::page(&run))
}

/// The call, which another run needs to be comparable.
fn call() -> String {
    let words: Vec<_> = std::env::args_os().collect();
    let peers = cfg!(feature = "peers");
    let words = words.join(" ".as_ref());
    words.to_string_lossy().into_owned() + if peers { ", with feature `peers`" } else { "" }
}
