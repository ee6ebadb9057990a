//! Units: found however the bytes arrive, decoded to the stream's bytes, refused where sizes are
//! not known.

use crate::common::{Kind, by_block, by_large_pieces, by_units, encoded, sample};
use millstream_codec::{CodecErrorKind, CodecId, unit_scanner};

const SKIPPABLE: [u8; 11] = [0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];

#[test]
fn zstd_frames_are_units_however_the_bytes_arrive() {
    let parts: Vec<_> = (0..6)
        .map(|seed| sample(Kind::Text, 150_000, seed))
        .collect();
    let raw = parts.concat();
    let mut stored = SKIPPABLE.to_vec();
    for part in &parts {
        let Some(frame) = encoded(CodecId::ZSTD, part) else {
            return;
        };
        stored.extend(frame);
        stored.extend(SKIPPABLE);
    }
    for piece_bytes in [1, 7, 1000, 65_536, stored.len()] {
        let (decoded, count) = by_units(CodecId::ZSTD, &stored, raw.len(), piece_bytes)
            .unwrap()
            .unwrap();
        assert!(decoded == raw);
        assert_eq!(count, 6);
    }
}

#[test]
fn one_zstd_frame_has_no_units() {
    let raw = sample(Kind::Text, 500_000, 1);
    let Some(stored) = encoded(CodecId::ZSTD, &raw) else {
        return;
    };
    assert!(by_units(CodecId::ZSTD, &stored, raw.len(), 1000).is_none());
}

#[test]
fn lz4_blocks_are_units_however_the_bytes_arrive() {
    for kind in [Kind::Text, Kind::Random, Kind::Zeros] {
        for len in [(256 << 10) + 1, 512 << 10, 1_000_000] {
            let raw = sample(kind, len, 2);
            let stored = encoded(CodecId::LZ4, &raw).unwrap();
            for piece_bytes in [1000, 65_536, stored.len()] {
                let (decoded, count) = by_units(CodecId::LZ4, &stored, raw.len(), piece_bytes)
                    .unwrap()
                    .unwrap();
                assert!(decoded == raw, "{kind:?} {len} {piece_bytes}");
                assert_eq!(count, len.div_ceil(256 << 10));
            }
        }
    }
    let raw = sample(Kind::Text, 256 << 10, 2);
    let stored = encoded(CodecId::LZ4, &raw).unwrap();
    assert!(
        by_units(CodecId::LZ4, &stored, raw.len(), 1000).is_none(),
        "a single block"
    );
}

#[test]
fn gdeflate_tiles_are_units_however_the_bytes_arrive() {
    for len in [65_537, 500_000] {
        let raw = sample(Kind::Texture, len, 2);
        let stored = encoded(CodecId::GDEFLATE, &raw).unwrap();
        for piece_bytes in [1, 1000, stored.len()] {
            let (decoded, count) = by_units(CodecId::GDEFLATE, &stored, len, piece_bytes)
                .unwrap()
                .unwrap();
            assert!(decoded == raw, "{len} {piece_bytes}");
            assert_eq!(count, len.div_ceil(65_536));
        }
    }
    let stored = encoded(CodecId::GDEFLATE, &[7; 65_536]).unwrap();
    assert!(
        by_units(CodecId::GDEFLATE, &stored, 65_536, 100).is_none(),
        "a single tile"
    );
}

#[test]
fn the_content_checksum_of_units_is_compared_in_the_end() {
    let raw = sample(Kind::Text, 600_000, 3);
    let mut stored = encoded(CodecId::LZ4, &raw).unwrap();
    let len = stored.len();
    stored[len - 1] ^= 1;
    let error = by_units(CodecId::LZ4, &stored, raw.len(), len)
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind, CodecErrorKind::Checksum);
    assert_eq!(error.offset, len as u64 - 4);
}

/// An LZ4 frame of uncompressed and compressed blocks of any size, without content size.
fn lz4_frame(blocks: &[&[u8]]) -> Vec<u8> {
    let mut frame = 0x184D_2204u32.to_le_bytes().to_vec();
    // Version 1, independent, blocks of 64 KiB, and the checksum byte of these two.
    frame.extend([0x60, 0x40, 0x82]);
    for block in blocks {
        frame.extend((block.len() as u32).to_le_bytes());
        frame.extend(*block);
    }
    frame.extend([0; 4]);
    frame
}

#[test]
fn short_lz4_blocks_send_the_caller_to_the_stream_decoder() {
    let parts = [
        sample(Kind::Text, 1000, 1),
        sample(Kind::Text, 65_536, 2),
        vec![7; 10],
    ];
    let blocks: Vec<_> = parts
        .iter()
        .map(|part| encoded(CodecId::LZ4_BLOCK, part).unwrap())
        .collect();
    let blocks: Vec<_> = blocks.iter().map(Vec::as_slice).collect();
    let raw = parts.concat();
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
        let stored = lz4_frame(&order.map(|index| blocks[index]));
        let error = by_units(CodecId::LZ4, &stored, raw.len(), stored.len())
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind, CodecErrorKind::Unsupported, "{order:?}");
        let expected = order.map(|index| &parts[index][..]).concat();
        assert!(by_large_pieces(CodecId::LZ4, &stored, raw.len()).unwrap() == expected);
        assert!(by_block(CodecId::LZ4, &stored, raw.len()).unwrap() == expected);
    }
}

#[test]
fn frames_without_sizes_one_after_the_other_are_streams() {
    let part = sample(Kind::Text, 65_536, 4);
    let block = encoded(CodecId::LZ4_BLOCK, &part).unwrap();
    let short = encoded(CodecId::LZ4_BLOCK, &part[..500]).unwrap();
    let stored = [lz4_frame(&[&block, &short]), lz4_frame(&[&block])].concat();
    let raw = [&part[..], &part[..500], &part].concat();
    let error = by_units(CodecId::LZ4, &stored, raw.len(), stored.len())
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind, CodecErrorKind::Unsupported);
    assert!(by_large_pieces(CodecId::LZ4, &stored, raw.len()).unwrap() == raw);
}

#[test]
fn cut_trailing_and_wrongly_sized_streams_are_errors_of_the_scanner() {
    let part = sample(Kind::Text, 300_000, 6);
    for codec in [CodecId::ZSTD, CodecId::LZ4] {
        let Some(stored) = encoded(codec, &part) else {
            continue;
        };
        let stored = stored.repeat(2);
        let raw_len = 2 * part.len();
        let kind = |stored: &[u8], raw_len| {
            by_units(codec, stored, raw_len, 100_000)
                .unwrap()
                .unwrap_err()
                .kind
        };
        for cut in [1, 3, 5, 100, 1000] {
            let cut = &stored[..stored.len() - cut];
            assert_eq!(
                kind(cut, raw_len),
                CodecErrorKind::Truncated,
                "{}",
                codec.name()
            );
        }
        let trailing = [&stored[..], b"garbage"].concat();
        assert_eq!(
            kind(&trailing, raw_len),
            CodecErrorKind::TrailingBytes,
            "{}",
            codec.name()
        );
        // About sizes LZ4 leaves the verdict to the stream decoder.
        let (long, short) = match codec {
            CodecId::LZ4 => (CodecErrorKind::Unsupported, CodecErrorKind::Unsupported),
            _ => (CodecErrorKind::RawTooLong, CodecErrorKind::RawTooShort),
        };
        assert_eq!(kind(&stored, raw_len - 1), long, "{}", codec.name());
        assert_eq!(kind(&stored, raw_len + 1), short, "{}", codec.name());
    }
}

#[test]
fn a_frame_beyond_the_limit_of_a_unit_is_a_stream() {
    // Raw blocks of 128 KiB that claim to go on: the scanner gives up at the limit, from the block
    // headers alone, instead of waiting for more and more bytes.
    let mut stored = 0xFD2F_B528u32.to_le_bytes().to_vec();
    stored.extend([0x80, 17 << 3]);
    stored.extend(u32::to_le_bytes(100 << 20));
    let mut scanner = unit_scanner(CodecId::ZSTD, &stored, 200 << 20, 200 << 20).unwrap();
    let block = [
        &((128u32 << 10) << 3).to_le_bytes()[..3],
        &vec![0; 128 << 10],
    ]
    .concat();
    let mut units = Vec::new();
    let error = loop {
        match scanner.scan(&stored, false, &mut units) {
            Ok(consumed) => assert_eq!((consumed, units.len()), (0, 0)),
            Err(error) => break error,
        }
        stored.extend(&block);
        assert!(stored.len() < 20 << 20, "the limit was passed unnoticed");
    };
    assert_eq!(error.kind, CodecErrorKind::Unsupported);
}

#[test]
fn units_too_small_for_jobs_are_left_to_the_stream_decoder() {
    let raw = sample(Kind::Text, 2_000_000, 7);
    let Some(stored) = encoded(CodecId::LZ4, &raw) else {
        return;
    };
    let header_bytes = if stored[4] & 8 == 0 { 7 } else { 15 };
    // A block of 0 bytes that is not compressed is four bytes of the stream.
    let empty = 0x8000_0000u32.to_le_bytes().repeat(1 << 20);
    let stored = [&stored[..header_bytes], &empty, &stored[header_bytes..]].concat();
    let head = &stored[..4096];
    let mut scanner =
        unit_scanner(CodecId::LZ4, head, stored.len() as u64, raw.len() as u64).unwrap();
    let mut units = Vec::new();
    let error = scanner.scan(&stored, true, &mut units).unwrap_err();
    assert_eq!(error.kind, CodecErrorKind::Unsupported);
    assert!(units.len() < 4096, "{} units", units.len());
    assert_eq!(
        by_large_pieces(CodecId::LZ4, &stored, raw.len()).unwrap(),
        raw
    );
}

#[test]
fn codecs_without_units_have_no_scanner() {
    for codec in (0..=255)
        .map(CodecId)
        .filter(|codec| codec.facts().scanner.is_none())
    {
        assert!(unit_scanner(codec, &[0; 100], 1000, 1 << 30).is_none());
    }
}
