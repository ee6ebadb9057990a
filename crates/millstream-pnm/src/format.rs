//! The formats and their headers.
//!
//! Source: the format descriptions of Netpbm (<https://netpbm.sourceforge.net/doc/pnm.html> and
//! the pages linked there); where they are ambiguous, the behavior of its library.

use crate::limits::IMAGE_BYTES_MAX;

/// A format of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// P1: bilevel, text.
    PlainBitmap,
    /// P2: gray, text.
    PlainGraymap,
    /// P3: red, green and blue, text.
    PlainPixmap,
    /// P4: bilevel, eight pixels per byte.
    Bitmap,
    /// P5: gray, bytes or big-endian words.
    Graymap,
    /// P6: red, green and blue, bytes or big-endian words.
    Pixmap,
    /// P7 (PAM): any number of channels, bytes or big-endian words.
    Arbitrary,
}

impl Format {
    /// All formats, P1 first.
    pub const ALL: [Format; 7] = [
        Format::PlainBitmap,
        Format::PlainGraymap,
        Format::PlainPixmap,
        Format::Bitmap,
        Format::Graymap,
        Format::Pixmap,
        Format::Arbitrary,
    ];

    /// Returns the magic number, the format's first two bytes.
    #[must_use]
    pub const fn magic(self) -> &'static str {
        ["P1", "P2", "P3", "P4", "P5", "P6", "P7"][self as usize]
    }

    /// Returns the format whose magic number ends with this digit.
    pub(crate) fn of_digit(digit: u8) -> Option<Format> {
        let index = digit.checked_sub(b'1')?;
        Format::ALL.get(usize::from(index)).copied()
    }

    /// Returns whether the samples are text.
    #[must_use]
    pub const fn is_plain(self) -> bool {
        matches!(
            self,
            Format::PlainBitmap | Format::PlainGraymap | Format::PlainPixmap
        )
    }

    /// Returns whether the header has no maximal value, because it is always 1.
    #[must_use]
    pub const fn is_bilevel(self) -> bool {
        matches!(self, Format::PlainBitmap | Format::Bitmap)
    }

    /// Returns the number of channels, or `None` if the header states it.
    #[must_use]
    pub const fn channels(self) -> Option<u32> {
        match self {
            Format::PlainPixmap | Format::Pixmap => Some(3),
            Format::Arbitrary => None,
            _ => Some(1),
        }
    }
}

/// The meaning of an image's channels. PAM headers name it; for the other formats it follows from
/// the format.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TupleType {
    /// Bilevel, 0 is black.
    BlackAndWhite,
    /// Gray.
    Grayscale,
    /// Red, green, blue.
    Rgb,
    /// Bilevel and opacity.
    BlackAndWhiteAlpha,
    /// Gray and opacity.
    GrayscaleAlpha,
    /// Red, green, blue and opacity.
    RgbAlpha,
    /// Any other tuple type of the header; empty if it has none. Bytes that are not UTF-8 are
    /// replaced.
    Other(String),
}

impl TupleType {
    /// Returns the name in a PAM header.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            TupleType::BlackAndWhite => "BLACKANDWHITE",
            TupleType::Grayscale => "GRAYSCALE",
            TupleType::Rgb => "RGB",
            TupleType::BlackAndWhiteAlpha => "BLACKANDWHITE_ALPHA",
            TupleType::GrayscaleAlpha => "GRAYSCALE_ALPHA",
            TupleType::RgbAlpha => "RGB_ALPHA",
            TupleType::Other(name) => name,
        }
    }

    /// Returns the tuple type with this name in a PAM header.
    #[must_use]
    pub fn from_name(name: &str) -> TupleType {
        match name {
            "BLACKANDWHITE" => TupleType::BlackAndWhite,
            "GRAYSCALE" => TupleType::Grayscale,
            "RGB" => TupleType::Rgb,
            "BLACKANDWHITE_ALPHA" => TupleType::BlackAndWhiteAlpha,
            "GRAYSCALE_ALPHA" => TupleType::GrayscaleAlpha,
            "RGB_ALPHA" => TupleType::RgbAlpha,
            _ => TupleType::Other(name.to_owned()),
        }
    }

    /// Returns the minimum number of channels; an image may have more.
    #[must_use]
    pub fn channels_min(&self) -> u32 {
        match self {
            TupleType::BlackAndWhite | TupleType::Grayscale => 1,
            TupleType::BlackAndWhiteAlpha | TupleType::GrayscaleAlpha => 2,
            TupleType::Rgb => 3,
            TupleType::RgbAlpha => 4,
            TupleType::Other(_) => 1,
        }
    }

    /// Returns the tuple type of a format; that of PAM is in the header.
    pub(crate) fn of(format: Format) -> TupleType {
        match format {
            Format::PlainBitmap | Format::Bitmap => TupleType::BlackAndWhite,
            Format::PlainGraymap | Format::Graymap => TupleType::Grayscale,
            Format::PlainPixmap | Format::Pixmap => TupleType::Rgb,
            Format::Arbitrary => TupleType::Other(String::new()),
        }
    }
}

/// Returns the bytes per sample in memory.
pub(crate) const fn sample_bytes(maxval: u16) -> usize {
    if maxval < 256 { 1 } else { 2 }
}

/// The header of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The format.
    pub format: Format,
    /// Pixels per row, at least 1.
    pub width: u32,
    /// Number of rows, at least 1.
    pub height: u32,
    /// Samples per pixel, at least 1.
    pub channels: u32,
    /// The maximal value of a sample, 1 to 65535. Samples are not scaled.
    pub maxval: u16,
    /// The meaning of the channels.
    pub tuple_type: TupleType,
}

impl Header {
    /// Returns the number of samples of the image.
    ///
    /// # Panics
    /// If the fields are set to a product of 2^62 or more; those of a parsed header never are.
    #[must_use]
    pub fn sample_count(&self) -> u64 {
        self.checked_sample_count()
            .expect("a parsed header has been checked")
    }

    pub(crate) fn checked_sample_count(&self) -> Option<u64> {
        u64::from(self.width)
            .checked_mul(u64::from(self.height))?
            .checked_mul(u64::from(self.channels))
            .filter(|&count| count <= u64::MAX / 4)
    }

    /// Returns the bytes per sample in memory: 1 for maximal values up to 255, otherwise 2.
    #[must_use]
    pub const fn sample_bytes(&self) -> usize {
        sample_bytes(self.maxval)
    }

    /// Returns the bytes of the image in memory.
    ///
    /// # Panics
    /// As [`Header::sample_count`].
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.sample_count() * self.sample_bytes() as u64
    }

    /// Returns the minimum number of bytes that the samples take in a file.
    ///
    /// # Panics
    /// As [`Header::sample_count`].
    #[must_use]
    pub fn raster_bytes_min(&self) -> u64 {
        let samples = self.sample_count();
        match self.format {
            Format::PlainBitmap => samples,
            // A digit per sample, and a separator between two.
            Format::PlainGraymap | Format::PlainPixmap => (samples * 2).saturating_sub(1),
            Format::Bitmap => self.row_bytes() * u64::from(self.height),
            Format::Graymap | Format::Pixmap | Format::Arbitrary => self.image_bytes(),
        }
    }

    /// Returns the bytes per row in the file, for formats that are not text.
    pub(crate) fn row_bytes(&self) -> u64 {
        match self.format {
            Format::Bitmap => u64::from(self.width).div_ceil(8),
            _ => u64::from(self.width) * u64::from(self.channels) * self.sample_bytes() as u64,
        }
    }

    /// Whether the samples have the same bytes in the file as in memory: one byte each, not text.
    pub(crate) fn is_bytes(&self) -> bool {
        let raw = !self.format.is_plain() && self.format != Format::Bitmap;
        raw && self.sample_bytes() == 1
    }

    /// Whether the image is within `bytes_max`, `IMAGE_BYTES_MAX`, and the address space.
    pub(crate) fn fits(&self, bytes_max: u64) -> bool {
        let bytes = self.image_bytes();
        bytes <= bytes_max.min(IMAGE_BYTES_MAX) && isize::try_from(bytes).is_ok()
    }
}
