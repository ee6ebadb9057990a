//! Workload `startup`: four threads open, submit and cancel, each in a queue of its own.

use std::sync::Arc;
use std::time::Instant;

use millstream::{FileOptions, Read, Storage};

use super::{Loan, Setup, queue_for};
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::limits::SUBMIT_THREADS;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::requests::held;
use crate::startup::{Plan, Priority};
use crate::workload::Field;

/// Requests submitted at a time: the engine begins while the rest is added.
const BATCH: usize = 32;

/// Contenders.
pub(crate) fn startup_contenders(field: &mut Field, plan: &Arc<Plan>) {
    for (name, threads) in [("millstream", false), ("millstream-threads", true)] {
        field.add(Startup {
            name,
            plan: Arc::clone(plan),
            setup: Setup {
                threads,
                ..Setup::default()
            },
            storage: None,
        });
    }
}

struct Startup {
    name: &'static str,
    plan: Arc<Plan>,
    setup: Setup,
    storage: Option<Storage>,
}

impl Contender for Startup {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.storage = None;
        self.storage = Some(self.setup.storage()?);
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let storage = self.storage.as_ref();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let count = self.plan.entries.len();
        let queues = (0..SUBMIT_THREADS)
            .map(|_| queue_for(storage, count / SUBMIT_THREADS + 1))
            .collect::<Result<Vec<_>>>()?;
        let start = Moment::now();
        let loan = Loan::new(destination, queues);
        let held_ns = std::thread::scope(|scope| {
            let (loan, plan) = (&loan, &*self.plan);
            let threads: Vec<_> = (0..SUBMIT_THREADS)
                .map(|thread| scope.spawn(move || queue(storage, plan, loan, thread)))
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| Err(Error::new("a queuing thread panicked")))
                })
                .collect::<Result<Vec<Vec<u64>>>>()
        })?;
        loan.finish()?;
        Ok(Work {
            requests: count as u64,
            span: Some(start.elapsed()),
            extra: held::figures(held_ns.into_iter().flatten().collect()),
            ..Work::default()
        })
    }
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
