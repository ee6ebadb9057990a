//! Measures the first load of a process, and later ones, beside eight threads that read the same
//! files: COUNT small files (256 if not given), opened and read whole. A process has one first
//! load, so run it several times.
//!
//!     cargo run --release -p millstream --example first_load [COUNT]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use millstream::{FileOptions, Queue, QueueOptions, Read, Storage, StorageOptions};

/// Opens and reads all files, and closes them; returns the milliseconds until they were read.
fn load(storage: &Storage, queue: &Queue, paths: &[PathBuf]) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    let mut batch = queue.batch();
    let open = |path| storage.open(path, FileOptions::default());
    let files: Vec<_> = paths.iter().map(open).collect();
    let read = |file| batch.add(Read::whole(file));
    let tickets: Result<Vec<_>, _> = files.iter().copied().map(read).collect();
    batch.submit();
    for mut ticket in tickets? {
        ticket.wait()?;
    }
    let took = began.elapsed();
    for file in files {
        queue.close(file)?;
    }
    queue.drain(None)?;
    Ok(took.as_secs_f64() * 1e3)
}

/// Reads all files by eight threads; returns the milliseconds.
fn by_threads(paths: &[PathBuf]) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for first in 0..8 {
            let own = paths.iter().skip(first).step_by(8);
            scope.spawn(|| own.for_each(|path| drop(std::fs::read(path).expect("it was written"))));
        }
    });
    began.elapsed().as_secs_f64() * 1e3
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = std::env::args()
        .nth(1)
        .map_or(Ok(256), |count| count.parse())?;
    let folder = tempfile::tempdir()?;
    let paths: Vec<_> = (0..count)
        .map(|number| folder.path().join(number.to_string()))
        .collect();
    for (number, path) in paths.iter().enumerate() {
        std::fs::write(path, vec![1; 4000 + number % 8000])?;
    }
    let storage = Storage::new(StorageOptions::default())?;
    let mut options = QueueOptions::default();
    options.capacity = count.max(1);
    let queue = storage.queue(options)?;
    for name in ["first load", "second load", "third load"] {
        println!("{name:<20} {:>8.3} ms", load(&storage, &queue, &paths)?);
    }
    for name in ["eight threads, first", "eight threads"] {
        println!("{name:<20} {:>8.3} ms", by_threads(&paths));
    }
    Ok(())
}
