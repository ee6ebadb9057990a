//! Rows put in order: workloads, their cases, and in each case metrics and contenders; who is
//! compared with whom.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::chart::Whose;
use crate::compare::{Comparison, compare};
use crate::rows::{Figures, Finding, Row};

/// All rows of one case.
#[derive(Debug, Clone)]
pub(crate) struct Case<'a> {
    pub(crate) workload: &'a str,
    pub(crate) name: &'a str,
    /// In the order of the file.
    pub(crate) rows: Vec<&'a Row>,
}

/// Contenders that do less than the whole work, as the bare rings do, which have nothing on top of
/// the kernel: they are shown, and not taken for rivals.
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

/// Names of our variants that are kernels for the same work: the best of them is ours, where no
/// contender is called `millstream`.
const KERNELS: [&str; 4] = [
    "millstream-avx512",
    "millstream-avx2",
    "millstream-neon",
    "millstream-portable",
];

/// Metrics that say more of a case than its first one.
const TELLING: [&str; 2] = ["p99-beside", "objects_time"];

/// Ours compared with the best rival and the limit.
#[derive(Debug, Clone)]
pub(crate) struct Verdict<'a> {
    /// Those of our contender.
    pub(crate) figures: &'a Figures,
    /// The best rival, its figures, and the comparison with it.
    pub(crate) rival: Option<(&'a str, &'a Figures, Comparison)>,
    /// The comparison with the limit.
    pub(crate) limit: Option<Comparison>,
}

impl<'a> Case<'a> {
    fn all_figures(&self) -> impl Iterator<Item = (&'a str, &'a Figures)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((&*row.contender, row.figures()?)))
    }

    /// The first figures of each metric, for its name and unit.
    pub(crate) fn metrics(&self) -> Vec<&'a Figures> {
        let figures = self.all_figures().map(|(_, figures)| figures);
        distinct(figures, |it| &*it.metric)
    }

    /// The most significant metric.
    pub(crate) fn primary(&self) -> Option<&'a Figures> {
        let metrics = self.metrics();
        let telling = metrics.iter().find(|it| TELLING.contains(&&*it.metric));
        telling.or(metrics.first()).copied()
    }

    /// Contenders with figures, in the order of their first row.
    pub(crate) fn contenders(&self) -> Vec<&'a str> {
        distinct(self.all_figures().map(|(contender, _)| contender), |it| *it)
    }

    /// Contenders with figures of a metric, and these.
    pub(crate) fn of_metric(&self, metric: &str) -> Vec<(&'a str, &'a Figures)> {
        let contenders = self.contenders().into_iter();
        let figures = contenders.filter_map(|name| Some((name, self.figures(name, metric)?)));
        figures.collect()
    }

    /// Who was skipped, and why.
    pub(crate) fn skipped(&self) -> Vec<(&'a str, &'a str)> {
        let rows = self.rows.iter();
        let skipped = rows.filter_map(|row| match &row.finding {
            Finding::Skipped { skipped } => Some((&*row.contender, &**skipped)),
            Finding::Figures(_) => None,
        });
        skipped.collect()
    }

    /// The figures of a contender.
    pub(crate) fn figures(&self, contender: &str, metric: &str) -> Option<&'a Figures> {
        let mut all = self.all_figures();
        all.find(|(name, it)| *name == contender && it.metric == metric)
            .map(|(_, it)| it)
    }

    /// The name of a contender; of the limit also who it is.
    pub(crate) fn label(&self, contender: &str) -> String {
        let mut all = self.all_figures().filter(|(name, _)| *name == contender);
        match all.find_map(|(_, figures)| figures.text("is")) {
            Some(is) => format!("{contender} ({is})"),
            None => contender.to_owned(),
        }
    }

    /// Whether a contender is compared with: a rival that does the whole work.
    pub(crate) fn is_rival(&self, contender: &str) -> bool {
        let is_reference = REFERENCES.contains(&(self.workload, contender));
        Whose::of(contender) == Whose::Rival && !is_reference
    }

    /// Ours over the others in the most significant metric; `None` if nothing of ours stands for
    /// all of the case.
    pub(crate) fn verdict(&self) -> Option<Verdict<'a>> {
        let metric = &self.primary()?.metric;
        let all = self.of_metric(metric);
        let (_, figures) = ours(&all)?;
        let rivals = all.iter().filter(|(name, theirs)| {
            self.is_rival(name) && theirs.unit == figures.unit && same_form(figures, theirs)
        });
        let rival = best(rivals.copied())
            .and_then(|(name, theirs)| Some((name, theirs, compare(figures, theirs)?)));
        let limit = self.figures("limit", metric);
        Some(Verdict {
            figures,
            rival,
            limit: limit.and_then(|theirs| compare(figures, theirs)),
        })
    }
}

/// The contender that stands for all of ours.
fn ours<'a>(all: &[(&'a str, &'a Figures)]) -> Option<(&'a str, &'a Figures)> {
    if let Some(ours) = all.iter().find(|(name, _)| *name == "millstream") {
        return Some(*ours);
    }
    let variants = || {
        all.iter()
            .copied()
            .filter(|(name, _)| Whose::of(name) == Whose::Ours)
    };
    match variants().all(|(name, _)| KERNELS.contains(&name)) {
        true => best(variants()),
        false => None,
    }
}

/// Whether both had the same file to read: blocks that any thread can decode are another one than a
/// single stream. Contenders that name no form read what all do.
fn same_form(one: &Figures, other: &Figures) -> bool {
    let forms = one.text("form").zip(other.text("form"));
    forms.is_none_or(|(one, other)| one == other)
}

fn best<'a>(all: impl Iterator<Item = (&'a str, &'a Figures)>) -> Option<(&'a str, &'a Figures)> {
    // The first of several that are equal.
    all.min_by(|(_, a), (_, b)| a.better.order(b.median, a.median))
}

/// The items with different keys, each the first with its key.
pub fn distinct<T, K: Eq + Hash>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut known = HashSet::new();
    let items = items.into_iter();
    items.filter(|item| known.insert(key(item))).collect()
}

/// The cases of rows in the order of their first rows, those of a workload together.
pub(crate) fn cases(rows: &[Row]) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let mut places = HashMap::new();
    let mut workloads = HashMap::new();
    for row in rows {
        let key = (&row.workload, &row.case);
        let place = *places.entry(key).or_insert(cases.len());
        if place == cases.len() {
            cases.push(Case {
                workload: &row.workload,
                name: &row.case,
                rows: Vec::new(),
            });
        }
        cases[place].rows.push(row);
        let next = workloads.len();
        workloads.entry(&*row.workload).or_insert(next);
    }
    cases.sort_by_key(|case| workloads[case.workload]);
    cases
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
        let rows = [
            with(rate("read", "zlib", "millstream", 4.0), "form", "zlib"),
            with(
                rate("read", "zlib", "millstream-blocks", 9.0),
                "form",
                "zlib-blocks",
            ),
            with(
                rate("read", "zlib", "blocks-threads", 8.0),
                "form",
                "zlib-blocks",
            ),
            rate("read", "zlib", "stdio", 3.0),
        ];
        let verdict = cases(&rows)[0].verdict().expect("ours is there");
        assert_eq!(verdict.figures.median, 4.0);
        assert_eq!(verdict.rival.expect("one is").0, "stdio");
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
        let names: Vec<_> = cases
            .iter()
            .map(|it| (it.workload, it.name, it.rows.len()))
            .collect();
        assert_eq!(
            names,
            [("codecs", "a", 5), ("codecs", "b", 2), ("read", "a", 1)]
        );
        let verdict = cases[0].verdict().expect("ours is there");
        assert_eq!(verdict.figures.median, 6.0);
        let (name, _, comparison) = verdict.rival.expect("one is");
        assert_eq!((name, comparison.ratio), ("libdeflate", 2.0));
        assert!(cases[1].verdict().is_none());
    }
}
