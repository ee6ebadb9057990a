//! What the tests of this crate share: generated images in text, and ways to decode them.

use millstream_pnm::{Error, Image, Kernel, Options, Parser, Stage, decode_into};

/// Kernels that this machine can run.
pub(crate) fn kernels() -> impl Iterator<Item = Kernel> {
    let all = Kernel::ALL.iter().copied();
    all.filter(|kernel| kernel.is_available())
}

/// Decodes on one thread with a kernel.
pub(crate) fn decode_with(kernel: Kernel, threads: usize, bytes: &[u8]) -> Result<Image, Error> {
    let options = Options {
        kernel,
        threads,
        ..Options::default()
    };
    let mut image = Image::empty();
    decode_into(bytes, &options, &mut image).map(|_| image)
}

/// Decodes in pieces of the given lengths (the last goes on for ever).
pub(crate) fn decode_in_pieces(
    kernel: Kernel,
    bytes: &[u8],
    cuts: &[usize],
) -> Result<Vec<u8>, Error> {
    let mut parser = Parser::with_kernel(kernel);
    let mut samples = Vec::new();
    let mut made = 0;
    let mut at = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        let mut piece = &bytes[at..cut.clamp(at, bytes.len())];
        at += piece.len();
        while !piece.is_empty() && parser.stage() != Stage::Another {
            let pushed = parser.push(piece, &mut samples[made..])?;
            made += pushed.produced_bytes;
            piece = &piece[pushed.consumed..];
            if parser.stage() == Stage::Samples && samples.is_empty() {
                samples = vec![0; bytes.len() * 8];
            }
        }
    }
    made += parser.finish(&mut samples[made..])?;
    samples.truncate(made);
    Ok(samples)
}

/// What stands between samples.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout {
    Spaces,
    Lines,
    AnyWhite,
    Runs,
    Comments,
}

/// Text of a P2 image of one row.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) samples: Vec<u16>,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn text_of(maxval: u16, samples: &[u16], layout: Layout, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = format!("P2\n{} 1\n{maxval}\n", samples.len()).into_bytes();
    for (index, sample) in samples.iter().enumerate() {
        if matches!(layout, Layout::Comments) && random.u8(..) < 20 {
            bytes.extend_from_slice(b"00000");
        }
        bytes.extend_from_slice(sample.to_string().as_bytes());
        if index + 1 == samples.len() && random.bool() {
            break;
        }
        let white = *b" \t\n\x0B\x0C\r";
        match layout {
            Layout::Spaces => bytes.push(b' '),
            Layout::Lines => bytes.push(if index % 15 == 14 { b'\n' } else { b' ' }),
            Layout::AnyWhite => bytes.push(white[random.usize(..6)]),
            Layout::Runs => {
                for _ in 0..random.usize(1..5) {
                    bytes.push(white[random.usize(..6)]);
                }
            }
            Layout::Comments if random.u8(..) < 12 => {
                bytes.extend_from_slice(b"# 12 comment 345 P3 -\n");
            }
            Layout::Comments => bytes.push(b' '),
        }
    }
    bytes
}

const LAYOUTS: [Layout; 5] = [
    Layout::Spaces,
    Layout::Lines,
    Layout::AnyWhite,
    Layout::Runs,
    Layout::Comments,
];

/// A text of any layout, with a maximal value of either width or at their edges.
pub(crate) fn text(random: &mut fastrand::Rng, samples_max: usize) -> Text {
    let maxval = match random.usize(..7) {
        6 => random.u16(1..),
        nth => [255, 65_535, 256, 1, 9, 99][nth],
    };
    let samples: Vec<u16> = (0..random.usize(1..samples_max))
        .map(|_| match random.u8(..8) {
            0 => maxval,
            1 => 0,
            2 => random.u16(..=maxval.min(9)),
            _ => random.u16(..=maxval),
        })
        .collect();
    let layout = LAYOUTS[random.usize(..LAYOUTS.len())];
    let bytes = text_of(maxval, &samples, layout, random.u64(..));
    Text { samples, bytes }
}
