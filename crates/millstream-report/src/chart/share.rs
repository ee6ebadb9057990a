//! Shares: stacked bars from 0 to 100 %, for who was idle and where time went.

use crate::chart::{MARGIN, TOP, WIDTH, ticks_below, title};
use crate::markup::percent;
use crate::svg::{Anchor, SMALL, Svg, TEXT, fit, text_width};

/// One bar.
#[derive(Debug, Clone)]
pub struct Shares {
    /// What it is of.
    pub label: String,
    /// Parts of the whole: a name, a class of the style sheet, and the share (0 to 1).
    pub parts: Vec<(String, &'static str, f64)>,
}

const ROW: f64 = 24.0;
const LABEL_MAX: f64 = 176.0;

/// Draws bars and a key of the parts.
#[must_use]
pub fn draw(heading: &str, note: &str, bars: &[Shares]) -> Svg {
    let keys = keys(bars);
    let bottom = TOP + ROW * bars.len() as f64;
    let key_lines = lay_out(&keys);
    let lines = key_lines.last().map_or(0.0, |last| last.1 + 1.0);
    let height = bottom + 20.0 + lines * 17.0 + if note.is_empty() { 4.0 } else { 18.0 };
    let said: Vec<String> = bars.iter().map(words).collect();
    let mut svg = Svg::new(WIDTH, height, &format!("{heading}. {}", said.join("; ")));
    title(&mut svg, heading);
    let labels = bars.iter().map(|bar| text_width(&bar.label, TEXT));
    let widest = labels.fold(0.0, f64::max).min(LABEL_MAX);
    let left = MARGIN + widest + if widest > 0.0 { 8.0 } else { 0.0 };
    let right = WIDTH - MARGIN - 8.0;
    let at = |share: f64| left + (right - left) * share.clamp(0.0, 1.0);
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let name = fit(&bar.label, widest, TEXT);
        svg.text(left - 8.0, y + ROW / 2.0 + 4.0, "label", Anchor::End, &name);
        svg.rect(left, y + 3.0, right - left, ROW - 6.0, "no-cell");
        let mut before = 0.0;
        for (name, class, share) in &bar.parts {
            let (from, to) = (at(before), at(before + share));
            let tip = format!("{}: {name} {}", bar.label, percent(*share));
            svg.rect_tip([from, y + 3.0, to - from, ROW - 6.0], class, &tip);
            before += share.max(0.0);
        }
    }
    let quarters = [0.0, 0.25, 0.5, 0.75, 1.0];
    for share in quarters {
        svg.line((at(share), TOP), (at(share), bottom), "grid");
    }
    let places: Vec<_> = quarters.map(|it| (at(it), percent(it))).into();
    ticks_below(&mut svg, &places, bottom + 13.0);
    for ((name, class), (x, line)) in keys.iter().zip(&key_lines) {
        let y = bottom + 32.0 + line * 17.0;
        svg.rect(*x, y - 8.5, 9.0, 9.0, class);
        svg.text(x + 14.0, y, "note", Anchor::Start, name);
    }
    let room = WIDTH - 2.0 * MARGIN;
    let note = fit(note, room, SMALL);
    svg.text(MARGIN, height - 5.0, "note", Anchor::Start, &note);
    svg
}

/// The parts of all bars, each once, in the order in which they first stand.
fn keys(bars: &[Shares]) -> Vec<(&str, &'static str)> {
    let mut keys: Vec<(&str, &'static str)> = Vec::new();
    for (name, class, _) in bars.iter().flat_map(|bar| &bar.parts) {
        if !keys.iter().any(|(known, _)| known == name) {
            keys.push((name, class));
        }
    }
    keys
}

/// Where each key stands: x, and the number of its line.
fn lay_out(keys: &[(&str, &'static str)]) -> Vec<(f64, f64)> {
    let (mut x, mut line) = (MARGIN, 0.0);
    let mut places = Vec::new();
    for (name, _) in keys {
        let width = 14.0 + text_width(name, SMALL) + 14.0;
        if x > MARGIN && x + width > WIDTH {
            (x, line) = (MARGIN, line + 1.0);
        }
        places.push((x, line));
        x += width;
    }
    places
}

fn words(bar: &Shares) -> String {
    let parts: Vec<String> = bar
        .parts
        .iter()
        .map(|(name, _, share)| format!("{name} {}", percent(*share)))
        .collect();
    format!("{}: {}", bar.label, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_once_and_wrap() {
        let part = |name: &str, share: f64| (name.to_owned(), "idle", share);
        let bars = [
            Shares {
                label: "a".into(),
                parts: vec![part("a rather long name of a part", 0.5), part("idle", 0.2)],
            },
            Shares {
                label: "b".into(),
                parts: vec![
                    part("idle", f64::NAN),
                    part("another rather long name of a part", 2.0),
                    part("and yet another one of these", 0.1),
                ],
            },
        ];
        let text = draw("t", "n", &bars).inline();
        assert_eq!(text.matches(">idle</text>").count(), 1);
        assert!(!text.contains("NaN"));
        let places = lay_out(&keys(&bars));
        assert!(places.last().is_some_and(|last| last.1 >= 1.0));
    }
}
