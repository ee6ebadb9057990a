//! A workload in full: the study's figures beside ours, maps, curves, who was idle, every case.

use crate::axes::{self, Family};
use crate::bench::{Published, Study, maps};
use crate::cases::Case;
use crate::chart::Whose;
use crate::chart::bar::{self, Bar};
use crate::chart::curve::{self, Curves, Series};
use crate::chart::range::{self, Range};
use crate::chart::share::{self, Shares};
use crate::compare::{Standing, compare, spread};
use crate::markup::{figure, size};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::{Better, Figures};

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
        let cells = case.rows.iter().filter_map(|row| axes::cell(row));
        let mut groups = cells.map(|cell| cell.group);
        groups.any(|group| maps.iter().any(|map| map.name() == group))
    };
    let (cells, plain): (Vec<&Case<'_>>, Vec<&Case<'_>>) =
        cases.iter().partition(|case| mapped(case));
    curves(body, &axes::families(&plain));
    stalls(body, cases);
    for (index, case) in plain.iter().enumerate() {
        one_case(body, case, studies, index < OPEN_CASES);
    }
    if !cells.is_empty() {
        let mut inside = Html::new();
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
    let mut table = Table::new(
        "The study's own figures, on its machines, beside the same experiment here",
        &columns,
    );
    for case in cases {
        let Some(metric) = case.primary() else {
            continue;
        };
        for contender in case.contenders() {
            let figures = case.figures(contender, &metric.metric);
            let study = study(studies, case, contender);
            if let (Some(figures), Some(study)) = (figures, study) {
                let class = Whose::of(contender).class();
                let line = vec![
                    case.name.into(),
                    contender.into(),
                    figure(figures.median).into(),
                    figures.unit.clone().into(),
                    study.into(),
                ];
                table.row(class, line);
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
    let columns: Vec<(&str, Set)> = published
        .columns
        .iter()
        .map(String::as_str)
        .zip(sets)
        .collect();
    let mut table = Table::new(&published.caption, &columns);
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

fn curves(body: &mut Html, families: &[Family<'_, '_>]) {
    let mut cards = Html::new();
    for family in families {
        if let Some(curves) = curve_of(family) {
            cards.figure(&curve::draw(&curves), "");
        }
    }
    if !cards.is_empty() {
        body.heading("How figures change with size");
        body.cards(&cards);
    }
}

fn curve_of(family: &Family<'_, '_>) -> Option<Curves> {
    let metric = family.places.iter().find_map(|(_, case)| case.primary())?;
    let mut names: Vec<&str> = Vec::new();
    for name in family.places.iter().flat_map(|(_, case)| case.contenders()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let series: Vec<Series> = names
        .iter()
        .map(|name| Series {
            label: (*name).to_owned(),
            whose: Whose::of(name),
            points: family
                .places
                .iter()
                .filter_map(|(x, case)| {
                    let figures = case.figures(name, &metric.metric)?;
                    (figures.unit == metric.unit).then_some((*x, figures.median))
                })
                .collect(),
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    let positive = family.places.iter().all(|(x, _)| *x > 0.0);
    (!series.is_empty()).then(|| Curves {
        heading: format!("{}: {}", family.name, metric.metric),
        across: "the number in the name".into(),
        up: axis(metric),
        names: family.places.iter().map(|(x, _)| (*x, size(*x))).collect(),
        log_across: positive,
        series,
    })
}

fn axis(metric: &Figures) -> String {
    let direction = match metric.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    };
    format!("{}, {direction}", metric.unit)
}

/// Who was idle, where cases tell: shares of the load in which device and cores had nothing to do.
fn stalls(body: &mut Html, cases: &[Case<'_>]) {
    const SIDES: [(&str, &str, &str); 2] = [
        (
            "device idle",
            "device",
            "device idle though requests waited",
        ),
        ("cores idle", "some", "decoding cores idle"),
    ];
    let mut cards = Html::new();
    for (metric, class, words) in SIDES {
        let mut bars = Vec::new();
        for case in cases {
            for contender in case.contenders() {
                if let Some(figures) = case.figures(contender, metric) {
                    bars.push(Shares {
                        label: format!("{}, {contender}", case.name),
                        parts: vec![(words.to_owned(), class, figures.median)],
                    });
                }
            }
        }
        if !bars.is_empty() {
            let heading = format!("Stalls: {metric}");
            cards.figure(&share::draw(&heading, "share of the load", &bars), "");
        }
    }
    if !cards.is_empty() {
        body.heading("Stalls");
        body.cards(&cards);
    }
}

fn one_case(body: &mut Html, case: &Case<'_>, studies: &[Study], open: bool) {
    let mut inside = Html::new();
    let mut cards = Html::new();
    if let Some(metric) = case.primary() {
        cards.figure(&bars(case, metric), "");
        cards.figure(&distribution(case, metric), "");
    }
    inside.cards(&cards);
    let table = figures(case, studies);
    if !table.is_empty() {
        inside.table(&table);
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
    let verdict = case
        .primary()
        .and_then(|metric| case.verdict(&metric.metric));
    let Some(verdict) = verdict else {
        return "".into();
    };
    let figures = verdict.figures;
    let mut words = format!("{} {}", figure(figures.median), figures.unit);
    let mut class = "";
    if let Some((name, comparison)) = &verdict.rival {
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

fn bars(case: &Case<'_>, metric: &Figures) -> crate::svg::Svg {
    let bars: Vec<Bar> = case
        .contenders()
        .into_iter()
        .filter_map(|name| {
            let figures = case.figures(name, &metric.metric)?;
            Some(Bar {
                label: name.to_owned(),
                value: figures.median,
                interval: figures.interval(),
                whose: Whose::of(name),
            })
        })
        .collect();
    bar::draw(&metric.metric, &axis(metric), &bars)
}

/// Quantiles as metrics of their own, or as parameters.
const QUANTILES: [&str; 4] = ["p50", "p90", "p99", "p999"];

/// The spread of a case's figures: over its runs, or over its requests where quantiles tell.
fn distribution(case: &Case<'_>, metric: &Figures) -> crate::svg::Svg {
    let of_requests = metric.metric == "p50";
    let ranges: Vec<Range> = case
        .contenders()
        .into_iter()
        .filter_map(|name| {
            let figures = case.figures(name, &metric.metric)?;
            let mut marks: Vec<(String, f64)> = QUANTILES
                .iter()
                .filter_map(|quantile| {
                    let by_param = figures.number(quantile);
                    let by_row = || case.figures(name, quantile).map(|it| it.median);
                    let value = by_param.or_else(|| of_requests.then(by_row)?)?;
                    Some(((*quantile).to_owned(), value))
                })
                .filter(|(quantile, _)| *quantile != metric.metric)
                .collect();
            if marks.is_empty() {
                marks.push(("mean".into(), figures.mean));
            }
            Some(Range {
                label: name.to_owned(),
                whose: Whose::of(name),
                ends: (figures.min, figures.max),
                interval: figures.interval(),
                median: figures.median,
                marks,
            })
        })
        .collect();
    let (heading, note) = match of_requests {
        true => (
            "Latency of a request",
            "stroke: p50, dot: p99, line: p50 least to greatest of the runs",
        ),
        false => (
            "Spread over the runs",
            "line: all runs, stroke: median, dot: mean, band: its 95 %",
        ),
    };
    range::draw(&format!("{heading}, {}", metric.unit), note, &ranges)
}

fn figures(case: &Case<'_>, studies: &[Study]) -> Table {
    let metrics = case.metrics();
    let primary = case.primary().map_or("", |figures| &*figures.metric);
    let names: Vec<String> = metrics
        .iter()
        .map(|figures| format!("{} {}", figures.metric, figures.unit))
        .collect();
    let has_limit = case.figures("limit", primary).is_some();
    let has_study = case
        .contenders()
        .iter()
        .any(|name| study(studies, case, name).is_some());
    let mut columns = vec![("contender", Set::Name)];
    for name in &names {
        columns.push((name, Set::Number));
        columns.push(("least–most", Set::Number));
    }
    columns.extend(has_limit.then_some(("of limit", Set::Number)));
    columns.extend(has_study.then_some(("the study", Set::Words)));
    columns.push(("spread", Set::Words));
    columns.push(("set up", Set::Words));
    let mut table = Table::new(&format!("{}: {}", case.workload, case.name), &columns);
    for contender in case.contenders() {
        let mut line: Vec<Cell> = vec![case.label(contender).into()];
        for metric in &metrics {
            line.extend(figure_cells(case.figures(contender, &metric.metric)));
        }
        let figures = case.figures(contender, primary);
        if has_limit {
            line.push(of_limit(case, figures));
        }
        if has_study {
            line.push(study(studies, case, contender).unwrap_or("").into());
        }
        line.push(spread_cell(figures));
        line.push(set_up(figures).into());
        table.row(Whose::of(contender).class(), line);
    }
    table
}

fn figure_cells(figures: Option<&Figures>) -> [Cell; 2] {
    match figures {
        Some(it) => [
            figure(it.median).into(),
            format!("{}–{}", figure(it.min), figure(it.max)).into(),
        ],
        None => ["".into(), "".into()],
    }
}

fn of_limit(case: &Case<'_>, figures: Option<&Figures>) -> Cell {
    let ratio = figures.and_then(|figures| {
        let limit = case.figures("limit", &figures.metric)?;
        compare(figures, limit)
    });
    ratio
        .map_or(String::new(), |it| format!("{:.2}", it.ratio))
        .into()
}

fn spread_cell(figures: Option<&Figures>) -> Cell {
    match figures.and_then(spread) {
        Some((words, true)) => Cell::of(words, "doubt"),
        Some((words, false)) => words.into(),
        None => "".into(),
    }
}

fn set_up(figures: Option<&Figures>) -> String {
    let Some(figures) = figures else {
        return String::new();
    };
    let parts: Vec<String> = figures
        .params
        .iter()
        .filter(|(name, _)| *name != "is")
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {value}"),
        })
        .collect();
    parts.join(", ")
}
