//! Image decoders against the truth: every image is made here from samples that are known, stored
//! by an encoder that shares nothing with the decoder, and read by an independent decoder too.

mod support;

use millstream_gltf::image::{Format, ImageLimits, Layout, decode_vec};
use proptest::prelude::*;
use support::pngs::{Color, Picture, chunk};

/// Level 0 of a decoded image.
fn pixels(stored: &[u8]) -> Result<(u32, u32, Vec<u8>), &'static str> {
    let raw = decode_vec(stored, ImageLimits::default())?;
    let layout = Layout::parse(&raw)?;
    assert_eq!(layout.format(), Format::Rgba8);
    let (width, height) = layout.size(0);
    Ok((width, height, raw[layout.level(0).expect("there")].to_vec()))
}

fn picture() -> impl Strategy<Value = Picture> {
    let kinds = prop::sample::select(Color::WITH_DEPTHS.to_vec());
    let flags = any::<(bool, bool, u64)>();
    (kinds, 1..70u32, 1..70u32, flags).prop_map(
        |((color, depth), width, height, (interlaced, transparency, seed))| Picture {
            color,
            depth,
            width,
            height,
            interlaced,
            transparency,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// All color types, depths, filters, sizes; interlaced or not; palettes and color keys; the
    /// stream in one piece or many.
    #[test]
    fn pngs_decode_to_their_samples(picture in picture()) {
        let made = picture.make();
        let (width, height, found) = pixels(&made.stored).expect("a sound PNG");
        prop_assert_eq!((width, height), (picture.width, picture.height));
        prop_assert!(found == made.rgba, "other pixels than were stored");
    }

    /// That what the test calls a PNG is one: an independent decoder agrees with it.
    #[test]
    fn an_independent_decoder_reads_the_same(picture in picture()) {
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
            _ => raw.chunks_exact(2).flat_map(|p| [p[0], p[0], p[0], p[1]]).collect(),
        };
        prop_assert!(rgba == made.rgba, "the test makes other PNGs than it thinks");
    }

    /// Cut or changed bytes give an error or pixels, and nothing else.
    #[test]
    fn damaged_pngs_are_errors(
        picture in picture(),
        cut in any::<prop::sample::Index>(),
        change in any::<(prop::sample::Index, u8)>(),
    ) {
        let made = picture.make();
        let mut stored = made.stored.clone();
        let at = change.0.index(stored.len());
        stored[at] ^= change.1;
        let _ = pixels(&stored);
        // The last twelve bytes are the end's chunk, which holds nothing.
        let len = cut.index(made.stored.len() - 12);
        prop_assert!(pixels(&made.stored[..len]).is_err(), "cut at {}", len);
    }

    #[test]
    fn lossless_webps_decode_to_their_pixels(
        width in 1..60u32,
        height in 1..60u32,
        alpha: bool,
        seed: u64,
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let channels = if alpha { 4 } else { 3 };
        let raw = support::pixels(&mut random, width, height, channels);
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
            [pixel[0], pixel[1], pixel[2], pixel.get(3).copied().unwrap_or(0xff)]
        };
        let expected: Vec<u8> = raw.chunks_exact(channels).flat_map(widen).collect();
        prop_assert_eq!((w, h), (width, height));
        prop_assert!(found == expected);
        let cut = stored.len() / 2;
        let _ = pixels(&stored[..cut]);
    }

    /// Lossy, so near: an independent decoder rounds otherwise.
    #[test]
    fn jpegs_decode_nearly_as_an_independent_decoder_does(
        width in 1..80u16,
        height in 1..80u16,
        grey: bool,
        progressive: bool,
        seed: u64,
    ) {
        use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
        let mut random = fastrand::Rng::with_seed(seed);
        let channels = if grey { 1 } else { 3 };
        let raw = support::smooth(&mut random, width.into(), height.into(), channels);
        let mut stored = Vec::new();
        let mut encoder = Encoder::new(&mut stored, 90);
        encoder.set_progressive(progressive);
        encoder.set_sampling_factor(SamplingFactor::F_1_1);
        let color = if grey { ColorType::Luma } else { ColorType::Rgb };
        encoder.encode(&raw, width, height, color).expect("encoded");
        let mut other = jpeg_decoder::Decoder::new(&stored[..]);
        let expected = other.decode().expect("a sound JPEG");
        let (w, h, found) = pixels(&stored).expect("a sound JPEG");
        prop_assert_eq!((w, h), (width.into(), height.into()));
        for (found, expected) in found.chunks_exact(4).zip(expected.chunks_exact(channels)) {
            for channel in 0..3 {
                let expected = expected[channel.min(channels - 1)];
                prop_assert!(found[channel].abs_diff(expected) <= 4);
            }
            prop_assert_eq!(found[3], 0xff);
        }
        // Not even the header is whole.
        prop_assert!(pixels(&stored[..20]).is_err());
        let _ = pixels(&stored[..stored.len() / 2]);
    }

    /// KTX2 and DDS store levels as they are uploaded; each finds its place.
    #[test]
    fn levels_of_containers_find_their_places(
        which in 0..support::containers::FORMATS.len(),
        width in 1..40u32,
        height in 1..40u32,
        packed in 0..3u8,
        seed: u64,
    ) {
        use support::containers::{FORMATS, dds, ktx2};
        let mut random = fastrand::Rng::with_seed(seed);
        let known = FORMATS[which];
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
            prop_assert_eq!(found.format(), known.format);
            prop_assert_eq!((found.size(0), found.levels()), ((width, height), levels));
            for (level, bytes) in bytes.iter().enumerate() {
                let range = found.level(level as u32).expect("there");
                prop_assert!(raw[range] == bytes[..], "level {}", level);
            }
            // All that is before the last byte of the last level is needed.
            for _ in 0..3 {
                let cut = random.usize(..stored.len());
                prop_assert!(decode_vec(&stored[..cut], ImageLimits::default()).is_err());
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
