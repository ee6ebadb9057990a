//! Ratios: ours over the best rival, a dot a case, on a logarithmic axis around 1.
//!
//! Green dots lead beyond their interval, red ones trail beyond it, gray ones do neither. The
//! stroke is the geometric mean.

use crate::chart::Rows;
use crate::compare::Standing;
use crate::scale::Scale;
use crate::svg::Svg;

/// A line of dots.
#[derive(Debug, Clone)]
pub(crate) struct Ratios<'a> {
    pub(crate) label: &'a str,
    /// Each case: its ratio, how it stands, and its tooltip.
    pub(crate) dots: Vec<(f64, Standing, String)>,
}

/// The axis ends here; dots beyond stand at its end.
const ENDS: (f64, f64) = (0.1, 10.0);

/// Draws lines of dots.
pub(crate) fn draw(heading: &str, lines: &[Ratios<'_>]) -> Svg {
    let mean = |line: &Ratios<'_>| geometric_mean(line.dots.iter().map(|dot| dot.0));
    let name = |line| mean(line).map_or(String::new(), |mean| format!("{mean:.2}"));
    let frame = Rows {
        heading,
        note: "green: ahead, gray: within the interval, red: behind, stroke: geometric mean",
        unit: "×",
        row_height: 30.0,
        names: lines
            .iter()
            .map(|line| (line.label, name(line), false))
            .collect(),
    };
    frame.draw(
        |places| scale(lines, places),
        |svg, scale, index, middle| {
            svg.line(
                &[
                    (scale.at(1.0), middle - 15.0),
                    (scale.at(1.0), middle + 15.0),
                ],
                "axis",
            );
            for (nth, (ratio, standing, tip)) in lines[index].dots.iter().enumerate() {
                // Three heights, so that dots of nearly the same ratio can be told apart.
                let offset = [0.0, -6.0, 6.0][nth % 3];
                svg.dot(
                    (scale.at(*ratio), middle + offset),
                    3.6,
                    standing.dot(),
                    tip,
                );
            }
            if let Some(x) = mean(&lines[index]).map(|mean| scale.at(mean)) {
                svg.line(&[(x, middle - 12.0), (x, middle + 12.0)], "median");
            }
        },
    )
}

fn scale(lines: &[Ratios<'_>], places: (f64, f64)) -> Scale {
    let ratios = || {
        lines
            .iter()
            .flat_map(|line| line.dots.iter().map(|it| it.0))
    };
    let least = ratios().fold(0.5, f64::min).max(ENDS.0);
    let most = ratios().fold(2.0, f64::max).min(ENDS.1);
    Scale::log(least, most, places)
}

/// The geometric mean of the positive values; `None` if there are none.
pub(crate) fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let sound = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    let (sum, count) = sound.fold((0.0, 0.0), |(sum, count), it| (sum + it.ln(), count + 1.0));
    (count > 0.0).then(|| f64::exp(sum / count))
}

#[test]
fn the_mean_is_geometric() {
    let mean = geometric_mean([0.5, 2.0, f64::NAN, -1.0].into_iter());
    assert!(mean.is_some_and(|it| (it - 1.0).abs() < 1e-12));
    assert_eq!(geometric_mean(std::iter::empty()), None);
}
