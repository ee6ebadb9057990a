//! A workload in full: its maps, and every case with the study's figures beside ours.

use serde::Deserialize;

use crate::bench::maps;
use crate::cases::Case;
use crate::compare::{Standing, compare, spread};
use crate::limits::CASE_METRICS_MAX;
use crate::markup::{count, figure};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::{Figures, is_ours};

/// Returns a published study's figures for a row, by its workload, case and contender.
pub type Study = fn(&str, &str, &str) -> Option<&'static str>;

/// A study's table without rows of ours, because its data or its system is not available here:
/// shown as published.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// Workload it belongs to.
    pub workload: String,
    /// What it shows, and why it has no figures of ours.
    pub caption: String,
    /// Names of its columns; the first one is for the names of the lines.
    pub columns: Vec<String>,
    /// Its lines, with a text for each column.
    pub lines: Vec<Vec<String>>,
}

/// Number of cases that are open from the start.
const OPEN_CASES: usize = 2;

/// Writes one workload; all `cases` are of it.
pub(crate) fn workload(body: &mut Html, cases: &[Case<'_>], study: Option<Study>) {
    let (maps, plain) = maps::split(cases);
    for map in &maps {
        maps::write(body, map);
    }
    for (index, case) in plain.iter().enumerate() {
        one_case(body, case, study, index < OPEN_CASES);
    }
    if !maps.is_empty() {
        let mut inside = Html::default();
        for case in maps.iter().flat_map(|map| &map.cells) {
            one_case(&mut inside, case, study, false);
        }
        let number = cases.len() - plain.len();
        let heading = format!("The {number} cells of the maps, one by one");
        body.details(false, &heading, &"".into(), &inside);
    }
}

/// Adds a study's table as it was published.
pub(crate) fn published(body: &mut Html, published: &Published) {
    let mut table = Table::new(&*published.caption, "");
    for name in published.columns.iter().skip(1) {
        table.column(name, Set::Number);
    }
    for line in &published.lines {
        table.row("", line.iter().map(|text| text.clone().into()).collect());
    }
    body.table(&table);
}

fn one_case(body: &mut Html, case: &Case<'_>, study: Option<Study>, open: bool) {
    let mut inside = Html::default();
    if let Some(metric) = case.primary() {
        inside.table(&figures(case, metric, study, true));
    }
    if !case.skipped.is_empty() {
        let lines = case
            .skipped
            .iter()
            .map(|(who, why)| format!("{who} skipped: {why}"));
        inside.list(lines);
    }
    body.details(open, case.name, &remark(case), &inside);
}

/// Summarizes a case in a few words.
fn remark(case: &Case<'_>) -> Cell {
    let Some(verdict) = case.verdict() else {
        return Cell::default();
    };
    let figures = verdict.figures;
    let mut words = format!("{} {}", figure(figures.median), figures.unit);
    let mut class = "";
    if let Some((name, comparison)) = &verdict.rival {
        words.push_str(&format!(", {:.2} of {name}", comparison.ratio));
        class = comparison.standing().class();
        if comparison.standing() == Standing::Level {
            words.push_str(" (within the interval)");
        }
    }
    if let Some(limit) = &verdict.limit {
        words.push_str(&format!(", {:.2} of the limit", limit.ratio));
    }
    Cell::of(words, class)
}

/// Returns the table of a case's figures; `full` adds their spread and the contenders' parameters.
pub(crate) fn figures(
    case: &Case<'_>,
    primary: &Figures,
    study: Option<Study>,
    full: bool,
) -> Table {
    let (metrics, others) = case
        .metrics
        .split_at(case.metrics.len().min(CASE_METRICS_MAX));
    let limit = case.figures("limit", &primary.metric);
    let of_study = |name: &str| study.and_then(|it| it(case.workload, case.name, name));
    let has_study = case.contenders.iter().any(|name| of_study(name).is_some());
    let more = match others.len() {
        0 => String::new(),
        more => format!(" ({} more)", count(more, "metric")),
    };
    let caption = format!("{}: {}{more}", case.workload, case.name);
    let mut table = Table::new(caption, "contender");
    for metric in metrics {
        let name = format!("{} {}", metric.metric, metric.unit);
        table.column(&name, Set::Number);
        table.column("least–most", Set::Number);
    }
    if limit.is_some() {
        table.column("of limit", Set::Number);
    }
    if has_study {
        table.column("the study", Set::Words);
    }
    if full {
        table.column("spread", Set::Words);
        table.column("set up", Set::Words);
    }
    for contender in &case.contenders {
        let mut line: Vec<Cell> = vec![case.label(contender).into()];
        for metric in metrics {
            line.extend(figure_cells(case.figures(contender, &metric.metric)));
        }
        let figures = case.figures(contender, &primary.metric);
        if let Some(limit) = limit {
            let ratio = figures.and_then(|figures| compare(figures, limit));
            line.push(ratio.map_or("".into(), |it| format!("{:.2}", it.ratio).into()));
        }
        if has_study {
            line.push(of_study(contender).unwrap_or("").into());
        }
        line.push(figures.map_or(Cell::default(), spread));
        line.push(figures.map_or(Cell::default(), |it| set_up(it).into()));
        let class = match *contender {
            "limit" => "limit",
            name if is_ours(name) => "ours",
            _ => "",
        };
        table.row(class, line);
    }
    table
}

fn figure_cells(figures: Option<&Figures>) -> [Cell; 2] {
    figures.map_or_else(Default::default, |it| {
        let ends = format!("{}–{}", figure(it.min), figure(it.max));
        [figure(it.median).into(), ends.into()]
    })
}

fn set_up(figures: &Figures) -> String {
    let params = figures.params.iter().filter(|(name, _)| *name != "is");
    let parts = params.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name} {text}"),
        None => format!("{name} {value}"),
    });
    parts.collect::<Vec<String>>().join(", ")
}
