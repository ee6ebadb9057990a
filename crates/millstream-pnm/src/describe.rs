//! Metadata of images for packages: the shape of an image, and the position of its samples, are
//! known before the entry is read.

use millstream_pak::metadata::{Container, Image, Kind, Metadata, Mip};
use millstream_pak::{Describe, Head};

use crate::format::{Format, TupleType};
use crate::header::HeaderParser;

/// `VK_FORMAT_R8_UNORM`, and the formats of two to four channels.
const VK_R8_UNORM: u32 = 9;
const VK_R8G8_UNORM: u32 = 16;
const VK_R8G8B8_UNORM: u32 = 23;
const VK_R8G8B8A8_UNORM: u32 = 37;

/// A describer of the PNM family for the packer.
///
/// ```
/// use millstream_pak::{Describe, Head};
/// let bytes = b"P5 2 2 255\nabcd";
/// let head = Head { name: b"a.pgm", bytes, raw_bytes: bytes.len() as u64 };
/// let record = millstream_pnm::PnmDescriber.describe(&head).expect("an image");
/// assert_eq!(record.image.map(|image| (image.width, image.height)), Some((2, 2)));
/// assert_eq!(record.mip(0, 0), Some((11, 4)));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct PnmDescriber;

impl Describe for PnmDescriber {
    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        let (taken, header) = HeaderParser::new().push(head.bytes).ok()?;
        let (taken, header) = (taken as u64, header?);
        // Not described: files too short for their image, or more channels than a record holds.
        let left = head.raw_bytes.checked_sub(taken)?;
        let channels = u8::try_from(header.channels).ok()?;
        if header.raster_bytes_min() > left {
            return None;
        }
        let bytes_of_samples = !header.format.is_plain() && header.format != Format::Bitmap;
        let mut record = Metadata::new(Kind::IMAGE);
        let texels = bytes_of_samples && header.maxval == 255;
        let format = match &header.tuple_type {
            _ if !texels => 0,
            TupleType::Grayscale => VK_R8_UNORM,
            TupleType::GrayscaleAlpha => VK_R8G8_UNORM,
            TupleType::Rgb => VK_R8G8B8_UNORM,
            TupleType::RgbAlpha => VK_R8G8B8A8_UNORM,
            _ => 0,
        };
        record.image = Some(Image {
            width: header.width,
            height: header.height,
            depth: 1,
            layers: 1,
            format: if u32::from(channels) == header.tuple_type.channels_min() {
                format
            } else {
                0
            },
            channels,
            bits: match header.maxval {
                1 => 1,
                2..256 => 8,
                _ => 16,
            },
            container: Container::PNM,
            maxval: u32::from(header.maxval),
        });
        // Samples with the same bytes in the file as in memory can be read on their own.
        if bytes_of_samples {
            record.mips.push(Mip {
                level: 0,
                layer: 0,
                row_bytes: u32::try_from(header.row_bytes()).unwrap_or(0),
                offset: taken,
                bytes: header.image_bytes(),
            });
        }
        Some(record)
    }
}
