//! Checksums of models: `weights hash`, and what `weights load --check` compares.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millstream::{Queue, QueueOptions};
use millstream_io::fs::names as file_names;
use millstream_pak::format::SignatureRecord;
use millstream_pak::{PublicKey, SecretKey};
use millstream_weights::checksums::SIGNED_PREFIX;
use millstream_weights::{Checksums, Model};
use serde_json::json;

use super::open;
use crate::args::ModelHashArgs;
use crate::commands::load::{cancel_on_interruption, close, end_of_load, rate};
use crate::failure::{self, Ending, Failure, counted, refused, set_path};
use crate::input::refuse_fifo;
use crate::loader::describe;
use crate::output::{self, Output};
use crate::table::Table;
use crate::{package, progress, size};

/// Reads checksums, verifies their signature if there is a key, and has the model's reads compared
/// with them.
pub(super) fn read(
    path: &Path,
    key: Option<&Path>,
    model: &mut Model,
) -> Result<Checksums, Ending> {
    refuse_fifo(path)?;
    let checksums = Checksums::read(path).map_err(|error| describe(path, &error))?;
    if let Some(key) = key {
        refuse_fifo(key)?;
        let key = PublicKey::read(key).map_err(|error| package::describe(key, &error))?;
        let (public_key, signature) = checksums.signature.ok_or_else(|| {
            let failure = Failure::new(path, "the checksums are not signed");
            failure.kind(&millstream_pak::ErrorKind::Signature)
        })?;
        let record = SignatureRecord {
            public_key,
            signature,
        };
        let verified = key.verify_as(SIGNED_PREFIX, &record, checksums.root());
        verified.map_err(|error| package::describe(path, &error))?;
    }
    let found = model.check(&checksums);
    found.map_err(|error| describe(path, &error))?;
    Ok(checksums)
}

/// Reads a model whose reads are compared with checksums, and compares the BLAKE3 of each file.
pub(super) fn compare(
    model: &Model,
    queue: &Queue,
    checksums: &Checksums,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<(), millstream::Error> {
    match model.hash(queue, goes_on)? {
        Some(found) => model.compare(&found, checksums),
        None => Ok(()),
    }
}

/// Runs `weights hash`.
pub(super) fn hash(args: &ModelHashArgs, json: bool) -> Result<(), Ending> {
    let begun = Instant::now();
    let key = package::key(args.sign.as_deref(), SecretKey::read)?;
    let (storage, model) = open(&args.model)?;
    let path = &args.model.model;
    let output = args.output.clone().unwrap_or_else(|| match path.is_dir() {
        true => path.join("model.checksums").into_os_string(),
        false => {
            let mut name = path.clone().into_os_string();
            name.push(".checksums");
            name
        }
    });
    let inputs = model.files().iter().map(|file| &*file.path);
    output::refuse_inputs(&output, inputs)?;
    output::refuse_stdout(&output, "a table is printed there, so the checksums")?;
    let target = Output::create(&output)?;
    let queue = storage.queue(QueueOptions::default()).map_err(refused)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    cancel_on_interruption(&queue, &interrupted);
    let bytes = model.files().iter().map(|file| file.bytes).sum();
    progress::begin(Some(bytes));
    let hashed = model.hash(&queue, &mut |bytes| {
        progress::advance(bytes);
        !interrupted.load(Ordering::Acquire)
    });
    let (stopped, _) = end_of_load(&interrupted, None, &storage);
    let mut checksums = match hashed {
        _ if stopped => return Err(Ending::Interrupted),
        hashed => hashed.map_err(|error| describe(path, &error))?,
    };
    let checksums = checksums.as_mut().ok_or(Ending::Interrupted)?;
    if let Some(key) = key {
        let record = key.sign(SIGNED_PREFIX, checksums.root());
        checksums.signature = Some((record.public_key, record.signature));
    }
    let length = target.put_all(&checksums.to_bytes())?;
    let (files, elapsed) = (model.files().len() as u64, begun.elapsed());
    drop((model, queue));
    close(&storage);
    let root = failure::hex(checksums.root());
    if json {
        let mut document = json!({
            "files": files,
            "bytes": bytes,
            "root": root,
            "signed": checksums.signature.is_some(),
            "seconds": elapsed.as_secs_f64(),
        });
        set_path(&mut document, &file_names::bytes(Path::new(&output)));
        return output::print_json(&document);
    }
    let rate = rate(bytes, elapsed.as_secs_f64().max(f64::MIN_POSITIVE));
    let mut table = Table::default();
    table
        .row("bytes", bytes, counted(files, "file"))
        .row("time", size::display_time(elapsed), rate)
        .row("written", length, failure::shown(&output))
        .row("root", root, "");
    output::print(&table.text())
}
