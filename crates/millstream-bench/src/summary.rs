//! The last lines of a run: what this machine's disk and cores deliver, and how Millstream
//! compares.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::pattern;
use crate::rows::{Better, Metric, Row};
use crate::stats;
use crate::table::{new_table, number};
use crate::verdict::Verdict;

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
pub(crate) fn render(rows: &[Row], goals: &[Verdict]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    let mut facts = new_table();
    facts.set_header(["this machine", "delivers", "Millstream", "ratio"]);
    for fact in &FACTS.facts {
        let find = |who: &str| find(rows, fact, who);
        if let Some((unit, theirs)) = find(&fact.of) {
            let ours = find(&fact.ours).map(|(_, figure)| figure);
            let shown = |figure: f64| format!("{} {}", number(figure), unit.unit);
            facts.add_row([
                fact.what.clone(),
                shown(theirs),
                ours.map_or(String::new(), shown),
                ours.map_or(String::new(), |ours| number(goodness(unit, ours, theirs))),
            ]);
        }
    }
    if !facts.is_empty() {
        text.push_str(&format!("{facts}\n"));
    }
    let mut standing = new_table();
    standing.set_header(["workload", "cases", "of the limit", "goals reached"]);
    for rows in rows.chunk_by(|a, b| a.workload == b.workload) {
        let name = rows[0].workload;
        let cases: Vec<&[Row]> = rows.chunk_by(|a, b| a.case == b.case).collect();
        let ratios: Vec<f64> = cases.iter().filter_map(|rows| of_limit(rows)).collect();
        let goals: Vec<&Verdict> = goals.iter().filter(|goal| goal.workload == name).collect();
        let reached = goals.iter().filter(|goal| goal.reached).count();
        standing.add_row([
            name.to_owned(),
            cases.len().to_string(),
            stats::geometric_mean(&ratios).map_or(String::new(), |mean| format!("{mean:.2}")),
            format!("{reached} of {}", goals.len()),
        ]);
    }
    text + &format!("{standing}\nRatios above 1 are better; of the limit: geometric mean.\n")
}

/// The median of a contender's first row of a fact, with its metric.
fn find(rows: &[Row], fact: &Fact, contender: &str) -> Option<(Metric, f64)> {
    let mut rows = rows.iter().filter(|row| {
        let named = row.workload == fact.workload && row.contender == contender;
        named && pattern::matches(&fact.case, &row.case)
    });
    rows.find_map(|row| {
        let figures = row.figures.as_ref().ok()?;
        let of_fact = figures.metric.name == fact.metric;
        of_fact.then_some((figures.metric, figures.summary.median))
    })
}

/// Ours beside the limit of a case, by its first metric.
fn of_limit(rows: &[Row]) -> Option<f64> {
    let figures = |who: &str| {
        let row = rows.iter().find(|row| row.contender == who)?;
        let figures = row.figures.as_ref().ok()?;
        Some((figures.metric, figures.summary.median))
    };
    let ((metric, ours), (_, limit)) = figures("millstream").zip(figures("limit"))?;
    Some(goodness(metric, ours, limit))
}

/// Ours over theirs, so that more is better.
fn goodness(metric: Metric, ours: f64, theirs: f64) -> f64 {
    match metric.better {
        Better::Higher => ours / theirs,
        Better::Lower => theirs / ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Params;

    #[test]
    fn it_shows_the_machine_and_ours_beside_it() {
        let rate = Metric::higher("rate", "MB/s");
        let row = |who: &str, rate_of: f64| {
            let params = Params::new();
            Row::figures("read", "12MB cold stored", who, rate, vec![rate_of], params)
        };
        let text = render(&[row("millstream", 900.0), row("limit", 1000.0)], &[]);
        for part in [
            "1000 MB/s",
            "900.0 MB/s",
            "0.900",
            "| read",
            "0.90",
            "0 of 0",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(render(&[], &[]), "");
    }
}
