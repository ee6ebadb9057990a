//! A run as text for a terminal: the figures of each case, maps as ratios, the goals, and how each
//! workload stands.

use crate::bench::{Run, detail, goals_table, maps, summary};
use crate::cases::cases;
use crate::page::Table;

/// The tables of a run in Markdown, `facts` of the machine the last but one; nothing without rows.
#[must_use]
pub fn text(run: &Run, facts: &Table) -> String {
    let cases = cases(&run.rows);
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
