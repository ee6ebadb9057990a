//! What is encoded decodes to the same bytes, by every way of decoding and at every level.

use crate::common::{KINDS, Kind, by_block, by_large_pieces, encoded, sample};
use millstream_codec::{
    CodecErrorKind, CodecId, Scratch, block_level_range, compress, declared_raw_len, decode_block,
    decompress, default_level, encode_block, level_range, wrong_format,
};

/// Sizes around what the codecs count in: nothing, one, bytes of a length code, blocks of LZ4.
const SIZES: [usize; 9] = [
    0,
    1,
    13,
    255,
    65_535,
    65_536,
    (256 << 10) - 1,
    256 << 10,
    (512 << 10) + 1,
];

#[test]
fn blocks_of_every_kind_and_size_come_back() {
    for codec in CodecId::ALL {
        for kind in KINDS {
            for len in SIZES {
                let raw = sample(kind, len, len as u64);
                let Some(stored) = encoded(codec, &raw) else {
                    continue;
                };
                let what = format!("{} {kind:?} {len}", codec.name());
                assert!(by_block(codec, &stored, len).expect(&what) == raw, "{what}");
                // Room to spare changes nothing.
                assert!(
                    by_block(codec, &stored, len + 100).expect(&what) == raw,
                    "{what}"
                );
                if codec.facts().stream.is_some() {
                    assert!(
                        by_large_pieces(codec, &stored, len).expect(&what) == raw,
                        "{what}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_level_comes_back_with_one_scratch() {
    let raw = sample(Kind::Text, 50_000, 7);
    let mut scratch = Scratch::default();
    for codec in CodecId::ALL {
        assert!(level_range(codec).all(|level| block_level_range(codec).contains(&level)));
        for level in block_level_range(codec) {
            let mut stored = vec![1, 2, 3];
            encode_block(codec, level, &mut scratch, &raw, &mut stored).expect("encoding");
            assert_eq!(stored[..3], [1, 2, 3], "out is appended to");
            let mut back = vec![0; raw.len()];
            let written = decode_block(codec, &mut scratch, &stored[3..], &mut back);
            assert_eq!(written, Ok(raw.len()), "{} level {level}", codec.name());
            assert!(back == raw, "{} level {level}", codec.name());
        }
    }
}

#[test]
fn levels_out_of_range_are_refused_and_leave_out_alone() {
    for codec in CodecId::ALL {
        let level = block_level_range(codec).end() + 1;
        let mut out = vec![9];
        let refused = encode_block(codec, level, &mut Scratch::default(), b"abc", &mut out);
        assert_eq!(refused.unwrap_err().kind, CodecErrorKind::Unsupported);
        assert_eq!(out, [9]);
    }
}

#[test]
fn streams_of_every_codec_come_back_with_equal_totals() {
    for codec in CodecId::ALL {
        if level_range(codec).is_empty() {
            continue;
        }
        assert!(level_range(codec).contains(&default_level(codec)));
        for kind in KINDS {
            for len in [0, 1, 100, (256 << 10) - 1, 256 << 10, 700_000] {
                let raw = sample(kind, len, 3);
                let (mut stored, mut back) = (Vec::new(), Vec::new());
                let written =
                    compress(codec, default_level(codec), &mut &raw[..], &mut stored).unwrap();
                assert_eq!(written.raw_bytes, len as u64);
                assert_eq!(written.stored_bytes, stored.len() as u64);
                let read = decompress(codec, &mut &stored[..], &mut back).unwrap();
                assert_eq!(read, written, "{} {kind:?} {len}", codec.name());
                assert!(back == raw, "{} {kind:?} {len}", codec.name());
            }
        }
    }
}

#[test]
fn names_lead_back_to_their_codecs() {
    let names = CodecId::ALL.map(CodecId::name).join(" ");
    assert_eq!(
        names,
        "stored zlib gzip deflate zstd lz4 lz4-block gdeflate"
    );
    for codec in CodecId::ALL {
        assert_eq!(CodecId::from_name(codec.name()), Some(codec));
    }
    assert_eq!(CodecId::from_name("application"), None);
    assert_eq!(CodecId(0x80).name(), "application");
}

#[test]
fn the_head_declares_the_raw_size_where_the_format_has_it() {
    let raw = sample(Kind::Text, 300_000, 5);
    for codec in CodecId::ALL
        .into_iter()
        .filter(|codec| codec.facts().scanner.is_some())
    {
        let Some(stored) = encoded(codec, &raw) else {
            continue;
        };
        for head in [&stored[..64], &stored] {
            let declared = declared_raw_len(codec, head, stored.len() as u64);
            assert_eq!(declared, Some(300_000), "{}", codec.name());
        }
    }
    // The whole stream is there: all of its frames count.
    for codec in [CodecId::ZSTD, CodecId::LZ4] {
        let Some(stored) = encoded(codec, &raw) else {
            continue;
        };
        let twice = [&stored[..], &stored].concat();
        let declared = declared_raw_len(codec, &twice, twice.len() as u64);
        assert_eq!(declared, Some(600_000), "{}", codec.name());
    }
    let gzip = encoded(CodecId::GZIP, &raw).unwrap();
    assert_eq!(
        declared_raw_len(CodecId::GZIP, &gzip, gzip.len() as u64),
        None
    );
}

#[test]
fn a_wrong_format_is_named_and_a_right_one_is_not() {
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    assert!(wrong_format(CodecId::ZSTD, &zstd).is_none());
    let cause = wrong_format(CodecId::GZIP, &zstd).expect("zstd is no gzip");
    assert!(cause.contains("zstd"), "{cause}");
    assert!(wrong_format(CodecId::ZLIB, &[0x78, 0x9c]).is_none());
    let cause = wrong_format(CodecId::ZLIB, &[0x1f, 0x8b, 8]).expect("gzip is no zlib");
    assert!(cause.contains("gzip"), "{cause}");
    assert!(wrong_format(CodecId::STORED, b"anything").is_none());
    assert!(wrong_format(CodecId(0x90), b"anything").is_none());
}
