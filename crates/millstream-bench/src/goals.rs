//! The goals, as data (`goals.toml`), and their judgment from rows.
//!
//! A verdict carries the interval of the figure over the rounds; where the goal's bound lies within
//! it the verdict says so, because another run could come out the other way.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::heat_map;
use crate::pattern;
use crate::rows::{Metric, Row};
use crate::stats;

pub use crate::verdict::{Bound, Verdict};

/// How a figure is made of ours and theirs.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Figure {
    /// Ours alone.
    Amount,
    /// Ours over theirs.
    Ratio,
    /// Theirs over ours: how many times as fast, where less is better.
    Speedup,
    /// Ours less theirs.
    Distance,
}

/// What a figure should be; see `goals.toml`.
#[derive(Deserialize)]
struct Goal {
    cases: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
    #[serde(default = "ours")]
    ours: String,
    metric: String,
    figure: Option<Figure>,
    #[serde(default)]
    theirs: Vec<String>,
    #[serde(flatten)]
    bound: Bound,
}

fn ours() -> String {
    String::from("millstream")
}

impl Goal {
    fn is_of(&self, row: &Row) -> bool {
        let any = |of: &[String]| of.iter().any(|of| pattern::matches(of, &row.case));
        row.contender == self.ours && any(&self.cases) && !any(&self.not)
    }

    fn figure(&self) -> Figure {
        let default = match self.theirs.is_empty() {
            true => Figure::Amount,
            false => Figure::Ratio,
        };
        self.figure.unwrap_or(default)
    }
}

#[derive(Deserialize)]
struct Goals {
    groups: BTreeMap<String, Vec<String>>,
    goals: BTreeMap<String, Vec<Goal>>,
}

static GOALS: LazyLock<Goals> = LazyLock::new(|| {
    toml::from_str(include_str!("goals.toml")).expect("a table of this crate, which tests read")
});

/// Judges every goal that the rows have figures for.
#[must_use]
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (workload, goals) in &GOALS.goals {
        for goal in goals {
            let here = rows.iter().filter(|row| row.workload == workload);
            for row in here.filter(|row| goal.is_of(row)) {
                verdicts.extend(verdict(goal, row, rows));
            }
        }
    }
    verdicts.extend(heat_map::judge(rows));
    verdicts
}

fn verdict(goal: &Goal, row: &Row, rows: &[Row]) -> Option<Verdict> {
    let figures = row.figures.as_ref().ok()?;
    let (metric, figure, ours) = (figures.metric, goal.figure(), &figures.samples);
    if metric.name != goal.metric {
        return None;
    }
    let rival = match figure {
        Figure::Amount => None,
        _ => Some(best_of(goal, row, metric, rows)?),
    };
    let (value, low, high) = match (figure, &rival) {
        (Figure::Ratio, Some((_, theirs))) => {
            let it = stats::compare(ours, theirs)?;
            (it.ratio, it.low, it.high)
        }
        (Figure::Speedup, Some((_, theirs))) => {
            let it = stats::compare(theirs, ours)?;
            (it.ratio, it.low, it.high)
        }
        (Figure::Distance, Some((_, theirs))) => {
            let value = stats::median(ours) - stats::median(theirs);
            let pairs: Vec<f64> = ours.iter().zip(*theirs).map(|(a, b)| a - b).collect();
            interval(value, &pairs)
        }
        _ => interval(stats::median(ours), ours),
    };
    let what = match (&rival, figure) {
        (Some((name, _)), Figure::Ratio) => format!("{} over {name}", metric.name),
        (Some((name, _)), Figure::Speedup) => format!("times as fast as {name}"),
        (Some((name, _)), _) => format!("{} beyond {name}, {}", metric.name, metric.unit),
        (None, _) => format!("{}, {}", metric.name, metric.unit),
    };
    let limit = goal.bound.limit();
    Some(Verdict {
        workload: row.workload,
        case: row.case.clone(),
        contender: goal.ours.clone(),
        what,
        metric,
        value,
        bound: goal.bound,
        reached: goal.bound.holds(value),
        within_noise: low <= limit && limit <= high,
    })
}

/// The value with the t-interval of its samples, widened to hold it.
fn interval(value: f64, samples: &[f64]) -> (f64, f64, f64) {
    match stats::summarize(samples) {
        Some(summary) => {
            let half = summary.ci95.unwrap_or(f64::INFINITY);
            let low = (summary.mean - half).min(value);
            (value, low, (summary.mean + half).max(value))
        }
        None => (value, f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// The best of the goal's rivals in the case of `ours`.
fn best_of<'a>(
    goal: &Goal,
    ours: &Row,
    metric: Metric,
    rows: &'a [Row],
) -> Option<(&'a str, &'a [f64])> {
    let group = |name: &String| GOALS.groups.get(name).cloned();
    let theirs = goal.theirs.iter();
    let theirs = theirs.flat_map(|name| group(name).unwrap_or_else(|| vec![name.clone()]));
    let theirs: Vec<String> = theirs.collect();
    rows.iter()
        .filter(|row| row.workload == ours.workload && row.case == ours.case)
        .filter(|row| theirs.contains(&row.contender))
        .filter_map(|row| Some((&*row.contender, row.samples_of(metric.name)?)))
        .max_by(|(_, a), (_, b)| metric.order(stats::median(a), stats::median(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Params;

    /// Judges rows of one case: who, and what they reached.
    fn judged(
        (workload, case): (&'static str, &str),
        metric: Metric,
        all: &[(&str, &[f64])],
    ) -> Vec<(String, &'static str)> {
        let row = |(who, samples): &(&str, &[f64])| {
            Row::figures(workload, case, who, metric, samples.to_vec(), Params::new())
        };
        let rows: Vec<Row> = all.iter().map(row).collect();
        let verdicts = judge(&rows);
        let shown = |it: &Verdict| (format!("{} {:.1}", it.what, it.value), it.word());
        verdicts.iter().map(shown).collect()
    }

    #[test]
    fn goals_are_judged_against_the_best_of_the_named_rivals() {
        let (case, rate) = (
            ("read", "100MB cold stored"),
            Metric::higher("rate", "MB/s"),
        );
        let ours: (&str, &[f64]) = ("millstream", &[98.0, 99.0, 98.5]);
        let rows = [
            ours,
            ("limit", &[100.0, 100.5, 100.2]),
            ("read", &[90.0, 91.0, 90.5]),
        ];
        let expected = [
            ("rate over limit 1.0", "reached"),
            ("rate over read 1.1", "missed"),
        ];
        assert_eq!(
            judged(case, rate, &rows),
            expected.map(|(what, word)| (what.to_owned(), word))
        );
        assert!(judged(case, rate, &rows[..1]).is_empty(), "no rival");
        assert!(judged(case, rate, &rows[1..]).is_empty(), "no row of ours");

        let (case, total) = (("startup", "2096 files cold"), Metric::lower("total", "ms"));
        let ours: (&str, &[f64]) = ("millstream", &[10.0, 10.0]);
        let rows = [ours, ("std", &[30.0, 30.0]), ("std-8", &[12.0, 12.0])];
        let expected = ("times as fast as std-8 1.2".to_owned(), "reached");
        assert_eq!(judged(case, total, &rows), [expected]);

        let (case, p50) = (("requests", "single 4K cold"), Metric::lower("p50", "us"));
        let ours: (&str, &[f64]) = ("millstream", &[100.0, 130.0, 112.0]);
        let rows = [ours, ("pread", &[100.0, 100.0, 100.0])];
        let expected = (
            "p50 beyond pread, us 12.0".to_owned(),
            "reached, within noise",
        );
        assert_eq!(judged(case, p50, &rows), [expected]);
    }

    #[test]
    fn every_goal_is_of_a_workload_that_exists() {
        assert_eq!(GOALS.goals.values().flatten().count(), 88);
        for (workload, goals) in &GOALS.goals {
            assert!(crate::Workload::from_name(workload).is_some(), "{workload}");
            for goal in goals {
                assert_eq!(goal.theirs.is_empty(), goal.figure() == Figure::Amount);
            }
        }
    }
}
