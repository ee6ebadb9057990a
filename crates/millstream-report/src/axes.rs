//! Cases that are points of one picture: cells of a heat map, places along a curve.
//!
//! A cell of a map says where it is by the parameters `size_bytes` and `depth` of its rows, or by a
//! name such as `direct 64K depth 32`. Places along a curve are cases whose names differ in one
//! number only (`file read 4`, `file read 1K`, `file read 256K`).

use std::collections::BTreeMap;

use crate::cases::Case;
use crate::rows::Row;

/// A name that cells or places share, with what stood in the place of the number left out.
pub type Group = String;

/// Where a row's cell is.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The map it belongs to.
    pub group: Group,
    /// Bytes of a request.
    pub size_bytes: f64,
    /// Requests in flight.
    pub depth: f64,
}

/// The cell of a row, if it is one of a map.
#[must_use]
pub fn cell(row: &Row) -> Option<Cell> {
    let tokens: Vec<&str> = row.case.split_whitespace().collect();
    let named = named_cell(&tokens);
    let figures = row.figures()?;
    let by_params = figures.number("size_bytes").zip(figures.number("depth"));
    let (size_bytes, depth) = match (by_params, named) {
        (Some(both), _) => both,
        (None, Some(both)) => both,
        (None, None) => return None,
    };
    let rest = tokens
        .iter()
        .filter(|token| quantity(token).is_none() && **token != "depth");
    let words: Vec<&str> = rest.copied().collect();
    let cell = Cell {
        group: words.join(" "),
        size_bytes,
        depth,
    };
    (size_bytes > 0.0 && depth > 0.0).then_some(cell)
}

/// Size and depth of `... SIZE depth N`.
fn named_cell(tokens: &[&str]) -> Option<(f64, f64)> {
    let at = tokens.iter().position(|token| *token == "depth")?;
    let depth = quantity(tokens.get(at + 1)?)?;
    let size = tokens[..at]
        .iter()
        .rev()
        .find_map(|token| quantity(token))?;
    Some((size, depth))
}

/// A number with a unit of bytes or none: `4`, `64K`, `24MB`, `1GiB`. Letters K, M, G are powers of
/// 1024, with a B powers of 1000.
#[must_use]
pub fn quantity(token: &str) -> Option<f64> {
    let token = token.trim_end_matches(',');
    let end = token
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(token.len());
    let number: f64 = token.get(..end)?.parse().ok()?;
    let unit = match &token[end..] {
        "" => 1.0,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1_048_576.0,
        "G" | "GiB" => 1_073_741_824.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    Some(number * unit)
}

/// Cases along one quantity.
#[derive(Debug, Clone)]
pub struct Family<'c, 'a> {
    /// The common name, `…` where the number stood.
    pub name: Group,
    /// The places, in order.
    pub places: Vec<(f64, &'c Case<'a>)>,
}

/// The families among cases of one workload: three places or more, each case in one family.
#[must_use]
pub fn families<'c, 'a>(cases: &[&'c Case<'a>]) -> Vec<Family<'c, 'a>> {
    let mut groups: BTreeMap<Group, Vec<(f64, &'c Case<'a>)>> = BTreeMap::new();
    let mut order: Vec<Group> = Vec::new();
    for case in cases {
        for (group, value) in places(case.name) {
            if !order.contains(&group) {
                order.push(group.clone());
            }
            groups.entry(group).or_default().push((value, case));
        }
    }
    let mut taken: Vec<&str> = Vec::new();
    let mut families = Vec::new();
    for name in order {
        let mut places = groups.remove(&name).unwrap_or_default();
        places.retain(|(_, case)| !taken.contains(&case.name));
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        places.dedup_by(|a, b| a.0 == b.0);
        if places.len() >= 3 {
            taken.extend(places.iter().map(|(_, case)| case.name));
            families.push(Family { name, places });
        }
    }
    families
}

/// The groups that a case's name may belong to: one for each number in it.
fn places(name: &str) -> Vec<(Group, f64)> {
    const UNITS: [(&str, f64); 3] = [("KB", 1e3), ("MB", 1e6), ("GB", 1e9)];
    let tokens: Vec<&str> = name.split_whitespace().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(mut value) = quantity(token) else {
            continue;
        };
        let mut words = tokens.clone();
        words[at] = "…";
        let unit = UNITS
            .iter()
            .find(|(unit, _)| tokens.get(at + 1) == Some(unit));
        if let Some((_, times)) = unit {
            value *= times;
            words.remove(at + 1);
        }
        found.push((words.join(" "), value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::cases;
    use crate::compare::tests::figures;
    use crate::rows::{Better, Finding};

    fn row(case: &str) -> Row {
        Row {
            workload: "w".into(),
            case: case.into(),
            contender: "millstream".into(),
            finding: Finding::Figures(figures(Better::Lower, 1.0, 0.1)),
        }
    }

    #[test]
    fn cells_are_known_by_name_or_by_parameters() {
        let named = cell(&row("direct 64K depth 32")).unwrap();
        let group = named.group.as_str();
        assert_eq!(
            (group, named.size_bytes, named.depth),
            ("direct", 65536.0, 32.0)
        );
        let mut by_params = row("heat direct random");
        if let Finding::Figures(figures) = &mut by_params.finding {
            figures.params.insert("size_bytes".into(), 4096.into());
            figures.params.insert("depth".into(), 8.into());
        }
        let cell_of = cell(&by_params).unwrap();
        assert_eq!(cell_of.group, "heat direct random");
        assert_eq!((cell_of.size_bytes, cell_of.depth), (4096.0, 8.0));
        assert_eq!(cell(&row("single 4K cold")), None);
    }

    #[test]
    fn cases_that_differ_in_a_number_are_a_family() {
        let names = [
            "file read 4",
            "file read 1K",
            "file read 256K",
            "file read bulk",
            "P3 10 KB in memory",
            "P3 1 MB in memory",
            "P3 100 KB in memory",
            "lookup 10",
            "lookup 100",
        ];
        let rows: Vec<Row> = names.into_iter().map(row).collect();
        let cases = cases(&rows);
        let all: Vec<&Case<'_>> = cases.iter().collect();
        let found = families(&all);
        let shown: Vec<(&str, Vec<f64>)> = found
            .iter()
            .map(|family| (&*family.name, family.places.iter().map(|it| it.0).collect()))
            .collect();
        assert_eq!(
            shown,
            [
                ("file read …", vec![4.0, 1024.0, 262_144.0]),
                ("P3 … in memory", vec![1e4, 1e5, 1e6]),
            ]
        );
    }
}
