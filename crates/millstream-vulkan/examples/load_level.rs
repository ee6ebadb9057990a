//! Packs a level, loads it into device memory, and reads it back to compare:
//!
//! ```text
//! cargo run --release -p millstream-vulkan --example load_level
//! ```

use std::error::Error;
use std::time::Instant;

use ash::vk::BufferUsageFlags;
use millstream::{CodecId, Storage};
use millstream_pak::{Coding, Item, PackOptions, Package, write_file};
use millstream_vulkan::{Gpu, GpuOptions};

/// Vertices of a landscape: heights that change slowly.
fn vertices(seed: u64, count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut height = 0i16;
    let mut step = || {
        height = height.wrapping_add(random.i16(-20..=20));
        height.to_le_bytes()
    };
    (0..count).flat_map(|_| step()).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("level.mpak");
    let meshes: Vec<Vec<u8>> = (0..16).map(|seed| vertices(seed, 500_000)).collect();
    let items = meshes.iter().enumerate();
    let items = items.map(|(index, mesh)| Item::from_bytes(format!("{index}"), mesh.clone()));
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::GDEFLATE),
        ..PackOptions::default()
    };
    write_file(items.collect(), &options, &path)?;

    let gpu = Gpu::create(GpuOptions::default())?;
    let report = gpu.report();
    println!(
        "{}: {:?} decodes, {}",
        report.device, report.tier, report.reason
    );

    let storage = Storage::new(Default::default())?;
    match gpu.import_staging(&storage) {
        Ok(()) => println!("the device reads staging itself"),
        Err(error) => println!("bytes are copied once: {error}"),
    }
    let queue = storage.queue(Default::default())?;
    let package = Package::open(&storage, &path)?;
    let begin = Instant::now();
    let mut loads = Vec::new();
    for index in 0..package.len() {
        let len = package.info(index)?.raw_bytes;
        let buffer = gpu.buffer(len, BufferUsageFlags::VERTEX_BUFFER)?;
        let read = package.request(index)?.into_device(buffer.clone());
        loads.push((index, queue.submit(read)?, buffer));
    }
    let mut bytes = 0;
    for (_, ticket, _) in &mut loads {
        ticket.wait()?;
    }
    let took = begin.elapsed();
    for (index, _, buffer) in loads {
        let name: usize = std::str::from_utf8(package.name(index)?)?.parse()?;
        let len = meshes[name].len() as u64;
        if buffer.read_back(0..len)? != meshes[name] {
            return Err(format!("mesh {name} is wrong").into());
        }
        bytes += len;
    }
    let stats = gpu.stats();
    let rate = bytes as f64 / took.as_secs_f64() / 1e6;
    println!(
        "all bytes right: {bytes} bytes in {took:.1?}, {rate:.0} MB/s; {} tiles in {} batches",
        stats.tiles, stats.batches
    );
    Ok(())
}
