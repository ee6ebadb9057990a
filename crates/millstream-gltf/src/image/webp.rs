//! Decodes WebP, through `image-webp`; of an animation, the first frame.

use std::io::Cursor;

use image_webp::WebPDecoder;

use super::Layout;

fn decoder(stored: &[u8]) -> Result<WebPDecoder<Cursor<&[u8]>>, &'static str> {
    WebPDecoder::new(Cursor::new(stored)).map_err(|_| "the WebP's header is damaged")
}

/// Returns the layout, and the bytes that decoding allocates besides the image.
pub(super) fn plan(stored: &[u8]) -> Result<(Layout, usize), &'static str> {
    let mut decoder = decoder(stored)?;
    let (width, height) = decoder.dimensions();
    check_frames(stored, width, height)?;
    let layout = Layout::plain(width, height)?;
    let bytes = match (
        decoder.is_animated(),
        decoder.is_lossy(),
        decoder.has_alpha(),
    ) {
        // The canvas, a frame, and what the frame itself takes.
        (true, ..) => 15,
        // Planes of luma and chroma; alpha as an image of its own.
        (_, true, false) => 2,
        (_, true, true) => 7,
        // The images of transforms; of an opaque one, a whole one with alpha.
        (_, false, true) => 1,
        (_, false, false) => 5,
    };
    Ok((layout, width as usize * height as usize * bytes))
}

/// Refuses lossy frames with longer sides than the image: `image-webp` allocates memory for a
/// frame's sides before it compares them. It may decode any chunk of the file as a frame, and of an
/// animation's frame (`ANMF`) the first two; frames are recognized by their start code (RFC 6386,
/// 9.1), as their names are not reliable.
fn check_frames(stored: &[u8], width: u32, height: u32) -> Result<(), &'static str> {
    let outer = chunks(stored.get(12..).unwrap_or(&[]));
    let all = outer.flat_map(|(name, data)| {
        let inner = data.get(16..).filter(|_| name == b"ANMF");
        let inner = chunks(inner.unwrap_or(&[])).take(2);
        std::iter::once(data).chain(inner.map(|(_, data)| data))
    });
    for data in all {
        if let Some(&[_, _, _, 0x9d, 0x01, 0x2a, w1, w2, h1, h2]) = data.first_chunk() {
            let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
            if side(w1, w2) > width || side(h1, h2) > height {
                return Err("a frame of the WebP is larger than its canvas");
            }
        }
    }
    Ok(())
}

/// Returns RIFF chunks: the name, and all bytes from its data on, as its length may be wrong.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (&[a, b, c, d], name) = (rest.get(4..)?.first_chunk()?, &rest[..4]);
        let data = &rest[8..];
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        rest = data.get(len.saturating_add(len & 1)..).unwrap_or(&[]);
        Some((name, data))
    })
}

pub(super) fn decode(stored: &[u8], pixels: &mut [u8]) -> Result<(), &'static str> {
    let mut decoder = decoder(stored)?;
    let damaged = "the WebP is damaged or truncated";
    if decoder.has_alpha() {
        return decoder.read_image(pixels).map_err(|_| damaged);
    }
    // Three bytes per pixel, decoded into the destination's end and widened from its beginning on:
    // the reader stays ahead of the writer, as in the PNG decoder.
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
