//! Requests on cores that other processes use: one cold read, the submission of a batch, and the
//! frames of a program that streams a world.
//!
//! The other processes spin, and end with the benchmark. Contenders take turns read by read: the
//! scheduler treats a thread by what it has done lately, so that a long turn of one contender would
//! measure its own history.

use std::io::ErrorKind;
use std::slice::Iter;
use std::time::{Duration, Instant};

use millstream::{Buffer, Completion, Priority, Storage};
use millstream_peers::{Access, Peer, Plan, Read, rivals};
use millstream_report::rows::is_ours;

use crate::case::{Samples, Work};
use crate::cases::Instance;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::files::drop_path;
use crate::memory::Destination;
use crate::metric::Metric;
use crate::ours::{Ours, Ready, Setup};
use crate::peers::bare;
use crate::requests::callers::STEP_BYTES;
use crate::requests::cells::{PAGE_BYTES, PageHashes, percentiles, random_reads};
use crate::rows::Params;
use crate::session::Session;
use crate::stats;
use crate::threads::Disturber;

/// Number of reads whose submission is timed together.
const BATCH: usize = 16;
/// A batch is submitted in one of so many rounds over all contenders.
const BATCH_EVERY: usize = 4;
/// Time for which the caller computes between rounds.
const PAUSE: Duration = Duration::from_micros(500);

/// A contender and what it has measured.
struct Reader {
    name: String,
    peer: Box<dyn Peer>,
    access: Access,
    /// Whether reads can be submitted without waiting for them.
    submits: bool,
    read_ns: Vec<u64>,
    submit_ns: Vec<u64>,
    samples: Samples,
    failed: Option<Error>,
}

/// Measures one cold read of 4 KiB alone, and the calls that submit [`BATCH`] reads.
pub(super) fn single(
    session: &mut Session<'_>,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    for instance in session.cases("requests", "busy") {
        let runs = session.begin(&instance).runs;
        let turn = Duration::from_millis(instance.get("milliseconds"));
        let mut readers = readers(session, &instance)?;
        let loops = Disturber::loops(instance.get("loops"), instance.get("nice"))?;
        for seed in 0..runs {
            drop_path(&file.path)?;
            let places = random_reads(file, STEP_BYTES, usize::MAX, seed as u64)?;
            one_turn(&mut readers, &places, turn, pages)?;
        }
        drop(loops);
        for reader in readers {
            let (case, name) = (&*instance.name, &*reader.name);
            let Some(why) = reader.failed else {
                let rows = reader.samples.rows("requests", case, name, &Params::new());
                session.keep(rows)?;
                continue;
            };
            if is_ours(name) {
                session
                    .failures
                    .push(format!("requests {case} {name}: {why}"));
            }
            session.skip(&instance, name, &why)?;
        }
    }
    Ok(())
}

/// Starts the contenders of a case.
fn readers(session: &mut Session<'_>, instance: &Instance) -> Result<Vec<Reader>> {
    let mut readers = Vec::new();
    let mut add = |name: &str, peer: Result<Box<dyn Peer>>, access| match peer {
        Ok(peer) => {
            readers.push(Reader {
                name: name.to_owned(),
                peer,
                access,
                submits: true,
                read_ns: Vec::new(),
                submit_ns: Vec::new(),
                samples: Samples::default(),
                failed: None,
            });
            Ok(())
        }
        Err(why) => session.skip(instance, name, &why),
    };
    for name in instance.contenders() {
        match name {
            "pread" => add(name, Ok(bare(name).start(1)?), Access::Direct)?,
            "libraries" => {
                for rival in rivals().into_iter().filter(|rival| rival.seeks) {
                    let peer = rival.start(BATCH).map_err(Error::from);
                    add(rival.name, peer, rival.accesses[0])?;
                }
            }
            _ => {
                let ours = |storage| Box::new(Ours::sharing(&storage, Priority::default()));
                let ours = Setup::named(name).storage().map(ours);
                add(name, ours.map(|it| it as _), Access::Direct)?;
            }
        }
    }
    Ok(readers)
}

/// Runs rounds over all contenders until the time or the places have run out; the first one does
/// not count.
fn one_turn(
    readers: &mut [Reader],
    places: &Plan,
    turn: Duration,
    pages: &PageHashes,
) -> Result<()> {
    let files = Plan::new(places.files().to_vec(), Vec::new())?;
    for reader in readers.iter_mut().filter(|it| it.failed.is_none()) {
        reader.failed = reader
            .peer
            .open(&files, reader.access)
            .err()
            .map(Error::from);
    }
    let mut into = Destination::new(BATCH * PAGE_BYTES)?;
    let (mut left, start) = (places.reads().iter(), Instant::now());
    for round in 0.. {
        let with_batch = round % BATCH_EVERY == 0;
        let going = readers.iter_mut().filter(|it| it.failed.is_none());
        let mut all = true;
        for reader in going {
            match reader.round(&mut left, &files, with_batch, &mut into, pages) {
                Ok(found) => all &= found,
                Err(why) => reader.failed = Some(why),
            }
            if round == 0 {
                reader.read_ns.clear();
                reader.submit_ns.clear();
            }
        }
        if !all || start.elapsed() > turn {
            break;
        }
        let pause = Instant::now();
        while pause.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
    }
    for reader in readers {
        reader.end_turn()?;
    }
    Ok(())
}

/// Takes the next places, a page at each, to be read one behind the other.
fn next(left: &mut Iter<'_, Read>, files: &Plan, count: usize) -> Result<Option<Plan>> {
    let read = |(nth, read): (usize, &Read)| Read {
        place: nth * PAGE_BYTES,
        len: PAGE_BYTES as u32,
        ..*read
    };
    let reads: Vec<Read> = left.by_ref().take(count).enumerate().map(read).collect();
    match reads.len() == count {
        true => Ok(Some(Plan::new(files.files().to_vec(), reads)?)),
        false => Ok(None),
    }
}

impl Reader {
    /// Reads a page, and submits a batch if it can; returns whether there were places left.
    fn round(
        &mut self,
        left: &mut Iter<'_, Read>,
        files: &Plan,
        with_batch: bool,
        into: &mut [u8],
        pages: &PageHashes,
    ) -> Result<bool> {
        let Some(one) = next(left, files, 1)? else {
            return Ok(false);
        };
        into[0] = !into[0];
        let start = Instant::now();
        self.peer.read(&one, into)?;
        self.read_ns.push(start.elapsed().as_nanos() as u64);
        pages.check(one.reads(), into)?;
        if !(with_batch && self.submits) {
            return Ok(true);
        }
        let Some(batch) = next(left, files, BATCH)? else {
            return Ok(false);
        };
        into.chunks_mut(PAGE_BYTES)
            .for_each(|page| page[0] = !page[0]);
        match self.peer.hand_over(&batch, into) {
            Err(error) if error.kind() == ErrorKind::Unsupported => self.submits = false,
            held_ns => {
                self.submit_ns.push(held_ns?.iter().sum());
                pages.check(batch.reads(), into)?;
            }
        }
        Ok(true)
    }

    /// Closes the file and turns the times into figures.
    fn end_turn(&mut self) -> Result<()> {
        self.peer
            .open(&Plan::new(Vec::new(), Vec::new())?, self.access)?;
        if !self.read_ns.is_empty() {
            let mean = self.read_ns.iter().sum::<u64>() as f64 / self.read_ns.len() as f64 / 1e3;
            self.samples.extend(vec![(Metric::of("mean us"), mean)]);
            let of_reads = percentiles(["p50 us", "p99 us"], &mut self.read_ns);
            self.samples.extend(of_reads);
        }
        if !self.submit_ns.is_empty() {
            let p99 = stats::percentile(&mut self.submit_ns, 0.99) as f64 / 1e3;
            self.samples
                .extend(vec![(Metric::of("submit-p99 us"), p99)]);
        }
        self.read_ns.clear();
        self.submit_ns.clear();
        Ok(())
    }
}

const TILE_BYTES: usize = 64 << 10;
const TILES_PER_FRAME: usize = 8;
const FRAME: Duration = Duration::from_millis(16);
/// What a frame spends on what has arrived.
const BUDGET: Duration = Duration::from_millis(2);

/// Measures the frames of the example `stream_world` on a cold file. A frame is the time from its
/// first call until nothing more has arrived; the bytes are checked after it.
pub(super) fn world(
    session: &mut Session<'_>,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    for instance in session.cases("requests", "world") {
        let tiles: usize = instance.get("tiles");
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let setup = Setup::named(name);
            let storage = setup.storage()?;
            let ready = Ready::new(storage.clone(), &file.path, setup, tiles)?;
            case.add(name, move |_| frames(&storage, &ready, tiles, pages));
        }
        case.prepare(|| drop_path(&file.path));
        let _loops = Disturber::loops(instance.get("loops"), 0)?;
        session.run(case)?;
    }
    Ok(())
}

fn frames(storage: &Storage, ready: &Ready, tiles: usize, pages: &PageHashes) -> Result<Work> {
    let missed_before = storage.stats().deadlines_missed;
    let mut batch = ready.queue.batch();
    let mut arrived: [Completion; 16] = Default::default();
    let (mut next, mut shown, mut worst) = (0, 0, Duration::ZERO);
    while shown < tiles {
        let (start, mut taken) = (Instant::now(), Vec::new());
        let end = tiles.min(next + TILES_PER_FRAME);
        for tile in next..end {
            // Every eighth tile is in view: it is wanted by the next frame.
            let (priority, frames_left) = match tile % TILES_PER_FRAME {
                0 => (Priority::High, 1),
                _ => (Priority::Normal, 4),
            };
            let request = ready.request(&tile_of(tile)).priority(priority);
            let request = request.deadline(start + FRAME * frames_left);
            batch.post(request.user_data(tile as u64))?;
        }
        next = end;
        batch.submit();
        while start.elapsed() < BUDGET {
            let count = ready.queue.drain_completions(&mut arrived);
            if count == 0 {
                break;
            }
            let tile = |it: &mut Completion| (it.user_data, it.take_memory::<Buffer>());
            taken.extend(arrived[..count].iter_mut().map(tile));
        }
        worst = worst.max(start.elapsed());
        for (tile, memory) in taken {
            let memory = memory.ok_or_else(|| Error::new("a tile failed"))?;
            pages.check(&[tile_of(tile as usize)], &memory)?;
            shown += 1;
        }
        std::thread::sleep(FRAME.saturating_sub(start.elapsed()));
    }
    let missed = storage.stats().deadlines_missed - missed_before;
    Ok(Work::figures(vec![
        (Metric::of("worst-frame us"), worst.as_secs_f64() * 1e6),
        (Metric::of("missed tiles"), missed as f64),
    ]))
}

/// The read of a tile into memory of its own.
fn tile_of(tile: usize) -> Read {
    Read {
        file: 0,
        offset: (tile * TILE_BYTES) as u64,
        place: 0,
        len: TILE_BYTES as u32,
    }
}
