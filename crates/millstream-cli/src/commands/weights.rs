//! `weights`: shows and loads the tensors of a model.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::{QueueOptions, Storage};
use millstream_io::fs::names as file_names;
use millstream_io::thread::processor_time;
use millstream_pak::names;
use millstream_weights::{Extent, Model, PlanOptions, Tensor, Value, plan};
use serde_json::{Map, json};

use crate::args::{ModelArgs, WeightsArgs, WeightsCommand};
use crate::commands::load::{backend_name, cancel_on_interruption, close, end_of_load, rate};
use crate::failure::{Ending, counted, refused, set_path};
use crate::loader::describe;
use crate::table::Table;
use crate::{backend, output, progress, size};

/// Longest value of the metadata that the table shows, in characters.
const VALUE_CHARS_MAX: usize = 60;

/// Runs `weights`.
pub(crate) fn weights(args: &WeightsArgs, json: bool) -> Result<(), Ending> {
    match &args.command {
        WeightsCommand::Info(args) => info(args, json),
        WeightsCommand::Load(args) => load(args, json),
    }
}

fn open(args: &ModelArgs) -> Result<(Storage, Model), Ending> {
    let storage = Storage::new(backend::options(args.backend)?).map_err(refused)?;
    let opened = Model::open(&storage, &args.model);
    let model = opened.map_err(|error| describe(&args.model, &error))?;
    Ok((storage, model))
}

fn tensor_bytes(model: &Model) -> u64 {
    model.tensors().iter().map(|it| it.extent.len).sum()
}

fn info(args: &ModelArgs, json: bool) -> Result<(), Ending> {
    let (_storage, model) = open(args)?;
    let mut metadata: Map<String, serde_json::Value> = Map::new();
    for (key, value) in model.metadata().flat_map(|it| it.iter()) {
        metadata.entry(key).or_insert_with(|| value_of(&value));
    }
    if json {
        let file = |file: &millstream_weights::ModelFile| {
            let mut document = json!({ "bytes": file.bytes });
            set_path(&mut document, &file_names::bytes(&file.path));
            document
        };
        let files: Vec<_> = model.files().iter().map(file).collect();
        let tensors: Vec<_> = model.tensors().iter().map(row).collect();
        return output::print_json(&json!({
            "format": model.format().to_string(),
            "files": files,
            "bytes": tensor_bytes(&model),
            "metadata": metadata,
            "tensors": tensors,
        }));
    }
    let mut table = Table::default();
    let files = counted(model.files().len() as u64, "file");
    let (count, bytes) = (model.tensors().len(), tensor_bytes(&model));
    table
        .row("format", model.format(), files)
        .row("tensors", count, size::display(bytes));
    for (key, value) in &metadata {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), String::from);
        let text: String = text.chars().take(VALUE_CHARS_MAX).collect();
        table.row(&escaped(key), escaped(&text), "");
    }
    let mut text = table.text();
    text.push('\n');
    for tensor in model.tensors() {
        let (name, dtype) = (escaped(&tensor.name), escaped(&tensor.dtype.to_string()));
        let (shape, bytes) = (shape(tensor), tensor.extent.len);
        text.push_str(&format!("{bytes:>12}  {dtype:7}  {shape:16}  {name}\n"));
    }
    output::print(&text)
}

fn escaped(text: &str) -> String {
    names::escape(text.as_bytes())
}

fn shape(tensor: &Tensor) -> String {
    let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    shape.join("x")
}

fn row(tensor: &Tensor) -> serde_json::Value {
    json!({
        "name": *tensor.name,
        "type": tensor.dtype.to_string(),
        "shape": tensor.shape,
        "file": tensor.extent.file,
        "offset": tensor.extent.offset,
        "bytes": tensor.extent.len,
    })
}

/// Converts a value; of an array, its type and length alone.
fn value_of(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::U8(value) => json!(value),
        Value::I8(value) => json!(value),
        Value::U16(value) => json!(value),
        Value::I16(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::F32(value) => json!(value),
        Value::Bool(value) => json!(value),
        Value::String(value) => json!(String::from_utf8_lossy(value)),
        Value::Array(array) => {
            let kind = format!("{:?}", array.kind).to_lowercase();
            json!({ "array": kind, "len": array.len })
        }
        Value::U64(value) => json!(value),
        Value::I64(value) => json!(value),
        Value::F64(value) => json!(value),
    }
}

fn load(args: &ModelArgs, json: bool) -> Result<(), Ending> {
    let (begun, processor_begun) = (Instant::now(), processor_time());
    let (storage, model) = open(args)?;
    let opened = begun.elapsed();
    let extents: Vec<Extent> = model.tensors().iter().map(|it| it.extent).collect();
    let reads = plan(&extents, &PlanOptions::default());
    let planned = begun.elapsed();
    let queue = storage.queue(QueueOptions::default()).map_err(refused)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    cancel_on_interruption(&queue, &interrupted);
    let read_bytes: u64 = reads.iter().map(|read| read.extent.len).sum();
    progress::begin(Some(read_bytes));
    let ended = model.read(&queue, &reads, &mut |read, _| {
        progress::advance(read.extent.len);
        match interrupted.load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let elapsed = begun.elapsed();
    let processor = processor_time().saturating_sub(processor_begun);
    let (stopped, _) = end_of_load(&interrupted, None, &storage);
    let mut ended = match ended {
        _ if stopped => Err(Ending::Interrupted),
        Err(error) => Err(describe(&args.model, &error).into()),
        Ok(()) => Ok(()),
    };
    if json {
        let document = json!({
            "backend": backend_name(&storage),
            "format": model.format().to_string(),
            "files": model.files().len(),
            "tensors": model.tensors().len(),
            "requests": reads.len(),
            "bytes": tensor_bytes(&model),
            "read_bytes": read_bytes,
            "seconds": elapsed.as_secs_f64(),
            "open_seconds": opened.as_secs_f64(),
            "plan_seconds": (planned - opened).as_secs_f64(),
            "read_seconds": (elapsed - planned).as_secs_f64(),
            "cpu_seconds": processor.as_secs_f64(),
        });
        ended = output::conclude(document, ended);
    } else if ended.is_ok() {
        let mut table = Table::default();
        let time = |time: Duration| size::display_time(time);
        let bytes = tensor_bytes(&model);
        let rate = |time: Duration| rate(bytes, time.as_secs_f64().max(f64::MIN_POSITIVE));
        let files = counted(model.files().len() as u64, "file");
        let requests = counted(reads.len() as u64, "request");
        table
            .row("tensors", model.tensors().len(), files)
            .row("bytes", bytes, size::display(bytes))
            .row("time", time(elapsed), rate(elapsed))
            .row("open", time(opened), "files and headers")
            .row("plan", time(planned - opened), requests)
            .row("read", time(elapsed - planned), rate(elapsed - planned))
            .row("processor", time(processor), "all threads")
            .row("backend", backend_name(&storage), "");
        output::print(&table.text())?;
    }
    drop((model, queue));
    close(&storage);
    ended
}
