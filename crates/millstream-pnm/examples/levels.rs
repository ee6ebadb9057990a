//! How bright the images of a file are: the least, the mean and the largest sample of each.
//!
//!     cargo run -p millstream-pnm --example levels -- photo.ppm
//!
//! Without a file it takes an image of its own.

use millstream_pnm::{Image, Options, Samples, decode_into};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => b"P2 4 2 255\n0 20 40 60\n80 100 120 140\n".to_vec(),
    };
    let (mut left, mut image) = (&bytes[..], Image::empty());
    for nth in 0.. {
        if left.is_empty() {
            break;
        }
        let taken = decode_into(left, &Options::default(), &mut image)?;
        left = &left[taken..];
        match &image.samples {
            Samples::U8(samples) => print(nth, samples.iter().map(|it| u64::from(*it))),
            Samples::U16(samples) => print(nth, samples.iter().map(|it| u64::from(*it))),
        }
    }
    Ok(())
}

fn print(nth: usize, samples: impl Iterator<Item = u64> + Clone) {
    let count = samples.clone().count();
    let mean = samples.clone().sum::<u64>() as f64 / count.max(1) as f64;
    let (least, most) = (samples.clone().min(), samples.max());
    println!("image {nth}: {count} samples, {least:?} to {most:?}, {mean:.1} in the mean");
}
