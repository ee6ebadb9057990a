//! URIs of buffers and images: data of their own, or a name beside the scene.
//!
//! RFC 3986 for percent-encoding and schemes, RFC 2397 for `data:`, RFC 4648 for base64. A scene
//! may come from anywhere, so a name must stay below the scene's folder: absolute paths, `..` that
//! leaves it, hosts and all schemes but `data:` are refused.
//!
//! ```
//! use millstream_gltf::uri::{parse, Uri};
//! assert_eq!(parse("a%20b.png").unwrap(), Uri::Name(b"a b.png".to_vec()));
//! assert_eq!(parse("data:;base64,AQI=").unwrap(), Uri::Data(vec![1, 2]));
//! assert!(parse("http://host/a.png").is_err());
//! ```

use crate::error::ErrorKind;

/// What a URI names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uri {
    /// The bytes themselves.
    Data(Vec<u8>),
    /// A name relative to the scene's folder, `/`-separated, without `.` and `..`.
    Name(Vec<u8>),
}

/// Why a URI cannot be used: a kind and a cause.
pub type Refusal = (ErrorKind, &'static str);

/// Reads a URI.
///
/// # Errors
/// `Refused` for names that leave the folder or name a host, `Invalid` for wrong encodings.
pub fn parse(uri: &str) -> Result<Uri, Refusal> {
    if let Some(rest) = strip_scheme(uri, "data") {
        return data(rest).map(Uri::Data);
    }
    if has_scheme(uri) {
        return Err((
            ErrorKind::Refused,
            "a URI of another scheme than data: is not followed",
        ));
    }
    if uri.starts_with("//") {
        return Err((ErrorKind::Refused, "the URI names a network host"));
    }
    // A query or fragment means nothing to a file; exporters do not encode `?` and `#` in names,
    // so they are taken as part of the name.
    name(&unescape(uri)?).map(Uri::Name)
}

/// A name without `.`, empty parts and `..`.
fn name(decoded: &[u8]) -> Result<Vec<u8>, Refusal> {
    let refused = |cause| Err((ErrorKind::Refused, cause));
    // Exporters of Windows write backslashes; a name there could also be `C:\...` (a scheme).
    if decoded.starts_with(b"/") || decoded.starts_with(b"\\") {
        return refused("the URI is an absolute path");
    }
    if decoded.contains(&0) {
        return refused("the URI holds a NUL");
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in decoded.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                if parts.pop().is_none() {
                    return refused("the URI leaves the scene's folder");
                }
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return Err((ErrorKind::Invalid, "the URI names nothing"));
    }
    Ok(parts.join(&b'/'))
}

fn strip_scheme<'a>(uri: &'a str, scheme: &str) -> Option<&'a str> {
    let head = uri.get(..scheme.len())?;
    let rest = uri.get(scheme.len()..)?.strip_prefix(':')?;
    head.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// RFC 3986, 3.1: a letter, then letters, digits, `+`, `-`, `.`, then a colon.
fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else {
        return false;
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// `%41` to `A`.
fn unescape(text: &str) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits
            .filter(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        let Some(byte) = byte else {
            return Err((
                ErrorKind::Invalid,
                "a % of the URI is not followed by two digits",
            ));
        };
        bytes.push(byte);
        rest = &after[2..];
    }
    Ok(bytes)
}

/// `[type][;parameters][;base64],bytes`.
fn data(rest: &str) -> Result<Vec<u8>, Refusal> {
    let Some((head, body)) = rest.split_once(',') else {
        return Err((ErrorKind::Invalid, "the data: URI has no comma"));
    };
    let base64 = head.len() >= 7
        && head.is_char_boundary(head.len() - 7)
        && head[head.len() - 7..].eq_ignore_ascii_case(";base64");
    if base64 {
        if body.contains('%') {
            return decode_base64(&unescape(body)?);
        }
        return decode_base64(body.as_bytes());
    }
    unescape(body)
}

const NO_DIGIT: u8 = 0xff;

/// Values of the 64 digits, both alphabets of RFC 4648.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut value = 0;
    while value < 64 {
        digits[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    digits[b'-' as usize] = 62;
    digits[b'_' as usize] = 63;
    digits
};

fn decode_base64(text: &[u8]) -> Result<Vec<u8>, Refusal> {
    let wrong = || (ErrorKind::Invalid, "the base64 of the data: URI is wrong");
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return Err(wrong());
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut value = 0u32;
        let mut any = 0;
        for &digit in group {
            let digit = DIGITS[usize::from(digit)];
            any |= digit;
            value = value << 6 | u32::from(digit & 63);
        }
        if any == NO_DIGIT {
            return Err(wrong());
        }
        value <<= 6 * (4 - group.len());
        let [_, first, second, third] = value.to_be_bytes();
        bytes.extend_from_slice(&[first, second, third][..group.len() * 3 / 4]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_and_cleaned() {
        let named = |uri, name: &str| assert_eq!(parse(uri), Ok(Uri::Name(name.into())), "{uri}");
        named("a.bin", "a.bin");
        named("./tex//a%20b%2Fc.png", "tex/a b/c.png");
        named("tex/../a.bin", "a.bin");
        named("gr%C3%B6%C3%9Fe.png", "größe.png");
        named("größe.png", "größe.png");
    }

    #[test]
    fn what_leaves_the_folder_is_refused() {
        for uri in [
            "../a",
            "a/../../b",
            "/etc/passwd",
            "%2e%2e/a",
            "%2Fetc",
            "//host/a",
            "http://h/a",
            "HTTPS://h/a",
            "file:///etc/passwd",
            "C:\\a.png",
            "\\\\host\\a",
            "a%00b",
        ] {
            assert_eq!(
                parse(uri).map_err(|error| error.0),
                Err(ErrorKind::Refused),
                "{uri}"
            );
        }
        for uri in ["", ".", "a/..", "a%2", "a%zz", "data:abc"] {
            assert_eq!(
                parse(uri).map_err(|error| error.0),
                Err(ErrorKind::Invalid),
                "{uri}"
            );
        }
    }

    #[test]
    fn data_is_decoded() {
        let right =
            |uri, bytes: &[u8]| assert_eq!(parse(uri), Ok(Uri::Data(bytes.into())), "{uri}");
        right("data:,a%20b", b"a b");
        right("data:application/octet-stream;base64,AAEC", &[0, 1, 2]);
        right("DATA:;BASE64,AAE=", &[0, 1]);
        right("data:;base64,AA", &[0]);
        right("data:;base64,-_8=", &[0xfb, 0xff]);
        right("data:;base64,%41AEC", &[0, 1, 2]);
        right("data:;base64,", &[]);
        for uri in [
            "data:;base64,A",
            "data:;base64,AAE*",
            "data:;base64,AA==A",
            "data:;base64,=",
        ] {
            assert!(parse(uri).is_err(), "{uri}");
        }
    }
}
