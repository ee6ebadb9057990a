//! Ratios: ours over the best rival, a dot a case, on a logarithmic axis around 1.
//!
//! Green dots lead beyond their interval, red ones trail beyond it, grey ones do neither. The
//! stroke is the geometric mean.

use crate::chart::{MARGIN, TOP, WIDTH, ticks_below, title};
use crate::compare::Standing;
use crate::scale::Scale;
use crate::svg::{Anchor, Svg, TEXT, fit, text_width};

/// A line of dots.
#[derive(Debug, Clone)]
pub struct Ratios {
    /// What they are of.
    pub label: String,
    /// Each case: its ratio, how it stands, and what to say when it is pointed at.
    pub dots: Vec<(f64, Standing, String)>,
}

const ROW: f64 = 30.0;
/// The axis ends here; dots beyond stand at its end.
const ENDS: (f64, f64) = (0.1, 10.0);

/// Draws lines of dots.
#[must_use]
pub fn draw(heading: &str, lines: &[Ratios]) -> Svg {
    let bottom = TOP + ROW * lines.len() as f64;
    let said: Vec<String> = lines.iter().map(words).collect();
    let mut svg = Svg::new(
        WIDTH,
        bottom + 50.0,
        &format!("{heading}. {}", said.join("; ")),
    );
    title(&mut svg, heading);
    let labels = lines.iter().map(|line| text_width(&line.label, TEXT));
    let left = MARGIN + labels.fold(0.0, f64::max).min(120.0) + 14.0;
    let right = WIDTH - MARGIN - 54.0;
    let scale = scale(lines, left, right);
    let ticks: Vec<f64> = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .filter(|tick| in_range(&scale, *tick))
        .collect();
    for tick in &ticks {
        let class = if *tick == 1.0 { "axis" } else { "grid" };
        svg.line((scale.at(*tick), TOP), (scale.at(*tick), bottom), class);
    }
    for (index, line) in lines.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5);
        let name = fit(&line.label, left - MARGIN - 14.0, TEXT);
        svg.text(left - 14.0, y + 4.0, "label", Anchor::End, &name);
        let mean = geometric_mean(line.dots.iter().map(|dot| dot.0));
        for (index, (ratio, standing, tip)) in line.dots.iter().enumerate() {
            // Three heights, so that dots of nearly the same ratio can be told apart.
            let offset = [0.0, -6.0, 6.0][index % 3];
            svg.dot((scale.at(*ratio), y + offset), 3.6, standing.dot(), tip);
        }
        if let Some(mean) = mean {
            let x = scale.at(mean);
            svg.line((x, y - 12.0), (x, y + 12.0), "median");
            let text = format!("{mean:.2}");
            svg.text(WIDTH - MARGIN, y + 4.0, "strong", Anchor::End, &text);
        }
    }
    let places: Vec<_> = ticks
        .iter()
        .map(|tick| (scale.at(*tick), format!("{tick}×")))
        .collect();
    ticks_below(&mut svg, &places, bottom + 14.0);
    foot(&mut svg, bottom);
    svg
}

fn scale(lines: &[Ratios], left: f64, right: f64) -> Scale {
    let ratios = || {
        lines
            .iter()
            .flat_map(|line| line.dots.iter().map(|it| it.0))
    };
    let least = ratios().fold(0.5, f64::min).max(ENDS.0);
    let most = ratios().fold(2.0, f64::max).min(ENDS.1);
    Scale::log(least * 0.95, most * 1.05, left, right)
}

fn in_range(scale: &Scale, tick: f64) -> bool {
    // Beyond its ends a scale gives the place of its end.
    let at = scale.at(tick);
    at > scale.at(tick * 0.999) && at < scale.at(tick * 1.001)
}

fn foot(svg: &mut Svg, bottom: f64) {
    let keys = [
        ("good", "ahead"),
        ("level", "within the interval"),
        ("bad", "behind"),
    ];
    let mut x = MARGIN + 4.0;
    for (class, word) in keys {
        svg.dot((x, bottom + 34.0), 3.6, class, "");
        svg.text(x + 8.0, bottom + 37.5, "note", Anchor::Start, word);
        x += 8.0 + text_width(word, 10.5) + 16.0;
    }
    let end = WIDTH - MARGIN;
    svg.text(
        end,
        bottom + 37.5,
        "note",
        Anchor::End,
        "stroke: geometric mean",
    );
}

/// The geometric mean of what is positive; `None` of nothing.
#[must_use]
pub fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for ratio in ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0) {
        sum += ratio.ln();
        count += 1.0;
    }
    (count > 0.0).then(|| f64::exp(sum / count))
}

fn words(line: &Ratios) -> String {
    match geometric_mean(line.dots.iter().map(|dot| dot.0)) {
        Some(mean) => format!("{}: {mean:.2} over {} cases", line.label, line.dots.len()),
        None => format!("{}: nothing to compare", line.label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_geometric() {
        let mean = geometric_mean([0.5, 2.0, f64::NAN, -1.0].into_iter());
        assert!(mean.is_some_and(|it| (it - 1.0).abs() < 1e-12));
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }

    #[test]
    fn dots_take_the_colour_of_their_standing() {
        let line = Ratios {
            label: "read".into(),
            dots: vec![
                (2.0, Standing::Ahead, "a".into()),
                (0.01, Standing::Behind, "b".into()),
            ],
        };
        let text = draw("t", &[line]).inline();
        assert!(text.contains("class=\"good\"") && text.contains("class=\"bad\""));
    }
}
