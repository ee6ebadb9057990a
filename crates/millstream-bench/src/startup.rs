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
//! [`CANCEL_ONE_IN`]: crate::limits::CANCEL_ONE_IN

use std::os::fd::AsRawFd as _;
use std::time::Instant;

use millstream::{FileOptions, Read, Storage};

use crate::case::{Case, Method, Work, fresh};
use crate::clock::Moment;
use crate::error::{Result, ensure};
use crate::files::{make_ready, open_buffered};
use crate::lend::Loan;
use crate::limits::{POOL_THREADS, SUBMIT_THREADS};
use crate::memory::Destination;
use crate::ours::{Setup, queue_for};
use crate::peers::{self, held_all};
use crate::requests::cells::held;
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::session::Session;
use crate::startup::plan::{PRIORITIES, Plan, std_threads};
use crate::threads::joined;

pub(crate) mod plan;
pub(crate) mod study;

/// Reads in flight in the bare ring: more gain nothing on files of this size.
const RING_DEPTH: usize = 64;
/// Requests submitted at a time: the engine begins while the rest is added.
const BATCH: usize = 32;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    for instance in session.cases("startup", "files") {
        let (count, state): (usize, String) = (instance.get("count"), instance.get("state"));
        session.say("corpus: small files");
        let plan = Plan::new(session.corpus.small(count)?, 0xF11E);
        let mut case = session.begin(&instance);
        instance
            .contenders()
            .for_each(|name| add(&mut case, name, &plan));
        peers::startup(&mut case, &plan);
        case.prepare(|| make_ready(&plan.paths(), state == "cold"));
        case.check(plan.destination_len, |bytes, work| {
            ensure(work.requests == count as u64, "not every request ended")?;
            plan.check(bytes)
        });
        session.run(case, &mut Destination::new(plan.destination_len)?)?;
    }
    for instance in session.cases("startup", "lookup") {
        let plan = Plan::new(session.corpus.small(instance.get("count"))?, 0xF11E);
        let mut case = session.begin(&instance);
        study::add_lookups(&mut case, &plan);
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}

/// Adds a contender of `cases.toml`.
fn add<'a>(case: &mut Case<'a>, name: &'static str, plan: &'a Plan) {
    match name {
        "std" => {
            case.push(name, std_threads(plan, 1));
        }
        "std-8" => {
            case.push(name, std_threads(plan, POOL_THREADS));
        }
        "ring" => {
            let ring = BareRing::new(RING_DEPTH);
            let flags = ring.as_ref().map_or("", BareRing::flags);
            if let Some(it) = case.try_push(name, ring.map(|ring| ring_files(ring, plan))) {
                it.with("depth", RING_DEPTH).with("flags", flags);
            }
        }
        "study" => {
            case.try_push(name, study::contender::<study::FoldedName>(plan));
        }
        "study-cured" => {
            case.try_push(name, study::contender::<study::NameHash>(plan));
        }
        _ => {
            let setup = Setup::named(name);
            let run = |storage: &mut Storage, into: &mut Destination| load(storage, plan, into);
            case.push(name, fresh(move || setup.storage(), run));
        }
    }
}

/// The bare ring: the caller opens, the ring reads, both at once.
fn ring_files(mut ring: BareRing, plan: &Plan) -> impl Method {
    let style = ReadStyle::plain(RING_DEPTH);
    move |into: &mut Destination| {
        let start = Moment::now();
        let mut wanted = plan.wanted();
        // Open until the end: a file cannot be closed under its read.
        let mut files = Vec::new();
        ring.read_supplied(into, style, &mut || {
            let Some(entry) = wanted.next() else {
                return Ok(None);
            };
            let job = ReadJob::new(0, entry.place.start, entry.place.len());
            let file = open_buffered(&entry.file.path)?;
            let fd = file.as_raw_fd();
            files.push(file);
            Ok(Some((fd, job)))
        })?;
        let span = start.elapsed();
        Ok(Work::of(0, plan.entries.len())
            .took(span)
            .with(held_all(&span)))
    }
}

/// Four threads open, submit and cancel, each in a queue of its own.
fn load(storage: &Storage, plan: &Plan, into: &mut Destination) -> Result<Work> {
    let count = plan.entries.len();
    let queues = (0..SUBMIT_THREADS).map(|_| queue_for(storage, count / SUBMIT_THREADS + 1));
    let queues = queues.collect::<Result<Vec<_>>>()?;
    let start = Moment::now();
    let loan = Loan::new(into, queues);
    let held_ns = std::thread::scope(|scope| {
        let loan = &loan;
        let thread = |thread| scope.spawn(move || queue(storage, plan, loan, thread));
        let threads: Vec<_> = (0..SUBMIT_THREADS).map(thread).collect();
        threads.into_iter().map(joined).collect::<Result<Vec<_>>>()
    })?;
    loan.finish()?;
    let span = start.elapsed();
    Ok(Work::of(0, count).took(span).with(held(held_ns.concat())))
}

/// One queuing thread; returns the nanoseconds of each of its requests: open, add, and where it is
/// due cancel and submit.
fn queue(storage: &Storage, plan: &Plan, loan: &Loan<'_>, thread: usize) -> Result<Vec<u64>> {
    let mut held_ns = Vec::new();
    let mut batch = loan.batch(thread);
    for (number, entry) in plan.share(thread).enumerate() {
        let start = Instant::now();
        let file = storage.open(&entry.file.path, FileOptions::default());
        let request = Read::whole(file).priority(PRIORITIES[entry.priority]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;

    #[test]
    fn every_contender_delivers_every_file_or_an_error_if_one_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let plan = Plan::new(corpus.small(130).unwrap(), 1);
        assert_eq!(plan.wanted().count(), 128);
        let mut destination = Destination::new(plan.destination_len).unwrap();
        for missing in [false, true] {
            if missing {
                std::fs::remove_file(&plan.entries[5].file.path).unwrap();
            }
            let mut case = Case::new("startup", "test", 1);
            let all = &crate::cases::of("startup", "files", true, &toml::Table::new())[0];
            all.contenders()
                .for_each(|name| add(&mut case, name, &plan));
            println!("SKIP: {:?}", case.skipped);
            for contender in &mut case.contenders {
                destination.fill(0xA5);
                contender.method.prepare().unwrap();
                let work = contender.method.run(&mut destination);
                let result = work.and_then(|work| {
                    assert_eq!(work.requests, 130);
                    plan.check(&destination)
                });
                assert_eq!(result.is_err(), missing, "{}: {result:?}", contender.name);
            }
        }
    }
}
