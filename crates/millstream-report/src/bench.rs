//! The report of a benchmark: a run as a page.
//!
//! First the answer (ours over the best rival, a dot a case; the goals), then each workload with
//! the study's figures beside ours, maps, curves and every case, then the machine, who was skipped
//! and how to read it all. It is made of rows alone and works with whatever rows there are.

use serde::Deserialize;

use crate::cases::{self, Case};
use crate::page::{self, Cell, Html, Set, Table};
use crate::record::{self, Version};
use crate::rows::Row;

mod detail;
pub mod maps;
pub mod summary;

/// A goal and how it stands, as the benchmark judged it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Goal {
    /// Workload of the rows.
    pub workload: String,
    /// Case of the rows.
    pub case: String,
    /// Our contender.
    pub contender: String,
    /// What is judged, in words.
    pub what: String,
    /// What it should be, as text.
    pub bound: String,
    /// What it is.
    pub value: f64,
    /// Whether that is enough.
    pub reached: bool,
    /// Whether another run could come out the other way.
    pub within_noise: bool,
}

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

/// What a report tells.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Every figure.
    pub rows: Vec<Row>,
    /// The goals.
    pub goals: Vec<Goal>,
    /// The studies' figures.
    pub studies: Vec<Study>,
    /// The studies' tables that stand alone.
    pub published: Vec<Published>,
    /// Reasons not to trust the rest: wrong bytes, failures of our own.
    pub failures: Vec<String>,
    /// The machine, versions, the load before and after: names and values.
    pub facts: Vec<(String, String)>,
    /// Earlier runs on this machine, the oldest first.
    pub history: Vec<Version>,
}

/// What a workload is, in a sentence.
const WORKLOADS: [(&str, &str); 8] = [
    ("read", "One big file into memory, as fast as possible."),
    ("requests", "Many small requests, batched."),
    (
        "startup",
        "Thousands of small files before the first frame.",
    ),
    ("scenes", "glTF scenes, every image decoded."),
    ("packages", "Packages beside loose files."),
    ("codecs", "Decoding and encoding in memory."),
    ("pnm", "Text images parsed at the speed of the disk."),
    (
        "streams",
        "Fields and objects through streams, and objects used in place.",
    ),
];

/// The whole page.
#[must_use]
pub fn page(run: &Run) -> String {
    let cases = cases::cases(&run.rows);
    let mut body = Html::new();
    let mut sections = vec![("summary".to_owned(), "Summary".to_owned())];
    failures(&mut body, run);
    body.section("summary", "Summary");
    summary::write(&mut body, &cases);
    if !run.goals.is_empty() {
        sections.push(("goals".into(), "Goals".into()));
        goals(&mut body, &run.goals);
    }
    for group in cases.chunk_by(|a, b| a.workload == b.workload) {
        let name = group[0].workload;
        let id = format!("w-{name}");
        body.section(&id, name);
        if let Some((_, what)) = WORKLOADS.iter().find(|(known, _)| *known == name) {
            body.paragraph_of("soft", what);
        }
        for table in run.published.iter().filter(|it| it.workload == name) {
            detail::published(&mut body, table);
        }
        detail::workload(&mut body, group, &run.studies);
        sections.push((id, name.to_owned()));
    }
    if !run.history.is_empty() {
        sections.push(("record".into(), "Record".into()));
        body.section("record", "Over versions");
        record::write(&mut body, &run.history);
    }
    skipped(&mut body, &cases, &mut sections);
    if !run.facts.is_empty() {
        sections.push(("machine".into(), "Machine".into()));
        body.section("machine", "Machine and versions");
        body.terms(&run.facts);
    }
    versions(&mut body, &run.rows);
    sections.push(("reading".into(), "How to read".into()));
    how_to_read(&mut body);
    page::render("Millstream: benchmark", &body, &sections, "", None)
}

fn failures(body: &mut Html, run: &Run) {
    if run.failures.is_empty() {
        return;
    }
    body.paragraph_of(
        "missed",
        "Something failed in this run; do not trust its figures.",
    );
    body.list(&run.failures);
}

fn goals(body: &mut Html, goals: &[Goal]) {
    let reached = goals.iter().filter(|goal| goal.reached).count();
    body.section("goals", "Goals");
    body.paragraph(&format!(
        "{reached} of {} reached. A verdict within noise could come out the other way in another \
         run: the interval of the figure over the runs holds the bound.",
        goals.len()
    ));
    let columns = [
        ("case", Set::Name),
        ("ours", Set::Name),
        ("what", Set::Words),
        ("goal", Set::Number),
        ("here", Set::Number),
        ("", Set::Words),
    ];
    for (missed, heading) in [(true, "Missed"), (false, "Reached")] {
        let mut table = Table::new(heading, &columns);
        let these: Vec<&Goal> = goals.iter().filter(|goal| goal.reached != missed).collect();
        for goal in &these {
            let (word, class) = match (goal.reached, goal.within_noise) {
                (true, false) => ("reached", "reached"),
                (true, true) => ("reached, within noise", "doubt"),
                (false, false) => ("missed", "missed"),
                (false, true) => ("missed, within noise", "doubt"),
            };
            table.row(
                "",
                vec![
                    format!("{}: {}", goal.workload, goal.case).into(),
                    goal.contender.clone().into(),
                    goal.what.clone().into(),
                    goal.bound.clone().into(),
                    crate::markup::figure(goal.value).into(),
                    Cell::of(word, class),
                ],
            );
        }
        if !table.is_empty() {
            let mut inside = Html::new();
            inside.table(&table);
            let heading = format!("{heading}: {}", these.len());
            body.details(false, &heading, &"".into(), &inside);
        }
    }
}

fn skipped(body: &mut Html, cases: &[Case<'_>], sections: &mut Vec<(String, String)>) {
    // A contender is often skipped for one reason in many cases.
    let mut reasons: Vec<((&str, &str), Vec<&Case<'_>>)> = Vec::new();
    for case in cases {
        for reason in case.skipped() {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, of)) => of.push(case),
                None => reasons.push((reason, vec![case])),
            }
        }
    }
    if reasons.is_empty() {
        return;
    }
    sections.push(("skipped".into(), "Skipped".into()));
    body.section("skipped", "Skipped");
    let columns = [
        ("contender", Set::Name),
        ("why", Set::Words),
        ("where", Set::Words),
    ];
    let mut table = Table::new("Who could not run here, and why", &columns);
    for ((contender, why), of) in reasons {
        let place = match of.as_slice() {
            [one] => format!("{}: {}", one.workload, one.name),
            [first, ..] => format!("{}: {} cases", first.workload, of.len()),
            [] => String::new(),
        };
        table.row("", vec![contender.into(), why.into(), place.into()]);
    }
    body.table(&table);
}

/// Versions of contenders, where rows tell them.
fn versions(body: &mut Html, rows: &[Row]) {
    let mut known: Vec<(String, String)> = Vec::new();
    for row in rows {
        let version = row.figures().and_then(|figures| figures.text("version"));
        let Some(version) = version else { continue };
        let pair = (row.contender.clone(), version.to_owned());
        if !known.contains(&pair) {
            known.push(pair);
        }
    }
    if !known.is_empty() {
        body.heading("Versions of rivals");
        body.terms(&known);
    }
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
    use crate::compare::tests::figures;
    use crate::rows::{Better, Finding};

    fn row(case: &str, contender: &str, median: f64, ci95: f64) -> Row {
        Row {
            workload: "requests".into(),
            case: case.into(),
            contender: contender.into(),
            finding: Finding::Figures(figures(Better::Higher, median, ci95)),
        }
    }

    fn run() -> Run {
        let mut rows = Vec::new();
        for size in ["4K", "64K"] {
            for depth in [1, 8] {
                let case = format!("direct {size} depth {depth}");
                rows.push(row(&case, "millstream", 120.0, 1.0));
                rows.push(row(&case, "ring<script>", 100.0, 1.0));
                rows.push(row(&case, "limit", 130.0, 200.0));
            }
        }
        rows.push(Row {
            workload: "requests".into(),
            case: "direct 4K depth 1".into(),
            contender: "tokio".into(),
            finding: Finding::Skipped("feature `peers` is off".into()),
        });
        Run {
            rows,
            goals: vec![Goal {
                workload: "requests".into(),
                case: "direct 4K depth 1".into(),
                contender: "millstream".into(),
                what: "rate over ring".into(),
                bound: ">= 1".into(),
                value: 1.2,
                reached: true,
                within_noise: false,
            }],
            studies: vec![Study {
                workload: "requests".into(),
                case: "direct 4K depth 1".into(),
                contender: "millstream".into(),
                figures: "47.8 / 48.8 / 48.5".into(),
            }],
            published: vec![Published {
                workload: "requests".into(),
                caption: "As published".into(),
                columns: vec!["scene".into(), "on, ms".into()],
                lines: vec![vec!["BoomBox".into(), "61.12".into()]],
            }],
            failures: vec!["wrong bytes".into()],
            facts: vec![("kernel".into(), "6.18 <b>".into())],
            history: Vec::new(),
        }
    }

    #[test]
    fn the_page_tells_all_there_is() {
        let page = page(&run());
        for part in [
            "1 of 1 reached",
            "47.8 / 48.8 / 48.5",
            "61.12",
            "feature `peers` is off",
            "6.18 &lt;b&gt;",
            "wrong bytes",
            "class=\"outline\"",
            "it means nothing",
            "class=\"good\"",
            "ring&lt;script&gt;",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(!page.contains("<script"));
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("NaN"));
    }

    #[test]
    fn a_run_of_nothing_is_a_page() {
        let page = page(&Run::default());
        assert!(page.contains("Nothing was measured") && page.ends_with("</html>\n"));
    }
}
