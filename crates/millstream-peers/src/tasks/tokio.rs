//! tokio: its files.

use std::io::{self, SeekFrom};
use std::path::Path;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::{Builder, Runtime};

use super::{Library, Tasks};
use crate::lent::Room;
use crate::plan::Read;
use crate::{Access, Rival};

pub(crate) const RIVAL: Rival = Rival {
    name: "tokio-fs",
    version: env!("VERSION_TOKIO"),
    accesses: &[Access::Buffered],
    copies: true,
    seeks: true,
    threads: true,
    make: |depth| Ok(Box::new(Tasks::new(Files(runtime(depth)?), depth))),
};

fn runtime(depth: usize) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.max_blocking_threads(depth).build()
}

/// `tokio::fs`: one file a task, because a file has one position. The buffer behind it is a vector,
/// which is not aligned as direct reads want it.
struct Files(Runtime);

impl Library for Files {
    type File = File;
    const DIRECT: bool = false;

    async fn open(path: &Path, _: Access) -> io::Result<File> {
        File::open(path).await
    }

    async fn seek(file: &mut File, offset: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(offset)).await.map(drop)
    }

    async fn read(file: &mut File, _: Read, mut room: Room) -> io::Result<()> {
        file.read_exact(room.bytes()).await.map(drop)
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}
