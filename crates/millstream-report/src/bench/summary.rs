//! The summary: ours over the best rival and relative to the limit, one line per workload.

use crate::bench::Goal;
use crate::cases::{Case, Verdict, cases};
use crate::chart::ratio::{self, Ratios, geometric_mean};
use crate::compare::{Comparison, Standing};
use crate::page::{Cell, Html, Set, Table};
use crate::rows::Row;
use crate::svg::Svg;

/// The verdicts of a workload's cases.
pub(crate) struct Line<'c, 'a> {
    workload: &'a str,
    verdicts: Vec<(&'c Case<'a>, Verdict<'a>)>,
}

impl Line<'_, '_> {
    fn count(&self, standing: Standing) -> usize {
        let rivals = self.verdicts.iter().filter_map(|(_, it)| it.rival);
        rivals
            .filter(|rival| rival.1.standing() == standing)
            .count()
    }

    fn mean(&self, of: fn(&Verdict<'_>) -> Option<Comparison>) -> String {
        let verdicts = self.verdicts.iter();
        let ratios = verdicts.filter_map(|(_, it)| Some(of(it)?.ratio));
        geometric_mean(ratios).map_or("–".into(), |mean| format!("{mean:.2}"))
    }
}

pub(crate) fn lines<'c, 'a>(cases: &'c [Case<'a>]) -> Vec<Line<'c, 'a>> {
    let groups = cases.chunk_by(|a, b| a.workload == b.workload);
    let line = |group: &'c [Case<'a>]| {
        let verdicts = group
            .iter()
            .filter_map(|case| Some((case, case.verdict()?)));
        let told = verdicts.filter(|(_, it)| it.rival.is_some() || it.limit.is_some());
        Line {
            workload: group[0].workload,
            verdicts: told.collect(),
        }
    };
    groups.map(line).collect()
}

/// Writes the summary.
pub(crate) fn write(body: &mut Html, cases: &[Case<'_>], goals: &[Goal]) {
    let lines = lines(cases);
    if lines.iter().all(|line| line.verdicts.is_empty()) {
        let words = match cases.is_empty() {
            true => "Nothing was measured.",
            false => "No case has both ours and a rival.",
        };
        body.paragraph("", words);
        return;
    }
    let sum = |standing| lines.iter().map(|line| line.count(standing)).sum::<usize>();
    body.paragraph(
        "lead",
        &format!(
            "Ours against the best rival of each case: {} ahead, {} within the interval, {} behind.",
            sum(Standing::Ahead),
            sum(Standing::Level),
            sum(Standing::Behind)
        ),
    );
    if let Some(picture) = draw(&lines) {
        body.figure(
            &picture,
            "Each dot is a case: its first metric, medians, more than 1 is better. \
             Dots beyond the axis stand at its end.",
        );
    }
    body.table(&workloads(&lines, goals));
}

/// Draws the summary as an SVG file; `None` if nothing has a rival.
#[must_use]
pub fn picture(rows: &[Row]) -> Option<String> {
    Some(draw(&lines(&cases(rows)))?.standalone())
}

fn draw(lines: &[Line<'_, '_>]) -> Option<Svg> {
    let mut dots = Vec::new();
    for line in lines {
        let of_case = line.verdicts.iter().filter_map(|(case, verdict)| {
            let (name, comparison) = verdict.rival?;
            let (ratio, standing) = (comparison.ratio, comparison.standing());
            let tip = format!("{}: {ratio:.2} of {name} ({})", case.name, standing.word());
            Some((ratio, standing, tip))
        });
        dots.push(Ratios {
            label: line.workload,
            dots: of_case.collect(),
        });
    }
    dots.retain(|line| !line.dots.is_empty());
    (!dots.is_empty()).then(|| ratio::draw("Millstream over the best rival, case by case", &dots))
}

/// Returns a row for each workload; with goals, also how many were reached.
pub(crate) fn workloads(lines: &[Line<'_, '_>], goals: &[Goal]) -> Table {
    let columns = "workload | >over the best rival | >ahead | >level | >behind | >of the limit";
    let caption =
        "Geometric means over the cases, more is better; how many cases lead, do neither, trail";
    let mut table = Table::new(caption, columns);
    if !goals.is_empty() {
        table.column("goals reached", Set::Number);
    }
    for line in lines {
        let of = |standing: Standing, class| match line.count(standing) {
            0 => "0".into(),
            count => Cell::of(count.to_string(), class),
        };
        let goals = goals.iter().filter(|goal| goal.workload == line.workload);
        let reached = goals.clone().filter(|goal| goal.reached).count();
        let cells = vec![
            line.workload.into(),
            line.mean(|it| it.rival.map(|rival| rival.1)).into(),
            of(Standing::Ahead, "ahead"),
            of(Standing::Level, ""),
            of(Standing::Behind, "behind"),
            line.mean(|it| it.limit).into(),
            format!("{reached} of {}", goals.count()).into(),
        ];
        table.row("", cells);
    }
    table
}

/// Returns the summary as a Markdown table, for a README.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    workloads(&lines(&cases(rows)), &[]).text()
}
