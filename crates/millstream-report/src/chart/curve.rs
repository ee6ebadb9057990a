//! Curves: a figure over a quantity (bytes of a call, number of entries, version), a line a
//! contender, named at its end.

use crate::chart::{MARGIN, TOP, WIDTH, Whose, ticks_below, title};
use crate::limits::SERIES_MAX;
use crate::markup::{brief, figure};
use crate::scale::Scale;
use crate::svg::{Anchor, SMALL, Svg, fit, text_width};

/// One line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Whose name stands at its end.
    pub label: String,
    /// Whose it is.
    pub whose: Whose,
    /// Points in the order of their x.
    pub points: Vec<(f64, f64)>,
}

/// A picture of lines.
#[derive(Debug, Clone)]
pub struct Curves {
    /// What stands above.
    pub heading: String,
    /// What is across.
    pub across: String,
    /// What is up: the unit and which direction is good.
    pub up: String,
    /// Names of places across; if there are none, numbers are shown.
    pub names: Vec<(f64, String)>,
    /// Whether the axis across is logarithmic.
    pub log_across: bool,
    /// The lines.
    pub series: Vec<Series>,
}

const PLOT_HEIGHT: f64 = 190.0;
const LABEL_MAX: f64 = 112.0;
const LABEL_LINE: f64 = 12.5;
/// From this ratio of greatest to least on the axis up is logarithmic.
const LOG_FROM: f64 = 8.0;

/// Draws the lines: ours and the limit always, of the others as many as can be told apart.
#[must_use]
pub fn draw(curves: &Curves) -> Svg {
    let series = chosen(curves);
    let left_out = curves.series.len() - series.len();
    let (top, bottom) = (TOP + 12.0, TOP + 12.0 + PLOT_HEIGHT);
    let mut svg = Svg::new(WIDTH, bottom + 34.0, &label(curves));
    title(&mut svg, &curves.heading);
    let up = fit(&curves.up, WIDTH - 2.0 * MARGIN, SMALL);
    svg.text(MARGIN, TOP + 3.0, "note", Anchor::Start, &up);
    let names = series.iter().map(|it| text_width(&it.label, SMALL));
    let right = WIDTH - MARGIN - names.fold(0.0, f64::max).min(LABEL_MAX) - 8.0;
    let vertical = vertical(&series, bottom, top);
    let up_ticks = vertical.ticks();
    let widths = up_ticks.iter().map(|tick| text_width(&brief(*tick), SMALL));
    let left = MARGIN + widths.fold(0.0, f64::max) + 7.0;
    let horizontal = horizontal(&series, curves.log_across, left, right);
    for tick in &up_ticks {
        let y = vertical.at(*tick);
        svg.line((left, y), (right, y), "grid");
        svg.text(left - 5.0, y + 3.5, "tick", Anchor::End, &brief(*tick));
    }
    svg.line((left, bottom), (right, bottom), "axis");
    across(&mut svg, curves, &horizontal, bottom);
    let mut ends = Vec::new();
    for (series, class) in series.iter().zip(classes(&series)) {
        let places: Vec<(f64, f64)> = series
            .points
            .iter()
            .map(|(x, y)| (horizontal.at(*x), vertical.at(*y)))
            .collect();
        svg.polyline(&places, class.0);
        for ((x, y), place) in series.points.iter().zip(&places) {
            let tip = format!("{} at {}: {}", series.label, brief(*x), figure(*y));
            let radius = if series.points.len() == 1 { 3.5 } else { 2.4 };
            svg.dot(*place, radius, class.1, &tip);
        }
        if let Some((_, y)) = places.last() {
            ends.push((*y, series.label.clone(), class.1));
        }
    }
    name_ends(&mut svg, ends, right + 6.0, (top, bottom));
    let mut words = curves.across.clone();
    if left_out > 0 {
        words.push_str(&format!(" ({left_out} more in the table)"));
    }
    let words = fit(&words, WIDTH - 2.0 * MARGIN, SMALL);
    svg.text(left, bottom + 28.0, "note", Anchor::Start, &words);
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
fn classes(series: &[&Series]) -> Vec<(&'static str, &'static str)> {
    const OTHERS: [(&str, &str); 6] = [
        ("l1", "f1"),
        ("l2", "f2"),
        ("l3", "f3"),
        ("l4", "f4"),
        ("l5", "f5"),
        ("l6", "f6"),
    ];
    let (mut next, mut ours) = (0, 0);
    series
        .iter()
        .map(|series| match series.whose {
            Whose::Limit => ("line-limit", "bar-limit"),
            Whose::Ours if ours == 0 => {
                ours += 1;
                ("line-ours", "bar-ours")
            }
            Whose::Ours | Whose::Rival => {
                next += 1;
                OTHERS[(next - 1) % OTHERS.len()]
            }
        })
        .collect()
}

fn vertical(series: &[&Series], bottom: f64, top: f64) -> Scale {
    let values = || series.iter().flat_map(|it| it.points.iter().map(|p| p.1));
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(0.0, f64::max);
    if low > 0.0 && high / low > LOG_FROM {
        Scale::log(low / 1.1, high * 1.1, bottom, top)
    } else {
        Scale::linear(low, high, bottom, top)
    }
}

fn horizontal(series: &[&Series], log: bool, left: f64, right: f64) -> Scale {
    let values = || series.iter().flat_map(|it| it.points.iter().map(|p| p.0));
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    if log && low > 0.0 {
        Scale::log(low, high, left + 6.0, right - 6.0)
    } else {
        Scale::linear(low, high, left + 6.0, right - 6.0)
    }
}

fn across(svg: &mut Svg, curves: &Curves, scale: &Scale, bottom: f64) {
    let places: Vec<(f64, String)> = if curves.names.is_empty() {
        let ticks = scale.ticks().into_iter();
        ticks.map(|tick| (scale.at(tick), brief(tick))).collect()
    } else {
        let names = curves.names.iter();
        names
            .map(|(x, name)| (scale.at(*x), name.clone()))
            .collect()
    };
    ticks_below(svg, &places, bottom + 13.0);
}

/// Names at the ends of the lines, pushed apart so that none touches another.
fn name_ends(
    svg: &mut Svg,
    mut ends: Vec<(f64, String, &'static str)>,
    x: f64,
    (top, bottom): (f64, f64),
) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut places: Vec<f64> = ends.iter().map(|end| end.0).collect();
    let mut least = top + 2.0;
    for place in &mut places {
        *place = place.max(least);
        least = *place + LABEL_LINE;
    }
    let mut most = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - LABEL_LINE;
    }
    for ((_, name, class), y) in ends.iter().zip(places) {
        svg.dot((x + 2.0, y), 2.6, class, "");
        let name = fit(name, LABEL_MAX - 8.0, SMALL);
        svg.text(x + 8.0, y + 3.5, "note", Anchor::Start, &name);
    }
}

fn label(curves: &Curves) -> String {
    let lines: Vec<String> = curves
        .series
        .iter()
        .filter_map(|series| {
            let (first, last) = (series.points.first()?, series.points.last()?);
            Some(format!(
                "{} from {} to {}",
                series.label,
                figure(first.1),
                figure(last.1)
            ))
        })
        .collect();
    format!(
        "{}. {} over {}: {}",
        curves.heading,
        curves.up,
        curves.across,
        lines.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(label: &str, points: &[(f64, f64)]) -> Series {
        Series {
            label: label.into(),
            whose: Whose::of(label),
            points: points.to_vec(),
        }
    }

    #[test]
    fn ours_is_always_drawn_and_the_rest_is_counted() {
        let mut all: Vec<Series> = (0..12)
            .map(|n| series(&format!("rival-{n}"), &[(1.0, 5.0), (10.0, 6.0)]))
            .collect();
        all.push(series("millstream", &[(1.0, 1.0), (10.0, 2.0)]));
        let curves = Curves {
            heading: "cost".into(),
            across: "entries".into(),
            up: "ns".into(),
            names: Vec::new(),
            log_across: true,
            series: all,
        };
        let text = draw(&curves).inline();
        assert!(text.contains("line-ours") && text.contains("5 more in the table"));
    }

    #[test]
    fn names_do_not_touch() {
        let mut svg = Svg::new(WIDTH, 300.0, "");
        let ends = (0..6).map(|n| (50.0, format!("name {n}"), "f1")).collect();
        name_ends(&mut svg, ends, 300.0, (40.0, 230.0));
        let text = svg.inline();
        let ys: Vec<f64> = text
            .split("<text ")
            .skip(1)
            .map(|part| {
                let (_, rest) = part.split_once(" y=\"").unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            })
            .collect();
        assert!(
            ys.windows(2)
                .all(|pair| pair[1] - pair[0] >= LABEL_LINE - 0.1)
        );
    }
}
