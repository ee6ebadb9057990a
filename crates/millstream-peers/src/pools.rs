//! `pread`, and copies out of memory maps, on a pool of threads (rayon).
//!
//! # Safety
//! Reading a map beyond the end of a file that shrank raises SIGBUS. The benchmark's files are its
//! own, and no one else writes to them; programs with maps rely on the same.
#![cfg_attr(
    feature = "rust",
    expect(unsafe_code, reason = "making a map of a file is unsafe in memmap2")
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::lent::Loan;
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open, open_file};

/// What most programs do; with one thread, the plain sequential reader.
pub(crate) const PREAD: Rival = Rival {
    name: "pread",
    version: "",
    accesses: &[Access::Direct, Access::Buffered],
    threads: true,
    make: |threads| {
        Pool::start(threads, open_file, |file: &File, read, into| {
            file.read_exact_at(into, read.offset)
        })
    },
};

#[cfg(feature = "rust")]
pub(crate) const RAYON: Rival = Rival {
    name: "rayon",
    version: env!("VERSION_RAYON"),
    ..PREAD
};

#[cfg(feature = "rust")]
pub(crate) const MAP: Rival = Rival {
    name: "memmap2",
    version: env!("VERSION_MEMMAP2"),
    accesses: &[Access::Buffered],
    make: |threads| Pool::start(threads, mapped, copied),
    ..PREAD
};

#[cfg(feature = "rust")]
fn mapped(path: &Path, access: Access) -> io::Result<memmap2::Mmap> {
    if access == Access::Direct {
        return Err(io::Error::other("maps are of the page cache"));
    }
    let file = open_file(path, access)?;
    // SAFETY: no one writes or shortens the file while it is mapped; see the module.
    unsafe { memmap2::Mmap::map(&file) }.map_err(|error| named(error, path))
}

#[cfg(feature = "rust")]
fn copied(map: &memmap2::Mmap, read: Read, into: &mut [u8]) -> io::Result<()> {
    let from = usize::try_from(read.offset).ok();
    let part = from.and_then(|from| map.get(from..from.checked_add(into.len())?));
    let part = part.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    into.copy_from_slice(part);
    Ok(())
}

/// Fills memory with the bytes of a read.
type Fill<F> = fn(&F, Read, &mut [u8]) -> io::Result<()>;

/// A pool of threads, and the functions that open and read files on it.
struct Pool<F> {
    threads: ThreadPool,
    files: Vec<F>,
    open: fn(&Path, Access) -> io::Result<F>,
    read: Fill<F>,
}

impl<F: Send + Sync + 'static> Pool<F> {
    fn start(
        threads: usize,
        open: fn(&Path, Access) -> io::Result<F>,
        read: Fill<F>,
    ) -> io::Result<Box<dyn Peer>> {
        let threads = ThreadPoolBuilder::new().num_threads(threads).build();
        Ok(Box::new(Pool {
            threads: threads.map_err(io::Error::other)?,
            files: Vec::new(),
            open,
            read,
        }))
    }

    /// Serves every read of the plan, as many at a time as there are threads; with one thread, on
    /// the calling thread.
    fn serve(
        &self,
        plan: &Plan,
        destination: &mut [u8],
        serve: impl Fn(&Path, Read, &mut [u8]) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let loan = lease.loan();
        let work = || {
            while let Some((read, mut room)) = loan.take() {
                let path = loan.path(&read);
                if let Err(error) = serve(path, read, room.bytes()) {
                    loan.fail(named(error, path));
                }
            }
        };
        match self.threads.current_num_threads() {
            1 => work(),
            _ => drop(self.threads.broadcast(|_| work())),
        }
        drop(loan);
        lease.finish()
    }
}

impl<F: Send + Sync + 'static> Peer for Pool<F> {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        let files = plan.files().iter().map(|path| (self.open)(path, access));
        self.files = files.collect::<io::Result<_>>()?;
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.serve(plan, destination, |_, read, into| {
            let file = self.files.get(read.file as usize).ok_or_else(not_open)?;
            (self.read)(file, read, into)
        })
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.serve(plan, destination, |path, read, into| {
            (self.read)(&(self.open)(path, Access::Buffered)?, read, into)
        })
    }
}
