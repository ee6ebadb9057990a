//! Metadata records of images in packages: size, format and the offset of each mip, from the header
//! fields alone. Nothing is decoded.

use millstream_pak::limits::MIP_LEVELS_MAX;
use millstream_pak::metadata::{Container, Image, Kind, Metadata, Mip};
use millstream_pak::{Describe, Head};

use crate::image::vulkan::Texels;
use crate::image::{Layout, dds, jpeg, ktx, png};

/// Bytes read from the start of an entry; the header of a KTX2 file, of at most [`MIP_LEVELS_MAX`]
/// levels, is the longest.
const HEAD_BYTES: usize = 4096;

/// Segments of 64 KiB with profiles and previews may come before the size of a JPEG.
const JPEG_HEAD_BYTES: usize = 512 << 10;

/// Maximum number of mips of one record, of all layers together.
const DDS_MIPS_MAX: u64 = 1024;

/// Describes PNG, JPEG, DDS and KTX2 files for the packer.
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
        let name = name.to_ascii_lowercase();
        match name.ends_with(b".jpg") || name.ends_with(b".jpeg") {
            true => JPEG_HEAD_BYTES,
            false => HEAD_BYTES,
        }
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

/// Reads the fields of the first start-of-frame segment (ITU-T T.81, B.2.2).
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
    if let Some(texels) = header.texels {
        shape.format = texels.vulkan;
        shape.channels = texels.channels - u8::from(header.opaque);
        shape.bits = texels.bits;
    }
    let mut record = image(shape);
    record.mips = dds_mips(&header, head.raw_bytes).unwrap_or_default();
    Some(record)
}

/// Returns the mips layer by layer, each from its largest level down. `None` if the format is
/// unknown, or the file too short.
fn dds_mips(header: &dds::Header, raw_bytes: u64) -> Option<Vec<Mip>> {
    let sides = [header.width, header.height, header.depth];
    // No more than halving leaves, and than a record has room for.
    let most = Layout::full_levels(sides.into_iter().max()?);
    let count = u64::from(header.layers) * u64::from(header.levels);
    if header.levels > most || count > DDS_MIPS_MAX {
        return None;
    }
    let mut end = header.start as u64;
    let mut mips = Vec::new();
    for layer in 0..header.layers {
        for level in 0..header.levels {
            let mip = mip(header.texels?, sides, level, end)?;
            end = end.checked_add(mip.bytes).filter(|&end| end <= raw_bytes)?;
            let layer = layer as u16;
            mips.push(Mip { layer, ..mip });
        }
    }
    Some(mips)
}

/// Returns the level of an image of these sides that begins at `offset`.
pub(crate) fn mip(texels: &Texels, sides: [u32; 3], level: u32, offset: u64) -> Option<Mip> {
    let (side, bytes) = texels.block;
    let [width, height, depth] = sides.map(|full| full.checked_shr(level).unwrap_or(0).max(1));
    let row_bytes = u64::from(width.div_ceil(side)) * u64::from(bytes);
    let rows = u64::from(height.div_ceil(side)) * u64::from(depth);
    Some(Mip {
        level: u16::try_from(level).ok()?,
        layer: 0,
        row_bytes: u32::try_from(row_bytes).ok()?,
        offset,
        bytes: row_bytes.checked_mul(rows)?,
    })
}

/// The level index locates each level, with all its layers and faces (Khronos Texture File Format
/// 2.0, section 3).
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
    // Row lengths are known only for a single image that is not supercompressed.
    let texels = ktx::texels(&header)
        .filter(|_| header.supercompression_scheme.is_none() && shape.layers == 1);
    if let Some(texels) = texels {
        (shape.channels, shape.bits) = (texels.channels, texels.bits);
    }
    let sides = [shape.width, shape.height, shape.depth];
    for level in 0..levels {
        let (offset, bytes) = ktx::place(head.bytes, level)?;
        if offset.checked_add(bytes)? > head.raw_bytes {
            return None;
        }
        let known = texels.and_then(|texels| mip(texels, sides, level, offset));
        let known = known.filter(|mip| mip.bytes == bytes);
        record.mips.push(known.unwrap_or(Mip {
            level: level as u16,
            offset,
            bytes,
            ..Mip::default()
        }));
    }
    Some(record)
}
