//! Records: runs of several versions on one machine, drawn over the versions.
//!
//! A record is a folder: `machine.json` says which machine it is, and `<version>.jsonl` holds the
//! rows of the run of each version. Versions are ordered as versions are, number by number.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::cases::cases;
use crate::chart::Whose;
use crate::chart::curve::{self, Curves, Series};
use crate::limits::RECORD_VERSIONS_MAX;
use crate::markup::{count, figure};
use crate::page::{Html, Set, Table};
use crate::rows::{Better, Figures, Row};

/// A version's run.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its name, `0.1.0`.
    pub name: String,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// The order of versions: numbers as numbers, the rest as text, a plain version after those with a
/// suffix (`0.2.0-beta` before `0.2.0`).
#[must_use]
pub fn order(one: &str, other: &str) -> Ordering {
    let split = |name: &str| -> (Vec<u64>, bool, String) {
        let (numbers, suffix) = match name.split_once('-') {
            Some((numbers, suffix)) => (numbers, Some(suffix.to_owned())),
            None => (name, None),
        };
        let parts = numbers.split('.').map(|part| part.parse().unwrap_or(0));
        let suffix_text = suffix.clone().unwrap_or_default();
        (parts.collect(), suffix.is_none(), suffix_text)
    };
    split(one).cmp(&split(other)).then_with(|| one.cmp(other))
}

/// Puts versions in order and keeps the newest [`RECORD_VERSIONS_MAX`].
pub fn arrange(versions: &mut Vec<Version>) {
    versions.sort_by(|a, b| order(&a.name, &b.name));
    let old = versions.len().saturating_sub(RECORD_VERSIONS_MAX);
    versions.drain(..old);
}

/// Ours and the best rival in every case, version by version.
type Lines<'a> =
    BTreeMap<(usize, &'a str, &'a str), Vec<(usize, &'a Figures, Option<&'a Figures>)>>;

/// Writes a picture for every case that two versions or more measured, and a table.
pub(crate) fn write(body: &mut Html, versions: &[Version]) {
    let names: Vec<&str> = versions.iter().map(|it| &*it.name).collect();
    body.paragraph(&format!(
        "{}: {}.",
        count(versions.len(), "version"),
        names.join(", ")
    ));
    let lines = lines(versions);
    let mut cards = Html::new();
    for ((_, workload, case), points) in &lines {
        let heading = format!("{workload}: {case}");
        if let Some(curves) = curves(&heading, points, versions) {
            cards.figure(&curve::draw(&curves), "");
        }
    }
    if cards.is_empty() {
        body.paragraph("No case was measured in two versions, so there is nothing to draw yet.");
    }
    body.cards(&cards);
    let mut columns = vec![("case", Set::Name), ("", Set::Name)];
    columns.extend(names.iter().map(|name| (*name, Set::Number)));
    let mut table = Table::new("Ours, the first metric of each case", &columns);
    for ((_, workload, case), points) in &lines {
        let unit = points.first().map_or("", |point| &*point.1.unit);
        let mut line = vec![format!("{workload}: {case}").into(), unit.into()];
        for at in 0..versions.len() {
            let point = points.iter().find(|point| point.0 == at);
            line.push(point.map_or("".into(), |it| figure(it.1.median).into()));
        }
        table.row("", line);
    }
    let mut inside = Html::new();
    inside.table(&table);
    body.details(false, "All figures", &"".into(), &inside);
}

fn lines(versions: &[Version]) -> Lines<'_> {
    let mut lines: Lines<'_> = BTreeMap::new();
    let mut order: Vec<(&str, &str)> = Vec::new();
    for (at, version) in versions.iter().enumerate() {
        for case in cases(&version.rows) {
            let verdict = case.primary().and_then(|it| case.verdict(&it.metric));
            let Some(verdict) = verdict else { continue };
            let rival = verdict
                .rival
                .and_then(|(name, _)| case.figures(name, &verdict.figures.metric));
            let key = (case.workload, case.name);
            let place = match order.iter().position(|known| *known == key) {
                Some(place) => place,
                None => {
                    order.push(key);
                    order.len() - 1
                }
            };
            let points = lines.entry((place, key.0, key.1)).or_default();
            points.push((at, verdict.figures, rival));
        }
    }
    lines
}

fn curves(
    heading: &str,
    points: &[(usize, &Figures, Option<&Figures>)],
    versions: &[Version],
) -> Option<Curves> {
    let (_, first, _) = points.first()?;
    let same = || points.iter().filter(|point| point.1.unit == first.unit);
    if same().count() < 2 {
        return None;
    }
    let direction = match first.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    };
    let ours = same().map(|(at, ours, _)| (*at as f64, ours.median));
    let theirs = same().filter_map(|(at, _, rival)| Some((*at as f64, (*rival)?.median)));
    let mut series = vec![Series {
        label: "millstream".into(),
        whose: Whose::Ours,
        points: ours.collect(),
    }];
    let theirs: Vec<(f64, f64)> = theirs.collect();
    if !theirs.is_empty() {
        series.push(Series {
            label: "best rival".into(),
            whose: Whose::Rival,
            points: theirs,
        });
    }
    Some(Curves {
        heading: heading.to_owned(),
        across: "version".into(),
        up: format!("{} {}, {direction}", first.metric, first.unit),
        names: versions
            .iter()
            .enumerate()
            .map(|(at, version)| (at as f64, version.name.clone()))
            .collect(),
        log_across: false,
        series,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::figures;
    use crate::rows::Finding;

    fn version(name: &str, median: f64) -> Version {
        let row = |contender: &str, median| Row {
            workload: "read".into(),
            case: "cold".into(),
            contender: contender.into(),
            finding: Finding::Figures(figures(Better::Higher, median, 0.1)),
        };
        Version {
            name: name.into(),
            rows: vec![row("millstream", median), row("ring", 9.0)],
        }
    }

    #[test]
    fn versions_are_in_their_order() {
        let mut all: Vec<Version> = ["0.10.0", "0.2.0", "0.2.0-beta", "0.9.1"]
            .map(|name| version(name, 1.0))
            .into();
        arrange(&mut all);
        let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["0.2.0-beta", "0.2.0", "0.9.1", "0.10.0"]);
    }

    #[test]
    fn two_versions_make_a_line_and_one_makes_none() {
        let mut body = Html::new();
        write(&mut body, &[version("0.1.0", 5.0), version("0.2.0", 8.0)]);
        let page = crate::page::render("t", &body, &[], "", None);
        assert!(page.contains("line-ours") && page.contains("0.2.0"));
        let mut body = Html::new();
        write(&mut body, &[version("0.1.0", 5.0)]);
        let page = crate::page::render("t", &body, &[], "", None);
        assert!(page.contains("nothing to draw yet"));
    }
}
