//! Broken and made-up input: every kernel refuses what the plain decoder refuses, and gives the
//! same bytes for the rest. Nothing panics, and nothing is written outside the output.

use crate::support::data::{KINDS, data};
use crate::support::{kernels, plain, vectors};
use fastrand::Rng;
use gdeflate::{Decoder, Encoder, ErrorKind, Header, Level, TileStream, TileTable, compress};

/// Bytes around the output that must not change.
const CANARY: usize = 96;

/// Decodes with every kernel and compares with the plain decoder.
fn compare(tile: &[u8], raw_len: usize, decoders: &mut [Decoder], what: &str) -> bool {
    let expected = plain::decode_tile(tile, raw_len);
    for decoder in decoders {
        let mut memory = vec![0xC3; raw_len + 2 * CANARY];
        let result = decoder.decode_tile(tile, &mut memory[CANARY..CANARY + raw_len]);
        let outside = memory[..CANARY].iter().chain(&memory[CANARY + raw_len..]);
        assert!(
            outside.copied().all(|byte| byte == 0xC3),
            "{what}: wrote outside"
        );
        let kernel = decoder.kernel();
        match (&expected, &result) {
            (Ok(raw), Ok(())) => {
                let same = memory[CANARY..CANARY + raw_len] == raw[..];
                assert!(same, "{what} {kernel:?}: wrong bytes");
            }
            (Err(_), Err(_)) => {}
            _ => panic!(
                "{what} {kernel:?}: {:?} {result:?}",
                expected.as_ref().err()
            ),
        }
    }
    expected.is_ok()
}

fn decoders() -> Vec<Decoder> {
    kernels().into_iter().map(Decoder::with_kernel).collect()
}

/// Breaks a tile in one of several ways.
fn mutate(tile: &mut Vec<u8>, random: &mut Rng) {
    match random.u32(..8) {
        // Most of a tile's first words are headers and code lengths.
        0..=2 => {
            let at = random.usize(..tile.len().min(160));
            tile[at] ^= 1 << random.u32(..8);
        }
        3..=4 => {
            let at = random.usize(..tile.len());
            tile[at] ^= 1 << random.u32(..8);
        }
        5 => {
            let at = random.usize(..tile.len());
            tile[at] = random.u8(..);
        }
        6 => tile.truncate(random.usize(1..=tile.len() / 4) * 4),
        _ => tile.extend_from_slice(&random.u32(..).to_le_bytes()),
    }
}

#[test]
fn mutated_tiles_are_judged_as_the_plain_decoder_does() {
    let seed = 0x6DEF_1A7E;
    let mut random = Rng::with_seed(seed);
    let mut decoders = decoders();
    let mut accepted = 0;
    for round in 0..1500 {
        let kind = KINDS[round % KINDS.len()];
        let raw = data(kind, random.usize(1..6000), random.u64(..));
        let level = Level::new(random.u8(0..13)).unwrap();
        let mut tile = Vec::new();
        Encoder::new(level).encode_tile(&raw, &mut tile).unwrap();
        for _ in 0..random.u32(1..4) {
            mutate(&mut tile, &mut random);
        }
        let raw_len = if random.u8(..) < 30 {
            raw.len() + 1
        } else {
            raw.len()
        };
        let what = format!("seed {seed:#x} round {round} {kind} {level:?}");
        accepted += u32::from(compare(&tile, raw_len, &mut decoders, &what));
    }
    // Flipped literals and distances make other bytes of a tile that is still one.
    assert!((50..1400).contains(&accepted), "{accepted} accepted");
}

#[test]
fn a_tile_that_is_cut_is_said_to_be_cut() {
    let mut decoders = decoders();
    for kind in KINDS {
        for number in [0, 1, 6, 9, 12] {
            let raw = data(kind, 2500, 5);
            let mut tile = Vec::new();
            let mut encoder = Encoder::new(Level::new(number).unwrap());
            encoder.encode_tile(&raw, &mut tile).unwrap();
            let mut decoded = vec![0; raw.len()];
            for words in 0..tile.len() / 4 {
                for decoder in &mut decoders {
                    let error = decoder.decode_tile(&tile[..4 * words], &mut decoded);
                    let kernel = decoder.kernel();
                    assert_eq!(
                        error.unwrap_err().kind,
                        ErrorKind::TruncatedTile,
                        "{kind}, level {number}, {words} words, {kernel:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn mutated_vectors_are_judged_as_the_plain_decoder_does() {
    let mut random = Rng::with_seed(99);
    let mut decoders = decoders();
    for vector in vectors() {
        let Ok(stream) = TileStream::parse(&vector.stored) else {
            continue;
        };
        for tile in 0..stream.header().tile_count() {
            let mut bytes = stream.tile(tile).to_vec();
            mutate(&mut bytes, &mut random);
            let what = format!("{} tile {tile}", vector.name);
            compare(
                &bytes,
                stream.header().tile_raw_len(tile),
                &mut decoders,
                &what,
            );
        }
    }
}

#[test]
fn noise_is_judged_as_the_plain_decoder_does() {
    let mut random = Rng::with_seed(5);
    let mut decoders = decoders();
    for round in 0..4000 {
        let mut tile: Vec<u8> = (0..random.usize(0..400) * 4)
            .map(|_| random.u8(..))
            .collect();
        if let Some(first) = tile.first_mut() {
            // Every type of block, often the last one.
            *first = *first & !7 | random.u8(..8);
        }
        let raw_len = random.usize(..3000);
        compare(&tile, raw_len, &mut decoders, &format!("round {round}"));
    }
}

#[test]
fn a_tile_of_any_other_size_is_refused() {
    let raw = data("patchwork", 30_000, 2);
    for level in [0, 1, 9].map(|number| Level::new(number).unwrap()) {
        let mut tile = Vec::new();
        Encoder::new(level).encode_tile(&raw, &mut tile).unwrap();
        for decoder in &mut decoders() {
            for (len, kind) in [
                (29_999, ErrorKind::RawTooLong),
                (10, ErrorKind::RawTooLong),
                (0, ErrorKind::RawTooLong),
                (30_001, ErrorKind::RawTooShort),
                (65_536, ErrorKind::RawTooShort),
            ] {
                let error = decoder.decode_tile(&tile, &mut vec![0; len]).unwrap_err();
                assert_eq!(error.kind, kind, "{level:?} {len}");
            }
            let error = decoder
                .decode_tile(&tile, &mut vec![0; 65_537])
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::Argument);
        }
    }
}

#[test]
fn a_tile_is_never_longer_than_sense_allows() {
    let mut decoder = Decoder::new();
    for len in [0, 3, 4, 124, 127, 129, 262_144 + 4] {
        assert!(
            decoder.decode_tile(&vec![0; len], &mut [0; 10]).is_err(),
            "{len}"
        );
    }
}

#[test]
fn errors_say_which_tile_and_where() {
    let raw = data("text", 200_000, 8);
    let mut stored = compress(&raw, Level::DEFAULT, 1).unwrap();
    let stream = TileStream::parse(&stored).unwrap();
    let range = stream.table().tile_range(2);
    stored[range.start as usize] |= 6;
    let stream = TileStream::parse(&stored).unwrap();
    let mut back = vec![0; raw.len()];
    let error = Decoder::new().decode(&stream, &mut back).unwrap_err();
    assert_eq!((error.kind, error.tile), (ErrorKind::BlockType, Some(2)));
    assert!(range.contains(&error.offset), "{error}");
    assert_eq!(gdeflate::decompress(&stored, 3).unwrap_err(), error);
}

#[test]
fn headers_and_tables_of_any_bytes_never_panic() {
    let mut random = Rng::with_seed(21);
    let raw = data("mesh", 300_000, 1);
    let good = compress(&raw, Level::FASTEST, 1).unwrap();
    for _ in 0..20_000 {
        let mut stored = good[..random.usize(..200)].to_vec();
        for _ in 0..random.u32(..4) {
            if !stored.is_empty() {
                let at = random.usize(..stored.len().min(32));
                stored[at] = random.u8(..);
            }
        }
        let _ = Header::parse(&stored);
        if let Ok(table) = TileTable::parse(&stored) {
            for tile in 0..table.header().tile_count() {
                let range = table.tile_range(tile);
                assert!(range.start < range.end && range.end <= table.stored_len());
            }
        }
        assert!(TileStream::parse(&stored).is_err());
    }
}

#[test]
fn a_table_is_read_before_its_tiles_are_there() {
    let raw = data("patchwork", 500_000, 3);
    let stored = compress(&raw, Level::FASTEST, 1).unwrap();
    let header = Header::parse(&stored[..8]).unwrap();
    assert_eq!(header.raw_len(), 500_000);
    assert!(TileTable::parse(&stored[..header.data_start() - 1]).is_err());
    let table = TileTable::parse(&stored[..header.data_start()]).unwrap();
    assert_eq!(table.stored_len(), stored.len() as u64);
    let mut decoder = Decoder::new();
    for tile in 0..header.tile_count() {
        let bytes = table.tile_range(tile);
        let place = header.tile_raw_range(tile);
        let mut back = vec![0; header.tile_raw_len(tile)];
        let bytes = &stored[bytes.start as usize..bytes.end as usize];
        decoder.decode_tile(bytes, &mut back).unwrap();
        assert!(back == raw[place.start as usize..place.end as usize]);
    }
}
