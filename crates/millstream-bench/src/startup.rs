//! Workload `startup`: thousands of small files before the first frame.
//!
//! Four threads queue whole-file requests of mixed priorities; one in [`CANCEL_ONE_IN`] is canceled
//! right after it is queued. The case ends when every request that was not canceled has its bytes.
//! (A canceled one may have been served before; its bytes are not checked.) Contenders without a
//! queue read the same files and leave out the canceled ones. `held` is the time that the queuing
//! threads spend inside calls; without a queue, all of the time.
//!
//! [`CANCEL_ONE_IN`]: crate::limits::CANCEL_ONE_IN

use std::sync::Barrier;
use std::time::Instant;

use millstream::{FileOptions, Read, Storage};

use crate::lend::Loan;
use crate::ours::{queue_for, storage};
use crate::peers::{self, bare};
use crate::prelude::*;
use crate::requests::cells::held;
use crate::startup::plan::{PRIORITIES, Plan};
use crate::threads::joined;

pub(crate) mod plan;
pub(crate) mod study;

/// Reads in flight in the bare ring: more gain nothing with files of this size.
const RING_DEPTH: usize = 64;
/// Number of requests submitted at a time: the engine begins while the rest is added.
const BATCH: usize = 32;

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
        session.run(case)?;
    }
    Ok(())
}

fn add<'a>(case: &mut Case<'a>, name: &'static str, plan: &'a Plan) {
    match name {
        "std" => peers::add_files(case, name, bare("pread"), 1, plan),
        "std-8" => peers::add_files(case, name, bare("pread"), POOL_THREADS, plan),
        "ring" => peers::add_files(case, name, bare("ring-plain"), RING_DEPTH, plan),
        "study" => {
            case.try_push(name, study::contender::<study::FoldedName>(plan));
        }
        "study-cured" => {
            case.try_push(name, study::contender::<study::NameHash>(plan));
        }
        _ => {
            let run = |storage: &mut Storage, into: &mut Destination| load(storage, plan, into);
            case.push(name, fresh(move || storage(name), run));
        }
    }
}

/// Four threads open, submit and cancel, each with a queue of its own. They exist before the clock
/// starts, as those of the rivals do.
fn load(storage: &Storage, plan: &Plan, into: &mut Destination) -> Result<Work> {
    let count = plan.entries.len();
    let queues = (0..SUBMIT_THREADS).map(|_| queue_for(storage, count / SUBMIT_THREADS + 1));
    let queues = queues.collect::<Result<Vec<_>>>()?;
    let loan = Loan::new(into, queues);
    let [exist, begin] = [(); 2].map(|()| Barrier::new(SUBMIT_THREADS + 1));
    let (start, held_ns) = std::thread::scope(|scope| {
        let (loan, exist, begin) = (&loan, &exist, &begin);
        let thread = |thread| {
            scope.spawn(move || {
                exist.wait();
                begin.wait();
                queue(storage, plan, loan, thread)
            })
        };
        let threads: Vec<_> = (0..SUBMIT_THREADS).map(thread).collect();
        exist.wait();
        let start = Moment::now();
        begin.wait();
        let held_ns = threads.into_iter().map(joined);
        Ok::<_, Error>((start, held_ns.collect::<Result<Vec<_>>>()?))
    })?;
    loan.finish()?;
    let span = start.elapsed();
    Ok(Work::of(0, count).took(span).with(held(held_ns.concat())))
}

/// Runs one queuing thread; returns the nanoseconds taken by each of its requests: open, add, and
/// where due, cancel and submit.
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
