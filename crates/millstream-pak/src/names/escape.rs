//! Names as text that is safe to show.

use std::fmt::Write as _;

/// Returns the name as one line of UTF-8 text, without loss. Bytes that are not UTF-8, control
/// characters (Unicode's Cc: C0, DEL and C1), characters that are invisible or change the order of
/// others, and the backslash itself become `\xNN`, two lower-case hexadecimal digits a byte, so
/// that names and texts correspond one to one, and no name can forge a line or drive a terminal.
#[must_use]
pub fn escape(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' || character.is_control() || is_unseen(character) {
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

/// Returns the name of a text that [`escape`] made. Anything that is no `\xNN` stays as it is.
#[must_use]
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let (mut name, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'\\', b'x', high, low, ..] => byte_of(*high, *low),
            _ => None,
        };
        name.push(escaped.unwrap_or(*first));
        rest = escaped.map_or(after, |_| &rest[4..]);
    }
    name
}

fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Whether a character is a line separator, a mark of direction or annotation, or invisible
/// (`Default_Ignorable_Code_Point` of Unicode 17).
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "\\x{byte:02x}").expect("a String takes every write");
    }
}
