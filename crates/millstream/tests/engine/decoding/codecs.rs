//! The library's codecs.

use millstream::{CodecId, Decode, ErrorKind, Read, StorageOptions};

use crate::decoding::rig::{Rig, bytes, each_backend, each_backend_with, encoded};

fn decodes_and_detects_damage(rig: &Rig, codec: CodecId, raw: &[u8]) {
    let context = format!("{codec:?} {}", raw.len());
    let len = raw.len() as u64;
    let stored = encoded(codec, raw);
    let file = rig.file_of(&context, &stored);
    let decode = |len| Decode::codec(codec).raw_len(len);
    let mut longer = stored.clone();
    longer.push(0x55);
    let mut batch = rig.queue.batch();
    let good = [
        Read::whole(file).decode(decode(len)),
        Read::memory(stored.clone().into()).decode(decode(len)),
    ];
    let bad = [
        ("declared short", Read::whole(file).decode(decode(len - 1))),
        ("declared long", Read::whole(file).decode(decode(len + 1))),
        (
            "truncated",
            Read::range(file, 0, stored.len() as u64 - 1).decode(decode(len)),
        ),
        (
            "followed by a byte",
            Read::memory(longer.into()).decode(decode(len)),
        ),
    ];
    let good = good.map(|read| batch.add(read).expect("accepted"));
    let bad = bad.map(|(what, read)| (what, batch.add(read).expect("accepted")));
    drop(batch);
    for mut ticket in good {
        assert!(ticket.wait().expect(&context)[..] == *raw, "{context}");
    }
    for (what, mut ticket) in bad {
        let error = ticket.wait().expect_err(&format!("{context} {what}"));
        let kinds = [ErrorKind::RawSize, ErrorKind::Corrupt];
        assert!(kinds.contains(&error.kind()), "{context} {what}: {error}");
    }
}

#[test]
fn every_codec_decodes_from_file_and_memory_and_damage_is_an_error() {
    each_backend(|rig| {
        for len in [1, 1000, 300_000, 9_000_000] {
            let raw = bytes(len);
            for &codec in &CodecId::ALL[1..] {
                decodes_and_detects_damage(rig, codec, &raw);
            }
        }
    });
}

/// Streams of several frames decode in parts on all workers, or as streams where their parts cannot
/// be found; they are far larger than staging either way.
#[test]
fn streams_of_several_frames_decode_whatever_their_frames() {
    let options = || {
        let mut options = StorageOptions::default();
        options.staging_bytes = 1 << 20;
        options
    };
    each_backend_with(options, |rig| {
        let raw = bytes(12_000_001);
        for codec in [CodecId::ZSTD, CodecId::LZ4, CodecId::GZIP] {
            for frame_bytes in [100_000, 1_500_001, 7_000_000] {
                let context = format!("{codec:?} in frames of {frame_bytes}");
                let frames = raw.chunks(frame_bytes);
                let stored: Vec<u8> = frames.flat_map(|frame| encoded(codec, frame)).collect();
                let file = rig.file_of(&context, &stored);
                let decode = Decode::codec(codec).raw_len(raw.len() as u64);
                let landed = rig.run(Read::whole(file).decode(decode));
                let landed = landed.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(landed[..] == raw, "{context}");
            }
        }
    });
}
