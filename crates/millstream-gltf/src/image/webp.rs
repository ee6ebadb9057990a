//! WebP, through `image-webp`. Of an animation, the first frame.

use std::io::Cursor;

use image_webp::WebPDecoder;

use super::Layout;

fn decoder(stored: &[u8]) -> Result<WebPDecoder<Cursor<&[u8]>>, &'static str> {
    WebPDecoder::new(Cursor::new(stored)).map_err(|_| "the WebP's header is damaged")
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    let (width, height) = decoder(stored)?.dimensions();
    Layout::plain(width, height)
}

/// What decoding takes beside the image.
pub(super) fn work_bytes(stored: &[u8], width: u32, height: u32) -> Result<usize, &'static str> {
    let mut decoder = decoder(stored)?;
    let bytes = match (
        decoder.is_animated(),
        decoder.is_lossy(),
        decoder.has_alpha(),
    ) {
        // The canvas, a frame, and what the frame itself takes.
        (true, ..) => 15,
        // Planes of brightness and color; the alpha as an image of its own.
        (_, true, false) => 2,
        (_, true, true) => 7,
        // The images of transforms; of an opaque one, a whole one with alpha.
        (_, false, true) => 1,
        (_, false, false) => 5,
    };
    Ok(width as usize * height as usize * bytes)
}

pub(super) fn decode(stored: &[u8], pixels: &mut [u8]) -> Result<(), &'static str> {
    let mut decoder = decoder(stored)?;
    let damaged = "the WebP is damaged or truncated";
    if decoder.has_alpha() {
        return decoder.read_image(pixels).map_err(|_| damaged);
    }
    // Three bytes a pixel, decoded into the destination's end and widened towards its beginning:
    // the reader is always ahead, as in the PNG decoder.
    let start = pixels.len() / 4;
    decoder
        .read_image(&mut pixels[start..])
        .map_err(|_| damaged)?;
    for at in 0..start {
        let from = start + 3 * at;
        let [red, green, blue] = [pixels[from], pixels[from + 1], pixels[from + 2]];
        pixels[4 * at..4 * at + 4].copy_from_slice(&[red, green, blue, 0xff]);
    }
    Ok(())
}
