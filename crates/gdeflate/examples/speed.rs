//! Speed and ratio beside libdeflate on the same bytes in 64 KiB pieces, in MB per CPU-second.
//!
//!     cargo run --release -p gdeflate --example speed -- [--levels 1,9,12] [--budget-mb 8]
//!         [--kernel Avx2] [PATH…]
//!
//! Each PATH is a file, or a folder of which all files are read up to the budget; `PATH:ext,ext`
//! takes only files with these endings. Without one, made-up data of several kinds is used. Runs of
//! the rivals are interleaved, and the best of several is printed, because other load
//! on a machine only ever makes a run slower.

use std::path::{Path, PathBuf};

use gdeflate::limits::TILE_RAW_BYTES;
use gdeflate::{Decoder, Encoder, Kernel, Level};

#[path = "../tests/gdeflate/support/data.rs"]
mod data;

const ROUNDS: usize = 9;

fn main() {
    let mut levels = vec![1, 9, 12];
    let mut budget_bytes = 8 << 20;
    let mut paths = Vec::new();
    let mut kernels: Vec<Kernel> = Kernel::ALL
        .iter()
        .copied()
        .filter(|kernel| kernel.is_available())
        .collect();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--levels" => {
                let list = arguments.next().expect("--levels LIST");
                levels = list
                    .split(',')
                    .map(|level| level.parse().expect("a level"))
                    .collect();
            }
            "--budget-mb" => {
                let number: usize = arguments.next().and_then(|n| n.parse().ok()).expect("MB");
                budget_bytes = number << 20;
            }
            "--kernel" => {
                let name = arguments.next().expect("--kernel NAME");
                kernels.retain(|kernel| format!("{kernel:?}") == name);
            }
            path => paths.push(path.to_owned()),
        }
    }
    let corpora: Vec<(String, Vec<u8>)> = if paths.is_empty() {
        ["text", "mesh", "texture", "zeros", "random", "patchwork"]
            .map(|kind| (kind.to_owned(), data::data(kind, budget_bytes, 1)))
            .into()
    } else {
        paths
            .into_iter()
            .map(|path| (path.clone(), load(&path, budget_bytes)))
            .collect()
    };
    println!("fastest kernel: {:?}", Kernel::fastest());
    for (name, raw) in &corpora {
        println!(
            "{name}: {} bytes, memcpy {:.0} MB/s",
            raw.len(),
            memcpy_rate(raw)
        );
        for &level in &levels {
            compare(raw, level, &kernels);
        }
    }
}

fn load(path: &str, budget_bytes: usize) -> Vec<u8> {
    let (path, endings) = path.split_once(':').unwrap_or((path, ""));
    let endings: Vec<&str> = endings
        .split(',')
        .filter(|ending| !ending.is_empty())
        .collect();
    let mut files = Vec::new();
    list(Path::new(path), &mut files);
    files.sort();
    // Some of every file rather than all of a few.
    files.retain(|file| {
        let ending = file
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or("");
        endings.is_empty() || endings.contains(&ending)
    });
    assert!(!files.is_empty(), "no files in {path}");
    let share = (budget_bytes / files.len()).max(TILE_RAW_BYTES);
    let mut raw = Vec::new();
    let step = (files.len() * share / budget_bytes).max(1);
    for file in files.iter().step_by(step) {
        let bytes = std::fs::read(file).expect("a readable file");
        raw.extend_from_slice(&bytes[..bytes.len().min(share)]);
    }
    raw.truncate(budget_bytes);
    raw
}

fn list(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
    } else if let Ok(entries) = std::fs::read_dir(path) {
        for entry in entries.flatten() {
            list(&entry.path(), files);
        }
    }
}

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// MB per CPU-second of the best run.
struct Best(f64);

impl Best {
    fn run(&mut self, bytes: usize, work: impl FnOnce()) {
        let start = cpu_seconds();
        work();
        let seconds = (cpu_seconds() - start).max(1e-9);
        self.0 = self.0.max(bytes as f64 / 1e6 / seconds);
    }
}

fn memcpy_rate(raw: &[u8]) -> f64 {
    let mut copy = vec![1; raw.len()];
    let mut best = Best(0.0);
    for _ in 0..ROUNDS {
        best.run(raw.len(), || copy.copy_from_slice(raw));
        std::hint::black_box(&mut copy);
    }
    best.0
}

fn compare(raw: &[u8], level: u8, kernels: &[Kernel]) {
    let (mut ours_encode, mut theirs_encode) = (Best(0.0), Best(0.0));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut encoder = Encoder::new(Level::new(level).expect("0 to 12"));
    let their_level = libdeflater::CompressionLvl::new(i32::from(level)).expect("0 to 12");
    let mut compressor = libdeflater::Compressor::new(their_level);
    for _ in 0..2 {
        ours_encode.run(raw.len(), || {
            ours.clear();
            for piece in raw.chunks(TILE_RAW_BYTES) {
                let mut tile = Vec::new();
                encoder.encode_tile(piece, &mut tile).expect("a tile");
                ours.push(tile);
            }
        });
        theirs_encode.run(raw.len(), || {
            theirs.clear();
            for piece in raw.chunks(TILE_RAW_BYTES) {
                let mut block = vec![0; compressor.deflate_compress_bound(piece.len())];
                let len = compressor
                    .deflate_compress(piece, &mut block)
                    .expect("within bound");
                block.truncate(len);
                theirs.push(block);
            }
        });
    }
    let mut decoders: Vec<Decoder> = kernels.iter().map(|&k| Decoder::with_kernel(k)).collect();
    let mut best: Vec<Best> = kernels.iter().map(|_| Best(0.0)).collect();
    let mut their_decode = Best(0.0);
    let mut decompressor = libdeflater::Decompressor::new();
    let mut out = vec![0; raw.len()];
    for _ in 0..ROUNDS {
        for (decoder, best) in decoders.iter_mut().zip(&mut best) {
            out.fill(0);
            best.run(raw.len(), || {
                for (tile, target) in ours.iter().zip(out.chunks_mut(TILE_RAW_BYTES)) {
                    decoder.decode_tile(tile, target).expect("our own tile");
                }
            });
            assert!(out == raw);
        }
        their_decode.run(raw.len(), || {
            for (block, target) in theirs.iter().zip(out.chunks_mut(TILE_RAW_BYTES)) {
                decompressor
                    .deflate_decompress(block, target)
                    .expect("its own block");
            }
        });
    }
    let total = |pieces: &[Vec<u8>]| pieces.iter().map(Vec::len).sum::<usize>() as f64;
    let len = raw.len() as f64;
    print!(
        "  level {level:2}: ratio {:.3} ({:.3}) | encode {:.1} ({:.1}) | decode ({:.0})",
        len / total(&ours),
        len / total(&theirs),
        ours_encode.0,
        theirs_encode.0,
        their_decode.0,
    );
    for (kernel, best) in kernels.iter().zip(&best) {
        print!(
            " {kernel:?} {:.0} = {:.2}x",
            best.0,
            best.0 / their_decode.0
        );
    }
    println!();
}
