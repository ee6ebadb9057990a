//! What a request costs by itself: on a device that does nothing, in batches of
//! [`BATCH_REQUESTS`], by how its completion is delivered.
//!
//! Requests land in borrowed memory, are aligned, and lie apart, so that none is staged or merged.
//! Every request of a batch has completed before the next batch is submitted.

mod through_c;

use std::path::Path;
use std::sync::Arc;

use millstream::{
    Access, Backend, Completion, DeviceMaker, FileId, FileOptions, Queue, Read, Storage,
    StorageOptions,
};
use millstream_io::device::Device;
use millstream_io::device::null::NullDevice;
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use serde::Deserialize;

use crate::case::Figures;
use crate::clock::{Moment, Span};
use crate::error::Result;
use crate::lend::Loan;
use crate::memory::Destination;
use crate::metric::Metric;
use crate::ours::{opened, queue_for};

use through_c::ThroughC;

/// Requests of a batch.
pub(crate) const BATCH_REQUESTS: usize = 1000;
/// Bytes of a request.
pub(crate) const REQUEST_BYTES: usize = 4096;
/// Bytes of the simulated file.
pub(crate) const FILE_BYTES: u64 = 1 << 30;
/// Path of the simulated file.
pub(crate) const PATH: &str = "simulated.bin";

/// How completions are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Delivery {
    /// Detached; the queue is drained.
    #[serde(rename = "detached")]
    Detached,
    /// Each request's ticket is waited for.
    #[serde(rename = "tickets claimed")]
    Claimed,
    /// Posted to the completion queue, and taken from there.
    #[serde(rename = "posted and drained")]
    Posted,
}

/// A storage over a device that does nothing, with its file open.
pub(crate) fn storage(staging_bytes: Option<usize>) -> Result<(Storage, FileId)> {
    let (_, files) = Sim::new(SimOptions::default());
    files.add_generated(PATH, 1, FILE_BYTES, SimFileOptions::default());
    let depth = StorageOptions::default().depth as usize;
    storage_on(
        move || Box::new(NullDevice::new(depth)),
        files,
        staging_bytes,
    )
}

/// A storage over a device, with the simulated file open.
pub(crate) fn storage_on(
    make: impl FnOnce() -> Box<dyn Device> + Send + 'static,
    files: SimFiles,
    staging_bytes: Option<usize>,
) -> Result<(Storage, FileId)> {
    let mut options = StorageOptions::default();
    let maker = DeviceMaker::new(move || Ok(make()));
    options.backend = Backend::Custom(maker, Arc::new(files));
    options.access = Access::Direct;
    options.staging_bytes = staging_bytes.unwrap_or(options.staging_bytes);
    let storage = Storage::new(options)?;
    let file = opened(&storage, Path::new(PATH), FileOptions::default())?;
    Ok((storage, file))
}

/// A storage over a device that does nothing, and memory for a batch.
pub(crate) struct NullDeviceBench {
    file: FileId,
    queue: Queue,
    destination: Destination,
    /// Dropped last, after what uses it.
    storage: Storage,
}

impl NullDeviceBench {
    /// Makes the storage.
    pub(crate) fn new() -> Result<NullDeviceBench> {
        let (storage, file) = storage(None)?;
        Ok(NullDeviceBench {
            file,
            queue: queue_for(&storage, BATCH_REQUESTS)?,
            destination: Destination::new(BATCH_REQUESTS * REQUEST_BYTES)?,
            storage,
        })
    }

    /// Submits so many batches and waits for each; the time that all of them take.
    pub(crate) fn run(&mut self, delivery: Delivery, batches: usize) -> Result<Span> {
        let queue = &self.queue;
        let loan = Loan::new(&mut self.destination, vec![queue.clone()]);
        let mut batch = loan.batch(0);
        let mut tickets = Vec::with_capacity(BATCH_REQUESTS);
        let mut completions = Vec::new();
        completions.resize_with(BATCH_REQUESTS, Completion::default);
        let start = Moment::now();
        for _ in 0..batches {
            for index in 0..BATCH_REQUESTS {
                let (request, place) = request(self.file, index);
                match delivery {
                    Delivery::Detached => batch.detach(request, place)?,
                    Delivery::Claimed => tickets.push(batch.add(request, place)?),
                    Delivery::Posted => batch.post(request, place)?,
                }
            }
            batch.submit();
            match delivery {
                Delivery::Detached => loan.drain()?,
                Delivery::Claimed => tickets.drain(..).try_for_each(|mut ticket| ticket.wait())?,
                Delivery::Posted => drain_completions(queue, &mut completions)?,
            }
        }
        let span = start.elapsed();
        drop(batch);
        loan.finish()?;
        Ok(span)
    }

    /// The same storage and memory, used through the library for C.
    pub(crate) fn through_c(&mut self) -> Result<ThroughC<'_>> {
        ThroughC::new(&self.storage, self.file, &mut self.destination)
    }
}

/// Request number `index` of a batch and its place in the destination. Requests lie two blocks
/// apart, so that no two of them become one read.
pub(crate) fn request(file: FileId, index: usize) -> (Read, std::ops::Range<usize>) {
    let place = index * REQUEST_BYTES..(index + 1) * REQUEST_BYTES;
    let offset = (index * 2 * REQUEST_BYTES) as u64;
    (Read::range(file, offset, REQUEST_BYTES as u64), place)
}

/// The figure of requests on this device: processor time of all threads of the process.
pub(crate) fn cost(span: &Span, requests: usize) -> Figures {
    let cost = Metric::of("cost ns/request");
    vec![(cost, span.cpu * 1e9 / requests as f64)]
}

/// Takes so many completions as there is room for, which are on their way.
fn drain_completions(queue: &Queue, completions: &mut [Completion]) -> Result<()> {
    let mut taken = 0;
    while taken < completions.len() {
        let count = queue.drain_completions(&mut completions[taken..]);
        for completion in &mut completions[taken..taken + count] {
            std::mem::replace(&mut completion.result, Ok(0))?;
        }
        taken += count;
        if count == 0 {
            queue.wait_completions(None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delivery_completes_every_request() {
        let mut bench = NullDeviceBench::new().unwrap();
        for delivery in [Delivery::Detached, Delivery::Claimed, Delivery::Posted] {
            let before = bench.storage.stats().done;
            bench.run(delivery, 3).unwrap();
            let done = bench.storage.stats().done - before;
            assert_eq!(done, 3 * BATCH_REQUESTS as u64, "{delivery:?}");
            let mut through_c = bench.through_c().unwrap();
            through_c.run(delivery, 2).unwrap();
            drop(through_c);
            let done = bench.storage.stats().done - before;
            assert_eq!(done, 5 * BATCH_REQUESTS as u64, "{delivery:?}");
        }
    }
}
