//! Pictures made from a seed, as files.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_pnm::{Format, Header, Image, Samples, TupleType, encode};
use serde::Deserialize;

use crate::prelude::*;

const SEED: u64 = 0x504E_4D33;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Smooth with noise.
    Photo,
    /// Nearly constant, as the study's.
    Flat,
}

#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(super) path: PathBuf,
    pub(super) plain: bool,
    pub(super) file_len: usize,
    pub(super) file_word_sum: u64,
    pub(super) image_len: usize,
    pub(super) image_word_sum: u64,
}

impl Picture {
    pub(super) fn new(
        folder: &Path,
        kind: Kind,
        (width, height): (u32, u32),
        format: &str,
    ) -> Result<Picture> {
        let plain = format == "P3";
        let image = image(kind, (width, height), plain);
        let bytes = encoded(&image)?;
        let digit = if plain { 3 } else { 6 };
        let kind_name = format!("{kind:?}").to_lowercase();
        let path = folder.join(format!("{kind_name}-{width}x{height}.p{digit}.ppm"));
        if fs::read(&path).map_or(true, |found| found != bytes) {
            replace(&path, &bytes)?;
        }
        let samples = image.samples.as_bytes();
        Ok(Picture {
            path,
            plain,
            file_len: bytes.len(),
            file_word_sum: word_sum(&bytes),
            image_len: samples.len(),
            image_word_sum: word_sum(samples),
        })
    }
}

fn encoded(image: &Image) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    encode(image, &mut bytes).what("encode a picture")?;
    Ok(bytes)
}

fn image(kind: Kind, (width, height): (u32, u32), plain: bool) -> Image {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut samples = Vec::with_capacity((width * height * 3) as usize);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3u32 {
                samples.push(sample(kind, &mut random, (x, y, channel), (width, height)));
            }
        }
    }
    let format = if plain {
        Format::PlainPixmap
    } else {
        Format::Pixmap
    };
    let header = Header {
        format,
        width,
        height,
        channels: 3,
        maxval: 255,
        tuple_type: TupleType::Rgb,
    };
    Image {
        header,
        samples: Samples::U8(samples),
    }
}

fn sample(
    kind: Kind,
    random: &mut fastrand::Rng,
    (x, y, channel): (u32, u32, u32),
    (width, height): (u32, u32),
) -> u8 {
    match kind {
        // Half of the samples have two digits and half three, in long runs.
        Kind::Flat => {
            let level = [98, 102, 97][channel as usize] + (y * 5 / height) as u8;
            level + u8::from(random.u8(..) < 8)
        }
        Kind::Photo => {
            // A dark and a bright corner, waves for edges, and the noise of a sensor.
            let across = f64::from(x) / f64::from(width);
            let down = f64::from(y) / f64::from(height);
            let light = 40.0 + 120.0 * across + 60.0 * down;
            let edges = 30.0 * (across * 40.0 + down * 9.0).sin() * (down * 31.0).cos();
            let tint = f64::from(channel) * 6.0;
            let noise = f64::from(random.i32(-6..=6));
            (light + edges + tint + noise).clamp(0.0, 255.0) as u8
        }
    }
}
