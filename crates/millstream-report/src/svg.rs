//! A writer of SVG: shapes and text, every string escaped, every number finite.
//!
//! A picture is either part of a page, whose style sheet colours it, or a file of its own with the
//! colours inside, for places such as a README. It has a width and a height of its own and scales
//! to the room it is given. Text is laid out by an estimate of its width, because the font is the
//! reader's; it errs to the wide side, so that labels do not touch.

use std::fmt::Write as _;

use crate::markup::escape;
use crate::theme;

/// Size of text in pictures.
pub const TEXT: f64 = 12.0;
/// Size of what stands at axes and in cells.
pub const SMALL: f64 = 10.5;

/// Where a text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// At its left end.
    Start,
    /// In its middle.
    Middle,
    /// At its right end.
    End,
}

/// A picture being drawn.
#[derive(Debug, Clone)]
pub struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// An empty picture; `label` is what a screen reader says of it.
    #[must_use]
    pub fn new(width: f64, height: f64, label: &str) -> Svg {
        Svg {
            width,
            height,
            label: label.to_owned(),
            body: String::new(),
        }
    }

    /// Its width, in its own units.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.width
    }

    /// Its height.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.height
    }

    /// A rectangle of a class of the style sheet.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        self.rect_open(x, y, width, height, class);
        self.body.push_str("/>");
    }

    /// A rectangle that is more or less opaque (0 to 1) and says something when pointed at.
    pub fn cell(&mut self, place: [f64; 4], class: &str, opacity: f64, tip: &str) {
        let [x, y, width, height] = place;
        self.rect_open(x, y, width, height, class);
        let _ = write!(self.body, " fill-opacity=\"{opacity:.2}\">");
        self.tip(tip);
        self.body.push_str("</rect>");
    }

    /// A rectangle that says something when pointed at.
    pub fn rect_tip(&mut self, place: [f64; 4], class: &str, tip: &str) {
        let [x, y, width, height] = place;
        self.rect_open(x, y, width, height, class);
        self.body.push('>');
        self.tip(tip);
        self.body.push_str("</rect>");
    }

    fn rect_open(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            number(x),
            number(y),
            number(width.max(0.0)),
            number(height.max(0.0)),
        );
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            "<path class=\"{class}\" d=\"M{} {}L{} {}\"/>",
            number(from.0),
            number(from.1),
            number(to.0),
            number(to.1),
        );
    }

    /// A line through points.
    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let mut d = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(d, "{letter}{} {}", number(*x), number(*y));
        }
        self.path(&d, class);
    }

    /// A path that this crate wrote itself.
    pub fn path(&mut self, d: &str, class: &str) {
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// A dot that says something when pointed at.
    pub fn dot(&mut self, at: (f64, f64), radius: f64, class: &str, tip: &str) {
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\">",
            number(at.0),
            number(at.1),
            number(radius),
        );
        self.tip(tip);
        self.body.push_str("</circle>");
    }

    /// Text on the base line `y`.
    pub fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = write!(
            self.body,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>",
            number(x),
            number(y),
            escape(text),
        );
    }

    fn tip(&mut self, tip: &str) {
        if !tip.is_empty() {
            let _ = write!(self.body, "<title>{}</title>", escape(tip));
        }
    }

    /// The picture as a part of a page.
    #[must_use]
    pub fn inline(&self) -> String {
        self.element("", "")
    }

    /// The picture as a file of its own, with its colours for light and dark.
    #[must_use]
    pub fn standalone(&self) -> String {
        let style = format!(
            "<title>{}</title><style>{}{}</style>\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>",
            escape(&self.label),
            theme::COLOURS,
            theme::PICTURE,
        );
        let size = format!(
            " xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\"",
            number(self.width * 1.5),
            number(self.height * 1.5),
        );
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

/// A number of a picture: a tenth is finer than any screen.
#[must_use]
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// The width that a text of this size takes, on the wide side.
#[must_use]
pub fn text_width(text: &str, size: f64) -> f64 {
    let units: f64 = text.chars().map(character_width).sum();
    units * size
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

/// How much wider bold text is than plain text.
pub const BOLD: f64 = 1.12;

/// The text cut so that it fits in `width`.
#[must_use]
pub fn fit(text: &str, width: f64, size: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut room = width - size;
    let mut out = String::new();
    for character in text.chars() {
        room -= character_width(character) * size;
        if room < 0.0 {
            break;
        }
        out.push(character);
    }
    out + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_escapes_and_scales() {
        let mut svg = Svg::new(100.0, 50.0, "a < b");
        svg.rect(1.0, f64::NAN, 10.04, -3.0, "bar");
        svg.text(5.0, 5.0, "label", Anchor::End, "<script>");
        svg.dot((1.0, 2.0), 3.0, "dot", "x & y");
        let text = svg.inline();
        assert!(text.contains("viewBox=\"0 0 100 50\" role=\"img\" aria-label=\"a &lt; b\""));
        assert!(text.contains("<rect class=\"bar\" x=\"1\" y=\"0\" width=\"10\" height=\"0\"/>"));
        assert!(text.contains(">&lt;script&gt;</text>"));
        assert!(text.contains("<title>x &amp; y</title>"));
        assert!(!text.contains("NaN") && !text.contains("<script"));
    }

    #[test]
    fn a_file_of_its_own_brings_its_colours() {
        let text = Svg::new(10.0, 10.0, "t").standalone();
        assert!(text.starts_with("<svg") && text.contains("prefers-color-scheme"));
        assert!(text.contains("xmlns"));
    }

    #[test]
    fn text_is_cut_to_its_room() {
        assert_eq!(fit("short", 100.0, 12.0), "short");
        let cut = fit("a very long name of a contender", 80.0, 12.0);
        assert!(
            cut.ends_with('…') && text_width(&cut, 12.0) <= 92.0,
            "{cut}"
        );
    }
}
