//! Decodes JPEG: with `zune-jpeg`, straight to RGBA in the destination, or with `jpeg-decoder`.
//!
//! `zune-jpeg` is faster, but decodes sequential images of several scans and some sampling factors
//! to wrong pixels, does not convert RGB to RGBA, and tells RGB from YCbCr by other rules than
//! libjpeg. `jpeg-decoder` decodes those. It tolerates scans that are too short, and starts threads
//! for images wider than 128 pixels.

use jpeg_decoder::ColorTransform;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::Layout;
use crate::limits;

fn decoder(stored: &[u8]) -> JpegDecoder<ZCursor<&[u8]>> {
    let side = limits::IMAGE_SIDE_MAX as usize;
    let options = DecoderOptions::default()
        .set_max_width(side)
        .set_max_height(side)
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGBA);
    JpegDecoder::new_with_options(ZCursor::new(stored), options)
}

/// How a JPEG is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    library: Library,
    /// Bytes that the library allocates for each pixel.
    pixel_bytes: usize,
    /// Offset of the first scan's header, after its marker and length.
    first_scan: usize,
    /// Maximum number of scans after it: each can cost as much as the whole image.
    scans_more: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Library {
    Zune,
    JpegDecoder { is_rgb: bool },
}

pub(super) fn plan(stored: &[u8]) -> Result<(Way, Layout), &'static str> {
    let (way, frame) = check(stored)?;
    let layout = Layout::plain(frame.width.into(), frame.height.into())?;
    if way.library != Library::Zune {
        return Ok((way, layout));
    }
    let mut decoder = decoder(stored);
    decoder
        .decode_headers()
        .map_err(|_| "the JPEG's header is damaged")?;
    let info = decoder.info().ok_or("the JPEG declares no size")?;
    let found = (info.components, info.width, info.height);
    if found != (frame.components, frame.width, frame.height) {
        return Err("the JPEG's segments do not follow one another");
    }
    Ok((way, layout))
}

pub(super) fn decode(stored: &[u8], way: Way, pixels: &mut [u8]) -> Result<(), &'static str> {
    const DAMAGED: &str = "the JPEG is damaged, truncated, or of a kind that is not supported";
    // Data between later scans can make the library stop before it has written all pixels.
    pixels.fill(0);
    let stored = &stored[..way.end(stored)];
    let Library::JpegDecoder { is_rgb } = way.library else {
        let decoded = decoder(stored).decode_into(pixels);
        return decoded.map_err(|_| DAMAGED);
    };
    let mut decoder = jpeg_decoder::Decoder::new(stored);
    decoder.set_color_transform(match is_rgb {
        true => ColorTransform::RGB,
        false => ColorTransform::YCbCr,
    });
    let rgb = decoder.decode().map_err(|_| DAMAGED)?;
    let (wide, _) = pixels.as_chunks_mut::<4>();
    if rgb.len() != wide.len() * 3 {
        return Err(DAMAGED);
    }
    for (pixel, &[red, green, blue]) in wide.iter_mut().zip(rgb.as_chunks().0) {
        *pixel = [red, green, blue, 0xff];
    }
    Ok(())
}

/// Returns the segments of a JPEG up to the first scan (ITU-T T.81, B.1.1): the marker, and the
/// data after the length. Ends at the first invalid segment.
pub(crate) fn segments(stored: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut at = 2;
    std::iter::from_fn(move || {
        // Any number of fill bytes may precede a marker.
        while *stored.get(at)? == 0xff && *stored.get(at + 1)? == 0xff {
            at += 1;
        }
        let head = stored.get(at..)?.first_chunk::<4>()?;
        let [0xff, marker @ 0xc0..=0xfe, high, low] = *head else {
            return None;
        };
        let start = at + 4;
        at += 2 + usize::from(u16::from_be_bytes([high, low]));
        // Restart markers and those of the image's start and end have no length.
        let has_data = !matches!(marker, 0xd0..=0xd9);
        let data = stored.get(start..at).filter(|_| has_data)?;
        if marker == START_OF_SCAN {
            at = stored.len();
        }
        Some((marker, data))
    })
}

/// Chooses the library. Refuses images on which it panics, decodes wrongly or takes long, and bytes
/// between segments, which could hide them.
fn check(stored: &[u8]) -> Result<(Way, Frame), &'static str> {
    let mut frame: Option<(u8, Frame)> = None;
    let (mut is_jfif, mut adobe_transform) = (false, None);
    for (nth, (marker, data)) in segments(stored).enumerate() {
        if nth == SEGMENTS_MAX {
            return Err("the JPEG has too many segments before its first scan");
        }
        match (marker, frame) {
            (ADOBE, Some(_)) => return Err("the JPEG's Adobe segment is behind its frame"),
            (ADOBE, None) if data.starts_with(b"Adobe") => adobe_transform = data.get(11).copied(),
            (START_OF_SCAN, Some((kind, frame))) => {
                let is_progressive = kind == PROGRESSIVE;
                let is_whole = data.first() == Some(&frame.components);
                let is_rgb = match adobe_transform {
                    _ if is_jfif => false,
                    Some(transform) => transform == 0,
                    None => frame.names_rgb,
                };
                let zune_sees_rgb = frame.names_rgb || adobe_transform == Some(0);
                let by_zune = frame.components == 1
                    || frame.is_usual && !zune_sees_rgb && (is_progressive || is_whole);
                let (library, sample_bytes) = match by_zune {
                    true => (Library::Zune, usize::from(is_progressive) * 2),
                    // Coefficients, a queue of rows, planes and the image.
                    false => (Library::JpegDecoder { is_rgb }, 6),
                };
                let way = Way {
                    library,
                    pixel_bytes: usize::from(frame.components) * sample_bytes,
                    first_scan: data.as_ptr().addr() - stored.as_ptr().addr(),
                    // In T.81 each component of a sequential frame is in one scan.
                    scans_more: match is_progressive {
                        true => SCANS_MAX,
                        false if is_whole => 0,
                        false => usize::from(frame.components) - 1,
                    },
                };
                return Ok((way, frame));
            }
            (0xc0..=0xc2, None) => frame = Some((marker, Frame::read(data)?)),
            (kind, _) if is_frame(kind) => {
                return Err("the JPEG has a second frame, or one of a kind that is not supported");
            }
            // `zune-jpeg` reads five bytes of it, and so misreads what follows.
            (APP0, _) if data.len() == 4 => return Err("the JPEG's APP0 segment is cut"),
            (APP0, _) if data.starts_with(b"JFIF\0") => is_jfif = true,
            _ => {}
        }
    }
    Err("the JPEG's segments do not follow one another")
}

impl Way {
    /// Returns where the library must stop. Bytes after the image's end that look like scans, as of
    /// a preview, do no harm.
    fn end(self, stored: &[u8]) -> usize {
        let pairs = stored[self.first_scan..].windows(2).enumerate();
        let mut scans = pairs.filter(|(_, pair)| *pair == [0xff, START_OF_SCAN]);
        let behind = scans.nth(self.scans_more);
        behind.map_or(stored.len(), |(at, _)| self.first_scan + at)
    }

    /// Returns the memory of decoding besides the image, with sides rounded up to units of four
    /// blocks (32 pixels).
    pub(super) fn work_bytes(self, (width, height): (u32, u32)) -> usize {
        let padded = |side: u32| side.next_multiple_of(32) as usize;
        padded(width) * padded(height) * self.pixel_bytes
    }
}

/// The fields of a frame header.
#[derive(Clone, Copy)]
struct Frame {
    components: u8,
    width: u16,
    height: u16,
    /// Whether its components are named R, G, B.
    names_rgb: bool,
    /// Whether `zune-jpeg` decodes its sampling factors.
    is_usual: bool,
}

impl Frame {
    /// Reads the header of a frame (T.81, B.2.2) that the libraries can decode.
    fn read(data: &[u8]) -> Result<Frame, &'static str> {
        let Some(&[_, h1, h0, w1, w0, components @ (1 | 3)]) = data.first_chunk() else {
            return Err("the JPEG has not one component or three: CMYK is not supported");
        };
        let [height, width] = [[h1, h0], [w1, w0]].map(u16::from_be_bytes);
        let (listed, _) = data[6..].as_chunks::<3>();
        let mut factors = (listed.iter()).map(|[_, factors, _]| [factors >> 4, factors & 15]);
        let first = factors.next().unwrap_or_default();
        // In T.81 another component than the first may have more samples.
        let is_usual = first.iter().all(|factor| factor.is_power_of_two())
            && factors.all(|[h, v]| h <= first[0] && v <= first[1]);
        if components == 1 && width > GREY_WIDTH_MAX {
            return Err("the JPEG is grey and wider than 65528 pixels");
        }
        Ok(Frame {
            components,
            width,
            height,
            names_rgb: listed.iter().map(|[name, ..]| name).eq(b"RGB"),
            is_usual,
        })
    }
}

/// Maximum number of segments before the first scan; `zune-jpeg` compares some kinds with all
/// before them. Profiles and previews take up to 255 each.
const SEGMENTS_MAX: usize = 4096;

/// Maximum number of scans after the first of a progressive image; encoders write about ten.
const SCANS_MAX: usize = 100;

/// `zune-jpeg` adds 7 to the width in 16 bits.
const GREY_WIDTH_MAX: u16 = u16::MAX - 7;

const APP0: u8 = 0xe0;

/// APP14, which says how colors are stored.
const ADOBE: u8 = 0xee;

/// SOF2.
const PROGRESSIVE: u8 = 0xc2;

const START_OF_SCAN: u8 = 0xda;

/// Whether a segment starts a frame. DHT, JPG and DAC, which do not, are in the same range.
pub(crate) fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}
