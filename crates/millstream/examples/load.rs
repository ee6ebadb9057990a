//! Loads files in one batch, most important first: `cargo run -p millstream --example load --
//! PATH...`.

use millstream::{FileOptions, Priority, QueueOptions, Read, Storage, StorageOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let storage = Storage::new(StorageOptions::default())?;
    let queue = storage.queue(QueueOptions::default())?;
    let mut batch = queue.batch();
    let mut tickets = Vec::new();
    for (index, path) in std::env::args_os().skip(1).enumerate() {
        // The first file is what the frame waits for.
        let priority = match index {
            0 => Priority::High,
            _ => Priority::Normal,
        };
        // An id at once; the file is opened in the background.
        let file = storage.open(&path, FileOptions::default());
        let ticket = batch.add(Read::whole(file).priority(priority))?;
        tickets.push((path, ticket));
    }
    batch.submit();
    for (path, mut ticket) in tickets {
        match ticket.wait() {
            Ok(buffer) => println!("{}: {} bytes", path.display(), buffer.len()),
            Err(error) => println!("{error}"),
        }
    }
    println!(
        "{:?} served {} requests",
        storage.device_kind(),
        storage.stats().requests
    );
    Ok(())
}
