//! Made-up data of the kinds that games have, from a seed.

use fastrand::Rng;

/// Kinds of data.
pub(crate) const KINDS: [&str; 10] = [
    "text",
    "mesh",
    "texture",
    "zeros",
    "random",
    "few",
    "periodic",
    "chains",
    "table",
    "patchwork",
];

/// `len` bytes of a kind.
pub(crate) fn data(kind: &str, len: usize, seed: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(seed);
    let mut out = Vec::with_capacity(len + 64);
    while out.len() < len {
        match kind {
            "text" => text(&mut out, &mut random),
            "mesh" => mesh(&mut out, &mut random),
            "texture" => texture(&mut out, &mut random),
            "zeros" => out.resize(len, 0),
            "random" => out.extend((0..len).map(|_| random.u8(..))),
            "few" => out.extend((0..len).map(|_| b"ab"[usize::from(random.u8(..) > 200)])),
            "periodic" => {
                let period = random.usize(1..40);
                let pattern: Vec<u8> = (0..period).map(|_| random.u8(..)).collect();
                let count = random.usize(1..600);
                out.extend(pattern.iter().cycle().take(count));
            }
            // Every second position has the same candidates, and none is much better than another.
            "chains" => out.extend([7, 7, 7, 7, random.u8(..), random.u8(..)]),
            // A literal and a match of the three bytes after the one before it, again and again.
            "table" => {
                let mut value = random.u32(..65_536);
                for _ in 0..random.usize(1..4000) {
                    value += random.u32(..64);
                    out.extend(value.to_le_bytes());
                }
            }
            _ => {
                let kind = KINDS[random.usize(..8)];
                let piece = data(kind, random.usize(1..9000), random.u64(..));
                out.extend(piece);
            }
        }
    }
    out.truncate(len);
    out
}

fn text(out: &mut Vec<u8>, random: &mut Rng) {
    const WORDS: [&str; 24] = [
        "the", "void", "return", "const", "if", "storage", "request", "queue", "a", "of", "and",
        "texture", "for", "struct", "let", "tile", "0x", "buffer", "is", "while", "lane", "mut",
        "sequence", "distance",
    ];
    let word = WORDS[random.usize(..24).min(random.usize(..24))];
    out.extend_from_slice(word.as_bytes());
    if random.u8(..) < 40 {
        out.extend_from_slice(random.u16(..).to_string().as_bytes());
    }
    out.push(b"   \n,;("[random.usize(..7)]);
}

fn mesh(out: &mut Vec<u8>, random: &mut Rng) {
    let at = out.len() as f32 / 48.0;
    for axis in 0..3 {
        let value = (at * 0.07 + axis as f32).sin() * 10.0 + random.f32() * 0.01;
        out.extend_from_slice(&value.to_le_bytes());
    }
    for _ in 0..3 {
        out.extend_from_slice(&(random.i8(-127..127) as i16 * 256).to_le_bytes());
    }
    out.extend_from_slice(&[255, 255, 255, 255, 0, 0]);
}

fn texture(out: &mut Vec<u8>, random: &mut Rng) {
    let at = out.len() / 4;
    let (x, y) = (at % 256, at / 256);
    let noise = random.u8(..4);
    let shade = ((x / 8 + y / 8) * 5) as u8;
    out.extend_from_slice(&[shade.wrapping_add(noise), shade / 2, (y / 2) as u8, 255]);
}
