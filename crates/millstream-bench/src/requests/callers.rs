//! What the caller of the library experiences: the time of one request alone, and how long its
//! calls hold it.

use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use millstream_peers::Read;

use crate::case::{Method, Work};
use crate::corpus::CorpusFile;
use crate::error::{Context, Result};
use crate::files::open_buffered;
use crate::lend::one;
use crate::memory::Destination;
use crate::ours::{Ours, Ready, Setup};
use crate::peers::{self, Way, bare};
use crate::requests::cells::{Mode, PAGE_BYTES, PageHashes, percentiles, random_reads};
use crate::session::Session;
use crate::threads::{self, Disturber};

/// Bytes between single requests, no less than any read-ahead of a random read, so that none finds
/// pages that another has read: the default read-ahead of Linux is 128 KiB.
pub(super) const STEP_BYTES: usize = 128 << 10;
/// Single requests ahead of the counted ones.
const WARM_UP_COUNT: usize = 16;

/// Reads one request into memory.
type Reader = Box<dyn FnMut(&Read, &mut [u8]) -> Result<()>>;

/// Measures one request alone, from its submission to having its bytes; cold requests do not find
/// their page in the cache.
pub(super) fn single(
    session: &mut Session<'_>,
    file: &CorpusFile,
    pages: &PageHashes,
) -> Result<()> {
    for instance in session.cases("requests", "single") {
        let mode: Mode = instance.get("mode");
        let count = instance.get::<usize>("requests") + WARM_UP_COUNT;
        let places = random_reads(file, STEP_BYTES, count, 0)?;
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let read: Reader = match name {
                "pread" => {
                    let fd = open_buffered(&file.path)?;
                    Box::new(move |read, into| fd.read_exact_at(into, read.offset).what("pread"))
                }
                _ => {
                    let setup = Setup::named(name);
                    let ready = Ready::new(setup.storage()?, &file.path, setup, 1)?;
                    Box::new(move |read, into| {
                        // Moves all of `ready`: its storage lives as long as its queue.
                        let ready = &ready;
                        one(&ready.queue, ready.request(read), into)
                    })
                }
            };
            let counted = places.reads().len() - WARM_UP_COUNT;
            let run = one_by_one(read, places.reads(), pages);
            case.push(name, run).with("requests", counted);
        }
        case.prepare(|| mode.make_state(file));
        case.room = PAGE_BYTES;
        session.run(case)?;
    }
    Ok(())
}

/// Reads the first page of each read, one at a time, and checks it.
fn one_by_one(mut reader: Reader, places: &[Read], pages: &PageHashes) -> impl Method {
    move |into: &mut Destination| {
        let memory = &mut into[..PAGE_BYTES];
        let mut times_ns = Vec::with_capacity(places.len());
        for place in places {
            let read = Read {
                place: 0,
                len: PAGE_BYTES as u32,
                ..*place
            };
            memory[0] = !memory[0];
            let start = Instant::now();
            reader(&read, memory)?;
            times_ns.push(start.elapsed().as_nanos() as u64);
            pages.check(&[read], memory)?;
        }
        let counted = times_ns.get_mut(WARM_UP_COUNT..).unwrap_or_default();
        Ok(Work::figures(percentiles(["p50 us", "p99 us"], counted)))
    }
}

/// Number of reads whose submission is timed, also in a quick run: the 99th percentile of fewer
/// would be the maximum.
const READS: usize = 100;
const READ_BYTES: usize = 1 << 20;

/// Measures how long the caller is held by a hundred reads of 1 MiB, added one by one; also on a
/// busy machine, where a wake-up may preempt it. Only the calls made by the caller's own thread
/// count, not the time until the bytes arrive; but they are awaited and checked.
pub(super) fn held(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let plan = random_reads(file, READ_BYTES, READS, 3)?;
    for instance in session.cases("requests", "held") {
        let mode: Mode = instance.get("mode");
        let way = Way::HandOver(mode.access());
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            if name == "millstream" {
                let ours = Box::new(Ours::new(Setup::default()));
                case.push(name, peers::at_work(ours, plan.clone(), way));
            } else {
                peers::add(&mut case, name, bare(name), READS, Ok(plan.clone()), way);
            }
        }
        peers::hand_over(&mut case, &plan, way);
        case.prepare(|| mode.make_state(file));
        case.check(READS * READ_BYTES, |bytes, _| {
            pages.check(plan.reads(), bytes)
        });
        let busy_cores = match instance.name.ends_with(", busy cores") {
            true => threads::cores(),
            false => 0,
        };
        let _loops = Disturber::loops(busy_cores, 0)?;
        session.run(case)?;
    }
    Ok(())
}
