//! glommio: an executor with its own three rings on the calling thread.
//!
//! Its files bring their own buffers (registered ones for direct reads), and there is no way to
//! name a destination: the copy out of them is part of what it does here, as it is for whoever
//! wants bytes in a given place. It needs 512 KiB of locked memory for each executor.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;
use glommio::io::{BufferedFile, DmaFile, ReadResult};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};

use crate::lent::{Loan, Room};
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open};

pub(crate) const RIVAL: Rival = Rival {
    name: "glommio",
    version: env!("VERSION_GLOMMIO"),
    accesses: &[Access::Direct, Access::Buffered],
    copies: true,
    seeks: true,
    threads: false,
    make: |depth| {
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .ring_depth(depth.next_power_of_two().max(128))
            .make()
            .map_err(|error| io::Error::other(format!("{error} (likely cause: ulimit -l)")))?;
        Ok(Box::new(Ring {
            executor,
            depth,
            files: Rc::default(),
        }))
    },
};

struct Ring {
    executor: LocalExecutor,
    depth: usize,
    files: Rc<Vec<File>>,
}

enum File {
    Direct(DmaFile),
    Buffered(BufferedFile),
}

impl File {
    async fn open(path: &Path, access: Access) -> io::Result<File> {
        let opened = match access {
            Access::Direct => DmaFile::open(path).await.map(File::Direct),
            Access::Buffered => BufferedFile::open(path).await.map(File::Buffered),
        };
        opened.map_err(|error| named(error.into(), path))
    }

    async fn read(&self, read: Read, room: &mut Room) -> io::Result<()> {
        let len = read.len as usize;
        let result: ReadResult = match self {
            File::Direct(file) => file.read_at_aligned(read.offset, len).await?,
            File::Buffered(file) => file.read_at(read.offset, len).await?,
        };
        if result.len() != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        room.bytes().copy_from_slice(&result);
        Ok(())
    }

    async fn close(self) -> io::Result<()> {
        match self {
            File::Direct(file) => file.close().await?,
            File::Buffered(file) => file.close().await?,
        }
        Ok(())
    }
}

async fn worker(loan: Arc<Loan>, files: Rc<Vec<File>>) {
    while let Some((read, mut room)) = loan.take() {
        let Some(file) = files.get(read.file as usize) else {
            return loan.fail(not_open());
        };
        if let Err(error) = file.read(read, &mut room).await {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

async fn loader(loan: Arc<Loan>) {
    while let Some((read, mut room)) = loan.take() {
        let whole = async {
            let file = File::open(loan.path(&read), Access::Buffered).await?;
            let result = file.read(read, &mut room).await;
            file.close().await?;
            result
        };
        if let Err(error) = whole.await {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

impl Ring {
    fn close_all(&mut self) -> io::Result<()> {
        let files = std::mem::take(&mut self.files);
        let files = Rc::try_unwrap(files).unwrap_or_default();
        self.executor.run(async {
            for file in files {
                file.close().await?;
            }
            Ok(())
        })
    }

    fn run<F: Future<Output = ()> + 'static>(
        &self,
        plan: &Plan,
        destination: &mut [u8],
        worker: impl Fn(Arc<Loan>) -> F,
    ) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let count = self.depth.min(plan.reads().len());
        let workers: Vec<F> = (0..count).map(|_| worker(lease.loan())).collect();
        self.executor.run(async {
            join_all(workers.into_iter().map(glommio::spawn_local)).await;
        });
        lease.finish()
    }
}

impl Peer for Ring {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        self.close_all()?;
        let files = self.executor.run(async {
            let mut files = Vec::new();
            for path in plan.files() {
                files.push(File::open(path, access).await?);
            }
            io::Result::Ok(files)
        })?;
        self.files = Rc::new(files);
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.run(plan, destination, |loan| {
            worker(loan, Rc::clone(&self.files))
        })
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.run(plan, destination, loader)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Files of glommio must be closed on their executor; an error cannot be returned here.
        let _ = self.close_all();
    }
}
