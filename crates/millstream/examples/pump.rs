//! A storage without threads: the application's own thread does the work, where it calls
//! [`Storage::pump`]. `cargo run -p millstream --example pump [-- FILE]`

use std::path::PathBuf;

use millstream::{FileOptions, Group, QueueOptions, Read, Storage, StorageOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?,
    };
    let mut options = StorageOptions::default();
    options.threads.pumped = true;
    let storage = Storage::new(options)?;
    let queue = storage.queue(QueueOptions::default())?;
    let file = storage.open(path, FileOptions::default());

    // Waiting for a ticket pumps.
    let len = storage.opened(file)?.wait()?.len;

    let group = Group::new();
    let mut batch = queue.batch();
    for offset in (0..len).step_by(1 << 20) {
        let request = Read::range(file, offset, (len - offset).min(1 << 20));
        batch.detach(request.group(&group))?;
    }
    batch.submit();

    // A frame loop pumps while there is work, and goes on.
    let mut rounds = 0;
    for _frame in 0..3 {
        while storage.pump() {
            rounds += 1;
        }
    }

    // Groups and fences are waited for through their storage, which pumps.
    storage.wait(&group, None)?;
    println!(
        "{} of {len} bytes after {rounds} rounds, on one thread",
        group.bytes()
    );
    Ok(())
}
