//! Images as requests of the engine: every format, borders of blocks, wrong files, memory.
use std::path::Path;

use crate::common::{Layout, text_of};
use millstream::{CodecId, Decode, ErrorKind, QueueOptions, Read, Storage, StorageOptions};
use millstream_codec::StreamDecoder as _;
use millstream_pnm::codec::{Decoder, register};
use millstream_pnm::decode;

const PNM: CodecId = CodecId(0x90);

fn storage(set: impl FnOnce(&mut StorageOptions)) -> Storage {
    let mut options = StorageOptions::default();
    register(&mut options, PNM);
    set(&mut options);
    Storage::new(options).expect("a storage")
}

fn load(storage: &Storage, path: &Path) -> Result<Vec<u8>, ErrorKind> {
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let file = storage.open(path, Default::default());
    let read = Read::whole(file).decode(Decode::codec(PNM));
    let image = queue.submit(read).and_then(|mut ticket| ticket.wait());
    image
        .map(|bytes| bytes.to_vec())
        .map_err(|error| error.kind())
}

#[test]
fn the_engine_delivers_what_decoding_in_memory_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let samples: Vec<u16> = (0..300_000u32)
        .map(|index| (index * 7 % 256) as u16)
        .collect();
    let mut files = vec![
        text_of(255, &samples, Layout::Lines, 1),
        text_of(300, &samples, Layout::Comments, 2),
        b"P2 2 1 9 7 8".to_vec(),
        b"P1 3 1 101\nP1 1 1 0".to_vec(),
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 500\nENDHDR\n\x01\x02".to_vec(),
    ];
    let mut packed = b"P4 4001 300\n".to_vec();
    packed.extend((0..501 * 300).map(|index| (index % 253) as u8));
    files.push(packed);
    // Blocks of 4 KiB: numbers, comments and rows straddle them.
    for block_bytes in [4096, 1 << 20] {
        let storage = storage(|options| options.block_bytes = block_bytes);
        for (index, bytes) in files.iter().enumerate() {
            let path = folder.path().join(index.to_string());
            std::fs::write(&path, bytes).expect("a file");
            let expected = decode(bytes).expect("a right image").samples;
            let loaded = load(&storage, &path).unwrap_or_else(|kind| panic!("{index}: {kind:?}"));
            assert!(
                loaded == expected.as_bytes(),
                "{index} in blocks of {block_bytes}"
            );
        }
    }
}

#[test]
fn wrong_images_fail_their_request_and_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = storage(|options| options.block_bytes = 4096);
    let cases = [
        (&b"P3 1 1 9\n1 2 10"[..], ErrorKind::Corrupt),
        (b"P3 100 100 9\n1 2 3", ErrorKind::Application),
        (b"P2 2 1 9\n1 2 x", ErrorKind::Corrupt),
        (b"P2 2 1 9\n   1", ErrorKind::Corrupt),
        (b"GIF89a", ErrorKind::Application),
        (b"P6 2147483647 2147483647 255\n", ErrorKind::Application),
    ];
    for (index, (bytes, kind)) in cases.into_iter().enumerate() {
        let path = folder.path().join(index.to_string());
        std::fs::write(&path, bytes).expect("a file");
        let shown = bytes.escape_ascii();
        assert_eq!(load(&storage, &path), Err(kind), "{shown}");
    }
    let path = folder.path().join("right");
    std::fs::write(&path, b"P2 1 1 9 4").expect("a file");
    assert_eq!(load(&storage, &path), Ok(vec![4]));
}

#[test]
fn a_decoder_takes_any_room_and_any_piece() {
    let samples: Vec<u16> = (0..300).map(|index| index * 3 % 256).collect();
    let mut files = vec![text_of(255, &samples, Layout::Runs, 3)];
    files.push(b"P4 11 5\nabcdefghij".to_vec());
    for bytes in files {
        let expected = decode(&bytes).expect("an image");
        for (piece, room) in [(1, 1), (7, 1), (1, 9), (64, 13), (4096, 3)] {
            let mut decoder = Decoder::new(PNM);
            let mut raw = vec![0; expected.samples.len()];
            let (mut taken, mut made) = (0, 0);
            while taken < bytes.len() {
                let end = bytes.len().min(taken + piece);
                let until = raw.len().min(made + room);
                let progress = decoder.decode(&bytes[taken..end], &mut raw[made..until]);
                let progress = progress.expect("right bytes");
                assert!(progress.consumed + progress.produced > 0);
                taken += progress.consumed;
                made += progress.produced;
            }
            made += decoder.finish(&mut raw[made..]).expect("whole").produced;
            assert_eq!(made, raw.len());
            assert!(raw == expected.samples.as_bytes(), "{piece} {room}");
        }
    }
}

#[test]
fn staging_stays_within_its_bound_while_a_large_text_is_parsed() {
    const STAGING_BYTES: usize = 1 << 20;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let samples: Vec<u16> = (0..2_000_000u32)
        .map(|index| (index % 251) as u16)
        .collect();
    let path = folder.path().join("large");
    std::fs::write(&path, text_of(255, &samples, Layout::Spaces, 4)).expect("a file");
    let storage = storage(|options| options.staging_bytes = STAGING_BYTES);
    assert_eq!(
        load(&storage, &path).expect("an image").len(),
        samples.len()
    );
    let peak = storage.stats().staging_peak_bytes;
    assert!(peak > 0 && peak <= STAGING_BYTES as u64, "{peak}");
}
