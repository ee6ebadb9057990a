//! Heat maps: a figure over request size and depth.
//!
//! The best cell is opaque, the others are paler the further they are from it, and those within 20
//! % of the best are outlined. Cells show their figure; the tooltip has it with its unit.

use crate::chart::{MARGIN, TOP, WIDTH, titled};
use crate::limits::NEAR_BEST;
use crate::markup::figure;
use crate::svg::{SMALL, Svg, fit, text_width, widest};

/// A map: `cells[depth][size]`, with the first depth at the top; `None` if not measured.
#[derive(Debug, Clone)]
pub(crate) struct Heat {
    pub(crate) heading: String,
    pub(crate) unit: String,
    /// Whether more is better.
    pub(crate) higher: bool,
    pub(crate) sizes: Vec<String>,
    pub(crate) depths: Vec<String>,
    pub(crate) cells: Vec<Vec<Option<f64>>>,
}

const ROW: f64 = 24.0;
/// Opacity of a cell whose figure is negligible beside the best, and of the best cell.
const OPACITY: (f64, f64) = (0.06, 0.96);
const ACROSS: &str = "request size";
const DOWN: &str = "in flight";

/// Draws the map.
pub(crate) fn draw(map: &Heat) -> Svg {
    let left = MARGIN + widest(map.depths.iter().map(|it| &**it), SMALL).max(12.0) + 6.0;
    let column = (WIDTH - MARGIN - left) / map.sizes.len().max(1) as f64;
    let top = TOP + 14.0;
    let bottom = top + ROW * map.depths.len() as f64;
    let best = best(map);
    let said = match best {
        Some(best) => format!("best {} {}", figure(best), map.unit),
        None => "nothing measured".into(),
    };
    let label = format!("{}: {said}; the table beside has all cells", map.heading);
    let mut svg = titled(bottom + 51.0, &map.heading, &label);
    svg.text(MARGIN, top - 6.0, "note", "start", &format!("{DOWN} ↓"));
    for (y, name) in map.depths.iter().enumerate() {
        let line = top + ROW * (y as f64 + 0.5) + 3.5;
        svg.text(left - 6.0, line, "tick", "end", name);
    }
    for (x, name) in map.sizes.iter().enumerate() {
        let middle = left + column * (x as f64 + 0.5);
        let name = fit(name, column, SMALL);
        svg.text(middle, bottom + 13.0, "tick", "middle", &name);
        for y in 0..map.depths.len() {
            let place = [left + column * x as f64, top + ROW * y as f64, column, ROW];
            cell(&mut svg, map, (x, y), place, best);
        }
    }
    foot(&mut svg, map, left, bottom + 29.0);
    svg
}

fn best(map: &Heat) -> Option<f64> {
    let figures = map.cells.iter().flatten().flatten().copied();
    let sound = figures.filter(|value| value.is_finite() && *value > 0.0);
    sound.reduce(|a, b| if (a > b) == map.higher { a } else { b })
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
        "{ACROSS} {}, {DOWN} {}: {} {}, {:.0} % of the best",
        map.sizes[x],
        map.depths[y],
        figure(value),
        map.unit,
        share * 100.0
    );
    let opacity = OPACITY.0 + (OPACITY.1 - OPACITY.0) * share.clamp(0.0, 1.0);
    let class = if share >= NEAR_BEST {
        "heat outline"
    } else {
        "heat"
    };
    svg.rect(inner, class, opacity, &tip);
    let text = figure(value);
    if text_width(&text, 8.6) <= width - 1.0 {
        let class = if opacity > 0.52 { "in-full" } else { "in-cell" };
        let (x, y) = (left + width / 2.0, top + height / 2.0 + 3.4);
        svg.text(x, y, class, "middle", &text);
    }
}

fn foot(svg: &mut Svg, map: &Heat, left: f64, y: f64) {
    let direction = if map.higher { "more" } else { "less" };
    let words = format!("{}, {direction} is better", map.unit);
    let across = format!("{ACROSS} →");
    let room = WIDTH - MARGIN - left - text_width(&across, SMALL) - 8.0;
    svg.text(left, y, "note", "start", &fit(&words, room, SMALL));
    svg.text(WIDTH - MARGIN, y, "note", "end", &across);
    let outlined = "outlined: within 20 % of the best";
    svg.text(left, y + 14.0, "note", "start", outlined);
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
        let text = draw(&map).inline();
        assert_eq!(text.matches("heat outline").count(), 2);
        assert!(text.contains("85 % of the best") && text.contains("not measured"));
        map.higher = false;
        assert_eq!(draw(&map).inline().matches("heat outline").count(), 1);
        map.cells = vec![vec![None, Some(f64::NAN)], vec![]];
        assert!(draw(&map).inline().contains("nothing measured"));
    }
}
