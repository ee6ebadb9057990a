//! Charts of ratios: ours over the best rival, a dot per case, on a logarithmic axis around 1.
//!
//! Green dots are ahead beyond their interval, red ones behind, gray ones neither. The stroke is
//! the geometric mean.

use crate::chart::{MARGIN, TOP, WIDTH, titled};
use crate::compare::Standing;
use crate::svg::{SMALL, Svg, TEXT, fit, text_width, widest};

/// A row of dots.
#[derive(Debug, Clone)]
pub(crate) struct Ratios<'a> {
    pub(crate) label: &'a str,
    /// For each case its ratio, its standing and its tooltip.
    pub(crate) dots: Vec<(f64, Standing, String)>,
}

/// Ticks of the axis; dots beyond the outer ones are drawn at its ends.
const TICKS: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const ROW: f64 = 30.0;
/// Maximum width of a row's name; longer names are cut.
const LABEL_MAX: f64 = 164.0;
const NOTE: &str = "green: ahead, gray: within the interval, red: behind, stroke: geometric mean";

/// Draws rows of dots, each with its name to the left and the mean to the right.
pub(crate) fn draw(heading: &str, lines: &[Ratios<'_>]) -> Svg {
    let mean = |line: &Ratios<'_>| geometric_mean(line.dots.iter().map(|dot| dot.0));
    let shown = |line| mean(line).map_or(String::new(), |mean| format!("{mean:.2}"));
    let means: Vec<String> = lines.iter().map(shown).collect();
    let said = lines.iter().zip(&means);
    let said: Vec<String> = said
        .map(|(line, mean)| format!("{} {mean}", line.label))
        .collect();
    let label = format!("{heading}. {NOTE}. {}", said.join(", "));
    let bottom = TOP + ROW * lines.len() as f64;
    let mut svg = titled(bottom + 34.0, heading, &label);
    let names = widest(lines.iter().map(|it| it.label), TEXT).min(LABEL_MAX);
    let left = MARGIN + names + 10.0;
    let right = WIDTH - MARGIN - widest(means.iter().map(|it| &**it), TEXT) - 10.0;
    let ratios = || {
        lines
            .iter()
            .flat_map(|line| line.dots.iter().map(|it| it.0))
    };
    let least = ratios().fold(0.5, f64::min).max(TICKS[0]) / 1.1;
    let most = ratios().fold(2.0, f64::max).min(TICKS[6]) * 1.1;
    let at = |ratio: f64| {
        let share = (ratio.clamp(least, most) / least).ln() / (most / least).ln();
        left + (right - left) * share
    };
    for tick in TICKS
        .into_iter()
        .filter(|tick| (least..=most).contains(tick))
    {
        let class = if tick == 1.0 { "axis" } else { "grid" };
        svg.line(&[(at(tick), TOP - 3.0), (at(tick), bottom)], class);
        let text = format!("{tick}×");
        if text_width(&text, SMALL) < right - left {
            svg.text(at(tick), bottom + 13.0, "tick", "middle", &text);
        }
    }
    for ((index, line), shown) in lines.iter().enumerate().zip(&means) {
        let middle = TOP + ROW * (index as f64 + 0.5);
        let name = fit(line.label, names, TEXT);
        svg.text(left - 10.0, middle + 4.0, "label", "end", &name);
        svg.text(WIDTH - MARGIN, middle + 4.0, "label", "end", shown);
        for (nth, (ratio, standing, tip)) in line.dots.iter().enumerate() {
            // Three heights, so that dots of nearly the same ratio can be told apart.
            let place = (at(*ratio), middle + [0.0, -6.0, 6.0][nth % 3]);
            svg.dot(place, 3.6, standing.class(), tip);
        }
        if let Some(x) = mean(line).map(at) {
            svg.line(&[(x, middle - 12.0), (x, middle + 12.0)], "median");
        }
    }
    svg.text(WIDTH - MARGIN, bottom + 28.0, "note", "end", NOTE);
    svg
}

/// Returns the geometric mean of the positive finite values; `None` if there are none.
pub(crate) fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let sound = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    let (sum, count) = sound.fold((0.0, 0.0), |(sum, count), it| (sum + it.ln(), count + 1.0));
    (count > 0.0).then(|| f64::exp(sum / count))
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
    fn odd_figures_do_no_harm() {
        let mut random = millstream_testing::random();
        let odd = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            f64::MIN_POSITIVE,
        ];
        for _ in 0..1000 {
            let count = random.usize(..5);
            let dots = (0..count).map(|_| {
                let value = match random.usize(..2 * odd.len()) {
                    nth if nth < odd.len() => odd[nth],
                    _ => f64::from_bits(random.u64(..)),
                };
                (value, Standing::Level, String::new())
            });
            let dots = dots.collect();
            let text = draw("t", &[Ratios { label: "a", dots }]).inline();
            assert!(!text.contains("\"NaN") && !text.contains("\"inf"), "{text}");
        }
    }
}
