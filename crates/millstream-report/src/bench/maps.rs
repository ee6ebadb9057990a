//! Heat maps of a workload, and what they say in words.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::axes;
use crate::cases::{Case, cases, distinct, grouped};
use crate::chart::heat::{self, Heat};
use crate::chart::ratio::geometric_mean;
use crate::compare::{Comparison, compare};
use crate::limits::{HEAT_CELLS_PER_FIGURE, HEAT_SIDE_MAX};
use crate::markup::{count, size};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::{Better, Figures, Row};
use crate::svg::Svg;

/// Bytes of a request, and depth.
type Place = (u64, u64);

/// A heat map, with all contenders and metrics.
pub(crate) struct Map<'c, 'a> {
    /// Name of the group of cells, used as a heading.
    pub(crate) name: String,
    /// The cases that are its cells.
    pub(crate) cells: Vec<&'c Case<'a>>,
    sizes: Vec<u64>,
    depths: Vec<u64>,
    /// The figures by contender and metric.
    figures: HashMap<(&'a str, &'a str), BTreeMap<Place, &'a Figures>>,
    contenders: Vec<&'a str>,
    metrics: Vec<&'a Figures>,
}

const OURS: &str = "millstream";
/// A cell whose ratio to the best rival is below this counts as trailing.
const TRAILING: f64 = 0.9;

/// Returns the maps of cases, which are groups with at least two sizes and two depths, and the
/// cases that are in none.
pub(crate) fn split<'c, 'a>(cases: &'c [Case<'a>]) -> (Vec<Map<'c, 'a>>, Vec<&'c Case<'a>>) {
    let of_case = |case: &'c Case<'a>| Some((case, axes::cell(case.name)?));
    let cells = cases.iter().filter_map(of_case);
    let groups = grouped(cells, |(case, cell)| (case.workload, cell.group.clone()));
    let maps: Vec<Map<'_, '_>> = groups.iter().filter_map(|group| Map::new(group)).collect();
    let in_maps = maps.iter().flat_map(|map| &map.cells);
    let in_maps: HashSet<(&str, &str)> = in_maps.map(|it| (it.workload, it.name)).collect();
    let plain = cases
        .iter()
        .filter(|it| !in_maps.contains(&(it.workload, it.name)));
    (maps, plain.collect())
}

/// Returns the values along a side of a map, sorted and distinct.
fn side(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut side: Vec<u64> = values.collect();
    side.sort_unstable();
    side.dedup();
    side.truncate(HEAT_SIDE_MAX);
    side
}

impl<'c, 'a> Map<'c, 'a> {
    fn new(group: &[(&'c Case<'a>, axes::Cell)]) -> Option<Map<'c, 'a>> {
        let measured = || group.iter().filter(|(case, _)| !case.figures.is_empty());
        let sizes = side(measured().map(|(_, cell)| cell.place.0));
        let depths = side(measured().map(|(_, cell)| cell.place.1));
        if sizes.len() < 2 || depths.len() < 2 {
            return None;
        }
        let mut figures: HashMap<_, BTreeMap<_, _>> = HashMap::new();
        for (case, axes::Cell { place, .. }) in group {
            if sizes.contains(&place.0) && depths.contains(&place.1) {
                for (names, it) in &case.figures {
                    figures.entry(*names).or_default().insert(*place, *it);
                }
            }
        }
        let cells: Vec<&Case<'_>> = group.iter().map(|(case, _)| *case).collect();
        let contenders = cells.iter().flat_map(|case| &case.contenders);
        let metrics = cells.iter().flat_map(|case| &case.metrics);
        Some(Map {
            name: group[0].1.group.clone(),
            contenders: distinct(contenders.copied(), |it| *it),
            metrics: distinct(metrics.copied(), |it| &*it.metric),
            cells,
            sizes,
            depths,
            figures,
        })
    }

    /// Returns the contenders that ours is compared with.
    fn rivals(&self) -> impl Iterator<Item = &'a str> {
        let contenders = self.contenders.iter().copied();
        contenders.filter(|name| self.cells[0].is_rival(name))
    }

    /// Returns the names of the sizes; for sizes that would share one, the number of bytes.
    fn size_names(&self) -> Vec<String> {
        let names: Vec<String> = self.sizes.iter().map(|it| size(*it as f64)).collect();
        let is_shared = |name: &String| names.iter().filter(|it| *it == name).count() > 1;
        let named = |(bytes, name): (&u64, &String)| match is_shared(name) {
            true => bytes.to_string(),
            false => name.clone(),
        };
        self.sizes.iter().zip(&names).map(named).collect()
    }

    /// Draws a contender's figures of a metric, if there are enough of them.
    fn heat(&self, contender: &str, metric: &Figures) -> Option<Svg> {
        let figures = self.figures.get(&(contender, &metric.metric))?;
        if figures.len() * HEAT_CELLS_PER_FIGURE < self.sizes.len() * self.depths.len() {
            return None;
        }
        let value = |bytes: &u64, depth: u64| figures.get(&(*bytes, depth)).map(|it| it.median);
        let row = |depth: &u64| self.sizes.iter().map(|it| value(it, *depth)).collect();
        Some(heat::draw(&Heat {
            heading: format!("{contender}, {}: {}", self.name, metric.metric),
            unit: metric.unit.clone(),
            higher: metric.better == Better::Higher,
            sizes: self.size_names(),
            depths: self.depths.iter().map(u64::to_string).collect(),
            cells: self.depths.iter().map(row).collect(),
        }))
    }

    /// Compares ours with the best rival in each cell, by the first metric.
    fn against(&self) -> BTreeMap<Place, (&'a str, Comparison)> {
        let of = |name| self.figures.get(&(name, &*self.metrics.first()?.metric));
        let mut cells = BTreeMap::new();
        let Some(ours) = of(OURS) else { return cells };
        for (name, theirs) in self.rivals().filter_map(|name| Some((name, of(name)?))) {
            for (place, theirs) in theirs {
                let compared = ours.get(place).and_then(|ours| compare(ours, theirs));
                let Some(compared) = compared else { continue };
                let best = cells.entry(*place).or_insert((name, compared));
                if compared.ratio < best.1.ratio {
                    *best = (name, compared);
                }
            }
        }
        cells
    }
}

/// Writes the maps of one group.
pub(crate) fn write(body: &mut Html, map: &Map<'_, '_>) {
    body.heading(&format!("Request size and depth: {}", map.name));
    let metrics = map.metrics.iter();
    let ours: Vec<Svg> = metrics.filter_map(|it| map.heat(OURS, it)).collect();
    body.cards(&ours);
    if let Some((words, table)) = words(map) {
        body.paragraph("", &words);
        body.table(&table);
    }
    // For other contenders only the first metric is drawn.
    let others = map.contenders.iter().filter(|name| **name != OURS);
    let drawn = others.clone();
    let drawn = drawn.filter_map(|name| map.heat(name, map.metrics.first()?));
    let drawn: Vec<Svg> = drawn.collect();
    if !drawn.is_empty() {
        let mut inside = Html::default();
        inside.cards(&drawn);
        let all = count(others.count(), "other");
        let heading = format!("The same of {} of {all}", drawn.len());
        body.details(ours.is_empty(), &heading, &"".into(), &inside);
    }
}

/// Compares ours with the best rivals, in a sentence and cell by cell.
pub(crate) fn words(map: &Map<'_, '_>) -> Option<(String, Table)> {
    let cells = map.against();
    let mean = geometric_mean(cells.values().map(|(_, it)| it.ratio))?;
    let trailing = cells.values().filter(|(_, it)| it.high < TRAILING).count();
    let tail = match trailing {
        0 => format!("no cell is below {TRAILING} beyond its interval"),
        1 => format!("1 cell is below {TRAILING} beyond its interval"),
        many => format!("{many} cells are below {TRAILING} beyond their intervals"),
    };
    let (number, rivals) = (cells.len(), map.rivals().collect::<Vec<_>>().join(", "));
    let words = format!(
        "Over {number} cells the geometric mean is {mean:.2} of the best rival of each cell \
         ({rivals}); {tail}."
    );
    let caption = "Ours over the best rival of the cell, more is better";
    let mut table = Table::new(caption, ">in flight");
    for name in map.size_names() {
        table.column(&name, Set::Number);
    }
    for depth in &map.depths {
        let mut line: Vec<Cell> = vec![depth.to_string().into()];
        line.extend(
            map.sizes
                .iter()
                .map(|size| match cells.get(&(*size, *depth)) {
                    Some((name, it)) => {
                        Cell::of(format!("{:.2} {name}", it.ratio), it.standing().class())
                    }
                    None => "–".into(),
                }),
        );
        table.row("", line);
    }
    Some((words, table))
}

/// Returns the heat map that represents the rows, as an SVG file: the first metric of ours in the
/// largest map; the first one if several are equal.
#[must_use]
pub fn picture(rows: &[Row]) -> Option<String> {
    let cases = cases(rows);
    let (maps, _) = split(&cases);
    let ours = maps.iter().filter(|map| map.contenders.contains(&OURS));
    // `max_by_key` returns the last of several that are equal, hence the reversal.
    let fullest = ours
        .rev()
        .max_by_key(|map| map.sizes.len() * map.depths.len())?;
    Some(fullest.heat(OURS, fullest.metrics.first()?)?.standalone())
}
