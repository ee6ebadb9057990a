//! A writer of SVG: shapes and text, with every string escaped and every number finite.
//!
//! A picture is either part of a page, whose style sheet colors it, or a file of its own that
//! includes the colors, for places such as a README. Text is laid out by an estimate of its width,
//! because the font is the reader's; the estimate errs on the wide side, so that labels do not
//! touch.

use std::fmt::Write as _;

use crate::markup::escape;

/// Colors for light and dark, and the classes of pictures.
pub(crate) const STYLE: &str = concat!(include_str!("colors.css"), include_str!("picture.css"));

/// Font size of text in pictures.
pub(crate) const TEXT: f64 = 12.0;
/// Font size of text at axes and in cells.
pub(crate) const SMALL: f64 = 10.5;

/// A picture being drawn.
#[derive(Debug, Clone)]
pub(crate) struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// Creates an empty picture; `label` is its text for screen readers.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Svg {
        Svg {
            width,
            height,
            label: label.to_owned(),
            body: String::new(),
        }
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

    /// Draws a line through points.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], class: &str) {
        let places = points
            .iter()
            .map(|(x, y)| format!("{} {}", number(*x), number(*y)));
        let places: Vec<String> = places.collect();
        let d = places.join("L");
        let _ = write!(self.body, "<path class=\"{class}\" d=\"M{d}\"/>");
    }

    /// Draws a dot with a tooltip.
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
        let [width, height] = [self.width, self.height].map(|side| number(side * 1.5));
        let size =
            format!(" xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"");
        self.element(&size, &style) + "\n"
    }

    fn element(&self, attributes: &str, head: &str) -> String {
        format!(
            "<svg class=\"picture\"{attributes} viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-label=\"{}\">{head}{}</svg>",
            number(self.width),
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

/// Returns an upper estimate of the width of a text at a font size.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(character_width).sum::<f64>() * size
}

/// Returns the width of the widest of several texts at a font size.
pub(crate) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>, size: f64) -> f64 {
    let widths = texts.into_iter().map(|text| text_width(text, size));
    widths.fold(0.0, f64::max)
}

fn character_width(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' => 0.32,
        'f' | 't' | 'r' | '-' | '(' | ')' | '/' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.92,
        'A'..='Z' => 0.72,
        _ if u32::from(character) >= 0x1100 => 1.05,
        _ => 0.63,
    }
}

/// Cuts a text so that it fits in `width`.
pub(crate) fn fit(text: &str, width: f64, size: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut room = width - size;
    let head = text.chars().take_while(|character| {
        room -= character_width(*character) * size;
        room >= 0.0
    });
    head.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_escapes_and_is_finite() {
        let mut svg = Svg::new(100.0, 50.0, "a < b");
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

    #[test]
    fn text_is_cut_to_its_room() {
        assert_eq!(fit("short", 100.0, 12.0), "short");
        let cut = fit("a very long name of a contender", 80.0, 12.0);
        assert!(cut.ends_with('…') && text_width(&cut, 12.0) <= 92.0);
    }
}
