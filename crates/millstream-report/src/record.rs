//! Records: runs of several versions on one machine, side by side.
//!
//! A record is a folder: `machine.json` says which machine it is, and `<version>.jsonl` holds the
//! rows of the run of each version. Versions are ordered as versions are, number by number.

use crate::cases::cases;
use crate::limits::RECORD_VERSIONS_MAX;
use crate::markup::{count, figure};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::Row;

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

/// Writes a table of ours, a column for each version.
pub(crate) fn write(body: &mut Html, versions: &[Version]) {
    let names: Vec<&str> = versions.iter().map(|it| &*it.name).collect();
    let number = count(versions.len(), "version");
    body.paragraph("", &format!("{number}: {}.", names.join(", ")));
    let mut table = Table::new("Ours, the first metric of each case", "case | ");
    for name in names {
        table.column(name, Set::Number);
    }
    // Workload, case and unit, and the figures of each version: a unit that has changed is a line
    // of its own.
    let mut lines: Vec<([&str; 3], Vec<Cell>)> = Vec::new();
    for (nth, version) in versions.iter().enumerate() {
        for case in cases(&version.rows) {
            let Some(verdict) = case.verdict() else {
                continue;
            };
            let key = [case.workload, case.name, &*verdict.figures.unit];
            let at = lines.iter().position(|line| line.0 == key);
            let at = at.unwrap_or_else(|| {
                lines.push((key, vec![Cell::default(); versions.len()]));
                lines.len() - 1
            });
            lines[at].1[nth] = figure(verdict.figures.median).into();
        }
    }
    for ([workload, case, unit], figures) in lines {
        let names = vec![format!("{workload}: {case}").into(), unit.into()];
        table.row("", [names, figures].concat());
    }
    body.table(&table);
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
