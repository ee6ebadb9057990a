//! Rows as tables for a terminal: one table a case, a line a contender.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use millstream_report::bench::Goal;
use millstream_report::rows::{Better, Figures, Row};
use millstream_report::{distinct, figure};

use crate::stats;
use crate::study;

/// An empty table.
pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The rows of one case, and its goals.
pub(crate) fn case(rows: &[Row], goals: &[Goal]) -> String {
    let (workload, name) = (&rows[0].workload, &rows[0].case);
    let figures = rows.iter().filter_map(Row::figures);
    let metrics = distinct(figures.map(|it| (&*it.metric, &*it.unit)), |it| *it);
    let (sound, skipped): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.figures().is_some());
    let find = |who: &str, (metric, unit): (&str, &str)| {
        let mut figures = sound.iter().filter(|row| row.contender == who);
        figures.find_map(|row| {
            row.figures()
                .filter(|it| it.metric == metric && it.unit == unit)
        })
    };
    let limit = metrics.first().and_then(|metric| find("limit", *metric));
    let beside = |who: &str| study::beside(workload, name, who);
    let has_study = rows.iter().any(|row| beside(&row.contender).is_some());
    let mut table = new_table();
    let mut header = vec!["contender".to_owned()];
    for (metric, unit) in &metrics {
        header.extend([format!("{metric} {unit}"), "min-max".into()]);
    }
    header.extend(limit.map(|_| "of limit".into()));
    header.extend(has_study.then(|| "the study".into()));
    table.set_header(header);
    for who in distinct(sound.iter().map(|row| &*row.contender), |it| *it) {
        let mut line = vec![match limit.and_then(|limit| limit.text("is")) {
            Some(is) if who == "limit" => format!("limit ({is})"),
            _ => who.to_owned(),
        }];
        for metric in &metrics {
            line.extend(find(who, *metric).map_or_else(Default::default, cells));
        }
        if let Some(limit) = limit {
            let ours = find(who, metrics[0]);
            line.push(ours.map_or(String::new(), |ours| part_of(ours, limit, who == "limit")));
        }
        line.extend(has_study.then(|| beside(who).unwrap_or_default().to_owned()));
        table.add_row(line);
    }
    for index in 1..=metrics.len() * 2 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{workload}: {name}\n{table}\n");
    for row in skipped {
        if let millstream_report::rows::Finding::Skipped { skipped } = &row.finding {
            text += &format!("  {} skipped: {skipped}\n", row.contender);
        }
    }
    let here = |goal: &&Goal| goal.workload == *workload && goal.case == *name;
    for goal in goals.iter().filter(here) {
        let (value, bound, word) = (figure(goal.value), &goal.bound, goal.word());
        text += &format!(
            "  goal: {} {}: {value} ({bound}): {word}\n",
            goal.contender, goal.what
        );
    }
    text + "\n"
}

/// Median and range.
fn cells(figures: &Figures) -> [String; 2] {
    let range = format!("{}-{}", figure(figures.min), figure(figures.max));
    [figure(figures.median), range]
}

/// How near to the limit, as goodness: 1 is the limit, less is worse.
fn part_of(ours: &Figures, limit: &Figures, is_limit: bool) -> String {
    let (better, worse) = match ours.better {
        Better::Higher => (ours, limit),
        Better::Lower => (limit, ours),
    };
    match stats::compare(&better.samples, &worse.samples) {
        Some(it) if !is_limit && it.within_noise(1.0) => {
            format!("{:.2} (within noise)", it.value)
        }
        Some(it) => format!("{:.2}", it.value),
        None => String::new(),
    }
}

/// All goals, and how they stand.
pub(crate) fn goals(goals: &[Goal]) -> String {
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
            goal.bound.clone(),
            figure(goal.value),
            goal.word().to_owned(),
        ]);
    }
    let reached = goals.iter().filter(|goal| goal.reached).count();
    format!("goals: {reached} of {} reached\n{table}\n", goals.len())
}
