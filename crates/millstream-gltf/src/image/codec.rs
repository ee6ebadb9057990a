//! The image codec: decodes stored images to [`Image`](super::Image) bytes, on the workers,
//! straight from staging into the request's destination.
//!
//! One application codec ([`CODEC`]) decodes all kinds, recognized by the first bytes, as media
//! types in scenes are often wrong. [`Codec::raw_len`] reads the stored image's header, so that
//! memory is allocated once, at its final size, and a decompression bomb is refused first.
//!
//! Plain PNGs of 8 bits are inflated by libdeflate (feature `c`, else zlib-rs) and unfiltered here,
//! in 0.77 of the `png` crate's time for noisy textures and 0.5 for screenshots (example
//! `image_speed`). `png` decodes the others. Over 40 JPEGs, `zune-jpeg` decodes 80 and
//! `jpeg-decoder` 57 million pixels per second, so the latter decodes only what the former cannot.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream::{Codec, CodecId, StorageOptions};
use zerocopy::FromZeros as _;

use super::{HEADER_BYTES, Layout, MAGIC, NO_MEMORY, TRUNCATED, dds, jpeg, ktx, png, webp};
use crate::limits;

/// The id of the image codec.
pub const CODEC: CodecId = CodecId(0x90);

/// Limits of images, against decompression bombs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Maximum number of pixels of one image (of its largest level).
    pub pixels_max: u64,
    /// Maximum ratio of decoded to stored bytes, for images of more than 65 MiB decoded, with the
    /// memory that the decoder needs besides the image. Images of one color may exceed the default,
    /// 1032: deflate's largest ratio, for the bytes of a PNG before they are widened to RGBA.
    pub ratio_max: u64,
}

impl Default for ImageLimits {
    fn default() -> ImageLimits {
        ImageLimits {
            pixels_max: limits::IMAGE_PIXELS_MAX_DEFAULT,
            ratio_max: limits::DEFLATE_RATIO_MAX,
        }
    }
}

/// Registers the image codec with a storage.
///
/// ```
/// use millstream::{Storage, StorageOptions};
/// let mut options = StorageOptions::default();
/// millstream_gltf::image::register(&mut options, Default::default());
/// let storage = Storage::new(options).unwrap();
/// ```
///
/// # Panics
/// If the id [`CODEC`] is taken.
pub fn register(options: &mut StorageOptions, limits: ImageLimits) {
    options.codec(CODEC, ImageCodec(limits));
}

struct ImageCodec(ImageLimits);

impl Codec for ImageCodec {
    fn raw_len(&self, stored: &[u8], _: u64) -> Result<Option<u64>, &'static str> {
        decoded_bytes(stored, self.0).map(|bytes| Some(bytes as u64))
    }

    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        decode(stored, raw, self.0)
    }
}

/// The kind of a stored image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Cooked: in the layout of [`Image`](super::Image).
    Ready,
    Png,
    Jpeg(jpeg::Way),
    Webp,
    Ktx,
    Dds,
}

/// How a stored image is decoded, read from its header.
#[derive(Debug)]
struct Plan {
    kind: Kind,
    layout: Layout,
    /// Bytes of the destination: those of the layout, and work space after them.
    raw_bytes: usize,
}

/// Returns the length of [`decode`]'s destination: the image, then work space, or as many bytes as
/// the decoder allocates elsewhere meanwhile (WebP, and JPEGs of several scans or an unusual kind).
///
/// # Errors
/// The likely cause: an unknown or unsupported kind, a damaged header, an image beyond the limits.
pub fn decoded_bytes(stored: &[u8], limits: ImageLimits) -> Result<usize, &'static str> {
    plan(stored, limits).map(|plan| plan.raw_bytes)
}

/// Runs a decoder and returns a panic as an error: three libraries have panicked on damaged images.
fn contained<T>(work: impl FnOnce() -> Result<T, &'static str>) -> Result<T, &'static str> {
    // What it leaves half written is not read after an error.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or(Err("the image is damaged: its decoder panicked"))
}

fn plan(stored: &[u8], limits: ImageLimits) -> Result<Plan, &'static str> {
    let (kind, layout, work) = contained(|| kind_of(stored))?;
    let (width, height) = layout.size(layout.first_level());
    if u64::from(width) * u64::from(height) > limits.pixels_max {
        return Err("the image has more pixels than the limit allows");
    }
    let raw_bytes = layout.bytes() + work;
    let most = (stored.len() as u64).saturating_mul(limits.ratio_max);
    if raw_bytes > limits::IMAGE_BYTES_FREE && raw_bytes as u64 > most {
        return Err(
            "the image is more times as long as its stored bytes than the limit allows \
                    (`ratio_max` of `ImageLimits`)",
        );
    }
    if kind == Kind::Ready && raw_bytes > stored.len() {
        return Err(TRUNCATED);
    }
    Ok(Plan {
        kind,
        layout,
        raw_bytes,
    })
}

/// Returns the kind and layout of a stored image, and the bytes of its decoder's work space.
fn kind_of(stored: &[u8]) -> Result<(Kind, Layout, usize), &'static str> {
    if stored.starts_with(&MAGIC) {
        Ok((Kind::Ready, Layout::parse(stored)?, 0))
    } else if stored.starts_with(&png::MAGIC) {
        let layout = png::layout(stored)?;
        let (width, height) = layout.size(0);
        Ok((Kind::Png, layout, png::work_bytes(width, height)))
    } else if stored.starts_with(&[0xff, 0xd8, 0xff]) {
        let (way, layout) = jpeg::plan(stored)?;
        Ok((Kind::Jpeg(way), layout, way.work_bytes(layout.size(0))))
    } else if stored.starts_with(b"RIFF") && stored.get(8..12) == Some(b"WEBP") {
        let (layout, work) = webp::plan(stored)?;
        Ok((Kind::Webp, layout, work))
    } else if stored.starts_with(&ktx::MAGIC) {
        Ok((Kind::Ktx, ktx::layout(stored)?, 0))
    } else if stored.starts_with(b"DDS ") {
        Ok((Kind::Dds, dds::layout(stored)?, 0))
    } else {
        Err("not a PNG, JPEG, WebP, KTX2 or DDS image")
    }
}

/// Decodes a stored image into `raw`, of the length that [`decoded_bytes`] returns; returns that
/// length.
///
/// # Errors
/// The likely cause in words.
pub fn decode(stored: &[u8], raw: &mut [u8], limits: ImageLimits) -> Result<usize, &'static str> {
    let plan = plan(stored, limits)?;
    decode_planned(stored, raw, &plan).map(|()| plan.raw_bytes)
}

fn decode_planned(stored: &[u8], raw: &mut [u8], plan: &Plan) -> Result<(), &'static str> {
    if raw.len() != plan.raw_bytes {
        return Err("the destination does not have the image's size");
    }
    // Only PNG uses the work space after the image; for other kinds it is counted, and not touched.
    let whole = plan.layout.bytes();
    plan.layout.write_header(raw);
    contained(|| match plan.kind {
        Kind::Ready => {
            raw.copy_from_slice(&stored[..whole]);
            Ok(())
        }
        Kind::Png => png::decode(stored, &plan.layout, &mut raw[HEADER_BYTES..]),
        Kind::Jpeg(way) => jpeg::decode(stored, way, &mut raw[HEADER_BYTES..whole]),
        Kind::Webp => webp::decode(stored, &mut raw[HEADER_BYTES..whole]),
        Kind::Ktx => ktx::decode(stored, &plan.layout, raw),
        Kind::Dds => dds::decode(stored, &plan.layout, raw),
    })
}

/// Decodes an image of any kind into a new vector, in the layout of [`Image`](super::Image); for
/// tools.
///
/// # Errors
/// The likely cause in words.
pub fn decode_vec(stored: &[u8], limits: ImageLimits) -> Result<Vec<u8>, &'static str> {
    let plan = plan(stored, limits)?;
    let mut raw = u8::new_vec_zeroed(plan.raw_bytes).map_err(|_| NO_MEMORY)?;
    decode_planned(stored, &mut raw, &plan)?;
    raw.truncate(plan.layout.bytes());
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::contained;

    #[test]
    fn a_decoder_that_panics_is_an_error() {
        let found: Result<(), _> = contained(|| panic!("on purpose"));
        assert!(found.expect_err("an error").contains("panicked"));
    }
}
