//! URIs of buffers and images: embedded data, or the name of a file relative to the scene.
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

use std::borrow::Cow;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use percent_encoding::percent_decode_str;

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
    // Exporters do not encode `?` and `#` in names, so both are part of the name.
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
fn unescape(text: &str) -> Result<Cow<'_, [u8]>, Refusal> {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        let cause = "a % of the URI is not followed by two hexadecimal digits";
        return Err((ErrorKind::Invalid, cause));
    }
    Ok(percent_decode_str(text).into())
}

/// `[type][;parameters][;base64],bytes`.
fn data(rest: &str) -> Result<Vec<u8>, Refusal> {
    let Some((head, body)) = rest.split_once(',') else {
        return Err((ErrorKind::Invalid, "the data: URI has no comma"));
    };
    let body = unescape(body)?;
    let is_base64 = head
        .rsplit_once(';')
        .is_some_and(|(_, last)| last.eq_ignore_ascii_case("base64"));
    if !is_base64 {
        return Ok(body.into_owned());
    }
    // RFC 4648 has two alphabets, which differ in two digits.
    let is_url_safe = body.iter().any(|&digit| digit == b'-' || digit == b'_');
    let alphabet = match is_url_safe {
        true => &alphabet::URL_SAFE,
        false => &alphabet::STANDARD,
    };
    let decoded = GeneralPurpose::new(alphabet, LENIENT).decode(&body);
    decoded.map_err(|_| (ErrorKind::Invalid, "the base64 of the data: URI is invalid"))
}

/// Exporters leave the padding out.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
