//! Heat maps of a workload, and what they say in words.

use std::collections::BTreeMap;

use crate::axes;
use crate::cases::{Case, cases, distinct};
use crate::chart::heat::{self, Heat};
use crate::chart::ratio::geometric_mean;
use crate::compare::{Comparison, compare};
use crate::limits::HEAT_SIDE_MAX;
use crate::markup::{count, size};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::{Better, Figures, Row};
use crate::svg::Svg;

/// Bytes of a request and depth.
type Place = (u64, u64);

/// The cells of one map, of all contenders and metrics.
#[derive(Default)]
pub(crate) struct Maps<'a> {
    /// The name of the group of cells, for a heading.
    pub(crate) name: String,
    rivals: Vec<&'a str>,
    sizes: Vec<u64>,
    depths: Vec<u64>,
    figures: BTreeMap<(&'a str, &'a str, Place), &'a Figures>,
    contenders: Vec<&'a str>,
    metrics: Vec<&'a Figures>,
}

const OURS: &str = "millstream";
/// A cell below this ratio to the best rival counts as trailing.
const TRAILING: f64 = 0.9;

/// The maps of a workload's cases: groups with two sizes and two depths or more.
pub(crate) fn collect<'a>(cases: &[Case<'a>]) -> Vec<Maps<'a>> {
    let rows = cases
        .iter()
        .flat_map(|case| case.rows.iter().map(move |row| (case, *row)));
    let cells: Vec<(&Case<'a>, axes::Cell, &'a str, &'a Figures)> = rows
        .filter_map(|(case, row)| Some((case, axes::cell(row)?, &*row.contender, row.figures()?)))
        .collect();
    let mut maps = Vec::new();
    for (_, first, ..) in distinct(&cells, |it| &it.1.group) {
        let group = || cells.iter().filter(|it| it.1.group == first.group);
        let figures = group()
            .map(|(_, cell, name, figures)| ((*name, &*figures.metric, cell.place), *figures));
        let rivals = group().filter(|(case, _, name, _)| case.is_rival(name));
        let map = Maps {
            name: first.group.clone(),
            rivals: distinct(rivals.map(|it| it.2), |it| *it),
            sizes: side(group().map(|it| it.1.place.0)),
            depths: side(group().map(|it| it.1.place.1)),
            figures: figures.collect(),
            contenders: distinct(group().map(|it| it.2), |it| *it),
            metrics: distinct(group().map(|it| it.3), |it| &*it.metric),
        };
        if map.sizes.len() > 1 && map.depths.len() > 1 {
            maps.push(map);
        }
    }
    maps
}

/// The cases that are cells of these maps, and the others.
pub(crate) fn split<'c, 'a>(
    maps: &[Maps<'a>],
    cases: &'c [Case<'a>],
) -> (Vec<&'c Case<'a>>, Vec<&'c Case<'a>>) {
    cases.iter().partition(|case| {
        let mut cells = case.rows.iter().filter_map(|row| axes::cell(row));
        cells.any(|cell| maps.iter().any(|map| map.name == cell.group))
    })
}

/// The values along a side of a map.
fn side(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut side: Vec<u64> = values.collect();
    side.sort_unstable();
    side.dedup();
    side.truncate(HEAT_SIDE_MAX);
    side
}

impl<'a> Maps<'a> {
    fn at(&self, contender: &'a str, metric: &'a str, place: Place) -> Option<&'a Figures> {
        self.figures.get(&(contender, metric, place)).copied()
    }

    fn size_names(&self) -> Vec<String> {
        self.sizes.iter().map(|it| size(*it as f64)).collect()
    }

    /// The picture of a contender's figures of a metric.
    fn heat(&self, contender: &'a str, metric: &'a Figures) -> Svg {
        let value = |bytes: &u64, depth: u64| {
            let figures = self.at(contender, &metric.metric, (*bytes, depth));
            figures.map(|it| it.median)
        };
        let row = |depth: &u64| self.sizes.iter().map(|it| value(it, *depth)).collect();
        heat::draw(&Heat {
            heading: format!("{contender}, {}: {}", self.name, metric.metric),
            unit: metric.unit.clone(),
            higher: metric.better == Better::Higher,
            sizes: self.size_names(),
            depths: self.depths.iter().map(u64::to_string).collect(),
            cells: self.depths.iter().map(row).collect(),
        })
    }

    /// Ours over the best rival in each cell, by the first metric.
    fn against(&self) -> BTreeMap<Place, (&'a str, Comparison)> {
        let mut cells = BTreeMap::new();
        let places = self
            .sizes
            .iter()
            .flat_map(|size| self.depths.iter().map(|it| (*size, *it)));
        for (place, metric) in places.flat_map(|place| Some((place, *self.metrics.first()?))) {
            let metric = &*metric.metric;
            let ours = self.at(OURS, metric, place);
            let rivals = self.rivals.iter();
            let compared = rivals
                .filter_map(|name| Some((*name, compare(ours?, self.at(name, metric, place)?)?)));
            let best = compared.min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
            cells.extend(best.map(|best| (place, best)));
        }
        cells
    }
}

/// Writes the maps of one group.
pub(crate) fn write(body: &mut Html, map: &Maps<'_>) {
    body.heading(&format!("Request size and depth: {}", map.name));
    let (mut first, mut more) = (Html::default(), Html::default());
    for contender in &map.contenders {
        // Of others the first metric only.
        let (cards, most) = match *contender {
            OURS => (&mut first, map.metrics.len()),
            _ => (&mut more, 1),
        };
        for metric in map.metrics.iter().take(most) {
            cards.figure(&map.heat(contender, metric), "");
        }
    }
    body.cards(&first);
    if let Some((words, table)) = words(map) {
        body.paragraph("", &words);
        body.table(&table);
    }
    if !more.is_empty() {
        let mut inside = Html::default();
        inside.cards(&more);
        let others = map.contenders.iter().filter(|name| **name != OURS).count();
        let heading = format!("The same of {}", count(others, "other"));
        body.details(first.is_empty(), &heading, &"".into(), &inside);
    }
}

/// Ours beside the best rivals, in a sentence and cell by cell.
pub(crate) fn words(map: &Maps<'_>) -> Option<(String, Table)> {
    let cells = map.against();
    let mean = geometric_mean(cells.values().map(|(_, it)| it.ratio))?;
    let trailing = cells.values().filter(|(_, it)| it.high < TRAILING).count();
    let tail = match trailing {
        0 => format!("no cell is below {TRAILING} beyond its interval"),
        1 => format!("1 cell is below {TRAILING} beyond its interval"),
        many => format!("{many} cells are below {TRAILING} beyond their intervals"),
    };
    let (number, rivals) = (cells.len(), map.rivals.join(", "));
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

/// The map that stands for all, as a file of SVG: bandwidth of ours in the largest group of the
/// rows, the first of several.
#[must_use]
pub fn picture(rows: &[Row]) -> Option<String> {
    let cases = cases(rows);
    let maps = collect(&cases);
    let ours = maps.iter().filter(|map| map.contenders.contains(&OURS));
    // Of several that are equal the last is taken.
    let fullest = ours
        .rev()
        .max_by_key(|map| map.sizes.len() * map.depths.len())?;
    Some(fullest.heat(OURS, fullest.metrics.first()?).standalone())
}
