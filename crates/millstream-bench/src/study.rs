//! The studies' own figures, to stand beside ours: `study.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::pattern;

/// A table of a study that stands alone: its scenes and its game cannot be had.
#[derive(Debug, Deserialize)]
pub struct Published {
    /// The workload it belongs to.
    pub workload: String,
    /// What it shows.
    pub caption: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Its lines, a text for each column.
    pub lines: Vec<Vec<String>>,
}

/// What a study measured of one contender in some cases.
#[derive(Deserialize)]
struct Figures {
    workload: String,
    contender: String,
    cases: Vec<String>,
    figures: String,
}

#[derive(Deserialize)]
struct Studies {
    figures: Vec<Figures>,
    published: Vec<Published>,
}

static STUDIES: LazyLock<Studies> = LazyLock::new(|| {
    toml::from_str(include_str!("study.toml")).expect("a table of this crate, which tests read")
});

/// The tables that stand alone.
#[must_use]
pub fn published() -> &'static [Published] {
    &STUDIES.published
}

/// The study's figure beside a row of ours, if it has one.
#[must_use]
pub fn beside(workload: &str, case: &str, contender: &str) -> Option<&'static str> {
    let mut figures = STUDIES.figures.iter();
    let found = figures.find(|it| {
        it.workload == workload
            && it.contender == contender
            && it.cases.iter().any(|of| pattern::matches(of, case))
    });
    found.map(|it| &*it.figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_lines_have_a_text_for_each_column() {
        for table in published() {
            let whole = |line: &Vec<String>| line.len() == table.columns.len();
            assert!(table.lines.iter().all(whole), "{}", table.caption);
        }
        assert_eq!((published().len(), STUDIES.figures.len()), (3, 73));
    }

    #[test]
    fn figures_stand_beside_the_case_they_are_of() {
        let stored = beside("read", "8MB 2.4 MB/s stored", "stdio");
        assert_eq!(stored, Some("2.381 / 2.386 / 2.383"));
        let zlib = beside("read", "100MB 48 MB/s zlib", "async-8");
        assert!(zlib.is_some_and(|it| it.contains("+42 %")), "{zlib:?}");
        assert!(beside("read", "100MB cold stored", "read").is_some());
        assert_eq!(beside("read", "1GiB cold stored", "read"), None);
        assert_eq!(beside("read", "100MB 550 MB/s stored", "read"), None);
        assert_eq!(beside("read", "100MB cold zstd", "read"), None);
        assert_eq!(beside("requests", "100MB cold stored", "read"), None);
    }
}
