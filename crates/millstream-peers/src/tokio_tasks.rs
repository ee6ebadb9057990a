//! tokio: its files, and `pread` on its pool of blocking threads.

use std::fs::File;
use std::io;
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::lent::Loan;
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open, open_file};

pub(crate) const FILES: Rival = Rival {
    name: "tokio-fs",
    version: env!("VERSION_TOKIO"),
    accesses: &[Access::Buffered],
    copies: true,
    seeks: true,
    threads: true,
    make: |depth| Ok(Box::new(Files(Tasks::new(depth)?))),
};

pub(crate) const BLOCKING: Rival = Rival {
    name: "tokio-blocking",
    version: env!("VERSION_TOKIO"),
    accesses: &[Access::Direct, Access::Buffered],
    copies: false,
    seeks: true,
    threads: true,
    make: |depth| Ok(Box::new(Blocking(Tasks::new(depth)?, Vec::new()))),
};

/// A runtime, and as many tasks at a time as reads may be in flight.
struct Tasks {
    runtime: Runtime,
    depth: usize,
}

impl Tasks {
    fn new(depth: usize) -> io::Result<Tasks> {
        let runtime = Builder::new_multi_thread()
            .max_blocking_threads(depth)
            .build()?;
        Ok(Tasks { runtime, depth })
    }

    /// Spawns a task per read in flight and waits for all of them.
    fn run<F, T>(&self, plan: &Plan, destination: &mut [u8], task: F) -> io::Result<()>
    where
        F: Fn(Arc<Loan>) -> T,
        T: Future<Output = io::Result<()>> + Send + 'static,
    {
        let lease = Loan::lend(plan, destination)?;
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();
        for _ in 0..self.depth.min(plan.reads().len()) {
            let (loan, task) = (lease.loan(), task(lease.loan()));
            tasks.push(self.runtime.spawn(async move {
                if let Err(error) = task.await {
                    loan.fail(error);
                }
            }));
        }
        for task in tasks {
            self.runtime.block_on(task).map_err(io::Error::other)?;
        }
        lease.finish()
    }
}

/// `tokio::fs`: one file a task, because a file has one position. The buffer behind it is a vector,
/// which is not aligned as direct reads want it.
struct Files(Tasks);

async fn read_file(file: &mut tokio::fs::File, read: Read, into: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(read.offset)).await?;
    file.read_exact(into).await.map(|_| ())
}

impl Peer for Files {
    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.0.run(plan, destination, async |loan| {
            // A task reads one file at a time; it opens the next when a read names another.
            let mut open: Option<(u32, tokio::fs::File)> = None;
            while let Some((read, mut room)) = loan.take() {
                if open.as_ref().is_none_or(|(index, _)| *index != read.file) {
                    open = Some((read.file, tokio::fs::File::open(loan.path(&read)).await?));
                }
                let (_, file) = open.as_mut().ok_or_else(not_open)?;
                let result = read_file(file, read, room.bytes()).await;
                result.map_err(|error| named(error, loan.path(&read)))?;
            }
            Ok(())
        })
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.0.run(plan, destination, async |loan| {
            while let Some((read, mut room)) = loan.take() {
                let path = loan.path(&read).to_owned();
                let whole = async {
                    let mut file = tokio::fs::File::open(&path).await?;
                    file.read_exact(room.bytes()).await
                };
                whole.await.map_err(|error| named(error, &path))?;
            }
            Ok(())
        })
    }
}

/// `pread` on tokio's pool of blocking threads.
struct Blocking(Tasks, Vec<Arc<File>>);

impl Peer for Blocking {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        let files = plan.files().iter();
        self.1 = files
            .map(|path| open_file(path, access).map(Arc::new))
            .collect::<io::Result<_>>()?;
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let files: Arc<[Arc<File>]> = self.1.clone().into();
        self.0.run(plan, destination, |loan| {
            let files = Arc::clone(&files);
            async move {
                while let Some((read, mut room)) = loan.take() {
                    let file = Arc::clone(files.get(read.file as usize).ok_or_else(not_open)?);
                    let work = move || file.read_exact_at(room.bytes(), read.offset);
                    let result = tokio::task::spawn_blocking(work).await;
                    let result = result.map_err(io::Error::other)?;
                    result.map_err(|error| named(error, loan.path(&read)))?;
                }
                Ok(())
            }
        })
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.0.run(plan, destination, async |loan| {
            while let Some((read, mut room)) = loan.take() {
                let path = loan.path(&read).to_owned();
                let work = move || {
                    open_file(&path, Access::Buffered)?.read_exact_at(room.bytes(), read.offset)
                };
                let result = tokio::task::spawn_blocking(work).await;
                result.map_err(io::Error::other)??;
            }
            Ok(())
        })
    }

    fn hand_over(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<Vec<u64>> {
        let lease = Loan::lend(plan, destination)?;
        let loan = lease.loan();
        let mut held_ns = Vec::with_capacity(loan.len());
        let mut tasks = Vec::with_capacity(loan.len());
        while let Some((read, mut room)) = loan.take() {
            let file = Arc::clone(self.1.get(read.file as usize).ok_or_else(not_open)?);
            let start = Instant::now();
            let work = move || file.read_exact_at(room.bytes(), read.offset);
            tasks.push(self.0.runtime.spawn_blocking(work));
            held_ns.push(start.elapsed().as_nanos() as u64);
        }
        for task in tasks {
            match self.0.runtime.block_on(task) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => loan.fail(error),
                Err(error) => loan.fail(io::Error::other(error)),
            }
        }
        drop(loan);
        lease.finish().map(|()| held_ns)
    }
}
