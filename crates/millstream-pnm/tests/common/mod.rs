//! What the tests of this crate share: generated images in text, and ways to decode them.
#![allow(dead_code, reason = "no test program uses all of it")]

use millstream_pnm::{Error, Image, Kernel, Options, Parser, Stage, decode_into};
use proptest::prelude::*;

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
    pub(crate) maxval: u16,
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

pub(crate) fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Spaces),
        Just(Layout::Lines),
        Just(Layout::AnyWhite),
        Just(Layout::Runs),
        Just(Layout::Comments),
    ]
}

/// Texts of every layout, with maximal values of both widths and at their edges.
pub(crate) fn texts(samples_max: usize) -> impl Strategy<Value = Text> {
    let maxvals = prop_oneof![
        Just(255u16),
        Just(65_535),
        Just(256),
        Just(1),
        Just(9),
        Just(99),
        1..=u16::MAX,
    ];
    let counts = 1..samples_max;
    (maxvals, counts, layouts(), any::<u64>()).prop_map(|(maxval, count, layout, seed)| {
        let mut random = fastrand::Rng::with_seed(seed);
        let samples: Vec<u16> = (0..count)
            .map(|_| match random.u8(..8) {
                0 => maxval,
                1 => 0,
                2 => random.u16(..=maxval.min(9)),
                _ => random.u16(..=maxval),
            })
            .collect();
        let bytes = text_of(maxval, &samples, layout, seed);
        Text {
            maxval,
            samples,
            bytes,
        }
    })
}
