//! async-fs: files of the smol family, on the pool of the crate `blocking`.
//!
//! A file reads up to 8 MiB ahead of its position into a pipe of its own, and a seek discards that:
//! 4 KiB at a random offset cost 0.7 ms of processor time. So `seeks` is false for it; programs use
//! it for whole files.

use std::io::{self, SeekFrom};
use std::path::Path;

use async_fs::File;
use futures_lite::future::block_on;
use futures_lite::{AsyncReadExt, AsyncSeekExt};

use super::{Library, Tasks};
use crate::lent::Room;
use crate::plan::Read;
use crate::{Access, Rival};

pub(crate) const RIVAL: Rival = Rival {
    name: "async-fs",
    version: env!("VERSION_ASYNC_FS"),
    accesses: &[Access::Buffered],
    copies: true,
    seeks: false,
    threads: true,
    make: |depth| Ok(Box::new(Tasks::new(Files, depth))),
};

struct Files;

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
        file.read_exact(room.bytes()).await
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        block_on(future)
    }
}
