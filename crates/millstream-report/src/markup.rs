//! Text and numbers for HTML and SVG.
//!
//! Everything that comes from outside (names in traces, contenders, reasons) passes [`escape`], so
//! that it can be neither markup nor script, and cannot change the direction of the text around it.

/// Escapes text for use between tags and in quoted attributes of HTML and XML. Control characters,
/// characters that XML forbids, and characters that reorder text become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
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
    out
}

fn is_forbidden(character: char) -> bool {
    let reorders = matches!(character,
        '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let no_xml = matches!(character, '\u{FFFE}' | '\u{FFFF}');
    (character.is_control() && character != '\n') || reorders || no_xml
}

/// Cuts text to at most `max` characters; cut text ends in an ellipsis.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    text.chars().take(max - 1).chain(['…']).collect()
}

/// Formats a number with its significant digits, with separated thousands.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "–".into(),
        0.0 => "0".into(),
        size if size >= 1e15 => format!("{value:.2e}"),
        size if size >= 1000.0 => whole(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

pub(crate) fn whole(value: f64) -> String {
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

/// Formats a size in powers of 1024, as options are written: `64K`, `1.5M`, `200`.
pub(crate) fn size(bytes: f64) -> String {
    scaled(
        bytes,
        &[
            (1_073_741_824.0, "G"),
            (1_048_576.0, "M"),
            (1024.0, "K"),
            (1.0, ""),
        ],
    )
}

/// Formats a time: `1.25 s`, `38.1 ms`, `412 µs`, `90 ns`.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".into();
    }
    scaled(
        seconds,
        &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")],
    )
}

/// Formats a value in the largest unit that it reaches, or the last; `units` are descending.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let reached = units.iter().find(|(unit, _)| value.abs() >= unit * 0.9995);
    let (unit, name) = reached.unwrap_or(&units[units.len() - 1]);
    short_digits(value / unit) + name
}

fn short_digits(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 1e6 => return format!("{value:.0e}"),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        0.0 => return "0".into(),
        size if size >= 0.001 => format!("{value:.3}"),
        _ => return format!("{value:.0e}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a share in percent; shares near 0 and 1 have a decimal.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if !value.is_finite() => "–".into(),
        _ if value > 0.0 && value < 0.95 => format!("{value:.1} %"),
        _ if value > 99.05 && value < 100.0 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// Formats a count with its noun: `1 request`, `3 requests`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", whole(number as f64))
}

/// Parses a number with or without a unit of bytes: `4`, `64K`, `24MB`, `1GiB`. K, M, G are powers
/// of 1024; with a B, powers of 1000.
#[must_use]
pub fn quantity(token: &str) -> Option<f64> {
    let is_unit = |character: char| !character.is_ascii_digit() && character != '.';
    let (number, unit) = token.split_at(token.find(is_unit).unwrap_or(token.len()));
    let number: f64 = number.parse().ok()?;
    let unit = match unit.trim_start() {
        "" => 1.0,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1_048_576.0,
        "G" | "GiB" => 1_073_741_824.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    Some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn escaped_text_cannot_open_or_close_anything() {
        let mut random = millstream_testing::random();
        for _ in 0..1000 {
            let count = random.usize(..40);
            // Half of ASCII, where markup is.
            let text = (0..count).map(|_| match random.bool() {
                true => random.char('\0'..='\x7F'),
                false => random.char(..),
            });
            let out = escape(&text.collect::<String>());
            let open = ['<', '>', '"', '\'', '\0', '\u{202E}'];
            assert!(!out.contains(open), "{out:?}");
            for (at, _) in out.match_indices('&') {
                let rest = &out[at..];
                let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                assert!(entities.iter().any(|it| rest.starts_with(it)), "{out:?}");
            }
        }
    }

    #[test]
    fn numbers_are_never_long() {
        let mut random = millstream_testing::random();
        for _ in 0..1000 {
            let value = f64::from_bits(random.u64(..));
            assert!(figure(value).chars().count() <= 20, "{value:e}");
        }
    }

    #[test]
    fn text_keeps_what_is_plain() {
        assert_eq!(escape("ü 名 a\"b'c&"), "ü 名 a&quot;b&#39;c&amp;");
        assert_eq!(escape("<a\u{202E}b\u{0}>"), "&lt;a\u{FFFD}b\u{FFFD}&gt;");
        assert_eq!([shorten("abcdef", 4), shorten("abcd", 4)], ["abc…", "abcd"]);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.01234, 1.234, 123.4, -4321.0, f64::NAN].map(figure);
        assert_eq!(shown, ["0", "0.0123", "1.23", "123", "−4,321", "–"]);
        assert_eq!([4096.0, 1048576.0, 200.0].map(size), ["4K", "1M", "200"]);
        let shown = [1.25, 0.0381, 0.000412, 9e-8].map(seconds);
        assert_eq!(shown, ["1.25 s", "38.1 ms", "412 µs", "90 ns"]);
        let shown = [0.0, 0.004, 0.38, 0.999, 1.0].map(percent);
        assert_eq!(shown, ["0 %", "0.4 %", "38 %", "99.9 %", "100 %"]);
        assert_eq!(count(2000, "span"), "2,000 spans");
    }
}
