//! Images that the libraries for them would panic on, decode to what was in memory before, or take
//! long or much memory for.

use millstream_gltf::image::{ImageLimits, decode, decode_vec, decoded_bytes};

fn decoded(stored: &[u8]) -> Result<Vec<u8>, &'static str> {
    decode_vec(stored, ImageLimits::default())
}

mod jpegs {
    use super::*;
    use jpeg_encoder::{ColorType, Encoder};

    const ADOBE_YCCK: [u8; 12] = *b"Adobe\0\0\0\0\0\0\x02";
    const ADOBE_CMYK: [u8; 12] = *b"Adobe\0\0\0\0\0\0\0";

    fn segment(kind: u8, data: &[u8]) -> Vec<u8> {
        let len = u16::try_from(data.len() + 2).expect("short").to_be_bytes();
        [&[0xff, kind], &len[..], data].concat()
    }

    /// A grey JPEG of as many equal components, with these segments before and behind its frame.
    fn jpeg(
        progressive: bool,
        (width, height): (u16, u16),
        factors: &[u8],
        [before, behind]: [&[u8]; 2],
    ) -> Vec<u8> {
        let count = u8::try_from(factors.len()).expect("few");
        let (height_bytes, width_bytes) = (height.to_be_bytes(), width.to_be_bytes());
        let mut frame = [&[8], &height_bytes[..], &width_bytes, &[count]].concat();
        let mut scan = vec![count];
        for (component, &factors) in (1..).zip(factors) {
            frame.extend([component, factors, 0]);
            scan.extend([component, 0]);
        }
        let (kind, last, bits) = match progressive {
            true => (0xc2, 0, 1),
            false => (0xc0, 63, 2),
        };
        scan.extend([0, last, 0]);
        // One symbol of one bit: no difference, or the end of the block.
        let symbol = |table: u8| [&[table, 1][..], &[0; 15], &[0]].concat();
        let blocks = |side: u16| usize::from(side).div_ceil(16) * 2;
        let blocks = blocks(width) * blocks(height) * factors.len();
        let parts = [
            vec![0xff, 0xd8],
            before.to_vec(),
            segment(0xdb, &[&[0][..], &[1; 64]].concat()),
            segment(kind, &frame),
            behind.to_vec(),
            segment(0xc4, &symbol(0)),
            segment(0xc4, &symbol(0x10)),
            segment(0xda, &scan),
            vec![0; (blocks * bits).div_ceil(8)],
            vec![0xff, 0xd9],
        ];
        parts.concat()
    }

    #[test]
    fn other_numbers_of_components_than_one_and_three_are_refused() {
        for progressive in [false, true] {
            for count in 1..=5 {
                let stored = jpeg(progressive, (8, 8), &vec![0x11; count], [&[], &[]]);
                match (count, decoded(&stored)) {
                    (1 | 3, found) => assert_eq!(found.map(|raw| raw.len()), Ok(64 + 8 * 8 * 4)),
                    (_, found) => {
                        let cause = found.expect_err("refused");
                        assert!(cause.contains("component"), "{count}: {cause}");
                    }
                }
            }
            // Segments of Adobe say that there are four.
            let adobe = segment(0xee, &ADOBE_YCCK);
            let stored = jpeg(progressive, (8, 8), &[0x11; 2], [&adobe, &[]]);
            assert!(decoded(&stored).is_err());
            let stored = jpeg(progressive, (8, 8), &[0x11], [&adobe, &[]]);
            assert!(decoded(&stored).is_ok());
            let stored = jpeg(progressive, (8, 8), &[0x11], [&[], &adobe]);
            let cause = decoded(&stored).expect_err("refused");
            assert!(cause.contains("Adobe"), "{cause}");
        }
        for color in [ColorType::Cmyk, ColorType::CmykAsYcck] {
            let mut stored = Vec::new();
            let encoder = Encoder::new(&mut stored, 90);
            encoder.encode(&[90; 400], 10, 10, color).expect("encoded");
            let cause = decoded(&stored).expect_err("refused");
            assert!(cause.contains("CMYK"), "{cause}");
        }
    }

    /// What the library passes over, and what it reads a byte too many of.
    #[test]
    fn frames_that_the_library_does_not_see_or_others_that_it_would_are_refused() {
        let lossless = segment(0xc3, &[8, 0, 8, 0, 8, 1, 1, 0x11, 0]);
        let short = segment(0xe0, &[0; 4]);
        for inserted in [[&[][..], &lossless], [&lossless, &[]], [&short, &[]]] {
            let stored = jpeg(true, (8, 8), &[0x11; 3], inserted);
            let cause = decoded(&stored).expect_err("refused");
            assert!(cause.contains("frame") || cause.contains("APP0"), "{cause}");
        }
        let whole = segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
        let stored = jpeg(true, (8, 8), &[0x11; 3], [&whole, &[]]);
        decoded(&stored).expect("as encoders write it");
    }

    /// A scan, a byte of it, and a comment, over and over, for each of which a row is decoded; then
    /// the image.
    #[test]
    fn superfluous_scans_are_not_decoded() {
        let whole = jpeg(false, (4096, 16), &[0x11; 3], [&[], &[]]);
        let first = whole.windows(2).position(|pair| pair == [0xff, 0xda]);
        let (beginning, image) = whole.split_at(first.expect("a scan"));
        let scan = [&image[..14], &[0], &segment(0xfe, &[])].concat();
        for (count, is_decoded) in [(0, true), (1, false), (100_000, false)] {
            let stored = [beginning, &scan.repeat(count), image].concat();
            assert_eq!(decoded(&stored).is_ok(), is_decoded, "{count}");
        }
    }

    #[test]
    fn grey_ones_with_factors_are_as_wide_as_the_library_can_count() {
        for (width, factors, fits) in [
            (65528, 0x22, true),
            (65529, 0x22, false),
            (65535, 0x22, false),
        ] {
            let stored = jpeg(false, (width, 8), &[factors], [&[], &[]]);
            let found = decoded(&stored);
            assert_eq!(found.is_ok(), fits, "{width}: {:?}", found.err());
        }
    }

    /// Between later scans, which are not looked at before.
    #[test]
    fn segments_between_scans_cause_no_panic_and_show_no_memory() {
        let mut decoded = 0;
        for color in [ColorType::Luma, ColorType::Rgb] {
            let mut sound = Vec::new();
            let mut encoder = Encoder::new(&mut sound, 90);
            encoder.set_progressive(true);
            let channels = if color == ColorType::Luma { 1 } else { 3 };
            let samples: Vec<u8> = (0..64 * channels).collect();
            encoder.encode(&samples, 8, 8, color).expect("encoded");
            let scans = sound.windows(2).enumerate();
            let mut scans = scans.filter_map(|(at, pair)| (pair == [0xff, 0xda]).then_some(at));
            let second = scans.nth(1).expect("several scans");
            for adobe in [ADOBE_YCCK, ADOBE_CMYK] {
                let adobe = segment(0xee, &adobe);
                let stored = [&sound[..second], &adobe, &sound[second..]].concat();
                let limits = ImageLimits::default();
                let bytes = decoded_bytes(&stored, limits).expect("a sound beginning");
                let found = [3, 200].map(|before| {
                    let mut raw = vec![before; bytes];
                    decode(&stored, &mut raw, limits).map(|_| raw[..64 + 8 * 8 * 4].to_vec())
                });
                assert!(found[0] == found[1], "memory shows");
                decoded += usize::from(found[0].is_ok());
            }
        }
        assert!(decoded > 0, "one of them decodes");
    }

    #[test]
    fn more_segments_than_any_encoder_writes_are_refused() {
        // The library keeps each of these, and compares them all after every segment.
        let extended = [
            &b"http://ns.adobe.com/xmp/extension/\0"[..],
            &[b'0'; 32],
            &[0, 1, 0, 0, 0, 0, 0, 1, 9],
        ];
        let extended = segment(0xe1, &extended.concat());
        for (count, fits) in [(4000, true), (5000, false)] {
            let stored = jpeg(false, (8, 8), &[0x11], [&extended.repeat(count), &[]]);
            let found = decoded(&stored);
            assert_eq!(found.is_ok(), fits, "{count}: {:?}", found.err());
        }
    }
}

mod webps {
    use super::*;

    fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let len = u32::try_from(data.len()).expect("short").to_le_bytes();
        [&name[..], &len, data, &[0][..data.len() % 2]].concat()
    }

    /// The beginning of a lossy frame.
    fn frame(side: u16) -> Vec<u8> {
        let side = side.to_le_bytes();
        [&[0, 0, 0, 0x9d, 1, 0x2a], &side[..], &side].concat()
    }

    /// With a canvas of 100 x 100.
    fn webp(animated: bool, chunks: &[Vec<u8>]) -> Vec<u8> {
        let flags = if animated { 2 } else { 0 };
        let canvas = chunk(b"VP8X", &[flags, 0, 0, 0, 99, 0, 0, 99, 0, 0]);
        let chunks = [b"WEBP", &canvas[..], &chunks.concat()].concat();
        chunk(b"RIFF", &chunks)
    }

    #[test]
    fn frames_larger_than_the_canvas_are_refused_before_memory_is_taken() {
        let place = [0; 16];
        let alpha = || chunk(b"ALPH", &[0; 3]);
        let animation = |frame: Vec<u8>| {
            let frame = [&place[..], &frame].concat();
            vec![chunk(b"ANIM", &[0; 6]), chunk(b"ANMF", &frame)]
        };
        let makes: [&dyn Fn(u16) -> Vec<u8>; 5] = [
            &|side| webp(false, &[chunk(b"VP8 ", &frame(side))]),
            &|side| webp(true, &animation(chunk(b"VP8 ", &frame(side)))),
            &|side| {
                webp(
                    true,
                    &animation([alpha(), chunk(b"VP8 ", &frame(side))].concat()),
                )
            },
            // The library decodes what comes after the alpha, whatever its name is.
            &|side| {
                webp(
                    true,
                    &animation([alpha(), chunk(b"none", &frame(side))].concat()),
                )
            },
            // A chunk of an animation that says that it covers what follows.
            &|side| {
                let mut chunks = animation(alpha());
                let (at, frames) = (8 + 16 + 4, &mut chunks[1]);
                frames[at..at + 4].copy_from_slice(&1_000_u32.to_le_bytes());
                chunks.push(chunk(b"VP8 ", &frame(side)));
                webp(false, &chunks)
            },
        ];
        for (nth, make) in makes.iter().enumerate() {
            let planned = |side| decoded_bytes(&make(side), ImageLimits::default());
            assert!(planned(100).is_ok(), "{nth}: {:?}", planned(100));
            for side in [101, 0x3fff] {
                let cause = planned(side).expect_err("refused");
                assert!(cause.contains("canvas"), "{nth}: {cause}");
            }
        }
    }
}
