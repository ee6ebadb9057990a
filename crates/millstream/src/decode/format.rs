//! Recognizes formats of stored bytes, so that an error can name the format of bytes that the codec
//! does not expect. Formats with a signature only; sources: RFC 1950, 1952, 8878, the LZ4 frame
//! format, and the signatures of PNG, KTX 2, glTF, ZIP and Ogg.

use millstream_codec::CodecId;

use crate::error::{Error, ErrorKind};

/// The format whose signature stored bytes begin with.
fn signature(head: &[u8]) -> Option<&'static str> {
    const SIGNATURES: [(&[u8], &str); 10] = [
        (ZSTD, "zstd"),
        (&[0x1f, 0x8b, 0x08], "gzip"),
        (LZ4_FRAME, "LZ4 frame"),
        (LZ4_LEGACY, "LZ4 frame of the legacy format"),
        (&[0x89, b'P', b'N', b'G'], "PNG"),
        (&[0xab, b'K', b'T', b'X'], "KTX"),
        (b"glTF", "glTF binary"),
        (b"PK\x03\x04", "ZIP"),
        (b"OggS", "Ogg"),
        (&[0xff, 0xd8, 0xff], "JPEG"),
    ];
    let known = SIGNATURES.iter().find(|(bytes, _)| head.starts_with(bytes));
    known.map(|(_, name)| *name)
}

const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const LZ4_FRAME: &[u8] = &[0x04, 0x22, 0x4d, 0x18];
const LZ4_LEGACY: &[u8] = &[0x02, 0x21, 0x4c, 0x18];

/// Whether bytes begin with these, as far as they go.
fn begins(head: &[u8], with: &[u8]) -> bool {
    head.iter().zip(with).all(|(head, with)| head == with)
}

/// Whether bytes begin with a skippable frame of zstd or LZ4.
fn is_skippable(head: &[u8]) -> bool {
    let any = |first: &u8| (0x50..=0x5f).contains(first);
    head.first().is_none_or(any) && begins(head.get(1..).unwrap_or(&[]), &[0x2a, 0x4d, 0x18])
}

/// Whether two bytes are a header of zlib: deflate, and a check that divides by 31.
fn is_zlib(head: &[u8]) -> bool {
    match head {
        [] => true,
        [cmf] => cmf & 15 == 8,
        [cmf, flg, ..] => cmf & 15 == 8 && (u16::from(*cmf) << 8 | u16::from(*flg)) % 31 == 0,
    }
}

/// The error of stored bytes whose beginning shows that they are not what the codec expects.
pub(crate) fn wrong_format(codec: CodecId, head: &[u8]) -> Option<Error> {
    let (expected, fits) = match codec {
        CodecId::ZSTD => ("zstd", begins(head, ZSTD) || is_skippable(head)),
        CodecId::GZIP => ("gzip", begins(head, &[0x1f, 0x8b])),
        CodecId::LZ4 => (
            "an LZ4 frame",
            // The decoder refuses the legacy format by its name.
            begins(head, LZ4_FRAME) || begins(head, LZ4_LEGACY) || is_skippable(head),
        ),
        CodecId::ZLIB => ("zlib", is_zlib(head)),
        CodecId::DEFLATE => ("raw deflate", signature(head).is_none()),
        CodecId::GDEFLATE => ("GDeflate", begins(head, &[0x04, 0xfb])),
        _ => return None,
    };
    if fits {
        return None;
    }
    let found = match signature(head) {
        Some(found) => format!("they look like {found}"),
        None => {
            let shown: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
            format!("they begin with {}", shown.join(" "))
        }
    };
    let cause = format!("the codec expects {expected}, and {found}");
    Some(Error::new(ErrorKind::WrongFormat, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_format_is_named_and_a_right_one_is_not() {
        let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0, 0];
        assert!(wrong_format(CodecId::ZSTD, &zstd).is_none());
        let error = wrong_format(CodecId::GZIP, &zstd).expect("zstd is no gzip");
        assert_eq!(error.kind(), ErrorKind::WrongFormat);
        assert!(error.to_string().contains("zstd"), "{error}");
        assert!(wrong_format(CodecId::ZLIB, &[0x78, 0x9c]).is_none());
        let error = wrong_format(CodecId::ZLIB, &[0x1f, 0x8b, 8]).expect("gzip is no zlib");
        assert!(error.to_string().contains("gzip"), "{error}");
        assert!(wrong_format(CodecId::STORED, b"anything").is_none());
        assert!(wrong_format(CodecId(0x90), b"anything").is_none());
    }
}
