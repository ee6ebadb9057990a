//! rayon with `pread`, and maps copied out of on the same pool.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::lent::{Loan, Room};
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open, open_file};

#[cfg(feature = "rayon")]
pub(crate) const PREAD: Rival = Rival {
    name: "rayon",
    version: env!("VERSION_RAYON"),
    accesses: &[Access::Direct, Access::Buffered],
    copies: false,
    seeks: true,
    threads: true,
    make: |depth| Ok(Box::new(Pread(Pool::new(depth)?, Vec::new()))),
};

#[cfg(feature = "memmap2")]
pub(crate) const MAP: Rival = Rival {
    name: "memmap2",
    version: env!("VERSION_MEMMAP2"),
    accesses: &[Access::Buffered],
    copies: true,
    seeks: true,
    threads: true,
    make: |depth| Ok(Box::new(map::Mapped(Pool::new(depth)?, Vec::new()))),
};

/// A pool of so many threads.
struct Pool(ThreadPool);

impl Pool {
    fn new(threads: usize) -> io::Result<Pool> {
        ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map(Pool)
            .map_err(io::Error::other)
    }

    /// Serves every read of the plan with `serve`, as many at a time as there are threads.
    fn run(
        &self,
        plan: &Plan,
        destination: &mut [u8],
        serve: &(dyn Fn(&Loan, Read, &mut Room) -> io::Result<()> + Sync),
    ) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let loan = lease.loan();
        self.0.broadcast(|_| worker(&loan, serve));
        drop(loan);
        lease.finish()
    }
}

fn worker(loan: &Arc<Loan>, serve: &(dyn Fn(&Loan, Read, &mut Room) -> io::Result<()> + Sync)) {
    while let Some((read, mut room)) = loan.take() {
        if let Err(error) = serve(loan, read, &mut room) {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

fn open_all(plan: &Plan, access: Access) -> io::Result<Vec<std::fs::File>> {
    let files = plan.files().iter();
    files.map(|path| open_file(path, access)).collect()
}

/// `pread` on a pool.
#[cfg(feature = "rayon")]
struct Pread(Pool, Vec<std::fs::File>);

#[cfg(feature = "rayon")]
impl Peer for Pread {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        self.1 = open_all(plan, access)?;
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let files = &self.1;
        self.0.run(plan, destination, &|_, read, room| {
            let file = files.get(read.file as usize).ok_or_else(not_open)?;
            file.read_exact_at(room.bytes(), read.offset)
        })
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.0.run(plan, destination, &|loan, read, room| {
            let file = open_file(loan.path(&read), Access::Buffered)?;
            file.read_exact_at(room.bytes(), read.offset)
        })
    }
}

/// Maps.
///
/// # Safety
/// A map whose file shrinks raises a signal. The benchmark's files are its own, and nobody else
/// writes them; that is what a program with maps relies on as well.
#[cfg(feature = "memmap2")]
mod map {
    #![expect(unsafe_code, reason = "making a map of a file is unsafe in memmap2")]

    use memmap2::Mmap;

    use super::{Access, Peer, Plan, Pool, Read, io, named, not_open, open_file};

    pub(super) struct Mapped(pub(super) Pool, pub(super) Vec<Mmap>);

    fn mapped(path: &std::path::Path) -> io::Result<Mmap> {
        let file = open_file(path, Access::Buffered)?;
        // SAFETY: nobody writes or shortens the file while it is mapped; see the module.
        unsafe { Mmap::map(&file) }.map_err(|error| named(error, path))
    }

    fn copy(map: &Mmap, read: Read, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(read.offset).ok();
        let part = from.and_then(|from| map.get(from..from.checked_add(into.len())?));
        let part = part.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        into.copy_from_slice(part);
        Ok(())
    }

    impl Peer for Mapped {
        fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
            if access == Access::Direct {
                return Err(io::Error::other("maps are of the page cache"));
            }
            self.1 = plan
                .files()
                .iter()
                .map(|path| mapped(path))
                .collect::<io::Result<_>>()?;
            Ok(())
        }

        fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
            let maps = &self.1;
            self.0.run(plan, destination, &|_, read, room| {
                let map = maps.get(read.file as usize).ok_or_else(not_open)?;
                copy(map, read, room.bytes())
            })
        }

        fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
            self.0.run(plan, destination, &|loan, read, room| {
                copy(&mapped(loan.path(&read))?, read, room.bytes())
            })
        }
    }
}
