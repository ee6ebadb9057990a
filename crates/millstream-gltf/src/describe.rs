//! Records of images for packages: size, format and the place of each mip, from the header fields
//! alone. Nothing is decoded.

use millstream_pak::limits::MIP_LEVELS_MAX;
use millstream_pak::metadata::{Container, Image, Kind, Metadata, Mip};
use millstream_pak::{Describe, Head};

use crate::image::{Layout, dds, jpeg, ktx, png};

/// Bytes of a name's front that are looked at; the header of a KTX2 file, of at most
/// [`MIP_LEVELS_MAX`] levels, is the longest.
const HEAD_BYTES: usize = 4096;

/// Segments of 64 KiB with profiles and previews may come before the size of a JPEG.
const JPEG_HEAD_BYTES: usize = 512 << 10;

/// Mips of one record, of all layers.
const DDS_MIPS_MAX: u32 = 1024;

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
    let (width, height) = (header.width, header.height);
    fits.then(|| picture(width, height, channels, header.depth, Container::PNG))
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
    if header.width == 0 || header.height == 0 {
        return None;
    }
    let mut shape = Image {
        width: header.width,
        height: header.height,
        depth: header.depth,
        layers: header.layers,
        container: Container::DDS,
        ..Image::default()
    };
    if let Some(pixels) = header.pixels {
        shape.format = match (pixels.swapped, pixels.srgb) {
            // VK_FORMAT_B8G8R8A8_UNORM and its sRGB variant.
            (true, false) => 44,
            (true, true) => 50,
            (false, srgb) => pixels.format.vulkan(srgb),
        };
        (shape.channels, shape.bits) = pixels.format.channels();
        shape.channels -= u8::from(pixels.opaque);
    }
    let mut record = image(shape);
    record.mips = dds_mips(&header, head.raw_bytes).unwrap_or_default();
    Some(record)
}

/// Layer by layer, and in each its levels, the largest first. A file that is too short for its mips
/// has none, nor has a volume.
fn dds_mips(header: &dds::Header, raw_bytes: u64) -> Option<Vec<Mip>> {
    let layout = header.layer_layout().ok().filter(|_| header.depth == 1)?;
    let start = |level| header.level_start(&layout, level) as u64;
    let layer_bytes = start(layout.levels()) - start(0);
    let end = u64::from(header.layers).checked_mul(layer_bytes)?;
    // As many as a record has room for.
    let fits = header.layers.checked_mul(layout.levels())? <= DDS_MIPS_MAX;
    if !fits || end.checked_add(start(0))? > raw_bytes {
        return None;
    }
    let mips = (0..header.layers).flat_map(|layer| {
        (0..layout.levels()).map(move |level| Mip {
            layer: layer as u16,
            ..mip(
                &layout,
                level,
                start(level) + u64::from(layer) * layer_bytes,
            )
        })
    });
    Some(mips.collect())
}

/// A level of an image, which begins at `offset`.
pub(crate) fn mip(layout: &Layout, level: u32, offset: u64) -> Mip {
    Mip {
        level: u16::try_from(level).expect("17 at most"),
        layer: 0,
        row_bytes: u32::try_from(layout.rows(level).0).expect("2^18 at most"),
        offset,
        bytes: layout.level_bytes(level) as u64,
    }
}

/// The level index says where each level lies, all its layers and faces together (Khronos Texture
/// File Format 2.0, section 3).
fn describe_ktx2(head: &Head<'_>) -> Option<Metadata> {
    let header = ktx::header(head.bytes).ok()?;
    let levels = header.level_count.max(1);
    if levels as usize > MIP_LEVELS_MAX {
        return None;
    }
    let mut record = image(Image {
        width: header.pixel_width,
        height: header.pixel_height.max(1),
        depth: header.pixel_depth.max(1),
        layers: header.layer_count.max(1).checked_mul(header.face_count)?,
        format: header.format.map_or(0, |format| format.value()),
        container: Container::KTX2,
        ..Image::default()
    });
    let shape = record.image.as_mut()?;
    // Rows are known only of a single image that is not supercompressed.
    let mut layout = None;
    if let Some((format, _)) = header.format.and_then(ktx::format)
        && header.supercompression_scheme.is_none()
        && (shape.layers, shape.depth) == (1, 1)
    {
        (shape.channels, shape.bits) = format.channels();
        layout = Layout::new(format, shape.width, shape.height, levels);
    }
    for level in 0..levels {
        let (offset, bytes) = ktx::place(head.bytes, level)?;
        if offset.checked_add(bytes)? > head.raw_bytes {
            return None;
        }
        let known = layout.map(|layout| mip(&layout, level, offset));
        record
            .mips
            .push(known.filter(|mip| mip.bytes == bytes).unwrap_or(Mip {
                level: level as u16,
                layer: 0,
                row_bytes: 0,
                offset,
                bytes,
            }));
    }
    Some(record)
}
