//! Image decoders against the truth: every image is made here from samples that are known, stored
//! by an encoder that shares nothing with the decoder, and read by an independent decoder too.

use crate::support::pngs::{Color, Picture, chunk};
use fastrand::Rng;
use millstream_gltf::image::{Format, ImageLimits, Layout, decode_vec};

/// Level 0 of a decoded image.
fn pixels(stored: &[u8]) -> Result<(u32, u32, Vec<u8>), &'static str> {
    let raw = decode_vec(stored, ImageLimits::default())?;
    let layout = Layout::parse(&raw)?;
    assert_eq!(layout.format(), Format::Rgba8);
    let (width, height) = layout.size(0);
    Ok((width, height, raw[layout.level(0).expect("there")].to_vec()))
}

/// How often each test is run with other values.
const CASES: usize = 400;

fn picture(random: &mut Rng) -> Picture {
    let (color, depth) = Color::WITH_DEPTHS[random.usize(..Color::WITH_DEPTHS.len())];
    Picture {
        color,
        depth,
        width: random.u32(1..70),
        height: random.u32(1..70),
        interlaced: random.bool(),
        transparency: random.bool(),
        seed: random.u64(..),
    }
}

/// All color types, depths, filters, sizes; interlaced or not; palettes and color keys; the
/// stream in one piece or many.
#[test]
fn pngs_decode_to_their_samples() {
    let mut random = millstream_testing::random();
    for _ in 0..CASES {
        let picture = picture(&mut random);
        let made = picture.make();
        let (width, height, found) = pixels(&made.stored).expect("a sound PNG");
        assert_eq!((width, height), (picture.width, picture.height));
        assert!(found == made.rgba, "other pixels than were stored");
    }
}

/// That what the test calls a PNG is one: an independent decoder agrees with it.
#[test]
fn an_independent_decoder_reads_the_same() {
    let mut random = millstream_testing::random();
    for _ in 0..CASES {
        let picture = picture(&mut random);
        let made = picture.make();
        let mut decoder = png::Decoder::new(std::io::Cursor::new(&made.stored));
        decoder.set_transformations(
            png::Transformations::normalize_to_color8() | png::Transformations::ALPHA,
        );
        let mut reader = decoder.read_info().expect("a header");
        let mut raw = vec![0; reader.output_buffer_size().expect("small")];
        reader.next_frame(&mut raw).expect("rows");
        let rgba: Vec<u8> = match reader.output_color_type().0 {
            png::ColorType::Rgba => raw,
            _ => raw
                .chunks_exact(2)
                .flat_map(|p| [p[0], p[0], p[0], p[1]])
                .collect(),
        };
        assert!(
            rgba == made.rgba,
            "the test makes other PNGs than it thinks"
        );
    }
}

/// Cut or changed bytes give an error or pixels, and nothing else.
#[test]
fn damaged_pngs_are_errors() {
    let mut random = millstream_testing::random();
    for _ in 0..CASES {
        let picture = picture(&mut random);
        let made = picture.make();
        let mut stored = made.stored.clone();
        let at = random.usize(..stored.len());
        stored[at] ^= random.u8(..);
        let _ = pixels(&stored);
        // The last twelve bytes are the end's chunk, which holds nothing.
        let len = random.usize(..made.stored.len() - 12);
        assert!(pixels(&made.stored[..len]).is_err(), "cut at {}", len);
    }
}

#[test]
fn lossless_webps_decode_to_their_pixels() {
    let mut random = millstream_testing::random();
    for _ in 0..CASES {
        let (width, height) = (random.u32(1..60), random.u32(1..60));
        let alpha = random.bool();
        let channels = if alpha { 4 } else { 3 };
        let raw = crate::support::pixels(&mut random, width, height, channels);
        let mut stored = Vec::new();
        let color = match alpha {
            true => image_webp::ColorType::Rgba8,
            false => image_webp::ColorType::Rgb8,
        };
        image_webp::WebPEncoder::new(&mut stored)
            .encode(&raw, width, height, color)
            .expect("encoded");
        let (w, h, found) = pixels(&stored).expect("a sound WebP");
        let widen = |pixel: &[u8]| {
            [
                pixel[0],
                pixel[1],
                pixel[2],
                pixel.get(3).copied().unwrap_or(0xff),
            ]
        };
        let expected: Vec<u8> = raw.chunks_exact(channels).flat_map(widen).collect();
        assert_eq!((w, h), (width, height));
        assert!(found == expected);
        let cut = stored.len() / 2;
        let _ = pixels(&stored[..cut]);
    }
}

/// KTX2 and DDS store levels as they are uploaded; each finds its place.
#[test]
fn levels_of_containers_find_their_places() {
    use crate::support::containers::{FORMATS, dds, ktx2};
    let mut random = millstream_testing::random();
    for _ in 0..CASES {
        let known = FORMATS[random.usize(..FORMATS.len())];
        let (width, height) = (random.u32(1..40), random.u32(1..40));
        let packed = random.u8(..3);
        let levels = random.u32(1..=Layout::full_levels(width.max(height)));
        let layout = Layout::new(known.format, width, height, levels).expect("right");
        let bytes: Vec<Vec<u8>> = (0..levels)
            .map(|level| {
                let len = layout.level(level).expect("there").len();
                (0..len).map(|_| random.u8(..)).collect()
            })
            .collect();
        let containers = [
            ktx2(&known, width, height, &bytes, packed),
            dds(&known, width, height, &bytes),
        ];
        for stored in containers {
            let raw = decode_vec(&stored, ImageLimits::default()).expect("sound");
            let found = Layout::parse(&raw).expect("a header");
            assert_eq!(found.format(), known.format);
            assert_eq!((found.size(0), found.levels()), ((width, height), levels));
            for (level, bytes) in bytes.iter().enumerate() {
                let range = found.level(level as u32).expect("there");
                assert!(raw[range] == bytes[..], "level {}", level);
            }
            // All that is before the last byte of the last level is needed.
            for _ in 0..3 {
                let cut = random.usize(..stored.len());
                assert!(decode_vec(&stored[..cut], ImageLimits::default()).is_err());
            }
            let mut changed = stored.clone();
            let at = random.usize(..changed.len().min(200));
            changed[at] ^= random.u8(1..);
            let _ = decode_vec(&changed, ImageLimits::default());
        }
    }
}

#[test]
fn an_unknown_filter_and_missing_rows_are_errors_and_what_follows_the_rows_is_ignored() {
    let grey = Picture {
        color: Color::Grey,
        depth: 8,
        width: 3,
        height: 2,
        interlaced: false,
        transparency: false,
        seed: 1,
    };
    let rows = [9, 1, 2, 3, 0, 1, 2, 3];
    assert!(pixels(&grey.store_rows(&rows, None, None)).is_err());
    let rows = [0, 1, 2, 3, 0, 1, 2, 3];
    let right = grey.store_rows(&rows, None, None);
    let expected = pixels(&right).expect("a sound PNG");
    let short = grey.store_rows(&rows[..7], None, None);
    assert!(pixels(&short).is_err(), "too few rows");
    // A color that is transparent, so that the `png` crate decodes all of it.
    for transparency in [None, Some(&[0, 200][..])] {
        let more = [&rows[..], &[0]].concat();
        let more = grey.store_rows(&more, None, transparency);
        assert_eq!(pixels(&more).as_ref(), Ok(&expected), "too many rows");
        let mut behind = grey.store_rows(&rows, None, transparency);
        behind.truncate(behind.len() - 12);
        chunk(&mut behind, b"IDAT", b"abcd");
        chunk(&mut behind, b"IEND", b"");
        assert_eq!(pixels(&behind).as_ref(), Ok(&expected), "IDAT behind");
    }
    // In one chunk with the stream.
    let mut padded = right[..8 + 25].to_vec();
    let stream = zlib(&rows);
    chunk(&mut padded, b"IDAT", &[&stream[..], &[0; 4]].concat());
    chunk(&mut padded, b"IEND", b"");
    assert_eq!(pixels(&padded), Ok(expected), "padding");
}

/// A zlib stream.
fn zlib(raw: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut stream = vec![0; compressor.zlib_compress_bound(raw.len())];
    let len = compressor.zlib_compress(raw, &mut stream).expect("room");
    stream.truncate(len);
    stream
}
