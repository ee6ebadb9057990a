//! One request alone: from handing it over to having its bytes.
//!
//! Contenders take turns request by request, each at places of its own, so that both see the same
//! machine. A cold request finds its page not in the cache; places are farther apart than any
//! read-ahead of a random read, so that none finds pages that another has read.

use std::os::fd::OwnedFd;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use super::ours::{Ready, read_of};
use crate::case::Samples;
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::pread;
use crate::lend::one;
use crate::memory::Destination;
use crate::requests::cells::{Mode, PAGE_BYTES, PageHashes, WORKLOAD, percentiles};
use crate::ring::ReadJob;
use crate::rows::{Metric, Params};
use crate::session::Session;
use crate::setup::Setup;

/// Median of one run.
const P50: Metric = Metric::lower("p50", "us");
/// 99th percentile of one run.
const P99: Metric = Metric::lower("p99", "us");
/// Bytes between two requests: the default read-ahead of Linux is 128 KiB.
const STEP_BYTES: u64 = 128 << 10;
/// Requests of one contender in a run.
const COUNT: usize = 2000;
const QUICK_COUNT: usize = 300;
/// Requests ahead of the counted ones.
const WARM_UP_COUNT: usize = 16;

/// Reads single requests, one at a time, waiting for each.
struct Reader {
    name: &'static str,
    read: Box<Read>,
    times_ns: Vec<u64>,
    samples: Samples,
    failed: Option<Error>,
}

type Read = dyn FnMut(&ReadJob, &mut [u8]) -> Result<()>;

impl Reader {
    fn new(name: &'static str, read: Box<Read>) -> Reader {
        Reader {
            name,
            read,
            times_ns: Vec::new(),
            samples: Samples::default(),
            failed: None,
        }
    }

    fn ours(name: &'static str, file: &CorpusFile, setup: Setup) -> Result<Reader> {
        let ready = Ready::new(&file.path, setup, false, 1)?;
        let read = move |job: &ReadJob, into: &mut [u8]| {
            // All of it moves in: its storage lives as long as its queue.
            let ready = &ready;
            one(&ready.queue, read_of(ready.file, job), into)
        };
        Ok(Reader::new(name, Box::new(read)))
    }
}

/// A `pread` by another thread, with the channels of the standard library: the least that handing
/// a request over and waiting for it costs here. (Waking an idle core takes 5 to 50 µs.)
fn handed_over(file: OwnedFd) -> Result<Box<Read>> {
    let (jobs, taken) = sync_channel::<(ReadJob, Vec<u8>)>(1);
    let (ended, done) = sync_channel(1);
    let serve = move || {
        while let Ok((job, mut memory)) = taken.recv() {
            let result = pread(&file, &mut memory, job.offset);
            if ended.send((result, memory)).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("pread-thread".into());
    thread.spawn(serve).what("start a thread")?;
    let mut kept = vec![0; PAGE_BYTES];
    Ok(Box::new(move |job, into| {
        jobs.send((*job, std::mem::take(&mut kept)))?;
        let (result, memory) = done.recv()?;
        into.copy_from_slice(&memory);
        kept = memory;
        result
    }))
}

/// Runs the cases.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    for mode in [Mode::Cold, Mode::Warm] {
        let name = format!("single 4K {}", mode.name());
        if session.begin(WORKLOAD, name.as_str()).is_none() {
            continue;
        }
        let fd = mode.open(file)?;
        let read = move |job: &ReadJob, into: &mut [u8]| pread(&fd, into, job.offset);
        let preempting = Setup {
            preempting: true,
            ..Setup::default()
        };
        let mut readers = [
            Reader::new("pread", Box::new(read)),
            Reader::new("pread-thread", handed_over(mode.open(file)?)?),
            Reader::ours("millstream", file, Setup::default())?,
            Reader::ours("millstream-threads", file, Setup::on_threads())?,
            Reader::ours("millstream-preempting", file, preempting)?,
        ];
        let places = (file.stored_len / STEP_BYTES) as usize;
        let count = session.size(COUNT, QUICK_COUNT) + WARM_UP_COUNT;
        let count = count.min(places / readers.len());
        for run in 0..session.runs() {
            match mode {
                Mode::Warm => cold::warm_path(&file.path)?,
                _ => cold::drop_path(&file.path)?,
            }
            let mut order: Vec<u64> = (0..places as u64).collect();
            fastrand::Rng::with_seed(run as u64).shuffle(&mut order);
            order.truncate(count * readers.len());
            one_run(&mut readers, &order, pages)?;
        }
        let params = Params::from([("requests".into(), (count - WARM_UP_COUNT).into())]);
        for reader in readers {
            if let Some(why) = reader.failed {
                session.fail(format!("{WORKLOAD} {name} {}: {why}", reader.name));
                session.skip(WORKLOAD, &name, reader.name, &why)?;
                continue;
            }
            session.keep(reader.samples.rows(WORKLOAD, &name, reader.name, &params))?;
        }
    }
    Ok(())
}

/// One run over these places, the readers in turns.
fn one_run(readers: &mut [Reader], places: &[u64], pages: &PageHashes) -> Result<()> {
    let mut destination = Destination::new(PAGE_BYTES)?;
    for places in places.chunks(readers.len()) {
        let turns = readers.iter_mut().zip(places);
        for (reader, place) in turns.filter(|(reader, _)| reader.failed.is_none()) {
            let job = ReadJob::new(place * STEP_BYTES, 0, PAGE_BYTES);
            let memory = &mut destination[..PAGE_BYTES];
            memory[0] = !memory[0];
            let start = Instant::now();
            let read = (reader.read)(&job, memory);
            reader.times_ns.push(start.elapsed().as_nanos() as u64);
            reader.failed = read.and_then(|()| pages.check(&[job], memory)).err();
        }
    }
    for reader in readers {
        let counted = reader.times_ns.get_mut(WARM_UP_COUNT..).unwrap_or_default();
        reader.samples.extend(percentiles(P50, P99, counted));
        reader.times_ns.clear();
    }
    Ok(())
}
