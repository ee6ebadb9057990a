//! Groups rows into workloads and cases, each with its metrics and contenders, decides which
//! contenders are compared, and compares them.
//!
//! A ratio is oriented so that more than 1 is better. Only one whose interval excludes 1 is called
//! ahead or behind.
//!
//! Contenders take turns, so a ratio to the best rival is the median of the ratios of each round,
//! with the interval that the order of these gives. Every other round chooses which rival is the
//! best, and the rest judge, and the other way round: the best of several noisy medians is better
//! than any rival is, if the same runs choose and judge. Rows with less than [`ROUNDS_MIN`] runs,
//! and ratios to the limit, are of medians, and their interval combines the worst ends of the two
//! intervals of the means.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::rows::{Better, Figures, Finding, Row, is_ours};

#[derive(Debug, Clone)]
pub(crate) struct Case<'a> {
    pub(crate) workload: &'a str,
    pub(crate) name: &'a str,
    /// The first figures of each metric, for their name and unit.
    pub(crate) metrics: Vec<&'a Figures>,
    pub(crate) contenders: Vec<&'a str>,
    figures: HashMap<(&'a str, &'a str), &'a Figures>,
    pub(crate) skipped: Vec<(&'a str, &'a str)>,
}

/// Contenders that do less than the whole work, such as the bare rings, which have nothing on top
/// of the kernel: they are shown, and do not count as rivals.
const REFERENCES: [(&str, &str); 10] = [
    ("codecs", "memcpy"),
    ("packages", "device"),
    ("packages", "hot-read"),
    ("packages", "codec"),
    ("pnm", "read-only"),
    ("pnm", "map-touch"),
    ("pnm", "ring-*"),
    ("requests", "ring*"),
    ("streams", "read"),
    ("streams", "write"),
];

/// Names of our variants that are kernels for the same work: the best of them represents ours if no
/// contender is called `millstream`.
const KERNELS: [&str; 4] = [
    "millstream-avx512",
    "millstream-avx2",
    "millstream-neon",
    "millstream-portable",
];

/// A metric that is more significant for its case than the first one.
const TELLING: &str = "p99-beside";

/// Our figures compared with the best rival and the limit.
#[derive(Debug, Clone)]
pub(crate) struct Verdict<'a> {
    pub(crate) rival: Option<(&'a str, Comparison)>,
    pub(crate) limit: Option<Comparison>,
}

impl<'a> Case<'a> {
    fn new(rows: &[&'a Row]) -> Case<'a> {
        let of_row = |row: &&'a Row| Some((&*row.contender, row.figures()?));
        // In reverse order, so that the first of two rows with the same names remains in the map.
        let all: Vec<(&str, &Figures)> = rows.iter().rev().filter_map(of_row).collect();
        let of_skipped = |row: &&'a Row| match &row.finding {
            Finding::Skipped { skipped } => Some((&*row.contender, &**skipped)),
            Finding::Figures(_) => None,
        };
        let in_order = || all.iter().rev().copied();
        Case {
            workload: &rows[0].workload,
            name: &rows[0].case,
            metrics: distinct(in_order().map(|it| it.1), |it| &*it.metric),
            contenders: distinct(in_order().map(|it| it.0), |it| *it),
            figures: all
                .iter()
                .map(|(name, it)| ((*name, &*it.metric), *it))
                .collect(),
            skipped: rows.iter().filter_map(of_skipped).collect(),
        }
    }

    pub(crate) fn primary(&self) -> Option<&'a Figures> {
        let telling = self.metrics.iter().find(|it| it.metric == TELLING);
        telling.or(self.metrics.first()).copied()
    }

    pub(crate) fn figures(&self, contender: &str, metric: &str) -> Option<&'a Figures> {
        self.figures.get(&(contender, metric)).copied()
    }

    /// Returns whether a contender is a rival that does the whole work.
    fn is_rival(&self, contender: &str) -> bool {
        let matches = |name: &str| match name.strip_suffix('*') {
            Some(start) => contender.starts_with(start),
            None => contender == name,
        };
        let mut references = REFERENCES.iter();
        let is_reference = references.any(|(of, name)| *of == self.workload && matches(name));
        contender != "limit" && !is_ours(contender) && !is_reference
    }

    /// Compares ours with the others in the most significant metric; `None` if no contender of ours
    /// represents the case.
    pub(crate) fn verdict(&self) -> Option<Verdict<'a>> {
        let metric = &self.primary()?.metric;
        let all = self.contenders.iter();
        let all = all.filter_map(|name| Some((*name, self.figures(name, metric)?)));
        let all: Vec<(&str, &Figures)> = all.collect();
        let (_, figures) = ours(&all)?;
        let rivals = all.iter().copied().filter(|(name, theirs)| {
            self.is_rival(name) && theirs.unit == figures.unit && same_form(figures, theirs)
        });
        let rivals: Vec<(&str, &Figures)> = rivals.collect();
        let rival = best(rivals.iter().copied()).and_then(|(name, theirs)| {
            let judged = by_rounds(figures, &rivals).or_else(|| compare(figures, theirs));
            Some((name, judged?))
        });
        let limit = self.figures("limit", metric);
        Some(Verdict {
            rival,
            limit: limit.and_then(|theirs| compare(figures, theirs)),
        })
    }
}

fn ours<'a>(all: &[(&'a str, &'a Figures)]) -> Option<(&'a str, &'a Figures)> {
    if let Some(ours) = all.iter().find(|(name, _)| *name == "millstream") {
        return Some(*ours);
    }
    let variants = || all.iter().copied().filter(|(name, _)| is_ours(name));
    match variants().all(|(name, _)| KERNELS.contains(&name)) {
        true => best(variants()),
        false => None,
    }
}

/// Returns whether both read the same form of the file: independent blocks differ from a single
/// stream. Contenders without a form read what all do.
fn same_form(one: &Figures, other: &Figures) -> bool {
    let forms = one.text("form").zip(other.text("form"));
    forms.is_none_or(|(one, other)| one == other)
}

fn best<'a>(all: impl Iterator<Item = (&'a str, &'a Figures)>) -> Option<(&'a str, &'a Figures)> {
    // `min_by` returns the first of several that are equal.
    all.min_by(|(_, a), (_, b)| a.better.order(b.median, a.median))
}

fn distinct<T, K: Eq + Hash>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut known = HashSet::new();
    let items = items.into_iter();
    items.filter(|item| known.insert(key(item))).collect()
}

/// Groups the items by key, in the order of the first item of each.
pub(crate) fn grouped<T, K: Eq + Hash>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut places = HashMap::new();
    for item in items {
        let place = *places.entry(key(&item)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(item);
    }
    groups
}

/// Returns the cases of rows in the order of their first rows, those of a workload together.
pub(crate) fn cases(rows: &[Row]) -> Vec<Case<'_>> {
    let workloads = grouped(rows, |row| &row.workload).into_iter();
    let cases = workloads.flat_map(|rows| grouped(rows, |row| &row.case));
    cases.map(|rows| Case::new(&rows)).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Better, and the interval excludes 1.
    Ahead,
    /// The interval includes 1.
    Level,
    /// Worse, and the interval excludes 1.
    Behind,
}

impl Standing {
    /// Returns the word for it, which is the CSS class of its dots.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Standing::Ahead => "ahead",
            Standing::Level => "level",
            Standing::Behind => "behind",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Comparison {
    pub(crate) fn standing(&self) -> Standing {
        match self {
            ahead if ahead.low > 1.0 => Standing::Ahead,
            behind if behind.high < 1.0 => Standing::Behind,
            _ => Standing::Level,
        }
    }
}

/// Compares figures of the same metric; `None` if their ratio is not finite and positive.
pub(crate) fn compare(ours: &Figures, theirs: &Figures) -> Option<Comparison> {
    let (above, below) = match ours.better {
        Better::Higher => (ours, theirs),
        Better::Lower => (theirs, ours),
    };
    let ratio = above.median / below.median;
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    let (low, high) = match above.interval().zip(below.interval()) {
        Some((above, below)) if below.0 > 0.0 => (above.0.max(0.0) / below.1, above.1 / below.0),
        Some((above, below)) => (above.0.max(0.0) / below.1, f64::INFINITY),
        None => (0.0, f64::INFINITY),
    };
    Some(Comparison {
        ratio,
        low: low.min(ratio),
        high: high.max(ratio),
    })
}

/// Least number of runs of which half can choose the best rival and half can judge.
const ROUNDS_MIN: usize = 4;

/// Compares ours with the best rival round by round; see the header. `None` if there are too few
/// rounds, or a contender has not run in all of them.
fn by_rounds(ours: &Figures, rivals: &[(&str, &Figures)]) -> Option<Comparison> {
    let rounds = ours.samples.len();
    let ran = |(_, theirs): &(&str, &Figures)| theirs.samples.len() == rounds;
    if rounds < ROUNDS_MIN || !rivals.iter().all(ran) {
        return None;
    }
    let chosen = [0, 1].map(|half| {
        let of_half = |(_, theirs): &(&str, &Figures)| {
            let runs = theirs.samples.iter().skip(half).step_by(2);
            middle(runs.copied().collect())
        };
        let all = rivals.iter();
        all.max_by(|a, b| ours.better.order(of_half(a), of_half(b)))
    });
    let mut ratios = Vec::with_capacity(rounds);
    for (round, ours_is) in ours.samples.iter().enumerate() {
        let theirs_is = chosen[1 - round % 2]?.1.samples[round];
        let ratio = match ours.better {
            Better::Higher => ours_is / theirs_is,
            Better::Lower => theirs_is / ours_is,
        };
        if !ratio.is_finite() || ratio <= 0.0 {
            return None;
        }
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let outside = left_out(rounds);
    Some(Comparison {
        ratio: middle(ratios.clone()),
        low: ratios[outside],
        high: ratios[rounds - 1 - outside],
    })
}

/// How many of the least and of the greatest of `count` values the interval of their median leaves
/// out: as many as keep 95 % of it, by the sign test; none of 4 (87 %) and 5 (94 %).
fn left_out(count: usize) -> usize {
    if count > 1000 {
        // By the normal distribution, as the terms below vanish.
        return (count as f64 / 2.0 - 0.98 * (count as f64).sqrt()) as usize;
    }
    let (mut outside, mut term) = (0, 0.5_f64.powi(count as i32));
    let mut below = term;
    while 2.0 * below <= 0.05 && 2 * outside < count {
        outside += 1;
        term *= (count + 1 - outside) as f64 / outside as f64;
        below += term;
    }
    outside.saturating_sub(1)
}

/// The median; NaN if there are none.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => f64::midpoint(values[(n - 1) / 2], values[n / 2]),
    }
}

/// Returns the geometric mean of the positive finite values; `None` if there are none.
pub(crate) fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let sound = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    let (sum, count) = sound.fold((0.0, 0.0), |(sum, count), it| (sum + it.ln(), count + 1.0));
    (count > 0.0).then(|| f64::exp(sum / count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::{row, with};

    fn rate(workload: &str, case: &str, contender: &str, median: f64) -> Row {
        row([workload, case, contender], Better::Higher, median, 0.01)
    }

    #[test]
    fn a_single_stream_is_not_compared_with_blocks() {
        let form = |who, rate_of, form| with(rate("read", "zlib", who, rate_of), "form", form);
        let rows = [
            form("millstream", 4.0, "zlib"),
            form("millstream-blocks", 9.0, "zlib-blocks"),
            form("blocks-threads", 8.0, "zlib-blocks"),
            rate("read", "zlib", "stdio", 3.0),
        ];
        let verdict = cases(&rows)[0].verdict().expect("ours is there");
        let (name, comparison) = verdict.rival.expect("one is");
        assert_eq!((name, comparison.ratio), ("stdio", 4.0 / 3.0));
    }

    #[test]
    fn ours_is_compared_with_the_best_that_does_the_whole_work() {
        let rows = [
            rate("codecs", "a", "millstream-avx2", 5.0),
            rate("read", "a", "x", 1.0),
            rate("codecs", "a", "millstream-avx512", 6.0),
            rate("codecs", "a", "memcpy", 100.0),
            rate("codecs", "a", "libdeflate", 3.0),
            rate("codecs", "a", "zlib", 2.0),
            rate("codecs", "b", "millstream-zstd", 5.0),
            rate("codecs", "b", "zstd", 5.0),
        ];
        let cases = cases(&rows);
        let names = cases.iter().map(|it| (it.workload, it.name));
        let expected = [("codecs", "a"), ("codecs", "b"), ("read", "a")];
        assert!(names.eq(expected));
        let verdict = cases[0].verdict().expect("ours is there");
        let (name, comparison) = verdict.rival.expect("one is");
        assert_eq!((name, comparison.ratio), ("libdeflate", 2.0));
        assert!(cases[1].verdict().is_none());
        assert!(!is_ours("millstreamer"));
    }

    fn figures(better: Better, median: f64, ci95: f64) -> Figures {
        row([""; 3], better, median, ci95)
            .figures()
            .expect("it has")
            .clone()
    }

    #[test]
    fn only_what_is_beyond_both_intervals_leads() {
        let rate = |median| figures(Better::Higher, median, 5.0);
        let standing = |a, b| compare(&a, &b).unwrap().standing();
        assert_eq!(standing(rate(120.0), rate(100.0)), Standing::Ahead);
        assert_eq!(standing(rate(108.0), rate(100.0)), Standing::Level);
        assert_eq!(standing(rate(100.0), rate(120.0)), Standing::Behind);
        let time = |median| figures(Better::Lower, median, 1.0);
        let comparison = compare(&time(10.0), &time(20.0)).unwrap();
        assert!((comparison.ratio - 2.0).abs() < 1e-9);
        assert_eq!(comparison.standing(), Standing::Ahead);
        let mut single = rate(500.0);
        (single.n, single.ci95) = (1, None);
        assert_eq!(standing(single, rate(100.0)), Standing::Level);
        assert_eq!(compare(&rate(0.0), &rate(1.0)), None);
    }

    fn with_runs(name: &str, runs: &[f64]) -> Row {
        let mut row = rate("read", "a", name, middle(runs.to_vec()));
        if let Finding::Figures(figures) = &mut row.finding {
            figures.samples = runs.to_vec();
        }
        row
    }

    #[test]
    fn half_of_the_rounds_choose_the_best_rival_and_the_others_judge() {
        // Rivals as good as ours, of which each is fast in one round.
        let lucky = |round: usize| {
            let runs = (0..8).map(|other| if other == round { 2.0 } else { 1.0 });
            with_runs(&format!("rival-{round}"), &runs.collect::<Vec<f64>>())
        };
        let mut rows = vec![with_runs("millstream", &[1.0; 8])];
        rows.extend((0..8).map(lucky));
        let judged = |rows: &[Row]| cases(rows)[0].verdict().unwrap().rival.unwrap().1;
        assert_eq!((judged(&rows).ratio, judged(&rows).high), (1.0, 1.0));
        // A machine that slows down slows all of a round.
        let drift = [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
        let rows = [
            with_runs("millstream", &drift),
            with_runs("slow", &drift.map(|run| run / 4.0)),
            with_runs("best", &drift.map(|run| run / 2.0)),
        ];
        let comparison = judged(&rows);
        assert_eq!((comparison.low, comparison.high), (2.0, 2.0));
        assert_eq!(comparison.standing(), Standing::Ahead);
        // Too few rounds, or not all of them: of medians.
        let rows = [with_runs("millstream", &drift), with_runs("x", &drift[..7])];
        assert_eq!(judged(&rows).ratio, 4.5 / 5.0);
    }

    #[test]
    fn the_interval_of_a_median_leaves_out_what_the_sign_test_lets_it() {
        let expected = [(4, 0), (6, 0), (9, 1), (10, 1), (15, 3), (20, 5), (30, 9)];
        assert_eq!(
            expected.map(|(count, _)| (count, left_out(count))),
            expected
        );
        assert_eq!([left_out(1000), left_out(1001)], [468, 469]);
        assert!(left_out(1_000_000) < 499_100, "whatever a file says");
    }

    #[test]
    fn the_mean_is_geometric() {
        let mean = geometric_mean([0.5, 2.0, f64::NAN, -1.0].into_iter());
        assert!(mean.is_some_and(|it| (it - 1.0).abs() < 1e-12));
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }
}
