//! Recognizes formats of stored bytes, so that an error can name the format of bytes that the codec
//! does not expect. Formats with a signature only; sources: RFC 1950, 1952, 8878, the LZ4 frame
//! format, and the signatures of PNG, KTX 2, glTF, ZIP and Ogg.

use crate::CodecId;

/// Signatures of formats that no codec here decodes.
const FOREIGN: [(&[u8], &str); 6] = [
    (&[0x89, b'P', b'N', b'G'], "PNG"),
    (&[0xab, b'K', b'T', b'X'], "KTX"),
    (b"glTF", "glTF binary"),
    (b"PK\x03\x04", "ZIP"),
    (b"OggS", "Ogg"),
    (&[0xff, 0xd8, 0xff], "JPEG"),
];

/// Returns the format whose signature stored bytes begin with.
pub(crate) fn of(head: &[u8]) -> Option<&'static str> {
    let own = CodecId::ALL.iter().flat_map(|id| id.facts().signatures);
    let mut all = own.chain(&FOREIGN);
    all.find_map(|(bytes, name)| head.starts_with(bytes).then_some(*name))
}

/// Whether bytes begin with these, as far as they go.
pub(crate) fn begins(head: &[u8], with: &[u8]) -> bool {
    head.iter().zip(with).all(|(head, with)| head == with)
}

/// Whether two bytes are a header of zlib: deflate, and a check that divides by 31.
pub(crate) fn is_zlib(head: &[u8]) -> bool {
    let divides = |both: &[u8; 2]| u16::from_be_bytes(*both).is_multiple_of(31);
    head.first().is_none_or(|first| first & 15 == 8) && head.first_chunk().is_none_or(divides)
}

/// Returns the cause to report for stored bytes whose beginning shows that they are not what the
/// codec expects.
#[must_use]
pub fn wrong_format(codec: CodecId, head: &[u8]) -> Option<String> {
    let (expected, begins) = codec.facts().format;
    if begins(head) {
        return None;
    }
    let found = match of(head) {
        Some(found) => format!("they look like {found}"),
        None => {
            let shown: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
            format!("they begin with {}", shown.join(" "))
        }
    };
    Some(format!("the codec expects {expected}, and {found}"))
}
