//! What is encoded decodes to itself, with our decoder and with the plain one.

use crate::support::data::{KINDS, data};
use crate::support::{decode, kernels, plain};
use gdeflate::{Decoder, Encoder, Level, TileStream, compress, compress_bound};

/// Sizes around everything that has a border: lanes, words, tiles, stored blocks.
const SIZES: [usize; 22] = [
    0, 1, 2, 3, 4, 31, 32, 33, 127, 128, 129, 1000, 10_000, 65_534, 65_535, 65_536, 65_537,
    131_071, 131_072, 131_073, 200_000, 70_000,
];

#[test]
fn every_level_and_kind_comes_back_at_every_border() {
    for level in Level::all() {
        for (at, kind) in KINDS.iter().enumerate() {
            for len in SIZES.into_iter().skip(at % 2).step_by(2) {
                let raw = data(kind, len, len as u64);
                let stored = compress(&raw, level, 1).unwrap();
                assert!(
                    stored.len() <= compress_bound(len),
                    "{kind} {len} {level:?}: bound"
                );
                for kernel in kernels() {
                    let back = decode(kernel, &stored);
                    assert!(
                        back.as_ref() == Ok(&raw),
                        "{kind} {len} {level:?} {kernel:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_plain_decoder_reads_what_we_write() {
    for level in Level::all() {
        for kind in KINDS {
            let raw = data(kind, 20_000, 3);
            let mut tile = Vec::new();
            Encoder::new(level).encode_tile(&raw, &mut tile).unwrap();
            let back = plain::decode_tile(&tile, raw.len());
            assert!(
                back.as_ref() == Ok(&raw),
                "{kind} {level:?}: {:?}",
                back.err()
            );
        }
    }
}

#[test]
fn nothing_is_a_stream_of_no_tiles() {
    for level in Level::all() {
        let stored = compress(&[], level, 2).unwrap();
        assert_eq!(stored, [4, 0xFB, 0, 0, 1, 0, 0, 0]);
        assert!(gdeflate::decompress(&stored, 2).unwrap().is_empty());
    }
}

#[test]
fn the_bytes_do_not_depend_on_the_thread_count() {
    let raw = data("patchwork", 1_500_000, 11);
    for level in [0, 1, 5, 9].map(|number| Level::new(number).unwrap()) {
        let one = compress(&raw, level, 1).unwrap();
        for threads in [0, 2, 3, 16] {
            assert!(
                compress(&raw, level, threads).unwrap() == one,
                "{level:?} {threads}"
            );
        }
        for threads in [0, 1, 2, 5, 100] {
            assert!(gdeflate::decompress(&one, threads).unwrap() == raw);
        }
    }
}

#[test]
fn an_encoder_keeps_nothing_between_tiles() {
    for level in Level::all() {
        let mut encoder = Encoder::new(level);
        for len in [5, 33, 36, 50_000] {
            let raw = data("mesh", len, 5);
            let (mut first, mut again) = (Vec::new(), Vec::new());
            Encoder::new(level).encode_tile(&raw, &mut first).unwrap();
            for other in [raw.repeat(2), data("text", 65_536, 6)] {
                let other = &other[..other.len().min(65_536)];
                encoder.encode_tile(other, &mut Vec::new()).unwrap();
            }
            encoder.encode_tile(&raw, &mut again).unwrap();
            assert!(first == again, "{level:?}, {len} bytes");
        }
    }
}

#[test]
fn noise_is_stored_and_what_repeats_in_it_is_not() {
    for level in Level::all().skip(1) {
        let mut encoder = Encoder::new(level);
        let mut raw = data("random", 65_536, 8);
        let mut tile = Vec::new();
        encoder.encode_tile(&raw, &mut tile).unwrap();
        // Two stored blocks, see the bits of a tile in `limits`.
        assert_eq!(tile.len(), 65_672, "{level:?}");
        raw.copy_within(1000..3000, 40_000);
        tile.clear();
        encoder.encode_tile(&raw, &mut tile).unwrap();
        assert!(tile.len() < 64_000, "{level:?}: {}", tile.len());
    }
}

#[test]
fn higher_levels_compress_better_and_none_is_another() {
    let corpus: Vec<Vec<u8>> = ["text", "mesh", "texture", "patchwork"]
        .iter()
        .map(|kind| data(kind, 300_000, 17))
        .collect();
    let mut before: Option<(usize, Vec<Vec<u8>>)> = None;
    for level in Level::all() {
        let streams: Vec<Vec<u8>> = corpus
            .iter()
            .map(|raw| compress(raw, level, 2).unwrap())
            .collect();
        let total = streams.iter().map(Vec::len).sum();
        println!("{level:?}: {total}");
        if let Some((before, other)) = before {
            assert!(
                total < before,
                "{level:?}: {total} bytes, the level below {before}"
            );
            assert!(streams != other);
        }
        before = Some((total, streams));
    }
}

#[test]
fn ranges_of_tiles_decode_alone() {
    let raw = data("patchwork", 300_000, 4);
    let stored = compress(&raw, Level::FASTEST, 1).unwrap();
    let stream = TileStream::parse(&stored).unwrap();
    let mut decoder = Decoder::new();
    for start in 0..=5_u32 {
        for end in start..=5 {
            let bytes = start as usize * 65_536..(end as usize * 65_536).min(raw.len());
            let expected = if start == end { &[] } else { &raw[bytes] };
            let mut back = vec![0; expected.len()];
            decoder
                .decode_range(&stream, start..end, &mut back)
                .unwrap();
            assert!(back == expected, "{start}..{end}");
            back.push(0);
            assert!(
                decoder
                    .decode_range(&stream, start..end, &mut back)
                    .is_err()
            );
        }
    }
    assert!(
        decoder
            .decode_range(&stream, 0..6, &mut [0; 300_000])
            .is_err()
    );
}

#[test]
fn any_bytes_come_back() {
    let mut random = millstream_testing::random();
    for _ in 0..48 {
        let mut raw = vec![0; random.usize(..3000)];
        random.fill(&mut raw);
        let level = random.u8(..13);
        let stored = compress(&raw, Level::new(level).unwrap(), 1).unwrap();
        assert!(stored.len() <= compress_bound(raw.len()), "level {level}");
        assert!(
            decode(Decoder::new().kernel(), &stored) == Ok(raw),
            "level {level}"
        );
    }
}

#[test]
fn any_mixture_comes_back() {
    let mut random = millstream_testing::random();
    for _ in 0..48 {
        let kind = KINDS[random.usize(..KINDS.len())];
        let lens = [0..5000, 65_000..66_000, 130_500..131_500];
        let near = lens[random.usize(..lens.len())].clone();
        let len = random.usize(near);
        let (seed, level) = (random.u64(..), random.u8(..13));
        let what = format!("{kind}, {len} bytes, seed {seed}, level {level}");
        let raw = data(kind, len, seed);
        let stored = compress(&raw, Level::new(level).unwrap(), 1).unwrap();
        assert!(stored.len() <= compress_bound(raw.len()), "{what}");
        for kernel in kernels() {
            assert!(
                decode(kernel, &stored).as_ref() == Ok(&raw),
                "{kernel:?}: {what}"
            );
        }
    }
}
