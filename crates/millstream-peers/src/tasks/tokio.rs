//! tokio: its asynchronous files, and `pread` on its pool of blocking threads.

use std::io::{self, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use super::{Library, Tasks};
use crate::lent::Room;
use crate::plan::Read;
use crate::{Access, Rival, open_file};

pub(crate) const FILES: Rival = Rival {
    name: "tokio-fs",
    version: env!("VERSION_TOKIO"),
    accesses: &[Access::Buffered],
    copies: true,
    seeks: true,
    threads: true,
    make: |depth| Ok(Box::new(Tasks::new(Files(runtime(depth)?), depth))),
};

pub(crate) const BLOCKING: Rival = Rival {
    name: "tokio-blocking",
    version: env!("VERSION_TOKIO"),
    accesses: &[Access::Direct, Access::Buffered],
    copies: false,
    seeks: true,
    threads: true,
    make: |depth| Ok(Box::new(Tasks::new(Blocking(runtime(depth)?), depth))),
};

fn runtime(depth: usize) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.max_blocking_threads(depth).build()
}

/// `tokio::fs`: one open file per task, because a file has one position. Its internal buffer is a
/// vector without the alignment that direct reads need.
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

/// `pread` on tokio's pool of blocking threads.
struct Blocking(Runtime);

impl Library for Blocking {
    type File = Arc<std::fs::File>;
    const DIRECT: bool = true;

    async fn open(path: &Path, access: Access) -> io::Result<Self::File> {
        let path = path.to_owned();
        let opened = spawn_blocking(move || open_file(&path, access)).await;
        opened.map_err(io::Error::other)?.map(Arc::new)
    }

    fn shared(file: &Self::File) -> Option<Self::File> {
        Some(Arc::clone(file))
    }

    async fn read(file: &mut Self::File, read: Read, mut room: Room) -> io::Result<()> {
        let file = Arc::clone(file);
        let work = move || file.read_exact_at(room.bytes(), read.offset);
        spawn_blocking(work).await.map_err(io::Error::other)?
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}
