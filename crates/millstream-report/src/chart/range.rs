//! Ranges: how figures spread. A line from the least to the greatest, a band for the interval of
//! the mean, a stroke for the median, a dot for the mean; or marks at percentiles where these were
//! measured.

use crate::chart::{MARGIN, TOP, WIDTH, Whose, ticks_below, title};
use crate::markup::{brief, figure};
use crate::scale::Scale;
use crate::svg::{Anchor, SMALL, Svg, TEXT, fit, text_width};

/// One contender's spread.
#[derive(Debug, Clone)]
pub struct Range {
    /// Its name.
    pub label: String,
    /// Whose it is.
    pub whose: Whose,
    /// Least and greatest.
    pub ends: (f64, f64),
    /// The interval of the mean, if known.
    pub interval: Option<(f64, f64)>,
    /// The median.
    pub median: f64,
    /// Other places: a name and a value (`mean`, `p90`, `p99`).
    pub marks: Vec<(String, f64)>,
}

const ROW: f64 = 23.0;
const LABEL_MAX: f64 = 164.0;
const LOG_FROM: f64 = 12.0;

/// Draws ranges; `axis` names the unit and what the marks are.
#[must_use]
pub fn draw(heading: &str, axis: &str, ranges: &[Range]) -> Svg {
    let bottom = TOP + ROW * ranges.len() as f64;
    let said: Vec<String> = ranges.iter().map(words).collect();
    let label = format!("{heading}. {axis}. {}", said.join("; "));
    let mut svg = Svg::new(WIDTH, bottom + 34.0, &label);
    title(&mut svg, heading);
    let labels = ranges
        .iter()
        .map(|it| text_width(&it.label, TEXT * it.whose.weight()));
    let left = MARGIN + labels.fold(0.0, f64::max).min(LABEL_MAX) + 10.0;
    let figures = ranges
        .iter()
        .map(|it| text_width(&figure(it.median), TEXT * it.whose.weight()));
    let right = WIDTH - MARGIN - figures.fold(0.0, f64::max) - 10.0;
    let scale = scale(ranges, left, right);
    let ticks = scale.ticks();
    for tick in &ticks {
        svg.line(
            (scale.at(*tick), TOP - 3.0),
            (scale.at(*tick), bottom),
            "grid",
        );
    }
    for (index, range) in ranges.iter().enumerate() {
        row(&mut svg, range, &scale, TOP + ROW * index as f64, left);
    }
    let places: Vec<_> = ticks.iter().map(|it| (scale.at(*it), brief(*it))).collect();
    ticks_below(&mut svg, &places, bottom + 13.0);
    let axis = fit(axis, WIDTH - 2.0 * MARGIN, SMALL);
    svg.text(right, bottom + 28.0, "note", Anchor::End, &axis);
    svg
}

fn scale(ranges: &[Range], left: f64, right: f64) -> Scale {
    let places = || {
        ranges.iter().flat_map(|it| {
            let marks = it.marks.iter().map(|(_, value)| *value);
            marks.chain([it.ends.0, it.ends.1, it.median])
        })
    };
    let low = places().fold(f64::INFINITY, f64::min);
    let high = places().fold(0.0, f64::max);
    if low > 0.0 && high / low > LOG_FROM {
        Scale::log(low, high, left, right)
    } else {
        Scale::linear(low, high, left, right)
    }
}

fn row(svg: &mut Svg, range: &Range, scale: &Scale, y: f64, left: f64) {
    let middle = y + ROW / 2.0;
    let strong = if range.whose == Whose::Ours {
        "strong"
    } else {
        "label"
    };
    let name = fit(
        &range.label,
        left - MARGIN - 10.0,
        TEXT * range.whose.weight(),
    );
    svg.text(left - 10.0, middle + 4.0, strong, Anchor::End, &name);
    if let Some((low, high)) = range.interval {
        let (from, to) = (scale.at(low), scale.at(high));
        let class = match range.whose {
            Whose::Ours => "interval-ours",
            Whose::Rival | Whose::Limit => "interval",
        };
        svg.rect(from, middle - 6.0, to - from, 12.0, class);
    }
    let (from, to) = (scale.at(range.ends.0), scale.at(range.ends.1));
    svg.line((from, middle), (to, middle), "range");
    for x in [from, to] {
        svg.line((x, middle - 3.0), (x, middle + 3.0), "range");
    }
    let at = scale.at(range.median);
    svg.line((at, middle - 7.0), (at, middle + 7.0), "median");
    let class = format!("dot-{}", range.whose.class());
    for (name, value) in &range.marks {
        let tip = format!("{} {name}: {}", range.label, figure(*value));
        svg.dot((scale.at(*value), middle), 3.4, &class, &tip);
    }
    let end = WIDTH - MARGIN;
    svg.text(
        end,
        middle + 4.0,
        strong,
        Anchor::End,
        &figure(range.median),
    );
}

fn words(range: &Range) -> String {
    format!(
        "{} {} ({} to {})",
        range.label,
        figure(range.median),
        figure(range.ends.0),
        figure(range.ends.1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_shows_all_it_knows() {
        let range = Range {
            label: "millstream".into(),
            whose: Whose::Ours,
            ends: (10.0, 500.0),
            interval: Some((20.0, 40.0)),
            median: 30.0,
            marks: vec![("p99".into(), 400.0)],
        };
        let text = draw("latency", "us", &[range]).inline();
        for part in [
            "interval-ours",
            "median",
            "millstream p99: 400",
            "10.0 to 500",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }
}
