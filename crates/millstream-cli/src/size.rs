//! Sizes as text: `4096`, `64K`, `1M`, `2G`, `1T`, in powers of 1024; and times.

use std::time::Duration;

/// Parses a size.
///
/// Only digits and at most one suffix letter, in either case: `1.5M`, `64KB`, `-1` and what
/// does not fit 64 bits are refused, because a size misread is worse than one typed again.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, suffix) = text.split_at(digits_len);
    let shift = match suffix {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => {
            return Err(String::from(
                "a size is digits and K, M, G or T: 64K, 1M, 2G",
            ));
        }
    };
    if digits.is_empty() {
        return Err(String::from("a size begins with a digit: 64K, 1M, 2G"));
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| String::from("the size does not fit 64 bits"))
}

/// Formats a number of bytes for people.
pub(crate) fn display(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// Formats a time for people.
pub(crate) fn display_time(time: Duration) -> String {
    match time.is_zero() {
        true => String::from("0s"),
        false => format!("{time:.2?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_two() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64K"), Ok(65_536));
        assert_eq!(parse("64k"), Ok(65_536));
        assert_eq!(parse("1M"), Ok(1 << 20));
        assert_eq!(parse("2G"), Ok(2 << 30));
        assert_eq!(parse("16777215T"), Ok(16_777_215 << 40));
    }

    #[test]
    fn no_time_has_no_unit_of_its_own() {
        assert_eq!(display_time(Duration::ZERO), "0s");
        assert_eq!(display_time(Duration::from_micros(1234)), "1.23ms");
    }

    #[test]
    fn other_words_are_refused() {
        let words = "K|-1|+1|1.5M|64KB|64KiB|1 M| 1|1X|0x10|١|16777216T|18446744073709551616||";
        for word in words.split('|') {
            assert!(parse(word).is_err(), "{word:?} was taken for a size");
        }
    }
}
