//! Rows put in order: workloads, their cases, and in each case metrics and contenders; who is
//! compared with whom.

use crate::chart::Whose;
use crate::compare::{Comparison, compare};
use crate::rows::{Better, Figures, Finding, Row};

/// All rows of one case.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// The workload's name.
    pub workload: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its rows, in their order.
    pub rows: Vec<&'a Row>,
}

/// Contenders that do less than the whole work: they are shown, and not taken for rivals.
const REFERENCES: [(&str, &str); 9] = [
    ("codecs", "memcpy"),
    ("packages", "device"),
    ("packages", "hot-read"),
    ("packages", "codec"),
    ("pnm", "read-only"),
    ("pnm", "map-touch"),
    ("requests", "elevator"),
    ("streams", "read"),
    ("streams", "write"),
];

/// In the maps of `requests`: what the kernel and the device can, nothing on top. Libraries are the
/// rivals there, and the bare ring stands in pictures of its own.
const BARE: [&str; 3] = ["ring", "ring-async", "fio"];
const MAPS: &str = "heat ";

/// Names of our variants that are kernels for the same work: the best of them is ours, where no
/// contender is called `millstream`.
const KERNELS: [&str; 4] = [
    "millstream-avx512",
    "millstream-avx2",
    "millstream-neon",
    "millstream-portable",
];

/// Metrics that tell more of a case than its first one.
const TELLING: [&str; 2] = ["p99-beside", "objects_time"];

/// Ours beside the best rival and the limit.
#[derive(Debug, Clone)]
pub struct Verdict<'a> {
    /// Our contender.
    pub ours: &'a str,
    /// Our figures.
    pub figures: &'a Figures,
    /// The best rival, and the comparison with it.
    pub rival: Option<(&'a str, Comparison)>,
    /// The comparison with the limit.
    pub limit: Option<Comparison>,
}

impl<'a> Case<'a> {
    /// Metrics in the order of their first row: names and units.
    #[must_use]
    pub fn metrics(&self) -> Vec<&'a Figures> {
        let mut metrics: Vec<&Figures> = Vec::new();
        for figures in self.rows.iter().filter_map(|row| row.figures()) {
            if !metrics.iter().any(|known| known.metric == figures.metric) {
                metrics.push(figures);
            }
        }
        metrics
    }

    /// The metric that tells most.
    #[must_use]
    pub fn primary(&self) -> Option<&'a Figures> {
        let metrics = self.metrics();
        let telling = metrics
            .iter()
            .find(|figures| TELLING.contains(&&*figures.metric));
        telling.or(metrics.first()).copied()
    }

    /// Contenders with figures, in the order of their first row.
    #[must_use]
    pub fn contenders(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| row.figures().is_some()) {
            if !names.contains(&&*row.contender) {
                names.push(&row.contender);
            }
        }
        names
    }

    /// Who was skipped, and why.
    #[must_use]
    pub fn skipped(&self) -> Vec<(&'a str, &'a str)> {
        self.rows
            .iter()
            .filter_map(|row| match &row.finding {
                Finding::Skipped(why) => Some((&*row.contender, &**why)),
                Finding::Figures(_) => None,
            })
            .collect()
    }

    /// The figures of a contender.
    #[must_use]
    pub fn figures(&self, contender: &str, metric: &str) -> Option<&'a Figures> {
        self.rows
            .iter()
            .filter(|row| row.contender == contender)
            .filter_map(|row| row.figures())
            .find(|figures| figures.metric == metric)
    }

    /// The name of a contender; of the limit also who it is.
    #[must_use]
    pub fn label(&self, contender: &str) -> String {
        let is = self
            .rows
            .iter()
            .filter(|row| row.contender == contender)
            .find_map(|row| row.figures()?.text("is"));
        match is {
            Some(is) => format!("{contender} ({is})"),
            None => contender.to_owned(),
        }
    }

    /// Whether a contender is compared with: a rival that does the whole work.
    #[must_use]
    pub fn is_rival(&self, contender: &str) -> bool {
        let bare = self.name.starts_with(MAPS) && BARE.contains(&contender);
        let reference = REFERENCES.contains(&(self.workload, contender));
        Whose::of(contender) == Whose::Rival && !bare && !reference
    }

    /// Ours beside the others; `None` if nothing of ours speaks for all of the case.
    #[must_use]
    pub fn verdict(&self, metric: &str) -> Option<Verdict<'a>> {
        let (ours, figures) = self.ours(metric)?;
        let rivals = self
            .contenders()
            .into_iter()
            .filter(|name| self.is_rival(name));
        let rival = rivals
            .filter_map(|name| Some((name, self.figures(name, metric)?)))
            .filter(|(_, theirs)| theirs.unit == figures.unit && same_form(figures, theirs))
            .reduce(|best, other| if better(other.1, best.1) { other } else { best })
            .and_then(|(name, theirs)| Some((name, compare(figures, theirs)?)));
        let limit = self
            .figures("limit", metric)
            .and_then(|theirs| compare(figures, theirs));
        Some(Verdict {
            ours,
            figures,
            rival,
            limit,
        })
    }

    fn ours(&self, metric: &str) -> Option<(&'a str, &'a Figures)> {
        if let Some(figures) = self.figures("millstream", metric) {
            return Some(("millstream", figures));
        }
        let variants = self
            .contenders()
            .into_iter()
            .filter(|name| Whose::of(name) == Whose::Ours);
        let variants: Vec<&str> = variants.collect();
        if !variants.iter().all(|name| KERNELS.contains(name)) {
            return None;
        }
        variants
            .into_iter()
            .filter_map(|name| Some((name, self.figures(name, metric)?)))
            .reduce(|best, other| if better(other.1, best.1) { other } else { best })
    }
}

/// Whether both had the same file to read: blocks that any thread can decode are another one than a
/// single stream. Who names no form reads what all do.
fn same_form(one: &Figures, other: &Figures) -> bool {
    match (one.text("form"), other.text("form")) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn better(one: &Figures, other: &Figures) -> bool {
    match one.better {
        Better::Higher => one.median > other.median,
        Better::Lower => one.median < other.median,
    }
}

/// The cases of rows, in the order in which they first stand, a workload's together.
#[must_use]
pub fn cases(rows: &[Row]) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for row in rows {
        let place = *places
            .entry((&row.workload, &row.case))
            .or_insert(cases.len());
        if place == cases.len() {
            cases.push(Case {
                workload: &row.workload,
                name: &row.case,
                rows: Vec::new(),
            });
        }
        cases[place].rows.push(row);
    }
    let mut order: Vec<&str> = Vec::new();
    for case in &cases {
        if !order.contains(&case.workload) {
            order.push(case.workload);
        }
    }
    cases.sort_by_key(|case| order.iter().position(|name| *name == case.workload));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::figures;

    fn row(workload: &str, case: &str, contender: &str, median: f64) -> Row {
        Row {
            workload: workload.into(),
            case: case.into(),
            contender: contender.into(),
            finding: Finding::Figures(figures(Better::Higher, median, 0.01)),
        }
    }

    #[test]
    fn a_single_stream_is_not_compared_with_blocks() {
        let of_form = |contender: &str, median: f64, form: &str| {
            let mut row = row("read", "zlib", contender, median);
            if let Finding::Figures(figures) = &mut row.finding {
                figures.params.insert("form".into(), form.into());
            }
            row
        };
        let rows = [
            of_form("millstream", 4.0, "zlib"),
            of_form("millstream-blocks", 9.0, "zlib-blocks"),
            of_form("blocks-threads", 8.0, "zlib-blocks"),
            row("read", "zlib", "stdio", 3.0),
        ];
        let verdict = cases(&rows)[0].verdict("rate").expect("ours is there");
        assert_eq!(verdict.ours, "millstream");
        assert_eq!(verdict.rival.expect("one is").0, "stdio");
    }

    #[test]
    fn ours_is_compared_with_the_best_that_does_the_whole_work() {
        let rows = [
            row("codecs", "a", "millstream-avx2", 5.0),
            row("codecs", "a", "millstream-avx512", 6.0),
            row("codecs", "a", "memcpy", 100.0),
            row("codecs", "a", "libdeflate", 3.0),
            row("codecs", "a", "zlib", 2.0),
            row("codecs", "b", "millstream-zstd", 5.0),
            row("codecs", "b", "zstd", 5.0),
        ];
        let cases = cases(&rows);
        let verdict = cases[0].verdict("rate").unwrap();
        assert_eq!(verdict.ours, "millstream-avx512");
        let (name, comparison) = verdict.rival.unwrap();
        assert_eq!((name, comparison.ratio), ("libdeflate", 2.0));
        assert!(cases[1].verdict("rate").is_none());
    }

    #[test]
    fn cases_of_a_workload_stand_together() {
        let rows = [
            row("a", "1", "x", 1.0),
            row("b", "1", "x", 1.0),
            row("a", "2", "x", 1.0),
            row("a", "1", "y", 1.0),
        ];
        let names: Vec<(&str, &str, usize)> = cases(&rows)
            .iter()
            .map(|case| (case.workload, case.name, case.rows.len()))
            .collect();
        assert_eq!(names, [("a", "1", 2), ("a", "2", 1), ("b", "1", 1)]);
    }
}
