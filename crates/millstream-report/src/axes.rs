//! Cases that are points of one picture: cells of a heat map, places along a curve.
//!
//! A cell of a map says where it is by the parameters `size_bytes` and `depth` of its rows, or by a
//! name such as `direct 64K depth 32`. Places along a curve are cases whose names differ in one
//! number only (`file read 4`, `file read 1K`, `file read 256K`).

use crate::cases::{Case, distinct};
use crate::rows::Row;

/// Where a row's cell is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// The map it belongs to: the words of the name without its numbers.
    pub(crate) group: String,
    /// Bytes of a request, and requests in flight: whole numbers, so that they can be keys.
    pub(crate) place: (u64, u64),
}

/// The cell of a row, if it is one of a map.
pub(crate) fn cell(row: &Row) -> Option<Cell> {
    let tokens: Vec<&str> = row.case.split_whitespace().collect();
    let figures = row.figures()?;
    let by_params = figures.number("size_bytes").zip(figures.number("depth"));
    let (size_bytes, depth) = by_params.or_else(|| named_cell(&tokens))?;
    let is_word = |token: &&str| quantity(token).is_none() && *token != "depth";
    let words: Vec<&str> = tokens.into_iter().filter(is_word).collect();
    (size_bytes > 0.0 && depth > 0.0).then(|| Cell {
        group: words.join(" "),
        place: (size_bytes as u64, depth as u64),
    })
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
fn quantity(token: &str) -> Option<f64> {
    let token = token.trim_end_matches(',');
    let is_unit = |character: char| !character.is_ascii_digit() && character != '.';
    let (number, unit) = token.split_at(token.find(is_unit).unwrap_or(token.len()));
    let number: f64 = number.parse().ok()?;
    let unit = match unit {
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
pub(crate) struct Family<'c, 'a> {
    /// The common name, `…` where the number stood.
    pub(crate) name: String,
    /// The places, in order.
    pub(crate) places: Vec<(f64, &'c Case<'a>)>,
}

/// The families among cases of one workload: three places or more, each case in one family.
pub(crate) fn families<'c, 'a>(cases: &[&'c Case<'a>]) -> Vec<Family<'c, 'a>> {
    let all = cases.iter().flat_map(|case| {
        let places = places(case.name).into_iter();
        places.map(move |(name, value)| (name, value, *case))
    });
    let all: Vec<(String, f64, &Case<'_>)> = all.collect();
    let mut taken: Vec<&str> = Vec::new();
    let mut families = Vec::new();
    for (name, ..) in distinct(all.iter(), |it| &it.0) {
        let members = all
            .iter()
            .filter(|it| it.0 == *name && !taken.contains(&it.2.name));
        let mut places: Vec<(f64, &Case<'_>)> = members.map(|it| (it.1, it.2)).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        places.dedup_by(|a, b| a.0 == b.0);
        if places.len() >= 3 {
            taken.extend(places.iter().map(|(_, case)| case.name));
            let name = name.clone();
            families.push(Family { name, places });
        }
    }
    families
}

/// The families that a case's name may belong to, one for each number in it, and the number.
fn places(name: &str) -> Vec<(String, f64)> {
    let tokens: Vec<&str> = name.split_whitespace().collect();
    let place = |at: usize| {
        let mut value = quantity(tokens[at])?;
        let mut words = tokens.clone();
        words[at] = "…";
        // The unit of `100 KB` is a word of its own.
        let unit = tokens.get(at + 1).filter(|next| next.ends_with('B'));
        if let Some(times) = unit.and_then(|unit| quantity(&format!("1{unit}"))) {
            value *= times;
            words.remove(at + 1);
        }
        Some((words.join(" "), value))
    };
    (0..tokens.len()).filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::cases;
    use crate::rows::Better;
    use crate::rows::tests::{row, with};

    fn of_case(case: &str) -> Row {
        row(["w", case, "millstream"], Better::Lower, 1.0, 0.1)
    }

    #[test]
    fn cells_are_known_by_name_or_by_parameters() {
        let group = "direct".to_owned();
        let place = (65536, 32);
        assert_eq!(
            cell(&of_case("direct 64K depth 32")),
            Some(Cell { group, place })
        );
        let by_params = with(of_case("heat direct random"), "size_bytes", 4096);
        let found = cell(&with(by_params, "depth", 8)).expect("a cell");
        assert_eq!(
            (&*found.group, found.place),
            ("heat direct random", (4096, 8))
        );
        assert_eq!(cell(&of_case("single 4K cold")), None);
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
        let rows = names.map(of_case);
        let cases = cases(&rows);
        let found = families(&cases.iter().collect::<Vec<_>>());
        let values = |family: &Family<'_, '_>| family.places.iter().map(|it| it.0).collect();
        let shown: Vec<(&str, Vec<f64>)> = found.iter().map(|it| (&*it.name, values(it))).collect();
        let reads = vec![4.0, 1024.0, 262_144.0];
        let images = vec![1e4, 1e5, 1e6];
        assert_eq!(shown, [("file read …", reads), ("P3 … in memory", images)]);
    }
}
