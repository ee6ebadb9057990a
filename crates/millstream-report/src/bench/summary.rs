//! The summary: ours over the best rival and of the limit, a line a workload.

use std::fmt::Write as _;

use crate::cases::{Case, Verdict, cases};
use crate::chart::ratio::{self, Ratios, geometric_mean};
use crate::compare::{Comparison, Standing};
use crate::markup::figure;
use crate::page::{Cell, Html, Table};
use crate::rows::Row;
use crate::svg::Svg;

/// The verdicts of a workload's cases.
struct Line<'c, 'a> {
    workload: &'a str,
    verdicts: Vec<(&'c Case<'a>, Verdict<'a>)>,
}

impl Line<'_, '_> {
    fn count(&self, standing: Standing) -> usize {
        let rivals = self.verdicts.iter().filter_map(|(_, it)| it.rival);
        rivals
            .filter(|rival| rival.2.standing() == standing)
            .count()
    }

    /// The columns of the tables: the ratio to rivals, how many cases lead, do neither and trail,
    /// and the ratio to the limit.
    fn columns(&self) -> [String; 5] {
        let ratio = |of: fn(&Verdict<'_>) -> Option<Comparison>| {
            let ratios = self
                .verdicts
                .iter()
                .filter_map(|(_, it)| Some(of(it)?.ratio));
            optional(geometric_mean(ratios))
        };
        let count = |standing| self.count(standing).to_string();
        [
            ratio(|it| it.rival.map(|rival| rival.2)),
            count(Standing::Ahead),
            count(Standing::Level),
            count(Standing::Behind),
            ratio(|it| it.limit),
        ]
    }
}

fn lines<'c, 'a>(cases: &'c [Case<'a>]) -> Vec<Line<'c, 'a>> {
    let mut lines = Vec::new();
    for group in cases.chunk_by(|a, b| a.workload == b.workload) {
        let verdicts = group
            .iter()
            .filter_map(|case| Some((case, case.verdict()?)));
        let told = verdicts.filter(|(_, it)| it.rival.is_some() || it.limit.is_some());
        lines.push(Line {
            workload: group[0].workload,
            verdicts: told.collect(),
        });
    }
    lines.retain(|line| !line.verdicts.is_empty());
    lines
}

/// Writes the summary.
pub(crate) fn write(body: &mut Html, cases: &[Case<'_>]) {
    let lines = lines(cases);
    if lines.is_empty() {
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
    body.table(&workloads(&lines));
    body.folded("Every case", &every_case(&lines));
}

/// The picture of the summary as a file of SVG; `None` if nothing has a rival.
#[must_use]
pub fn picture(rows: &[Row]) -> Option<String> {
    Some(draw(&lines(&cases(rows)))?.standalone())
}

fn draw(lines: &[Line<'_, '_>]) -> Option<Svg> {
    let mut dots = Vec::new();
    for line in lines {
        let of_case = line.verdicts.iter().filter_map(|(case, verdict)| {
            let (name, _, Comparison { ratio, .. }) = verdict.rival?;
            let standing = verdict.rival?.2.standing();
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

fn optional(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.2}"))
}

fn workloads(lines: &[Line<'_, '_>]) -> Table {
    let columns = "workload | >over the best rival | >ahead | >level | >behind | >of the limit";
    let caption =
        "Geometric means over the cases, more is better; how many cases lead, do neither, trail";
    let mut table = Table::new(caption, columns);
    for line in lines {
        let [ratio, ahead, level, behind, limit] = line.columns();
        let of = |count: String, class| match &*count {
            "0" => count.into(),
            _ => Cell::of(count, class),
        };
        let (ahead, behind) = (of(ahead, "ahead"), of(behind, "behind"));
        let cells = vec![
            line.workload.into(),
            ratio.into(),
            ahead,
            level.into(),
            behind,
        ];
        table.row("", [cells, vec![limit.into()]].concat());
    }
    table
}

fn every_case(lines: &[Line<'_, '_>]) -> Table {
    let columns = "case | >ours | | >over | the best rival | ~ | >of limit";
    let mut table = Table::new("The first metric of each case", columns);
    for (case, verdict) in lines.iter().flat_map(|line| &line.verdicts) {
        let figures = verdict.figures;
        let (rival, standing) = match verdict.rival {
            Some((name, _, it)) => (name, Some(it.standing())),
            None => ("–", None),
        };
        let words = standing.map_or("", Standing::word);
        table.row(
            "",
            vec![
                format!("{}: {}", case.workload, case.name).into(),
                figure(figures.median).into(),
                figures.unit.clone().into(),
                optional(verdict.rival.map(|it| it.2.ratio)).into(),
                rival.into(),
                Cell::of(words, standing.map_or("", Standing::class)),
                optional(verdict.limit.map(|it| it.ratio)).into(),
            ],
        );
    }
    table
}

/// The summary as a table in Markdown, for a README.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut out = String::from(
        "| workload | over the best rival | ahead | level | behind | of the limit |\n\
         |---|---|---|---|---|---|\n",
    );
    for line in lines(&cases(rows)) {
        // Names of workloads are the benchmark's own; a bar would still end the cell.
        let workload = line.workload.replace('|', "/");
        let _ = writeln!(out, "| {workload} | {} |", line.columns().join(" | "));
    }
    out
}
