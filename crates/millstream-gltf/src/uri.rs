//! URIs of buffers and images: embedded data, or a file name relative to the scene.
//!
//! RFC 3986 for percent-encoding and schemes, RFC 2397 for `data:`, RFC 4648 for base64. Scenes are
//! not trusted, so a name must stay within the scene's folder: absolute paths, `..` that leaves it,
//! hosts and all schemes except `data:` are refused.
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

/// A parsed URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uri {
    /// The bytes themselves.
    Data(Vec<u8>),
    /// A name relative to the scene's folder, `/`-separated, without `.` and `..`.
    Name(Vec<u8>),
}

/// Why a URI cannot be used: a kind and a cause.
pub type Refusal = (ErrorKind, &'static str);

/// Parses a URI.
///
/// # Errors
/// `Refused` for names that leave the folder or name a host, `Invalid` for wrong encodings.
pub fn parse(uri: &str) -> Result<Uri, Refusal> {
    match uri.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("data") => data(rest).map(Uri::Data),
        Some((scheme, _)) if is_scheme(scheme) => {
            let cause = "a URI of another scheme than data: is not followed";
            Err((ErrorKind::Refused, cause))
        }
        _ if uri.starts_with("//") => Err((ErrorKind::Refused, "the URI names a network host")),
        // Exporters do not encode `?` and `#` in file names, so both are part of the name.
        _ => name(&unescape(uri)).map(Uri::Name),
    }
}

/// Whether text is a scheme (RFC 3986, 3.1): a letter, then letters, digits, `+`, `-`, `.`.
fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns a name without `.`, `..` and empty parts. Exporters on Windows write backslashes.
fn name(decoded: &[u8]) -> Result<Vec<u8>, Refusal> {
    let refused = |cause| Err((ErrorKind::Refused, cause));
    // A leading backslash is an absolute path on Windows; `C:\...` is refused as a scheme.
    if decoded.starts_with(b"/") || decoded.starts_with(b"\\") {
        return refused("the URI is an absolute path");
    }
    if decoded.contains(&0) {
        return refused("the URI holds a NUL");
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in decoded.split(|byte| b"/\\".contains(byte)) {
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

/// Decodes percent-encoding: `%41` becomes `A`. A `%` that encodes nothing is itself, as exporters
/// do not encode it either.
fn unescape(text: &str) -> Cow<'_, [u8]> {
    percent_decode_str(text).into()
}

/// Decodes a data URI, `[type][;parameters][;base64],bytes`, without its scheme.
fn data(rest: &str) -> Result<Vec<u8>, Refusal> {
    let Some((head, body)) = rest.split_once(',') else {
        return Err((ErrorKind::Invalid, "the data: URI has no comma"));
    };
    let body = unescape(body);
    let last = head.rsplit_once(';').map_or("", |(_, last)| last);
    if !last.eq_ignore_ascii_case("base64") {
        return Ok(body.into_owned());
    }
    // RFC 4648 has two alphabets, which differ in two characters.
    let alphabet = match body.iter().any(|digit| b"-_".contains(digit)) {
        true => &alphabet::URL_SAFE,
        false => &alphabet::STANDARD,
    };
    let decoded = GeneralPurpose::new(alphabet, LENIENT).decode(&body);
    decoded.map_err(|_| (ErrorKind::Invalid, "the base64 of the data: URI is invalid"))
}

/// Some exporters omit the padding.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
