//! The routes of a package's entries into buffers of a device, in turns: read and copied, decoded
//! by the processor and copied, decoded by the device, the same from memory; as one request, or as
//! two that go through host memory; and, for comparison, into host memory only. Every result is
//! read back and compared, untimed.
//! `cargo run --release -p millstream-vulkan --example routes [-- ENTRY_KIB TOTAL_MIB]`
//!
//! On a device that is a processor (lavapipe) the figures say nothing about GPUs.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ash::vk::BufferUsageFlags;
use millstream::{Buffer, CodecId, Decode, Queue, QueueOptions, Read, Storage, StorageOptions};
use millstream_codec::{Scratch, default_level, encode_block};
use millstream_pak::{Coding, Item, PackOptions, Package, write_file};
use millstream_vulkan::{Gpu, GpuBuffer, GpuOptions, Tier};

const ROUNDS: usize = 7;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Clone, Copy, PartialEq)]
enum Route {
    InMemory,
    ThroughMemory,
    Straight,
    FromMemory,
}

/// A package on a device, and buffers for all of its entries.
struct Bench {
    package: Package,
    entries: Vec<u32>,
    buffers: Vec<Arc<GpuBuffer>>,
    queue: Queue,
    _gpu: Gpu,
    _storage: Storage,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| words.get(at).map_or(Ok(or), |word| word.parse::<usize>());
    let (entry_bytes, total_bytes) = (number(0, 64)? << 10, number(1, 1)? << 20);
    let raw = heights(total_bytes);
    let raw: Vec<&[u8]> = raw.chunks(entry_bytes).collect();
    let folder = tempfile::tempdir()?;
    let streams = pack(&raw, folder.path())?;
    let path = |codec: CodecId| folder.path().join(codec.name());
    let tier = Gpu::create(GpuOptions::default())?.report().tier;
    println!("tier of the device: {tier:?}");
    let mut contenders = Vec::new();
    for (word, codec) in [
        ("stored", CodecId::STORED),
        ("processor", CodecId::GDEFLATE),
    ] {
        for (end, route) in [
            ("in memory", Route::InMemory),
            ("through memory", Route::ThroughMemory),
            ("one request", Route::Straight),
        ] {
            let bench = Bench::new(&path(codec), raw.len(), entry_bytes, false)?;
            contenders.push((format!("{word}, {end}"), route, bench, Vec::new()));
        }
    }
    if tier != Tier::Cpu {
        for (end, route) in [
            ("one request", Route::Straight),
            ("from memory", Route::FromMemory),
        ] {
            let bench = Bench::new(&path(CodecId::GDEFLATE), raw.len(), entry_bytes, true)?;
            contenders.push((format!("device, {end}"), route, bench, Vec::new()));
        }
    }
    for _ in 0..ROUNDS {
        for (name, route, bench, times) in &mut contenders {
            let start = Instant::now();
            let loaded = bench.load(*route, &streams)?;
            times.push(start.elapsed().as_secs_f64());
            for (nth, raw) in raw.iter().enumerate() {
                let right = match loaded.get(nth) {
                    Some(bytes) => **bytes == **raw,
                    None => bench.buffers[nth].read_back(0..raw.len() as u64)? == *raw,
                };
                assert!(right, "{name}: other bytes in entry {nth}");
            }
        }
    }
    for (name, _, _, mut times) in contenders {
        times.sort_by(f64::total_cmp);
        let rate = total_bytes as f64 / 1e6 / times[ROUNDS / 2];
        println!("{name:26} {rate:8.0} MB/s");
    }
    Ok(())
}

/// Packs the entries stored and as GDeflate; returns their streams of GDeflate.
fn pack(raw: &[&[u8]], folder: &Path) -> Outcome<Vec<Arc<[u8]>>> {
    let mut scratch = Scratch::default();
    let mut streams: Vec<Arc<[u8]>> = Vec::new();
    for entry in raw {
        let (codec, mut stream) = (CodecId::GDEFLATE, Vec::new());
        encode_block(
            codec,
            default_level(codec),
            &mut scratch,
            entry,
            &mut stream,
        )?;
        streams.push(stream.into());
    }
    for codec in [CodecId::STORED, CodecId::GDEFLATE] {
        let items = raw.iter().enumerate();
        let items = items.map(|(nth, raw)| Item::from_bytes(format!("{nth:05}"), *raw));
        let options = PackOptions {
            coding: Coding::Fixed(codec),
            share_below: Some(0),
            ..PackOptions::default()
        };
        write_file(items.collect(), &options, folder.join(codec.name()))?;
    }
    Ok(streams)
}

/// Returns the heights of a landscape, which change slowly.
fn heights(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(0x69F0);
    let mut height = 0i16;
    let mut step = || {
        height = height.wrapping_add(random.i16(-20..=20));
        height.to_le_bytes()
    };
    (0..bytes / 2).flat_map(|_| step()).collect()
}

impl Bench {
    fn new(path: &Path, count: usize, entry_bytes: usize, decode: bool) -> Outcome<Bench> {
        let mut options = GpuOptions::default();
        options.decode = decode;
        let gpu = Gpu::create(options)?;
        let storage = Storage::new(StorageOptions::default())?;
        // If the device cannot read staging memory itself, bytes are copied once more.
        let _ = gpu.import_staging(&storage);
        let package = Package::open(&storage, path)?;
        let (mut entries, mut buffers) = (Vec::new(), Vec::new());
        for nth in 0..count {
            let entry = package.lookup(format!("{nth:05}").as_bytes())?;
            entries.push(entry.ok_or("an entry is missing")?.index);
            buffers.push(gpu.buffer(entry_bytes as u64, BufferUsageFlags::VERTEX_BUFFER)?);
        }
        Ok(Bench {
            package,
            entries,
            buffers,
            queue: storage.queue(QueueOptions::default())?,
            _gpu: gpu,
            _storage: storage,
        })
    }

    /// Loads all entries, all at once; returns the buffers of those loaded into host memory only.
    fn load(&self, route: Route, streams: &[Arc<[u8]>]) -> Outcome<Vec<Buffer>> {
        let mut in_memory = Vec::new();
        if matches!(route, Route::InMemory | Route::ThroughMemory) {
            for entry in &self.entries {
                in_memory.push(self.queue.submit(self.package.request(*entry)?)?);
            }
        }
        if route == Route::InMemory {
            let loaded = in_memory.iter_mut().map(|ticket| Ok(ticket.wait()?));
            return loaded.collect();
        }
        let (mut in_memory, mut tickets) = (in_memory.into_iter(), Vec::new());
        for (nth, entry) in self.entries.iter().enumerate() {
            let read = match (route, in_memory.next()) {
                (_, Some(mut first)) => Read::buffer(Arc::new(first.wait()?)),
                (Route::FromMemory, _) => {
                    Read::memory(Arc::clone(&streams[nth])).decode(Decode::codec(CodecId::GDEFLATE))
                }
                _ => self.package.request(*entry)?,
            };
            let buffer = Arc::clone(&self.buffers[nth]);
            tickets.push(self.queue.submit(read.into_device(buffer))?);
        }
        tickets
            .iter_mut()
            .try_for_each(|ticket| ticket.wait().map(drop))?;
        Ok(Vec::new())
    }
}
