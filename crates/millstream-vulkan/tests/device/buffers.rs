//! Requests that land in buffers.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use ash::vk;
use millstream::{CodecId, Decode, ErrorKind, Read};
use millstream_vulkan::{GpuBuffer, Tier};

use crate::rig::{Rig, bytes, encoded, gdeflate, rig, rig_with};

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

/// Bytes between destinations, which nothing may write.
const GUARD: usize = 29;

/// A number that the environment sets.
fn set(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |set| set.parse().expect("a number"))
}

/// A range of a buffer of the library's, as if it were the application's.
fn range(rig: &Rig, buffer: &GpuBuffer, offset: usize, len: usize) -> Arc<GpuBuffer> {
    let range = (buffer.vk_buffer(), offset as u64, len as u64);
    // SAFETY: the buffer is the device's, and outlives the requests of the test.
    #[expect(unsafe_code, reason = "a range of a buffer of the application's")]
    unsafe {
        rig.gpu.adopt_buffer(range, None)
    }
}

/// A stream with some bits turned over, and how many raw bytes it had.
fn mutated(seed: u64) -> (Vec<u8>, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let raw = bytes(random.usize(1..9000), seed);
    let mut stored = encoded(&raw);
    let begin = stored.len().min(16);
    for _ in 0..random.usize(1..4) {
        let at = random.usize(begin..stored.len());
        stored[at] ^= 1 << random.u8(0..8);
    }
    (stored, raw.len())
}

/// `MILLSTREAM_MUTATIONS=100000` runs so many; with `MILLSTREAM_MUTATIONS_FROM=37000` it goes on.
#[test]
fn mutated_tiles_end_as_the_processor_says() {
    let first = set("MILLSTREAM_MUTATIONS_FROM", 0);
    let last = first.max(set("MILLSTREAM_MUTATIONS", 320));
    let Some(rig) = rig_with(true, last - first <= 1000) else {
        return;
    };
    let (mut good, mut bad) = (0, 0);
    for round in (first..last).step_by(64) {
        let tiles: Vec<_> = (round..last.min(round + 64)).map(mutated).collect();
        let len = tiles.iter().map(|(_, raw_len)| raw_len + GUARD).sum();
        let buffer = rig.buffer(len);
        let fill = Read::memory(Arc::from(vec![0xa5; len])).into_device(buffer.clone());
        rig.queue
            .submit(fill)
            .expect("accepted")
            .wait()
            .expect("landed");
        let mut at = 0;
        let submit = |(stored, raw_len): &(Vec<u8>, usize)| {
            let read = gdeflate(stored).into_device(range(&rig, &buffer, at, *raw_len));
            at += raw_len + GUARD;
            rig.queue.submit(read).expect("accepted")
        };
        let mut tickets: Vec<_> = tiles.iter().map(submit).collect();
        let results: Vec<_> = tickets
            .iter_mut()
            .map(|ticket| ticket.outcome().result)
            .collect();
        let landed = buffer.read_back(0..len as u64).expect("read back");
        let mut at = 0;
        for ((seed, (stored, raw_len)), result) in (round..).zip(tiles).zip(results) {
            match (result, gdeflate::decompress(&stored, 1)) {
                (Ok(_), Ok(raw)) => {
                    assert!(landed[at..at + raw_len] == raw, "seed {seed}: wrong bytes");
                    good += 1;
                }
                (Err(_), Err(_)) => bad += 1,
                (landed, expected) => panic!("seed {seed}: {landed:?}, expected {expected:?}"),
            }
            let guard = &landed[at + raw_len..][..GUARD];
            assert!(
                guard.iter().all(|byte| *byte == 0xa5),
                "seed {seed}: a stray byte"
            );
            at += raw_len + GUARD;
        }
        millstream_testing::alive();
        if (round - first).is_multiple_of(6400) && round > first {
            println!("{round} of {last} tiles: {good} good, {bad} broken");
        }
    }
    assert!(
        last - first < 64 || (good > 0 && bad > 0),
        "{good} good, {bad} broken"
    );
    assert_eq!(rig.gpu.stats().disagreed, 0);
    rig.end();
}

/// `MILLSTREAM_LOADS=100000` loads so many.
#[test]
fn memory_does_not_grow_with_loads() {
    let Some(rig) = rig_with(true, false) else {
        return;
    };
    let raw = bytes(3000, 1);
    let reads: [Arc<[u8]>; 2] = [Arc::from(&raw[..]), Arc::from(encoded(&raw))];
    let buffer = rig.buffer(64 * 3001);
    let load = |rounds: u64| {
        for _ in 0..rounds {
            let submit = |index: usize| {
                let read = Read::memory(Arc::clone(&reads[index % 2]));
                let read = match index % 2 {
                    0 => read,
                    _ => read.decode(Decode::codec(CodecId::GDEFLATE)),
                };
                let read = read.into_device(range(&rig, &buffer, index * 3001, 3000));
                rig.queue.submit(read).expect("accepted")
            };
            for mut ticket in (0..64).map(submit).collect::<Vec<_>>() {
                ticket.wait().expect("landed");
            }
            millstream_testing::alive();
        }
    };
    let rounds = set("MILLSTREAM_LOADS", 6400) / 64;
    load(rounds.min(50));
    let before = resident_bytes();
    load(rounds);
    let grown = resident_bytes().saturating_sub(before);
    println!("{} loads: {grown} bytes more", rounds * 64);
    // Pages that an allocator keeps, whatever their number of loads is.
    assert!(
        grown < 2 << 20,
        "{grown} bytes more after {} loads",
        rounds * 64
    );
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.map_or(0, |pages: u64| pages * 4096)
}

#[test]
fn of_requests_that_overlap_any_may_be_last() {
    let Some(rig) = rig() else { return };
    let raws: Vec<_> = (0..16).map(|seed| vec![seed as u8 + 1; 5000]).collect();
    let buffer = rig.buffer(20_000);
    let mut tickets = Vec::new();
    for (index, raw) in raws.iter().enumerate() {
        let read = match index % 2 {
            0 => Read::memory(Arc::from(&raw[..])),
            _ => gdeflate(&encoded(raw)),
        };
        let read = read.into_device(range(&rig, &buffer, index * 1000, 5000));
        tickets.push(rig.queue.submit(read).expect("accepted"));
    }
    for mut ticket in tickets {
        ticket.wait().expect("landed");
    }
    let landed = buffer.read_back(0..20_000).expect("read back");
    for (at, byte) in landed.iter().enumerate() {
        let index = usize::from(*byte) - 1;
        assert!(
            (index * 1000..index * 1000 + 5000).contains(&at),
            "{at}: {byte}"
        );
    }
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
    for (offset, stored) in [(13, false), (500_001, true)] {
        let range = range(&rig, &buffer, offset, raw.len());
        let read = match stored {
            true => Read::memory(Arc::from(&raw[..])),
            false => gdeflate(&encoded(&raw)),
        };
        rig.queue
            .submit(read.into_device(range))
            .expect("accepted")
            .wait()
            .expect("landed");
        expected[offset..][..raw.len()].copy_from_slice(&raw);
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
        let range = range(&rig, &buffer, index * 100_000, 100_000);
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
    let Some(rig) = rig_with(false, true) else {
        return;
    };
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
    let extended = vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
    let error = rig.gpu.buffer(9, extended).expect_err("not enabled");
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
