//! The rivals in the cases of `requests`, `startup` and `read`.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use millstream_peers::{Access, Plan, Read, Rival, fio, rivals};

use super::realtime;
use super::remote::{Remote, Task};
use super::sweep::{NO_SEEKS, Sweeps, access_of, best_of, made, plan_of};
use crate::case::{Case, Contender, Work};
use crate::clock::{Moment, Span};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::{DIRECT_ALIGNMENT, open_buffered};
use crate::limits::POOL_THREADS;
use crate::memory::Destination;
use crate::requests::cells::{Cell, HELD, Mode, UNSEEN, held};
use crate::requests::systems::RealtimeSystem;
use crate::ring::ReadJob;

/// Files in flight that are tried in `startup`.
const FILE_DEPTHS: [usize; 4] = [4, 8, 32, 128];
/// Files that a trial loads at most.
const TRIAL_FILES: usize = 256;
/// Blocks and depths that are tried in `read`.
const BLOCKS: [(u32, usize); 5] = [
    (128 << 10, 8),
    (256 << 10, 8),
    (512 << 10, 4),
    (1 << 20, 4),
    (1 << 20, 8),
];

/// What is known of the rivals in a run of the benchmark.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    sweeps: Sweeps,
}

impl Peers {
    /// Contenders of a cell of requests.
    pub(crate) fn cell(
        &mut self,
        case: &mut Case<'_>,
        file: &CorpusFile,
        cell: Cell,
        jobs: &[ReadJob],
    ) {
        let access = access_of(cell.mode);
        for rival in rivals()
            .into_iter()
            .filter(|it| it.accesses.contains(&access))
        {
            if !rival.seeks {
                case.skip(rival.name, NO_SEEKS);
                continue;
            }
            let depth = self.sweeps.depth(rival, file, cell);
            let plan = plan_of(file, jobs);
            let made = plan.and_then(|plan| Peer::new(rival, depth, plan, Way::Requests(access)));
            case.try_push(rival.name, made);
        }
    }

    /// Contenders that hand over reads one by one.
    pub(crate) fn held(
        &mut self,
        case: &mut Case<'_>,
        file: &CorpusFile,
        mode: Mode,
        jobs: &[ReadJob],
    ) {
        // A rival that cannot hand over is skipped in its case, with the reason.
        for rival in rivals() {
            let plan = plan_of(file, jobs);
            let way = Way::HandOver(access_of(mode));
            let made = plan.and_then(|plan| Peer::new(rival, POOL_THREADS, plan, way));
            case.try_push(rival.name, made);
        }
    }

    /// Contenders that load many files.
    pub(crate) fn startup(&mut self, case: &mut Case<'_>, plan: &Arc<crate::startup::plan::Plan>) {
        let requests = plan.entries.len() as u64;
        for rival in rivals() {
            let made = whole_files(plan, usize::MAX).and_then(|whole| {
                let trial = whole_files(plan, TRIAL_FILES)?;
                let depth = best_of(&FILE_DEPTHS, |depth| load_time(rival, depth, &trial));
                Peer::new(
                    rival,
                    depth.unwrap_or(POOL_THREADS),
                    whole,
                    Way::Files(requests),
                )
            });
            case.try_push(rival.name, made);
        }
    }

    /// Contenders that read one big file.
    pub(crate) fn read(&mut self, case: &mut Case<'_>, file: &CorpusFile) {
        for rival in rivals() {
            let access = *rival.accesses.first().unwrap_or(&Access::Buffered);
            let len = file.stored_len as usize;
            let trial = |(block, depth)| file_time(rival, file, access, block, depth);
            let (block, depth) = best_of(&BLOCKS, trial).unwrap_or(BLOCKS[0]);
            let made = blocks_of(file, block, access).and_then(|plan| {
                let peer = Peer::new(rival, depth, plan, Way::File(access, len))?;
                Ok(peer.with("block_bytes", block))
            });
            case.try_push(rival.name, made);
        }
    }

    /// Systems of realtime readers beside bulk.
    pub(crate) fn realtime(
        &mut self,
        file: &CorpusFile,
        bulk: &[ReadJob],
    ) -> Vec<(&'static str, Result<Arc<dyn RealtimeSystem>>)> {
        realtime::systems(file, bulk)
    }

    /// fio in a cell, of which it reads `requests` requests; its bytes cannot be checked.
    pub(crate) fn fio(
        &self,
        case: &mut Case<'_>,
        path: &Path,
        cell: Cell,
        requests: u64,
        random: bool,
    ) {
        let path = path.to_owned();
        let run = move |_: &mut Destination| {
            let figures = fio::run(&fio::Job {
                file: &path,
                request_bytes: cell.size as u64,
                requests,
                depth: cell.depth,
                access: access_of(cell.mode),
                random,
            })?;
            let span = Span {
                wall: figures.seconds,
                cpu: figures.cpu_seconds,
            };
            let work = Work::of(figures.bytes, figures.requests as usize);
            Ok(work.took(span).with_digest(UNSEEN))
        };
        let made = fio::version().map_err(Error::from);
        let contender = |version| Contender::new("fio", run).with("version", version);
        let made = made.map(|version: String| contender(version).with("checked", false));
        case.try_push("fio", made);
    }
}

/// How a rival is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Files are open before the clock starts.
    Requests(Access),
    /// As above, and the calls are timed.
    HandOver(Access),
    /// The one file, of so many bytes, is opened within the time that counts.
    File(Access, usize),
    /// Every read is a file; so many requests count as served.
    Files(u64),
}

/// A rival at work.
struct Peer {
    plan: Plan,
    way: Way,
    remote: Remote,
}

impl Peer {
    #[expect(clippy::new_ret_no_self, reason = "a contender is made of it")]
    fn new(rival: Rival, depth: usize, plan: Plan, way: Way) -> Result<Contender> {
        let remote = Remote::start(rival, depth)?;
        let peer = Rc::new(RefCell::new(Peer { plan, way, remote }));
        let same = Rc::clone(&peer);
        let run = move |destination: &mut Destination| peer.borrow_mut().run(destination);
        let contender = Contender::new(rival.name, run).with("version", rival.version);
        let contender = contender
            .with("at_depth", depth)
            .with("copies", rival.copies);
        Ok(Contender {
            prepare: Box::new(move || same.borrow_mut().prepare()),
            ..contender
        })
    }

    fn prepare(&mut self) -> Result<()> {
        if let Way::Requests(access) | Way::HandOver(access) = self.way {
            // Nothing is read: any memory will do.
            let mut none = Destination::new(0)?;
            self.remote.run(Task::Open(access), &self.plan, &mut none)?;
        }
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let task = match self.way {
            Way::Requests(_) => Task::Read,
            Way::HandOver(_) => Task::HandOver,
            Way::File(access, _) => Task::OpenAndRead(access),
            Way::Files(_) => Task::Load,
        };
        let (span, held_ns) = self.remote.run(task, &self.plan, destination)?;
        // Nothing stays open: a map would keep its pages in the cache, and the next one warm.
        self.remote.close()?;
        let reads = self.plan.reads();
        let bytes = reads.iter().map(|read| u64::from(read.len)).sum();
        let mut work = Work::of(bytes, reads.len()).took(span);
        match self.way {
            Way::HandOver(_) => work.extra = held(held_ns),
            Way::Files(requests) => {
                work.requests = requests;
                work.extra = vec![(HELD, span.wall * 1e3)];
            }
            Way::Requests(_) => {}
            Way::File(_, len) => {
                let start = Moment::now();
                let from = self.plan.destination_len();
                read_rest(&self.plan.files()[0], &mut destination[..len], from)?;
                let rest = start.elapsed();
                work = Work::of(len as u64, 1).took(Span {
                    wall: span.wall + rest.wall,
                    cpu: span.cpu + rest.cpu,
                });
            }
        }
        Ok(work)
    }
}

/// The files of a start-up that are wanted, at most so many.
fn whole_files(plan: &crate::startup::plan::Plan, count: usize) -> Result<Plan> {
    let wanted: Vec<_> = plan.wanted().take(count).collect();
    let paths: Vec<PathBuf> = wanted.iter().map(|entry| entry.file.path.clone()).collect();
    let reads = wanted.iter().enumerate().map(|(index, entry)| Read {
        file: index as u32,
        offset: 0,
        place: entry.place.start,
        len: entry.place.len() as u32,
    });
    made(Plan::new(paths, reads.collect()))
}

/// Seconds that loading the files takes, cold.
fn load_time(rival: Rival, depth: usize, plan: &Plan) -> Result<f64> {
    let mut destination = Destination::new(plan.destination_len())?;
    let mut remote = Remote::start(rival, depth)?;
    plan.files()
        .iter()
        .try_for_each(|path| cold::drop_path(path))?;
    let (span, _) = remote.run(Task::Load, plan, &mut destination)?;
    Ok(span.wall)
}

/// One file in blocks; direct readers leave out its last bytes, less than a block of a device.
fn blocks_of(file: &CorpusFile, block: u32, access: Access) -> Result<Plan> {
    let len = match access {
        Access::Direct => file.stored_len / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT,
        Access::Buffered => file.stored_len,
    };
    let count = len.div_ceil(u64::from(block));
    let reads = (0..count).map(|index| {
        let offset = index * u64::from(block);
        Read {
            file: 0,
            offset,
            place: offset as usize,
            len: (len - offset).min(u64::from(block)) as u32,
        }
    });
    made(Plan::new(vec![file.path.clone()], reads.collect()))
}

/// Reads the bytes of a file from `from` on through the page cache: what a direct reader left out.
fn read_rest(path: &Path, into: &mut [u8], from: usize) -> Result<()> {
    if from == into.len() {
        return Ok(());
    }
    let read = open_buffered(path)?.read_exact_at(&mut into[from..], from as u64);
    read.on("read", path)
}

/// Seconds that reading the file takes, cold.
fn file_time(
    rival: Rival,
    file: &CorpusFile,
    access: Access,
    block: u32,
    depth: usize,
) -> Result<f64> {
    let plan = blocks_of(file, block, access)?;
    let mut destination = Destination::new(plan.destination_len())?;
    let mut remote = Remote::start(rival, depth)?;
    cold::drop_path(&file.path)?;
    let task = Task::OpenAndRead(access);
    Ok(remote.run(task, &plan, &mut destination)?.0.wall)
}
