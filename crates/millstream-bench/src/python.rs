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
use std::rc::Rc;

use serde_json::json;

use crate::case::{Contender, Work};
use crate::clock::Moment;
use crate::cold;
use crate::corpus::{Form, word_sum};
use crate::error::{Context, Result, ensure};
use crate::limits;
use crate::memory::Destination;
use crate::read::rings;
use crate::rows::Metric;
use crate::session::Session;
use model::Model;
use worker::Python;

const WORKLOAD: &str = "python";
const RATE: Metric = Metric::higher("rate", "MB/s");
const TOTAL: Metric = Metric::lower("total", "ms");
/// Wall time of the caller, from the first request of a batch to the last result of it.
const COST: Metric = Metric::lower("cost", "us/request");
/// Processor time of the whole process.
const CPU: Metric = Metric::lower("cpu", "ms/100MB");
const CPU_REQUEST: Metric = Metric::lower("cpu", "us/request");
/// The peak of resident memory, less the largest tensor.
const BEYOND: Metric = Metric::lower("beyond-largest", "MiB");

/// Requests of a batch, and bytes of each.
const BATCH: usize = 1000;
const REQUEST_BYTES: usize = 64;

/// Contenders that load a model, as `worker.py` names them.
const LOADERS: [&str; 5] = [
    "millstream",
    "safetensors",
    "safetensors-read",
    "fastsafetensors",
    "runai-model-streamer",
];
/// Contenders that read records.
const READERS: [&str; 6] = [
    "millstream",
    "millstream-dataset",
    "files-8",
    "zipfile",
    "h5py",
    "lmdb",
];

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let program = session.options.python.clone();
    let python = Python::find(program.unwrap_or_else(|| "python3".into()));
    let python = match python {
        Ok(python) => Rc::new(python),
        Err(why) => return session.skip(WORKLOAD, "all", "millstream", &why),
    };
    models(session, &python)?;
    records(session, &python)?;
    requests(session, &python)
}

fn models(session: &mut Session<'_>, python: &Rc<Python>) -> Result<()> {
    let size = session.size("4 GiB", "17 MB");
    let names = ["cold", "warm", "iterated"].map(|state| format!("model of {size} {state}"));
    if !names.iter().any(|name| session.wants(name)) {
        return Ok(());
    }
    session.say("corpus: model");
    let scale = session.size(model::Scale::Full, model::Scale::Quick);
    let model = Model::made(session.corpus.folder(), scale)?;
    // A run takes seconds, and its spread is small.
    let runs = session.runs().min(limits::THROTTLED_RUNS_MAX);
    let arguments = json!({ "path": model.path });
    for (name, make_so) in [
        (&names[0], drop_after_read as fn(&Path) -> Result<()>),
        (&names[1], cold::warm_path),
    ] {
        let Some(mut case) = session.begin(WORKLOAD, name) else {
            continue;
        };
        case.runs = runs;
        case.try_push("ring", ring_into_new_memory(&model));
        for name in LOADERS {
            case.push(contender(name, "model", python, &arguments));
        }
        case.prepare(|| make_so(&model.path));
        case.check(0, |_, work| check(work, model.digest));
        case.figures(|span, work| {
            let megabytes = work.bytes as f64 / 1e6;
            let cpu = span.cpu * 1e3 / megabytes * 100.0;
            vec![(RATE, megabytes / span.wall), (CPU, cpu)]
        });
        session.run(case, &mut Destination::new(0)?)?;
    }
    let Some(mut case) = session.begin(WORKLOAD, &names[2]) else {
        return Ok(());
    };
    case.runs = runs;
    case.push(contender("millstream", "iterate", python, &arguments));
    case.check(0, |_, work| check(work, model.digest));
    case.prepare(|| cold::drop_path(&model.path));
    let largest = model.largest as f64 / 1048576.0;
    case.figures(move |_, work| {
        let peaks = work.extra.iter();
        peaks.map(|(_, peak)| (BEYOND, peak - largest)).collect()
    });
    session.run(case, &mut Destination::new(0)?).map(drop)
}

fn records(session: &mut Session<'_>, python: &Rc<Python>) -> Result<()> {
    let count = session.size(10_000, 200);
    let Some(mut case) = session.begin(WORKLOAD, format!("{count} records cold")) else {
        return Ok(());
    };
    session.say("corpus: records");
    let records = records::made(session.corpus.folder(), count)?;
    let arguments = json!({ "folder": records.folder });
    for name in READERS {
        case.push(contender(name, "records", python, &arguments));
    }
    // What each contender made of the records, and the records themselves.
    let (folder, digest) = (records.folder, records.digest);
    case.prepare(move || cold::drop_all(&records::files_in(&folder)?));
    case.check(0, move |_, work| check(work, digest));
    case.figures(|span, _| vec![(TOTAL, span.wall * 1e3)]);
    session.run(case, &mut Destination::new(0)?).map(drop)
}

fn requests(session: &mut Session<'_>, python: &Rc<Python>) -> Result<()> {
    let Some(mut case) = session.begin(WORKLOAD, "batches of 1000 warm reads") else {
        return Ok(());
    };
    let file = session.corpus.big(limits::BIG_BYTES, Form::Stored)?;
    let path = file.path;
    let expected = digest(batch_of(&std::fs::read(&path).on("read", &path)?));
    let arguments = json!({ "path": path, "batches": session.size(200, 5) });
    for name in ["millstream", "pread"] {
        case.push(contender(name, "requests", python, &arguments));
    }
    case.prepare(move || cold::warm_path(&path));
    case.check(0, move |_, work| check(work, expected));
    case.figures(|span, work| {
        let count = work.requests as f64;
        vec![
            (COST, span.wall * 1e6 / count),
            (CPU_REQUEST, span.cpu * 1e6 / count),
        ]
    });
    session.run(case, &mut Destination::new(0)?).map(drop)
}

/// What a batch of `worker.py` reads of a file.
fn batch_of(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = (0..file.len() - REQUEST_BYTES).step_by(file.len() / BATCH);
    starts
        .take(BATCH)
        .map(|start| &file[start..start + REQUEST_BYTES])
}

/// A contender of `worker.py`.
fn contender(
    name: &str,
    task: &'static str,
    python: &Rc<Python>,
    arguments: &serde_json::Value,
) -> Contender {
    let (python, arguments, of) = (Rc::clone(python), arguments.clone(), name.to_owned());
    let make = move || python.start(task, &of, &arguments);
    Contender::prepared(name, make, |worker, _| worker.run())
}

/// Reads a file, and drops it from the page cache: so everyone finds as much memory that the
/// hypervisor has at hand, whoever came before.
fn drop_after_read(path: &Path) -> Result<()> {
    cold::warm_path(path)?;
    cold::drop_path(path)
}

/// The whole file by direct reads into memory that was never used, as loaders have it.
fn ring_into_new_memory(model: &Model) -> Result<Contender> {
    let mut straight = rings::device(&model.path)?;
    let (len, tensors) = (model.file_bytes, model.tensors.clone());
    let run = move |_: &mut Destination| {
        let start = Moment::now();
        let room = (len as usize).next_multiple_of(1 << 20);
        let mut memory = Destination::untouched(room)?;
        let work = (straight.run)(&mut memory)?;
        let span = start.elapsed();
        let pieces = tensors.iter().map(|range| &memory[range.clone()]);
        Ok(work.took(span).with_digest(digest(pieces)))
    };
    Ok(Contender::new("ring", run))
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
