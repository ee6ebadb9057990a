//! Workload `startup`: thousands of small files before the first frame.
//!
//! Four threads queue whole-file requests of mixed priorities; one in [`CANCEL_ONE_IN`] is
//! canceled right after it was queued. The case ends when every request that was not canceled
//! has its bytes. (One that was canceled may have been served before; its bytes are not checked.)
//! Contenders without a queue read the same files and leave out the canceled ones. `held` is the
//! time that the queuing threads spend inside calls; without a queue, all of the time.
//!
//! The lookups alone, without a read, are a case of their own: what finding a handle by its name
//! costs in the three ways.
//!
//! [`CANCEL_ONE_IN`]: limits::CANCEL_ONE_IN

use std::sync::Arc;
use std::time::Instant;

use millstream::{FileOptions, Read, Storage};

use crate::case::{Case, Contender, Work};
use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result, ensure};
use crate::files::open_buffered;
use crate::lend::Loan;
use crate::limits::{self, SUBMIT_THREADS};
use crate::memory::Destination;
use crate::requests::cells::{HELD, held_work};
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::rows::Metric;
use crate::session::Session;
use crate::setup::{Setup, queue_for};
use crate::startup::plan::{Plan, Priority};

pub(crate) mod plan;
pub(crate) mod study;

const WORKLOAD: &str = "startup";
/// From the first request queued to the last one served.
const TOTAL: Metric = Metric::lower("total", "ms");
/// Processor time of the whole process per file.
const CPU: Metric = Metric::lower("cpu", "us/file");
/// Reads in flight in the bare ring: more gain nothing on files of this size.
const RING_DEPTH: usize = 64;
/// Requests submitted at a time: the engine begins while the rest is added.
const BATCH: usize = 32;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let count = session.size(limits::SMALL_COUNT, limits::QUICK_SMALL_COUNT);
    session.say("corpus: small files");
    let plan = Plan::new(session.corpus.small(count)?, 0xF11E);
    let mut destination = Destination::new(plan.destination_len)?;
    let plan = Arc::new(plan);
    for (state, make_so) in [
        (
            "cold",
            cold::drop_path as fn(&std::path::Path) -> Result<()>,
        ),
        ("warm", cold::warm_path),
    ] {
        let Some(mut case) = session.begin(WORKLOAD, format!("{count} files {state}")) else {
            continue;
        };
        add_contenders(&mut case, &plan);
        session.peers.startup(&mut case, &plan);
        case.prepare(|| {
            let mut all = plan.entries.iter();
            all.try_for_each(|entry| make_so(&entry.file.path))
        });
        case.check(plan.destination_len, |bytes, work| {
            ensure(work.requests == count as u64, "not every request ended")?;
            plan.check(bytes)
        });
        case.figures(|span, work| {
            let count = work.requests as f64;
            vec![(TOTAL, span.wall * 1e3), (CPU, span.cpu * 1e6 / count)]
        });
        case.with_limit();
        session.run(case, &mut destination)?;
    }
    if let Some(mut case) = session.begin(WORKLOAD, "lookup of a handle") {
        study::add_lookups(&mut case, &plan);
        session.run(case, &mut destination)?;
    }
    Ok(())
}

fn add_contenders(case: &mut Case<'_>, plan: &Arc<Plan>) {
    case.push(plan::std_threads(plan, 1));
    case.push(plan::std_threads(plan, limits::POOL_THREADS));
    case.try_push("ring", ring_files(plan));
    case.try_push("study", study::as_it_was(plan));
    case.try_push("study-cured", study::cured(plan));
    for (name, setup) in [
        ("millstream", Setup::default()),
        ("millstream-threads", Setup::on_threads()),
    ] {
        let plan = Arc::clone(plan);
        let run = move |storage: &mut Storage, into: &mut Destination| load(storage, &plan, into);
        case.push(Contender::prepared(name, move || setup.storage(), run));
    }
}

/// The bare ring: the caller opens, the ring reads, both at once.
fn ring_files(plan: &Arc<Plan>) -> Result<Contender> {
    let plan = Arc::clone(plan);
    let mut ring = BareRing::new(RING_DEPTH)?;
    let flags = ring.flags();
    let style = ReadStyle {
        depth: RING_DEPTH,
        ..ReadStyle::default()
    };
    let run = move |destination: &mut Destination| {
        let start = Moment::now();
        let mut wanted = plan.wanted();
        ring.read_opening(destination, style, &mut || {
            let Some(entry) = wanted.next() else {
                return Ok(None);
            };
            let job = ReadJob::new(0, entry.place.start, entry.place.len());
            Ok(Some((open_buffered(&entry.file.path)?.into(), job)))
        })?;
        let span = start.elapsed();
        Ok(Work {
            extra: vec![(HELD, span.wall * 1e3)],
            ..Work::of(0, plan.entries.len()).took(span)
        })
    };
    let contender = Contender::new("ring", run).with("depth", RING_DEPTH);
    Ok(contender.with("flags", flags))
}

/// Four threads open, submit and cancel, each in a queue of its own.
fn load(storage: &Storage, plan: &Plan, destination: &mut Destination) -> Result<Work> {
    let count = plan.entries.len();
    let queues = (0..SUBMIT_THREADS).map(|_| queue_for(storage, count / SUBMIT_THREADS + 1));
    let queues = queues.collect::<Result<Vec<_>>>()?;
    let start = Moment::now();
    let loan = Loan::new(destination, queues);
    let held_ns = std::thread::scope(|scope| {
        let loan = &loan;
        let thread = |thread| scope.spawn(move || queue(storage, plan, loan, thread));
        let threads: Vec<_> = (0..SUBMIT_THREADS).map(thread).collect();
        let gone = |_| Err(Error::new("a queuing thread panicked"));
        let ended = threads.into_iter().map(|it| it.join().unwrap_or_else(gone));
        ended.collect::<Result<Vec<Vec<u64>>>>()
    })?;
    loan.finish()?;
    let span = start.elapsed();
    Ok(held_work(held_ns.concat(), count).took(span))
}

/// One queuing thread; returns the nanoseconds of each of its requests: open, add, and where it is
/// due cancel and submit.
fn queue(storage: &Storage, plan: &Plan, loan: &Loan<'_>, thread: usize) -> Result<Vec<u64>> {
    let mut held_ns = Vec::new();
    let mut batch = loan.batch(thread);
    for (number, index) in plan.share(thread, SUBMIT_THREADS).enumerate() {
        let entry = &plan.entries[index];
        let start = Instant::now();
        let file = storage.open(&entry.file.path, FileOptions::default());
        let request = Read::whole(file).priority(priority_of(entry.priority));
        if entry.canceled {
            batch.add(request, entry.place.clone())?.cancel();
        } else {
            batch.detach(request, entry.place.clone())?;
        }
        if number % BATCH == BATCH - 1 {
            batch.submit();
        }
        held_ns.push(start.elapsed().as_nanos() as u64);
    }
    batch.submit();
    Ok(held_ns)
}

/// The study's six priorities as the engine's four.
fn priority_of(priority: Priority) -> millstream::Priority {
    match priority {
        Priority::Min | Priority::Low => millstream::Priority::Low,
        Priority::BelowNormal | Priority::Normal => millstream::Priority::Normal,
        Priority::High => millstream::Priority::High,
        Priority::Max => millstream::Priority::Realtime,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;

    #[test]
    fn every_contender_delivers_every_file_or_an_error_if_one_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let plan = Arc::new(Plan::new(corpus.small(130).unwrap(), 1));
        assert_eq!(plan.wanted().count(), 128);
        let mut destination = Destination::new(plan.destination_len).unwrap();
        for missing in [false, true] {
            if missing {
                std::fs::remove_file(&plan.entries[5].file.path).unwrap();
            }
            let mut case = Case::new(WORKLOAD, "test", 1);
            add_contenders(&mut case, &plan);
            println!("SKIP: {:?}", case.skipped);
            for contender in &mut case.contenders {
                destination.fill(0xA5);
                (contender.prepare)().unwrap();
                let work = (contender.run)(&mut destination);
                let result = work.and_then(|work| {
                    assert_eq!(work.requests, 130);
                    plan.check(&destination)
                });
                assert_eq!(result.is_err(), missing, "{}: {result:?}", contender.name);
            }
        }
    }
}
