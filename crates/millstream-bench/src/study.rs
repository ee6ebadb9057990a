//! The studies' own figures, shown beside ours (`study.toml`).

use std::sync::LazyLock;

use serde::Deserialize;

use crate::pattern;

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
}

static STUDIES: LazyLock<Studies> = LazyLock::new(|| {
    toml::from_str(include_str!("study.toml")).expect("a table of this crate, which tests read")
});

/// Returns the study's figure for a row of ours, if there is one.
pub(crate) fn beside(workload: &str, case: &str, contender: &str) -> Option<&'static str> {
    let mut figures = STUDIES.figures.iter();
    let found = figures.find(|it| {
        let named = it.workload == workload && it.contender == contender;
        named && it.cases.iter().any(|of| pattern::matches(of, case))
    });
    found.map(|it| &*it.figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_the_case_they_are_of() {
        assert_eq!(STUDIES.figures.len(), 73);
        let zlib = beside("read", "100MB 48 MB/s zlib", "async-8");
        assert!(zlib.is_some_and(|it| it.contains("+42 %")), "{zlib:?}");
        assert_eq!(beside("read", "100MB 550 MB/s stored", "read"), None);
    }
}
