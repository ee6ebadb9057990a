//! One request of 4 KiB alone, from its submission to having its bytes: cold, warm, and beside
//! processes that spin, where the calls that submit [`BATCH`] of them are timed, too.
//!
//! The processes end with the benchmark. Beside them contenders take turns read by read: the
//! scheduler treats a thread by what it has done lately, so that a long turn of one contender would
//! measure its own history. Otherwise each contender has a turn of its own in each round.

use std::io::ErrorKind;
use std::slice::Iter;
use std::time::{Duration, Instant};

use millstream::Storage;
use millstream_peers::{Access, Peer, Plan, Read, rivals};
use millstream_report::rows::is_ours;

use crate::ours::{Ours, options};
use crate::peers::bare;
use crate::prelude::*;
use crate::requests::cells::{Mode, PAGE_BYTES, PageHashes, percentiles, random_reads};
use crate::rows::Params;
use crate::stats;
use crate::threads::Disturber;

/// Bytes between requests, no less than any read-ahead of a random read, so that none finds pages
/// that another has read: the default read-ahead of Linux is 128 KiB.
const STEP_BYTES: usize = 128 << 10;
const BATCH: usize = 16;
/// A batch is submitted in one of so many rounds over all contenders.
const BATCH_EVERY: usize = 4;
/// Time for which the caller computes between rounds beside other processes.
const PAUSE: Duration = Duration::from_micros(500);

struct Reader {
    name: String,
    peer: Box<dyn Peer>,
    access: Access,
    /// Whether it is timed as it submits reads without waiting for them.
    submits: bool,
    read_ns: Vec<u64>,
    submit_ns: Vec<u64>,
    samples: Samples,
    failed: Option<Error>,
}

pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    for instance in session.cases("requests", "single") {
        let (runs, mode) = (session.begin(&instance).runs, instance.get::<Mode>("mode"));
        let turn = Duration::from_millis(instance.get("milliseconds"));
        let loops = Disturber::loops(instance.get("loops"), instance.get("nice"))?;
        let mut readers = readers(session, &instance, mode, !loops.is_empty())?;
        warm_path(&file.path)?;
        let together = if loops.is_empty() { 1 } else { readers.len() };
        for round in 0..=runs {
            for readers in readers.chunks_mut(together) {
                mode.make_ready(file)?;
                let places = random_reads(file, STEP_BYTES, usize::MAX, round as u64)?;
                one_turn(readers, &places, turn, pages)?;
            }
            // The first round pays for first-time costs.
            readers
                .iter_mut()
                .for_each(|reader| reader.end_turn(round > 0));
        }
        drop(loops);
        for reader in readers {
            let (case, name) = (&*instance.name, &*reader.name);
            let Some(why) = reader.failed else {
                let rows = reader
                    .samples
                    .rows(["requests", case, name], &Params::new());
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

fn readers(
    session: &mut Session<'_>,
    instance: &Instance,
    mode: Mode,
    submits: bool,
) -> Result<Vec<Reader>> {
    let mut readers = Vec::new();
    let mut add = |name: &str, peer: Result<Box<dyn Peer>>, access| match peer {
        Ok(peer) => {
            readers.push(Reader {
                name: name.to_owned(),
                peer,
                access,
                submits,
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
            "pread" => add(name, Ok(bare(name).start(1)?), mode.access())?,
            "libraries" => {
                for rival in rivals() {
                    let peer = rival.start(BATCH).map_err(Error::from);
                    add(rival.name, peer, rival.accesses[0])?;
                }
            }
            _ => {
                let mut options = options(name)?;
                if mode == Mode::Direct {
                    options.access = millstream::Access::Direct;
                }
                let ours = Storage::new(options).map_err(Error::from);
                let ours = ours.map(|it| {
                    let mut ours = Ours::new(move || Ok(it.clone()));
                    ours.one_call = name == "millstream-read";
                    Box::new(ours) as _
                });
                add(name, ours, mode.access())?;
            }
        }
    }
    Ok(readers)
}

/// Runs rounds over the contenders until the time or the places have run out.
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
        let (mut all, count) = (true, readers.len());
        // Each is the first at times: after the pause the scheduler takes the core from that one.
        let (later, first) = readers.split_at_mut(round % count);
        let turns = first.iter_mut().chain(later);
        for reader in turns.filter(|it| it.failed.is_none()) {
            let batch = round % BATCH_EVERY == 0;
            match reader.round(&mut left, &files, batch, &mut into, pages) {
                Ok(found) => all &= found,
                Err(why) => reader.failed = Some(why),
            }
        }
        if !all || start.elapsed() > turn {
            break;
        }
        let pause = Instant::now();
        while count > 1 && pause.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
    }
    // Nothing stays open: a map would keep its pages in the cache.
    let nothing = Plan::new(Vec::new(), Vec::new())?;
    for reader in readers {
        reader.peer.open(&nothing, Access::Buffered)?;
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
        batch: bool,
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
        if !(batch && self.submits) {
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

    /// Turns the times into figures, if they count.
    fn end_turn(&mut self, counts: bool) {
        let (mut read_ns, mut submit_ns) = (
            std::mem::take(&mut self.read_ns),
            std::mem::take(&mut self.submit_ns),
        );
        if !counts || read_ns.is_empty() {
            return;
        }
        let mut figures = percentiles(["p50 us", "p99 us"], &mut read_ns);
        let mean = read_ns.iter().sum::<u64>() as f64 / read_ns.len() as f64 / 1e3;
        figures.push((Metric::of("mean us"), mean));
        if !submit_ns.is_empty() {
            let p99 = stats::percentile(&mut submit_ns, 0.99) as f64 / 1e3;
            figures.push((Metric::of("submit-p99 us"), p99));
        }
        self.samples.extend(figures);
    }
}
