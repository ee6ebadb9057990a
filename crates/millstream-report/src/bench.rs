//! The report of a benchmark: a run as text for a terminal, and as a page.
//!
//! The text has a table for each case, with the study's figures beside ours, and for each map; then
//! the goals and a summary. The page has what is looked at (ours over the best rival, a dot per
//! case; heat maps), the machine, and the text. Both are made from rows alone and accept any rows.

use crate::cases::{Case, Comparison, Standing, Verdict, cases, compare, geometric_mean};
use crate::charts::{self, Ratios};
use crate::limits::CASE_METRICS_MAX;
use crate::maps::{self, Map};
use crate::markup::figure;
use crate::page::{self, Html, Table};
use crate::rows::{Figures, Row};
use crate::svg::Svg;

/// A goal and its verdict, as the benchmark judged it.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Workload of the rows.
    pub workload: String,
    /// Case of the rows.
    pub case: String,
    /// Our contender.
    pub contender: String,
    /// What is judged, in words.
    pub what: String,
    /// The required value, as text.
    pub bound: String,
    /// The measured value.
    pub value: f64,
    /// Whether the goal is reached.
    pub reached: bool,
    /// Whether another run could come out the other way.
    pub within_noise: bool,
}

impl Goal {
    /// Returns `reached` or `missed`, with doubt if another run could differ.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.reached, self.within_noise) {
            (true, false) => "reached",
            (true, true) => "reached, within noise",
            (false, false) => "missed",
            (false, true) => "missed, within noise",
        }
    }
}

/// Returns a published study's figures for a row, by its workload, case and contender.
pub type Study = fn(&str, &str, &str) -> Option<&'static str>;

/// The content of a report.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// All rows.
    pub rows: Vec<Row>,
    /// The goals.
    pub goals: Vec<Goal>,
    /// The studies' figures, if there are any.
    pub study: Option<Study>,
    /// Reasons not to trust the rest: wrong bytes, failures of our contenders.
    pub failures: Vec<String>,
    /// The machine, versions, the load before and after: names and values.
    pub facts: Vec<(String, String)>,
}

/// Renders the report as an HTML page.
#[must_use]
pub fn page(run: &Run) -> String {
    let cases = cases(&run.rows);
    let mut body = Html::default();
    for failure in &run.failures {
        body.paragraph("missed", &format!("Failed: {failure}"));
    }
    body.section("summary", "Millstream over the best rival");
    if cases.is_empty() {
        body.paragraph("", "Nothing was measured.");
    }
    body.pictures(ratios(&cases));
    body.table(&summary(&cases));
    if !run.goals.is_empty() {
        body.section("goals", "Goals");
        body.table(&goals_table(&run.goals));
    }
    let (maps, _) = maps::split(&cases);
    if !maps.is_empty() {
        body.section("maps", "Request size and depth");
        body.pictures(maps.iter().filter_map(Map::heat));
    }
    if !run.facts.is_empty() {
        body.section("machine", "Machine and versions");
        body.terms(&run.facts);
    }
    body.section("figures", "Figures");
    body.preformatted(&tables(&cases, run.study));
    page::render("Millstream: benchmark", &body, "", None)
}

/// Renders the tables of a run in Markdown; empty without rows.
#[must_use]
pub fn text(run: &Run) -> String {
    let cases = cases(&run.rows);
    let mut text = tables(&cases, run.study);
    if !run.goals.is_empty() {
        text += &format!("{}\n", goals_table(&run.goals).text());
    }
    for failure in &run.failures {
        text += &format!("FAILED: {failure}\n");
    }
    if !cases.is_empty() {
        text += &summary(&cases).text();
    }
    text
}

/// Returns the tables of all cases and maps as text.
fn tables(cases: &[Case<'_>], study: Option<Study>) -> String {
    let (maps, plain) = maps::split(cases);
    let mut text = String::new();
    for case in plain {
        text += &format!("{}: {}\n", case.workload, case.name);
        if let Some(metric) = case.primary() {
            text += &figures(case, metric, study).text();
        }
        for (contender, why) in &case.skipped {
            text += &format!("  {contender} skipped: {why}\n");
        }
        text += "\n";
    }
    text.extend(maps.iter().filter_map(Map::text));
    text
}

fn figures(case: &Case<'_>, primary: &Figures, study: Option<Study>) -> Table {
    let metrics = || case.metrics.iter().take(CASE_METRICS_MAX);
    let limit = case.figures("limit", &primary.metric);
    let of_study = |name: &str| study.and_then(|it| it(case.workload, case.name, name));
    let has_study = case.contenders.iter().any(|name| of_study(name).is_some());
    let mut table = Table::new("", "contender");
    for metric in metrics() {
        table.column(&format!(">{} {}", metric.metric, metric.unit));
        table.column(">least–most");
    }
    if limit.is_some() {
        table.column(">of limit");
    }
    if has_study {
        table.column("the study");
    }
    for contender in &case.contenders {
        let primary = case.figures(contender, &primary.metric);
        let mut line = vec![match primary.and_then(|it| it.text("is")) {
            Some(is) => format!("{contender} ({is})"),
            None => (*contender).to_owned(),
        }];
        for metric in metrics() {
            let it = case.figures(contender, &metric.metric);
            line.push(it.map_or(String::new(), |it| figure(it.median)));
            let ends = |it: &Figures| format!("{}–{}", figure(it.min), figure(it.max));
            line.push(it.map_or(String::new(), ends));
        }
        if let Some(limit) = limit {
            let ratio = primary.and_then(|figures| compare(figures, limit));
            line.push(ratio.map_or(String::new(), |it| format!("{:.2}", it.ratio)));
        }
        if has_study {
            line.push(of_study(contender).unwrap_or("").to_owned());
        }
        table.row(line);
    }
    table
}

fn goals_table(goals: &[Goal]) -> Table {
    let reached = goals.iter().filter(|goal| goal.reached).count();
    let caption = format!("goals: {reached} of {} reached", goals.len());
    let mut table = Table::new(&caption, "case | ours | what | >goal | >here | verdict");
    for goal in goals {
        table.row(vec![
            format!("{}: {}", goal.workload, goal.case),
            goal.contender.clone(),
            goal.what.clone(),
            goal.bound.clone(),
            figure(goal.value),
            goal.word().to_owned(),
        ]);
    }
    table
}

/// Draws ours over the best rival, a dot per case; `None` if nothing has a rival.
fn ratios(cases: &[Case<'_>]) -> Option<Svg> {
    let mut lines = Vec::new();
    for group in cases.chunk_by(|a, b| a.workload == b.workload) {
        let dots = group.iter().filter_map(|case| {
            let (name, comparison) = case.verdict()?.rival?;
            let (ratio, standing) = (comparison.ratio, comparison.standing());
            let tip = format!("{}: {ratio:.2} of {name} ({})", case.name, standing.word());
            Some((ratio, standing, tip))
        });
        lines.push(Ratios {
            label: group[0].workload,
            dots: dots.collect(),
        });
    }
    lines.retain(|line| !line.dots.is_empty());
    let heading = "Millstream over the best rival, case by case";
    (!lines.is_empty()).then(|| charts::ratios(heading, &lines))
}

/// Returns a row for each workload: geometric means over its cases, and how many cases lead, do
/// neither, trail.
fn summary(cases: &[Case<'_>]) -> Table {
    let columns = "workload | >over the best rival | >ahead | >level | >behind | >of the limit";
    let caption = "geometric means over the cases, more is better";
    let mut table = Table::new(caption, columns);
    for group in cases.chunk_by(|a, b| a.workload == b.workload) {
        let verdicts: Vec<Verdict<'_>> = group.iter().filter_map(Case::verdict).collect();
        if verdicts
            .iter()
            .all(|it| it.rival.is_none() && it.limit.is_none())
        {
            continue;
        }
        let mean = |of: fn(&Verdict<'_>) -> Option<Comparison>| {
            let ratios = verdicts.iter().filter_map(|it| Some(of(it)?.ratio));
            geometric_mean(ratios).map_or("–".into(), |mean| format!("{mean:.2}"))
        };
        let rival = |it: &Verdict<'_>| Some(it.rival?.1);
        let count = |standing| {
            let rivals = verdicts.iter().filter_map(rival);
            let of = rivals.filter(|it| it.standing() == standing);
            of.count().to_string()
        };
        table.row(vec![
            group[0].workload.to_owned(),
            mean(rival),
            count(Standing::Ahead),
            count(Standing::Level),
            count(Standing::Behind),
            mean(|it| it.limit),
        ]);
    }
    table
}

/// Renders what a README shows: the summary (ours over the best rival, a dot per case) and the
/// largest heat map as SVG files, where the rows have them, and the table in Markdown.
#[must_use]
pub fn readme(rows: &[Row]) -> ([Option<String>; 2], String) {
    let cases = cases(rows);
    let (maps, _) = maps::split(&cases);
    // `max_by_key` returns the last of several that are equal, hence the reversal.
    let largest = maps.iter().rev().max_by_key(|map| map.len());
    let pictures = [ratios(&cases), largest.and_then(Map::heat)];
    let pictures = pictures.map(|picture| picture.map(|it| it.standalone()));
    (pictures, summary(&cases).text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::{named, row};
    use crate::rows::{Better, Finding};

    fn rate(case: &str, contender: &str) -> Row {
        row(["requests", case, contender], Better::Higher, 5.0, 0.1)
    }

    /// Renders a page of rows, which may take `bytes_each` bytes for each beside its own text.
    fn small_page(rows: Vec<Row>, bytes_each: usize) -> String {
        let most = 16_384 + rows.len() * bytes_each;
        let run = Run {
            rows,
            ..Run::default()
        };
        let page = page(&run);
        assert!(page.len() < most, "{} bytes, most {most}", page.len());
        page
    }

    #[test]
    fn a_table_has_so_many_metrics() {
        let row = |n: usize| named(rate("a", &format!("c{n}")), &format!("m{n}"));
        let page = small_page((0..2000).map(row).collect(), 2000);
        assert!(page.contains(" m31 MB/s ") && !page.contains(" m32 MB/s "));
        assert!(page.contains("| c1999 "));
    }

    #[test]
    fn a_map_is_drawn_of_ours_alone() {
        let cell = |n: u32, who| rate(&format!("a {}K depth {}", n % 24 + 1, n / 24 + 1), who);
        let cells = (0..576).flat_map(|n| [cell(n, "millstream"), cell(n, "ring")]);
        let others = (0..2000).map(|n| rate("a 1K depth 1", &format!("c{n}")));
        let metrics = (0..2000).map(|n| named(cell(0, "millstream"), &format!("m{n}")));
        let page = small_page(cells.chain(others).chain(metrics).collect(), 1500);
        assert_eq!(page.matches("best 5.00 MB/s").count(), 1);
    }

    #[test]
    fn many_groups_metrics_and_reasons_take_one_pass() {
        let groups = (0..100_000).map(|n| rate(&format!("a{n}a 4K depth 1"), "millstream"));
        let metrics = (0..50_000).map(|n| named(rate("a", "millstream"), &format!("m{n}")));
        let skipped = (0..50_000).map(|n| {
            let skipped = format!("reason {n}");
            let mut row = rate("a", "other");
            row.finding = Finding::Skipped { skipped };
            row
        });
        small_page(groups.chain(metrics).chain(skipped).collect(), 1500);
    }
}
