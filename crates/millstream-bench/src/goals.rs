//! The goals, as data, and their judgement from rows.
//!
//! A goal names a case, our contender, a metric, and what the figure must be: a part of another
//! contender's, a distance from it, or an amount. A verdict carries the interval of the figure
//! over the rounds; where the goal's bound lies within it the verdict says so, because another run
//! could come out the other way.

use crate::heat_map;
use crate::rows::{Better, Finding, Metric, Row};
use crate::stats;

mod list;

pub use list::Bound;
use list::Bound::{AtLeast, AtMost};
use list::Figure::{Amount, Distance, Ratio, Speedup};
use list::{GOALS, Goal};

/// How a goal stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Workload of the rows.
    pub workload: &'static str,
    /// Case of the rows.
    pub case: String,
    /// Our contender.
    pub contender: &'static str,
    /// What is judged, in words: `rate over limit`.
    pub what: String,
    /// The metric judged.
    pub metric: Metric,
    /// The figure.
    pub value: f64,
    /// What it should be.
    pub bound: Bound,
    /// Whether it is.
    pub reached: bool,
    /// Whether the runs spread across the bound, so that the verdict may be chance.
    pub within_noise: bool,
}

impl Verdict {
    /// `reached` or `missed`, with doubt where there is some.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.reached, self.within_noise) {
            (true, false) => "reached",
            (true, true) => "reached, within noise",
            (false, false) => "missed",
            (false, true) => "missed, within noise",
        }
    }

    /// The bound as text.
    #[must_use]
    pub fn bound_text(&self) -> String {
        match self.bound {
            AtLeast(bound) => format!(">= {bound}"),
            AtMost(bound) => format!("<= {bound}"),
        }
    }
}

/// Judges every goal that the rows have figures for.
#[must_use]
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for goal in GOALS {
        let ours = rows.iter().filter(|row| {
            row.workload == goal.workload && row.contender == goal.ours && (goal.case)(&row.case)
        });
        for row in ours {
            if let Some(samples) = row.samples_of(goal.metric.name) {
                verdicts.extend(verdict(goal, row, samples, rows));
            }
        }
    }
    verdicts.extend(heat_map::judge(rows));
    verdicts
}

fn verdict(goal: &Goal, row: &Row, ours: &[f64], rows: &[Row]) -> Option<Verdict> {
    let rival = match goal.figure {
        Amount => None,
        _ => Some(best_of(goal, &row.case, rows)?),
    };
    let (value, low, high) = match (goal.figure, &rival) {
        (Ratio, Some((_, theirs))) => {
            let it = stats::compare(ours, theirs)?;
            (it.ratio, it.low, it.high)
        }
        (Speedup, Some((_, theirs))) => {
            let it = stats::compare(theirs, ours)?;
            (it.ratio, it.low, it.high)
        }
        (Distance, Some((_, theirs))) => {
            let value = stats::median(ours) - stats::median(theirs);
            let pairs: Vec<f64> = ours.iter().zip(*theirs).map(|(a, b)| a - b).collect();
            interval(value, &pairs)
        }
        _ => interval(stats::median(ours), ours),
    };
    let (reached, bound) = match goal.bound {
        AtLeast(bound) => (value >= bound, bound),
        AtMost(bound) => (value <= bound, bound),
    };
    let metric = goal.metric;
    let what = match (&rival, goal.figure) {
        (Some((name, _)), Ratio) => format!("{} over {name}", metric.name),
        (Some((name, _)), Speedup) => format!("times as fast as {name}"),
        (Some((name, _)), _) => format!("{} beyond {name}, {}", metric.name, metric.unit),
        (None, _) => format!("{}, {}", metric.name, metric.unit),
    };
    Some(Verdict {
        workload: goal.workload,
        case: row.case.clone(),
        contender: goal.ours,
        what,
        metric,
        value,
        bound: goal.bound,
        reached,
        within_noise: low <= bound && bound <= high,
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

fn best_of<'a>(goal: &Goal, case: &str, rows: &'a [Row]) -> Option<(&'a str, &'a [f64])> {
    rows.iter()
        .filter(|row| row.workload == goal.workload && row.case == case)
        .filter(|row| goal.theirs.contains(&row.contender.as_str()))
        .filter(|row| matches!(row.finding, Finding::Figures { .. }))
        .filter_map(|row| Some((&*row.contender, row.samples_of(goal.metric.name)?)))
        .max_by(|(_, a), (_, b)| {
            let order = stats::median(a).total_cmp(&stats::median(b));
            match goal.metric.better {
                Better::Higher => order,
                Better::Lower => order.reverse(),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::list::MS;
    use super::*;
    use crate::requests::{self, latency};
    use crate::rows::Params;
    use crate::{read, startup};

    fn row(workload: &'static str, case: &str, who: &str, metric: Metric, x: &[f64]) -> Row {
        Row::figures(workload, case, who, metric, x.to_vec(), Params::new())
    }

    #[test]
    fn a_ratio_goal_is_judged_against_the_named_rival() {
        let case = "100MB cold stored";
        let rows = [
            row("read", case, MS, read::RATE, &[98.0, 99.0, 98.5]),
            row("read", case, "limit", read::RATE, &[100.0, 100.5, 100.2]),
            row("read", case, "read", read::RATE, &[90.0, 91.0, 90.5]),
        ];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts[0].reached && verdicts[0].what == "rate over limit");
        assert!(!verdicts[1].reached && verdicts[1].word() == "missed");
    }

    #[test]
    fn a_speedup_is_over_the_best_of_the_rivals() {
        let case = "2096 files cold";
        let rows = [
            row("startup", case, MS, startup::TOTAL, &[10.0, 10.0]),
            row("startup", case, "std", startup::TOTAL, &[30.0, 30.0]),
            row("startup", case, "std-8", startup::TOTAL, &[12.0, 12.0]),
        ];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.len(), 1);
        assert!((verdicts[0].value - 1.2).abs() < 1e-9 && verdicts[0].reached);
        assert_eq!(verdicts[0].what, "times as fast as std-8");
    }

    #[test]
    fn a_distance_within_the_spread_says_so() {
        let case = "single 4K cold";
        let rows = [
            row("requests", case, MS, latency::P50, &[100.0, 130.0, 112.0]),
            row(
                "requests",
                case,
                "pread",
                latency::P50,
                &[100.0, 100.0, 100.0],
            ),
        ];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].word(), "reached, within noise");
    }

    #[test]
    fn without_a_rival_or_our_row_there_is_no_verdict() {
        let case = "direct 4K depth 128";
        let ours = row("requests", case, MS, requests::IOPS, &[1.0]);
        let theirs = row("requests", case, "ring", requests::IOPS, &[1.0]);
        assert!(judge(std::slice::from_ref(&ours)).is_empty());
        assert!(judge(std::slice::from_ref(&theirs)).is_empty());
        assert_eq!(judge(&[ours, theirs]).len(), 1);
    }

    #[test]
    fn every_goal_is_of_a_workload_that_exists() {
        for goal in GOALS {
            assert!(crate::Workload::from_name(goal.workload).is_some());
            assert_eq!(goal.theirs.is_empty(), goal.figure == Amount);
        }
    }
}
