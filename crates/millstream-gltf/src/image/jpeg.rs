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
