//! Measures what handles of files cost: appends, opens of one path and of many, whole reads, loads
//! by one call beside `std::fs::read`, and the engine alone, over a device that transfers nothing.
//! Prints the median, the mean and the 99th percentile of the rounds in microseconds for each
//! request.
//!
//!     cargo run --release -p millstream --example file_speed [ROUNDS]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream::{
    Access, Backend, DeviceMaker, FileId, FileOptions, Queue, QueueOptions, Read, Storage,
    StorageOptions, Write,
};
use millstream_io::device::null::NullDevice;
use millstream_io::fs::OsFileSystem;
use millstream_io::{Device, IoError};

type Done = Result<(), Box<dyn Error>>;

/// A way to load a file, which returns its length.
type Way<'a> = &'a dyn Fn() -> Result<usize, Box<dyn Error>>;

/// Prints a row: microseconds for each of `count` requests of the rounds.
fn row(name: &str, count: usize, mut rounds: Vec<f64>) {
    rounds.sort_by(f64::total_cmp);
    let each = |micros: f64| micros / count as f64;
    let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
    let [median, p99] = [50, 99].map(|share| rounds[(rounds.len() - 1) * share / 100]);
    println!(
        "{name:<34} {:>9.3} {:>9.3} {:>9.3}",
        each(median),
        each(mean),
        each(p99)
    );
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn queue_of(storage: &Storage) -> Result<Queue, millstream::Error> {
    let mut options = QueueOptions::default();
    options.capacity = 1 << 14;
    storage.queue(options)
}

fn writing() -> FileOptions {
    FileOptions {
        write: true,
        create: true,
        ..FileOptions::default()
    }
}

/// Appends 4 KiB `count` times to a new file, `depth` at a time; returns the time.
fn append(
    storage: &Storage,
    queue: &Queue,
    path: &Path,
    count: usize,
    depth: usize,
) -> Result<f64, Box<dyn Error>> {
    let file = storage.open(path, writing());
    storage.opened(file)?.wait()?;
    let began = Instant::now();
    for _ in 0..count / depth {
        let mut batch = queue.batch();
        let add = |_| batch.add(Write::append(file, vec![7; 4096]));
        let mut tickets = (0..depth).map(add).collect::<Result<Vec<_>, _>>()?;
        batch.submit();
        for ticket in &mut tickets {
            ticket.wait()?;
        }
    }
    let took = micros(began);
    queue.close(file)?;
    queue.drain(None)?;
    std::fs::remove_file(path)?;
    Ok(took)
}

fn load(queue: &Queue, files: &[FileId]) -> Done {
    let mut batch = queue.batch();
    let add = |file: &FileId| batch.add(Read::whole(*file));
    let mut tickets = files.iter().map(add).collect::<Result<Vec<_>, _>>()?;
    batch.submit();
    for ticket in &mut tickets {
        ticket.wait()?;
    }
    Ok(())
}

fn close(queue: &Queue, files: Vec<FileId>) -> Done {
    for file in files {
        queue.close(file)?;
    }
    queue.drain(None)?;
    Ok(())
}

/// Loads a file in one of three ways, in turns, from the page cache or (on Linux) from the disk.
fn load_alone(storage: &Storage, queue: &Queue, path: &Path, rounds: usize) -> Done {
    let ways: [(&str, Way<'_>); 3] = [
        ("std::fs::read", &|| Ok(std::fs::read(path)?.len())),
        ("Storage::load", &|| Ok(storage.load(path)?.len())),
        ("a request", &|| {
            let file = storage.open(path, FileOptions::default());
            let mut batch = queue.batch();
            let mut ticket = batch.add(Read::whole(file))?;
            batch.close(file)?;
            batch.submit();
            Ok(ticket.wait()?.len())
        }),
    ];
    for len in [4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20] {
        std::fs::write(path, vec![1; len])?;
        std::fs::File::open(path)?.sync_all()?;
        for cold in [false, true] {
            let mut took = [const { Vec::new() }; 3];
            for _ in 0..10 * rounds {
                for ((_, way), took) in ways.iter().zip(&mut took) {
                    if cold {
                        forget(path)?;
                    }
                    let began = Instant::now();
                    assert_eq!(way()?, len);
                    took.push(micros(began));
                }
                queue.drain(None)?;
            }
            let kind = if cold { "cold" } else { "warm" };
            for ((name, _), took) in ways.iter().zip(took) {
                row(&format!("{} KiB {kind}, {name}", len >> 10), 1, took);
            }
        }
    }
    Ok(())
}

/// Drops the pages of a file from the page cache.
#[cfg(target_os = "linux")]
fn forget(path: &Path) -> Done {
    use rustix::fs::{Advice, fadvise};
    fadvise(std::fs::File::open(path)?, 0, None, Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn forget(_: &Path) -> Done {
    Ok(())
}

/// Reads 4 KiB 1000 times over a device that transfers nothing; returns the time.
fn request(queue: &Queue, file: FileId, memory: &mut [Vec<u8>]) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    let mut batch = queue.batch();
    let lands = memory.iter_mut().map(std::mem::take).enumerate();
    let add = |(at, into)| batch.add(Read::range(file, at as u64 % 250 * 4096, 4096).into(into));
    let mut tickets = lands.map(add).collect::<Result<Vec<_>, _>>()?;
    batch.submit();
    for (ticket, memory) in tickets.iter_mut().zip(memory) {
        *memory = ticket.wait()?;
    }
    Ok(micros(began))
}

/// Prints the engine's own cost of a request.
fn null_device(rounds: usize, folder: &Path) -> Done {
    let make = || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(NullDevice::new(256))) };
    let mut options = StorageOptions::default();
    options.backend = Backend::Custom(DeviceMaker::new(make), Arc::new(OsFileSystem::new()));
    options.access = Access::Buffered;
    let storage = Storage::new(options)?;
    let queue = queue_of(&storage)?;
    std::fs::write(folder.join("null"), vec![1; 1 << 20])?;
    let file = storage.open(folder.join("null"), FileOptions::default());
    storage.opened(file)?.wait()?;
    let mut memory = vec![vec![0; 4096]; 1000];
    let run = |_| request(&queue, file, &mut memory);
    row(
        "requests, null device",
        1000,
        (0..10 * rounds).map(run).collect::<Result<_, _>>()?,
    );
    Ok(())
}

fn main() -> Done {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(30), |rounds| rounds.parse())?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let storage = Storage::new(StorageOptions::default())?;
    let queue = queue_of(&storage)?;
    println!(
        "{:<34} {:>9} {:>9} {:>9}",
        "microseconds for each", "median", "mean", "p99"
    );
    for (name, count, depth) in [
        ("appends of 4 KiB, 2048 at once", 8192, 2048),
        ("one append after the other", 512, 1),
    ] {
        let run = |_| append(&storage, &queue, &path("log"), count, depth);
        row(name, count, (0..rounds).map(run).collect::<Result<_, _>>()?);
    }
    std::fs::write(path("one"), b"x")?;
    let (mut held, mut open) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        let files: Vec<_> = (0..10_000)
            .map(|_| storage.open(path("one"), FileOptions::default()))
            .collect();
        held.push(micros(began));
        storage.opened(files[9_999])?.wait()?;
        open.push(micros(began));
        close(&queue, files)?;
    }
    row("10,000 opens of one path, caller", 10_000, held);
    row("  until the last is open", 10_000, open);
    let paths: Vec<_> = (0..256).map(|number| path(&number.to_string())).collect();
    for path in &paths {
        std::fs::write(path, vec![1; 8000])?;
    }
    let (mut held, mut first, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        let files: Vec<_> = paths
            .iter()
            .map(|path| storage.open(path, FileOptions::default()))
            .collect();
        held.push(micros(began));
        load(&queue, &files)?;
        first.push(micros(began));
        let began = Instant::now();
        load(&queue, &files)?;
        again.push(micros(began));
        close(&queue, files)?;
    }
    row("256 opens of 256 paths, caller", 256, held);
    row("  until they are read whole", 256, first);
    row("  whole once more", 256, again);
    load_alone(&storage, &queue, &path("alone"), rounds)?;
    null_device(rounds, folder.path())
}
