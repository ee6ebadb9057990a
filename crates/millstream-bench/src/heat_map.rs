//! Heat maps as text, and their goals.
//!
//! A map is all rows of one case whose parameters say size and depth. Contenders are of three
//! kinds: ours; `ring` and `fio`, which are the limit (registered memory, nothing on top); and
//! libraries. A cell's best library is found cell by cell, so that none is measured beside a
//! rival's weakness.

use std::collections::BTreeMap;

use crate::requests::cells::{CPU, WORKLOAD, size_name};
use crate::requests::cells::{DEPTH_PARAM, PREFIX, RATE, SIZE_PARAM};
use crate::rows::{Metric, Row};
use crate::stats::{self, Comparison};
use crate::verdict::{Bound, Verdict};

/// A cell is in the best region of a map from this part of the map's best on.
const BEST_REGION: f64 = 0.8;
/// Not libraries: what the kernel and the device can.
const LIMITS: [&str; 4] = ["ring", "ring-async", "fio", "limit"];
const OURS: &str = "millstream";
/// No cell may be below this part of the best rival's, beyond its interval.
const CELL_LEAST: f64 = 0.9;

/// Whether rows are of a map.
pub(crate) fn is_map(row: &Row) -> bool {
    row.workload == WORKLOAD && row.case.starts_with(PREFIX)
}

/// Size and depth.
type Place = (u64, u64);

/// Whether a contender counts.
type Counts = fn(&str) -> bool;

/// A map: the rows of each cell.
struct Map<'a> {
    case: &'a str,
    cells: BTreeMap<Place, Vec<&'a Row>>,
}

impl<'a> Map<'a> {
    fn of(rows: &'a [Row]) -> Option<Map<'a>> {
        let mut cells: BTreeMap<Place, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            if row.figures.is_ok() {
                let number = |name: &str| row.param(name).and_then(serde_json::Value::as_u64);
                let place = number(SIZE_PARAM).zip(number(DEPTH_PARAM))?;
                cells.entry(place).or_default().push(row);
            }
        }
        let case = &*rows.first()?.case;
        (!cells.is_empty()).then_some(Map { case, cells })
    }

    /// Contenders in the order of their first row.
    fn contenders(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.cells.values().flatten() {
            if !names.contains(&&*row.contender) && row.contender != "limit" {
                names.push(&row.contender);
            }
        }
        names
    }

    fn samples(&self, place: Place, who: &str, metric: Metric) -> Option<&'a [f64]> {
        let rows = self.cells.get(&place)?.iter();
        rows.filter(|row| row.contender == who)
            .find_map(|row| row.samples_of(metric.name))
    }

    /// The best of those that `counts` in a cell.
    fn best(&self, place: Place, metric: Metric, counts: Counts) -> Option<(&'a str, &'a [f64])> {
        let names = self.contenders().into_iter().filter(|name| counts(name));
        let all = names.filter_map(|name| Some((name, self.samples(place, name, metric)?)));
        all.max_by(|(_, a), (_, b)| metric.order(stats::median(a), stats::median(b)))
    }

    /// Ours over the best of those that count, in every cell that has both.
    fn ratios(&self, metric: Metric, counts: Counts) -> Vec<(Place, &'a str, Comparison)> {
        let places = self.cells.keys();
        places
            .filter_map(|place| {
                let ours = self.samples(*place, OURS, metric)?;
                let (name, theirs) = self.best(*place, metric, counts)?;
                Some((*place, name, stats::compare(ours, theirs)?))
            })
            .collect()
    }

    /// A table of cells: sizes down, depths across.
    fn table(&self, cell: &dyn Fn(Place) -> String) -> String {
        let mut depths: Vec<u64> = self.cells.keys().map(|(_, depth)| *depth).collect();
        depths.sort_unstable();
        depths.dedup();
        let mut sizes: Vec<u64> = self.cells.keys().map(|(size, _)| *size).collect();
        sizes.dedup();
        let mut text = String::from("  size");
        for depth in &depths {
            text.push_str(&format!(" {:>9}", format!("depth {depth}")));
        }
        for size in sizes {
            text.push_str(&format!("\n  {:>4}", size_name(size as usize)));
            for depth in &depths {
                text.push_str(&format!(" {:>9}", cell((size, *depth))));
            }
        }
        text.push('\n');
        text
    }

    /// The rates of one contender; `*` marks the region of the best.
    fn rates(&self, who: &str) -> Option<String> {
        let rate = |place| Some(stats::median(self.samples(place, who, RATE)?));
        let best = self.cells.keys().filter_map(|place| rate(*place));
        let best = best.fold(0.0, f64::max);
        (best > 0.0).then(|| {
            self.table(&|place| match rate(place) {
                Some(rate) if rate >= best * BEST_REGION => format!("{rate:.0}*"),
                Some(rate) => format!("{rate:.0}"),
                None => "-".into(),
            })
        })
    }

    /// The version that a contender's rows carry.
    fn version(&self, who: &str) -> String {
        let rows = self.cells.values().flatten();
        let rows = rows.filter(|row| row.contender == who);
        let mut versions = rows.filter_map(|row| row.param("version")?.as_str());
        versions.next().map_or(String::new(), |it| format!(" {it}"))
    }
}

fn is_library(name: &str) -> bool {
    !crate::rows::is_ours(name) && !LIMITS.contains(&name)
}

fn is_rival(name: &str) -> bool {
    !crate::rows::is_ours(name) && name != "limit"
}

fn violates(ratio: &Comparison) -> bool {
    ratio.ratio < CELL_LEAST && ratio.high < CELL_LEAST
}

/// A map as text: the rates of everyone, then ours beside the best library.
pub(crate) fn render(rows: &[Row], goals: &[Verdict]) -> String {
    let mut text = String::new();
    let Some(map) = Map::of(rows) else {
        return text;
    };
    for who in map.contenders() {
        if let Some(table) = map.rates(who) {
            let version = map.version(who);
            let unit = RATE.unit;
            let head = format!("{WORKLOAD}: {}: {who}{version}, {unit}", map.case);
            text.push_str(&format!("{head}; * within 20 % of its best\n{table}\n"));
        }
    }
    for (metric, what) in [(RATE, "rate"), (CPU, "processor time per request")] {
        let ratios = map.ratios(metric, is_library);
        if ratios.is_empty() {
            continue;
        }
        let cell = |place: Place| {
            let found = ratios.iter().find(|(at, _, _)| *at == place);
            found.map_or("-".into(), |(_, _, it)| {
                let mark = if metric == RATE && violates(it) {
                    "!"
                } else {
                    ""
                };
                format!("{:.2}{mark}", it.ratio)
            })
        };
        let head = format!(
            "{WORKLOAD}: {}: {OURS}'s {what} over the best library's",
            map.case
        );
        text.push_str(&format!("{head}\n{}\n", map.table(&cell)));
    }
    for row in rows {
        if let Err(why) = &row.figures {
            text.push_str(&format!("  {} skipped: {why}\n", row.contender));
        }
    }
    for goal in goals.iter().filter(|goal| goal.case == map.case) {
        let (value, bound) = (goal.value, goal.bound_text());
        let line = format!("{}: {value:.3} ({bound}): {}", goal.what, goal.word());
        text.push_str(&format!("  goal: {OURS} {line}\n"));
    }
    text.push('\n');
    text
}

/// The goals of every map among the rows.
pub(crate) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut cases: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| is_map(row)) {
        if !cases.contains(&&*row.case) {
            cases.push(&row.case);
        }
    }
    let mut verdicts = Vec::new();
    for case in cases {
        let here = rows.iter().filter(|row| is_map(row) && row.case == case);
        let here: Vec<Row> = here.cloned().collect();
        if let Some(map) = Map::of(&here) {
            verdicts.extend(verdicts_of(&map));
        }
    }
    verdicts
}

fn verdicts_of(map: &Map<'_>) -> Vec<Verdict> {
    let means: [(&str, Metric, Counts, Bound); 3] = [
        (
            "mean rate over the best library's",
            RATE,
            is_library,
            Bound::AtLeast(1.0),
        ),
        (
            "mean rate over the best of all, ring and fio too",
            RATE,
            is_rival,
            Bound::AtLeast(1.0),
        ),
        (
            "mean processor time over the least library's",
            CPU,
            is_library,
            Bound::AtMost(1.0),
        ),
    ];
    let means = means.into_iter();
    let mut verdicts: Vec<Verdict> = means
        .filter_map(|(what, metric, counts, bound)| {
            let (value, low, high) = mean_of(&map.ratios(metric, counts))?;
            let at = bound.limit();
            Some(Verdict {
                within_noise: low <= at && at <= high,
                ..verdict_of(map, what.to_owned(), metric, value, bound)
            })
        })
        .collect();
    // The cells' own intervals have been looked at, so these are beyond noise.
    let mut none = |metric, violates: &dyn Fn(&Comparison) -> bool, what: &str| {
        let ratios = map.ratios(metric, is_library);
        if !ratios.is_empty() {
            let count = ratios.iter().filter(|(_, _, it)| violates(it)).count();
            let what = format!("cells of {} {what}", ratios.len());
            let bound = Bound::AtMost(0.0);
            verdicts.push(verdict_of(map, what, metric, count as f64, bound));
        }
    };
    let below = format!("below {CELL_LEAST} of the best library");
    none(RATE, &violates, &below);
    let dearer = |it: &Comparison| it.low > 1.0;
    none(CPU, &dearer, "with more processor time than a library");
    verdicts
}

/// The geometric mean of the cells' ratios, with its bounds.
fn mean_of(ratios: &[(Place, &str, Comparison)]) -> Option<(f64, f64, f64)> {
    let mean = |of: fn(&Comparison) -> f64| {
        stats::geometric_mean(&ratios.iter().map(|(_, _, it)| of(it)).collect::<Vec<f64>>())
    };
    let value = mean(|it| it.ratio)?;
    // Cells are measured apart, so the bounds of their mean are nearer than the mean of bounds, by
    // the square root of their number.
    let nearer = (ratios.len() as f64).sqrt();
    let bound = |at: f64| value * (at / value).powf(1.0 / nearer);
    let low = mean(|it| it.low).map_or(0.0, bound);
    Some((value, low, mean(|it| it.high).map_or(f64::INFINITY, bound)))
}

fn verdict_of(map: &Map<'_>, what: String, metric: Metric, value: f64, bound: Bound) -> Verdict {
    Verdict {
        workload: WORKLOAD,
        case: map.case.to_owned(),
        contender: OURS.to_owned(),
        what,
        metric,
        value,
        bound,
        reached: bound.holds(value),
        within_noise: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Params;

    const CASE: &str = "heat direct random";

    fn row(who: &str, place: (u64, u64), metric: Metric, samples: &[f64]) -> Row {
        let params = Params::from([
            (SIZE_PARAM.into(), place.0.into()),
            (DEPTH_PARAM.into(), place.1.into()),
            ("version".into(), "9.9".into()),
        ]);
        Row::figures(WORKLOAD, CASE, who, metric, samples.to_vec(), params)
    }

    fn rows() -> Vec<Row> {
        let (small, large) = ((4096, 1), (1 << 20, 8));
        vec![
            row("ring", small, RATE, &[200.0, 200.1]),
            row("rayon", small, RATE, &[100.0, 100.1]),
            row("compio", small, RATE, &[50.0, 50.1]),
            row(OURS, small, RATE, &[200.0, 200.1]),
            row("rayon", large, RATE, &[1000.0, 1000.1]),
            row("compio", large, RATE, &[2000.0, 2000.1]),
            row(OURS, large, RATE, &[1000.0, 1000.1]),
            row("rayon", small, CPU, &[4.0, 4.1]),
            row(OURS, small, CPU, &[2.0, 2.1]),
        ]
    }

    fn value<'a>(verdicts: &'a [Verdict], what: &str) -> &'a Verdict {
        let found = verdicts
            .iter()
            .find(|verdict| verdict.what.starts_with(what));
        found.unwrap_or_else(|| panic!("{what} of {verdicts:?}"))
    }

    #[test]
    fn every_cell_is_judged_beside_its_best_library() {
        let verdicts = judge(&rows());
        // Twice as fast in one cell, half as fast in the other.
        let mean = value(&verdicts, "mean rate over the best library");
        assert!((mean.value - 1.0).abs() < 0.01, "{mean:?}");
        let all = value(&verdicts, "mean rate over the best of all");
        assert!(
            (all.value - 0.5f64.sqrt()).abs() < 0.01 && !all.reached,
            "{all:?}"
        );
        let below = value(&verdicts, "cells of 2 below 0.9");
        assert!(below.value == 1.0 && !below.reached);
        let cost = value(&verdicts, "mean processor time");
        assert!(cost.reached && (cost.value - 0.5).abs() < 0.02);
        assert!(value(&verdicts, "cells of 1 with more").reached);
    }

    #[test]
    fn the_text_marks_the_best_region_the_cells_that_lag_and_who_was_skipped() {
        let mut rows = rows();
        rows.push(Row::skipped(WORKLOAD, CASE, "glommio", "no locked memory"));
        let text = render(&rows, &judge(&rows));
        for part in [
            "heat direct random: rayon 9.9, MB/s",
            "1000*",
            "2000*",
            "0.50!",
            "2.00",
            "glommio skipped: no locked memory",
            "goal: millstream mean rate over the best library's: 1.000 (>= 1)",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("200*\n  4K"), "{text}");
    }
}
