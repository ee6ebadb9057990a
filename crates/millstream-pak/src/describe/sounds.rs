//! Describers of Ogg and WAVE files, from their header fields.

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
            // Opus always decodes at this rate; the header's field is the rate of the source.
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
                    // PCM and floats have frames of a fixed size.
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
