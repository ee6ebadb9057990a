//! async-fs: files of the smol family, on the pool of the crate `blocking`.
//!
//! A file reads up to 8 MiB ahead of its position into a pipe of its own, and a seek throws that
//! away: 4 KiB at a random place cost 0.7 ms of processor time here. So it says that it is not for
//! random places; programs use it for whole files.

use std::io;
use std::io::SeekFrom;
use std::sync::Arc;

use futures_lite::future::block_on;
use futures_lite::{AsyncReadExt, AsyncSeekExt};
use futures_util::future::join_all;

use crate::lent::Loan;
use crate::plan::Plan;
use crate::{Access, Peer, Rival, named};

pub(crate) const RIVAL: Rival = Rival {
    name: "async-fs",
    version: env!("VERSION_ASYNC_FS"),
    accesses: &[Access::Buffered],
    copies: true,
    seeks: false,
    threads: true,
    make: |depth| Ok(Box::new(Files { depth })),
};

struct Files {
    depth: usize,
}

/// Reads with a file of its own, which it opens again for every read if `anew`.
async fn worker(loan: Arc<Loan>, anew: bool) {
    let mut open: Option<(u32, async_fs::File)> = None;
    while let Some((read, mut room)) = loan.take() {
        let whole = async {
            let mut file = match open.take() {
                Some((index, file)) if index == read.file && !anew => file,
                _ => async_fs::File::open(loan.path(&read)).await?,
            };
            if !anew {
                file.seek(SeekFrom::Start(read.offset)).await?;
            }
            file.read_exact(room.bytes()).await?;
            open = Some((read.file, file));
            Ok(())
        };
        if let Err(error) = whole.await {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

impl Files {
    fn run(&self, plan: &Plan, destination: &mut [u8], anew: bool) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let count = self.depth.min(plan.reads().len());
        block_on(join_all((0..count).map(|_| worker(lease.loan(), anew))));
        lease.finish()
    }
}

impl Peer for Files {
    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.run(plan, destination, false)
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.run(plan, destination, true)
    }
}
