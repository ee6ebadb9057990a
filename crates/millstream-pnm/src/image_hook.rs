//! A decoding hook with which the crate `image` reads the PNM family through this crate.
//!
//! ```
//! millstream_pnm::image_hook::register();
//! let bytes = std::io::Cursor::new(b"P3 1 1 255 1 2 3");
//! let reader = image::ImageReader::new(bytes).with_guessed_format()?;
//! assert_eq!(reader.decode()?.to_rgb8().as_raw(), &[1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! That crate's pixels use the whole range of their type, so samples with a maximal value other
//! than 255 or 65535 are scaled, rounded to the nearest. Images with one to four channels are gray
//! or color, with or without opacity; others are rejected.

use std::io::Read;

use image::error::{
    DecodingError, ImageFormatHint, LimitError, LimitErrorKind, UnsupportedError,
    UnsupportedErrorKind,
};
use image::hooks::{GenericReader, register_decoding_hook, register_format_detection_hook};
use image::{ColorType, ImageDecoder, ImageError, ImageResult};

use crate::error::{Error, ErrorKind};
use crate::format::Format;
use crate::image::{Image, Samples};

/// File name extensions of the family.
const EXTENSIONS: [&str; 5] = ["pnm", "pbm", "pgm", "ppm", "pam"];

/// Registers the hook for the process. Returns `false` if an extension already has a hook. May be
/// called from any thread.
pub fn register() -> bool {
    let mut registered = true;
    for extension in EXTENSIONS {
        registered &= register_decoding_hook(
            extension.into(),
            Box::new(|reader| Ok(Box::new(Decoder::new(reader)?))),
        );
    }
    if registered {
        for format in Format::ALL {
            register_format_detection_hook(EXTENSIONS[0].into(), format.magic().as_bytes(), None);
        }
    }
    registered
}

/// A decoded image with its color type.
struct Decoder {
    image: Image,
    color: ColorType,
}

impl Decoder {
    fn new(mut reader: GenericReader<'_>) -> ImageResult<Decoder> {
        let mut bytes = Vec::new();
        reader
            .read_to_end(&mut bytes)
            .map_err(ImageError::IoError)?;
        let image = crate::decode(&bytes).map_err(error)?;
        let wide = image.header.sample_bytes() == 2;
        let color = match (image.header.channels, wide) {
            (1, false) => ColorType::L8,
            (2, false) => ColorType::La8,
            (3, false) => ColorType::Rgb8,
            (4, false) => ColorType::Rgba8,
            (1, true) => ColorType::L16,
            (2, true) => ColorType::La16,
            (3, true) => ColorType::Rgb16,
            (4, true) => ColorType::Rgba16,
            (channels, _) => {
                let kind = UnsupportedErrorKind::GenericFeature(format!("{channels} channels"));
                let hint = ImageFormatHint::Name("PAM".into());
                let error = UnsupportedError::from_format_and_kind(hint, kind);
                return Err(ImageError::Unsupported(error));
            }
        };
        Ok(Decoder { image, color })
    }
}

fn error(error: Error) -> ImageError {
    match error.kind {
        ErrorKind::TooLarge => {
            ImageError::Limits(LimitError::from_kind(LimitErrorKind::InsufficientMemory))
        }
        _ => ImageError::Decoding(DecodingError::new(
            ImageFormatHint::Name("PNM".into()),
            error,
        )),
    }
}

impl ImageDecoder for Decoder {
    fn dimensions(&self) -> (u32, u32) {
        (self.image.header.width, self.image.header.height)
    }

    fn color_type(&self) -> ColorType {
        self.color
    }

    fn read_image(self, buffer: &mut [u8]) -> ImageResult<()> {
        let maxval = u32::from(self.image.header.maxval);
        match &self.image.samples {
            Samples::U8(samples) if maxval == 255 => buffer.copy_from_slice(samples),
            Samples::U8(samples) => {
                let scaled = |sample| (u32::from(sample) * 255 + maxval / 2) / maxval;
                for (to, sample) in buffer.iter_mut().zip(samples) {
                    *to = scaled(*sample) as u8;
                }
            }
            Samples::U16(samples) => {
                // Sixteen bits times sixteen bits, and half of the divisor, are within 32 bits.
                let scaled = |sample| (u32::from(sample) * 65_535 + maxval / 2) / maxval;
                for (to, sample) in buffer.as_chunks_mut::<2>().0.iter_mut().zip(samples) {
                    *to = (scaled(*sample) as u16).to_ne_bytes();
                }
            }
        }
        Ok(())
    }

    fn read_image_boxed(self: Box<Self>, buffer: &mut [u8]) -> ImageResult<()> {
        (*self).read_image(buffer)
    }
}
