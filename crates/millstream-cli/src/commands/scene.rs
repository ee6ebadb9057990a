//! `scene`: loads glTF scenes into memory, and shows a table of when each part was loaded.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::Storage;
use millstream_gltf::record::is_scene;
use millstream_gltf::{
    Error, ErrorKind, Event, EventKind, Load, Loader, LoaderOptions, State, image, wait_all,
};
use millstream_io::thread::processor_time;
use millstream_pak::{Package, names};
use serde::Serialize;
use serde_json::json;

use crate::args::SceneArgs;
use crate::backend;
use crate::commands::load::{cancel_on_interruption, check_trace, close, end_of_load};
use crate::failure::{Ending, Failure, Failures, check_path, counted, refused, shown};
use crate::limits::{EVENTS_LISTED, HASHES_MAX, SCENE_FAILURES_MAX};
use crate::loader::{Hashed, describe, print_hashes};
use crate::output::Output;
use crate::progress;
use crate::table::Table;
use crate::{output, package, size};

#[cfg(feature = "gpu")]
mod gpu;
mod hashes;

/// The document of `--json`.
#[derive(Debug, Default, Serialize)]
struct Document {
    batches: u32,
    requests: u64,
    files: u64,
    stored_bytes: u64,
    raw_bytes: u64,
    images: u64,
    failed: u64,
    seconds: f64,
    cpu_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hashes: Option<Vec<Hashed>>,
}

/// The result of loading the scenes.
#[derive(Default)]
struct Outcome {
    document: Document,
    failures: Failures,
    /// Names of the files or entries loaded.
    files: BTreeSet<String>,
    /// Events with their times since the start of the command.
    events: Vec<(Duration, Event)>,
    /// Number of events beyond the limit of the table.
    events_more: usize,
    first_drawable: Option<Duration>,
}

/// Refuses `--gpu` in a build without the feature.
fn check_gpu(args: &SceneArgs) -> Result<(), Ending> {
    if cfg!(feature = "gpu") || args.gpu.is_none() {
        return Ok(());
    }
    let cause = crate::commands::NO_GPU;
    Err(Ending::Usage(format!("--gpu: {cause}")))
}

/// Runs `scene`.
pub(crate) fn scene(args: &SceneArgs, json: bool) -> Result<(), Ending> {
    check_gpu(args)?;
    check_trace(args.trace.as_deref(), std::slice::from_ref(&args.file))?;
    check_kind(&args.file)?;
    let mut options = backend::options(None)?;
    let mut limits = image::ImageLimits::default();
    if args.max_bytes.is_some() {
        // `--max-bytes` is the limit instead: the ratio limit refuses images of a single color.
        limits.ratio_max = u64::MAX;
    }
    image::register(&mut options, limits);
    let storage = Storage::new(options).map_err(refused)?;
    #[cfg(feature = "gpu")]
    let gpu = args.gpu.map(|number| gpu::open(number, &storage));
    #[cfg(feature = "gpu")]
    let gpu = gpu.transpose()?;
    let mut options = LoaderOptions::default();
    #[cfg(feature = "gpu")]
    {
        options.device = gpu.clone().map(|gpu| gpu as _);
    }
    options.memory_max = args.max_bytes;
    let loader =
        Loader::new(&storage, options).map_err(|error| failure(&args.file, None, &error))?;
    // Before the work, so that an unwritable trace fails now.
    let trace = args.trace.as_deref().map(Output::create).transpose()?;
    if trace.is_some() {
        storage.start_trace();
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    cancel_on_interruption(loader.queue(), &interrupted);
    let (begun, processor_begun) = (Instant::now(), processor_time());
    let mut outcome = match load_all(args, &loader, &storage, (begun, &interrupted)) {
        Ok(outcome) => outcome,
        Err(Ending::Failed(failures)) => Outcome {
            failures,
            ..Outcome::default()
        },
        Err(ending) => return Err(ending),
    };
    let elapsed = begun.elapsed();
    outcome.events.sort_by_key(|(at, _)| *at);
    outcome.document.failed = outcome.failures.count();
    outcome.document.seconds = elapsed.as_secs_f64();
    outcome.document.cpu_seconds = processor_time()
        .saturating_sub(processor_begun)
        .as_secs_f64();
    #[cfg(feature = "gpu")]
    {
        outcome.document.gpu = gpu.map(|gpu| gpu::document(&gpu));
    }
    let (stopped, traced) = end_of_load(&interrupted, trace, &storage);
    let refused = stopped || outcome.failures.count() > 0 && !args.partial;
    if !json && !refused {
        match outcome.document.hashes.take() {
            Some(hashes) => print_hashes(hashes)?,
            None => output::print(&table(&outcome))?,
        }
    }
    let mut ended = match stopped {
        true => Err(Ending::Interrupted),
        false => outcome.failures.ending().and(traced),
    };
    if json {
        ended = output::conclude(json!(outcome.document), ended);
    }
    drop(loader);
    close(&storage);
    ended
}

/// Refuses what is not a file; a missing file is reported by the load.
fn check_kind(file: &Path) -> Result<(), Failure> {
    check_path(file, "read")?;
    match std::fs::metadata(file) {
        Ok(about) if about.is_dir() => {
            let error = std::io::Error::from_raw_os_error(millstream_io::Errno::IS_FOLDER.0);
            Err(Failure::io(file, "read", &error))
        }
        Ok(about) if !about.is_file() => {
            let cause = "a FIFO, a socket or a device: a scene is loaded out of regular files";
            Err(Failure::new(file, cause))
        }
        _ => Ok(()),
    }
}

/// Loads the scene of a file, or the scenes of a package one after the other: the memory of each is
/// freed before the next begins. Stops early in a package with too many failures or hashes.
fn load_all(
    args: &SceneArgs,
    loader: &Loader,
    storage: &Storage,
    (call_begun, interrupted): (Instant, &AtomicBool),
) -> Result<Outcome, Ending> {
    let file = &*args.file;
    let mut outcome = Outcome::default();
    outcome.document.hashes = args.hash.then(Vec::new);
    progress::begin(None);
    let load_one =
        |scene: Option<&[u8]>, open: &dyn Fn() -> Result<Load, Error>, outcome: &mut Outcome| {
            let begun = call_begun.elapsed();
            let mut load = match open() {
                Ok(load) => load,
                Err(error) => {
                    outcome.failures.add(failure(file, scene, &error));
                    return Ok(());
                }
            };
            let before = outcome.document.raw_bytes;
            while !load.is_done() {
                wait_all(
                    std::slice::from_mut(&mut load),
                    Some(Duration::from_millis(100)),
                );
                progress::reach(before + load.progress().raw_bytes);
                if interrupted.load(Ordering::Acquire) {
                    load.cancel();
                }
            }
            collect(args, scene, load, begun, outcome).map_err(refused)
        };
    if !package::is_package(file) {
        load_one(None, &|| loader.open(file), &mut outcome)?;
        outcome.document.stored_bytes = storage.stats().stored_bytes;
        return Ok(outcome);
    }
    let wrong = |error: millstream_pak::Error| Ending::from(package::describe(file, &error));
    let opened = Package::open(storage, file).map_err(wrong)?;
    let scenes = scenes_of(&opened).map_err(wrong)?;
    if scenes.is_empty() {
        let cause = "the package holds no .gltf or .glb";
        return Err(Failure::new(file, cause).into());
    }
    let source: Arc<Package> = Arc::new(opened);
    for name in scenes {
        if interrupted.load(Ordering::Acquire) {
            break;
        }
        let hashes = outcome.document.hashes.as_ref().map_or(0, Vec::len);
        if outcome.failures.count() >= SCENE_FAILURES_MAX || hashes >= HASHES_MAX {
            let name = names::escape(&name);
            let cause = format!("'{name}' was not loaded: too many failures or hashes so far");
            let too_much = Failure::new(file, cause).kind(&ErrorKind::Limit);
            outcome.failures.add_at(0, too_much);
            break;
        }
        load_one(
            Some(&name),
            &|| loader.open_from(Arc::clone(&source) as _, &name),
            &mut outcome,
        )?;
    }
    // Counts each entry once: a block is read again for another entry that shares it.
    let loaded = outcome.files.iter();
    outcome.document.stored_bytes = loaded.filter_map(|name| stored_bytes(&source, name)).sum();
    Ok(outcome)
}

fn stored_bytes(package: &Package, name: &str) -> Option<u64> {
    let info = package.lookup(name.as_bytes()).ok()??;
    Some(package.storing(info.index).ok()?.stored_bytes)
}

/// Returns the names of a package's scenes.
fn scenes_of(package: &Package) -> millstream_pak::Result<Vec<Vec<u8>>> {
    let mut scenes = Vec::new();
    for &index in package.by_name()? {
        let name = package.name(index)?;
        if is_scene(name) && !package.info(index)?.gone {
            scenes.push(name.to_vec());
        }
    }
    Ok(scenes)
}

/// Adds the result of a scene whose load began `begun` after the start of the command.
fn collect(
    args: &SceneArgs,
    scene: Option<&[u8]>,
    load: Load,
    begun: Duration,
    outcome: &mut Outcome,
) -> Result<(), millstream::Error> {
    let file = &*args.file;
    let (document, progress) = (&mut outcome.document, load.progress());
    document.batches += progress.batches;
    document.requests += progress.requests;
    document.files += progress.files;
    document.raw_bytes += progress.raw_bytes;
    let landed = load.events().iter().filter(|event| !event.failed);
    outcome.files.extend(landed.map(|event| event.file.clone()));
    let room = EVENTS_LISTED.saturating_sub(outcome.events.len());
    let events = load.events().iter().take(room);
    let events = events.map(|event| (begun + event.at, event.clone()));
    outcome.events.extend(events);
    outcome.events_more += load.events().len().saturating_sub(room);
    let drawable = load.first_drawable().map(|time| begun + time);
    outcome.first_drawable = outcome.first_drawable.max(drawable);
    match load.finish_partial() {
        Ok(loaded) => {
            let there = |image: &&State<_>| image.get().is_some();
            document.images += loaded.images().iter().filter(there).count() as u64;
            if let Some(hashes) = &mut document.hashes {
                hashes::add(hashes, &loaded)?;
            }
            for problem in loaded.problems() {
                outcome.failures.add(failure(file, scene, problem));
            }
        }
        Err(error) => {
            outcome.failures.add(failure(file, scene, &error));
        }
    }
    Ok(())
}

/// Converts an error of a scene in `file`. It concerns the scene's own file, one beside it, or,
/// with `scene`, an entry of a package.
fn failure(file: &Path, scene: Option<&[u8]>, error: &Error) -> Failure {
    // The error's name is lossy where the file's is not UTF-8.
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = error
        .file()
        .filter(|named| scene.is_none() && *named != name);
    let folder = file.parent().unwrap_or(Path::new(""));
    let path = beside.map_or_else(|| file.to_owned(), |named| folder.join(named));
    let mut words = String::new();
    if let Some(scene) = scene {
        let (scene, entry) = (names::escape(scene), error.file().map(shown));
        words.push_str(&format!("scene '{scene}': "));
        if let Some(entry) = entry.filter(|entry| *entry != scene) {
            words.push_str(&format!("entry '{entry}': "));
        }
    }
    if !error.place().is_empty() {
        words.push_str(&format!("{}: ", error.place()));
    }
    match error.request_error() {
        // Errors of image decoding have their own cause.
        Some(request) if error.kind() != ErrorKind::Image => describe(&path, request).with(&words),
        _ => {
            let failure = Failure::new(path, error.cause()).with(&words);
            failure.kind(&error.kind())
        }
    }
}

fn table(outcome: &Outcome) -> String {
    let document = &outcome.document;
    let seconds = |seconds| size::display_time(Duration::from_secs_f64(seconds));
    let mut table = Table::default();
    for (at, event) in &outcome.events {
        let what = match event.what {
            EventKind::Json => "json",
            EventKind::Buffer => "buffer",
            EventKind::Image => "image",
            EventKind::SmallLevels => "image, small",
            EventKind::LargeLevels => "image, large",
            _ => "other",
        };
        let bytes = match event.failed {
            true => String::from("failed"),
            false => size::display(event.bytes),
        };
        let place = if event.place.is_empty() { "" } else { ": " };
        let remark = format!("{bytes}  {}{place}{}", shown(&event.file), event.place);
        table.row(what, size::display_time(*at), remark);
    }
    if outcome.events_more > 0 {
        table.row("more", outcome.events_more, "that are not listed");
    }
    if let Some(time) = outcome.first_drawable {
        table.row(
            "drawable",
            size::display_time(time),
            "buffers and small levels",
        );
    }
    table
        .row(
            "time",
            seconds(document.seconds),
            format!("{} of processor", seconds(document.cpu_seconds)),
        )
        .row(
            "batches",
            document.batches,
            format!(
                "{}, {}",
                counted(document.requests, "request"),
                counted(document.files, "file")
            ),
        )
        .row(
            "images",
            document.images,
            counted(document.failed, "failure"),
        )
        .row(
            "bytes",
            size::display(document.raw_bytes),
            format!(
                "in memory, of {} stored",
                size::display(document.stored_bytes)
            ),
        );
    if let Some(gpu) = &document.gpu {
        let text = |name: &str| String::from(gpu[name].as_str().unwrap_or_default());
        let tiles = format!("{} decoded {} tiles", text("tier"), gpu["tiles"]);
        table.row("GPU", tiles, text("device"));
    }
    table.text()
}
