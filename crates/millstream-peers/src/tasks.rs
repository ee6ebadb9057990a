//! Asynchronous libraries: as many tasks as reads may be in flight, each of which takes the next
//! read after it has served one.
//!
//! compio has completion-based files on its own io_uring, with one runtime on the calling thread;
//! tokio's files are `pread` on its pool of blocking threads. A file of tokio has a position, so
//! every task has its own; it has no direct reads, because its buffer is not aligned for them.

use std::cell::RefCell;
use std::io::{self, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use compio::io::AsyncReadAtExt;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::lent::{Loan, Room};
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open};

pub(crate) const TOKIO: Rival = Rival {
    name: "tokio-fs",
    version: env!("VERSION_TOKIO"),
    accesses: &[Access::Buffered],
    threads: true,
    make: |depth| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Ok(Box::new(Tokio {
            runtime: builder.max_blocking_threads(depth).build()?,
            depth,
            files: RefCell::default(),
        }))
    },
};

pub(crate) const COMPIO: Rival = Rival {
    name: "compio",
    version: env!("VERSION_COMPIO"),
    accesses: &[Access::Direct, Access::Buffered],
    threads: false,
    make: |depth| {
        let mut proactor = compio::driver::ProactorBuilder::new();
        proactor.capacity(depth.next_power_of_two().max(32) as u32);
        let mut builder = compio::runtime::RuntimeBuilder::new();
        Ok(Box::new(Compio {
            runtime: builder.with_proactor(proactor).build()?,
            depth,
            files: Vec::new(),
        }))
    },
};

/// Runs `depth` tasks until every read of the loan is served by `read`.
async fn serve(
    loan: Arc<Loan>,
    depth: usize,
    read: impl AsyncFn(&Path, Read, Room) -> io::Result<()>,
) {
    let task = async |_| {
        while let Some((one, room)) = loan.take() {
            let path = loan.path(&one);
            if let Err(error) = read(path, one, room).await {
                loan.fail(named(error, path));
            }
        }
    };
    join_all((0..depth).map(task)).await;
}

struct Tokio {
    runtime: tokio::runtime::Runtime,
    depth: usize,
    /// Files that no task uses, with their indices in the plan.
    files: RefCell<Vec<(u32, tokio::fs::File)>>,
}

impl Peer for Tokio {
    fn open(&mut self, _: &Plan, _: Access) -> io::Result<()> {
        self.files.take();
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let read = async |path: &Path, read: Read, mut room: Room| {
            let idle = self.files.borrow_mut().pop();
            let mut file = match idle {
                Some((index, file)) if index == read.file => file,
                _ => tokio::fs::File::open(path).await?,
            };
            file.seek(SeekFrom::Start(read.offset)).await?;
            file.read_exact(room.bytes()).await?;
            self.files.borrow_mut().push((read.file, file));
            Ok(())
        };
        self.runtime.block_on(serve(lease.loan(), self.depth, read));
        lease.finish()
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let read = async |path: &Path, _: Read, mut room: Room| {
            let mut file = tokio::fs::File::open(path).await?;
            file.read_exact(room.bytes()).await.map(drop)
        };
        self.runtime.block_on(serve(lease.loan(), self.depth, read));
        lease.finish()
    }
}

struct Compio {
    runtime: compio::runtime::Runtime,
    depth: usize,
    files: Vec<compio::fs::File>,
}

async fn compio_open(path: &Path, access: Access) -> io::Result<compio::fs::File> {
    let mut options = compio::fs::OpenOptions::new();
    options.read(true);
    if access == Access::Direct {
        options.custom_flags(libc::O_DIRECT);
    }
    options.open(path).await.map_err(|error| named(error, path))
}

impl Peer for Compio {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        self.files.clear();
        self.runtime.block_on(async {
            for path in plan.files() {
                self.files.push(compio_open(path, access).await?);
            }
            Ok(())
        })
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let read = async |_: &Path, read: Read, room: Room| {
            let file = self.files.get(read.file as usize).ok_or_else(not_open)?;
            file.read_exact_at(room, read.offset).await.0.map(drop)
        };
        self.runtime.block_on(serve(lease.loan(), self.depth, read));
        lease.finish()
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let read = async |path: &Path, _: Read, room: Room| {
            let file = compio_open(path, Access::Buffered).await?;
            file.read_exact_at(room, 0).await.0.map(drop)
        };
        self.runtime.block_on(serve(lease.loan(), self.depth, read));
        lease.finish()
    }
}
