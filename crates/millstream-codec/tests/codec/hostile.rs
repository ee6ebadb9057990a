//! Hostile and damaged bytes: an error of the right kind, never a panic, a stall or bytes beyond
//! what was declared, by every way of decoding.

use crate::common::{
    KINDS, Kind, by_block, by_large_pieces, by_stream, by_units, encoded, sample, streamed,
};
use millstream_codec::{
    CodecError, CodecErrorKind, CodecId, Scratch, can_decode, declared_raw_len, decode_block,
    decode_deflate_of_checked, decompress, encode_block, stream_decoder,
};

/// Decodes by every way, and holds what they say against each other.
fn decode_every_way(codec: CodecId, stored: &[u8], raw_len: usize, seed: u64) {
    let block = by_block(codec, stored, raw_len);
    if codec.facts().stream.is_none() {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = by_large_pieces(codec, stored, raw_len);
    let cut = by_stream(codec, stored, raw_len, || {
        (random.usize(1..3000), random.usize(1..9000))
    });
    let what = codec.name();
    for (way, result) in [("a cut stream", &cut), ("a block", &block)] {
        match (&whole, result) {
            (Ok(whole), Ok(result)) => assert!(whole == result, "{what}: {way} has other bytes"),
            // Which of two faults is seen first is up to the cuts; one fault alone has one name.
            (Err(whole), Err(error)) => {
                let too_long = [whole.kind, error.kind].contains(&CodecErrorKind::RawTooLong);
                assert!(
                    too_long || whole.kind == error.kind,
                    "{what}: {way}: {error}, a stream: {whole}"
                );
            }
            (Ok(_), Err(error)) => panic!("{what}: {way} refuses what a stream takes: {error}"),
            (Err(error), Ok(_)) => panic!("{what}: {way} takes what a stream refuses: {error}"),
        }
    }
    match (
        by_units(codec, stored, raw_len, random.usize(1..50_000)),
        &whole,
    ) {
        (Some(Ok((units, _))), Ok(whole)) => assert!(units == *whole, "{what}: units differ"),
        (Some(Ok(_)), Err(error)) => panic!("{what}: units take what the stream refuses: {error}"),
        (Some(Err(error)), Ok(whole)) if whole.len() == raw_len => {
            assert_eq!(
                error.kind,
                CodecErrorKind::Unsupported,
                "{what}: units refuse"
            );
        }
        _ => {}
    }
}

/// Damages `stored` in one of the ways that storage and attackers have.
fn damage(stored: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        // Headers are where most decisions are made: half of the damage goes there.
        let reach = if random.bool() {
            stored.len().min(40)
        } else {
            stored.len()
        };
        if reach == 0 {
            return;
        }
        let place = random.usize(..reach);
        match random.u8(..6) {
            0 => stored[place] ^= 1 << random.u8(..8),
            1 => stored[place] = random.choice([0, 0x7F, 0x80, 0xFF]).unwrap_or(0),
            2 => stored.truncate(place),
            3 => stored.insert(place, random.u8(..)),
            4 => drop(stored.drain(place..(place + random.usize(1..9)).min(stored.len()))),
            _ => {
                let part = stored[place..stored.len().min(place + 64)].to_vec();
                let target = random.usize(..reach);
                stored.splice(target..target, part);
            }
        }
    }
}

#[test]
fn damaged_streams_are_survived() {
    let mut random = millstream_testing::random();
    for _ in 0..1500 {
        let codec = CodecId::ALL[random.usize(..CodecId::ALL.len())];
        let kind = KINDS[random.usize(..KINDS.len())];
        let (parts, seed) = (random.usize(1..3), random.u64(..));
        let len = random.usize(..6000);
        let raw = sample(kind, len, seed);
        if let Some(stored) = encoded(codec, &raw) {
            let mut stored = stored.repeat(parts);
            damage(&mut stored, &mut random);
            decode_every_way(codec, &stored, len * parts, seed);
        }
    }
}

#[test]
fn random_bytes_are_survived() {
    let mut random = millstream_testing::random();
    for _ in 0..1500 {
        let codec = CodecId::ALL[random.usize(..CodecId::ALL.len())];
        let magic: &[u8] = match codec {
            _ if random.bool() => &[],
            CodecId::ZSTD => &0xFD2F_B528u32.to_le_bytes(),
            CodecId::LZ4 => &0x184D_2204u32.to_le_bytes(),
            CodecId::GZIP => &[0x1F, 0x8B, 8],
            CodecId::ZLIB => &[0x78, 0x9C],
            CodecId::GDEFLATE => &[4, 0xFB, 1, 0, 1, 0, 0, 0],
            _ => &[],
        };
        let mut bytes = vec![0; random.usize(..400)];
        random.fill(&mut bytes);
        let stored = [magic, &bytes].concat();
        decode_every_way(codec, &stored, random.usize(..70_000), random.u64(..));
    }
}

/// Where this build cannot encode a codec, damage needs streams that others have made.
#[test]
fn damaged_streams_of_the_tools_are_survived() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (name, codec) in [
        ("zstd-19.zst", CodecId::ZSTD),
        ("zstd-1-check-two-frames.zst", CodecId::ZSTD),
        ("lz4-linked-checked.lz4", CodecId::LZ4),
    ] {
        let whole = std::fs::read(folder.join(name)).expect(name);
        for seed in 0..150 {
            let mut stored = whole.clone();
            damage(&mut stored, &mut fastrand::Rng::with_seed(seed));
            println!("{name}, seed {seed}");
            decode_every_way(codec, &stored, 140_000, seed);
        }
    }
}

/// The error of each way that decodes streams: block, stream, single bytes, reader to writer.
fn errors(codec: CodecId, stored: &[u8], raw_len: usize) -> [CodecErrorKind; 4] {
    let error = |result: Result<Vec<u8>, CodecError>| result.expect_err(codec.name()).kind;
    let transferred = match decompress(codec, &mut &stored[..], &mut std::io::sink()) {
        Err(millstream_codec::StreamError::Codec(error)) => error.kind,
        other => panic!("{}: {other:?}", codec.name()),
    };
    [
        error(by_block(codec, stored, raw_len)),
        error(by_large_pieces(codec, stored, raw_len)),
        error(by_stream(codec, stored, raw_len, || (1, 1))),
        transferred,
    ]
}

#[test]
fn every_cut_is_truncated() {
    let raw = sample(Kind::Text, 2000, 1);
    for codec in streamed() {
        let Some(stored) = encoded(codec, &raw) else {
            continue;
        };
        for len in 0..stored.len() {
            let kinds = errors(codec, &stored[..len], raw.len());
            assert_eq!(
                kinds,
                [CodecErrorKind::Truncated; 4],
                "{} cut at {len}",
                codec.name()
            );
        }
    }
    assert_eq!(
        by_block(CodecId::LZ4_BLOCK, &[], 0).unwrap_err().kind,
        CodecErrorKind::Truncated
    );
}

#[test]
fn bytes_behind_the_end_are_trailing() {
    let raw = sample(Kind::Text, 2000, 1);
    for codec in streamed() {
        let Some(stored) = encoded(codec, &raw) else {
            continue;
        };
        for garbage in [&b"\0"[..], b"\0\0\0\0\0\0\0\0\0\0\0\0", b"garbage", b"\x05"] {
            if codec == CodecId::GZIP && garbage[0] == 0 {
                continue;
            }
            let all = [&stored[..], garbage].concat();
            let kinds = errors(codec, &all, raw.len());
            assert_eq!(
                kinds,
                [CodecErrorKind::TrailingBytes; 4],
                "{}",
                codec.name()
            );
            let error = by_block(codec, &all, raw.len()).unwrap_err();
            assert_eq!(
                error.offset,
                stored.len() as u64,
                "{}: {error}",
                codec.name()
            );
        }
    }
}

#[test]
fn zeros_behind_gzip_are_padding_and_what_follows_them_is_trailing() {
    let raw = sample(Kind::Text, 2000, 1);
    let member = encoded(CodecId::GZIP, &raw).unwrap();
    let padded = [&member[..], &[0; 512]].concat();
    for pieces in [(1, 1), (100, 100), (1 << 20, 1 << 20)] {
        assert!(by_stream(CodecId::GZIP, &padded, raw.len(), || pieces).expect("padded") == raw);
    }
    assert!(by_block(CodecId::GZIP, &padded, raw.len()).expect("padded") == raw);
    for garbage in [&b"x"[..], &member] {
        let all = [&padded[..], garbage].concat();
        let kinds = errors(CodecId::GZIP, &all, raw.len());
        assert_eq!(kinds, [CodecErrorKind::TrailingBytes; 4]);
        let error = by_block(CodecId::GZIP, &all, raw.len()).unwrap_err();
        assert_eq!(error.offset, padded.len() as u64, "{error}");
    }
}

/// `len` bytes: these parts at their offsets, and zeros between them.
fn sparse(len: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (start, part) in parts {
        bytes[*start..start + part.len()].copy_from_slice(part);
    }
    bytes
}

/// libdeflate decodes all of these; zlib does not, and no encoder writes them.
#[test]
fn deflate_codes_that_zlib_refuses_are_refused_by_every_way() {
    let precode = [0xE0, 0x01, 0x90, 0x24, 0x49, 0x92, 0x24, 0x49, 0x02];
    let distances = [
        0x05, 0xFF, 0x05, 0x01, 0x00, 0x20, 0x00, 0x00, 0x20, 0x6C, 0xE3, 0xFF, 0x29, 0xEC, 0xEE,
        0x6E, 0x01,
    ];
    let cases = [
        (
            "32 distance codes",
            sparse(142, &[(0, &distances), (141, &[0x02])]),
        ),
        (
            "288 literal codes",
            sparse(
                155,
                &[
                    (0, &[0xFD]),
                    (1, &precode),
                    (42, &[0x02]),
                    (137, &[0x10, 0x01]),
                    (153, &[0xA0]),
                ],
            ),
        ),
        (
            "the unused codeword of a code of one",
            sparse(
                140,
                &[
                    (0, &[0x0D]),
                    (1, &precode),
                    (42, &[0x02]),
                    (137, &[0x10, 0xA1, 0x07]),
                ],
            ),
        ),
        ("the length code 286", vec![0x73, 0x1C, 0x03, 0x00]),
    ];
    for (what, stored) in cases {
        let kinds = errors(CodecId::DEFLATE, &stored, 100_000);
        assert_eq!(kinds, [CodecErrorKind::Corrupt; 4], "{what}");
    }
}

#[test]
fn a_content_size_of_zero_in_an_lz4_frame_states_nothing() {
    let frame = [
        0x04, 0x22, 0x4D, 0x18, 0x68, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0x05, 3, 0, 0, 0x80, b'a',
        b'b', b'c', 0, 0, 0, 0,
    ];
    assert_eq!(declared_raw_len(CodecId::LZ4, &frame, 26), None);
    assert_eq!(by_block(CodecId::LZ4, &frame, 3).unwrap(), b"abc");
    for pieces in [(1, 1), (100, 100)] {
        assert_eq!(
            by_stream(CodecId::LZ4, &frame, 3, || pieces).unwrap(),
            b"abc"
        );
    }
}

#[test]
fn half_a_second_frame_is_truncated() {
    let raw = sample(Kind::Text, 500, 1);
    for codec in [CodecId::GZIP, CodecId::ZSTD, CodecId::LZ4] {
        let Some(stored) = encoded(codec, &raw) else {
            continue;
        };
        for len in 1..stored.len() {
            let all = [&stored[..], &stored[..len]].concat();
            let kinds = errors(codec, &all, 2 * raw.len());
            assert_eq!(
                kinds,
                [CodecErrorKind::Truncated; 4],
                "{} {len}",
                codec.name()
            );
        }
    }
}

#[test]
fn a_bomb_stops_at_the_declared_size() {
    let raw = vec![0; 40 << 20];
    for codec in streamed() {
        let Some(stored) = encoded(codec, &raw) else {
            continue;
        };
        for room in [0, 1, 1000] {
            let block = by_block(codec, &stored, room).unwrap_err();
            assert_eq!(
                block.kind,
                CodecErrorKind::RawTooLong,
                "{} {room}",
                codec.name()
            );
            let stream = by_large_pieces(codec, &stored, room).unwrap_err();
            assert_eq!(
                stream.kind,
                CodecErrorKind::RawTooLong,
                "{} {room}",
                codec.name()
            );
            // It was seen where the room ended, not after decoding the rest.
            assert!(stream.offset <= stored.len() as u64 / 2 + 100, "{stream}");
        }
    }
    let block = encoded(CodecId::LZ4_BLOCK, &raw).unwrap();
    let error = by_block(CodecId::LZ4_BLOCK, &block, 1000).unwrap_err();
    assert_eq!(error.kind, CodecErrorKind::RawTooLong);
}

#[test]
fn exactly_enough_room_is_enough_and_one_byte_less_is_not() {
    let raw = sample(Kind::Texture, 10_000, 4);
    for codec in streamed() {
        let Some(stored) = encoded(codec, &raw) else {
            continue;
        };
        assert!(by_stream(codec, &stored, raw.len(), || (100, 1 << 20)).expect("exact") == raw);
        let error = by_stream(codec, &stored, raw.len() - 1, || (100, 1 << 20)).unwrap_err();
        assert_eq!(error.kind, CodecErrorKind::RawTooLong, "{}", codec.name());
    }
}

#[test]
fn a_changed_checksum_is_told_from_corrupt_data() {
    let raw = sample(Kind::Text, 3000, 9);
    for codec in [CodecId::ZLIB, CodecId::GZIP, CodecId::ZSTD, CodecId::LZ4] {
        let Some(mut stored) = encoded(codec, &raw) else {
            continue;
        };
        // gzip's last four bytes are the size; the checksum stands before them.
        let place = stored.len() - if codec == CodecId::GZIP { 6 } else { 2 };
        stored[place] ^= 0x10;
        let kinds = errors(codec, &stored, raw.len());
        assert_eq!(kinds, [CodecErrorKind::Checksum; 4], "{}", codec.name());
    }
}

#[test]
fn gdeflate_is_held_to_the_same_rules() {
    let raw = sample(Kind::Text, 150_000, 8);
    let stored = encoded(CodecId::GDEFLATE, &raw).unwrap();
    let kind = |stored: &[u8], raw_len| {
        let block = by_block(CodecId::GDEFLATE, stored, raw_len)
            .expect_err("block")
            .kind;
        if let Some(units) = by_units(CodecId::GDEFLATE, stored, raw_len, 20_000) {
            assert_eq!(units.expect_err("units").kind, block);
        }
        block
    };
    for cut in [0, 1, 7, 8, 15, 20, 1000, stored.len() - 1] {
        assert_eq!(
            kind(&stored[..cut], raw.len()),
            CodecErrorKind::Truncated,
            "cut at {cut}"
        );
        let whole = decompress(CodecId::GDEFLATE, &mut &stored[..cut], &mut Vec::new());
        assert!(whole.is_err(), "cut at {cut}");
    }
    let trailing = [&stored[..], &[0; 4]].concat();
    assert_eq!(kind(&trailing, raw.len()), CodecErrorKind::TrailingBytes);
    assert_eq!(kind(&stored, raw.len() - 1), CodecErrorKind::RawTooLong);
    assert_eq!(kind(b"no GDeflate stream", 10), CodecErrorKind::Corrupt);
    // A header that promises 4 GiB and a table that is not there: no memory is asked for.
    let promise = [4, 0xFB, 0xFF, 0xFF, 1, 0, 0, 0];
    assert_eq!(kind(&promise, 10), CodecErrorKind::Truncated);
    assert!(decompress(CodecId::GDEFLATE, &mut &promise[..], &mut Vec::new()).is_err());
}

#[test]
fn an_error_stays() {
    for codec in streamed() {
        let mut decoder = stream_decoder(codec).unwrap();
        let mut raw = [0; 64];
        let garbage = [0xFF; 64];
        let mut outcome = decoder.decode(&garbage, &mut raw);
        if outcome.is_ok() {
            outcome = decoder.decode(&garbage, &mut raw);
        }
        let first = outcome.expect_err(codec.name());
        assert_eq!(decoder.decode(&[], &mut raw).unwrap_err(), first);
        assert_eq!(decoder.decode(&[1, 2, 3], &mut []).unwrap_err(), first);
    }
}

#[test]
fn a_window_beyond_the_limit_is_unsupported_and_one_at_the_limit_is_not() {
    // Frame header with a window descriptor only, then one last raw block of three bytes.
    let frame = |window: u8| {
        let mut frame = 0xFD2F_B528u32.to_le_bytes().to_vec();
        frame.extend([0x00, window, 0x19, 0, 0, b'a', b'b', b'c']);
        frame
    };
    let at_limit = frame(17 << 3);
    if can_decode(CodecId::ZSTD) {
        for pieces in [(1, 1), (100, 100)] {
            assert_eq!(
                by_stream(CodecId::ZSTD, &at_limit, 3, || pieces).unwrap(),
                b"abc"
            );
        }
        assert_eq!(by_block(CodecId::ZSTD, &at_limit, 3).unwrap(), b"abc");
    }
    for window in [17 << 3 | 1, 18 << 3, 0xFF] {
        let kinds = errors(CodecId::ZSTD, &frame(window), 3);
        assert_eq!(
            kinds,
            [CodecErrorKind::Unsupported; 4],
            "window {window:#x}"
        );
    }
}

#[test]
fn dictionaries_and_legacy_frames_are_unsupported() {
    let zlib_dictionary = [0x78, 0xBB, 0, 0, 0, 1, 0, 0];
    let zstd_dictionary = [
        0x28, 0xB5, 0x2F, 0xFD, 0x21, 7, 3, 0x19, 0, 0, b'a', b'b', b'c',
    ];
    let lz4_legacy = [0x02, 0x21, 0x4C, 0x18, 1, 0, 0, 0, 0];
    let cases: [(CodecId, &[u8]); 3] = [
        (CodecId::ZLIB, &zlib_dictionary),
        (CodecId::ZSTD, &zstd_dictionary),
        (CodecId::LZ4, &lz4_legacy),
    ];
    for (codec, stored) in cases {
        let kinds = errors(codec, stored, 10);
        assert_eq!(kinds, [CodecErrorKind::Unsupported; 4], "{}", codec.name());
    }
}

#[test]
fn skippable_frames_alone_are_an_empty_stream() {
    let skippable = [0x5F, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];
    for codec in [CodecId::ZSTD, CodecId::LZ4] {
        assert_eq!(by_block(codec, &skippable, 0).unwrap(), b"");
        assert_eq!(by_stream(codec, &skippable, 0, || (1, 1)).unwrap(), b"");
        let kinds = errors(codec, &skippable[..10], 0);
        assert_eq!(kinds, [CodecErrorKind::Truncated; 4]);
    }
}

#[test]
fn errors_say_codec_cause_and_offset() {
    let error = by_block(CodecId::GZIP, b"not gzip at all", 10).unwrap_err();
    assert_eq!(
        error.to_string(),
        "gzip: this is no gzip stream: the magic number is missing (at stored offset 0)"
    );
}

/// CRC-32 bit by bit, to be independent of the one under test.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn every_field_of_a_gzip_header_is_read_and_its_checksum_verified() {
    let raw = b"with a header";
    let plain = encoded(CodecId::GZIP, raw).unwrap();
    let mut stored = vec![0x1F, 0x8B, 8, 0x1E, 1, 2, 3, 4, 2, 3];
    stored.extend([5, 0, b'e', 0, b't', 0, b'a']);
    stored.extend(b"name\0comment\0");
    let checksum_start = stored.len();
    let checksum = crc32(&stored) as u16;
    stored.extend(checksum.to_le_bytes());
    stored.extend(&plain[10..]);
    for pieces in [(1, 1), (3, 100), (1000, 1000)] {
        assert_eq!(
            by_stream(CodecId::GZIP, &stored, raw.len(), || pieces).unwrap(),
            raw
        );
    }
    assert_eq!(by_block(CodecId::GZIP, &stored, raw.len()).unwrap(), raw);
    for len in 0..stored.len() {
        let kinds = errors(CodecId::GZIP, &stored[..len], raw.len());
        assert_eq!(kinds, [CodecErrorKind::Truncated; 4], "cut at {len}");
    }
    stored[checksum_start] ^= 1;
    let kinds = errors(CodecId::GZIP, &stored, raw.len());
    assert_eq!(kinds, [CodecErrorKind::Checksum; 4]);
}

#[test]
fn what_the_strict_decoder_of_deflate_accepts_the_fast_one_decodes_alike() {
    let mut random = fastrand::Rng::with_seed(41);
    let mut scratch = Scratch::default();
    let mut accepted = 0;
    for round in 0..3000 {
        let len = random.usize(0..3000);
        let alphabet = random.u8(1..=255);
        let mut raw: Vec<u8> = (0..len).map(|_| random.u8(..alphabet)).collect();
        raw.extend_from_within(..len / 2);
        let mut stored = Vec::new();
        let level = random.i32(0..=9);
        encode_block(CodecId::DEFLATE, level, &mut scratch, &raw, &mut stored).expect("encoded");
        for _ in 0..round % 3 {
            let at = random.usize(..stored.len());
            stored[at] ^= 1 << random.u8(..8);
        }
        stored.truncate(stored.len() - usize::from(round % 7 == 0));
        let room = raw.len() + random.usize(..2) - usize::from(random.bool() && !raw.is_empty());
        let (mut strict, mut fast) = (vec![0; room], vec![0; room]);
        let expected = decode_block(CodecId::DEFLATE, &mut scratch, &stored, &mut strict);
        let found = decode_deflate_of_checked(&mut scratch, &stored, &mut fast);
        if let Ok(made) = expected {
            accepted += 1;
            assert_eq!(found.expect("accepted"), made);
            assert!(strict[..made] == fast[..made]);
        }
    }
    assert!(accepted > 500, "{accepted}");
}
