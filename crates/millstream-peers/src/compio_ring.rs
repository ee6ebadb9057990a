//! compio: completion-based files on its own io_uring, one runtime on the calling thread.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use compio::BufResult;
use compio::driver::ProactorBuilder;
use compio::fs::{File, OpenOptions};
use compio::io::AsyncReadAtExt;
use compio::runtime::{Runtime, RuntimeBuilder};
use futures_util::future::join_all;

use crate::lent::Loan;
use crate::plan::Plan;
use crate::{Access, Peer, Rival, named, not_open};

pub(crate) const RIVAL: Rival = Rival {
    name: "compio",
    version: env!("VERSION_COMPIO"),
    accesses: &[Access::Direct, Access::Buffered],
    copies: false,
    seeks: true,
    threads: false,
    make: |depth| {
        let mut proactor = ProactorBuilder::new();
        proactor.capacity(depth.next_power_of_two().max(32) as u32);
        let runtime = RuntimeBuilder::new().with_proactor(proactor).build()?;
        Ok(Box::new(Ring {
            runtime,
            depth,
            files: Vec::new(),
        }))
    },
};

struct Ring {
    runtime: Runtime,
    depth: usize,
    files: Vec<Rc<File>>,
}

async fn open(path: &std::path::Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    if access == Access::Direct {
        options.custom_flags(libc::O_DIRECT);
    }
    let opened = options.open(path).await;
    opened.map_err(|error| named(error, path))
}

async fn worker(loan: Arc<Loan>, files: Vec<Rc<File>>) {
    while let Some((read, room)) = loan.take() {
        let Some(file) = files.get(read.file as usize) else {
            return loan.fail(not_open());
        };
        let BufResult(result, _room) = file.read_exact_at(room, read.offset).await;
        if let Err(error) = result {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

async fn loader(loan: Arc<Loan>) {
    while let Some((read, room)) = loan.take() {
        let whole = async {
            let file = open(loan.path(&read), Access::Buffered).await?;
            let BufResult(result, _room) = file.read_exact_at(room, read.offset).await;
            result?;
            file.close().await
        };
        if let Err(error) = whole.await {
            loan.fail(named(error, loan.path(&read)));
        }
    }
}

impl Ring {
    fn run<F: Future<Output = ()>>(
        &self,
        plan: &Plan,
        destination: &mut [u8],
        worker: impl Fn(Arc<Loan>) -> F,
    ) -> io::Result<()> {
        let lease = Loan::lend(plan, destination)?;
        let count = self.depth.min(plan.reads().len());
        let workers = (0..count).map(|_| worker(lease.loan()));
        self.runtime.block_on(join_all(workers));
        lease.finish()
    }
}

impl Peer for Ring {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        self.files = self.runtime.block_on(async {
            let mut files = Vec::new();
            for path in plan.files() {
                files.push(Rc::new(open(path, access).await?));
            }
            io::Result::Ok(files)
        })?;
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.run(plan, destination, |loan| worker(loan, self.files.clone()))
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.run(plan, destination, loader)
    }
}
