//! The goals, as data (`goals.toml`), their judgment from rows, and the studies' figures.
//!
//! A verdict has the interval of the figure over the rounds; if the goal's bound lies within it the
//! verdict says so, because another run could come out the other way.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use millstream_report::bench::Goal as Verdict;
use millstream_report::rows::{Figures, Row};
use serde::Deserialize;

use crate::rows::samples_of;
use crate::stats;

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Figure {
    Amount,
    Ratio,
    /// Theirs over ours, for metrics of which less is better.
    Speedup,
    Distance,
}

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
    at_least: Option<f64>,
    at_most: Option<f64>,
}

fn ours() -> String {
    String::from("millstream")
}

impl Goal {
    fn is_of(&self, row: &Row) -> bool {
        let any = |of: &[String]| of.iter().any(|of| matches(of, &row.case));
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

pub(crate) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (workload, goals) in &GOALS.goals {
        for goal in goals {
            let here = rows.iter().filter(|row| row.workload == *workload);
            for row in here.filter(|row| goal.is_of(row)) {
                verdicts.extend(verdict(goal, row, rows));
            }
        }
    }
    verdicts
}

fn verdict(goal: &Goal, row: &Row, rows: &[Row]) -> Option<Verdict> {
    let figures = row.figures().filter(|it| it.metric == goal.metric)?;
    let (ours, metric, unit) = (&*figures.samples, &goal.metric, &figures.unit);
    let (name, theirs) = match goal.theirs.is_empty() {
        true => ("", ours),
        false => best_of(goal, row, figures, rows)?,
    };
    let (what, of): (String, fn(f64, f64) -> f64) = match goal.figure() {
        Figure::Amount => (format!("{metric}, {unit}"), |ours, _| ours),
        Figure::Ratio => (format!("{metric} over {name}"), |ours, theirs| {
            ours / theirs
        }),
        Figure::Speedup => (format!("times as fast as {name}"), |ours, theirs| {
            theirs / ours
        }),
        Figure::Distance => (format!("{metric} beyond {name}, {unit}"), |ours, theirs| {
            ours - theirs
        }),
    };
    let value = of(stats::median(ours), stats::median(theirs));
    let each: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| of(*a, *b)).collect();
    let (bound, sign, reached) = match (goal.at_least, goal.at_most) {
        (Some(bound), _) => (bound, ">=", value >= bound),
        (_, most) => (most?, "<=", value <= most?),
    };
    value.is_finite().then(|| Verdict {
        workload: row.workload.clone(),
        case: row.case.clone(),
        contender: goal.ours.clone(),
        what,
        bound: format!("{sign} {bound}"),
        value,
        reached,
        within_noise: stats::is_open(&each, value, bound),
    })
}

fn best_of<'a>(
    goal: &Goal,
    ours: &Row,
    figures: &Figures,
    rows: &'a [Row],
) -> Option<(&'a str, &'a [f64])> {
    let is_named = |row: &&Row| {
        goal.theirs.iter().any(|name| match GOALS.groups.get(name) {
            Some(group) => group.contains(&row.contender),
            None => *name == row.contender,
        })
    };
    rows.iter()
        .filter(|row| row.workload == ours.workload && row.case == ours.case)
        .filter(is_named)
        .filter_map(|row| Some((&*row.contender, samples_of(row, &figures.metric)?)))
        .max_by(|(_, a), (_, b)| figures.better.order(stats::median(a), stats::median(b)))
}

/// What a study measured of one contender in some cases, shown beside ours (`study.toml`).
#[derive(Deserialize)]
struct Studied {
    workload: String,
    contender: String,
    cases: Vec<String>,
    figures: String,
}

static STUDIES: LazyLock<BTreeMap<String, Vec<Studied>>> = LazyLock::new(|| {
    toml::from_str(include_str!("study.toml")).expect("a table of this crate, which tests read")
});

/// Returns the study's figure for a row of ours, if there is one.
pub(crate) fn beside(workload: &str, case: &str, contender: &str) -> Option<&'static str> {
    let mut figures = STUDIES.values().flatten();
    let found = figures.find(|it| {
        let named = it.workload == workload && it.contender == contender;
        named && it.cases.iter().any(|of| matches(of, case))
    });
    found.map(|it| &*it.figures)
}

/// Returns whether a pattern matches: `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(first) else {
        return false;
    };
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.into_iter().any(|at| matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;
    use crate::rows::{self, Params};

    /// Judges rows of one case; returns the verdicts as text.
    fn judged(
        (workload, case): (&str, &str),
        metric: &'static str,
        all: &[(&str, &[f64])],
    ) -> Vec<String> {
        let row = |(who, samples): &(&str, &[f64])| {
            let names = [workload, case, who];
            rows::figures(names, Metric::of(metric), samples.to_vec(), Params::new())
        };
        let verdicts = judge(&all.iter().map(row).collect::<Vec<Row>>());
        let shown = |it: &Verdict| format!("{} {:.1} {}", it.what, it.value, it.word());
        verdicts.iter().map(shown).collect()
    }

    #[test]
    fn goals_are_judged_against_the_best_of_the_named_rivals() {
        let case = ("read", "100MB cold stored");
        let ours: (&str, &[f64]) = ("millstream", &[98.0, 99.0, 98.5]);
        let limit: (&str, &[f64]) = ("limit", &[100.0, 100.5, 100.2]);
        let rows = [ours, limit, ("read", &[90.0, 91.0, 90.5])];
        let expected = ["rate over limit 1.0 reached", "rate over read 1.1 missed"];
        assert_eq!(judged(case, "rate MB/s", &rows), expected);
        // Without a rival, and without a row of ours.
        assert!(judged(case, "rate MB/s", &rows[..1]).is_empty());
        assert!(judged(case, "rate MB/s", &rows[1..]).is_empty());

        let ours: (&str, &[f64]) = ("millstream", &[10.0, 10.0]);
        let rows = [ours, ("std", &[30.0, 30.0]), ("std-8", &[12.0, 12.0])];
        let verdicts = judged(("startup", "9 files cold"), "total ms", &rows);
        assert_eq!(verdicts, ["times as fast as std-8 1.2 reached"]);

        let ours: (&str, &[f64]) = ("millstream", &[100.0, 130.0, 112.0]);
        let rows = [ours, ("pread", &[100.0, 100.0, 100.0])];
        let verdicts = judged(("requests", "single 4K cold"), "p50 us", &rows);
        assert_eq!(
            verdicts,
            ["p50 beyond pread, us 12.0 reached, within noise"]
        );
    }

    #[test]
    fn every_goal_is_of_a_workload_that_exists_and_has_a_bound() {
        for (workload, goals) in &GOALS.goals {
            assert!(
                crate::WORKLOADS.iter().any(|it| it.0 == *workload),
                "{workload}"
            );
            for goal in goals {
                assert_eq!(goal.theirs.is_empty(), goal.figure() == Figure::Amount);
                assert!(goal.at_least.is_some() != goal.at_most.is_some());
            }
        }
    }

    #[test]
    fn figures_stand_beside_the_case_they_are_of() {
        assert_eq!(STUDIES["figures"].len(), 73);
        let zlib = beside("read", "100MB 48 MB/s zlib", "async-8");
        assert!(zlib.is_some_and(|it| it.contains("+42 %")), "{zlib:?}");
        assert_eq!(beside("read", "100MB 550 MB/s stored", "read"), None);
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for pattern in ["a b", "*", "a*", "*b", "a*b", "*a* *b*"] {
            assert!(matches(pattern, "a b"), "{pattern}");
        }
        for pattern in ["", "a", "b*", "*a", "a*c", "*b*a*"] {
            assert!(!matches(pattern, "a b"), "{pattern}");
        }
    }
}
