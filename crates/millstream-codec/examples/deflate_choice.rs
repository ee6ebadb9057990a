//! Which library decodes whole blocks of deflate: libdeflate or zlib-rs?
//!
//!     cargo run --release -p millstream-codec --example deflate_choice [RUNS]
//!
//! Both decode the same zlib blocks of generated data into recycled memory, with recycled state and
//! with the checksum verified, in turns; the figures are medians of CPU time per run and their
//! ratio (zlib-rs ÷ libdeflate: above 1, libdeflate is faster).
//!
//! Measured on two x86-64 cores of a shared machine, libdeflate 1.26 against zlib-rs 0.6.8, two
//! runs of nine: the ratio is 1.10–1.18 for text and 1.11–1.28 for texture-like data, with no trend
//! from 16 KiB to 1 MiB per block, and 0.94–1.03 for random data, which is stored and copied at 15
//! GB/s either way. So libdeflate decodes whole blocks where a C compiler is at hand; it also has
//! the encoding levels 10 to 12. The gain is small enough that the build without C misses little.

use std::time::Duration;

use millstream_codec::{CodecId, Scratch, decode_block, encode_block};
use zlib_rs::{Inflate, InflateFlush, Status};

/// Raw bytes of each kind of data: far beyond the caches, so that both pay for memory alike.
const CORPUS_BYTES: usize = 16 << 20;
const LEVEL: i32 = 6;

fn main() {
    let runs = std::env::args()
        .nth(1)
        .map_or(9, |runs| runs.parse().expect("RUNS is a number"));
    println!(
        "{:<10}{:>8}{:>8}{:>14}{:>14}{:>8}",
        "data", "block", "stored", "libdeflate", "zlib-rs", "ratio"
    );
    for (name, raw) in [
        ("text", text()),
        ("texture", texture()),
        ("random", random()),
    ] {
        for block_bytes in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            measure(name, &raw, block_bytes, runs);
        }
    }
}

/// Measures one kind of data, cut into blocks of that size.
fn measure(name: &str, raw: &[u8], block_bytes: usize, runs: usize) {
    let mut scratch = Scratch::default();
    let blocks: Vec<(Vec<u8>, &[u8])> = raw
        .chunks(block_bytes)
        .map(|raw| {
            let mut stored = Vec::new();
            encode_block(CodecId::ZLIB, LEVEL, &mut scratch, raw, &mut stored).expect("encoding");
            (stored, raw)
        })
        .collect();
    let mut target = vec![0; block_bytes];
    let mut inflate = Inflate::new(true, 15);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let begun = cpu_time();
        for (stored, raw) in &blocks {
            let target = &mut target[..raw.len()];
            let written = decode_block(CodecId::ZLIB, &mut scratch, stored, target);
            assert_eq!(written, Ok(raw.len()));
        }
        ours.push(cpu_time() - begun);
        assert!(target[..blocks[blocks.len() - 1].1.len()] == *blocks[blocks.len() - 1].1);
        let begun = cpu_time();
        for (stored, raw) in &blocks {
            let target = &mut target[..raw.len()];
            inflate.reset(true);
            let status = inflate.decompress(stored, target, InflateFlush::Finish);
            assert_eq!(status, Ok(Status::StreamEnd));
        }
        theirs.push(cpu_time() - begun);
        assert!(target[..blocks[blocks.len() - 1].1.len()] == *blocks[blocks.len() - 1].1);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let stored_bytes: usize = blocks.iter().map(|(stored, _)| stored.len()).sum();
    let rate = |time: Duration| raw.len() as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{name:<10}{:>7}K{:>7.0}%{:>9.0} MB/s{:>9.0} MB/s{:>8.2}",
        block_bytes >> 10,
        100.0 * stored_bytes as f64 / raw.len() as f64,
        rate(ours),
        rate(theirs),
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// CPU time of this thread, so that a busy machine does not decide.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Words, some common and most rare.
fn text() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let words: Vec<String> = (0..4000)
        .map(|_| {
            (0..random.usize(2..10))
                .map(|_| random.lowercase())
                .collect()
        })
        .collect();
    let mut data = Vec::new();
    while data.len() < CORPUS_BYTES {
        let rank = random.f64() * random.f64() * random.f64();
        data.extend_from_slice(words[(rank * 4000.0) as usize].as_bytes());
        data.push(if random.u8(..9) == 0 { b'\n' } else { b' ' });
    }
    data.truncate(CORPUS_BYTES);
    data
}

/// Blocks of eight bytes as in compressed textures: end points that drift, indices that repeat.
fn texture() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(2);
    let mut data = Vec::with_capacity(CORPUS_BYTES + 8);
    let mut end_points = [0x1234u16, 0x4321];
    let patterns: Vec<[u8; 4]> = (0..64).map(|_| random.u32(..).to_le_bytes()).collect();
    while data.len() < CORPUS_BYTES {
        for end_point in &mut end_points {
            if random.u8(..3) == 0 {
                *end_point = end_point.wrapping_add(random.u16(..64));
            }
            data.extend_from_slice(&end_point.to_le_bytes());
        }
        match random.u8(..4) {
            0 => data.extend_from_slice(&random.u32(..).to_le_bytes()),
            _ => data.extend_from_slice(&patterns[random.usize(..patterns.len())]),
        }
    }
    data.truncate(CORPUS_BYTES);
    data
}

fn random() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(3);
    (0..CORPUS_BYTES).map(|_| random.u8(..)).collect()
}
