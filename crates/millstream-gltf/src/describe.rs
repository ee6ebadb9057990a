//! Records of images for packages: size, format and the place of each mip, from the header fields
//! alone. Nothing is decoded.

use ktx2::LevelIndex;
use millstream_pak::limits::MIP_LEVELS_MAX;
use millstream_pak::metadata::{Container, Image, Kind, Metadata, Mip};
use millstream_pak::{Describe, Head};

use crate::image::vulkan::{Texels, of_vulkan};
use crate::image::{dds, jpeg, png};

/// Bytes of a name's front that are looked at; the header of a KTX2 file is the longest.
const HEAD_BYTES: usize = 4096;

const _: () = assert!(HEAD_BYTES >= ktx2::Header::LENGTH + MIP_LEVELS_MAX * LevelIndex::LENGTH);

/// Segments of 64 KiB with profiles and previews may come before the size of a JPEG.
const JPEG_HEAD_BYTES: usize = 512 << 10;

/// Describes PNG, JPEG, DDS and KTX2 files; hand it to the packer.
///
/// ```
/// use millstream_pak::{Describe, Head};
/// let bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x01\x08\x06\0\0\0";
/// let head = Head { name: b"a.png", bytes, raw_bytes: 70 };
/// let record = millstream_gltf::ImageDescriber.describe(&head).expect("an image");
/// assert_eq!(record.image.map(|image| (image.width, image.height)), Some((2, 1)));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageDescriber;

impl Describe for ImageDescriber {
    fn head_bytes(&self, name: &[u8]) -> usize {
        let head = Head {
            name,
            bytes: b"",
            raw_bytes: 0,
        };
        let is_jpeg = head.has_extension("jpg") || head.has_extension("jpeg");
        if is_jpeg { JPEG_HEAD_BYTES } else { HEAD_BYTES }
    }

    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        match head.bytes {
            [0x89, b'P', b'N', b'G', ..] => describe_png(head.bytes),
            [0xff, 0xd8, 0xff, ..] => describe_jpeg(head.bytes),
            [b'D', b'D', b'S', b' ', ..] => describe_dds(head),
            [0xab, b'K', b'T', b'X', ..] => describe_ktx2(head),
            _ => None,
        }
    }
}

fn describe_png(bytes: &[u8]) -> Option<Metadata> {
    let header = png::header(bytes).ok()?;
    let sides = 1..=i32::MAX.unsigned_abs();
    let fits = sides.contains(&header.width) && sides.contains(&header.height);
    let channels = u8::try_from(header.channels()?).ok()?;
    fits.then(|| {
        picture(
            header.width,
            header.height,
            channels,
            header.depth,
            Container::PNG,
        )
    })
}

/// The fields of the first start-of-frame segment (ITU-T T.81, B.2.2).
fn describe_jpeg(bytes: &[u8]) -> Option<Metadata> {
    let (_, frame) = jpeg::segments(bytes).find(|(marker, _)| jpeg::is_frame(*marker))?;
    let [bits, h1, h2, w1, w2, channels] = *frame.first_chunk()?;
    let (width, height) = (u16::from_be_bytes([w1, w2]), u16::from_be_bytes([h1, h2]));
    let (width, height) = (u32::from(width), u32::from(height));
    let fits = width > 0 && height > 0 && (1..=4).contains(&channels);
    fits.then(|| picture(width, height, channels, bits, Container::JPEG))
}

fn picture(width: u32, height: u32, channels: u8, bits: u8, container: Container) -> Metadata {
    image(Image {
        width,
        height,
        depth: 1,
        layers: 1,
        channels,
        bits,
        container,
        ..Image::default()
    })
}

fn image(image: Image) -> Metadata {
    let mut record = Metadata::new(Kind::IMAGE);
    record.image = Some(image);
    record
}

fn describe_dds(head: &Head<'_>) -> Option<Metadata> {
    let header = dds::Header::read(head.bytes).ok()?;
    if header.width == 0 || header.height == 0 || header.layers > u32::from(u16::MAX) {
        return None;
    }
    let mut record = image(Image {
        width: header.width,
        height: header.height,
        depth: header.depth,
        layers: header.layers,
        format: header.texels.map_or(0, |texels| texels.vulkan),
        channels: header.texels.map_or(0, |texels| texels.channels),
        bits: header.texels.map_or(0, |texels| texels.bits),
        container: Container::DDS,
        maxval: 0,
    });
    // A file that is too short for its mips has none.
    let found = header
        .texels
        .and_then(|texels| dds_mips(texels, &header, head.raw_bytes));
    record.mips = found.unwrap_or_default();
    Some(record)
}

/// Layer by layer, and in each its levels, the largest first.
fn dds_mips(format: Texels, header: &dds::Header, end: u64) -> Option<Vec<Mip>> {
    let layers = header.layers;
    let levels = header.levels.min(MIP_LEVELS_MAX as u32);
    let mut at = header.start as u64;
    let mut mips = Vec::new();
    // As many as a record has room for.
    if u64::from(layers) * u64::from(levels) > 1024 {
        return None;
    }
    for layer in 0..layers {
        for level in 0..levels {
            let (row_bytes, rows) = rows(format, (header.width, header.height), level);
            let row_bytes = u32::try_from(row_bytes).ok()?;
            let slice = u64::from(row_bytes).checked_mul(rows)?;
            let bytes = slice.checked_mul(u64::from(halved(header.depth, level)))?;
            if at.checked_add(bytes)? > end {
                return None;
            }
            mips.push(Mip {
                level: level as u16,
                layer: layer as u16,
                row_bytes,
                offset: at,
                bytes,
            });
            at += bytes;
        }
    }
    Some(mips)
}

/// A side of a level.
fn halved(full: u32, level: u32) -> u32 {
    full.checked_shr(level).unwrap_or(0).max(1)
}

/// Bytes of a row of blocks of a level, and the number of rows.
fn rows(format: Texels, (width, height): (u32, u32), level: u32) -> (u64, u64) {
    let blocks = |side| u64::from(halved(side, level).div_ceil(format.side));
    (blocks(width) * u64::from(format.bytes), blocks(height))
}

/// The level index says where each level lies, all its layers and faces together (Khronos Texture
/// File Format 2.0, section 3).
fn describe_ktx2(head: &Head<'_>) -> Option<Metadata> {
    let (header, index) = head.bytes.split_first_chunk()?;
    let header = ktx2::Header::from_bytes(header).ok()?;
    let levels = header.level_count.max(1) as usize;
    let layers = header.layer_count.max(1).checked_mul(header.face_count)?;
    if levels > MIP_LEVELS_MAX {
        return None;
    }
    let mut shape = Image {
        width: header.pixel_width,
        height: header.pixel_height.max(1),
        depth: header.pixel_depth.max(1),
        layers,
        format: header.format.map_or(0, |format| format.value()),
        container: Container::KTX2,
        ..Image::default()
    };
    let (index, _) = index.as_chunks();
    let mut mips = Vec::new();
    for (level, place) in (0..).zip(index.get(..levels)?) {
        let place = LevelIndex::from_bytes(place);
        if place.byte_offset.checked_add(place.byte_length)? > head.raw_bytes {
            return None;
        }
        mips.push(Mip {
            level,
            layer: 0,
            row_bytes: 0,
            offset: place.byte_offset,
            bytes: place.byte_length,
        });
    }
    let supercompressed = header.supercompression_scheme.is_some();
    // Rows are known only of a single image that is not supercompressed.
    if let (Some(format), false, 1) = (of_vulkan(shape.format), supercompressed, layers) {
        (shape.channels, shape.bits) = (format.channels, format.bits);
        for mip in &mut mips {
            let sides = (shape.width, shape.height);
            let (row, count) = rows(format, sides, u32::from(mip.level));
            if row.checked_mul(count) == Some(mip.bytes) {
                mip.row_bytes = u32::try_from(row).unwrap_or(0);
            }
        }
    }
    let mut record = image(shape);
    record.mips = mips;
    Some(record)
}
