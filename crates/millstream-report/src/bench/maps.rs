//! Heat maps of a workload, and what they say in words.

use std::collections::BTreeMap;

use crate::axes::{self, Group};
use crate::cases::{Case, cases};
use crate::chart::heat::{self, Heat};
use crate::chart::ratio::geometric_mean;
use crate::compare::{Comparison, Standing, compare};
use crate::limits::HEAT_SIDE_MAX;
use crate::markup::{count, size};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::{Better, Figures, Row};
use crate::svg::Svg;

/// Bytes of a request and depth, as whole numbers so that they can be keys.
type Place = (u64, u64);

/// The cells of one map, of all contenders and metrics.
pub(crate) struct Maps<'a> {
    group: Group,
    rivals: Vec<&'a str>,
    sizes: Vec<u64>,
    depths: Vec<u64>,
    figures: BTreeMap<(&'a str, &'a str, Place), &'a Figures>,
    contenders: Vec<&'a str>,
    metrics: Vec<&'a Figures>,
}

/// Below this part of the best rival a cell is named.
const TRAILING: f64 = 0.9;

/// The maps of a workload's cases: groups with two sizes and two depths or more.
pub(crate) fn collect<'a>(cases: &[Case<'a>]) -> Vec<Maps<'a>> {
    let mut maps: Vec<Maps<'a>> = Vec::new();
    let rows = cases
        .iter()
        .flat_map(|case| case.rows.iter().map(move |row| (case, row)));
    for (case, row) in rows {
        let (Some(cell), Some(figures)) = (axes::cell(row), row.figures()) else {
            continue;
        };
        let place = (cell.size_bytes as u64, cell.depth as u64);
        let at = match maps.iter().position(|map| map.group == cell.group) {
            Some(at) => at,
            None => {
                maps.push(Maps::new(cell.group));
                maps.len() - 1
            }
        };
        maps[at].add(row, figures, place);
        if case.is_rival(&row.contender) && !maps[at].rivals.contains(&&*row.contender) {
            maps[at].rivals.push(&row.contender);
        }
    }
    for map in &mut maps {
        for side in [&mut map.sizes, &mut map.depths] {
            side.sort_unstable();
            side.dedup();
            side.truncate(HEAT_SIDE_MAX);
        }
    }
    maps.retain(|map| map.sizes.len() > 1 && map.depths.len() > 1);
    maps
}

impl<'a> Maps<'a> {
    fn new(group: Group) -> Maps<'a> {
        Maps {
            group,
            rivals: Vec::new(),
            sizes: Vec::new(),
            depths: Vec::new(),
            figures: BTreeMap::new(),
            contenders: Vec::new(),
            metrics: Vec::new(),
        }
    }

    fn add(&mut self, row: &'a Row, figures: &'a Figures, place: Place) {
        self.sizes.push(place.0);
        self.depths.push(place.1);
        let (contender, metric) = (&*row.contender, &*figures.metric);
        self.figures.insert((contender, metric, place), figures);
        if !self.contenders.contains(&contender) {
            self.contenders.push(contender);
        }
        if !self.metrics.iter().any(|known| known.metric == metric) {
            self.metrics.push(figures);
        }
    }

    /// The group's name, for a heading.
    pub(crate) fn name(&self) -> &str {
        &self.group
    }

    fn at(&self, contender: &str, metric: &str, place: Place) -> Option<&'a Figures> {
        let key = (contender, metric, place);
        self.figures.get(&key).copied()
    }

    /// The map of a contender's figures; `times` makes another quantity of a figure and its cell.
    fn heat(&self, contender: &str, metric: &Metric<'a>) -> Heat {
        let cells = self.depths.iter().map(|depth| {
            let row = self.sizes.iter().map(|size| {
                let figures = self.at(contender, metric.name, (*size, *depth))?;
                Some(
                    figures.median
                        * if metric.bytes {
                            *size as f64 / 1e6
                        } else {
                            1.0
                        },
                )
            });
            row.collect()
        });
        Heat {
            heading: format!("{contender}, {}: {}", self.group, metric.shown),
            unit: metric.unit.to_owned(),
            higher: metric.higher,
            across: (
                "request size".into(),
                self.sizes.iter().map(|it| size(*it as f64)).collect(),
            ),
            down: (
                "in flight".into(),
                self.depths.iter().map(u64::to_string).collect(),
            ),
            cells: cells.collect(),
        }
    }

    /// What is mapped: bandwidth first, measured or made of requests a second, then the rest.
    fn quantities(&self) -> Vec<Metric<'a>> {
        let mut out: Vec<Metric<'a>> = self
            .metrics
            .iter()
            .map(|figures| Metric {
                name: &figures.metric,
                shown: &figures.metric,
                unit: &figures.unit,
                higher: figures.better == Better::Higher,
                bytes: false,
            })
            .collect();
        let has_rate = out.iter().any(|it| it.unit.ends_with("B/s"));
        if !has_rate && out.iter().any(|it| it.name == "iops") {
            out.insert(
                0,
                Metric {
                    name: "iops",
                    shown: "bandwidth",
                    unit: "MB/s",
                    higher: true,
                    bytes: true,
                },
            );
        }
        out
    }

    /// Ours over the best rival in each cell, by the first metric.
    fn against(&self) -> Vec<(Place, &'a str, Comparison)> {
        let Some(metric) = self.metrics.first().map(|figures| &*figures.metric) else {
            return Vec::new();
        };
        let mut cells = Vec::new();
        for depth in &self.depths {
            for size in &self.sizes {
                let place = (*size, *depth);
                let Some(ours) = self.at("millstream", metric, place) else {
                    continue;
                };
                let best = self
                    .rivals
                    .iter()
                    .copied()
                    .filter_map(|name| Some((name, self.at(name, metric, place)?)))
                    .filter_map(|(name, theirs)| Some((name, compare(ours, theirs)?)))
                    .min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
                if let Some((name, comparison)) = best {
                    cells.push((place, name, comparison));
                }
            }
        }
        cells
    }
}

/// A quantity to map.
struct Metric<'a> {
    name: &'a str,
    shown: &'a str,
    unit: &'a str,
    higher: bool,
    /// Whether figures count requests, and are to be shown as bytes.
    bytes: bool,
}

/// Writes the maps of one group.
pub(crate) fn write(body: &mut Html, map: &Maps<'_>) {
    body.heading(&format!("Request size and depth: {}", map.name()));
    let mut first = Html::new();
    let mut more = Html::new();
    let quantities = map.quantities();
    for metric in &quantities {
        if map.contenders.contains(&"millstream") {
            first.figure(&heat::draw(&map.heat("millstream", metric)), "");
        }
    }
    for contender in map.contenders.iter().filter(|name| **name != "millstream") {
        for metric in quantities.iter().take(1) {
            more.figure(&heat::draw(&map.heat(contender, metric)), "");
        }
    }
    body.cards(&first);
    words(body, map);
    if !more.is_empty() {
        let mut inside = Html::new();
        inside.cards(&more);
        let names = format!("The same of {}", count(map.contenders.len() - 1, "other"));
        body.details(first.is_empty(), &names, &"".into(), &inside);
    }
}

fn words(body: &mut Html, map: &Maps<'_>) {
    let cells = map.against();
    let Some(mean) = geometric_mean(cells.iter().map(|cell| cell.2.ratio)) else {
        return;
    };
    let trailing = cells.iter().filter(|cell| cell.2.high < TRAILING).count();
    let tail = match trailing {
        0 => format!("no cell is below {TRAILING} beyond its interval"),
        1 => format!("1 cell is below {TRAILING} beyond its interval"),
        many => format!("{many} cells are below {TRAILING} beyond their intervals"),
    };
    body.paragraph(&format!(
        "Over {} cells the geometric mean is {mean:.2} of the best rival of each cell ({}); {tail}.",
        cells.len(),
        map.rivals.join(", ")
    ));
    let sizes: Vec<String> = map.sizes.iter().map(|it| size(*it as f64)).collect();
    let mut columns = vec![("in flight", Set::Number)];
    columns.extend(sizes.iter().map(|name| (&**name, Set::Number)));
    let mut table = Table::new(
        "Ours over the best rival of the cell, more is better",
        &columns,
    );
    for depth in &map.depths {
        let mut line: Vec<Cell> = vec![depth.to_string().into()];
        for size in &map.sizes {
            let cell = cells.iter().find(|cell| cell.0 == (*size, *depth));
            line.push(match cell {
                Some((_, name, it)) => Cell::of(
                    format!("{:.2} {name}", it.ratio),
                    match it.standing() {
                        Standing::Ahead => "ahead",
                        Standing::Level => "",
                        Standing::Behind => "behind",
                    },
                ),
                None => "–".into(),
            });
        }
        table.row("", line);
    }
    body.table(&table);
}

/// The map that stands for all: bandwidth of ours in the first group of the rows.
#[must_use]
pub fn picture(rows: &[Row]) -> Option<Svg> {
    let cases = cases(rows);
    let maps = collect(&cases);
    let fullest = maps
        .iter()
        .filter(|map| map.contenders.contains(&"millstream"))
        // Of several the last is taken, which is to be the first.
        .rev()
        .max_by_key(|map| map.sizes.len() * map.depths.len())?;
    let metric = fullest.quantities().into_iter().next()?;
    Some(heat::draw(&fullest.heat("millstream", &metric)))
}
