//! A game's loop: a fence shows each frame what has landed, and the rest of a level's group is
//! canceled when the player leaves it.
//! `cargo run -p millstream --example frames -- FILE`.

use std::time::Duration;

use millstream::{
    Fence, FileOptions, Group, Priority, Queue, QueueOptions, Read, Storage, StorageOptions,
};

const TILE_BYTES: u64 = 64 << 10;

fn queue_of(storage: &Storage, priority: Priority) -> Result<Queue, millstream::Error> {
    let mut options = QueueOptions::default();
    options.priority = priority;
    storage.queue(options)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which file?")?;
    let storage = Storage::new(StorageOptions::default())?;
    let file = storage.open(path, FileOptions::default());
    let tiles = storage.opened(file)?.wait()?.len / TILE_BYTES;
    let near = queue_of(&storage, Priority::High)?;
    let far = queue_of(&storage, Priority::Low)?;
    let (landed, level) = (Fence::new(0), Group::new());
    let (mut near_batch, mut far_batch) = (near.batch(), far.batch());
    for tile in 0..tiles {
        let batch = if tile < 4 {
            &mut near_batch
        } else {
            &mut far_batch
        };
        let request = Read::range(file, tile * TILE_BYTES, TILE_BYTES);
        batch.detach(request.group(&level))?;
    }
    near_batch.signal(&landed, 1)?;
    near_batch.submit();
    far_batch.submit();
    let mut frames = 0;
    // Each frame looks, none waits.
    while !landed.has_reached(1) {
        frames += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    far.cancel_group(&level); // the player has left
    level.wait(None)?;
    println!(
        "near tiles after {frames} frames; {} read, {} canceled",
        level.done(),
        level.canceled()
    );
    Ok(())
}
