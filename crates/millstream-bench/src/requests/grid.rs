//! The grid of size × depth × (direct, cold, warm): each cell is a case, and the cells of a mode
//! are a map on the page.
//!
//! The depth is an upper limit: a cell of 4 MiB × 128 has fewer requests than that, all submitted
//! at once. `ring` shows what the kernel and the device can do, with registered memory.

use millstream::{Access, Storage};

use crate::ours::{Ours, options};
use crate::peers::{self, Sweeps, Way, bare};
use crate::prelude::*;
use crate::requests::cells::{Cell, Mode, PageHashes, random_reads};

const SEED: u64 = 0x5EED;
/// Staging memory of our storages, whose reads do not stage: a storage touches all of it when it is
/// created, and hundreds are created here.
const STAGING_BYTES: usize = 4 << 20;

/// Runs the grid; warm cells come last, because they leave the whole file in the page cache.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let mut sweeps = Sweeps::default();
    for instance in session.cases("requests", "grid") {
        let (mode, size): (Mode, Bytes) = (instance.get("mode"), instance.get("size"));
        let (size, depth) = (size.len(), instance.get("depth"));
        let cell = Cell { mode, size, depth };
        if mode == Mode::Warm {
            warm_path(&file.path)?;
        }
        let most: usize = instance.get(match depth {
            1 => "requests_serial_max",
            _ => "requests_max",
        });
        let count = most.min(instance.get::<Bytes>("bytes_max").len() / size);
        let plan = random_reads(file, size, count, SEED)?;
        let way = Way::Requests(mode.access());
        let mut case = session.begin(&instance);
        for name in instance.contenders().filter(|name| takes_part(name, cell)) {
            match name {
                "libraries" => sweeps.cell(&mut case, file, cell, &plan),
                "pread" if depth > 1 => {
                    let (name, pread) = (format!("pread-{POOL_THREADS}"), bare(name));
                    peers::add(&mut case, &name, pread, POOL_THREADS, Ok(plan.clone()), way);
                }
                _ if name.starts_with("millstream") => {
                    let access = match mode {
                        _ if name == "millstream-auto" => Access::Auto,
                        Mode::Direct => Access::Direct,
                        Mode::Cold | Mode::Warm => Access::Buffered,
                    };
                    // Many small reads of one file at depth: what the `package` option is for.
                    let storage = move || {
                        let mut options = options(name)?;
                        (options.access, options.depth) = (access, depth as u32);
                        options.staging_bytes = STAGING_BYTES;
                        Ok(Storage::new(options)?)
                    };
                    let mut ours = Ours::new(storage);
                    ours.package = true;
                    case.push(name, peers::at_work(Box::new(ours), plan.clone(), way));
                }
                _ => peers::add(&mut case, name, bare(name), depth, Ok(plan.clone()), way),
            }
        }
        case.prepare(|| mode.make_ready(file));
        case.check(plan.destination_len(), |bytes, work| {
            let all = work.requests == plan.reads().len() as u64;
            ensure(all, "not every request ended")?;
            pages.check(plan.reads(), bytes)
        });
        session.run(case)?;
    }
    Ok(())
}

/// Offloading reads to kernel worker threads pays only for large copies out of the page cache, and
/// threads only if there are requests for all of them.
fn takes_part(name: &str, cell: Cell) -> bool {
    match name {
        "ring-async" => cell.mode == Mode::Warm && cell.size >= 64 << 10,
        "millstream-threads" => cell.depth >= POOL_THREADS,
        _ => true,
    }
}
