//! The pictures, one kind per file. All are as wide as a phone can show legibly and grow with the
//! available width; all have a title, units at their axes, and a label for screen readers.

use crate::svg::{Svg, fit};

pub(crate) mod heat;
pub(crate) mod ratio;

/// Width of a picture in its own units: on a phone of 360 pixels a unit is 3/4 of a pixel.
pub(crate) const WIDTH: f64 = 440.0;
/// Margin left and right.
const MARGIN: f64 = 4.0;
/// Base line of the title.
const TITLE_LINE: f64 = 16.0;
/// Top of the drawing below the title.
const TOP: f64 = 28.0;

/// Creates a picture with its title, cut to the width of the picture.
fn titled(height: f64, heading: &str, label: &str) -> Svg {
    let mut svg = Svg::new(WIDTH, height, label);
    let shown = fit(heading, WIDTH - 2.0 * MARGIN, 13.5);
    svg.text(MARGIN, TITLE_LINE, "title", "start", &shown);
    svg
}
