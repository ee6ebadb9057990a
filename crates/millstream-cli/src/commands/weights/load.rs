//! `weights load`: loads the tensors of a model, and shows where the time went.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::QueueOptions;
use millstream_io::thread::processor_time;
use millstream_weights::{Extent, PlanOptions, plan};
use serde_json::json;

use super::{checksums, open, tensor_bytes};
use crate::args::{ModelBenchArgs, ModelLoadArgs};
use crate::commands::load::{backend_name, cancel_on_interruption, close, end_of_load, rate};
use crate::failure::{Ending, counted, refused};
use crate::loader::describe;
use crate::table::Table;
use crate::{cold, output, progress, size};

/// What a load did, and when.
struct Load {
    backend: &'static str,
    format: String,
    files: u64,
    tensors: usize,
    /// Of the tensors.
    bytes: u64,
    requests: u64,
    read_bytes: u64,
    checked: bool,
    /// Since the start.
    opened: Duration,
    planned: Duration,
    elapsed: Duration,
    processor: Duration,
}

/// Runs `weights load`.
pub(super) fn load(args: &ModelLoadArgs, json: bool) -> Result<(), Ending> {
    let (load, ended) = load_once(args)?;
    match (json, ended) {
        (true, ended) => output::conclude(load.document(), ended),
        (false, Ok(())) => {
            let mut table = Table::default();
            load.add_to(&mut table);
            output::print(&table.text())
        }
        (false, ended) => ended,
    }
}

/// Runs `weights bench`.
pub(super) fn bench(args: &ModelBenchArgs, json: bool) -> Result<(), Ending> {
    let (storage, model) = open(&args.load.model)?;
    let mut document = json!({ "rounds": args.rounds });
    let mut text = String::new();
    for state in ["cold", "warm"] {
        let mut loads = Vec::new();
        for _ in 0..args.rounds {
            if state == "cold" {
                cold::drop_paths("bench", model.files().iter().map(|file| &*file.path));
            }
            let (load, ended) = load_once(&args.load)?;
            ended?;
            loads.push(load);
        }
        loads.sort_by_key(|load| load.elapsed);
        let (fastest, median) = (loads[0].elapsed, &loads[loads.len() / 2]);
        document[state] = median.document();
        document[state]["fastest_seconds"] = json!(fastest.as_secs_f64());
        let mut table = Table::default();
        let rounds = format!("median of {}", args.rounds);
        table.row(
            state,
            rounds,
            format!("fastest {}", size::display_time(fastest)),
        );
        median.add_to(&mut table);
        text.push_str(&table.text());
    }
    drop(model);
    close(&storage);
    match json {
        true => output::print_json(&document),
        false => output::print(&text),
    }
}

/// Loads all tensors, and drops them again.
fn load_once(args: &ModelLoadArgs) -> Result<(Load, Result<(), Ending>), Ending> {
    let (begun, processor_begun) = (Instant::now(), processor_time());
    let (storage, mut model) = open(&args.model)?;
    let checksums = match &args.check {
        Some(path) => Some(checksums::read(path, args.key.as_deref(), &mut model)?),
        None => None,
    };
    let opened = begun.elapsed();
    let extents: Vec<Extent> = model.tensors().iter().map(|it| it.extent).collect();
    let reads = match checksums {
        Some(_) => {
            let reads = model.file_reads();
            reads.map_err(|error| describe(&args.model.model, &error))?
        }
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
        format: model.format().to_string(),
        files: model.files().len() as u64,
        tensors: model.tensors().len(),
        bytes: tensor_bytes(&model),
        requests: reads.len() as u64,
        read_bytes,
        checked: checksums.is_some(),
        opened,
        planned,
        elapsed: begun.elapsed(),
        processor: processor_time().saturating_sub(processor_begun),
    };
    let (stopped, _) = end_of_load(&interrupted, None, &storage);
    drop((model, queue));
    close(&storage);
    let ended = match read {
        _ if stopped => Err(Ending::Interrupted),
        read => read.map_err(|error| describe(&args.model.model, &error).into()),
    };
    Ok((load, ended))
}

impl Load {
    fn document(&self) -> serde_json::Value {
        json!({
            "backend": self.backend,
            "format": self.format,
            "files": self.files,
            "tensors": self.tensors,
            "requests": self.requests,
            "bytes": self.bytes,
            "read_bytes": self.read_bytes,
            "checked": self.checked,
            "seconds": self.elapsed.as_secs_f64(),
            "open_seconds": self.opened.as_secs_f64(),
            "plan_seconds": (self.planned - self.opened).as_secs_f64(),
            "read_seconds": (self.elapsed - self.planned).as_secs_f64(),
            "cpu_seconds": self.processor.as_secs_f64(),
        })
    }

    fn add_to(&self, table: &mut Table) {
        let time = |time: Duration| size::display_time(time);
        let (bytes, read) = (self.bytes, self.elapsed - self.planned);
        let rate = |time: Duration| rate(bytes, time.as_secs_f64().max(f64::MIN_POSITIVE));
        let requests = counted(self.requests, "request");
        table
            .row("tensors", self.tensors, counted(self.files, "file"))
            .row("bytes", bytes, size::display(bytes))
            .row("time", time(self.elapsed), rate(self.elapsed))
            .row("open", time(self.opened), "files and headers")
            .row("plan", time(self.planned - self.opened), requests)
            .row("read", time(read), rate(read))
            .row("processor", time(self.processor), "all threads")
            .row("backend", self.backend, "");
        if self.checked {
            table.row("checked", self.read_bytes, "all bytes of the files");
        }
    }
}
