//! Heat maps: a figure over two quantities, such as bandwidth over request size and depth.
//!
//! The best cell is filled, the others the paler the further they are from it, and the region
//! within 20 % of the best is outlined. Cells show their figure, and say it in full when pointed
//! at.

use std::fmt::Write as _;

use crate::chart::{MARGIN, TOP, WIDTH, title};
use crate::limits::NEAR_BEST;
use crate::markup::{brief, figure};
use crate::svg::{Anchor, SMALL, Svg, fit, number, text_width};

/// A map: `cells[row][column]`, row 0 on top; `None` where nothing was measured.
#[derive(Debug, Clone)]
pub struct Heat {
    /// What stands above.
    pub heading: String,
    /// What the figure is, and which direction is good.
    pub unit: String,
    /// Whether more is better.
    pub higher: bool,
    /// What is across, and its values.
    pub across: (String, Vec<String>),
    /// What is down, and its values.
    pub down: (String, Vec<String>),
    /// The figures.
    pub cells: Vec<Vec<Option<f64>>>,
}

const ROW: f64 = 24.0;
/// Opacity of the best cell and of one that is nothing beside it.
const OPACITY: (f64, f64) = (0.06, 0.96);

/// Draws the map.
#[must_use]
pub fn draw(map: &Heat) -> Svg {
    let (columns, rows) = (map.across.1.len().max(1), map.down.1.len());
    let labels = map.down.1.iter().map(|label| text_width(label, SMALL));
    let left = MARGIN + labels.fold(12.0, f64::max) + 6.0;
    let column = (WIDTH - MARGIN - left) / columns as f64;
    let top = TOP + 14.0;
    let bottom = top + ROW * rows as f64;
    let best = best(map);
    let said = match best {
        Some(best) => format!("best {} {}", figure(best), map.unit),
        None => "nothing measured".into(),
    };
    let label = format!("{}: {said}; the table beside has all cells", map.heading);
    let mut svg = Svg::new(WIDTH, bottom + 51.0, &label);
    title(&mut svg, &map.heading);
    svg.text(
        MARGIN,
        top - 6.0,
        "note",
        Anchor::Start,
        &format!("{} ↓", map.down.0),
    );
    for (y, name) in map.down.1.iter().enumerate() {
        let line = top + ROW * (y as f64 + 0.5) + 3.5;
        svg.text(left - 6.0, line, "tick", Anchor::End, name);
    }
    for (x, name) in map.across.1.iter().enumerate() {
        let middle = left + column * (x as f64 + 0.5);
        let name = fit(name, column, SMALL);
        svg.text(middle, bottom + 13.0, "tick", Anchor::Middle, &name);
    }
    let place = |x: usize, y: usize| [left + column * x as f64, top + ROW * y as f64, column, ROW];
    for y in 0..rows {
        for x in 0..columns {
            cell(&mut svg, map, (x, y), place(x, y), best);
        }
    }
    svg.path(&outline(map, best, (left, top, column)), "outline");
    foot(&mut svg, map, left, bottom + 29.0);
    svg
}

fn best(map: &Heat) -> Option<f64> {
    let figures = map.cells.iter().flatten().flatten().copied();
    let sound = figures.filter(|value| value.is_finite() && *value > 0.0);
    sound.reduce(|a, b| if (a > b) == map.higher { a } else { b })
}

/// How near to the best: 1 is the best, 0 is nothing beside it.
fn goodness(map: &Heat, x: usize, y: usize, best: Option<f64>) -> Option<f64> {
    let value = map
        .cells
        .get(y)?
        .get(x)
        .copied()?
        .filter(|value| value.is_finite() && *value >= 0.0)?;
    let best = best?;
    let share = if map.higher {
        value / best
    } else {
        best / value.max(f64::MIN_POSITIVE)
    };
    Some(share.clamp(0.0, 1.0))
}

fn cell(svg: &mut Svg, map: &Heat, at: (usize, usize), place: [f64; 4], best: Option<f64>) {
    let [left, top, width, height] = place;
    let inner = [left + 0.75, top + 0.75, width - 1.5, height - 1.5];
    let Some(share) = goodness(map, at.0, at.1, best) else {
        svg.rect_tip(inner, "no-cell", "not measured");
        return;
    };
    let value = map.cells[at.1][at.0].unwrap_or(0.0);
    let tip = format!(
        "{} {}, {} {}: {} {}, {:.0} % of the best",
        map.across.0,
        map.across.1[at.0],
        map.down.0,
        map.down.1[at.1],
        figure(value),
        map.unit,
        share * 100.0
    );
    let opacity = OPACITY.0 + (OPACITY.1 - OPACITY.0) * share;
    svg.cell(inner, "heat", opacity, &tip);
    let text = brief(value);
    if text_width(&text, 8.6) <= width - 1.0 {
        let class = if opacity > 0.52 { "in-full" } else { "in-cell" };
        let (x, y) = (left + width / 2.0, top + height / 2.0 + 3.4);
        svg.text(x, y, class, Anchor::Middle, &text);
    }
}

/// The border between the cells near the best and the others.
fn outline(map: &Heat, best: Option<f64>, (left, top, column): (f64, f64, f64)) -> String {
    let near = |x: usize, y: usize| {
        x < map.across.1.len()
            && y < map.down.1.len()
            && goodness(map, x, y, best).is_some_and(|share| share >= NEAR_BEST)
    };
    let mut d = String::new();
    for y in 0..map.down.1.len() {
        for x in 0..map.across.1.len() {
            if !near(x, y) {
                continue;
            }
            let (x0, y0) = (left + column * x as f64, top + ROW * y as f64);
            let (x1, y1) = (x0 + column, y0 + ROW);
            let sides = [
                (y == 0 || !near(x, y - 1), x0, y0, x1, y0),
                (!near(x, y + 1), x0, y1, x1, y1),
                (x == 0 || !near(x - 1, y), x0, y0, x0, y1),
                (!near(x + 1, y), x1, y0, x1, y1),
            ];
            for (drawn, ax, ay, bx, by) in sides {
                if drawn {
                    let (ax, ay, bx, by) = (number(ax), number(ay), number(bx), number(by));
                    let _ = write!(d, "M{ax} {ay}L{bx} {by}");
                }
            }
        }
    }
    d
}

fn foot(svg: &mut Svg, map: &Heat, left: f64, y: f64) {
    let direction = if map.higher {
        "more is better"
    } else {
        "less is better"
    };
    let words = format!("{}, {direction}", map.unit);
    let across = format!("{} →", map.across.0);
    let room = WIDTH - MARGIN - left - text_width(&across, SMALL) - 8.0;
    svg.text(left, y, "note", Anchor::Start, &fit(&words, room, SMALL));
    svg.text(WIDTH - MARGIN, y, "note", Anchor::End, &across);
    let outlined = "outlined: within 20 % of the best";
    svg.text(left, y + 14.0, "note", Anchor::Start, outlined);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(higher: bool) -> Heat {
        Heat {
            heading: "ours".into(),
            unit: "MB/s".into(),
            higher,
            across: ("size".into(), vec!["4K".into(), "64K".into()]),
            down: ("depth".into(), vec!["1".into(), "8".into()]),
            cells: vec![vec![Some(10.0), Some(85.0)], vec![None, Some(100.0)]],
        }
    }

    #[test]
    fn the_outline_goes_around_what_is_near_the_best() {
        // The right column: a box of 2 cells has 6 outer edges of cells.
        let text = draw(&map(true)).inline();
        let (_, rest) = text.split_once("class=\"outline\" d=\"").unwrap();
        let (d, _) = rest.split_once('"').unwrap();
        assert_eq!(d.matches('M').count(), 6, "{d}");
        assert!(text.contains("85 % of the best") && text.contains("not measured"));
        let text = draw(&map(false)).inline();
        let (_, rest) = text.split_once("class=\"outline\" d=\"").unwrap();
        let (d, _) = rest.split_once('"').unwrap();
        assert_eq!(d.matches('M').count(), 4, "{d}");
    }

    #[test]
    fn an_empty_map_is_drawn() {
        let mut it = map(true);
        it.cells = vec![vec![None, Some(f64::NAN)], vec![]];
        let text = draw(&it).inline();
        assert!(!text.contains("NaN") && text.contains("nothing measured"));
    }
}
