//! Requests that land in buffers.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use ash::vk;
use millstream::{CodecId, Decode, ErrorKind, Read};
use millstream_vulkan::Tier;

use crate::rig::{bytes, encoded, gdeflate, rig, rig_with};

#[test]
fn a_device_decodes_once_it_knows_the_answers() {
    let Some(rig) = rig() else { return };
    let report = rig.gpu.report();
    assert_ne!(report.tier, Tier::Cpu, "{}", report.reason);
    assert!(!report.device.is_empty());
    rig.end();
}

#[test]
fn stored_bytes_land_at_every_offset_and_length() {
    let Some(rig) = rig() else { return };
    let raw = bytes(5 << 20, 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raw");
    std::fs::write(&path, &raw).expect("written");
    let file = rig.storage.open(&path, Default::default());
    assert!(rig.load(Read::whole(file), raw.len()).expect("landed") == raw);
    for (offset, len) in [(0, 0), (1, 1), (4095, 3), (77, 100_001), (4096, 65536)] {
        let landed = rig
            .load(Read::range(file, offset, len), len as usize)
            .expect("landed");
        assert!(
            landed == raw[offset as usize..][..len as usize],
            "{offset}, {len}"
        );
    }
    rig.end();
}

#[test]
fn every_good_vector_is_decoded_and_every_broken_one_refused() {
    let Some(rig) = rig() else { return };
    let vectors = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../gdeflate/tests/vectors");
    let (mut good, mut bad) = (0, 0);
    for folder in [vectors.clone(), vectors.join("handmade")] {
        for entry in std::fs::read_dir(folder).expect("the vectors") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|kind| kind != "gdeflate") {
                continue;
            }
            let stored = std::fs::read(&path).expect("read");
            let expected = gdeflate::decompress(&stored, 1);
            let len = expected.as_ref().map_or(1 << 20, Vec::len);
            match (rig.load(gdeflate(&stored), len), expected) {
                (Ok(landed), Ok(raw)) => {
                    assert!(landed == raw, "{}: wrong bytes", path.display());
                    good += 1;
                }
                (Err(_), Err(_)) => bad += 1,
                (landed, _) => panic!("{}: {:?}", path.display(), landed.map(drop)),
            }
        }
    }
    assert!(good > 30 && bad > 10, "{good} good, {bad} broken");
    let stats = rig.gpu.stats();
    assert!(stats.tiles > 30, "the device decoded: {stats:?}");
    assert_eq!(stats.disagreed, 0);
    rig.end();
}

#[test]
fn mutated_tiles_end_as_the_processor_says() {
    let Some(rig) = rig() else { return };
    let count = std::env::var("MILLSTREAM_MUTATIONS").ok();
    let count: u64 = count.map_or(300, |count| count.parse().expect("a number"));
    let (mut good, mut bad) = (0, 0);
    for seed in 0..count {
        let mut random = fastrand::Rng::with_seed(seed);
        let raw = bytes(random.usize(1..9000), seed);
        let mut stored = encoded(&raw);
        let begin = stored.len().min(16);
        for _ in 0..random.usize(1..3) {
            let at = random.usize(begin..stored.len());
            stored[at] ^= 1 << random.u8(0..8);
        }
        let expected = gdeflate::decompress(&stored, 1);
        match (rig.load(gdeflate(&stored), raw.len()), expected) {
            (Ok(landed), Ok(raw)) => {
                assert!(landed == raw, "seed {seed}: wrong bytes");
                good += 1;
            }
            (Err(_), Err(_)) => bad += 1,
            (landed, expected) => panic!("seed {seed}: {landed:?}, expected {expected:?}"),
        }
    }
    assert!(good > 0 && bad > 0, "{good} good, {bad} broken");
    assert_eq!(rig.gpu.stats().disagreed, 0);
    rig.end();
}

/// A stream of one tile, which is so many empty stored blocks and one of the byte 7. All of it is
/// in the bits of the first of the 32 lanes, whose first word is the tile's, and the next ones
/// those behind the 32 first.
fn many_blocks(count: usize) -> Vec<u8> {
    let mut bits = vec![false; count * 19];
    // The last block: stored, of one byte.
    bits.extend([true, false, false]);
    bits.extend((0..16).map(|bit| bit == 0));
    bits.extend((0..8).map(|bit| 7 >> bit & 1 == 1));
    let word = |bits: &[bool]| {
        (0..32)
            .map(|bit| u32::from(bits.get(bit) == Some(&true)) << bit)
            .sum()
    };
    let lane: Vec<u32> = bits.chunks(32).map(word).collect();
    let mut words = vec![0; 32];
    words[0] = lane[0];
    words.extend(&lane[1..]);
    // A lane that has less than 32 bits left takes the next word.
    words.push(0);
    let tile: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let mut stream = encoded(&[7]);
    // The header, and a table of one entry: the stored length of the last tile.
    stream.truncate(8);
    stream.extend((tile.len() as u32).to_le_bytes());
    stream.extend(tile);
    stream
}

#[test]
fn tiles_of_more_blocks_than_the_shader_takes_do_not_count_against_it() {
    let Some(rig) = rig() else { return };
    let stored = many_blocks(200);
    assert_eq!(gdeflate::decompress(&stored, 1).expect("it is good"), [7]);
    for _ in 0..5 {
        assert_eq!(rig.load(gdeflate(&stored), 1).expect("landed"), [7]);
    }
    let stats = rig.gpu.stats();
    assert_eq!((stats.refused, stats.disagreed), (5, 0));
    assert_ne!(rig.gpu.report().tier, Tier::Cpu);
    rig.end();
}

#[test]
fn bytes_around_a_range_stay_as_they_are() {
    let Some(rig) = rig() else { return };
    let buffer = rig.buffer(1 << 20);
    let all = bytes(1 << 20, 3);
    let fill = Read::memory(Arc::from(&all[..])).into_device(buffer.clone());
    rig.queue
        .submit(fill)
        .expect("accepted")
        .wait()
        .expect("landed");
    let raw = bytes(100_003, 4);
    let mut expected = all;
    for (offset, stored) in [(13_u64, false), (500_001, true)] {
        // SAFETY: the buffer is the device's, and outlives the requests below.
        #[expect(unsafe_code, reason = "a range of a buffer of the application's")]
        let range = unsafe {
            rig.gpu
                .adopt_buffer((buffer.vk_buffer(), offset, raw.len() as u64), None)
        };
        let read = match stored {
            true => Read::memory(Arc::from(&raw[..])),
            false => gdeflate(&encoded(&raw)),
        };
        rig.queue
            .submit(read.into_device(range))
            .expect("accepted")
            .wait()
            .expect("landed");
        expected[offset as usize..][..raw.len()].copy_from_slice(&raw);
    }
    assert!(buffer.read_back(0..1 << 20).expect("read back") == expected);
    rig.end();
}

#[test]
fn many_requests_at_once_land_each_in_its_place() {
    let Some(rig) = rig() else { return };
    let buffer = rig.buffer(64 * 100_000);
    let raws: Vec<Vec<u8>> = (0..64).map(|seed| bytes(100_000, 100 + seed)).collect();
    let mut tickets = Vec::new();
    for (index, raw) in raws.iter().enumerate() {
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "a range of a buffer of the application's")]
        let range = unsafe {
            rig.gpu
                .adopt_buffer((buffer.vk_buffer(), index as u64 * 100_000, 100_000), None)
        };
        let read = match index % 3 {
            0 => Read::memory(Arc::from(&raw[..])),
            1 => gdeflate(&encoded(raw)),
            _ => {
                let mut stored = Vec::new();
                let mut scratch = millstream_codec::Scratch::default();
                let level = millstream_codec::default_level(CodecId::ZSTD);
                let made = millstream_codec::encode_block(
                    CodecId::ZSTD,
                    level,
                    &mut scratch,
                    raw,
                    &mut stored,
                );
                made.expect("encoded");
                let decode = Decode::codec(CodecId::ZSTD).raw_len(raw.len() as u64);
                Read::memory(Arc::from(stored)).decode(decode)
            }
        };
        tickets.push(rig.queue.submit(read.into_device(range)).expect("accepted"));
    }
    for mut ticket in tickets {
        ticket.wait().expect("landed");
    }
    assert!(buffer.read_back(0..64 * 100_000).expect("read back") == raws.concat());
    assert!(rig.gpu.stats().batches < 64, "requests share submissions");
    rig.end();
}

#[test]
fn without_decoding_on_the_device_workers_decode() {
    let Some(rig) = rig_with(false) else { return };
    assert_eq!(rig.gpu.report().tier, Tier::Cpu);
    let raw = bytes(300_000, 5);
    assert!(
        rig.load(gdeflate(&encoded(&raw)), raw.len())
            .expect("landed")
            == raw
    );
    assert_eq!(rig.gpu.stats().tiles, 0);
    rig.end();
}

#[test]
fn what_does_not_fit_or_comes_too_late_is_an_error() {
    let Some(rig) = rig() else { return };
    let raw = bytes(300_000, 6);
    let buffer = rig.buffer(raw.len() - 1);
    let whole = || Read::memory(Arc::from(&raw[..])).into_device(buffer.clone());
    let result = rig
        .queue
        .submit(whole())
        .expect("accepted")
        .outcome()
        .result;
    assert!(result.is_err_and(|error| error.kind() == ErrorKind::DestinationTooSmall));
    let error = rig
        .gpu
        .buffer(0, vk::BufferUsageFlags::empty())
        .expect_err("no bytes");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let backwards = Range { start: 7, end: 3 };
    for range in [backwards, 0..raw.len() as u64] {
        let error = buffer.read_back(range).expect_err("outside");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let buffer = rig.buffer(raw.len());
    drop(rig.gpu);
    let read = Read::memory(Arc::from(&raw[..])).into_device(buffer);
    let result = rig.queue.submit(read).expect("accepted").outcome().result;
    assert!(result.is_err_and(|error| error.kind() == ErrorKind::Closed));
}
