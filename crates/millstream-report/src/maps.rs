//! Heat maps: the cases of a workload whose names differ only in size and depth, such as `direct
//! 64K depth 32`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::cases::{Case, geometric_mean, grouped};
use crate::charts::{self, Heat};
use crate::limits::HEAT_SIDE_MAX;
use crate::markup::{quantity, size};
use crate::page::Table;
use crate::rows::Better;
use crate::svg::Svg;

type Place = (u64, u64);

pub(crate) struct Map<'c, 'a> {
    /// The words of the names of its cells, without their numbers.
    name: String,
    cells: BTreeMap<Place, &'c Case<'a>>,
    sizes: Vec<u64>,
    depths: Vec<u64>,
}

const OURS: &str = "millstream";

/// Returns the words of a case's name without its numbers, and its place, if the name is
/// `... SIZE depth N`.
fn cell(case: &str) -> Option<(String, Place)> {
    let tokens: Vec<&str> = case.split_whitespace().collect();
    let at = tokens.iter().position(|token| *token == "depth")?;
    let depth = quantity(tokens.get(at + 1)?)?;
    let bytes = tokens[..at]
        .iter()
        .rev()
        .find_map(|token| quantity(token))?;
    let is_word = |token: &&str| quantity(token).is_none() && *token != "depth";
    let words: Vec<&str> = tokens.into_iter().filter(is_word).collect();
    let place = (bytes as u64, depth as u64);
    (bytes > 0.0 && depth > 0.0).then(|| (words.join(" "), place))
}

/// Returns the maps of cases, which are groups with at least two sizes and two depths, and the
/// cases that are in none.
pub(crate) fn split<'c, 'a>(cases: &'c [Case<'a>]) -> (Vec<Map<'c, 'a>>, Vec<&'c Case<'a>>) {
    let of_case = |case: &'c Case<'a>| Some((case, cell(case.name)?));
    let cells = cases.iter().filter_map(of_case);
    let groups = grouped(cells, |(case, (name, _))| (case.workload, name.clone()));
    let (mut maps, mut in_maps) = (Vec::new(), HashSet::new());
    for group in groups {
        let side = |of: fn(&Place) -> u64| -> Vec<u64> {
            let measured = group.iter().filter(|(case, _)| case.primary().is_some());
            let values: BTreeSet<u64> = measured.map(|(_, (_, place))| of(place)).collect();
            values.into_iter().take(HEAT_SIDE_MAX).collect()
        };
        let (sizes, depths) = (side(|place| place.0), side(|place| place.1));
        if sizes.len() < 2 || depths.len() < 2 {
            continue;
        }
        in_maps.extend(group.iter().map(|(case, _)| (case.workload, case.name)));
        maps.push(Map {
            name: group[0].1.0.clone(),
            cells: group
                .iter()
                .map(|(case, (_, place))| (*place, *case))
                .collect(),
            sizes,
            depths,
        });
    }
    let is_plain = |case: &&Case<'_>| !in_maps.contains(&(case.workload, case.name));
    (maps, cases.iter().filter(is_plain).collect())
}

impl Map<'_, '_> {
    pub(crate) fn len(&self) -> usize {
        self.sizes.len() * self.depths.len()
    }

    /// Draws our figures of the first metric; `None` if ours is in no cell.
    pub(crate) fn heat(&self) -> Option<Svg> {
        let metric = self.cells.values().find_map(|case| case.primary())?;
        let value = |place| self.cells.get(&place)?.figures(OURS, &metric.metric);
        let row = |depth: &u64| {
            let places = self.sizes.iter().map(|size| (*size, *depth));
            places.map(|place| Some(value(place)?.median)).collect()
        };
        let cells: Vec<Vec<Option<f64>>> = self.depths.iter().map(row).collect();
        cells.iter().flatten().flatten().next()?;
        Some(charts::heat(&Heat {
            heading: format!("{OURS}, {}: {}", self.name, metric.metric),
            unit: metric.unit.clone(),
            higher: metric.better == Better::Higher,
            sizes: self.sizes.iter().map(|it| size(*it as f64)).collect(),
            depths: self.depths.iter().map(u64::to_string).collect(),
            cells,
        }))
    }

    /// Returns a table of the cells, ours over the best rival of each, as text.
    pub(crate) fn text(&self) -> Option<String> {
        let rivals = self.cells.iter().filter_map(|(place, case)| {
            let (name, comparison) = case.verdict()?.rival?;
            Some((*place, (name, comparison.ratio)))
        });
        let rivals: BTreeMap<Place, (&str, f64)> = rivals.collect();
        let mean = geometric_mean(rivals.values().map(|it| it.1))?;
        let (name, count) = (&self.name, rivals.len());
        let words = "cells over the best rival of each, more is better; geometric mean";
        let caption = format!("{name}: {count} {words} {mean:.2}");
        let mut table = Table::new(&caption, ">in flight");
        for bytes in &self.sizes {
            table.column(&format!(">{}", size(*bytes as f64)));
        }
        for depth in &self.depths {
            let shown = |bytes: &u64| match rivals.get(&(*bytes, *depth)) {
                Some((name, ratio)) => format!("{ratio:.2} {name}"),
                None => "–".into(),
            };
            let cells = [depth.to_string()].into_iter();
            table.row(cells.chain(self.sizes.iter().map(shown)).collect());
        }
        let (name, count) = (&self.name, rivals.len());
        let words = "cells over the best rival of each, more is better; geometric mean";
        Some(format!(
            "{name}: {count} {words} {mean:.2}\n{}\n",
            table.text()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_known_by_their_names() {
        let place = (65536, 32);
        assert_eq!(
            cell("direct 64K depth 32"),
            Some(("direct".to_owned(), place))
        );
        assert_eq!(cell("single 4K cold"), None);
    }
}
