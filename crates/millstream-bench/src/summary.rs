//! The summary of a run: what the disk and the cores deliver, and how Millstream compares.

use std::sync::LazyLock;

use millstream_report::rows::{Better, Figures, Row};
use millstream_report::{Table, figure};
use serde::Deserialize;

use crate::pattern;

/// A figure of the machine; see `summary.toml`.
#[derive(Deserialize)]
struct Fact {
    what: String,
    workload: String,
    case: String,
    of: String,
    metric: String,
    ours: String,
}

#[derive(Deserialize)]
struct Facts {
    facts: Vec<Fact>,
}

static FACTS: LazyLock<Facts> = LazyLock::new(|| {
    toml::from_str(include_str!("summary.toml")).expect("a table of this crate, which tests read")
});

/// Returns what the disk and the cores deliver, with Millstream's figure beside each.
pub(crate) fn facts(rows: &[Row]) -> Table {
    let mut facts = Table::new("", "this machine | >delivers | >Millstream | >ratio");
    for fact in &FACTS.facts {
        if let Some(theirs) = find(rows, fact, &fact.of) {
            let ours = find(rows, fact, &fact.ours);
            let shown = |it: &Figures| format!("{} {}", figure(it.median), it.unit);
            let cells = vec![
                fact.what.clone().into(),
                shown(theirs).into(),
                ours.map_or(String::new(), shown).into(),
                ours.map_or(String::new(), |ours| figure(goodness(ours, theirs)))
                    .into(),
            ];
            facts.row("", cells);
        }
    }
    facts
}

/// Returns the figures of a contender's first row that matches a fact.
fn find<'a>(rows: &'a [Row], fact: &Fact, contender: &str) -> Option<&'a Figures> {
    let mut rows = rows.iter().filter(|row| {
        let named = row.workload == fact.workload && row.contender == contender;
        named && pattern::matches(&fact.case, &row.case)
    });
    rows.find_map(|row| row.figures().filter(|it| it.metric == fact.metric))
}

/// Returns the ratio of ours to theirs, oriented so that more is better.
fn goodness(ours: &Figures, theirs: &Figures) -> f64 {
    match ours.better {
        Better::Higher => ours.median / theirs.median,
        Better::Lower => theirs.median / ours.median,
    }
}
