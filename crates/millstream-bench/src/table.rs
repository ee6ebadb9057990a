//! Rows as tables for a terminal: one table a case, a line a contender, then the goals.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::heat_map;
use crate::rows::{Better, Figures, Metric, Row};
use crate::stats;
use crate::study;
use crate::verdict::Verdict;

/// The whole report.
pub(crate) fn render(rows: &[Row], failures: &[String], goals: &[Verdict]) -> String {
    let mut text = String::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let same = |row: &&Row| row.workload == first.workload && row.case == first.case;
        let count = rest.iter().take_while(same).count();
        let (case, tail) = rest.split_at(count);
        if heat_map::is_map(first) {
            text.push_str(&heat_map::render(case, goals));
        } else {
            text.push_str(&case_table(case, goals));
        }
        rest = tail;
    }
    text.push_str(&goals_table(goals));
    for failure in failures {
        text.push_str(&format!("FAILED: {failure}\n"));
    }
    text
}

fn case_table(rows: &[Row], goals: &[Verdict]) -> String {
    let metrics = metrics_of(rows);
    let contenders = contenders_of(rows);
    let limit = metrics
        .first()
        .and_then(|metric| find(rows, "limit", *metric));
    let has_study = contenders
        .iter()
        .any(|name| study::beside(rows[0].workload, &rows[0].case, name).is_some());
    let mut table = new_table();
    let mut header = vec!["contender".to_owned()];
    for metric in &metrics {
        header.push(format!("{} {}", metric.name, metric.unit));
        header.push("min-max".into());
    }
    if limit.is_some() {
        header.push("of limit".into());
    }
    if has_study {
        header.push("the study".into());
    }
    table.set_header(header);
    for name in &contenders {
        let mut line = vec![label(rows, name)];
        if let Some(why) = skipped(rows, name) {
            line.push(format!("skipped: {why}"));
            table.add_row(line);
            continue;
        }
        for metric in &metrics {
            line.extend(figure_cells(find(rows, name, *metric)));
        }
        if let Some(limit) = limit {
            let ours = find(rows, name, metrics[0]);
            line.push(part_of_limit(ours, limit, *name == "limit"));
        }
        if has_study {
            let figures = study::beside(rows[0].workload, &rows[0].case, name);
            line.push(figures.unwrap_or_default().to_owned());
        }
        table.add_row(line);
    }
    for index in 1..=metrics.len() * 2 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{}: {}\n{table}\n", rows[0].workload, rows[0].case);
    let here = |goal: &&Verdict| goal.workload == rows[0].workload && goal.case == rows[0].case;
    for goal in goals.iter().filter(here) {
        text.push_str(&format!("  goal: {}\n", goal_line(goal)));
    }
    text.push('\n');
    text
}

fn goals_table(goals: &[Verdict]) -> String {
    if goals.is_empty() {
        return String::new();
    }
    let mut table = new_table();
    table.set_header(["case", "contender", "what", "goal", "here", ""]);
    for goal in goals {
        table.add_row([
            format!("{}: {}", goal.workload, goal.case),
            goal.contender.clone(),
            goal.what.clone(),
            goal.bound_text(),
            number(goal.value),
            goal.word().to_owned(),
        ]);
    }
    let reached = goals.iter().filter(|goal| goal.reached).count();
    format!("goals: {reached} of {} reached\n{table}\n", goals.len())
}

fn goal_line(goal: &Verdict) -> String {
    format!(
        "{} {}: {} ({}): {}",
        goal.contender,
        goal.what,
        number(goal.value),
        goal.bound_text(),
        goal.word()
    )
}

pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Metrics in the order of their first row.
fn metrics_of(rows: &[Row]) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for row in rows {
        if let Ok(figures) = &row.figures
            && !metrics.contains(&figures.metric)
        {
            metrics.push(figures.metric);
        }
    }
    metrics
}

/// Contenders in the order of their first row, those that were skipped last.
fn contenders_of(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&&*row.contender) {
            names.push(&row.contender);
        }
    }
    names.sort_by_key(|name| skipped(rows, name).is_some());
    names
}

/// The figures of a contender by a metric.
fn find<'a>(rows: &'a [Row], contender: &str, metric: Metric) -> Option<&'a Figures> {
    let rows = rows.iter().filter(|row| row.contender == contender);
    let mut figures = rows.filter_map(|row| row.figures.as_ref().ok());
    figures.find(|figures| figures.metric == metric)
}

/// The reason, if a contender has no figures at all.
fn skipped<'a>(rows: &'a [Row], contender: &str) -> Option<&'a str> {
    let mut rows = rows.iter().filter(|row| row.contender == contender);
    let why = rows.next()?.figures.as_ref().err()?;
    rows.all(|row| row.figures.is_err()).then_some(why)
}

/// The name; of `limit` also who it is.
fn label(rows: &[Row], contender: &str) -> String {
    let mut rows = rows.iter().filter(|row| row.contender == contender);
    let is = rows.find_map(|row| row.param("is"));
    match is.and_then(|value| value.as_str()) {
        Some(is) => format!("{contender} ({is})"),
        None => contender.to_owned(),
    }
}

/// Median and range.
fn figure_cells(figures: Option<&Figures>) -> [String; 2] {
    figures.map_or_else(Default::default, |figures| {
        let it = &figures.summary;
        let range = format!("{}-{}", number(it.min), number(it.max));
        [number(it.median), range]
    })
}

/// How near to the limit, as goodness: 1 is the limit, less is worse.
fn part_of_limit(ours: Option<&Figures>, limit: &Figures, is_limit: bool) -> String {
    let comparison = ours.and_then(|ours| {
        let (better, worse) = match ours.metric.better {
            Better::Higher => (ours, limit),
            Better::Lower => (limit, ours),
        };
        stats::compare(&better.samples, &worse.samples)
    });
    match comparison {
        Some(it) if !is_limit && it.within_noise(1.0) => {
            format!("{:.2} (within noise)", it.ratio)
        }
        Some(it) => format!("{:.2}", it.ratio),
        None => String::new(),
    }
}

/// A figure with three or four significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Params;

    const RATE: Metric = Metric::higher("rate", "MB/s");

    fn row(contender: &str, samples: &[f64]) -> Row {
        let case = "100MB cold stored";
        Row::figures(
            "read",
            case,
            contender,
            RATE,
            samples.to_vec(),
            Params::new(),
        )
    }

    #[test]
    fn a_case_shows_contenders_limit_study_goal_and_who_was_skipped() {
        let mut limit = row("limit", &[100.0, 101.0, 102.0]);
        if let Ok(figures) = &mut limit.figures {
            figures.params.insert("is".into(), "ring".into());
        }
        let rows = vec![
            row("stdio", &[50.0, 51.0, 52.0]),
            row("millstream", &[99.0, 100.2, 101.5]),
            limit,
            Row::skipped("read", "100MB cold stored", "async-8", "no io_uring"),
        ];
        let goals = crate::goals::judge(&rows);
        let text = render(&rows, &["something".into()], &goals);
        for part in [
            "read: 100MB cold stored",
            "limit (ring)",
            "47.847 / 48.828 / 48.527",
            "skipped: no io_uring",
            "0.50",
            "goals: 1 of 1 reached",
            "FAILED: something",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
