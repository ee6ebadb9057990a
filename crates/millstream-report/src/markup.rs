//! Text and numbers for HTML and SVG.
//!
//! Everything that comes from outside (names in traces, contenders, reasons) passes [`escape`], so
//! that it can be neither markup nor script, and cannot turn the direction of the text around it.

use std::borrow::Cow;

/// Text as it may stand between tags and in quoted attributes of HTML and XML. Control characters,
/// what XML forbids, and the characters that reorder text become U+FFFD.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ if is_forbidden(character) => out.push('\u{FFFD}'),
            _ => out.push(character),
        }
    }
    Cow::Owned(out)
}

fn is_plain(character: char) -> bool {
    !matches!(character, '&' | '<' | '>' | '"' | '\'') && !is_forbidden(character)
}

fn is_forbidden(character: char) -> bool {
    let reorders = matches!(character,
        '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let no_xml = matches!(character, '\u{FFFE}' | '\u{FFFF}');
    (character.is_control() && character != '\n') || reorders || no_xml
}

/// At most `max` characters; a cut one ends in an ellipsis.
#[must_use]
pub fn shorten(text: &str, max: usize) -> Cow<'_, str> {
    if text.chars().nth(max).is_none() {
        return Cow::Borrowed(text);
    }
    let head: String = text.chars().take(max.saturating_sub(1)).collect();
    Cow::Owned(head + "…")
}

/// A figure with the digits that mean something, thousands apart.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "–".into(),
        0.0 => "0".into(),
        size if size >= 1e15 => format!("{value:.2e}"),
        size if size >= 1000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A whole number, thousands apart.
#[must_use]
pub fn whole(value: f64) -> String {
    thousands(value)
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "−" } else { "" });
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A figure in four or five characters: `3.71k`, `812`, `0.45`.
#[must_use]
pub fn brief(value: f64) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // From 9995 on: 10,000 is shorter as 10k, 2048 is not as 2.05k where it is a round number.
    for (unit, letter) in steps {
        if value.abs() >= unit * 0.9995 {
            return short_digits(value / unit) + letter;
        }
    }
    short_digits(value)
}

fn short_digits(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        0.0 => return "0".into(),
        size if size >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.0e}"),
    };
    match text.split_once('.') {
        Some((whole, part)) if !part.contains('e') => {
            let part = part.trim_end_matches('0');
            match part {
                "" => whole.to_owned(),
                _ => format!("{whole}.{part}"),
            }
        }
        _ => text,
    }
}

/// A size in powers of 1024 where it is one, as options write them: `64K`, `1.5M`, `200`.
#[must_use]
pub fn size(bytes: f64) -> String {
    let steps = [(30, "G"), (20, "M"), (10, "K")];
    for (shift, letter) in steps {
        let unit = f64::from(1u32 << shift);
        if bytes >= unit {
            return short_digits(bytes / unit) + letter;
        }
    }
    short_digits(bytes)
}

/// A time: `1.25 s`, `38.1 ms`, `412 µs`, `90 ns`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    let steps = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    for (unit, name) in steps {
        if seconds.abs() >= unit * 0.9995 {
            return format!("{} {name}", short_digits(seconds / unit));
        }
    }
    if seconds == 0.0 {
        return "0 s".into();
    }
    format!("{} ns", short_digits(seconds * 1e9))
}

/// A share of a whole in percent; shares that are not nothing do not show as 0.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if !value.is_finite() => "–".into(),
        _ if value > 0.0 && value < 0.95 => format!("{value:.1} %"),
        _ if value > 99.05 && value < 100.0 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// A count with its noun: `1 request`, `3 requests`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", whole(number as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_and_reordering_are_defused() {
        assert_eq!(escape("plain ü 名"), "plain ü 名");
        assert_eq!(escape("<script>"), "&lt;script&gt;");
        assert_eq!(escape("a\"b'c&"), "a&quot;b&#39;c&amp;");
        assert_eq!(escape("a\u{202E}b\u{0}"), "a\u{FFFD}b\u{FFFD}");
    }

    proptest! {
        #[test]
        fn nothing_escaped_can_open_or_close_anything(text in any::<String>()) {
            let out = escape(&text);
            let bad = ['<', '>', '"', '\'', '\0', '\u{202E}'];
            prop_assert!(!out.contains(bad));
            for (at, _) in out.match_indices('&') {
                let rest = &out[at..];
                prop_assert!(["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"]
                    .iter().any(|entity| rest.starts_with(entity)));
            }
        }

        #[test]
        fn numbers_are_never_long(value in any::<f64>()) {
            prop_assert!(figure(value).chars().count() <= 20);
        }
    }

    #[test]
    fn figures_keep_what_means_something() {
        let shown: Vec<String> = [0.0, 0.01234, 1.234, 12.34, 123.4, 12345.6, -4321.0]
            .map(figure)
            .into();
        assert_eq!(
            shown,
            ["0", "0.0123", "1.23", "12.3", "123", "12,346", "−4,321"]
        );
        assert_eq!(figure(f64::NAN), "–");
    }

    #[test]
    fn short_forms() {
        let shown = [0.45, 1.0, 812.0, 999.9, 3712.0, 1_250_000.0].map(brief);
        assert_eq!(shown, ["0.45", "1", "812", "1k", "3.71k", "1.25M"]);
        assert_eq!([4096.0, 1048576.0, 200.0].map(size), ["4K", "1M", "200"]);
        assert_eq!(
            [1.25, 0.0381, 0.000412, 9e-8].map(seconds),
            ["1.25 s", "38.1 ms", "412 µs", "90 ns"]
        );
        assert_eq!(
            [0.0, 0.004, 0.38, 0.999, 1.0].map(percent),
            ["0 %", "0.4 %", "38 %", "99.9 %", "100 %"]
        );
        assert_eq!(count(1, "span"), "1 span");
        assert_eq!(count(2000, "span"), "2,000 spans");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten("abcd", 4), "abcd");
    }
}
