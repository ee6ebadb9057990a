//! The report of a benchmark: a run as a page, and as text for a terminal.
//!
//! First the summary (ours over the best rival, a dot per case; the goals), then each workload with
//! maps and every case beside the study's figures, then the machine and notes on reading the page.
//! It is made from rows alone and accepts any rows.

use serde::{Deserialize, Serialize};

use crate::cases;
use crate::markup::figure;
use crate::page::{self, Cell, Html, Table};
use crate::rows::Row;

mod detail;
pub mod maps;
pub mod summary;

pub use detail::{Published, Study};

/// A goal and its verdict, as the benchmark judged it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// The content of a report.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// All rows.
    pub rows: Vec<Row>,
    /// The goals.
    pub goals: Vec<Goal>,
    /// The studies' figures, if there are any.
    pub study: Option<Study>,
    /// The studies' tables without figures of ours.
    pub published: Vec<Published>,
    /// Reasons not to trust the rest: wrong bytes, failures of our contenders.
    pub failures: Vec<String>,
    /// The machine, versions, the load before and after: names and values.
    pub facts: Vec<(String, String)>,
}

/// Renders the report as an HTML page.
#[must_use]
pub fn page(run: &Run) -> String {
    let cases = cases::cases(&run.rows);
    let mut body = Html::default();
    failures(&mut body, run);
    body.section("summary", "Summary");
    summary::write(&mut body, &cases, &run.goals);
    if !run.goals.is_empty() {
        goals(&mut body, &run.goals);
    }
    for group in cases.chunk_by(|a, b| a.workload == b.workload) {
        let name = group[0].workload;
        body.section(&format!("w-{name}"), name);
        for table in run.published.iter().filter(|it| it.workload == name) {
            detail::published(&mut body, table);
        }
        detail::workload(&mut body, group, run.study);
    }
    if !run.facts.is_empty() {
        body.section("machine", "Machine and versions");
        body.terms(&run.facts);
    }
    how_to_read(&mut body);
    page::render("Millstream: benchmark", &body, "", None)
}

/// Renders the tables of a run in Markdown, the machine's `facts` next to last; empty if no rows.
#[must_use]
pub fn text(run: &Run, facts: &Table) -> String {
    let cases = cases::cases(&run.rows);
    let (maps, plain) = maps::split(&cases);
    let mut text = String::new();
    for case in plain {
        text += &format!("{}: {}\n", case.workload, case.name);
        if let Some(metric) = case.primary() {
            text += &detail::figures(case, metric, run.study, false).text();
        }
        for (contender, why) in &case.skipped {
            text += &format!("  {contender} skipped: {why}\n");
        }
        text += "\n";
    }
    for map in &maps {
        if let Some((words, table)) = maps::words(map) {
            text += &format!("{}\n{words}\n{}\n", map.name, table.text());
        }
    }
    if !run.goals.is_empty() {
        let reached = run.goals.iter().filter(|goal| goal.reached).count();
        let table = goals_table("", run.goals.iter());
        text += &format!("goals: {reached} of {} reached\n", run.goals.len());
        text += &format!("{}\n", table.text());
    }
    for failure in &run.failures {
        text += &format!("FAILED: {failure}\n");
    }
    for table in [
        facts,
        &summary::workloads(&summary::lines(&cases), &run.goals),
    ] {
        if !table.is_empty() {
            text += &format!("{}\n", table.text());
        }
    }
    text
}

fn failures(body: &mut Html, run: &Run) {
    if run.failures.is_empty() {
        return;
    }
    body.paragraph(
        "missed",
        "Something failed in this run; do not trust its figures.",
    );
    body.list(&run.failures);
}

fn goals(body: &mut Html, goals: &[Goal]) {
    let reached = goals.iter().filter(|goal| goal.reached).count();
    body.section("goals", "Goals");
    body.paragraph(
        "",
        &format!(
            "{reached} of {} reached. A verdict within noise could come out the other way in \
             another run: the interval of the figure over the runs holds the bound.",
            goals.len()
        ),
    );
    for (reached, heading) in [(false, "Missed"), (true, "Reached")] {
        let these = goals.iter().filter(|goal| goal.reached == reached);
        let heading = format!("{heading}: {}", these.clone().count());
        let table = goals_table(&heading, these);
        if !table.is_empty() {
            body.folded(&heading, &table);
        }
    }
}

fn goals_table<'g>(caption: &str, goals: impl Iterator<Item = &'g Goal>) -> Table {
    let mut table = Table::new(caption, "case | ours | ~what | >goal | >here | ~");
    for goal in goals {
        let class = match goal.within_noise {
            true => "doubt",
            false => goal.word(),
        };
        let cells = vec![
            format!("{}: {}", goal.workload, goal.case).into(),
            goal.contender.clone().into(),
            goal.what.clone().into(),
            goal.bound.clone().into(),
            figure(goal.value).into(),
            Cell::of(goal.word(), class),
        ];
        table.row("", cells);
    }
    table
}

fn how_to_read(body: &mut Html) {
    body.section("reading", "How to read this");
    body.list([
        "A figure is the median of the runs; the contenders took turns (A B C, A B C, …), so that \
         what the machine did meanwhile met all of them.",
        "An interval is the 95 % interval of the mean. Green is said only where ours leads though \
         both intervals are put at their worst; red where it trails so. Everything else is level.",
        "A figure is called rough when its interval is more than 10 % of it to either side, and \
         meaningless when it is more than 30 %.",
        "A limit is the least that the device, the kernel or memory demand, measured in the same \
         run. References, such as a bare copy, do less than the whole work and are no rivals.",
        "Cold and warm never mix. Every result's bytes were compared with a hash.",
        "Heat maps: the best cell is full, the paler the further from it; outlined are the cells \
         within 20 % of the best.",
    ]);
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
    fn a_table_has_so_many_metrics_and_counts_the_others() {
        let row = |n: usize| named(rate("a", &format!("c{n}")), &format!("m{n}"));
        let page = small_page((0..2000).map(row).collect(), 2000);
        assert!(page.contains(">m31 MB/s<") && !page.contains(">m32 MB/s<"));
        assert!(page.contains("1,968 metrics more"));
        assert!(page.contains(">c1999<"));
    }

    #[test]
    fn a_map_is_drawn_of_contenders_that_have_some_of_it() {
        let cell = |n: u32, who| rate(&format!("a {}K depth {}", n % 24 + 1, n / 24 + 1), who);
        let cells = (0..576).flat_map(|n| [cell(n, "millstream"), cell(n, "ring")]);
        let others = (0..2000).map(|n| rate("a 1K depth 1", &format!("c{n}")));
        let metrics = (0..2000).map(|n| named(cell(0, "millstream"), &format!("m{n}")));
        let page = small_page(cells.chain(others).chain(metrics).collect(), 1500);
        assert_eq!(page.matches("best 5.00 MB/s").count(), 2);
        assert!(page.contains("The same of 1 of 2,001 others"));
    }

    #[test]
    fn sizes_of_a_map_have_names_of_their_own() {
        let cases = [
            "64K depth 1",
            "65500 depth 1",
            "65500 depth 2",
            "1M depth 1",
        ];
        let page = small_page(cases.map(|case| rate(case, "millstream")).into(), 4000);
        for name in [">65536<", ">65500<", ">1M<"] {
            assert!(page.contains(name), "{name}");
        }
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
