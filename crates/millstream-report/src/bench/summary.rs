//! The summary: ours over the best rival and of the limit, a line a workload.

use std::fmt::Write as _;

use crate::cases::{Case, Verdict};
use crate::chart::ratio::{self, Ratios, geometric_mean};
use crate::compare::Standing;
use crate::markup::figure;
use crate::page::{Cell, Html, Set, Table};
use crate::svg::Svg;

/// What is said of one workload.
struct Line<'c, 'a> {
    workload: &'a str,
    verdicts: Vec<(&'c Case<'a>, Verdict<'a>)>,
}

impl Line<'_, '_> {
    fn count(&self, standing: Standing) -> usize {
        let standings = self.verdicts.iter().filter_map(|(_, verdict)| {
            let (_, comparison) = verdict.rival.as_ref()?;
            Some(comparison.standing())
        });
        standings.filter(|it| *it == standing).count()
    }

    fn rivals(&self) -> Option<f64> {
        let ratios = self
            .verdicts
            .iter()
            .filter_map(|(_, verdict)| Some(verdict.rival.as_ref()?.1.ratio));
        geometric_mean(ratios)
    }

    fn limit(&self) -> Option<f64> {
        let ratios = self
            .verdicts
            .iter()
            .filter_map(|(_, verdict)| Some(verdict.limit?.ratio));
        geometric_mean(ratios)
    }
}

fn lines<'c, 'a>(cases: &'c [Case<'a>]) -> Vec<Line<'c, 'a>> {
    let mut lines = Vec::new();
    for group in cases.chunk_by(|a, b| a.workload == b.workload) {
        let verdicts = group.iter().filter_map(|case| {
            let verdict = case.verdict(&case.primary()?.metric)?;
            let tells = verdict.rival.is_some() || verdict.limit.is_some();
            tells.then_some((case, verdict))
        });
        lines.push(Line {
            workload: group[0].workload,
            verdicts: verdicts.collect(),
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
        body.paragraph(words);
        return;
    }
    let sum = |standing| lines.iter().map(|line| line.count(standing)).sum::<usize>();
    body.paragraph_of(
        "lead",
        &format!(
            "Ours against the best rival of each case: {} ahead, {} within the interval, {} behind.",
            sum(Standing::Ahead),
            sum(Standing::Level),
            sum(Standing::Behind)
        ),
    );
    if let Some(picture) = draw(&lines) {
        body.wide_figure(
            &picture,
            "Each dot is a case: its first metric, medians, more than 1 is better. \
             Dots beyond the axis stand at its end.",
        );
    }
    body.table(&workloads(&lines));
    let mut inside = Html::new();
    inside.table(&every_case(&lines));
    body.details(false, "Every case", &"".into(), &inside);
}

/// The picture of the summary; `None` if nothing has a rival.
#[must_use]
pub fn picture(cases: &[Case<'_>]) -> Option<Svg> {
    draw(&lines(cases))
}

fn draw(lines: &[Line<'_, '_>]) -> Option<Svg> {
    let dots: Vec<Ratios> = lines
        .iter()
        .map(|line| Ratios {
            label: line.workload.to_owned(),
            dots: line.verdicts.iter().filter_map(dot).collect(),
        })
        .filter(|line| !line.dots.is_empty())
        .collect();
    (!dots.is_empty()).then(|| ratio::draw("Millstream over the best rival, case by case", &dots))
}

fn dot((case, verdict): &(&Case<'_>, Verdict<'_>)) -> Option<(f64, Standing, String)> {
    let (name, comparison) = verdict.rival.as_ref()?;
    let tip = format!(
        "{}: {:.2} of {name} ({})",
        case.name,
        comparison.ratio,
        comparison.standing().word()
    );
    Some((comparison.ratio, comparison.standing(), tip))
}

fn optional(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.2}"))
}

fn workloads(lines: &[Line<'_, '_>]) -> Table {
    let columns = [
        ("workload", Set::Name),
        ("over the best rival", Set::Number),
        ("ahead", Set::Number),
        ("level", Set::Number),
        ("behind", Set::Number),
        ("of the limit", Set::Number),
    ];
    let mut table = Table::new(
        "Geometric means over the cases, more is better; how many cases lead, do neither, trail",
        &columns,
    );
    for line in lines {
        let [ahead, level, behind] = counts(line);
        table.row(
            "",
            vec![
                line.workload.into(),
                optional(line.rivals()).into(),
                Cell::of(ahead.to_string(), if ahead > 0 { "ahead" } else { "" }),
                level.to_string().into(),
                Cell::of(behind.to_string(), if behind > 0 { "behind" } else { "" }),
                optional(line.limit()).into(),
            ],
        );
    }
    table
}

fn counts(line: &Line<'_, '_>) -> [usize; 3] {
    [Standing::Ahead, Standing::Level, Standing::Behind].map(|it| line.count(it))
}

fn every_case(lines: &[Line<'_, '_>]) -> Table {
    let columns = [
        ("case", Set::Name),
        ("ours", Set::Number),
        ("", Set::Name),
        ("over", Set::Number),
        ("the best rival", Set::Name),
        ("", Set::Words),
        ("of limit", Set::Number),
    ];
    let mut table = Table::new("The first metric of each case", &columns);
    for (case, verdict) in lines.iter().flat_map(|line| &line.verdicts) {
        let figures = verdict.figures;
        let rival = verdict.rival.as_ref();
        let standing = rival.map(|(_, it)| it.standing());
        table.row(
            "",
            vec![
                format!("{}: {}", case.workload, case.name).into(),
                figure(figures.median).into(),
                figures.unit.clone().into(),
                optional(rival.map(|(_, it)| it.ratio)).into(),
                rival.map_or("–", |(name, _)| name).into(),
                Cell::of(
                    standing.map_or("", Standing::word),
                    standing.map_or("", Standing::text),
                ),
                optional(verdict.limit.map(|it| it.ratio)).into(),
            ],
        );
    }
    table
}

/// The summary as a table in Markdown, for a README.
#[must_use]
pub fn markdown(cases: &[Case<'_>]) -> String {
    let mut out = String::from(
        "| workload | over the best rival | ahead | level | behind | of the limit |\n\
         |---|---|---|---|---|---|\n",
    );
    for line in lines(cases) {
        let [ahead, level, behind] = counts(&line);
        // Names of workloads are the benchmark's own; a bar would still end the cell.
        let _ = writeln!(
            out,
            "| {} | {} | {ahead} | {level} | {behind} | {} |",
            line.workload.replace('|', "/"),
            optional(line.rivals()),
            optional(line.limit())
        );
    }
    out
}
