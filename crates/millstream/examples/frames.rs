//! A game's loop: a fence tells each frame what has landed, a group of one level is cancelled when
//! the player leaves it.
//! `cargo run -p millstream --example frames -- FILE`.

use std::time::Duration;

use millstream::{Fence, Group, Priority, QueueOptions, Request, Storage, StorageOptions};

const TILE_BYTES: u64 = 64 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which file?")?;
    let storage = Storage::new(StorageOptions::default())?;
    let file = storage.open(path);
    let tiles = storage.opened(file).wait()?.len / TILE_BYTES;
    let (near, far) = (
        storage.queue(QueueOptions {
            priority: Priority::High,
            ..QueueOptions::default()
        })?,
        storage.queue(QueueOptions {
            priority: Priority::Low,
            ..QueueOptions::default()
        })?,
    );
    let (landed, level) = (Fence::new(0), Group::new());
    for tile in 0..tiles {
        let queue = if tile < 4 { &near } else { &far };
        let request = Request::read(file, tile * TILE_BYTES, TILE_BYTES).group(&level);
        queue.enqueue_detached(request)?;
    }
    near.enqueue_signal(&landed, 1);
    near.submit();
    far.submit();
    let mut frames = 0;
    // Each frame looks, none waits.
    while !landed.reached(1) {
        frames += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    far.cancel_group(&level); // the player has left
    level.wait();
    let progress = level.progress();
    println!(
        "near tiles after {frames} frames; {} read, {} cancelled",
        progress.done, progress.cancelled
    );
    Ok(())
}
