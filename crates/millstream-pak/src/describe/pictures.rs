//! PNG and JPEG: size and samples, from the header fields.

use super::{Describe, Head, be16, be32};
use crate::metadata::{Container, Image, Kind, Metadata};

/// Describes PNG files: the fields of the `IHDR` chunk (PNG specification, third edition, 11.2.1).
#[derive(Debug, Clone, Copy, Default)]
pub struct Png;

impl Describe for Png {
    fn head_bytes(&self, _: &[u8]) -> usize {
        33
    }

    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        let bytes = head.bytes;
        if !bytes.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR") {
            return None;
        }
        let (bits, colour) = (*bytes.get(24)?, *bytes.get(25)?);
        let channels = match colour {
            0 | 3 => 1,
            2 => 3,
            4 => 2,
            6 => 4,
            _ => return None,
        };
        let (width, height) = (be32(bytes, 16)?, be32(bytes, 20)?);
        let fits = width > 0 && height > 0 && width <= i32::MAX as u32 && height <= i32::MAX as u32;
        fits.then(|| picture(width, height, channels, bits, Container::PNG))
    }
}

/// Describes JPEG files: the fields of the first start-of-frame segment (ITU-T T.81, B.2.2).
#[derive(Debug, Clone, Copy, Default)]
pub struct Jpeg;

impl Describe for Jpeg {
    /// Segments of 64 KiB with profiles and previews may come before it.
    fn head_bytes(&self, name: &[u8]) -> usize {
        let named = |extension| {
            let head = Head {
                name,
                bytes: b"",
                raw_bytes: 0,
            };
            head.has_extension(extension)
        };
        if named("jpg") || named("jpeg") {
            512 << 10
        } else {
            4096
        }
    }

    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        let bytes = head.bytes;
        if !bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            return None;
        }
        let mut at = 2;
        loop {
            // Any number of fill bytes may stand before a marker.
            while *bytes.get(at)? == 0xff && *bytes.get(at + 1)? == 0xff {
                at += 1;
            }
            let (lead, marker) = (*bytes.get(at)?, *bytes.get(at + 1)?);
            if lead != 0xff {
                return None;
            }
            let len = usize::from(be16(bytes, at + 2)?);
            match marker {
                // Start of frame, but for DHT, JPG and DAC, which have numbers among them.
                0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                    let bits = *bytes.get(at + 4)?;
                    let (height, width) = (be16(bytes, at + 5)?, be16(bytes, at + 7)?);
                    let channels = *bytes.get(at + 9)?;
                    let (width, height) = (u32::from(width), u32::from(height));
                    let fits = len >= 8 && width > 0 && height > 0 && (1..=4).contains(&channels);
                    return fits.then(|| picture(width, height, channels, bits, Container::JPEG));
                }
                0xd9 | 0xda => return None,
                _ => at = at.checked_add(2 + len.max(2))?,
            }
        }
    }
}

fn picture(width: u32, height: u32, channels: u8, bits: u8, container: Container) -> Metadata {
    let mut record = Metadata::new(Kind::IMAGE);
    record.image = Some(Image {
        width,
        height,
        depth: 1,
        layers: 1,
        format: 0,
        channels,
        bits,
        container,
        maxval: 0,
    });
    record
}
