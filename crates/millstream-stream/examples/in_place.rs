//! Loads a level that is used where the engine read it: validated once, not parsed.
//!
//!     cargo run --release -p millstream-stream --example in_place
//!
//! The format is that of the crate rkyv. The engine's buffers begin at a page, so they have the
//! alignment that rkyv needs; so do stored and decoded entries of packages. `rkyv::access` checks
//! every offset, length and value: bytes from anyone are an error, never a wild reference. (The
//! root stands at the end, so it is passed exactly the bytes of the file.)

use std::error::Error;

use millstream::{FileOptions, QueueOptions, Read, Storage, StorageOptions};
use millstream_stream::{Streams, WriteStream};
use rkyv::rancor;

#[derive(rkyv::Archive, rkyv::Serialize)]
struct Level {
    name: String,
    heights: Vec<f32>,
    spawns: Vec<Spawn>,
}

#[derive(rkyv::Archive, rkyv::Serialize)]
struct Spawn {
    kind: String,
    place: [f32; 3],
}

fn level() -> Level {
    let spawn = |index: u8| Spawn {
        kind: format!("goblin {index}"),
        place: [f32::from(index), 0.0, 1.5],
    };
    Level {
        name: "mill".into(),
        heights: (0..1 << 20).map(|index| (index % 97) as f32).collect(),
        spawns: (0..3).map(spawn).collect(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("millstream-level-{}", std::process::id()));
    let storage = Storage::new(StorageOptions::default())?;

    let mut file = Streams::new(&storage)?.replace(&path)?;
    file.write_slice(&rkyv::to_bytes::<rancor::Error>(&level())?)?;
    file.commit()?;

    let queue = storage.queue(QueueOptions::default())?;
    let file = storage.open(&path, FileOptions::default());
    let mut buffer = queue.submit(Read::whole(file))?.wait()?;
    let level = rkyv::access::<ArchivedLevel, rancor::Error>(&buffer)?;
    println!("{}: {} heights", level.name, level.heights.len());
    for spawn in level.spawns.iter() {
        println!(
            "{} at {:?}",
            spawn.kind,
            spawn.place.map(|it| it.to_native())
        );
    }

    // A damaged file: the length of the last list is another.
    let last = buffer.len() - 1;
    buffer[last] ^= 0x40;
    let damaged = rkyv::access::<ArchivedLevel, rancor::Error>(&buffer);
    println!("damaged: {}", damaged.err().ok_or("it was accepted")?);
    std::fs::remove_file(&path)?;
    Ok(())
}
