//! Asynchronous libraries: as many tasks as reads may be in flight, each of which takes the next
//! read after it has served one.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::lent::{Loan, Room};
use crate::plan::{Plan, Read};
use crate::{Access, Peer, named};

#[cfg(feature = "async-fs")]
pub(crate) mod async_fs;
#[cfg(feature = "compio")]
pub(crate) mod compio;
#[cfg(feature = "glommio")]
pub(crate) mod glommio;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;

/// An asynchronous library: its files and its executor.
pub(crate) trait Library {
    type File;
    /// Whether files can be opened with direct I/O.
    const DIRECT: bool;

    async fn open(path: &Path, access: Access) -> io::Result<Self::File>;

    /// Returns the same file for another task; `None` if a file has a position, so that every task
    /// opens its own.
    fn shared(file: &Self::File) -> Option<Self::File> {
        let _ = file;
        None
    }

    /// Sets the position of a file that has one.
    async fn seek(file: &mut Self::File, offset: u64) -> io::Result<()> {
        let _ = (file, offset);
        Ok(())
    }

    /// Fills the room with the bytes of the read, from the file's position if it has one.
    async fn read(file: &mut Self::File, read: Read, room: Room) -> io::Result<()>;

    /// Closes a file, for files that dropping does not close.
    async fn close(file: Self::File) -> io::Result<()> {
        drop(file);
        Ok(())
    }

    /// Runs a future to completion.
    fn run<T>(&self, future: impl Future<Output = T>) -> T;
}

/// A started library, as a [`Peer`].
pub(crate) struct Tasks<L: Library> {
    pub(crate) library: L,
    pub(crate) depth: usize,
    files: Rc<Vec<L::File>>,
}

impl<L: Library> Tasks<L> {
    pub(crate) fn new(library: L, depth: usize) -> Tasks<L> {
        Tasks {
            library,
            depth,
            files: Rc::default(),
        }
    }

    /// Serves every read of the plan with tasks.
    fn serve<F: Future<Output = ()>>(
        &self,
        plan: &Plan,
        destination: &mut [u8],
        task: impl Fn(Arc<Loan>) -> F,
    ) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let count = self.depth.min(plan.reads().len());
        let tasks = join_all((0..count).map(|_| task(lease.loan())));
        self.library.run(tasks);
        lease.finish()
    }

    fn close_all(&mut self) -> io::Result<()> {
        let files = Rc::try_unwrap(std::mem::take(&mut self.files)).unwrap_or_default();
        self.library.run(async {
            for file in files {
                L::close(file).await?;
            }
            Ok(())
        })
    }
}

/// A task that reads from open files.
async fn reader<L: Library>(loan: Arc<Loan>, files: Rc<Vec<L::File>>) {
    let mut open: Option<(u32, L::File)> = None;
    while let Some((read, room)) = loan.take() {
        let whole = async {
            let mut file = match open.take() {
                Some((index, file)) if index == read.file => file,
                _ => match files.get(read.file as usize).and_then(L::shared) {
                    Some(file) => file,
                    None => L::open(loan.path(&read), Access::Buffered).await?,
                },
            };
            L::seek(&mut file, read.offset).await?;
            L::read(&mut file, read, room).await?;
            open = Some((read.file, file));
            Ok(())
        };
        if let Err(error) = whole.await {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

/// A task that opens, reads and closes the file of each read.
async fn loader<L: Library>(loan: Arc<Loan>) {
    while let Some((read, room)) = loan.take() {
        let whole = async {
            let mut file = L::open(loan.path(&read), Access::Buffered).await?;
            L::read(&mut file, read, room).await?;
            L::close(file).await
        };
        if let Err(error) = whole.await {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

impl<L: Library> Peer for Tasks<L> {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        if access == Access::Direct && !L::DIRECT {
            return Err(io::Error::other("its own buffers are not aligned"));
        }
        self.close_all()?;
        let files = self.library.run(async {
            let mut files = Vec::new();
            for path in plan.files() {
                let opened = L::open(path, access).await;
                files.push(opened.map_err(|error| named(error, path))?);
            }
            io::Result::Ok(files)
        })?;
        self.files = Rc::new(files);
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.serve(plan, destination, |loan| {
            reader::<L>(loan, Rc::clone(&self.files))
        })
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.serve(plan, destination, loader::<L>)
    }
}

impl<L: Library> Drop for Tasks<L> {
    fn drop(&mut self) {
        // Files of glommio must be closed on their executor; drop cannot return an error.
        let _ = self.close_all();
    }
}
