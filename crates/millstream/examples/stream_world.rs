//! A frame loop that streams a world: each frame posts requests with a priority and a deadline,
//! then takes the completions that fit into its budget. Nothing in the loop blocks.
//! `cargo run -p millstream --example stream_world [-- FILE]`

use std::time::{Duration, Instant};

use millstream::{
    Buffer, Completion, FileOptions, Priority, QueueOptions, Read, Storage, StorageOptions,
};

const TILE_BYTES: u64 = 64 << 10;
const TILES_PER_FRAME: u64 = 8;
const FRAME: Duration = Duration::from_millis(16);
/// What a frame spends on what has arrived.
const BUDGET: Duration = Duration::from_millis(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = tempfile::NamedTempFile::new()?;
    let path = match std::env::args_os().nth(1) {
        Some(path) => path.into(),
        None => {
            std::fs::write(own.path(), vec![1; 100 * TILE_BYTES as usize])?;
            own.path().to_owned()
        }
    };
    let storage = Storage::new(StorageOptions::default())?;
    let world = storage.open(path, FileOptions::default());
    let tiles = storage.opened(world)?.wait()?.len / TILE_BYTES;
    let queue = storage.queue(QueueOptions::default())?;

    let mut batch = queue.batch();
    let mut arrived: [Completion; 16] = Default::default();
    let (mut next, mut shown, mut failed, mut frames) = (0, 0, 0, 0);
    while shown + failed < tiles {
        let start = Instant::now();
        for tile in next..tiles.min(next + TILES_PER_FRAME) {
            // Every eighth tile is in view: it is wanted by the next frame.
            let in_view = tile % TILES_PER_FRAME == 0;
            let (priority, frames_left) = match in_view {
                true => (Priority::High, 1),
                false => (Priority::Normal, 4),
            };
            let request = Read::range(world, tile * TILE_BYTES, TILE_BYTES)
                .priority(priority)
                .deadline(start + FRAME * frames_left)
                .user_data(tile);
            batch.post(request)?;
        }
        next = tiles.min(next + TILES_PER_FRAME);
        batch.submit();

        while start.elapsed() < BUDGET {
            let count = queue.drain_completions(&mut arrived);
            if count == 0 {
                break;
            }
            for completion in &mut arrived[..count] {
                match completion.take_memory::<Buffer>() {
                    // Here it is uploaded; the buffer is recycled when dropped.
                    Some(_tile) => shown += 1,
                    None => failed += 1,
                }
            }
        }
        frames += 1;
        std::thread::sleep(FRAME.saturating_sub(start.elapsed()));
    }
    let missed = storage.stats().deadlines_missed;
    println!("{shown} tiles in {frames} frames, {failed} failed, {missed} deadlines missed");
    Ok(())
}
