//! Bars: contenders one below the other, a whisker for the 95 % interval of the mean.
//!
//! Bars begin at 0. Where the longest would be many times the shortest, so that short ones could
//! not be told apart, the axis is logarithmic and dots stand instead of bars, because the length
//! of a bar on such an axis means nothing.

use crate::chart::{MARGIN, TOP, WIDTH, Whose, ticks_below, title};
use crate::markup::{brief, figure};
use crate::scale::Scale;
use crate::svg::{Anchor, SMALL, Svg, TEXT, fit, text_width};

/// One contender.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Its name.
    pub label: String,
    /// Its figure, the median.
    pub value: f64,
    /// The ends of the interval, if one is known.
    pub interval: Option<(f64, f64)>,
    /// Whose it is.
    pub whose: Whose,
}

/// From this ratio of longest to shortest on the axis is logarithmic.
const LOG_FROM: f64 = 25.0;
const ROW: f64 = 21.0;
const LABEL_MAX: f64 = 164.0;

/// Draws bars; `axis` names unit and direction.
#[must_use]
pub fn draw(heading: &str, axis: &str, bars: &[Bar]) -> Svg {
    let height = TOP + ROW * bars.len() as f64 + 34.0;
    let label = format!("{heading}. {axis}. {}", words(bars));
    let mut svg = Svg::new(WIDTH, height, &label);
    title(&mut svg, heading);
    let widest = |size: f64, text: &dyn Fn(&Bar) -> String| {
        let widths = bars
            .iter()
            .map(|bar| text_width(&text(bar), size * bar.whose.weight()));
        widths.fold(0.0, f64::max)
    };
    let left = MARGIN + widest(TEXT, &|bar| bar.label.clone()).min(LABEL_MAX) + 8.0;
    let right = WIDTH - MARGIN - widest(TEXT, &|bar| figure(bar.value)) - 8.0;
    let scale = scale(bars, left, right);
    let bottom = TOP + ROW * bars.len() as f64;
    let ticks = scale.ticks();
    for tick in &ticks {
        svg.line(
            (scale.at(*tick), TOP - 3.0),
            (scale.at(*tick), bottom),
            "grid",
        );
    }
    for (index, bar) in bars.iter().enumerate() {
        row(&mut svg, bar, &scale, TOP + ROW * index as f64, left);
    }
    if !scale.is_log() {
        svg.line((left, TOP - 3.0), (left, bottom), "axis");
    }
    let places: Vec<_> = ticks.iter().map(|it| (scale.at(*it), brief(*it))).collect();
    ticks_below(&mut svg, &places, bottom + 13.0);
    let axis = fit(axis, WIDTH - 2.0 * MARGIN, SMALL);
    svg.text(right, bottom + 28.0, "note", Anchor::End, &axis);
    svg
}

fn scale(bars: &[Bar], left: f64, right: f64) -> Scale {
    let values = || bars.iter().map(|bar| bar.value);
    let highs = bars
        .iter()
        .map(|bar| bar.interval.map_or(bar.value, |(_, high)| high));
    let highest = values().fold(0.0, f64::max);
    // An interval far beyond every figure would press the bars together: its whisker is cut.
    let high = highs.fold(highest, f64::max).min(highest * 1.6);
    let low = values().fold(f64::INFINITY, f64::min);
    if low > 0.0 && highest / low > LOG_FROM {
        Scale::log(low, high, left, right)
    } else {
        Scale::linear(low, high, left, right)
    }
}

fn row(svg: &mut Svg, bar: &Bar, scale: &Scale, y: f64, left: f64) {
    let class = bar.whose.class();
    let middle = y + ROW / 2.0;
    let strong = if bar.whose == Whose::Ours {
        "strong"
    } else {
        "label"
    };
    let name = fit(&bar.label, left - MARGIN - 8.0, TEXT * bar.whose.weight());
    svg.text(left - 8.0, middle + 4.0, strong, Anchor::End, &name);
    let at = scale.at(bar.value);
    let tip = match bar.interval {
        Some((low, high)) => format!(
            "{}: {} (mean within {} to {})",
            bar.label,
            figure(bar.value),
            figure(low),
            figure(high)
        ),
        None => format!("{}: {}", bar.label, figure(bar.value)),
    };
    if scale.is_log() {
        let kind = format!("dot-{class}");
        whisker(svg, bar, scale, middle);
        svg.dot((at, middle), 4.6, &kind, &tip);
    } else {
        let zero = scale.at(0.0);
        let place = [zero.min(at), middle - 6.5, (at - zero).abs().max(0.8), 13.0];
        svg.rect_tip(place, &format!("bar-{class}"), &tip);
        whisker(svg, bar, scale, middle);
    }
    let end = WIDTH - MARGIN;
    svg.text(end, middle + 4.0, strong, Anchor::End, &figure(bar.value));
}

fn whisker(svg: &mut Svg, bar: &Bar, scale: &Scale, y: f64) {
    let Some((low, high)) = bar.interval else {
        return;
    };
    let (from, to) = (scale.at(low), scale.at(high));
    if to - from < 1.0 {
        return;
    }
    svg.line((from, y), (to, y), "whisker");
    for x in [from, to] {
        svg.line((x, y - 3.0), (x, y + 3.0), "whisker");
    }
}

fn words(bars: &[Bar]) -> String {
    let parts: Vec<String> = bars
        .iter()
        .map(|bar| format!("{} {}", bar.label, figure(bar.value)))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        Bar {
            label: label.into(),
            value,
            interval: Some((value * 0.9, value * 1.1)),
            whose: Whose::of(label),
        }
    }

    #[test]
    fn bars_begin_at_zero_and_wide_ranges_are_dots() {
        let near = draw("t", "MB/s", &[bar("millstream", 100.0), bar("read", 50.0)]).inline();
        assert!(near.contains("bar-ours") && near.contains("bar-rival"));
        assert!(!near.contains("dot-"));
        let far = draw("t", "us", &[bar("millstream", 1.0), bar("read", 5000.0)]).inline();
        assert!(far.contains("dot-ours") && !far.contains("bar-ours"));
    }

    #[test]
    fn odd_figures_do_no_harm() {
        let odd = [
            bar("a", 0.0),
            bar("b", f64::MAX),
            bar("c", -1.0),
            bar("d", f64::NAN),
        ];
        let text = draw("t", "x", &odd).inline();
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert!(draw("t", "x", &[]).inline().starts_with("<svg"));
    }
}
