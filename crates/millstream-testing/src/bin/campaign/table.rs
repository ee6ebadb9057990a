//! The results of a campaign, as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use crate::turn::Ran;

/// Number of last output lines that are shown.
const LINES_SHOWN: usize = 30;

/// A part's row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    pub(crate) turns: u64,
    pub(crate) executions: u64,
    time: Duration,
    /// For each finding, the command line that repeats it.
    pub(crate) found: Vec<String>,
    skipped: BTreeSet<String>,
}

impl Row {
    pub(crate) fn new(name: &'static str) -> Row {
        Row {
            name,
            turns: 0,
            executions: 0,
            time: Duration::ZERO,
            found: Vec::new(),
            skipped: BTreeSet::new(),
        }
    }

    /// Adds a turn. A finding is printed at once: a campaign may not run to its end.
    pub(crate) fn add(&mut self, ran: &Ran, executions: u64) {
        self.turns += 1;
        self.executions += executions;
        self.time += ran.time;
        let skips = ran
            .output
            .lines()
            .filter_map(|line| line.split_once("SKIP: "));
        self.skipped
            .extend(skips.map(|(_, reason)| reason.to_owned()));
        if ran.passed {
            return;
        }
        let lines: Vec<&str> = ran.output.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
        println!(
            "{}: FOUND ({})\n{last}\nagain: {}",
            self.name, ran.how, ran.line
        );
        self.found.push(ran.line.clone());
    }
}

/// Returns the table, the command lines that repeat findings, and what could not run.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<12}{:>14}{:>8}{:>10}\n",
        "what", "executions", "found", "seconds"
    );
    for row in rows {
        let (found, seconds) = (row.found.len(), row.time.as_secs());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:<12}{:>14}{found:>8}{seconds:>10}",
            row.name, row.executions
        );
    }
    for row in rows {
        for line in &row.found {
            let _ = writeln!(text, "{}: again: {line}", row.name);
        }
        for reason in &row.skipped {
            let _ = writeln!(text, "{}: SKIP: {reason}", row.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_was_found_and_what_repeats_it() {
        let mut row = Row::new("soak");
        let ran = |passed, output: &str| Ran {
            passed,
            how: String::from("exit status: 1"),
            output: output.to_owned(),
            line: String::from("SEED=7 cargo test"),
            time: Duration::from_secs(2),
        };
        row.add(&ran(true, "SKIP: no root\nfine"), 10);
        assert!(row.found.is_empty());
        row.add(&ran(false, "panicked"), 5);
        let text = text(&[row]);
        assert!(
            text.contains("soak                    15       1         4\n"),
            "{text}"
        );
        assert!(text.contains("soak: again: SEED=7 cargo test\n"), "{text}");
        assert!(text.contains("soak: SKIP: no root\n"), "{text}");
    }
}
