//! JPEGs of all arrangements that are decoded: sampling factors, scans, restart intervals, colors.

use fastrand::Rng;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use millstream_gltf::image::{ImageLimits, Layout, decode_vec};

/// The pixels of a decoded image, without alpha.
fn decoded(stored: &[u8]) -> Result<Vec<[u8; 3]>, &'static str> {
    let raw = decode_vec(stored, ImageLimits::default())?;
    let level = Layout::parse(&raw)?.level(0).expect("there");
    let (pixels, _) = raw[level].as_chunks();
    let opaque = |&[red, green, blue, alpha]: &[u8; 4]| {
        assert_eq!(alpha, 0xff);
        [red, green, blue]
    };
    Ok(pixels.iter().map(opaque).collect())
}

/// Returns the largest and the mean difference of samples.
fn difference(left: &[[u8; 3]], right: &[[u8; 3]]) -> (u8, f64) {
    assert_eq!(left.len(), right.len());
    let pairs = left.as_flattened().iter().zip(right.as_flattened());
    let each: Vec<u8> = pairs.map(|(left, right)| left.abs_diff(*right)).collect();
    let sum: u64 = each.iter().map(|&each| u64::from(each)).sum();
    let largest = *each.iter().max().expect("pixels");
    (largest, sum as f64 / each.len() as f64)
}

/// An image with known pixels, and how it is stored.
struct Picture {
    width: u16,
    height: u16,
    samples: Vec<u8>,
    color: ColorType,
    sampling: SamplingFactor,
    restart: u16,
    progressive: bool,
}

impl Picture {
    fn new(random: &mut Rng, color: ColorType) -> Picture {
        use SamplingFactor::*;
        let all = [F_1_1, F_2_1, F_1_2, F_2_2, F_4_1, F_4_2, F_1_4, F_2_4];
        let (width, height) = (random.u16(1..80), random.u16(1..80));
        let channels = if color == ColorType::Luma { 1 } else { 3 };
        Picture {
            width,
            height,
            samples: crate::support::smooth(random, width.into(), height.into(), channels),
            color,
            sampling: all[random.usize(..all.len())],
            restart: [0, 1, 3, 8][random.usize(..4)],
            progressive: false,
        }
    }

    /// Stores it. The encoder writes each component in a scan of its own to optimize its tables,
    /// which panics with restart intervals, and for sampling factors of 4.
    fn store(&self, separate: bool) -> Vec<u8> {
        let mut stored = Vec::new();
        let mut encoder = Encoder::new(&mut stored, 95);
        encoder.set_progressive(self.progressive);
        encoder.set_sampling_factor(self.sampling);
        use SamplingFactor::{F_1_1, F_1_2, F_2_1, F_2_2};
        let is_small = matches!(self.sampling, F_1_1 | F_2_1 | F_1_2 | F_2_2);
        let optimized = separate && is_small;
        encoder.set_optimized_huffman_tables(optimized);
        encoder.set_restart_interval(if optimized { 0 } else { self.restart });
        let encoded = encoder.encode(&self.samples, self.width, self.height, self.color);
        encoded.expect("encoded");
        stored
    }

    fn rgb(&self) -> Vec<[u8; 3]> {
        match self.color {
            ColorType::Luma => self.samples.iter().map(|&grey| [grey; 3]).collect(),
            _ => self.samples.as_chunks().0.to_vec(),
        }
    }
}

fn scans(stored: &[u8]) -> Vec<usize> {
    let pairs = stored.windows(2).enumerate();
    let scans = pairs.filter(|(_, pair)| *pair == [0xff, 0xda]);
    scans.map(|(at, _)| at).collect()
}

/// What `djpeg` makes of a JPEG; `None` where it is not installed.
fn by_djpeg(stored: &[u8]) -> Option<Vec<[u8; 3]>> {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(stored).expect("written");
    let mut djpeg = std::process::Command::new("djpeg");
    let made = djpeg
        .args(["-rgb", "-pnm"])
        .arg(file.path())
        .output()
        .ok()?;
    assert!(made.status.success() && made.stderr.is_empty(), "{made:?}");
    // Three lines, then the pixels.
    let lines = made.stdout.splitn(4, |&byte| byte == b'\n');
    Some(lines.last().expect("pixels").as_chunks().0.to_vec())
}

/// Each in one scan of all components, in scans of one component, and progressive. Lossy, so near:
/// the decoders round otherwise.
#[test]
fn jpegs_decode_to_nearly_their_pixels_and_as_independent_decoders_do() {
    let mut random = millstream_testing::random();
    for nth in 0..300 {
        let color = match random.u8(..4) {
            0 => ColorType::Luma,
            _ => ColorType::Rgb,
        };
        let mut picture = Picture::new(&mut random, color);
        picture.progressive = random.u8(..3) == 0;
        let mut known = vec![("its pixels", 10.0, picture.rgb())];
        for separate in [false, true] {
            let stored = picture.store(separate);
            let found = decoded(&stored).expect("a sound JPEG");
            if !picture.progressive && scans(&stored).len() == 1 {
                let mut other = jpeg_decoder::Decoder::new(&stored[..]);
                let samples = other.decode().expect("a sound JPEG");
                let samples = Picture {
                    samples,
                    ..Picture::new(&mut random, color)
                };
                known.push(("jpeg-decoder", 2.0, samples.rgb()));
                known.push(("its single scan", 2.0, found.clone()));
            }
            if nth < 50 {
                known.extend(by_djpeg(&stored).map(|pixels| ("djpeg", 2.0, pixels)));
            }
            for (name, tolerance, expected) in &known {
                let (largest, mean) = difference(&found, expected);
                assert!(mean <= *tolerance, "{name}: {mean} of {largest}");
            }
            // Not even the header is whole; then not the last scan.
            assert!(decoded(&stored[..20]).is_err());
            if !picture.progressive && scans(&stored).len() > 1 {
                let last = *scans(&stored).last().expect("scans");
                assert!(decoded(&stored[..last + 12]).is_err(), "cut");
                let without = [&stored[..last], &[0xff, 0xd9]].concat();
                assert!(decoded(&without).is_err(), "a component is missing");
            }
            let _ = decoded(&stored[..stored.len() / 2]);
        }
    }
}

/// The segments before the first scan, changed, and the rest.
fn rewritten(stored: &[u8], mut change: impl FnMut(u8, Vec<u8>) -> Option<Vec<u8>>) -> Vec<u8> {
    let (mut at, mut made) = (2, stored[..2].to_vec());
    let mut kind = 0;
    // Of a baseline image with scans of their own, also those between scans.
    while kind != 0xd9 {
        kind = stored[at + 1];
        let len = usize::from(u16::from_be_bytes([stored[at + 2], stored[at + 3]]));
        if let Some(data) = change(kind, stored[at + 4..at + 2 + len].to_vec()) {
            made.extend([0xff, kind]);
            made.extend(u16::try_from(data.len() + 2).expect("short").to_be_bytes());
            made.extend(data);
        }
        at += 2 + len;
        if kind == 0xda {
            let data = stored[at..].windows(2);
            let mut ends = data
                .enumerate()
                .filter(|(_, pair)| pair[0] == 0xff && !matches!(pair[1], 0 | 0xd0..=0xd7));
            let (end, pair) = ends.next().expect("an end");
            made.extend(&stored[at..at + end]);
            at += end;
            if pair[1] == 0xd9 {
                made.extend(&stored[at..]);
                return made;
            }
        }
    }
    made
}

/// As libjpeg does: JFIF means YCbCr, else a segment of Adobe says it, else the components' names.
#[test]
fn the_colors_of_jpegs_are_those_that_libjpeg_sees() {
    let mut random = millstream_testing::random();
    const NUMBERS: [u8; 3] = [1, 2, 3];
    for (jfif, adobe, names, is_rgb) in [
        (true, None, NUMBERS, false),
        (true, Some(0), NUMBERS, false),
        (true, None, *b"RGB", false),
        (false, None, NUMBERS, false),
        (false, None, *b"RGB", true),
        (false, Some(0), NUMBERS, true),
        (false, Some(0), *b"RGB", true),
        (false, Some(1), NUMBERS, false),
        (false, Some(1), *b"RGB", false),
    ] {
        for separate in [false, true] {
            let mut picture = Picture::new(&mut random, ColorType::Ycbcr);
            picture.sampling = SamplingFactor::F_1_1;
            let plain = picture.store(separate);
            let as_ycbcr = decoded(&plain).expect("a sound JPEG");
            let first = plain[scans(&plain)[0] + 5];
            let stored = rewritten(&plain, |kind, mut data| {
                match kind {
                    0xe0 if !jfif => return None,
                    0xc0 => (0..3).for_each(|nth| data[6 + 3 * nth] = names[nth]),
                    0xda => {
                        for nth in 0..usize::from(data[0]) {
                            let name = &mut data[1 + 2 * nth];
                            *name = names[usize::from(*name - first)];
                        }
                    }
                    _ => {}
                }
                Some(data)
            });
            let adobe = adobe.map(|transform| {
                [
                    &[0xff, 0xee, 0, 14],
                    &b"Adobe\0\x64\0\0\0\0"[..],
                    &[transform],
                ]
                .concat()
            });
            let stored = [
                &stored[..2],
                &adobe.clone().unwrap_or_default(),
                &stored[2..],
            ]
            .concat();
            let found = decoded(&stored);
            let found = found
                .unwrap_or_else(|cause| panic!("{jfif} {adobe:?} {names:?} {separate}: {cause}"));
            let expected = if is_rgb { picture.rgb() } else { as_ycbcr };
            let (_, mean) = difference(&found, &expected);
            assert!(mean < 3.0, "{jfif} {adobe:?} {names:?} {separate}: {mean}");
            if let Some(expected) = by_djpeg(&stored) {
                assert!(difference(&found, &expected).1 < 2.0);
            }
        }
    }
}

/// Scans name their components, so that the frame may list them in another order.
#[test]
fn the_first_component_of_a_jpeg_may_have_fewer_samples_than_another() {
    let mut random = millstream_testing::random();
    for _ in 0..50 {
        let picture = Picture::new(&mut random, ColorType::Ycbcr);
        let turn = |turned: bool| {
            let stored = rewritten(&picture.store(true), |kind, mut data| {
                match kind {
                    0xe0 => return None,
                    0xc0 if turned => data[6..].rotate_left(3),
                    _ => {}
                }
                Some(data)
            });
            let adobe = [&[0xff, 0xee, 0, 14], &b"Adobe\0\x64\0\0\0\0\0"[..]].concat();
            decoded(&[&stored[..2], &adobe, &stored[2..]].concat()).expect("a sound JPEG")
        };
        let mut expected = turn(false);
        expected.iter_mut().for_each(|pixel| pixel.rotate_left(1));
        assert_eq!(difference(&turn(true), &expected).0, 0);
    }
}
