//! Decoding with each kernel and encoding at three levels, beside libdeflate on the same pieces.
//!
//!     cargo bench -p gdeflate                      everything, about two minutes
//!     cargo bench -p gdeflate -- --quick mesh      one kind of data, in seconds
//!
//! `cargo test` runs every function once, so that it does not rot.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gdeflate::limits::TILE_RAW_BYTES;
use gdeflate::{Decoder, Encoder, Kernel, Level};
use libdeflater::{CompressionLvl, Compressor, Decompressor};

#[path = "../tests/support/data.rs"]
mod data;

const KINDS: [&str; 4] = ["text", "mesh", "texture", "random"];
const TILE_COUNT: usize = 8;
const DECODE_LEVEL: u8 = 9;
const ENCODE_LEVELS: [u8; 3] = [1, 9, 12];
const SEED: u64 = 1;

fn compressor(level: u8) -> Compressor {
    Compressor::new(CompressionLvl::new(i32::from(level)).expect("0 to 12"))
}

fn encoder(level: u8) -> Encoder {
    Encoder::new(Level::new(level).expect("0 to 12"))
}

fn deflate(compressor: &mut Compressor, raw: &[u8], stored: &mut Vec<u8>) {
    stored.resize(compressor.deflate_compress_bound(raw.len()), 0);
    let len = compressor
        .deflate_compress(raw, stored)
        .expect("within the bound");
    stored.truncate(len);
}

fn decode(criterion: &mut Criterion) {
    for kind in KINDS {
        let raw = data::data(kind, TILE_COUNT * TILE_RAW_BYTES, SEED);
        let mut group = criterion.benchmark_group(format!("decode {kind}"));
        group.throughput(Throughput::Bytes(raw.len() as u64));
        let mut out = vec![0; raw.len()];
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for piece in raw.chunks(TILE_RAW_BYTES) {
            let (mut tile, mut block) = (Vec::new(), Vec::new());
            let mut encoder = encoder(DECODE_LEVEL);
            encoder.encode_tile(piece, &mut tile).expect("a tile");
            deflate(&mut compressor(DECODE_LEVEL), piece, &mut block);
            ours.push(tile);
            theirs.push(block);
        }
        for &kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
            let mut decoder = Decoder::with_kernel(kernel);
            let mut decode_all = || {
                for (tile, raw) in ours.iter().zip(out.chunks_mut(TILE_RAW_BYTES)) {
                    decoder.decode_tile(tile, raw).expect("our own tile");
                }
            };
            // Not what was measured, which a filter may leave out: what would be.
            decode_all();
            group.bench_function(format!("{kernel:?}"), |bencher| {
                bencher.iter(&mut decode_all)
            });
            assert!(out == raw);
        }
        let mut decompressor = Decompressor::new();
        group.bench_function("libdeflate", |bencher| {
            bencher.iter(|| {
                for (block, raw) in theirs.iter().zip(out.chunks_mut(TILE_RAW_BYTES)) {
                    decompressor
                        .deflate_decompress(block, raw)
                        .expect("its own block");
                }
            });
        });
    }
}

fn encode(criterion: &mut Criterion) {
    for kind in KINDS {
        let raw = data::data(kind, TILE_COUNT * TILE_RAW_BYTES, SEED);
        let mut group = criterion.benchmark_group(format!("encode {kind}"));
        group.throughput(Throughput::Bytes(raw.len() as u64));
        group.sample_size(10);
        let mut stored = Vec::new();
        for level in ENCODE_LEVELS {
            let mut encoder = encoder(level);
            group.bench_function(BenchmarkId::new("gdeflate", level), |bencher| {
                bencher.iter(|| {
                    for piece in raw.chunks(TILE_RAW_BYTES) {
                        stored.clear();
                        encoder.encode_tile(piece, &mut stored).expect("a tile");
                    }
                });
            });
            let mut compressor = compressor(level);
            group.bench_function(BenchmarkId::new("libdeflate", level), |bencher| {
                bencher.iter(|| {
                    for piece in raw.chunks(TILE_RAW_BYTES) {
                        deflate(&mut compressor, piece, &mut stored);
                    }
                });
            });
        }
    }
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
