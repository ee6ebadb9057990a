//! `weights`: shows and loads the tensors of a model, and writes and compares checksums.

use millstream::Storage;
use millstream_io::fs::names as file_names;
use millstream_pak::names;
use millstream_weights::{Model, Tensor, Value};
use serde_json::{Map, json};

use crate::args::{ModelArgs, WeightsArgs, WeightsCommand};
use crate::failure::{Ending, counted, refused, set_path};
use crate::loader::describe;
use crate::table::Table;
use crate::{backend, output, size};

mod checksums;
mod load;

/// Longest value of the metadata that the table shows, in characters.
const VALUE_CHARS_MAX: usize = 60;

/// Runs `weights`.
pub(crate) fn weights(args: &WeightsArgs, json: bool) -> Result<(), Ending> {
    match &args.command {
        WeightsCommand::Info(args) => info(args, json),
        WeightsCommand::Load(args) => load::load(args, json),
        WeightsCommand::Hash(args) => checksums::hash(args, json),
        WeightsCommand::Bench(args) => load::bench(args, json),
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
