//! Packs a folder, and loads all that is in the package with a few reads.
//!
//!     cargo run --release -p millstream-pak --example pack_and_load -- assets game.mpak
//!
//! Without arguments it packs a folder of its own making.

use std::error::Error;
use std::path::PathBuf;

use millstream::{QueueOptions, Storage, StorageOptions};
use millstream_pak::{BatchOptions, Links, PackOptions, Package, names, walk, write_file};

/// Folder and package in the folder for temporary files.
fn made() -> std::io::Result<(PathBuf, PathBuf)> {
    let root = std::env::temp_dir().join(format!("millstream-pack-{}", std::process::id()));
    std::fs::create_dir_all(root.join("assets/sounds"))?;
    std::fs::write(root.join("assets/level.txt"), "wall ".repeat(100_000))?;
    std::fs::write(root.join("assets/sounds/door.raw"), [7; 40_000])?;
    Ok((root.join("assets"), root.join("made.mpak")))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let named = arguments.next().zip(arguments.next());
    let (folder, path) = named.clone().map_or_else(made, Ok)?;

    // When the game is built.
    let (items, errors) = walk(&folder, Links::Follow);
    if let Some(error) = errors.into_iter().next() {
        return Err(error.into());
    }
    let report = write_file(items, &PackOptions::default(), &path)?;
    println!(
        "{} entries: {} bytes, packed {}",
        report.entries, report.raw_bytes, report.file_bytes
    );

    // When it starts: neighbors in the package become one read.
    let storage = Storage::new(StorageOptions::default())?;
    let queue = storage.queue(QueueOptions::default())?;
    let package = Package::open(&storage, &path)?;
    let entries = package.by_name()?;
    let batch = package.enqueue_all(&queue, entries, &BatchOptions::default())?;
    for (nth, &index) in entries.iter().enumerate() {
        let bytes = batch.wait(nth)?;
        println!(
            "{}: {} bytes",
            names::escape(package.name(index)?),
            bytes.len()
        );
    }
    println!("{} requests", batch.requests());
    if named.is_none() {
        std::fs::remove_dir_all(folder.parent().unwrap_or(&folder))?;
    }
    Ok(())
}
