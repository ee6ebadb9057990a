//! The goals of heat maps.
//!
//! A map is all rows of one case whose parameters say size and depth. Contenders are of three
//! kinds: ours; the bare ring, which is the limit (registered memory, nothing on top); and
//! libraries. A cell's best library is found cell by cell, so that none is measured beside a
//! rival's weakness.

use std::collections::BTreeMap;

use millstream_report::bench::Goal as Verdict;
use millstream_report::geometric_mean;
use millstream_report::rows::{Better, Row};

use crate::rows::{is_ours, samples_of};
use crate::stats::{self, Interval};

/// How the name of a map begins.
const PREFIX: &str = "heat ";
/// Parameters of a row that say which cell it is of.
pub(crate) const SIZE_PARAM: &str = "size_bytes";
/// See [`SIZE_PARAM`].
pub(crate) const DEPTH_PARAM: &str = "depth";
/// Not libraries: what the kernel and the device can.
const LIMITS: [&str; 3] = ["ring", "ring-async", "limit"];
const OURS: &str = "millstream";
/// No cell may be below this part of the best rival's, beyond its interval.
const CELL_LEAST: f64 = 0.9;
/// What is judged, and which direction is good.
const RATE: (&str, Better) = ("rate", Better::Higher);
const CPU: (&str, Better) = ("cpu", Better::Lower);

/// Whether rows are of a map.
pub(crate) fn is_map(row: &Row) -> bool {
    row.workload == "requests" && row.case.starts_with(PREFIX)
}

/// Size and depth.
type Place = (u64, u64);

/// Whether a contender counts.
type Counts = fn(&str) -> bool;

fn is_rival(name: &str) -> bool {
    !is_ours(name) && name != "limit"
}

fn is_library(name: &str) -> bool {
    is_rival(name) && !LIMITS.contains(&name)
}

/// A map: the rows of each cell.
struct Map<'a> {
    case: &'a str,
    cells: BTreeMap<Place, Vec<&'a Row>>,
}

impl<'a> Map<'a> {
    fn of(rows: &[&'a Row]) -> Option<Map<'a>> {
        let mut cells: BTreeMap<Place, Vec<&Row>> = BTreeMap::new();
        for &row in rows {
            if let Some(figures) = row.figures() {
                let place = figures
                    .number(SIZE_PARAM)
                    .zip(figures.number(DEPTH_PARAM))?;
                let place = (place.0 as u64, place.1 as u64);
                cells.entry(place).or_default().push(row);
            }
        }
        let case = &*rows.first()?.case;
        (!cells.is_empty()).then_some(Map { case, cells })
    }

    /// The samples of everyone who counts in a cell.
    fn samples<'m>(
        &'m self,
        place: Place,
        metric: &'m str,
        counts: Counts,
    ) -> impl Iterator<Item = &'a [f64]> + use<'a, 'm> {
        let rows = self.cells.get(&place).into_iter().flatten().copied();
        let rows = rows.filter(move |row| counts(&row.contender));
        rows.filter_map(move |row| samples_of(row, metric))
    }

    /// Ours over the best of those that count, in every cell that has both.
    fn ratios(&self, (metric, better): (&str, Better), counts: Counts) -> Vec<(Place, Interval)> {
        let median = |samples: &&[f64]| stats::median(samples);
        let ratio = |place: &Place| {
            let ours = self.samples(*place, metric, |name| name == OURS).next()?;
            let theirs = self.samples(*place, metric, counts);
            let best = theirs.max_by(|a, b| better.order(median(a), median(b)))?;
            Some((*place, stats::compare(ours, best)?))
        };
        self.cells.keys().filter_map(ratio).collect()
    }
}

fn lags(ratio: &Interval) -> bool {
    ratio.value < CELL_LEAST && ratio.high < CELL_LEAST
}

/// The goals of every map among the rows.
pub(crate) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut maps: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_map(row)) {
        maps.entry(&row.case).or_default().push(row);
    }
    let maps = maps.values().filter_map(|rows| Map::of(rows));
    maps.flat_map(|map| verdicts_of(&map)).collect()
}

fn verdicts_of(map: &Map<'_>) -> Vec<Verdict> {
    let names = ["requests", map.case, OURS];
    let means: [(&str, _, Counts, bool); 3] = [
        ("mean rate over the best library's", RATE, is_library, true),
        (
            "mean rate over the best of all, the bare ring too",
            RATE,
            is_rival,
            true,
        ),
        (
            "mean processor time over the least library's",
            CPU,
            is_library,
            false,
        ),
    ];
    let means = means.into_iter();
    let mut verdicts: Vec<Verdict> = means
        .filter_map(|(what, metric, counts, least)| {
            let mean = mean_of(&map.ratios(metric, counts))?;
            Some(verdict(names, what.to_owned(), mean, 1.0, least))
        })
        .collect();
    // The cells' own intervals have been looked at, so these are beyond noise.
    let mut none = |metric, fails: &dyn Fn(&Interval) -> bool, what: &str| {
        let ratios = map.ratios(metric, is_library);
        if !ratios.is_empty() {
            let value = ratios.iter().filter(|(_, it)| fails(it)).count() as f64;
            let what = format!("cells of {} {what}", ratios.len());
            let (low, high) = (f64::NAN, f64::NAN);
            let count = Interval { value, low, high };
            verdicts.push(verdict(names, what, count, 0.0, false));
        }
    };
    let below = format!("below {CELL_LEAST} of the best library");
    none(RATE, &lags, &below);
    let more = "with more processor time than a library";
    none(CPU, &|it| it.low > 1.0, more);
    verdicts
}

/// The geometric mean of the cells' ratios, with its bounds.
fn mean_of(ratios: &[(Place, Interval)]) -> Option<Interval> {
    // A bound that is not known in one cell is not known of their mean.
    let mean = |of: fn(&Interval) -> f64| {
        let known = |it: f64| it.is_finite() && it > 0.0;
        let all = ratios.iter().map(|(_, it)| of(it));
        geometric_mean(all.clone()).filter(|_| all.into_iter().all(known))
    };
    let value = mean(|it| it.value)?;
    // Cells are measured apart, so the bounds of their mean are nearer than the mean of bounds, by
    // the square root of their number.
    let nearer = (ratios.len() as f64).sqrt();
    let bound = |at: f64| value * (at / value).powf(1.0 / nearer);
    let low = mean(|it| it.low).map_or(0.0, bound);
    let high = mean(|it| it.high).map_or(f64::INFINITY, bound);
    Some(Interval { value, low, high })
}

/// The verdict on a figure that should be at least, or at most, `bound`.
pub(crate) fn verdict(
    [workload, case, contender]: [&str; 3],
    what: String,
    it: Interval,
    bound: f64,
    least: bool,
) -> Verdict {
    let sign = if least { ">=" } else { "<=" };
    Verdict {
        workload: workload.to_owned(),
        case: case.to_owned(),
        contender: contender.to_owned(),
        what,
        bound: format!("{sign} {bound}"),
        value: it.value,
        reached: if least {
            it.value >= bound
        } else {
            it.value <= bound
        },
        within_noise: it.within_noise(bound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;
    use crate::rows::{self, Params};

    fn rows() -> Vec<Row> {
        let row = |who: &str, place: (u64, u64), metric: &'static str, median: f64| {
            let params = Params::from([
                (SIZE_PARAM.into(), place.0.into()),
                (DEPTH_PARAM.into(), place.1.into()),
            ]);
            let names = ["requests", "heat direct random", who];
            let samples = vec![median, median + 0.1];
            rows::figures(names, Metric::of(metric), samples, params)
        };
        let (small, large) = ((4096, 1), (1 << 20, 8));
        vec![
            row("ring", small, "rate MB/s", 200.0),
            row("rayon", small, "rate MB/s", 100.0),
            row("compio", small, "rate MB/s", 50.0),
            row(OURS, small, "rate MB/s", 200.0),
            row("rayon", large, "rate MB/s", 1000.0),
            row("compio", large, "rate MB/s", 2000.0),
            row(OURS, large, "rate MB/s", 1000.0),
            row("rayon", small, "cpu us/request", 4.0),
            row(OURS, small, "cpu us/request", 2.0),
        ]
    }

    #[test]
    fn every_cell_is_judged_beside_its_best_library() {
        let rows = rows();
        let verdicts = judge(&rows);
        let value = |what: &str| {
            let found = verdicts.iter().find(|it| it.what.starts_with(what));
            let found = found.unwrap_or_else(|| panic!("{what} of {verdicts:?}"));
            ((found.value * 100.0).round() / 100.0, found.reached)
        };
        // Twice as fast in one cell, half as fast in the other.
        assert_eq!(value("mean rate over the best library").0, 1.0);
        assert_eq!(value("mean rate over the best of all"), (0.71, false));
        assert_eq!(value("cells of 2 below 0.9"), (1.0, false));
        assert_eq!(value("mean processor time"), (0.51, true));
        assert!(value("cells of 1 with more").1);
    }
}
