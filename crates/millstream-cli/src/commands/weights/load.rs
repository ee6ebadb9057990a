//! `weights load`: loads the tensors of a model, and shows where the time went.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::QueueOptions;
use millstream_io::thread::processor_time;
use millstream_weights::{Extent, Model, PlanOptions, plan};
use serde_json::json;

use super::{checksums, open, tensor_bytes};
use crate::args::ModelLoadArgs;
use crate::commands::load::{backend_name, cancel_on_interruption, close, end_of_load, rate};
use crate::failure::{Ending, counted, refused};
use crate::loader::describe;
use crate::table::Table;
use crate::{output, progress, size};

/// What a load did, and when.
struct Load {
    backend: &'static str,
    requests: u64,
    read_bytes: u64,
    /// Since the start.
    opened: Duration,
    planned: Duration,
    elapsed: Duration,
    processor: Duration,
}

/// Runs `weights load`.
pub(super) fn load(args: &ModelLoadArgs, json: bool) -> Result<(), Ending> {
    let (begun, processor_begun) = (Instant::now(), processor_time());
    let (storage, mut model) = open(&args.model)?;
    let checksums = match &args.check {
        Some(path) => Some(checksums::read(path, args.key.as_deref(), &mut model)?),
        None => None,
    };
    let opened = begun.elapsed();
    let extents: Vec<Extent> = model.tensors().iter().map(|it| it.extent).collect();
    let reads = match checksums {
        Some(_) => model.file_reads(),
        None => plan(&extents, &PlanOptions::default()),
    };
    let planned = begun.elapsed();
    let queue = storage.queue(QueueOptions::default()).map_err(refused)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    cancel_on_interruption(&queue, &interrupted);
    let read_bytes = reads.iter().map(|read| read.extent.len).sum();
    progress::begin(Some(read_bytes));
    let mut goes_on = |bytes| {
        progress::advance(bytes);
        !interrupted.load(Ordering::Acquire)
    };
    let read = match &checksums {
        Some(checksums) if args.key.is_some() => {
            checksums::compare(&model, &queue, checksums, &mut goes_on)
        }
        _ => model.read(
            &queue,
            &reads,
            &mut |read, _| match goes_on(read.extent.len) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            },
        ),
    };
    let load = Load {
        backend: backend_name(&storage),
        requests: reads.len() as u64,
        read_bytes,
        opened,
        planned,
        elapsed: begun.elapsed(),
        processor: processor_time().saturating_sub(processor_begun),
    };
    let (stopped, _) = end_of_load(&interrupted, None, &storage);
    let ended = match read {
        _ if stopped => Err(Ending::Interrupted),
        read => read.map_err(|error| describe(&args.model.model, &error).into()),
    };
    let ended = match (json, ended) {
        (true, ended) => output::conclude(load.document(&model, checksums.is_some()), ended),
        (false, Ok(())) => output::print(&load.table(&model, checksums.is_some())),
        (false, ended) => ended,
    };
    drop((model, queue));
    close(&storage);
    ended
}

impl Load {
    fn document(&self, model: &Model, checked: bool) -> serde_json::Value {
        json!({
            "backend": self.backend,
            "format": model.format().to_string(),
            "files": model.files().len(),
            "tensors": model.tensors().len(),
            "requests": self.requests,
            "bytes": tensor_bytes(model),
            "read_bytes": self.read_bytes,
            "checked": checked,
            "seconds": self.elapsed.as_secs_f64(),
            "open_seconds": self.opened.as_secs_f64(),
            "plan_seconds": (self.planned - self.opened).as_secs_f64(),
            "read_seconds": (self.elapsed - self.planned).as_secs_f64(),
            "cpu_seconds": self.processor.as_secs_f64(),
        })
    }

    fn table(&self, model: &Model, checked: bool) -> String {
        let time = |time: Duration| size::display_time(time);
        let (bytes, read) = (tensor_bytes(model), self.elapsed - self.planned);
        let rate = |time: Duration| rate(bytes, time.as_secs_f64().max(f64::MIN_POSITIVE));
        let files = counted(model.files().len() as u64, "file");
        let requests = counted(self.requests, "request");
        let mut table = Table::default();
        table
            .row("tensors", model.tensors().len(), files)
            .row("bytes", bytes, size::display(bytes))
            .row("time", time(self.elapsed), rate(self.elapsed))
            .row("open", time(self.opened), "files and headers")
            .row("plan", time(self.planned - self.opened), requests)
            .row("read", time(read), rate(read))
            .row("processor", time(self.processor), "all threads")
            .row("backend", self.backend, "");
        if checked {
            table.row("checked", self.read_bytes, "all bytes of the files");
        }
        table.text()
    }
}
