//! PNG (W3C PNG specification, third edition).
//!
//! Images of 8 bits per channel without interlacing, palette or transparent color, as nearly all
//! textures are, take the fast path: the whole deflate stream is decoded at once into the *end* of
//! the destination, and rows are then unfiltered and widened to RGBA, from its beginning on. A row
//! of the destination has four bytes per pixel and a filtered row at most one byte more, so with
//! one spare byte per row, and a spare row, the writer never reaches what is still to be read: no
//! second image is ever in memory. All other images go through the `png` crate.
//!
//! A row is widened to four channels *before* it is unfiltered: one loop serves all color types,
//! and the row above is always the row above in the destination.
//!
//! On the fast path the zlib stream's Adler-32 is checked; the CRCs of chunks, which guard the same
//! bytes, are not. A stream that does not fill the rows exactly goes to the `png` crate as well,
//! which ignores rows and bytes after the last row, as other decoders do.

use std::io::Cursor;

use millstream_codec::{CodecId, Scratch, decode_block};

use super::{Layout, NO_MEMORY, row};
use crate::limits;

pub(super) const MAGIC: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Returns the bytes of work space after the pixels: a filter byte for each row, and a row.
pub(crate) fn work_bytes(width: u32, height: u32) -> usize {
    height as usize + width as usize * 4
}

const COLOR_GREY: u8 = 0;
const COLOR_RGB: u8 = 2;
const COLOR_PALETTE: u8 = 3;
const COLOR_GREY_ALPHA: u8 = 4;
const COLOR_RGBA: u8 = 6;

/// The fields of the `IHDR` chunk (section 11.2.1).
pub(crate) struct Header {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Bits of a sample.
    pub(crate) depth: u8,
    color: u8,
    interlaced: bool,
}

pub(crate) fn header(stored: &[u8]) -> Result<Header, &'static str> {
    let Some(head) = stored.get(8..29) else {
        return Err("the PNG is truncated in its header");
    };
    if head[..8] != *b"\0\0\0\x0dIHDR" {
        return Err("the PNG does not begin with an IHDR chunk");
    }
    Ok(Header {
        width: word(head, 8),
        height: word(head, 12),
        depth: head[16],
        color: head[17],
        interlaced: head[20] != 0,
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Header {
    /// Returns the samples per pixel; `None` for an unknown color type.
    pub(crate) fn channels(&self) -> Option<usize> {
        match self.color {
            COLOR_GREY | COLOR_PALETTE => Some(1),
            COLOR_GREY_ALPHA => Some(2),
            COLOR_RGB => Some(3),
            COLOR_RGBA => Some(4),
            _ => None,
        }
    }
}

pub(super) fn layout(stored: &[u8]) -> Result<Layout, &'static str> {
    let header = header(stored)?;
    let layout = Layout::plain(header.width, header.height)?;
    let channels = header.channels().ok_or("the PNG's color type is unknown")?;
    let bits = u64::from(header.width) * channels as u64 * u64::from(header.depth.max(1));
    let raw = (bits / 8).max(1) * u64::from(header.height);
    if raw / limits::DEFLATE_RATIO_MAX > stored.len() as u64 {
        return Err("the PNG declares more pixels than its bytes can hold");
    }
    Ok(layout)
}

/// Decodes into `pixels`, which are those of the layout and the work space after them.
pub(super) fn decode(
    stored: &[u8],
    layout: &Layout,
    pixels: &mut [u8],
) -> Result<(), &'static str> {
    let header = header(stored)?;
    let channels = header.channels().unwrap_or(0);
    let is_plain = (header.depth, header.interlaced) == (8, false) && header.color != COLOR_PALETTE;
    match if is_plain { pieces(stored)? } else { None } {
        Some(pieces) => fast(stored, &pieces, channels, layout, pixels),
        None => library(stored, &mut pixels[..layout.level_bytes(0)]),
    }
}

/// Returns the pieces of the zlib stream; `None` if the image has a transparent color.
fn pieces(stored: &[u8]) -> Result<Option<Vec<&[u8]>>, &'static str> {
    let mut pieces = Vec::new();
    let mut rest = &stored[MAGIC.len()..];
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let len = word(head, 0) as usize;
        // The four bytes of CRC after the data are not checked, but must be present.
        let end = len.checked_add(4).and_then(|end| after.get(end..));
        rest = end.ok_or("a chunk of the PNG is longer than the file")?;
        match &head[4..] {
            b"tRNS" => return Ok(None),
            b"IDAT" => pieces.push(&after[..len]),
            b"IEND" => return Ok(Some(pieces)),
            _ => {}
        }
    }
    // Only the IEND chunk may be missing, and only as a whole.
    match rest {
        [] => Ok(Some(pieces)),
        _ => Err("the PNG is truncated between its chunks"),
    }
}

/// Inflates into the end of `pixels`, and unfilters the rows from there into place.
fn fast(
    stored: &[u8],
    pieces: &[&[u8]],
    channels: usize,
    layout: &Layout,
    pixels: &mut [u8],
) -> Result<(), &'static str> {
    let (width, height) = layout.size(0);
    let (width, height) = (width as usize, height as usize);
    let (filtered_row, out_row) = (1 + width * channels, width * 4);
    let work = pixels.len() - filtered_row * height;
    if !inflate(pieces, &mut pixels[work..])? {
        let pixels = &mut pixels[..layout.level_bytes(0)];
        let cause = "the PNG's data is damaged, or is shorter than its header says";
        return library(stored, pixels).map_err(|_| cause);
    }
    let first = vec![0; out_row];
    for y in 0..height {
        let at = work + y * filtered_row;
        let (above, rest) = pixels.split_at_mut(y * out_row);
        let (out, filtered) = rest.split_at_mut(at - y * out_row);
        let above = match y.checked_sub(1) {
            Some(before) => &above[before * out_row..],
            None => &first[..],
        };
        let row = &filtered[1..filtered_row];
        row::unfilter(filtered[0], channels, row, above, &mut out[..out_row])?;
    }
    Ok(())
}

/// Decodes the zlib stream; returns whether it is sound and fills `filtered` exactly.
fn inflate(pieces: &[&[u8]], filtered: &mut [u8]) -> Result<bool, &'static str> {
    let mut joined = Vec::new();
    let stream = match pieces {
        [one] => one,
        pieces => {
            let bytes = pieces.iter().map(|piece| piece.len()).sum();
            joined.try_reserve_exact(bytes).map_err(|_| NO_MEMORY)?;
            pieces
                .iter()
                .for_each(|piece| joined.extend_from_slice(piece));
            &joined[..]
        }
    };
    let written = decode_block(CodecId::ZLIB, &mut Scratch::default(), stream, filtered);
    Ok(written.is_ok_and(|written| written == filtered.len()))
}

fn library(stored: &[u8], pixels: &mut [u8]) -> Result<(), &'static str> {
    let damaged = "the PNG is damaged";
    let mut decoder = png::Decoder::new(Cursor::new(stored));
    decoder.set_transformations(
        png::Transformations::normalize_to_color8() | png::Transformations::ALPHA,
    );
    // Decompressed, their contents may be a thousand times as long.
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_ignore_text_chunk(true);
    let mut reader = decoder.read_info().map_err(|_| damaged)?;
    let (color, depth) = reader.output_color_type();
    if depth != png::BitDepth::Eight {
        return Err(damaged);
    }
    match color {
        png::ColorType::Rgba => {
            reader.next_frame(pixels).map_err(|_| damaged)?;
        }
        png::ColorType::GrayscaleAlpha => {
            let half = pixels.len() / 2;
            let frame = reader.next_frame(&mut pixels[half..]);
            frame.map_err(|_| damaged)?;
            for at in 0..half / 2 {
                let (grey, alpha) = (pixels[half + 2 * at], pixels[half + 2 * at + 1]);
                pixels[4 * at..4 * at + 4].copy_from_slice(&[grey, grey, grey, alpha]);
            }
        }
        _ => return Err(damaged),
    }
    Ok(())
}
