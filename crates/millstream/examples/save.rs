//! Saves a file so that a crash leaves the old content or the new: `cargo run -p millstream
//! --example save -- FILE TEXT`.

use millstream::{FileOp, QueueOptions, Storage, StorageOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (path, text) = words
        .next()
        .zip(words.next())
        .ok_or("which file, and what text?")?;
    let storage = Storage::new(StorageOptions::default())?;
    let queue = storage.queue(QueueOptions::default())?;
    let mut ticket = queue.submit(FileOp::replace(&path, text.into_bytes()))?;
    // The frame goes on here; the error, if there is one, comes with the ticket.
    ticket.wait()?;
    println!("{path} is safe");
    Ok(())
}
