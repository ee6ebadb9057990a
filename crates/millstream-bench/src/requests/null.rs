//! The cost of a request itself: on a device that does nothing, in batches of [`BATCH_REQUESTS`],
//! by how its completion is delivered.
//!
//! Requests land in borrowed memory, are aligned, and are not adjacent, so that none is staged or
//! merged. Every request of a batch has completed before the next batch is submitted.

use std::path::Path;
use std::sync::Arc;

use millstream::{Access, Backend, DeviceMaker, Read, Storage, StorageOptions};
use millstream_io::device::null::NullDevice;
use millstream_sim::{Sim, SimFileOptions, SimOptions};

use crate::lend::Loan;
use crate::ours::Ready;
use crate::prelude::*;

const BATCH_REQUESTS: usize = 1000;
const REQUEST_BYTES: usize = 4096;
const FILE_BYTES: u64 = 1 << 30;
const PATH: &str = "simulated.bin";

/// Runs the cases. The figure is the processor time of all threads of the process.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    for instance in session.cases("requests", "null") {
        let batches: usize = instance.get("batches");
        // Each ticket is waited for; otherwise requests are detached, and the queue is drained.
        let claimed = instance.get::<String>("delivery") == "tickets claimed";
        let mut case = session.begin(&instance);
        let run = move |ready: &mut Ready, into: &mut Destination| {
            let span = run_on(ready, claimed, batches, into)?;
            let cost = span.cpu * 1e9 / (batches * BATCH_REQUESTS) as f64;
            Ok(Work::figures(vec![(Metric::of("cost ns/request"), cost)]))
        };
        for name in instance.contenders() {
            case.push(name, fresh(make, run));
        }
        case.room = BATCH_REQUESTS * REQUEST_BYTES;
        session.run(case)?;
    }
    Ok(())
}

fn make() -> Result<Ready> {
    let (_, files) = Sim::new(SimOptions::default());
    files.add_generated(PATH, 1, FILE_BYTES, SimFileOptions::default());
    let mut options = StorageOptions::default();
    let depth = options.depth as usize;
    let maker = DeviceMaker::new(move || Ok(Box::new(NullDevice::new(depth))));
    options.backend = Backend::Custom(maker, Arc::new(files));
    options.access = Access::Direct;
    Ready::new(
        Storage::new(options)?,
        Path::new(PATH),
        BATCH_REQUESTS,
        false,
    )
}

/// Submits `batches` batches and waits for each; returns the time for all of them.
fn run_on(ready: &Ready, claimed: bool, batches: usize, into: &mut Destination) -> Result<Span> {
    let loan = Loan::new(into, vec![ready.queue.clone()]);
    let mut batch = loan.batch(0);
    let mut tickets = Vec::with_capacity(BATCH_REQUESTS);
    let start = Moment::now();
    for _ in 0..batches {
        for index in 0..BATCH_REQUESTS {
            let place = index * REQUEST_BYTES..(index + 1) * REQUEST_BYTES;
            // Two request lengths apart, so that no two requests are merged into one read.
            let offset = (index * 2 * REQUEST_BYTES) as u64;
            let request = Read::range(ready.file, offset, REQUEST_BYTES as u64);
            match claimed {
                true => tickets.push(batch.add(request, place)?),
                false => batch.detach(request, place)?,
            }
        }
        batch.submit();
        match claimed {
            true => tickets.drain(..).try_for_each(|mut ticket| ticket.wait())?,
            false => loan.drain()?,
        }
    }
    let span = start.elapsed();
    drop(batch);
    loan.finish()?;
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delivery_completes_every_request() {
        let ready = make().unwrap();
        let mut destination = Destination::new(BATCH_REQUESTS * REQUEST_BYTES).unwrap();
        for claimed in [false, true] {
            let before = ready.storage.stats().done;
            run_on(&ready, claimed, 3, &mut destination).unwrap();
            let done = ready.storage.stats().done - before;
            assert_eq!(done, 3 * BATCH_REQUESTS as u64, "{claimed}");
        }
    }
}
