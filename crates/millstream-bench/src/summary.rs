//! The last lines of a run: what this machine's disk and cores deliver, and how Millstream
//! compares.

use std::sync::LazyLock;

use millstream_report::bench::Goal;
use millstream_report::rows::{Better, Figures, Row};
use millstream_report::{figure, geometric_mean};
use serde::Deserialize;

use crate::pattern;
use crate::table::new_table;

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

/// The summary; nothing without rows.
pub(crate) fn render(rows: &[Row], goals: &[Goal]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut facts = new_table();
    facts.set_header(["this machine", "delivers", "Millstream", "ratio"]);
    for fact in &FACTS.facts {
        if let Some(theirs) = find(rows, fact, &fact.of) {
            let ours = find(rows, fact, &fact.ours);
            let shown = |it: &Figures| format!("{} {}", figure(it.median), it.unit);
            facts.add_row([
                fact.what.clone(),
                shown(theirs),
                ours.map_or(String::new(), shown),
                ours.map_or(String::new(), |ours| figure(goodness(ours, theirs))),
            ]);
        }
    }
    let mut standing = new_table();
    standing.set_header(["workload", "cases", "of the limit", "goals reached"]);
    for rows in rows.chunk_by(|a, b| a.workload == b.workload) {
        let name = &rows[0].workload;
        let cases: Vec<&[Row]> = rows.chunk_by(|a, b| a.case == b.case).collect();
        let ratios = cases.iter().filter_map(|rows| of_limit(rows));
        let goals: Vec<&Goal> = goals.iter().filter(|goal| goal.workload == *name).collect();
        let reached = goals.iter().filter(|goal| goal.reached).count();
        standing.add_row([
            name.clone(),
            cases.len().to_string(),
            geometric_mean(ratios).map_or(String::new(), |mean| format!("{mean:.2}")),
            format!("{reached} of {}", goals.len()),
        ]);
    }
    let facts = match facts.is_empty() {
        true => String::new(),
        false => format!("{facts}\n"),
    };
    format!("{facts}{standing}\nRatios above 1 are better; of the limit: geometric mean.\n")
}

/// The figures of a contender's first row of a fact.
fn find<'a>(rows: &'a [Row], fact: &Fact, contender: &str) -> Option<&'a Figures> {
    let mut rows = rows.iter().filter(|row| {
        let named = row.workload == fact.workload && row.contender == contender;
        named && pattern::matches(&fact.case, &row.case)
    });
    rows.find_map(|row| row.figures().filter(|it| it.metric == fact.metric))
}

/// Ours beside the limit of a case, by its first metric.
fn of_limit(rows: &[Row]) -> Option<f64> {
    let figures = |who: &str| rows.iter().find(|row| row.contender == who)?.figures();
    Some(goodness(figures("millstream")?, figures("limit")?))
}

/// Ours over theirs, so that more is better.
fn goodness(ours: &Figures, theirs: &Figures) -> f64 {
    match ours.better {
        Better::Higher => ours.median / theirs.median,
        Better::Lower => theirs.median / ours.median,
    }
}
