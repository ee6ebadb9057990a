//! A writer of SVG: shapes and text, with every string escaped and every number finite.
//!
//! A picture is either part of a page, whose style sheet colors it, or a file of its own that
//! includes the colors, for places such as a README. All pictures are as wide as a phone can show
//! legibly, and grow with the available width.

use std::fmt::Write as _;

use crate::markup::escape;

/// Colors for light and dark, and the classes of pictures.
pub(crate) const STYLE: &str = concat!(include_str!("colors.css"), include_str!("picture.css"));

/// Width of a picture in its own units: on a phone of 360 pixels a unit is 3/4 of a pixel.
pub(crate) const WIDTH: f64 = 440.0;
/// Margin left and right.
pub(crate) const MARGIN: f64 = 4.0;
/// Top of the drawing below the title.
pub(crate) const TOP: f64 = 28.0;

#[derive(Debug, Clone)]
pub(crate) struct Svg {
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// Creates a picture with its title; `label` is its text for screen readers.
    pub(crate) fn new(height: f64, title: &str, label: &str) -> Svg {
        let mut svg = Svg {
            height,
            label: label.to_owned(),
            body: String::new(),
        };
        svg.text(MARGIN, 16.0, "title", "start", title);
        svg
    }

    /// Draws a rectangle (x, y, width, height) with a class of the style sheet and a tooltip; an
    /// opacity below 1 makes it paler.
    pub(crate) fn rect(&mut self, place: [f64; 4], class: &str, opacity: f64, tip: &str) {
        let [x, y] = [place[0], place[1]].map(number);
        let [width, height] = [place[2], place[3]].map(|side| number(side.max(0.0)));
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             fill-opacity=\"{opacity:.2}\"><title>{}</title></rect>",
            escape(tip),
        );
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], class: &str) {
        let places = points
            .iter()
            .map(|(x, y)| format!("{} {}", number(*x), number(*y)));
        let places: Vec<String> = places.collect();
        let d = places.join("L");
        let _ = write!(self.body, "<path class=\"{class}\" d=\"M{d}\"/>");
    }

    pub(crate) fn dot(&mut self, at: (f64, f64), radius: f64, class: &str, tip: &str) {
        let [x, y, radius] = [at.0, at.1, radius].map(number);
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"><title>{}</title>\
             </circle>",
            escape(tip),
        );
    }

    /// Draws text on the base line `y`; `anchor` is its `text-anchor` relative to `x`.
    pub(crate) fn text(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let _ = write!(
            self.body,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            number(x),
            number(y),
            escape(text),
        );
    }

    /// Returns the picture as a part of a page.
    pub(crate) fn inline(&self) -> String {
        self.element("", "")
    }

    /// Returns the picture as a file of its own, with its colors for light and dark.
    pub(crate) fn standalone(&self) -> String {
        let style = format!(
            "<title>{}</title><style>{STYLE}</style>\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>",
            escape(&self.label),
        );
        let [width, height] = [WIDTH, self.height].map(|side| number(side * 1.5));
        let size =
            format!(" xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"");
        self.element(&size, &style) + "\n"
    }

    fn element(&self, attributes: &str, head: &str) -> String {
        format!(
            "<svg class=\"picture\"{attributes} viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-label=\"{}\">{head}{}</svg>",
            number(WIDTH),
            number(self.height),
            escape(&self.label),
            self.body,
        )
    }
}

/// Formats a coordinate with one decimal, which is finer than any screen.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    // Adding 0 turns -0 into 0.
    ((value * 10.0).round() / 10.0 + 0.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_escapes_and_is_finite() {
        let mut svg = Svg::new(50.0, "t", "a < b");
        svg.rect([1.0, f64::NAN, 10.04, -3.0], "bar", 1.0, "x & y");
        svg.text(5.0, -0.01, "label", "end", "<script>");
        let text = svg.inline();
        for part in [
            "aria-label=\"a &lt; b\"",
            "x=\"1\" y=\"0\" width=\"10\" height=\"0\"",
            "y=\"0\" text-anchor=\"end\">&lt;script&gt;</text>",
            "<title>x &amp; y</title>",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(svg.standalone().contains("prefers-color-scheme"));
    }
}
