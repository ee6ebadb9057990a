//! Loads a level: one batch, one group to wait for, one call that says how it went.
//! `cargo run -p millstream --example level -- FILE...`

use std::time::Duration;

use millstream::{FileOptions, Group, Priority, QueueOptions, Read, Storage, StorageOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let storage = Storage::new(StorageOptions::default())?;
    let queue = storage.queue(QueueOptions::default())?;
    let level = Group::new();

    let mut batch = queue.batch();
    let mut tickets = Vec::with_capacity(paths.len());
    for (index, path) in paths.iter().enumerate() {
        // The first file is what the loading screen shows.
        let priority = match index {
            0 => Priority::High,
            _ => Priority::Normal,
        };
        // No system call here: a missing file shows on its ticket.
        let file = storage.open(path, FileOptions::default());
        tickets.push(batch.add(Read::whole(file).priority(priority).group(&level))?);
    }
    batch.submit();

    // A progress bar reads the group's counts; this one line is enough here.
    while !level.wait(Some(Duration::from_millis(100)))? {
        println!("{} to go", level.remaining());
    }
    println!(
        "{} files, {} bytes, {} failed",
        level.done(),
        level.bytes(),
        level.failed()
    );
    for mut ticket in tickets {
        // Everything has completed, so this does not block.
        if let Err(error) = ticket.wait() {
            println!("{error}");
        }
    }
    Ok(())
}
