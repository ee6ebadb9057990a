//! Ogg and WAVE: rate and channels, from the header fields.

use super::{Describe, Head};
use crate::metadata::{Audio, Container, Kind, Metadata};

/// Describes Ogg files with Vorbis or Opus: the identification header in the first page (RFC 3533,
/// section 6; Vorbis I specification, 4.2.2; RFC 7845, section 5.1).
#[derive(Debug, Clone, Copy, Default)]
pub struct Ogg;

impl Describe for Ogg {
    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        let bytes = head.bytes;
        if !bytes.starts_with(b"OggS\0") {
            return None;
        }
        let segments = usize::from(*bytes.get(26)?);
        let packet = bytes.get(27 + segments..)?;
        let mut audio = Audio {
            container: Container::OGG,
            ..Audio::default()
        };
        if packet.starts_with(b"\x01vorbis") {
            audio.channels = u16::from(*packet.get(11)?);
            audio.rate_hz = le32(packet, 12)?;
        } else if packet.starts_with(b"OpusHead") {
            audio.channels = u16::from(*packet.get(9)?);
            // Opus always decodes at this rate; the field in the header is of the source.
            audio.rate_hz = 48_000;
        } else {
            return None;
        }
        sound(audio)
    }
}

/// Describes WAVE files: the chunks `fmt ` and `data` (Multimedia Programming Interface and Data
/// Specifications 1.0, 1991).
#[derive(Debug, Clone, Copy, Default)]
pub struct Wav;

impl Describe for Wav {
    fn head_bytes(&self, _: &[u8]) -> usize {
        16 << 10
    }

    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        let bytes = head.bytes;
        if !bytes.starts_with(b"RIFF") || bytes.get(8..12)? != b"WAVE" {
            return None;
        }
        let mut audio = Audio {
            container: Container::WAV,
            ..Audio::default()
        };
        let (mut at, mut frame_bytes) = (12, 0);
        loop {
            let (kind, len) = (bytes.get(at..at + 4)?, le32(bytes, at + 4)?);
            let body = at + 8;
            match kind {
                b"fmt " => {
                    audio.codec = le16(bytes, body)?;
                    audio.channels = le16(bytes, body + 2)?;
                    audio.rate_hz = le32(bytes, body + 4)?;
                    frame_bytes = u64::from(le16(bytes, body + 12)?);
                    audio.bits = le16(bytes, body + 14)?;
                }
                b"data" => {
                    let held = head.raw_bytes.saturating_sub(body as u64);
                    audio.offset = body as u64;
                    // PCM and floats have a fixed size of a frame.
                    if matches!(audio.codec, 1 | 3 | 0xfffe) && frame_bytes > 0 {
                        audio.frames = u64::from(len).min(held) / frame_bytes;
                    }
                    return sound(audio);
                }
                _ => {}
            }
            // Chunks begin at even offsets.
            at = body
                .checked_add(len as usize)?
                .checked_add(len as usize & 1)?;
        }
    }
}

fn sound(audio: Audio) -> Option<Metadata> {
    if audio.channels == 0 || audio.rate_hz == 0 {
        return None;
    }
    let mut record = Metadata::new(Kind::AUDIO);
    record.audio = Some(audio);
    Some(record)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(bytes: &[u8], raw_bytes: u64) -> Option<Metadata> {
        let head = Head {
            name: b"x",
            bytes,
            raw_bytes,
        };
        Ogg.describe(&head).or_else(|| Wav.describe(&head))
    }

    fn wav() -> Vec<u8> {
        let mut wav = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        wav.extend_from_slice(&[1, 0, 2, 0, 0x44, 0xac, 0, 0, 0x10, 0xb1, 2, 0, 4, 0, 16, 0]);
        wav.extend_from_slice(b"data\x40\0\0\0");
        wav
    }

    fn ogg() -> Vec<u8> {
        let mut ogg = b"OggS\0\x02".to_vec();
        ogg.resize(26, 0);
        ogg.extend_from_slice(&[1, 30]);
        ogg.extend_from_slice(b"\x01vorbis\0\0\0\0\x02\x80\xbb\0\0");
        ogg
    }

    #[test]
    fn headers_say_what_they_hold() {
        let audio = |bytes: &[u8]| described(bytes, 120).and_then(|record| record.audio);
        let wav = audio(&wav()).expect("a sound");
        assert_eq!(
            (wav.rate_hz, wav.channels, wav.bits, wav.frames),
            (44_100, 2, 16, 16)
        );
        let ogg = audio(&ogg()).expect("a sound");
        assert_eq!((ogg.rate_hz, ogg.channels), (48_000, 2));
        assert_eq!(described(b"plain text", 10), None);
    }

    #[test]
    fn cut_and_changed_headers_do_no_harm() {
        for whole in [wav(), ogg()] {
            for len in 0..whole.len() {
                let _ = described(&whole[..len], u64::MAX);
            }
            for at in 0..whole.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] = value;
                    if let Some(record) = described(&changed, 1 << 40) {
                        assert!(record.encode().len() <= crate::limits::METADATA_BYTES_MAX);
                    }
                }
            }
        }
    }
}
