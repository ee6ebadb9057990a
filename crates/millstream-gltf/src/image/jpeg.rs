//! JPEG, through `zune-jpeg`, straight to RGBA in the destination.

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

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    check_sampling(stored)?;
    let mut decoder = decoder(stored);
    decoder
        .decode_headers()
        .map_err(|_| "the JPEG's header is damaged")?;
    let (width, height) = decoder.dimensions().ok_or("the JPEG declares no size")?;
    let side = |side: usize| u32::try_from(side).map_err(|_| "the JPEG's size is invalid");
    Layout::plain(side(width)?, side(height)?)
}

pub(super) fn decode(stored: &[u8], pixels: &mut [u8]) -> Result<(), &'static str> {
    let mut decoder = decoder(stored);
    decoder
        .decode_into(pixels)
        .map_err(|_| "the JPEG is damaged, truncated, or of a kind that is not supported")?;
    Ok(())
}

/// Segments of a JPEG up to the first scan (ITU-T T.81, B.1.1): marker, and what follows the
/// length. Ends at anything unusual.
pub(crate) fn segments(stored: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut at = 2;
    std::iter::from_fn(move || {
        // Any number of fill bytes may stand before a marker.
        while *stored.get(at)? == 0xff && *stored.get(at + 1)? == 0xff {
            at += 1;
        }
        let head = stored.get(at..)?.first_chunk::<4>()?;
        let [0xff, marker @ 0xc0..=0xfe, high, low] = *head else {
            return None;
        };
        let start = at + 4;
        at += 2 + usize::from(u16::from_be_bytes([high, low]));
        // Markers of restarts, of the image's start and of its end have no length.
        let has_data = !matches!(marker, 0xd0..=0xd9);
        let data = stored.get(start..at).filter(|_| has_data)?;
        if marker == START_OF_SCAN {
            at = stored.len();
        }
        Some((marker, data))
    })
}

/// Refuses what `zune-jpeg` panics on: a component that is sampled more finely than the first
/// (T.81, A.1.1), which no encoder makes by itself. Refuses what could hide one: bytes between
/// segments.
fn check_sampling(stored: &[u8]) -> Result<(), &'static str> {
    let mut last = 0;
    for (marker, data) in segments(stored) {
        last = marker;
        let factors = data.iter().skip(7).step_by(3);
        let mut factors = factors.map(|factors| (factors >> 4, factors & 15));
        if is_frame(marker)
            && let Some((horizontal, vertical)) = factors.next()
            && !factors.all(|(h, v)| h <= horizontal && v <= vertical)
        {
            return Err("the JPEG's first component has fewer samples than another");
        }
    }
    match last {
        START_OF_SCAN => Ok(()),
        _ => Err("the JPEG's segments do not follow one another"),
    }
}

const START_OF_SCAN: u8 = 0xda;

/// Whether a segment starts a frame: DHT, JPG and DAC have numbers among those that do.
pub(crate) fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

/// What decoding takes beside the image: of one that comes in several passes, every coefficient as
/// two bytes.
pub(super) fn work_bytes(stored: &[u8], width: u32, height: u32) -> usize {
    let all = || segments(stored);
    let mut frames = all().filter(|(marker, _)| is_frame(*marker));
    let scan = all().find(|(marker, _)| *marker == START_OF_SCAN);
    let (frame, other) = (frames.next(), frames.next());
    if let (Some((0xc0 | 0xc1, frame)), None, Some((_, scan))) = (frame, other, scan)
        && frame.get(5) == scan.first()
    {
        return 0;
    }
    // Up to four components, whose blocks fill whole units of four by four.
    let components = frame.and_then(|(_, frame)| frame.get(5)).copied();
    let padded = |side: u32| side.next_multiple_of(32) as usize;
    padded(width) * padded(height) * 2 * usize::from(components.unwrap_or(4))
}
