//! Curves: a figure over a quantity (bytes of a call, number of entries, version), a line a
//! contender, named at its end.

use crate::chart::{MARGIN, TOP, WIDTH, Whose, ticks_below, titled};
use crate::limits::SERIES_MAX;
use crate::markup::{brief, figure};
use crate::scale::Scale;
use crate::svg::{Anchor, SMALL, Svg, fit, widest};

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) whose: Whose,
    /// Points in the order of their x.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A picture of lines.
#[derive(Debug, Clone)]
pub(crate) struct Curves {
    pub(crate) heading: String,
    /// What is across.
    pub(crate) across: String,
    /// What is up: the unit and which direction is good.
    pub(crate) up: String,
    /// Names of the places across.
    pub(crate) names: Vec<(f64, String)>,
    /// Whether the axis across is logarithmic.
    pub(crate) log_across: bool,
    pub(crate) series: Vec<Series>,
}

const PLOT_HEIGHT: f64 = 190.0;
const LABEL_MAX: f64 = 112.0;
const LABEL_LINE: f64 = 12.5;
/// From this ratio of greatest to least on the axis up is logarithmic.
const LOG_FROM: f64 = 8.0;

/// Draws the lines: ours and the limit always, of the others as many as can be told apart.
pub(crate) fn draw(curves: &Curves) -> Svg {
    let series = chosen(curves);
    let (top, bottom) = (TOP + 12.0, TOP + 12.0 + PLOT_HEIGHT);
    let mut svg = titled(bottom + 34.0, &curves.heading, &label(curves));
    let up = fit(&curves.up, WIDTH - 2.0 * MARGIN, SMALL);
    svg.text(MARGIN, TOP + 3.0, "note", Anchor::Start, &up);
    let names = widest(series.iter().map(|it| &*it.label), SMALL);
    let right = WIDTH - MARGIN - names.min(LABEL_MAX) - 8.0;
    let values = series
        .iter()
        .flat_map(|it| it.points.iter().map(|point| point.1));
    let vertical = Scale::over(values, LOG_FROM, (bottom, top));
    let ticks: Vec<(f64, String)> = vertical
        .ticks()
        .into_iter()
        .map(|it| (it, brief(it)))
        .collect();
    let left = MARGIN + widest(ticks.iter().map(|it| &*it.1), SMALL) + 7.0;
    for (value, tick) in &ticks {
        let y = vertical.at(*value);
        svg.line(&[(left, y), (right, y)], "grid");
        svg.text(left - 5.0, y + 3.5, "tick", Anchor::End, tick);
    }
    svg.line(&[(left, bottom), (right, bottom)], "axis");
    let horizontal = horizontal(curves, (left + 6.0, right - 6.0));
    let places = curves
        .names
        .iter()
        .map(|(x, name)| (horizontal.at(*x), name.clone()));
    ticks_below(&mut svg, places, bottom + 13.0);
    let mut ends = Vec::new();
    for (series, (line, dot)) in series.iter().zip(classes(&series)) {
        let place = |(x, y): &(f64, f64)| (horizontal.at(*x), vertical.at(*y));
        let places: Vec<(f64, f64)> = series.points.iter().map(place).collect();
        svg.line(&places, &line);
        for ((x, y), place) in series.points.iter().zip(&places) {
            let name = curves
                .names
                .iter()
                .find(|name| name.0 == *x)
                .map_or("", |name| &name.1);
            let tip = format!("{} at {name}: {}", series.label, figure(*y));
            svg.dot(*place, 2.4, &dot, &tip);
        }
        ends.extend(places.last().map(|(_, y)| (*y, &*series.label, dot)));
    }
    name_ends(&mut svg, ends, right + 6.0, (top, bottom));
    let left_out = match curves.series.len() - series.len() {
        0 => String::new(),
        more => format!(" ({more} more in the table)"),
    };
    let across = fit(
        &(curves.across.clone() + &left_out),
        WIDTH - 2.0 * MARGIN,
        SMALL,
    );
    svg.text(left, bottom + 28.0, "note", Anchor::Start, &across);
    svg
}

/// Ours, the limit, then the others as they come.
fn chosen(curves: &Curves) -> Vec<&Series> {
    let mut order: Vec<&Series> = curves.series.iter().collect();
    order.sort_by_key(|series| match (series.whose, &*series.label) {
        (Whose::Ours, "millstream") => 0,
        (Whose::Limit, _) => 1,
        (Whose::Rival, _) => 2,
        (Whose::Ours, _) => 3,
    });
    order.truncate(SERIES_MAX);
    order
}

/// Classes of line and dots.
fn classes(series: &[&Series]) -> Vec<(String, String)> {
    // The style sheet has six for those that are neither ours nor the limit.
    let mut others = (1..=6).cycle();
    let ours = series.iter().position(|series| series.whose == Whose::Ours);
    let class = |(at, series): (usize, &&Series)| match series.whose {
        Whose::Limit => ("line-limit".into(), "bar-limit".into()),
        Whose::Ours if ours == Some(at) => ("line-ours".into(), "bar-ours".into()),
        Whose::Ours | Whose::Rival => {
            let color = others.next().expect("a cycle has no end");
            (format!("l{color}"), format!("f{color}"))
        }
    };
    series.iter().enumerate().map(class).collect()
}

fn horizontal(curves: &Curves, places: (f64, f64)) -> Scale {
    let values = || curves.names.iter().map(|name| name.0);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    match curves.log_across {
        true => Scale::log(low, high, places),
        false => Scale::linear(low, high, places),
    }
}

/// Writes names at the ends of the lines, pushed apart so that none touches another.
fn name_ends(svg: &mut Svg, mut ends: Vec<(f64, &str, String)>, x: f64, (top, bottom): (f64, f64)) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = top + 2.0;
    for (y, ..) in &mut ends {
        *y = y.max(least);
        least = *y + LABEL_LINE;
    }
    let mut most = bottom;
    for (y, ..) in ends.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LABEL_LINE;
    }
    for (y, name, class) in ends {
        svg.dot((x + 2.0, y), 2.6, &class, name);
        let shown = fit(name, LABEL_MAX - 8.0, SMALL);
        svg.text(x + 8.0, y + 3.5, "note", Anchor::Start, &shown);
    }
}

fn label(curves: &Curves) -> String {
    let line = |series: &Series| {
        let (first, last) = (series.points.first()?.1, series.points.last()?.1);
        Some(format!(
            "{} from {} to {}",
            series.label,
            figure(first),
            figure(last)
        ))
    };
    let lines: Vec<String> = curves.series.iter().filter_map(line).collect();
    let (heading, up, across) = (&curves.heading, &curves.up, &curves.across);
    format!("{heading}. {up} over {across}: {}", lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_always_drawn_and_names_do_not_touch() {
        let names = (0..12)
            .map(|n| format!("rival-{n}"))
            .chain(["millstream".into()]);
        let series = names.map(|label| Series {
            whose: Whose::of(&label),
            label,
            points: vec![(1.0, 5.0), (10.0, 6.0)],
        });
        let text = draw(&Curves {
            heading: "cost".into(),
            across: "entries".into(),
            up: "ns".into(),
            names: vec![(1.0, "1".into()), (10.0, "10".into())],
            log_across: true,
            series: series.collect(),
        });
        let text = text.inline();
        assert!(text.contains("line-ours") && text.contains("5 more in the table"));
        let ends = text.split("r=\"2.6\"").skip(1);
        let ys: Vec<f64> = ends
            .map(|end| {
                let (_, rest) = end.split_once(" y=\"").expect("a place");
                rest.split('"')
                    .next()
                    .and_then(|y| y.parse().ok())
                    .expect("a number")
            })
            .collect();
        assert_eq!(ys.len(), SERIES_MAX);
        assert!(
            ys.windows(2)
                .all(|pair| pair[1] - pair[0] >= LABEL_LINE - 0.1),
            "{ys:?}"
        );
    }
}
