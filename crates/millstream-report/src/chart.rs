//! The pictures, one kind a file. All are as wide as a phone can show legibly and grow with their
//! room; all have a title, units at their axes, and a label for those who cannot see them.

use crate::markup::brief;
use crate::scale::Scale;
use crate::svg::{Anchor, SMALL, Svg, TEXT, fit, text_width, widest};

pub(crate) mod bar;
pub(crate) mod curve;
pub(crate) mod heat;
pub(crate) mod ratio;

/// Width of a picture, in its own units: on a phone of 360 pixels a unit is three quarters of one.
pub(crate) const WIDTH: f64 = 440.0;
/// Room left and right.
const MARGIN: f64 = 4.0;
/// Base line of the title.
const TITLE_LINE: f64 = 16.0;
/// Top of what is drawn below the title.
const TOP: f64 = 28.0;
/// Longest name of a row; longer ones are cut.
const LABEL_MAX: f64 = 164.0;
/// How much wider bold text is than plain text.
const BOLD: f64 = 1.12;

/// Whose figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Millstream's.
    Ours,
    /// Someone else's.
    Rival,
    /// The least that physics and the kernel demand.
    Limit,
}

impl Whose {
    /// Ours, a rival's or the limit's, by the contender's name.
    pub(crate) fn of(contender: &str) -> Whose {
        match contender {
            "limit" => Whose::Limit,
            "millstream" => Whose::Ours,
            _ if contender.starts_with("millstream-") => Whose::Ours,
            _ => Whose::Rival,
        }
    }

    /// The end of the names of its classes.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Whose::Ours => "ours",
            Whose::Rival => "rival",
            Whose::Limit => "limit",
        }
    }
}

/// A picture with its title, both cut to the width of the picture.
fn titled(height: f64, heading: &str, label: &str) -> Svg {
    let mut svg = Svg::new(WIDTH, height, label);
    let shown = fit(heading, WIDTH - 2.0 * MARGIN, 13.5);
    svg.text(MARGIN, TITLE_LINE, "title", Anchor::Start, &shown);
    svg
}

/// Labels of a horizontal axis at `y`, without those that would touch the one before.
fn ticks_below(svg: &mut Svg, places: impl Iterator<Item = (f64, String)>, y: f64) {
    let mut free_from = f64::NEG_INFINITY;
    for (x, label) in places {
        let half = text_width(&label, SMALL) / 2.0;
        let middle = x.clamp(MARGIN + half, WIDTH - MARGIN - half);
        if middle - half >= free_from {
            svg.text(middle, y, "tick", Anchor::Middle, &label);
            free_from = middle + half + 6.0;
        }
    }
}

/// Rows one below the other over a horizontal axis: a name to the left of each, a figure to the
/// right.
struct Rows<'a> {
    heading: &'a str,
    /// What stands below the axis.
    note: &'a str,
    /// What stands behind the number of a tick.
    unit: &'a str,
    row_height: f64,
    /// Name and figure of each row, and whether they are bold.
    names: Vec<(&'a str, String, bool)>,
}

impl Rows<'_> {
    /// Draws the frame. `scale` makes the scale between two places; `row` draws a row's figures,
    /// given its number and the height of its middle.
    fn draw(
        &self,
        scale: impl Fn((f64, f64)) -> Scale,
        row: impl Fn(&mut Svg, &Scale, usize, f64),
    ) -> Svg {
        let bottom = TOP + self.row_height * self.names.len() as f64;
        let figures = self
            .names
            .iter()
            .map(|(name, figure, _)| format!("{name} {figure}"));
        let said: Vec<String> = figures.collect();
        let label = format!("{}. {}. {}", self.heading, self.note, said.join(", "));
        let mut svg = titled(bottom + 34.0, self.heading, &label);
        let names = widest(self.names.iter().map(|it| it.0), TEXT * BOLD);
        let left = MARGIN + names.min(LABEL_MAX) + 10.0;
        let figures = widest(self.names.iter().map(|it| &*it.1), TEXT * BOLD);
        let right = WIDTH - MARGIN - figures - 10.0;
        let scale = scale((left, right));
        let ticks = scale.ticks();
        for tick in ticks.iter().map(|tick| scale.at(*tick)) {
            svg.line(&[(tick, TOP - 3.0), (tick, bottom)], "grid");
        }
        for (index, (name, figure, bold)) in self.names.iter().enumerate() {
            let middle = TOP + self.row_height * (index as f64 + 0.5);
            let class = if *bold { "strong" } else { "label" };
            let name = fit(name, left - MARGIN - 10.0, TEXT * BOLD);
            svg.text(left - 10.0, middle + 4.0, class, Anchor::End, &name);
            svg.text(WIDTH - MARGIN, middle + 4.0, class, Anchor::End, figure);
            row(&mut svg, &scale, index, middle);
        }
        let places = ticks
            .iter()
            .map(|it| (scale.at(*it), brief(*it) + self.unit));
        ticks_below(&mut svg, places, bottom + 13.0);
        let note = fit(self.note, WIDTH - 2.0 * MARGIN, SMALL);
        svg.text(WIDTH - MARGIN, bottom + 28.0, "note", Anchor::End, &note);
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bar::Bar;
    use heat::Heat;
    use proptest::prelude::*;

    fn bar(label: &str, value: f64) -> Bar {
        Bar {
            label: label.into(),
            whose: Whose::of(label),
            value,
            ends: (value * 0.8, value * 1.2),
            interval: Some((value * 0.9, value * 1.1)),
            marks: vec![("p99".into(), value * 2.0)],
        }
    }

    proptest! {
        #[test]
        fn odd_figures_do_no_harm(values in prop::collection::vec(any::<f64>(), 0..5)) {
            let bars: Vec<Bar> = values.iter().map(|value| bar("a", *value)).collect();
            let heat = Heat {
                heading: "h".into(),
                unit: "u".into(),
                higher: true,
                sizes: vec!["4K".into(); values.len()],
                depths: vec!["1".into(), "2".into()],
                cells: vec![values.iter().copied().map(Some).collect(), Vec::new()],
            };
            let pictures = [bar::draw("t", "x", &bars), heat::draw(&heat)];
            for text in pictures.map(|picture| picture.inline()) {
                prop_assert!(!text.contains("\"NaN") && !text.contains("\"inf"), "{text}");
            }
        }
    }

    #[test]
    fn bars_start_at_zero_and_wide_ranges_are_dots() {
        let near = [bar("millstream", 100.0), bar("read", 50.0)];
        let text = bar::draw("t", "MB/s", &near).inline();
        for part in ["bar-ours", "bar-rival", "whisker", "millstream p99: 200"] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let far = [bar("millstream", 1.0), bar("read", 5000.0)];
        let text = bar::draw("t", "us", &far).inline();
        assert!(text.contains("dot-ours") && !text.contains("bar-ours"));
    }
}
