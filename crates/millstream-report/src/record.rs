//! Records: runs of several versions on one machine, drawn over the versions.
//!
//! A record is a folder: `machine.json` says which machine it is, and `<version>.jsonl` holds the
//! rows of the run of each version. Versions are ordered as versions are, number by number.

use crate::cases::{cases, distinct};
use crate::chart::Whose;
use crate::chart::curve::{self, Curves, Series};
use crate::limits::RECORD_VERSIONS_MAX;
use crate::markup::{count, figure};
use crate::page::{Html, Set, Table};
use crate::rows::{Figures, Row};

/// A version's run.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its name, `0.1.0`.
    pub name: String,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Version {
    /// The key of the order of versions: numbers as numbers, the rest as text, a plain version
    /// after those with a suffix (`0.2.0-beta` before `0.2.0`).
    fn order(&self) -> (Vec<u64>, bool, String) {
        let split = self.name.split_once('-');
        let numbers = split.map_or(&*self.name, |(numbers, _)| numbers);
        let parts = numbers.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.collect(), split.is_none(), self.name.clone())
    }
}

/// Puts versions in order and keeps the newest [`RECORD_VERSIONS_MAX`].
pub fn arrange(versions: &mut Vec<Version>) {
    versions.sort_by_key(Version::order);
    let old = versions.len().saturating_sub(RECORD_VERSIONS_MAX);
    versions.drain(..old);
}

/// Ours and the best rival in a case of a version, given by its place.
struct Point<'a> {
    case: (&'a str, &'a str),
    version: usize,
    ours: &'a Figures,
    rival: Option<&'a Figures>,
}

/// Writes a picture for every case that two versions or more measured, and a table.
pub(crate) fn write(body: &mut Html, versions: &[Version]) {
    let names: Vec<&str> = versions.iter().map(|it| &*it.name).collect();
    let number = count(versions.len(), "version");
    body.paragraph("", &format!("{number}: {}.", names.join(", ")));
    let points = points(versions);
    let mut cards = Html::default();
    let mut columns = vec![("case", Set::Name), ("", Set::Name)];
    columns.extend(names.iter().map(|name| (*name, Set::Number)));
    let mut table = Table::new("Ours, the first metric of each case", &columns);
    for first in distinct(&points, |point| point.case) {
        let of_case = points.iter().filter(|point| point.case == first.case);
        let points: Vec<&Point<'_>> = of_case.collect();
        let name = format!("{}: {}", first.case.0, first.case.1);
        if let Some(curves) = curves(&name, &points, &names) {
            cards.figure(&curve::draw(&curves), "");
        }
        let mut line = vec![name.into(), first.ours.unit.clone().into()];
        for version in 0..versions.len() {
            let point = points.iter().find(|point| point.version == version);
            line.push(point.map_or("".into(), |it| figure(it.ours.median).into()));
        }
        table.row("", line);
    }
    if cards.is_empty() {
        let words = "No case was measured in two versions, so there is nothing to draw yet.";
        body.paragraph("", words);
    }
    body.cards(&cards);
    body.folded("All figures", &table);
}

fn points(versions: &[Version]) -> Vec<Point<'_>> {
    let mut points = Vec::new();
    for (version, run) in versions.iter().enumerate() {
        for case in cases(&run.rows) {
            points.extend(case.verdict().map(|verdict| Point {
                case: (case.workload, case.name),
                version,
                ours: verdict.figures,
                rival: verdict.rival.map(|rival| rival.1),
            }));
        }
    }
    points
}

fn curves(heading: &str, points: &[&Point<'_>], versions: &[&str]) -> Option<Curves> {
    let first = points.first()?.ours;
    let same = || points.iter().filter(|point| point.ours.unit == first.unit);
    if same().count() < 2 {
        return None;
    }
    let ours = same().map(|it| (it.version as f64, it.ours.median));
    let rivals = same().filter_map(|it| Some((it.version as f64, it.rival?.median)));
    let series = |label: &str, whose, points| Series {
        label: label.into(),
        whose,
        points,
    };
    let mut series = vec![
        series("millstream", Whose::Ours, ours.collect()),
        series("best rival", Whose::Rival, rivals.collect()),
    ];
    series.retain(|series| !series.points.is_empty());
    let names = versions.iter().enumerate();
    Some(Curves {
        heading: heading.to_owned(),
        across: "version".into(),
        up: format!("{} {}", first.metric, first.axis()),
        names: names
            .map(|(at, name)| (at as f64, (*name).to_owned()))
            .collect(),
        log_across: false,
        series,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_their_order() {
        let names = ["0.10.0", "0.2.0", "0.2.0-beta", "0.9.1"];
        let mut all = Vec::from(names.map(|name| Version {
            name: name.into(),
            rows: Vec::new(),
        }));
        arrange(&mut all);
        let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["0.2.0-beta", "0.2.0", "0.9.1", "0.10.0"]);
    }
}
