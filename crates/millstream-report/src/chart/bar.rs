//! Bars: contenders one below the other. The bar is the median; a whisker on it the 95 % interval
//! of the mean; a line below it reaches from the least to the greatest figure, with a mark at each
//! quantile that is known.
//!
//! Bars start at 0. Where the longest would be many times the shortest, so that short ones could
//! not be told apart, the axis is logarithmic and dots replace the bars, because the length of a
//! bar on such an axis means nothing.

use crate::chart::{Rows, Whose};
use crate::markup::figure;
use crate::scale::Scale;
use crate::svg::Svg;

/// The figures of one contender.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) whose: Whose,
    /// The median.
    pub(crate) value: f64,
    /// Least and greatest.
    pub(crate) ends: (f64, f64),
    /// The interval of the mean, if known.
    pub(crate) interval: Option<(f64, f64)>,
    /// Quantiles: a name and a value.
    pub(crate) marks: Vec<(String, f64)>,
}

/// From this ratio of greatest to least on the axis is logarithmic.
const LOG_FROM: f64 = 25.0;
/// How far below its middle a row has the line of the spread.
const SPREAD: f64 = 8.0;

/// Draws bars; `note` names unit and direction.
pub(crate) fn draw(heading: &str, note: &str, bars: &[Bar]) -> Svg {
    let names = bars
        .iter()
        .map(|bar| (&*bar.label, figure(bar.value), bar.whose == Whose::Ours));
    let frame = Rows {
        heading,
        note,
        unit: "",
        row_height: 25.0,
        names: names.collect(),
    };
    frame.draw(
        |places| scale(bars, places),
        |svg, scale, index, middle| row(svg, &bars[index], scale, middle - 1.5),
    )
}

fn scale(bars: &[Bar], places: (f64, f64)) -> Scale {
    let marks = bars
        .iter()
        .flat_map(|bar| bar.marks.iter().map(|(_, value)| *value));
    let values = || bars.iter().map(|bar| bar.value);
    // Ends far beyond every figure would press the bars together: their lines are cut.
    let most = values().fold(0.0, f64::max) * 1.6;
    let ends = bars.iter().map(|bar| bar.ends.1.min(most));
    Scale::over(values().chain(marks).chain(ends), LOG_FROM, places)
}

fn row(svg: &mut Svg, bar: &Bar, scale: &Scale, middle: f64) {
    let class = bar.whose.class();
    let at = scale.at(bar.value);
    let interval = match bar.interval {
        Some((low, high)) => format!(" (mean within {} to {})", figure(low), figure(high)),
        None => String::new(),
    };
    let (least, most) = (figure(bar.ends.0), figure(bar.ends.1));
    let tip = format!(
        "{}: {}{interval}, {least} to {most}",
        bar.label,
        figure(bar.value)
    );
    if scale.is_log() {
        svg.dot((at, middle), 4.6, &format!("dot-{class}"), &tip);
    } else {
        let zero = scale.at(0.0);
        let place = [zero.min(at), middle - 6.5, (at - zero).abs().max(0.8), 12.0];
        svg.rect(place, &format!("bar-{class}"), 1.0, &tip);
    }
    if let Some(ends) = bar.interval {
        span(svg, scale, ends, middle, "whisker");
    }
    span(svg, scale, bar.ends, middle + SPREAD, "range");
    for (name, value) in &bar.marks {
        let tip = format!("{} {name}: {}", bar.label, figure(*value));
        let place = (scale.at(*value), middle + SPREAD);
        svg.dot(place, 2.8, &format!("dot-{class}"), &tip);
    }
}

/// A horizontal line with strokes at its ends, unless it is too short to be seen.
fn span(svg: &mut Svg, scale: &Scale, ends: (f64, f64), y: f64, class: &str) {
    let (from, to) = (scale.at(ends.0), scale.at(ends.1));
    if to - from < 1.0 {
        return;
    }
    svg.line(&[(from, y), (to, y)], class);
    for x in [from, to] {
        svg.line(&[(x, y - 3.0), (x, y + 3.0)], class);
    }
}
