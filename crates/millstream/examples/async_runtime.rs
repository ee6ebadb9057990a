//! Tickets, groups and fences awaited in a runtime, which needs no adapter: a completion wakes the
//! task. `cargo run -p millstream --example async_runtime -- FILE...`

use std::path::PathBuf;

use millstream::{Error, FileOptions, Group, Queue, QueueOptions, Read, Storage, StorageOptions};
use tokio::task::JoinSet;

/// One task: reads a file, and returns its length.
async fn load(storage: Storage, queue: Queue, path: PathBuf, all: Group) -> Result<usize, Error> {
    let file = storage.open(path, FileOptions::default());
    // `try_submit` never blocks the runtime's thread; a full queue comes back as an error.
    let ticket = queue.try_submit(Read::whole(file).group(&all))?;
    // A task that is aborted drops its ticket, which cancels the read.
    Ok(ticket.cancel_on_drop().await?.len())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let storage = Storage::new(StorageOptions::default())?;
    let queue = storage.queue(QueueOptions::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let all = Group::new();
        let mut tasks = JoinSet::new();
        for path in std::env::args_os().skip(1) {
            tasks.spawn(load(
                storage.clone(),
                queue.clone(),
                path.into(),
                all.clone(),
            ));
        }
        while let Some(loaded) = tasks.join_next().await {
            match loaded? {
                Ok(len) => println!("{len} bytes"),
                Err(error) => println!("{error}"),
            }
        }
        (&all).await;
        println!("{} files, {} failed", all.done(), all.failed());
        Ok(())
    })
}
