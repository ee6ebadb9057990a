//! Samples that are not text: bytes, big-endian words, packed bits.
//!
//! All may arrive in pieces of any size. A piece's samples are copied, and then checked against the
//! maximal value while they are in the cache.

use crate::error::{ErrorKind, Fault};
use crate::format::{Format, Header};
use crate::text::Moved;

/// Bytes that are copied before they are checked: they stay in the first-level cache.
const CHECK_BYTES: usize = 16 << 10;

/// A converter of raster bytes to samples.
pub(crate) struct RawSamples {
    kind: Kind,
    maxval: u16,
    /// The first byte of a word whose second is in the next piece.
    half: Option<u8>,
}

enum Kind {
    Bytes,
    Words,
    /// Packed bits: pixels per row, and the column of the next pixel, which may be inside a byte.
    Bits {
        width: u64,
        column: u64,
    },
}

impl RawSamples {
    pub(crate) fn new(header: &Header) -> RawSamples {
        let kind = match header.format {
            Format::Bitmap => Kind::Bits {
                width: u64::from(header.width),
                column: 0,
            },
            _ if header.sample_bytes() == 1 => Kind::Bytes,
            _ => Kind::Words,
        };
        RawSamples {
            kind,
            maxval: header.maxval,
            half: None,
        }
    }

    /// Consumes bytes and writes samples until either runs out.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Moved, Fault> {
        match self.kind {
            Kind::Bytes => {
                let len = bytes.len().min(out.len());
                copy_bytes(&bytes[..len], &mut out[..len], self.maxval)?;
                Ok(Moved {
                    consumed: len,
                    produced: len,
                })
            }
            Kind::Words => self.words(bytes, out),
            Kind::Bits { width, column } => {
                let (moved, column) = unpack(bytes, out, width, column);
                self.kind = Kind::Bits { width, column };
                Ok(moved)
            }
        }
    }

    fn words(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Moved, Fault> {
        let (samples, _) = out.as_chunks_mut::<2>();
        let mut moved = Moved::default();
        if let (Some(high), Some(&low), Some(first)) =
            (self.half, bytes.first(), samples.first_mut())
        {
            let value = u16::from_be_bytes([high, low]);
            if value > self.maxval {
                return Err(Fault {
                    kind: ErrorKind::SampleTooLarge,
                    at: -1,
                });
            }
            *first = value.to_ne_bytes();
            self.half = None;
            moved = Moved {
                consumed: 1,
                produced: 1,
            };
        }
        let (words, _) = bytes[moved.consumed..].as_chunks::<2>();
        let samples = &mut samples[moved.produced..];
        let count = words.len().min(samples.len());
        let step = CHECK_BYTES / 2;
        let pieces = words[..count].chunks(step);
        for (index, (from, to)) in pieces.zip(samples[..count].chunks_mut(step)).enumerate() {
            let mut most = 0;
            for (from, to) in from.iter().zip(to) {
                let value = u16::from_be_bytes(*from);
                most = value.max(most);
                *to = value.to_ne_bytes();
            }
            if most > self.maxval {
                let too_large = |word: &[u8; 2]| u16::from_be_bytes(*word) > self.maxval;
                let at = from.iter().position(too_large).unwrap_or(0);
                let at = moved.consumed + 2 * (index * step + at);
                return Err(Fault::new(ErrorKind::SampleTooLarge, at));
            }
        }
        moved.consumed += 2 * count;
        moved.produced += count;
        if count < samples.len()
            && let [byte] = bytes[moved.consumed..]
            && self.half.is_none()
        {
            self.half = Some(byte);
            moved.consumed += 1;
        }
        Ok(moved)
    }
}

/// Copies one-byte samples and checks them against `maxval`.
pub(crate) fn copy_bytes(from: &[u8], to: &mut [u8], maxval: u16) -> Result<(), Fault> {
    if maxval >= 255 {
        to.copy_from_slice(from);
        return Ok(());
    }
    for (index, (from, to)) in from
        .chunks(CHECK_BYTES)
        .zip(to.chunks_mut(CHECK_BYTES))
        .enumerate()
    {
        to.copy_from_slice(from);
        check_bytes(to, maxval).map_err(|fault| fault.after(index * CHECK_BYTES))?;
    }
    Ok(())
}

/// Checks one-byte samples against `maxval`.
pub(crate) fn check_bytes(samples: &[u8], maxval: u16) -> Result<(), Fault> {
    if maxval >= 255 {
        return Ok(());
    }
    let maxval = maxval as u8;
    for (index, piece) in samples.chunks(CHECK_BYTES).enumerate() {
        // The maximum first: the compiler vectorizes it, unlike a search.
        if piece.iter().fold(0, |most, &sample| sample.max(most)) > maxval {
            let at = piece
                .iter()
                .position(|&sample| sample > maxval)
                .unwrap_or(0);
            return Err(Fault::new(
                ErrorKind::SampleTooLarge,
                index * CHECK_BYTES + at,
            ));
        }
    }
    Ok(())
}

/// Unpacks eight pixels per byte, the first in the highest bit; the rest of a row's last byte is
/// padding. A byte is consumed with the last of its pixels that is not padding. Returns what was
/// moved, and the next column.
fn unpack(bytes: &[u8], out: &mut [u8], width: u64, mut column: u64) -> (Moved, u64) {
    let mut moved = Moved::default();
    for &byte in bytes {
        let begun = (column % 8) as usize;
        let whole = (width - column).min((8 - begun) as u64) as usize;
        let count = whole.min(out.len() - moved.produced);
        let pixels = &mut out[moved.produced..moved.produced + count];
        for (bit, pixel) in pixels.iter_mut().enumerate() {
            // In the file 1 is black; in memory it is 0.
            *pixel = 1 - (byte >> (7 - begun - bit) & 1);
        }
        column += count as u64;
        moved.produced += count;
        if count < whole {
            break;
        }
        if column == width {
            column = 0;
        }
        moved.consumed += 1;
    }
    (moved, column)
}
