//! The rivals in the cases of `requests`, `startup` and `read`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_peers::{Access, Plan, Read, Rival, fio, rivals};

use super::remote::{Remote, Task};
use super::sweep::{Sweeps, access_of, best_of, made, plan_of};
use super::{NO_SEEKS, realtime};
use crate::clock::{Moment, Span};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::limits::POOL_THREADS;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::read::DIRECT_ALIGNMENT;
use crate::requests::realtime::RealtimeSystem;
use crate::requests::{Cell, Mode, heat, held};
use crate::ring::ReadJob;
use crate::rows::{Params, Row};
use crate::startup;
use crate::workload::Field;

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
        field: &mut Field,
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
                field.try_add::<Peer>(rival.name, Err(Error::new(NO_SEEKS)));
                continue;
            }
            let depth = self.sweeps.depth(rival, file, cell);
            let plan = plan_of(file, jobs);
            let made = plan.and_then(|plan| Peer::new(rival, depth, plan, Way::Requests(access)));
            field.try_add(rival.name, made);
        }
    }

    /// Contenders that hand over reads one by one.
    pub(crate) fn held(
        &mut self,
        field: &mut Field,
        file: &CorpusFile,
        mode: Mode,
        jobs: &[ReadJob],
    ) {
        // Who cannot hand over says so in its case.
        for rival in rivals() {
            let plan = plan_of(file, jobs);
            let way = Way::HandOver(access_of(mode));
            let made = plan.and_then(|plan| Peer::new(rival, POOL_THREADS, plan, way));
            field.try_add(rival.name, made);
        }
    }

    /// Contenders that load many files.
    pub(crate) fn startup(&mut self, field: &mut Field, plan: &Arc<startup::Plan>) {
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
            field.try_add(rival.name, made);
        }
    }

    /// Contenders that read one big file.
    pub(crate) fn read(&mut self, field: &mut Field, file: &CorpusFile) {
        for rival in rivals() {
            let access = *rival.accesses.first().unwrap_or(&Access::Buffered);
            let len = file.stored_len as usize;
            let trial = |(block, depth)| file_time(rival, file, access, block, depth);
            let (block, depth) = best_of(&BLOCKS, trial).unwrap_or(BLOCKS[0]);
            let made = blocks_of(file, block, access).and_then(|plan| {
                let mut peer = Peer::new(rival, depth, plan, Way::File(access, len))?;
                peer.params.insert("block_bytes".into(), block.into());
                Ok(peer)
            });
            field.try_add(rival.name, made);
        }
    }

    /// Systems of realtime readers beside bulk, and rows of those that cannot run.
    pub(crate) fn realtime(
        &mut self,
        systems: &mut Vec<Arc<dyn RealtimeSystem>>,
        file: &CorpusFile,
        bulk: &[ReadJob],
    ) -> Vec<Row> {
        realtime::systems(systems, file, bulk)
    }

    /// fio in a cell, of which it reads `requests` requests.
    pub(crate) fn fio(
        &self,
        field: &mut Field,
        path: &Path,
        cell: Cell,
        requests: u64,
        random: bool,
    ) {
        let made = fio::version().map_err(|error| Error::new(error.to_string()));
        let made = made.map(|version| Fio {
            version,
            path: path.to_owned(),
            cell,
            requests,
            random,
        });
        field.try_add("fio", made);
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

/// A rival as a contender.
struct Peer {
    rival: Rival,
    plan: Plan,
    way: Way,
    remote: Remote,
    params: Params,
}

impl Peer {
    fn new(rival: Rival, depth: usize, plan: Plan, way: Way) -> Result<Peer> {
        let params = Params::from([
            ("version".into(), rival.version.into()),
            ("at_depth".into(), depth.into()),
            ("copies".into(), rival.copies.into()),
        ]);
        Ok(Peer {
            rival,
            plan,
            way,
            remote: Remote::start(rival, depth)?,
            params,
        })
    }

    fn work(&self, span: Span) -> Work {
        let reads = self.plan.reads();
        Work {
            bytes: reads.iter().map(|read| u64::from(read.len)).sum(),
            requests: reads.len() as u64,
            span: Some(span),
            ..Work::default()
        }
    }
}

impl Contender for Peer {
    fn name(&self) -> String {
        self.rival.name.into()
    }

    fn params(&self) -> Params {
        self.params.clone()
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
        let mut work = self.work(span);
        match self.way {
            Way::HandOver(_) => work.extra = held::figures(held_ns),
            Way::Files(requests) => {
                work.requests = requests;
                work.extra = vec![(held::TOTAL, span.wall * 1e3)];
            }
            Way::Requests(_) => {}
            Way::File(_, len) => {
                let start = Moment::now();
                let from = self.plan.destination_len();
                read_rest(&self.plan.files()[0], &mut destination[..len], from)?;
                let rest = start.elapsed();
                work.span = Some(Span {
                    wall: span.wall + rest.wall,
                    cpu: span.cpu + rest.cpu,
                });
                (work.bytes, work.requests) = (len as u64, 1);
            }
        }
        Ok(work)
    }
}

/// The files of a start-up that are wanted, at most so many.
fn whole_files(plan: &startup::Plan, count: usize) -> Result<Plan> {
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
    let file = File::open(path).map_err(|error| Error::file("open", path, error))?;
    file.read_exact_at(&mut into[from..], from as u64)
        .map_err(|error| Error::file("read", path, error))
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

/// fio, whose bytes nobody sees.
struct Fio {
    version: String,
    path: PathBuf,
    cell: Cell,
    requests: u64,
    random: bool,
}

impl Contender for Fio {
    fn name(&self) -> String {
        "fio".into()
    }

    fn params(&self) -> Params {
        Params::from([
            ("version".into(), self.version.clone().into()),
            ("checked".into(), false.into()),
        ])
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let figures = fio::run(&fio::Job {
            file: &self.path,
            request_bytes: self.cell.size as u64,
            requests: self.requests,
            depth: self.cell.depth,
            access: access_of(self.cell.mode),
            random: self.random,
        });
        let figures = figures.map_err(|error| Error::new(error.to_string()))?;
        Ok(Work {
            bytes: figures.bytes,
            requests: figures.requests,
            digest: Some(heat::UNSEEN),
            span: Some(Span {
                wall: figures.seconds,
                cpu: figures.cpu_seconds,
            }),
            ..Work::default()
        })
    }
}
