//! Groups rows into workloads and cases, each with its metrics and contenders, and decides which
//! contenders are compared.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::compare::{Comparison, compare};
use crate::rows::{Figures, Finding, Row, is_ours};

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
const REFERENCES: [(&str, &str); 11] = [
    ("codecs", "memcpy"),
    ("packages", "device"),
    ("packages", "hot-read"),
    ("packages", "codec"),
    ("pnm", "read-only"),
    ("pnm", "map-touch"),
    ("requests", "ring"),
    ("requests", "ring-plain"),
    ("requests", "ring-async"),
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
        let is_reference = REFERENCES.contains(&(self.workload, contender));
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
        let rivals = all.iter().filter(|(name, theirs)| {
            self.is_rival(name) && theirs.unit == figures.unit && same_form(figures, theirs)
        });
        let rival = best(rivals.copied())
            .and_then(|(name, theirs)| Some((name, compare(figures, theirs)?)));
        let limit = self.figures("limit", metric);
        Some(Verdict {
            rival,
            limit: limit.and_then(|theirs| compare(figures, theirs)),
        })
    }
}

/// Returns the contender that represents ours.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Better;
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
}
