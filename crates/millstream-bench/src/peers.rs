//! The rivals of the crate `millstream-peers` as contenders: those behind the feature `peers`.
//!
//! A rival whose reads in flight are threads does not get better with ever more of them: how many
//! serve it best is found by a short sweep ahead of the first case of a kind, and no case gives it
//! more. Rivals on a ring get the depth of the case. In `read` and `startup`, which name no depth,
//! the sweep finds depth and block for everyone.
//!
//! Without the feature the crate has no rivals, and no case has any of them.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;

use millstream_peers::{Access, Peer, Plan, Read, Rival, rivals};

use crate::case::{Case, Method, Work};
use crate::clock::{Moment, Span};
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::{DIRECT_ALIGNMENT, drop_path, open_buffered};
use crate::limits::POOL_THREADS;
use crate::memory::Destination;
use crate::requests::cells::{Cell, Mode, held, random_jobs};
use crate::ring::ReadJob;
use crate::startup::plan::Plan as Startup;

pub(crate) mod realtime;

/// Why a rival is left out of reads at random places.
const NO_SEEKS: &str = "its files read ahead after every seek; it reads whole files elsewhere";
/// Files in flight that are tried in `startup`.
const FILE_DEPTHS: [usize; 4] = [4, 8, 32, 128];
/// Files that a trial loads at most.
const TRIAL_FILES: usize = 128;
/// Bytes that a trial reads of a file at most.
const TRIAL_BYTES: u64 = 32 << 20;
/// Blocks and depths that are tried in `read`.
const BLOCKS: [(u32, usize); 5] = [
    (128 << 10, 8),
    (256 << 10, 8),
    (512 << 10, 4),
    (1 << 20, 4),
    (1 << 20, 8),
];
/// Threads that are tried.
const THREADS: [usize; 4] = [4, 8, 16, 32];
/// Requests from this size on are large: what serves them best is another number.
const LARGE_BYTES: usize = 256 << 10;
/// Size and number of the requests that stand for small and large ones.
const SMALL_TRIAL: (usize, usize) = (4 << 10, 512);
const LARGE_TRIAL: (usize, usize) = (1 << 20, 32);
/// Tries of each: the better one counts.
const TRIES: usize = 2;
/// Seed of the places that trials read.
const SEED: u64 = 0x5EEB;

/// Numbers of threads that were found, by rival, mode and whether requests are large.
#[derive(Debug, Default)]
pub(crate) struct Sweeps(HashMap<(&'static str, Mode, bool), usize>);

impl Sweeps {
    /// Adds contenders of a cell of requests.
    pub(crate) fn cell(
        &mut self,
        case: &mut Case<'_>,
        file: &CorpusFile,
        cell: Cell,
        jobs: &[ReadJob],
    ) {
        let access = access_of(cell.mode);
        for rival in rivals() {
            if !rival.accesses.contains(&access) {
                continue;
            }
            if !rival.seeks {
                case.skip(rival.name, NO_SEEKS);
                continue;
            }
            let depth = self.depth(rival, file, cell);
            let plan = plan_of(file, jobs);
            add(case, rival, depth, plan, Way::Requests(access));
        }
    }

    /// The depth that a rival gets in a cell: the cell's, or less where its reads are threads.
    fn depth(&mut self, rival: Rival, file: &CorpusFile, cell: Cell) -> usize {
        if !rival.threads || cell.depth <= THREADS[0] {
            return cell.depth;
        }
        let large = cell.size >= LARGE_BYTES;
        let key = (rival.name, cell.mode, large);
        let best = self.0.entry(key).or_insert_with(|| {
            let (size, count) = if large { LARGE_TRIAL } else { SMALL_TRIAL };
            let jobs = random_jobs(file.stored_len, size, count, SEED);
            let trial = |threads| read_time(rival, file, cell.mode, &jobs, threads, TRIES);
            // A rival that fails here will say why in its case; until then any number does.
            best_of(&THREADS, trial).unwrap_or(THREADS[1])
        });
        (*best).min(cell.depth)
    }
}

/// Seconds that the jobs take at best.
fn read_time(
    rival: Rival,
    file: &CorpusFile,
    mode: Mode,
    jobs: &[ReadJob],
    depth: usize,
    tries: usize,
) -> Result<f64> {
    let way = Way::Requests(access_of(mode));
    let mut trial = AtWork::start(rival, depth, plan_of(file, jobs)?, way)?;
    let mut best = f64::INFINITY;
    for _ in 0..tries {
        mode.make_ready(file)?;
        best = best.min(trial.time()?);
    }
    Ok(best)
}

/// Adds contenders that hand over reads one by one.
pub(crate) fn hand_over(case: &mut Case<'_>, file: &CorpusFile, mode: Mode, jobs: &[ReadJob]) {
    // A rival that cannot hand over is skipped in its case, with the reason.
    for rival in rivals() {
        let way = Way::HandOver(access_of(mode));
        add(case, rival, POOL_THREADS, plan_of(file, jobs), way);
    }
}

/// Adds contenders that load many files.
pub(crate) fn startup(case: &mut Case<'_>, plan: &Startup) {
    for rival in rivals() {
        let way = Way::Files(plan.entries.len() as u64);
        let load_time = |depth: usize| {
            let trial = whole_files(plan, TRIAL_FILES)?;
            trial.files().iter().try_for_each(|path| drop_path(path))?;
            AtWork::start(rival, depth, trial, way)?.time()
        };
        let depth = best_of(&FILE_DEPTHS, load_time).unwrap_or(POOL_THREADS);
        add(case, rival, depth, whole_files(plan, usize::MAX), way);
    }
}

/// Adds contenders that read one big file.
pub(crate) fn read(case: &mut Case<'_>, file: &CorpusFile) {
    let head = CorpusFile {
        stored_len: file.stored_len.min(TRIAL_BYTES),
        ..file.clone()
    };
    for rival in rivals() {
        let access = *rival.accesses.first().unwrap_or(&Access::Buffered);
        let way = |file: &CorpusFile| Way::File(access, file.stored_len as usize);
        let file_time = |(block, depth)| {
            drop_path(&file.path)?;
            let plan = blocks_of(&head, block, access)?;
            AtWork::start(rival, depth, plan, way(&head))?.time()
        };
        let (block, depth) = best_of(&BLOCKS, file_time).unwrap_or(BLOCKS[0]);
        add(
            case,
            rival,
            depth,
            blocks_of(file, block, access),
            way(file),
        );
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

/// A rival at work. Some belong to the thread that started them.
struct AtWork {
    plan: Plan,
    way: Way,
    peer: Box<dyn Peer>,
}

impl AtWork {
    fn start(rival: Rival, depth: usize, plan: Plan, way: Way) -> Result<AtWork> {
        let peer = rival.start(depth)?;
        Ok(AtWork { plan, way, peer })
    }

    /// Seconds of one run, into memory of its own.
    fn time(&mut self) -> Result<f64> {
        let len = match self.way {
            Way::File(_, len) => len,
            _ => self.plan.destination_len(),
        };
        let mut destination = Destination::new(len)?;
        self.prepare()?;
        let span = self.run(&mut destination)?.span;
        Ok(span.map_or(f64::INFINITY, |span| span.wall))
    }
}

/// Adds a rival, or the reason why it cannot run.
fn add(case: &mut Case<'_>, rival: Rival, depth: usize, plan: Result<Plan>, way: Way) {
    let started = plan.and_then(|plan| AtWork::start(rival, depth, plan, way));
    if let Some(contender) = case.try_push(rival.name, started) {
        contender.with("version", rival.version);
        contender
            .with("at_depth", depth)
            .with("copies", rival.copies);
    }
}

impl Method for AtWork {
    fn prepare(&mut self) -> Result<()> {
        match self.way {
            Way::Requests(access) | Way::HandOver(access) => {
                Ok(self.peer.open(&self.plan, access)?)
            }
            _ => Ok(()),
        }
    }

    fn run(&mut self, into: &mut Destination) -> Result<Work> {
        let AtWork { plan, way, peer } = self;
        let (start, mut held_ns) = (Moment::now(), Vec::new());
        match *way {
            Way::Requests(_) => peer.read(plan, into)?,
            Way::HandOver(_) => held_ns = peer.hand_over(plan, into)?,
            Way::Files(_) => peer.load(plan, into)?,
            Way::File(access, len) => {
                peer.open(plan, access)?;
                peer.read(plan, into)?;
                read_rest(plan, &mut into[..len])?;
            }
        }
        let span = start.elapsed();
        // Nothing stays open: a map would keep its pages in the cache, and the next one warm.
        peer.open(&Plan::new(Vec::new(), Vec::new())?, Access::Buffered)?;
        let bytes = plan.reads().iter().map(|read| u64::from(read.len)).sum();
        let work = Work::of(bytes, plan.reads().len()).took(span);
        Ok(match *way {
            Way::Requests(_) => work,
            Way::HandOver(_) => work.with(held(held_ns)),
            Way::Files(requests) => Work { requests, ..work }.with(held_all(&span)),
            Way::File(_, len) => Work::of(len as u64, 1).took(span),
        })
    }
}

/// The figure of those whose caller is held all of the time.
pub(crate) fn held_all(span: &Span) -> crate::case::Figures {
    vec![(crate::metric::Metric::of("held ms"), span.wall * 1e3)]
}

/// The files of a start-up that are wanted, at most so many.
fn whole_files(plan: &Startup, count: usize) -> Result<Plan> {
    let wanted: Vec<_> = plan.wanted().take(count).collect();
    let paths = wanted.iter().map(|entry| entry.file.path.clone());
    let reads = wanted.iter().enumerate().map(|(index, entry)| Read {
        file: index as u32,
        offset: 0,
        place: entry.place.start,
        len: entry.place.len() as u32,
    });
    Ok(Plan::new(paths.collect(), reads.collect())?)
}

/// One file in blocks; direct readers leave out its last bytes, less than a block of a device.
fn blocks_of(file: &CorpusFile, block: u32, access: Access) -> Result<Plan> {
    let len = match access {
        Access::Direct => file.stored_len / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT,
        Access::Buffered => file.stored_len,
    };
    let block = u64::from(block);
    let jobs = (0..len).step_by(block as usize).map(|offset| {
        let len = (len - offset).min(block) as usize;
        ReadJob::new(offset, offset as usize, len)
    });
    plan_of(file, &jobs.collect::<Vec<_>>())
}

/// Reads through the page cache what a direct reader left out at the end of a file.
fn read_rest(plan: &Plan, into: &mut [u8]) -> Result<()> {
    let from = plan.destination_len();
    if from < into.len() {
        let path = &plan.files()[0];
        let read = open_buffered(path)?.read_exact_at(&mut into[from..], from as u64);
        read.on("read", path)?;
    }
    Ok(())
}

/// The candidate with the least time; none if none ran.
fn best_of<T: Copy>(candidates: &[T], trial: impl Fn(T) -> Result<f64>) -> Option<T> {
    let times = candidates
        .iter()
        .filter_map(|it| Some((*it, trial(*it).ok()?)));
    times
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(best, _)| best)
}

fn access_of(mode: Mode) -> Access {
    match mode {
        Mode::Direct => Access::Direct,
        Mode::Cold | Mode::Warm => Access::Buffered,
    }
}

/// The requests of a case as the rivals' plan.
fn plan_of(file: &CorpusFile, jobs: &[ReadJob]) -> Result<Plan> {
    let reads = jobs.iter().map(|job| Read {
        file: 0,
        offset: job.offset,
        place: job.place,
        len: job.len,
    });
    let plan = Plan::new(vec![file.path.clone()], reads.collect());
    plan.map_err(|error| Error::new(format!("plan of a rival: {error}")))
}
