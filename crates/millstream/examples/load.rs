//! Loads files in one batch, most important first: `cargo run -p millstream --example load --
//! PATH...`.

use millstream::{Group, Priority, QueueOptions, Request, Storage, StorageOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let storage = Storage::new(StorageOptions::default())?;
    let queue = storage.queue(QueueOptions::default())?;
    let group = Group::new();
    let mut tickets = Vec::new();
    for (index, path) in std::env::args_os().skip(1).enumerate() {
        // The first file is what the frame waits for.
        let class = if index == 0 {
            Priority::High
        } else {
            Priority::Normal
        };
        let file = storage.open(&path); // an id at once; a worker opens the file
        let request = Request::read_file(file).priority(class).group(&group);
        tickets.push((path, queue.enqueue(request)?));
    }
    queue.submit();
    group.wait();
    for (path, ticket) in tickets {
        match ticket.wait() {
            Ok(done) => println!("{}: {} bytes", path.display(), done.bytes),
            Err(failed) => println!("{failed}"),
        }
    }
    println!(
        "{:?} served {} requests",
        storage.device_kind(),
        storage.stats().requests
    );
    Ok(())
}
