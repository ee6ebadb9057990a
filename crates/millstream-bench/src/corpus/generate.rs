//! Generates bytes from a seed, as compressible as a game's data.
//!
//! The study's file shrinks from 100 to 64 MB under zlib. Game data is a mixture: already packed
//! audio and images (incompressible), meshes (floats whose high bytes repeat), tables and text. The
//! file is cut into chunks, each of one kind with its own generator, in proportions tuned so that
//! zlib reaches about 0.64. Each chunk depends on the seed and its index alone, so a file of any
//! length is a prefix of every longer one.

use fastrand::Rng;

/// Size of a chunk in bytes; a chunk is of one kind.
pub(crate) const CHUNK_BYTES: usize = 32 << 10;
const WORDS: [&str; 32] = [
    "position", "normal", "texture", "material", "diffuse", "vertex", "index", "shader", "sound",
    "level", "node", "parent", "scale", "rotation", "0.125", "1.0", "0.5", "-1", "true", "false",
    "name", "id", "bone", "weight", "track", "key", "frame", "light", "colour", "range", "mesh",
    "path",
];

pub(crate) fn fill(seed: u64, into: &mut [u8]) {
    for (index, chunk) in into.chunks_mut(CHUNK_BYTES).enumerate() {
        // Spreads indices over the seed space; neighboring seeds of the generator are independent.
        let mut rng = Rng::with_seed(seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let kind = match rng.u32(0..100) {
            0..40 => Kind::Noise,
            40..62 => Kind::Vertices,
            62..76 => Kind::Text,
            76..82 => Kind::Table,
            _ => Kind::Pixels,
        };
        kind.fill(&mut rng, chunk);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Noise,
    Vertices,
    Text,
    Table,
    Pixels,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::Noise,
        Kind::Vertices,
        Kind::Text,
        Kind::Table,
        Kind::Pixels,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Noise => "noise",
            Kind::Vertices => "vertices",
            Kind::Text => "text",
            Kind::Table => "table",
            Kind::Pixels => "pixels",
        }
    }

    pub(crate) fn made(self, seed: u64, bytes: usize) -> Vec<u8> {
        let mut raw = vec![0; bytes];
        let mut rng = Rng::with_seed(seed);
        for chunk in raw.chunks_mut(CHUNK_BYTES) {
            self.fill(&mut rng, chunk);
        }
        raw
    }

    fn fill(self, rng: &mut Rng, chunk: &mut [u8]) {
        match self {
            Kind::Noise => rng.fill(chunk),
            Kind::Vertices => vertices(rng, chunk),
            Kind::Text => text(rng, chunk),
            Kind::Table => table(rng, chunk),
            Kind::Pixels => pixels(rng, chunk),
        }
    }
}

/// Generates positions that wander: the sign, exponent and first bits of a float repeat, its last
/// bits do not.
fn vertices(rng: &mut Rng, chunk: &mut [u8]) {
    let mut position = [rng.f32() * 64.0, rng.f32() * 64.0, rng.f32() * 64.0];
    for vertex in chunk.chunks_mut(12) {
        for (axis, bytes) in vertex.chunks_mut(4).enumerate() {
            position[axis] += rng.f32() - 0.5;
            // Meshes are quantized: 1/1024 of a unit.
            let value = (position[axis] * 1024.0).round() / 1024.0;
            bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]);
        }
    }
}

/// Generates keywords with numbers, as in a scene description.
fn text(rng: &mut Rng, chunk: &mut [u8]) {
    let mut at = 0;
    while at < chunk.len() {
        let word = WORDS[rng.usize(..WORDS.len())];
        let number = rng.u16(..1000).to_string();
        for byte in word
            .bytes()
            .chain(*b" ")
            .chain(number.bytes())
            .chain(*b"\n")
        {
            if at == chunk.len() {
                return;
            }
            chunk[at] = byte;
            at += 1;
        }
    }
}

/// Generates rising 32-bit indices with small steps, as in index buffers and offset tables.
fn table(rng: &mut Rng, chunk: &mut [u8]) {
    let mut value = rng.u32(..65_536);
    for bytes in chunk.chunks_mut(4) {
        value = value.wrapping_add(rng.u32(..64));
        bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]);
    }
}

/// Generates rows of pixels that mostly repeat the row above: flat art, height fields, UIs.
fn pixels(rng: &mut Rng, chunk: &mut [u8]) {
    const ROW_BYTES: usize = 1024;
    let first = ROW_BYTES.min(chunk.len());
    rng.fill(&mut chunk[..first]);
    for start in (ROW_BYTES..chunk.len()).step_by(4) {
        let end = (start + 4).min(chunk.len());
        chunk.copy_within(start - ROW_BYTES..end - ROW_BYTES, start);
        if rng.u8(..) < 12 {
            rng.fill(&mut chunk[start..end]);
        }
    }
}

/// Minimum, maximum and mean size of the small files in bytes: 86.5 MB over 2096 files.
const SMALL_MIN: u64 = 1 << 10;
const SMALL_MAX: u64 = 300 << 10;
const SMALL_MEAN: f64 = 41_270.0;
/// Standard deviation of the logarithm of the size: with it the smallest of 2096 files are near 1
/// KiB and the largest near 300 KiB.
const SMALL_SIGMA: f64 = 1.1;

/// Returns sizes of `count` small files: log-normal between the bounds, scaled to a mean. Many
/// files are small and a few hold most bytes, as in every game's folder.
pub(crate) fn small_sizes(seed: u64, count: usize) -> Vec<u64> {
    let mut rng = Rng::with_seed(seed);
    let raw = (0..count).map(|_| (SMALL_SIGMA * normal(&mut rng)).exp());
    let raw: Vec<f64> = raw.collect();
    // The bounds cut more off the top than off the bottom, so one scaling falls short of the mean;
    // a few more converge.
    let mut scale = SMALL_MEAN * count as f64 / raw.iter().sum::<f64>();
    let mut sizes = Vec::new();
    for _ in 0..20 {
        let size = |value: &f64| ((value * scale) as u64).clamp(SMALL_MIN, SMALL_MAX);
        sizes = raw.iter().map(size).collect();
        let got = sizes.iter().sum::<u64>() as f64 / count.max(1) as f64;
        scale *= SMALL_MEAN / got;
    }
    sizes
}

/// Returns a value of the standard normal distribution (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_codec::{CodecId, Scratch, encode_block};

    #[test]
    fn zlib_makes_it_about_as_small_as_the_studys_file() {
        let mut bytes = vec![0; 8 << 20];
        fill(7, &mut bytes);
        let mut out = Vec::new();
        let (codec, mut scratch) = (CodecId::ZLIB, Scratch::default());
        encode_block(codec, 6, &mut scratch, &bytes, &mut out).unwrap();
        let len = out.len();
        let ratio = len as f64 / bytes.len() as f64;
        assert!((0.60..0.68).contains(&ratio), "ratio {ratio}");
    }
}
