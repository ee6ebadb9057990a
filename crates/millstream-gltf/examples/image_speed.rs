//! How many pixels a second one core decodes: the loader's image codec beside the `png` crate.
//!
//! ```sh
//! cargo run --release -p millstream-gltf --example image_speed -- IMAGE...
//! ```
//!
//! Contenders take turns, image by image, on memory that was used before; the figures are medians
//! of the rounds, in million pixels a second over all images given.

use std::error::Error;
use std::io::Cursor;
use std::time::Instant;

use millstream_gltf::image::{ImageLimits, Layout, decode, decoded_bytes};

const ROUNDS: usize = 21;

fn main() -> Result<(), Box<dyn Error>> {
    let mut images = Vec::new();
    for path in std::env::args_os().skip(1) {
        let stored = std::fs::read(&path)?;
        images.push((stored, path));
    }
    if images.is_empty() {
        return Err("give the paths of images".into());
    }
    let mut pixels = 0;
    let mut seconds = [const { Vec::new() }; 2];
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for round in 0..=ROUNDS {
        let mut sums = [0.0; 2];
        pixels = 0;
        for (stored, path) in &images {
            ours.resize(decoded_bytes(stored, ImageLimits::default())?, 0);
            let start = Instant::now();
            decode(stored, &mut ours, ImageLimits::default())?;
            sums[0] += start.elapsed().as_secs_f64();
            let start = Instant::now();
            png_crate(stored, &mut theirs)
                .map_err(|error| format!("{}: {error}", path.to_string_lossy()))?;
            sums[1] += start.elapsed().as_secs_f64();
            let layout = Layout::parse(&ours)?;
            let (width, height) = layout.size(0);
            pixels += u64::from(width) * u64::from(height);
            let level = &ours[layout.level(0).ok_or("no level")?];
            if theirs.len() == level.len() && theirs != level {
                return Err(format!("{}: other pixels", path.to_string_lossy()).into());
            }
        }
        // The first round warms up.
        if round > 0 {
            seconds[0].push(sums[0]);
            seconds[1].push(sums[1]);
        }
    }
    for (name, seconds) in ["millstream", "png"].iter().zip(&mut seconds) {
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        println!("{name:10} {:6.1} Mpx/s", pixels as f64 / median / 1e6);
    }
    Ok(())
}

/// Into RGBA, as the codec.
fn png_crate(stored: &[u8], pixels: &mut Vec<u8>) -> Result<(), png::DecodingError> {
    let mut decoder = png::Decoder::new(Cursor::new(stored));
    let color8 = png::Transformations::normalize_to_color8();
    decoder.set_transformations(color8 | png::Transformations::ALPHA);
    let mut reader = decoder.read_info()?;
    let bytes = reader.output_buffer_size().unwrap_or(0);
    pixels.resize(bytes, 0);
    reader.next_frame(pixels)?;
    Ok(())
}
