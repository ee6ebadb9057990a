//! Workload `python`: the package for Python beside what Python programs use today.
//!
//! - a model of 4 GiB in the format safetensors, with the tensors of a 7B-class model, into numpy,
//!   cold and warm, beside the loaders of model weights and the bare ring into new memory;
//! - 10,000 records of 20 kB in random order, cold: files, a zip, HDF5, LMDB, a package;
//! - what a request costs, in batches of 1000;
//! - the memory that iterating the model takes beyond its largest tensor.
//!
//! Every run of a contender is a new process (`worker.py`), which imports what it needs and then
//! waits: the time that counts is the load's alone, taken by that process. What it loaded it sums
//! up (see [`digest`]), and the sum is compared with that of the file. Without an interpreter that
//! has the package the workload is left out.

mod model;
mod records;
mod worker;

use std::path::Path;

use serde_json::json;

use crate::case::{Case, Method, Work, fresh};
use crate::cases::Bytes;
use crate::clock::Moment;
use crate::corpus::{Form, word_sum};
use crate::error::{Context, Result, ensure};
use crate::files::{drop_all, drop_path, walk, warm_path};
use crate::memory::Destination;
use crate::metric::Metric;
use crate::read::rings::Straight;
use crate::session::Session;
use model::Model;
use worker::{Python, Worker};

/// Requests of a batch, and bytes of each.
const BATCH: usize = 1000;
const REQUEST_BYTES: usize = 64;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let program = session.options.python.clone();
    match Python::find(program.unwrap_or_else(|| "python3".into())) {
        Ok(python) => {
            models(session, &python)?;
            records(session, &python)?;
            requests(session, &python)
        }
        Err(why) => {
            let all = session.cases("python", "all");
            all.iter()
                .try_for_each(|all| session.skip(all, "millstream", &why))
        }
    }
}

fn models(session: &mut Session<'_>, python: &Python) -> Result<()> {
    for instance in session.cases("python", "model") {
        let state: String = instance.get("state");
        session.say("corpus: model");
        let model = &Model::made(session.corpus.folder(), instance.get("shape"))?;
        let (arguments, path) = (json!({ "path": model.path }), &model.path);
        let mut case = session.begin(&instance);
        let task = if state == "iterated" {
            "iterate"
        } else {
            "model"
        };
        for name in instance.contenders() {
            match name {
                "ring" => {
                    case.try_push(name, ring_into_new_memory(model));
                }
                _ => add(&mut case, name, task, python, &arguments),
            }
        }
        case.prepare(move || match &*state {
            "warm" => warm_path(path),
            _ => drop_after_read(path),
        });
        case.check(0, |_, work| check(work, model.digest));
        if task == "iterate" {
            // The peak of resident memory, less the largest tensor.
            let largest = model.largest as f64 / 1_048_576.0;
            case.figures(move |_, work| {
                let peaks = work.extra.iter();
                let beyond = Metric::of("beyond-largest MiB");
                peaks.map(|(_, peak)| (beyond, peak - largest)).collect()
            });
        }
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}

fn records(session: &mut Session<'_>, python: &Python) -> Result<()> {
    for instance in session.cases("python", "records") {
        session.say("corpus: records");
        let (folder, digest) = records::made(session.corpus.folder(), instance.get("count"))?;
        let arguments = json!({ "folder": folder });
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            add(&mut case, name, "records", python, &arguments);
        }
        // What each contender made of the records, and the records themselves.
        case.prepare(|| drop_all(&walk(&folder)?));
        case.check(0, move |_, work| check(work, digest));
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}

fn requests(session: &mut Session<'_>, python: &Python) -> Result<()> {
    for instance in session.cases("python", "requests") {
        let (batches, size): (usize, Bytes) = (instance.get("batches"), instance.get("size"));
        let path = session.corpus.big(size.0, Form::Stored)?.path;
        let expected = digest(batch_of(&std::fs::read(&path).on("read", &path)?));
        let arguments = json!({ "path": path, "batches": batches });
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            add(&mut case, name, "requests", python, &arguments);
        }
        case.prepare(|| warm_path(&path));
        case.check(0, move |_, work| check(work, expected));
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}

/// What a batch of `worker.py` reads of a file.
fn batch_of(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = (0..file.len() - REQUEST_BYTES).step_by(file.len() / BATCH);
    starts
        .take(BATCH)
        .map(|start| &file[start..start + REQUEST_BYTES])
}

/// Adds a contender of `worker.py`.
fn add<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    task: &'static str,
    python: &'a Python,
    arguments: &serde_json::Value,
) {
    let arguments = arguments.clone();
    let make = move || python.start(task, name, &arguments);
    case.push(name, fresh(make, |worker: &mut Worker, _| worker.run()));
}

/// Reads a file, and drops it from the page cache: so everyone finds as much memory that the
/// hypervisor has at hand, whoever came before.
fn drop_after_read(path: &Path) -> Result<()> {
    warm_path(path)?;
    drop_path(path)
}

/// The whole file by direct reads into memory that was never used, as loaders have it.
fn ring_into_new_memory(model: &Model) -> Result<impl Method> {
    let mut straight = Straight::device(&model.path)?;
    Ok(move |_: &mut Destination| {
        let start = Moment::now();
        let room = (model.file_bytes as usize).next_multiple_of(1 << 20);
        let mut memory = Destination::untouched(room)?;
        let work = straight.run(&mut memory)?;
        let span = start.elapsed();
        let pieces = model.tensors.iter().map(|range| &memory[range.clone()]);
        Ok(work.took(span).with_digest(digest(pieces)))
    })
}

/// What tells whether all pieces (tensors, records) arrived whole, in whatever order: the sum of
/// each piece's words times its first word, made odd; modulo 2^64.
fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let of = |piece: &[u8]| {
        let first = piece
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word));
        word_sum(piece).wrapping_mul(first | 1)
    };
    let digests = pieces.into_iter().map(of);
    digests.fold(0, u64::wrapping_add)
}

fn check(work: &Work, digest: u64) -> Result<()> {
    ensure(work.digest == Some(digest), "other bytes than the file has")
}
