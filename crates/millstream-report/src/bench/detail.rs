//! A workload in full: the study's figures beside ours, maps, curves, who was idle, every case.

use serde::Deserialize;

use crate::axes::{self, Family};
use crate::bench::maps;
use crate::cases::{Case, distinct};
use crate::chart::Whose;
use crate::chart::bar::{self, Bar};
use crate::chart::curve::{self, Curves, Series};
use crate::compare::{Standing, compare, spread};
use crate::markup::{figure, size};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::Figures;
use crate::svg::Svg;

/// A figure of a published study, to stand beside a row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Study {
    /// Workload of the row.
    pub workload: String,
    /// Case of the row.
    pub case: String,
    /// Contender of the row.
    pub contender: String,
    /// The study's own figures.
    pub figures: String,
}

/// A table of a study that no row of ours repeats, because its data or its system cannot be had
/// here: shown as it was published.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// Workload that it belongs to.
    pub workload: String,
    /// What it shows, and why there is nothing of ours in it.
    pub caption: String,
    /// Names of its columns; the first is that of the lines' names.
    pub columns: Vec<String>,
    /// Its lines, a text for each column.
    pub lines: Vec<Vec<String>>,
}

/// Cases that are open from the start.
const OPEN_CASES: usize = 2;

/// Writes one workload; all `cases` are of it.
pub(crate) fn workload(body: &mut Html, cases: &[Case<'_>], studies: &[Study]) {
    founding(body, cases, studies);
    let maps = maps::collect(cases);
    for map in &maps {
        maps::write(body, map);
    }
    let mapped = |case: &Case<'_>| {
        let mut cells = case.rows.iter().filter_map(|row| axes::cell(row));
        cells.any(|cell| maps.iter().any(|map| map.name == cell.group))
    };
    let (cells, plain): (Vec<&Case<'_>>, Vec<&Case<'_>>) =
        cases.iter().partition(|case| mapped(case));
    cards(
        body,
        "How figures change with size",
        axes::families(&plain).iter().filter_map(curve_of),
    );
    let idle = ["device idle", "cores idle"];
    cards(
        body,
        "Stalls",
        idle.iter().filter_map(|metric| stalls(cases, metric)),
    );
    for (index, case) in plain.iter().enumerate() {
        one_case(body, case, studies, index < OPEN_CASES);
    }
    if !cells.is_empty() {
        let mut inside = Html::default();
        for case in &cells {
            one_case(&mut inside, case, studies, false);
        }
        let heading = format!("The {} cells of the maps, one by one", cells.len());
        body.details(false, &heading, &"".into(), &inside);
    }
}

/// The study's figures beside what the same method gives here.
fn founding(body: &mut Html, cases: &[Case<'_>], studies: &[Study]) {
    let columns = [
        ("case", Set::Name),
        ("method", Set::Name),
        ("here", Set::Number),
        ("", Set::Name),
        ("the study", Set::Words),
    ];
    let caption = "The study's own figures, on its machines, beside the same experiment here";
    let mut table = Table::new(caption, &columns);
    for (case, metric) in cases
        .iter()
        .filter_map(|case| Some((case, case.primary()?)))
    {
        for (contender, figures) in case.of_metric(&metric.metric) {
            if let Some(study) = study(studies, case, contender) {
                let line = vec![
                    case.name.into(),
                    contender.into(),
                    figure(figures.median).into(),
                    figures.unit.clone().into(),
                    study.into(),
                ];
                table.row(Whose::of(contender).class(), line);
            }
        }
    }
    if !table.is_empty() {
        body.heading("The founding table");
        body.table(&table);
    }
}

/// A study's table as it was published.
pub(crate) fn published(body: &mut Html, published: &Published) {
    let sets = std::iter::once(Set::Name).chain(std::iter::repeat(Set::Number));
    let columns = published.columns.iter().map(String::as_str).zip(sets);
    let mut table = Table::new(&*published.caption, &columns.collect::<Vec<_>>());
    for line in &published.lines {
        table.row("", line.iter().map(|text| text.clone().into()).collect());
    }
    body.table(&table);
}

fn study<'s>(studies: &'s [Study], case: &Case<'_>, contender: &str) -> Option<&'s str> {
    let of = |study: &&Study| {
        study.workload == case.workload && study.case == case.name && study.contender == contender
    };
    studies.iter().find(of).map(|study| &*study.figures)
}

/// Writes pictures under a heading, if there are any.
fn cards(body: &mut Html, heading: &str, pictures: impl Iterator<Item = Svg>) {
    let mut cards = Html::default();
    pictures.for_each(|picture| cards.figure(&picture, ""));
    if !cards.is_empty() {
        body.heading(heading);
        body.cards(&cards);
    }
}

fn curve_of(family: &Family<'_, '_>) -> Option<Svg> {
    let metric = family.places.iter().find_map(|(_, case)| case.primary())?;
    let points = |name: &str| {
        let points = family.places.iter().filter_map(|(x, case)| {
            let figures = case.figures(name, &metric.metric)?;
            (figures.unit == metric.unit).then_some((*x, figures.median))
        });
        points.collect()
    };
    let names = family.places.iter().flat_map(|(_, case)| case.contenders());
    let series = distinct(names, |name| *name)
        .into_iter()
        .map(|name| Series {
            label: name.to_owned(),
            whose: Whose::of(name),
            points: points(name),
        });
    let series: Vec<Series> = series.filter(|series| series.points.len() > 1).collect();
    (!series.is_empty()).then(|| {
        curve::draw(&Curves {
            heading: format!("{}: {}", family.name, metric.metric),
            across: "the number in the name".into(),
            up: metric.axis(),
            names: family.places.iter().map(|(x, _)| (*x, size(*x))).collect(),
            log_across: family.places.iter().all(|(x, _)| *x > 0.0),
            series,
        })
    })
}

/// Who was idle, where cases have it: shares of the load in which device or cores had nothing to
/// do though requests waited.
fn stalls(cases: &[Case<'_>], metric: &str) -> Option<Svg> {
    let bars = cases.iter().flat_map(|case| {
        let figures = case.of_metric(metric).into_iter();
        figures.map(|(name, it)| bar(format!("{}, {name}", case.name), name, it, Vec::new()))
    });
    let bars: Vec<Bar> = bars.collect();
    let note = "share of the load, less is better";
    (!bars.is_empty()).then(|| bar::draw(&format!("Stalls: {metric}"), note, &bars))
}

fn one_case(body: &mut Html, case: &Case<'_>, studies: &[Study], open: bool) {
    let mut inside = Html::default();
    if let Some(metric) = case.primary() {
        let picture = bar::draw(&metric.metric, &metric.axis(), &bars(case, metric));
        inside.figure(&picture, NOTE);
        figures(&mut inside, case, metric, studies);
    }
    let skipped = case.skipped();
    if !skipped.is_empty() {
        let lines = skipped
            .iter()
            .map(|(who, why)| format!("{who} skipped: {why}"));
        inside.list(lines);
    }
    body.details(open, case.name, &remark(case), &inside);
}

/// The case in a few words.
fn remark(case: &Case<'_>) -> Cell {
    let Some(verdict) = case.verdict() else {
        return Cell::default();
    };
    let figures = verdict.figures;
    let mut words = format!("{} {}", figure(figures.median), figures.unit);
    let mut class = "";
    if let Some((name, _, comparison)) = &verdict.rival {
        words.push_str(&format!(", {:.2} of {name}", comparison.ratio));
        class = comparison.standing().text();
        if comparison.standing() == Standing::Level {
            words.push_str(" (within the interval)");
        }
    }
    if let Some(limit) = &verdict.limit {
        words.push_str(&format!(", {:.2} of the limit", limit.ratio));
    }
    Cell::of(words, class)
}

/// What the shapes of a case's picture mean.
const NOTE: &str = "Bar or upper dot: median; whisker: 95 % interval of the mean; line below: \
                    least to greatest run, with dots at quantiles of the requests.";

/// Quantiles as metrics of their own, or as parameters.
const QUANTILES: [&str; 4] = ["p50", "p90", "p99", "p999"];

fn bars(case: &Case<'_>, metric: &Figures) -> Vec<Bar> {
    let quantile = |name: &str, figures: &Figures, quantile: &str| {
        let of_requests = metric.metric == "p50" && quantile != "p50";
        let by_row = || Some(case.figures(name, quantile)?.median);
        figures
            .number(quantile)
            .or_else(|| of_requests.then(by_row)?)
    };
    let bar = |(name, figures): (&str, &Figures)| {
        let marks = QUANTILES.iter().filter_map(|it| {
            let value = quantile(name, figures, it)?;
            Some(((*it).to_owned(), value))
        });
        bar(name.to_owned(), name, figures, marks.collect())
    };
    case.of_metric(&metric.metric)
        .into_iter()
        .map(bar)
        .collect()
}

fn bar(label: String, contender: &str, figures: &Figures, marks: Vec<(String, f64)>) -> Bar {
    Bar {
        label,
        whose: Whose::of(contender),
        value: figures.median,
        ends: (figures.min, figures.max),
        interval: figures.interval(),
        marks,
    }
}

fn figures(body: &mut Html, case: &Case<'_>, primary: &Figures, studies: &[Study]) {
    let metrics = case.metrics();
    let contenders = case.contenders();
    let limit = case.figures("limit", &primary.metric);
    let has_study = contenders
        .iter()
        .any(|name| study(studies, case, name).is_some());
    let names: Vec<String> = metrics
        .iter()
        .map(|it| format!("{} {}", it.metric, it.unit))
        .collect();
    let mut columns = vec![("contender", Set::Name)];
    for name in &names {
        columns.extend([(&**name, Set::Number), ("least–most", Set::Number)]);
    }
    columns.extend(limit.map(|_| ("of limit", Set::Number)));
    columns.extend(has_study.then_some(("the study", Set::Words)));
    columns.extend([("spread", Set::Words), ("set up", Set::Words)]);
    let mut table = Table::new(format!("{}: {}", case.workload, case.name), &columns);
    for contender in contenders {
        let mut line: Vec<Cell> = vec![case.label(contender).into()];
        for metric in &metrics {
            line.extend(figure_cells(case.figures(contender, &metric.metric)));
        }
        let figures = case.figures(contender, &primary.metric);
        if let Some(limit) = limit {
            let ratio = figures.and_then(|figures| compare(figures, limit));
            line.push(ratio.map_or("".into(), |it| format!("{:.2}", it.ratio).into()));
        }
        if has_study {
            line.push(study(studies, case, contender).unwrap_or("").into());
        }
        line.push(figures.map_or(Cell::default(), spread));
        line.push(figures.map_or(Cell::default(), |it| set_up(it).into()));
        table.row(Whose::of(contender).class(), line);
    }
    body.table(&table);
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
