//! Describers: what an entry's head says becomes its metadata.
//!
//! The packer shows every entry's front to its describers, in order; the first that knows the kind
//! gives the record. A describer reads header fields only: it does not decode. Crates that know a
//! kind of file implement [`Describe`] (behind a feature of theirs), and the program hands them to
//! the packer.
//!
//! ```
//! use millstream_pak::{Describe, Head};
//! use millstream_pak::metadata::{Kind, Metadata};
//!
//! struct Script;
//!
//! impl Describe for Script {
//!     fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
//!         head.bytes.starts_with(b"#!").then(|| Metadata::new(Kind(Kind::APPLICATION.0 + 1)))
//!     }
//! }
//!
//! let head = Head { name: b"run.sh", bytes: b"#!/bin/sh", raw_bytes: 9 };
//! assert!(Script.describe(&head).is_some());
//! ```

use crate::metadata::Metadata;

mod pictures;
mod sounds;
mod textures;

pub use pictures::{Jpeg, Png};
pub use sounds::{Ogg, Wav};
pub use textures::{Dds, Ktx2};

/// All describers of this crate.
#[must_use]
pub fn all() -> Vec<Box<dyn Describe>> {
    vec![
        Box::new(Png),
        Box::new(Jpeg),
        Box::new(Dds),
        Box::new(Ktx2),
        Box::new(Ogg),
        Box::new(Wav),
    ]
}

/// An entry as describers see it.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Its name in the package.
    pub name: &'a [u8],
    /// Its front: as many bytes as the describer asked for, or all, if it has fewer.
    pub bytes: &'a [u8],
    /// All its bytes.
    pub raw_bytes: u64,
}

impl Head<'_> {
    /// Whether the name ends in `.extension`, in any case.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        let dot = self.name.iter().rposition(|&byte| byte == b'.');
        dot.is_some_and(|dot| self.name[dot + 1..].eq_ignore_ascii_case(extension.as_bytes()))
    }
}

/// Makes metadata of one kind of entry. Called from several threads at once. The same head must
/// give the same record: packages are made the same from the same input.
pub trait Describe: Send + Sync {
    /// Bytes of an entry's front that `describe` needs; asked by name, before anything is read. At
    /// most [`limits::DESCRIBE_HEAD_BYTES_MAX`](crate::limits::DESCRIBE_HEAD_BYTES_MAX) are given.
    fn head_bytes(&self, name: &[u8]) -> usize {
        let _ = name;
        4096
    }

    /// The record of an entry; `None` if it is not of this kind, or broken. The bytes may be
    /// hostile.
    fn describe(&self, head: &Head<'_>) -> Option<Metadata>;
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Container, Image};

    fn described(bytes: &[u8], raw_bytes: u64) -> Option<Metadata> {
        let name = b"x";
        all().iter().find_map(|describer| {
            let wanted = describer.head_bytes(name).min(bytes.len());
            describer.describe(&Head {
                name,
                bytes: &bytes[..wanted],
                raw_bytes,
            })
        })
    }

    fn image(record: &Metadata) -> (u32, u32, u8, u8, Container) {
        let Image {
            width,
            height,
            channels,
            bits,
            container,
            ..
        } = record.image.expect("an image");
        (width, height, channels, bits, container)
    }

    fn png() -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend_from_slice(&[0, 0, 2, 0, 0, 0, 1, 0, 8, 6, 0, 0, 0, 1, 2, 3, 4]);
        png
    }

    fn jpeg() -> Vec<u8> {
        let mut jpeg = vec![
            0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc2, 0, 17, 8,
        ];
        jpeg.extend_from_slice(&[1, 44, 2, 88, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        jpeg
    }

    fn dds() -> Vec<u8> {
        let mut dds = vec![0; 128];
        dds[..4].copy_from_slice(b"DDS ");
        for (at, value) in [(4, 124), (12, 64), (16, 128), (28, 3), (76, 32), (80, 4)] {
            dds[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        dds[84..88].copy_from_slice(b"DXT1");
        dds
    }

    fn ktx2() -> Vec<u8> {
        let mut ktx2 = b"\xabKTX 20\xbb\r\n\x1a\n".to_vec();
        for value in [37u32, 1, 16, 8, 0, 0, 1, 2, 0] {
            ktx2.extend_from_slice(&value.to_le_bytes());
        }
        ktx2.resize(80, 0);
        for (offset, len) in [(256u64, 512u64), (128, 128)] {
            ktx2.extend_from_slice(&offset.to_le_bytes());
            ktx2.extend_from_slice(&len.to_le_bytes());
            ktx2.extend_from_slice(&len.to_le_bytes());
        }
        ktx2
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
        let record = described(&png(), 5000).expect("a picture");
        assert_eq!(image(&record), (512, 256, 4, 8, Container::PNG));
        let record = described(&jpeg(), 5000).expect("a picture");
        assert_eq!(image(&record), (600, 300, 3, 8, Container::JPEG));
        let record = described(&dds(), 128 + 4096 + 1024 + 256).expect("a texture");
        assert_eq!(image(&record), (128, 64, 4, 0, Container::DDS));
        assert_eq!(record.mip(0, 0), Some((128, 4096)));
        assert_eq!(record.mip(2, 0), Some((128 + 4096 + 1024, 256)));
        assert_eq!(record.rows(0, 0, 1, 2), Some((128 + 256, 512)));
        let record = described(&ktx2(), 768).expect("a texture");
        assert_eq!(image(&record), (16, 8, 4, 8, Container::KTX2));
        assert_eq!(record.rows(0, 0, 1, 1), Some((256 + 64, 64)));
        assert_eq!(record.mip(1, 0), Some((128, 128)));
        let audio = described(&wav(), 120)
            .expect("a sound")
            .audio
            .expect("a sound");
        assert_eq!(
            (audio.rate_hz, audio.channels, audio.bits, audio.frames),
            (44_100, 2, 16, 16)
        );
        let audio = described(&ogg(), 120)
            .expect("a sound")
            .audio
            .expect("a sound");
        assert_eq!((audio.rate_hz, audio.channels), (48_000, 2));
        assert_eq!(described(b"plain text", 10), None);
    }

    #[test]
    fn mips_that_the_file_is_too_short_for_are_none() {
        let record = described(&dds(), 128 + 4096).expect("a texture");
        assert!(record.mips.is_empty());
        assert_eq!(described(&ktx2(), 700), None);
    }

    #[test]
    fn cut_and_changed_headers_do_no_harm() {
        for whole in [png(), jpeg(), dds(), ktx2(), wav(), ogg()] {
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
