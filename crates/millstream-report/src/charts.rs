//! The pictures: heat maps of a figure over request size and depth, and charts of ratios.
//!
//! All have a title, units at their axes, and a label for screen readers. A name that is longer
//! than its room is cut by the edge of the picture.

use crate::cases::{Standing, geometric_mean};
use crate::limits::NEAR_BEST;
use crate::markup::figure;
use crate::svg::{MARGIN, Svg, TOP, WIDTH};

/// A map: `cells[depth][size]`, with the first depth at the top; `None` if not measured.
#[derive(Debug, Clone)]
pub(crate) struct Heat {
    pub(crate) heading: String,
    pub(crate) unit: String,
    pub(crate) higher: bool,
    pub(crate) sizes: Vec<String>,
    pub(crate) depths: Vec<String>,
    pub(crate) cells: Vec<Vec<Option<f64>>>,
}

const HEAT_ROW: f64 = 24.0;
const HEAT_LEFT: f64 = 36.0;
const DIGIT: f64 = 5.6;
/// Opacity of a cell whose figure is negligible beside the best, and of the best cell.
const OPACITY: (f64, f64) = (0.06, 0.96);

/// Draws a map. The best cell is opaque, the others are paler the further they are from it, and
/// those within 20 % of the best are outlined. The tooltip of a cell has its figure with the unit.
pub(crate) fn heat(map: &Heat) -> Svg {
    let column = (WIDTH - MARGIN - HEAT_LEFT) / map.sizes.len().max(1) as f64;
    let top = TOP + 14.0;
    let bottom = top + HEAT_ROW * map.depths.len() as f64;
    let figures = map.cells.iter().flatten().flatten().copied();
    let sound = figures.filter(|value| value.is_finite() && *value > 0.0);
    let best = sound.reduce(|a, b| if (a > b) == map.higher { a } else { b });
    let said = best.map_or("nothing measured".into(), |best| {
        format!("best {} {}", figure(best), map.unit)
    });
    let mut svg = Svg::new(
        bottom + 51.0,
        &map.heading,
        &format!("{}: {said}", map.heading),
    );
    svg.text(MARGIN, top - 6.0, "note", "start", "in flight ↓");
    for (y, name) in map.depths.iter().enumerate() {
        let line = top + HEAT_ROW * (y as f64 + 0.5) + 3.5;
        svg.text(HEAT_LEFT - 6.0, line, "tick", "end", name);
    }
    for (x, name) in map.sizes.iter().enumerate() {
        let left = HEAT_LEFT + column * x as f64;
        svg.text(left + column / 2.0, bottom + 13.0, "tick", "middle", name);
        for y in 0..map.depths.len() {
            let place = [left, top + HEAT_ROW * y as f64, column, HEAT_ROW];
            cell(&mut svg, map, (x, y), place, best);
        }
    }
    let direction = if map.higher { "more" } else { "less" };
    let words = format!("{}, {direction} is better", map.unit);
    let outlined = "outlined: within 20 % of the best";
    svg.text(HEAT_LEFT, bottom + 29.0, "note", "start", &words);
    svg.text(
        WIDTH - MARGIN,
        bottom + 29.0,
        "note",
        "end",
        "request size →",
    );
    svg.text(HEAT_LEFT, bottom + 43.0, "note", "start", outlined);
    svg
}

fn cell(svg: &mut Svg, map: &Heat, (x, y): (usize, usize), place: [f64; 4], best: Option<f64>) {
    let [left, top, width, height] = place;
    let inner = [left + 1.0, top + 1.0, width - 2.0, height - 2.0];
    let value = map.cells.get(y).and_then(|row| *row.get(x)?);
    let sound = value.filter(|value| value.is_finite() && *value >= 0.0);
    let Some((value, best)) = sound.zip(best) else {
        svg.rect(inner, "no-cell", 1.0, "not measured");
        return;
    };
    let share = match map.higher {
        true => value / best,
        false => best / value.max(f64::MIN_POSITIVE),
    };
    let tip = format!(
        "request size {}, in flight {}: {} {}, {:.0} % of the best",
        map.sizes[x],
        map.depths[y],
        figure(value),
        map.unit,
        share * 100.0
    );
    let opacity = OPACITY.0 + (OPACITY.1 - OPACITY.0) * share.clamp(0.0, 1.0);
    let near = share >= NEAR_BEST;
    let class = if near { "heat outline" } else { "heat" };
    svg.rect(inner, class, opacity, &tip);
    let text = figure(value);
    if text.len() as f64 * DIGIT < width {
        let class = if opacity > 0.52 { "in-full" } else { "in-cell" };
        let (x, y) = (left + width / 2.0, top + height / 2.0 + 3.4);
        svg.text(x, y, class, "middle", &text);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Ratios<'a> {
    pub(crate) label: &'a str,
    /// For each case its ratio, its standing and its tooltip.
    pub(crate) dots: Vec<(f64, Standing, String)>,
}

/// Ticks of the axis; dots beyond the outer ones are drawn at its ends.
const TICKS: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const RATIO_ROW: f64 = 30.0;
/// Left and right end of the axis, between the names and the means.
const AXIS: (f64, f64) = (82.0, WIDTH - MARGIN - 44.0);
const NOTE: &str = "green: ahead, gray: level, red: behind, stroke: geometric mean";

/// Draws rows of dots on a logarithmic axis around 1, each with its name to the left and the mean
/// to the right. Green dots are ahead beyond their interval, red ones behind, gray ones neither.
pub(crate) fn ratios(heading: &str, lines: &[Ratios<'_>]) -> Svg {
    let mean = |line: &Ratios<'_>| geometric_mean(line.dots.iter().map(|dot| dot.0));
    let shown = |line| mean(line).map_or(String::new(), |mean| format!("{mean:.2}"));
    let said = lines
        .iter()
        .map(|line| format!("{} {}", line.label, shown(line)));
    let label = format!("{heading}. {NOTE}. {}", said.collect::<Vec<_>>().join(", "));
    let bottom = TOP + RATIO_ROW * lines.len() as f64;
    let mut svg = Svg::new(bottom + 34.0, heading, &label);
    let all = || {
        lines
            .iter()
            .flat_map(|line| line.dots.iter().map(|it| it.0))
    };
    let least = all().fold(0.5, f64::min).max(TICKS[0]) / 1.1;
    let most = all().fold(2.0, f64::max).min(TICKS[6]) * 1.1;
    let at = |ratio: f64| {
        let share = (ratio.clamp(least, most) / least).ln() / (most / least).ln();
        AXIS.0 + (AXIS.1 - AXIS.0) * share
    };
    for tick in TICKS {
        if (least..=most).contains(&tick) {
            let class = if tick == 1.0 { "axis" } else { "grid" };
            svg.line(&[(at(tick), TOP - 3.0), (at(tick), bottom)], class);
            svg.text(
                at(tick),
                bottom + 13.0,
                "tick",
                "middle",
                &format!("{tick}×"),
            );
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let middle = TOP + RATIO_ROW * (index as f64 + 0.5);
        svg.text(AXIS.0 - 10.0, middle + 4.0, "label", "end", line.label);
        svg.text(WIDTH - MARGIN, middle + 4.0, "label", "end", &shown(line));
        for (nth, (ratio, standing, tip)) in line.dots.iter().enumerate() {
            // Three heights, so that dots of nearly the same ratio can be told apart.
            let place = (at(*ratio), middle + [0.0, -6.0, 6.0][nth % 3]);
            svg.dot(place, 3.6, standing.word(), tip);
        }
        if let Some(x) = mean(line).map(at) {
            svg.line(&[(x, middle - 12.0), (x, middle + 12.0)], "median");
        }
    }
    svg.text(WIDTH - MARGIN, bottom + 28.0, "note", "end", NOTE);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_near_the_best_are_outlined() {
        let mut map = Heat {
            heading: "ours".into(),
            unit: "MB/s".into(),
            higher: true,
            sizes: vec!["4K".into(), "64K".into()],
            depths: vec!["1".into(), "8".into()],
            cells: vec![vec![Some(10.0), Some(85.0)], vec![None, Some(100.0)]],
        };
        let text = heat(&map).inline();
        assert_eq!(text.matches("heat outline").count(), 2);
        assert!(text.contains("85 % of the best") && text.contains("not measured"));
        map.higher = false;
        assert_eq!(heat(&map).inline().matches("heat outline").count(), 1);
        map.cells = vec![vec![None, Some(f64::NAN)], vec![]];
        assert!(heat(&map).inline().contains("nothing measured"));
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
            let text = ratios("t", &[Ratios { label: "a", dots }]).inline();
            assert!(!text.contains("\"NaN") && !text.contains("\"inf"), "{text}");
        }
    }
}
