//! Names of files as lines of text, without loss.
//!
//! A name is bytes; a line of output must be one line and valid UTF-8. Bytes that are not UTF-8,
//! control characters (Unicode's Cc: C0, DEL and C1) and the backslash itself are written as
//! `\xNN`, two lower-case hexadecimal digits a byte, so that each name has one text and each text
//! one name, and no name can forge a line or drive a terminal.

use std::fmt::Write as _;

/// The name as text.
pub(crate) fn escape(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' || character.is_control() {
                let mut utf8 = [0; 4];
                push_hex(&mut text, character.encode_utf8(&mut utf8).as_bytes());
            } else {
                text.push(character);
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "\\x{byte:02x}").expect("a String takes every write");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reverse, as a reader of the output would write it.
    fn unescape(text: &str) -> Vec<u8> {
        let mut name = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((&first, after)) = rest.split_first() {
            if first == b'\\' {
                let digits = std::str::from_utf8(&after[1..3]).expect("digits are ASCII");
                name.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
                rest = &after[3..];
            } else {
                name.push(first);
                rest = after;
            }
        }
        name
    }

    #[test]
    fn ordinary_names_stay() {
        assert_eq!(escape(b"a b/c.txt"), "a b/c.txt");
        assert_eq!(escape("größe/日本".as_bytes()), "größe/日本");
    }

    #[test]
    fn odd_bytes_become_hexadecimal() {
        assert_eq!(escape(b"a\\b"), "a\\x5cb");
        assert_eq!(
            escape(b"line\nbreak\x1b[0m\x7f"),
            "line\\x0abreak\\x1b[0m\\x7f"
        );
        assert_eq!(escape(b"\xff\xfe"), "\\xff\\xfe");
        assert_eq!(escape(b"cut \xe6\x97"), "cut \\xe6\\x97");
        assert_eq!(escape("\u{85}".as_bytes()), "\\xc2\\x85");
    }

    #[test]
    fn every_name_comes_back_from_its_text() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            let name: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
            let text = escape(&name);
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assert_eq!(unescape(&text), name, "{text:?}");
        }
    }
}
