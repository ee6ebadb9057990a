//! Contenders that read a plan: the rivals of the crate `millstream-peers`, and ours.
//!
//! A rival whose reads in flight are threads does not improve with ever more of them: a short sweep
//! ahead of the first case of a kind finds the number that serves it best, and no case gives it
//! more. Rivals on a ring get the depth of the case. In `read` and `startup`, which name no depth,
//! the sweep finds depth and block size for every rival.
//!
//! Without the feature `peers` there are no libraries, and no case includes any.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use millstream_peers::{Access, Peer, Plan, Read, Rival, rivals};

use crate::prelude::*;
use crate::requests::cells::{Cell, Mode, held, random_reads};
use crate::startup::plan::Plan as Startup;

const FILE_DEPTHS: [usize; 4] = [4, 8, 32, 128];
const TRIAL_FILES: usize = 128;
const TRIAL_BYTES: u64 = 32 << 20;
const BLOCKS: [(u32, usize); 5] = [
    (128 << 10, 8),
    (256 << 10, 8),
    (512 << 10, 4),
    (1 << 20, 4),
    (1 << 20, 8),
];
const THREADS: [usize; 4] = [4, 8, 16, 32];
/// Size from which requests are large: another number of threads serves them best.
const LARGE_BYTES: usize = 256 << 10;
const SEED: u64 = 0x5EEB;

/// Numbers of threads found by sweeps, by rival, mode and whether requests are large.
#[derive(Debug, Default)]
pub(crate) struct Sweeps(HashMap<(&'static str, Mode, bool), usize>);

impl Sweeps {
    pub(crate) fn cell(&mut self, case: &mut Case<'_>, file: &CorpusFile, cell: Cell, plan: &Plan) {
        let access = cell.mode.access();
        for rival in rivals().iter().filter(|it| it.accesses.contains(&access)) {
            let depth = self.depth(*rival, file, cell);
            let plan = Ok(plan.clone());
            add(case, rival.name, *rival, depth, plan, Way::Requests(access));
        }
    }

    /// Returns the depth of a rival in a cell: the cell's, or less if its reads are threads.
    fn depth(&mut self, rival: Rival, file: &CorpusFile, cell: Cell) -> usize {
        if !rival.threads || cell.depth <= THREADS[0] {
            return cell.depth;
        }
        let large = cell.size >= LARGE_BYTES;
        let best = self.0.entry((rival.name, cell.mode, large));
        let best = best.or_insert_with(|| {
            let (size, count) = if large { (1 << 20, 32) } else { (4 << 10, 512) };
            // A rival that fails here reports why in its case; until then any number does.
            let found = best_of(&THREADS, |threads| {
                let plan = random_reads(file, size, count, SEED)?;
                read_time(rival, file, cell.mode, &plan, threads)
            });
            found.unwrap_or(THREADS[1])
        });
        (*best).min(cell.depth)
    }
}

pub(crate) fn read_time(
    rival: Rival,
    file: &CorpusFile,
    mode: Mode,
    plan: &Plan,
    depth: usize,
) -> Result<f64> {
    let way = Way::Requests(mode.access());
    let mut trial = at_work(rival.start(depth)?, plan.clone(), way);
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        mode.make_ready(file)?;
        best = best.min(trial.time()?);
    }
    Ok(best)
}

/// Returns the candidate with the least time; `None` if none ran.
fn best_of<T: Copy>(candidates: &[T], trial: impl Fn(T) -> Result<f64>) -> Option<T> {
    let times = candidates
        .iter()
        .filter_map(|it| Some((*it, trial(*it).ok()?)));
    times.min_by(|a, b| a.1.total_cmp(&b.1)).map(|best| best.0)
}

/// Adds all libraries; one that cannot submit without waiting is skipped, with the reason.
pub(crate) fn hand_over(case: &mut Case<'_>, plan: &Plan, way: Way) {
    for rival in rivals() {
        add(case, rival.name, rival, POOL_THREADS, Ok(plan.clone()), way);
    }
}

pub(crate) fn startup(case: &mut Case<'_>, plan: &Startup) {
    for rival in rivals() {
        let depth = best_of(&FILE_DEPTHS, |depth| {
            let trial = whole_files(plan, TRIAL_FILES)?;
            drop_all(trial.files())?;
            at_work(rival.start(depth)?, trial, Way::Files(0)).time()
        });
        add_files(case, rival.name, rival, depth.unwrap_or(POOL_THREADS), plan);
    }
}

pub(crate) fn read(case: &mut Case<'_>, file: &CorpusFile) {
    let (path, len) = (&file.path, file.stored_len);
    for rival in rivals() {
        let access = rival.accesses[0];
        let best = best_of(&BLOCKS, |(block, depth)| {
            drop_path(path)?;
            let len = len.min(TRIAL_BYTES);
            let plan = blocks_of(path, len, block, access)?;
            at_work(rival.start(depth)?, plan, Way::File(access, len as usize)).time()
        });
        let (block, depth) = best.unwrap_or(BLOCKS[0]);
        let (plan, way) = (
            blocks_of(path, len, block, access),
            Way::File(access, len as usize),
        );
        add(case, rival.name, rival, depth, plan, way);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Files are open before the clock starts.
    Requests(Access),
    /// As [`Way::Requests`], and the submitting calls are timed.
    HandOver(Access),
    /// The only file, of this many bytes, is opened within the time that counts.
    File(Access, usize),
    /// Every read is a file; this many requests count as served.
    Files(u64),
}

/// A peer with its plan. Some peers belong to the thread that started them.
pub(crate) struct AtWork {
    plan: Plan,
    way: Way,
    peer: Box<dyn Peer>,
}

pub(crate) fn at_work(peer: Box<dyn Peer>, plan: Plan, way: Way) -> AtWork {
    AtWork { plan, way, peer }
}

pub(crate) fn add(
    case: &mut Case<'_>,
    name: &str,
    rival: Rival,
    depth: usize,
    plan: Result<Plan>,
    way: Way,
) {
    let started = plan.and_then(|plan| Ok(at_work(rival.start(depth)?, plan, way)));
    if let Some(contender) = case.try_push(name, started) {
        contender.with("at_depth", depth);
        if !rival.version.is_empty() {
            contender.with("version", rival.version);
        }
    }
}

pub(crate) fn bare(kind: &str) -> Rival {
    millstream_peers::bare(kind).expect("a name of cases.toml")
}

pub(crate) fn add_files(
    case: &mut Case<'_>,
    name: &str,
    rival: Rival,
    depth: usize,
    plan: &Startup,
) {
    let way = Way::Files(plan.entries.len() as u64);
    add(case, name, rival, depth, whole_files(plan, usize::MAX), way);
}

/// Reads the first `len` bytes of a file with the bare ring and direct I/O.
fn straight(path: &Path, len: u64, block: u32, depth: usize) -> Result<AtWork> {
    let plan = blocks_of(path, len, block, Access::Direct)?;
    let way = Way::File(Access::Direct, len as usize);
    Ok(at_work(bare("ring-plain").start(depth)?, plan, way))
}

/// Reads a whole file as [`straight`] does, in the shape that is best on NVMe-class devices: blocks
/// of 512 KiB, eight in flight.
pub(crate) fn device(path: &Path) -> Result<AtWork> {
    straight(path, len_of(path)?, 512 << 10, 8)
}

/// Adds [`straight`] as a contender whose name gives the shape: `ring-512Kx8`.
pub(crate) fn add_straight(case: &mut Case<'_>, name: &str, path: &Path, len: u64) {
    let shape = name.strip_prefix("ring-");
    let shape = shape.and_then(|it| it.split_once("Kx"));
    let number = |text: &str| text.parse::<u32>().expect("a number in cases.toml");
    let (block, depth) = shape.expect("a shape in cases.toml");
    let (block, depth) = (number(block) << 10, number(depth));
    case.try_push(name, straight(path, len, block, depth as usize));
}

impl AtWork {
    /// Returns the seconds of one run, into memory of its own.
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

impl Method for AtWork {
    fn prepare(&mut self) -> Result<()> {
        if let Way::Requests(access) | Way::HandOver(access) = self.way {
            self.peer.open(&self.plan, access)?;
        }
        Ok(())
    }

    fn run(&mut self, into: &mut Destination) -> Result<Work> {
        let AtWork { plan, way, peer } = self;
        peer.expect(into)?;
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
        peer.expect(&mut [])?;
        // Nothing stays open: a map would keep its pages in the cache, and the next run warm.
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

/// Returns the figure of contenders whose caller is held all of the time.
fn held_all(span: &Span) -> Figures {
    vec![(Metric::of("held ms"), span.wall * 1e3)]
}

/// Returns a plan of the wanted files of a start-up, at most `count`.
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

/// Returns a plan of the first `len` bytes of a file in blocks; direct reads leave out the last
/// bytes, less than [`DIRECT_ALIGNMENT`].
fn blocks_of(path: &Path, len: u64, block: u32, access: Access) -> Result<Plan> {
    let len = match access {
        Access::Direct => len / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT,
        Access::Buffered => len,
    };
    let reads = (0..len).step_by(block as usize).map(|offset| Read {
        file: 0,
        offset,
        place: offset as usize,
        len: (len - offset).min(u64::from(block)) as u32,
    });
    Ok(Plan::new(vec![path.to_owned()], reads.collect())?)
}

/// Reads through the page cache what direct reads left out at the end of a file.
fn read_rest(plan: &Plan, into: &mut [u8]) -> Result<()> {
    let from = plan.destination_len();
    if from < into.len() {
        let path = &plan.files()[0];
        let read = open_buffered(path)?.read_exact_at(&mut into[from..], from as u64);
        read.on("read", path)?;
    }
    Ok(())
}
