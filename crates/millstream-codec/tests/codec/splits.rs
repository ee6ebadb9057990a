//! A stream decoder's result does not depend on how its input and output are cut.

use crate::common::{KINDS, by_stream, encoded, sample, streamed};
use millstream_codec::CodecId;

/// A stream of up to three parts, where the codec may have several, and its raw bytes.
fn stream_of_parts(
    codec: CodecId,
    parts: &[(usize, usize)],
    seed: u64,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let several = matches!(codec, CodecId::GZIP | CodecId::ZSTD | CodecId::LZ4);
    let (mut stored, mut raw) = (Vec::new(), Vec::new());
    for &(kind, len) in parts.iter().take(if several { parts.len() } else { 1 }) {
        let part = sample(KINDS[kind], len, seed);
        stored.extend(encoded(codec, &part)?);
        raw.extend(part);
    }
    Some((stored, raw))
}

#[test]
fn any_cut_gives_the_same_bytes() {
    let mut random = millstream_testing::random();
    for _ in 0..48 {
        let codec = random.choice(streamed().collect::<Vec<_>>()).expect("some");
        let parts: Vec<(usize, usize)> = (0..random.usize(1..4))
            .map(|_| (random.usize(..KINDS.len()), random.usize(..80_000)))
            .collect();
        let (in_max, out_max) = (random.usize(1..5000), random.usize(1..5000));
        if let Some((stored, raw)) = stream_of_parts(codec, &parts, random.u64(..)) {
            let pieces = || (random.usize(1..=in_max), random.usize(1..=out_max));
            let decoded = by_stream(codec, &stored, raw.len(), pieces);
            assert!(
                decoded.is_ok_and(|decoded| decoded == raw),
                "{} {parts:?} {in_max} {out_max}",
                codec.name()
            );
        }
    }
}

#[test]
fn single_bytes_in_and_out_give_the_same_bytes() {
    for codec in streamed() {
        for kind in KINDS {
            let parts = [(KINDS.iter().position(|k| *k == kind).unwrap(), 3000); 3];
            let Some((stored, raw)) = stream_of_parts(codec, &parts, 11) else {
                continue;
            };
            for pieces in [(1, 1), (1, 1 << 20), (1 << 20, 1)] {
                let decoded = by_stream(codec, &stored, raw.len(), || pieces);
                assert!(
                    decoded.is_ok_and(|decoded| decoded == raw),
                    "{} {pieces:?}",
                    codec.name()
                );
            }
        }
    }
}

#[test]
fn a_block_of_an_lz4_frame_larger_than_the_room_waits() {
    let raw = sample(crate::common::Kind::Texture, 600_000, 2);
    let stored = encoded(CodecId::LZ4, &raw).unwrap();
    for out_max in [1, 1000, 256 << 10, (256 << 10) + 1] {
        let decoded = by_stream(CodecId::LZ4, &stored, raw.len(), || (70_001, out_max));
        assert!(decoded.unwrap() == raw, "{out_max}");
    }
}
