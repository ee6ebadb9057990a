//! `load`: loads files into memory through the engine, and shows where the time went.

use std::ffi::OsStr;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::{
    Access, DeviceKind, Priority, Queue, QueueOptions, Stats, Storage, StorageOptions,
};
use millstream_io::fs::names;
use millstream_pak::{Archive, Package, PackageOptions};
use serde_json::{Value, json};

use crate::args::{DirectWord, LoadArgs};
use crate::backend;
use crate::cold;
use crate::failure::{self, Ending, Failure, counted, refused};
use crate::limits::{CLOSE_WAIT, WINDOW_REQUESTS};
use crate::loader::{Hashes, Loader, Source, Tally};
use crate::output::{self, Output};
use crate::package::{Sizes, visible};
use crate::table::Table;
use crate::walk::Found;
use crate::{archive, package, signals, size, walk};

/// Runs `load`.
pub(crate) fn load(args: &LoadArgs, json: bool) -> Result<(), Ending> {
    check_trace(args.trace.as_deref(), &args.paths)?;
    let storage = Storage::new(options(args)?).map_err(refused)?;
    let sources = find(&storage, args)?;
    if args.cold {
        cold::drop_files(&sources);
    }
    let queue = storage.queue(queue_options()).map_err(refused)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    // Before the work, so that an unwritable trace fails now; after the walk, which would find the
    // trace file.
    let trace = args.trace.as_deref().map(Output::create).transpose()?;
    cancel_on_interruption(&queue, &interrupted);
    if trace.is_some() {
        storage.start_trace();
    }
    // Also before the work, so that a closed standard output fails now.
    let hashes = args.hash.then(|| Hashes::new(json)).transpose()?;
    let loader = Loader {
        storage: &storage,
        queue: &queue,
        sources: &sources,
        timeout: args.timeout,
        traced: args.trace.is_some(),
        hashes,
        interrupted: Arc::clone(&interrupted),
        tally: Tally::default(),
    };
    // Excludes what opening the packages took.
    let before = storage.stats();
    let tally = loader.run()?;
    let stats = storage.stats().since(&before);
    let (stopped, traced) = end_of_load(&interrupted, trace, &storage);
    let mut document = document(&storage, &tally, &stats);
    let nothing_loaded = tally.files > 0 && tally.files == tally.failures.count() + tally.canceled;
    if json && args.hash {
        // In the order of the printed lines.
        document["hashes"] = json!(tally.hashes);
    }
    if !json && !args.hash && !nothing_loaded {
        output::print(&table(args, &storage, &tally, &stats))?;
    }
    let mut ended = ending(tally, stopped).and(traced);
    if json {
        ended = output::conclude(document, ended);
    }
    close(&storage);
    ended
}

/// Refuses a trace that would replace an input or go to standard output, which has the table, the
/// hashes or the document.
pub(crate) fn check_trace(name: Option<&OsStr>, inputs: &[PathBuf]) -> Result<(), Ending> {
    let name = name.unwrap_or_default();
    output::refuse_stdout(name, "--trace: standard output is taken, so it")?;
    Ok(output::refuse_inputs(
        name,
        inputs.iter().map(PathBuf::as_path),
    )?)
}

/// Returns what the paths name: files, files below folders, and the entries of packages and
/// archives. A base's entry is omitted if a patch replaces or removes it.
fn find(storage: &Storage, args: &LoadArgs) -> Result<Vec<Source>, Failure> {
    let mut sources: Vec<Source> = Vec::new();
    let mut opened = Vec::new();
    for path in &args.paths {
        let folded = match args.fold_case && !path.exists() {
            true => names::find_ignoring_case(PathBuf::new(), path),
            false => None,
        };
        let path = folded.as_ref().unwrap_or(path);
        if package::is_package(path) {
            match open(storage, path, args, &mut opened) {
                Ok(package) => sources.push(Source::Entries(package, Vec::new())),
                Err(failure) => sources.push(failed(path, failure)),
            }
            continue;
        }
        if archive::is_named(path) {
            sources.push(match open_archive(storage, path, args) {
                Ok(archive) => Source::Archive(archive),
                Err(failure) => failed(path, failure),
            });
            continue;
        }
        match sources.last_mut() {
            Some(Source::Files(files)) => walk::find(path, files)?,
            _ => {
                let mut files = Vec::new();
                walk::find(path, &mut files)?;
                sources.push(Source::Files(files));
            }
        }
    }
    // A patch comes after its base on the command line.
    let mut above: Vec<Package> = Vec::new();
    for source in sources.iter_mut().rev() {
        let Source::Entries(package, indices) = source else {
            continue;
        };
        let is_over = |patch: &&Package| {
            let root = patch.base_root();
            root.is_some() && [Some(package.root()), package.base_root()].contains(&root)
        };
        let patches: Vec<&Package> = above.iter().filter(is_over).collect();
        // A patch names its exact base, so `--min-version` does not apply to a base.
        let is_base = !patches.is_empty() && package.base_root().is_none();
        let least = if is_base { 0 } else { args.min_version };
        let version = package.require_version(least);
        match version.and_then(|()| visible(package, b"**", &patches)) {
            Ok(found) => {
                *indices = found;
                above.push(package.clone());
            }
            Err(error) => {
                let path = package.path();
                *source = failed(path, package::describe(path, &error));
            }
        }
    }
    Ok(sources)
}

/// Returns a source that reports a package as failed.
fn failed(path: &Path, failure: Failure) -> Source {
    Source::Files(vec![Found::named(path, Err(failure))])
}

/// Opens a package; a patch over its base, if that was opened before it. A package that exceeds the
/// limit of raw bytes still serves as a base.
fn open(
    storage: &Storage,
    path: &Path,
    args: &LoadArgs,
    before: &mut Vec<Package>,
) -> Result<Package, Failure> {
    let failed = |error| package::describe(path, &error);
    let mut package = Package::open_with(storage, path, package_options(args)).map_err(failed)?;
    let mut sizes = Sizes::default();
    let base_root = package.base_root();
    if let Some(base) = before.iter().find(|it| base_root == Some(it.root())) {
        package = package.with_base(base).map_err(failed)?;
        sizes.add(base, []);
    }
    before.push(package.clone());
    sizes.add(&package, 0..package.len());
    sizes.check(path, args.max_bytes)?;
    Ok(package)
}

fn package_options(args: &LoadArgs) -> PackageOptions {
    PackageOptions {
        verify: !args.no_verify,
        fold_case: args.fold_case,
        ..PackageOptions::default()
    }
}

/// Opens an archive of another program.
fn open_archive(storage: &Storage, path: &Path, args: &LoadArgs) -> Result<Archive, Failure> {
    let options = PackageOptions {
        min_version: args.min_version,
        ..package_options(args)
    };
    let opened = archive::open_in(storage, path, options);
    let archive = opened.map_err(|error| package::describe(path, &error))?;
    let mut sizes = Sizes::default();
    sizes.add_archive(&archive, 0..archive.len());
    sizes.check(path, args.max_bytes)?;
    Ok(archive)
}

fn options(args: &LoadArgs) -> Result<StorageOptions, Ending> {
    let mut options = backend::options(args.backend)?;
    options.access = match args.direct {
        DirectWord::Auto => Access::Auto,
        DirectWord::Always => Access::Direct,
        DirectWord::Never => Access::Buffered,
    };
    options.depth = args.queue_depth;
    options.disk_model = args.disk.clone();
    if let Some(bytes) = args.block {
        options.block_bytes = in_memory("--block", bytes)?;
    }
    if let Some(bytes) = args.staging {
        options.staging_bytes = in_memory("--staging", bytes)?;
    }
    options.threads.workers = args.workers.map(|count| count as usize);
    Ok(options)
}

fn in_memory(word: &str, bytes: u64) -> Result<usize, Ending> {
    usize::try_from(bytes)
        .map_err(|_| Ending::Usage(format!("{word}: more than this machine can address")))
}

fn queue_options() -> QueueOptions {
    let window = u32::try_from(WINDOW_REQUESTS).expect("the window is small");
    let mut options = QueueOptions::default();
    options.name = String::from("load");
    // Each request is accompanied by the close of its file.
    options.capacity = 2 * window;
    options.unclaimed = window;
    options
}

/// Makes an interruption cancel a queue's requests, present and future.
pub(crate) fn cancel_on_interruption(queue: &Queue, interrupted: &Arc<AtomicBool>) {
    let (queue, interrupted) = (queue.clone(), Arc::clone(interrupted));
    signals::set_canceler(Some(Box::new(move || {
        interrupted.store(true, Ordering::Release);
        // Every tag matches; requests submitted later are stopped by the flag.
        queue.cancel_tagged(0, 0);
    })));
}

/// Ends a load whose requests have all completed: unless interrupted, unsets the canceler and
/// writes the trace. Returns whether it was interrupted, and the result of writing the trace.
pub(crate) fn end_of_load(
    interrupted: &AtomicBool,
    trace: Option<Output>,
    storage: &Storage,
) -> (bool, Result<(), Ending>) {
    let stopped = interrupted.load(Ordering::Acquire);
    if !stopped {
        signals::set_canceler(None);
    }
    // An interrupted load leaves no trace: outputs can no longer be finished.
    let traced = match trace.filter(|_| !stopped) {
        Some(output) => write_trace(output, storage),
        None => Ok(()),
    };
    (stopped, traced)
}

/// Writes the trace that the storage recorded.
fn write_trace(output: Output, storage: &Storage) -> Result<(), Ending> {
    let mut writer = BufWriter::new(output);
    let written = storage
        .take_trace()
        .write_json(&mut writer)
        .and_then(|()| writer.flush());
    written.map_err(|error| writer.get_ref().ending(&error))?;
    let (output, rest) = writer.into_parts();
    assert!(rest.is_ok_and(|rest| rest.is_empty()), "it was flushed");
    Ok(output.finish()?)
}

/// Closes the storage, and reports operations that the system still holds.
pub(crate) fn close(storage: &Storage) {
    let report = storage.close(CLOSE_WAIT);
    if report.operations > 0 {
        let held = counted(report.operations as u64, "operation");
        let mut line = format!("the system still holds {held} of {} bytes", report.bytes);
        let files: Vec<String> = report.files.iter().map(failure::shown).collect();
        if !files.is_empty() {
            line.push_str(&format!(" on {}", files.join(", ")));
        }
        failure::tell(&line);
    }
}

fn ending(tally: Tally, stopped: bool) -> Result<(), Ending> {
    let canceled = tally.canceled > 0 && tally.failures.count() == 0;
    match stopped || canceled {
        true => Err(Ending::Interrupted),
        false => tally.failures.ending(),
    }
}

pub(crate) fn backend_name(storage: &Storage) -> &'static str {
    match storage.device_kind() {
        DeviceKind::Uring => "uring",
        DeviceKind::Iocp => "iocp",
        DeviceKind::Threads => "threads",
        DeviceKind::Custom | DeviceKind::Cached | DeviceKind::Null => {
            unreachable!("options() asks for none of them")
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns the requests of `load`; tables of packages are read with another priority.
fn requests(stats: &Stats) -> u64 {
    stats.completed(Priority::Normal)
}

fn document(storage: &Storage, tally: &Tally, stats: &Stats) -> Value {
    json!({
        "backend": backend_name(storage),
        "files": tally.files,
        "requests": requests(stats),
        "stored_bytes": tally.stored_bytes,
        "raw_bytes": tally.bytes,
        "seconds": tally.elapsed.as_secs_f64(),
        "cpu_seconds": tally.processor.as_secs_f64(),
        "failed": tally.failures.count(),
        "cancelled": tally.canceled,
        "first_error": tally.failures.first().map(Failure::to_string),
        "device_idle_seconds": seconds(stats.device_idle_ns),
        "decode_wait_seconds": seconds(stats.decode_wait_ns),
        "staging_peak_bytes": stats.staging_peak_bytes,
    })
}

fn table(args: &LoadArgs, storage: &Storage, tally: &Tally, stats: &Stats) -> String {
    let elapsed = tally.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let disk = args.disk.as_ref();
    let imitated = disk.map_or_else(String::new, |disk| {
        format!("imitates the disk {}", failure::shown(&disk.name))
    });
    let mut table = Table::default();
    let lost = format!(
        "{} failed, {} canceled",
        tally.failures.count(),
        tally.canceled
    );
    table
        .row("files", tally.files, lost)
        .row("requests", requests(stats), "")
        .row("bytes", tally.bytes, size::display(tally.bytes))
        .row(
            "time",
            size::display_time(tally.elapsed),
            rate(tally.bytes, elapsed),
        )
        .row(
            "processor",
            size::display_time(tally.processor),
            "all threads",
        )
        .row("backend", backend_name(storage), imitated);
    engine_rows(&mut table, stats, elapsed);
    latency_rows(&mut table, stats);
    table.text()
}

/// Adds rows for the engine's activity and times.
fn engine_rows(table: &mut Table, stats: &Stats, elapsed: f64) {
    let share = |ns: u64| format!("{:.0} % of the time", seconds(ns) / elapsed * 100.0);
    let (busy, idle) = (share(stats.device_busy_ns), share(stats.device_idle_ns));
    let waited = summed(stats.decode_wait_ns, stats.jobs);
    let longest = format_ns(stats.open_max_ns);
    let opens = match stats.opens {
        0 => String::from("no files"),
        count => format!(
            "the sum of {}; the longest {longest}",
            counted(count, "file")
        ),
    };
    let operations = format!(
        "{} past the page cache, {} of several requests, {} repeated",
        stats.direct_operations, stats.merged_operations, stats.retried_operations
    );
    table.row("operations", stats.operations, operations);
    let mut time = |name, ns, remark: &str| {
        table.row(name, format_ns(ns), remark);
    };
    time("device busy", stats.device_busy_ns, &busy);
    let though = format!("{idle}, though requests waited");
    time("device idle", stats.device_idle_ns, &though);
    let waited = format!("data waited for a worker, {waited}");
    time("decode wait", stats.decode_wait_ns, &waited);
    let decoding = summed(stats.decode_ns, stats.jobs);
    time("decoding", stats.decode_ns, &decoding);
    let starved = "workers waited for data, the sum of all workers";
    time("worker wait", stats.worker_starved_ns, starved);
    time("opens", stats.open_ns, &opens);
    let capacity = format!("of {}", size::display(stats.staging_capacity_bytes));
    table.row(
        "staging peak",
        size::display(stats.staging_peak_bytes),
        capacity,
    );
}

/// Adds the latencies of each priority that had requests.
fn latency_rows(table: &mut Table, stats: &Stats) {
    for priority in Priority::ALL {
        if stats.completed(priority) > 0 {
            let latency = |quantile| format_ns(stats.latency_ns(priority, quantile));
            table.row(
                &format!("latency {priority:?}").to_lowercase(),
                format!("p50 {}", latency(0.5)),
                format!(
                    "p99 {}, p99.9 {}, longest {}",
                    latency(0.99),
                    latency(0.999),
                    latency(1.0)
                ),
            );
        }
    }
}

/// Formats a time that is the sum over jobs, which overlap.
fn summed(nanoseconds: u64, jobs: u64) -> String {
    match jobs {
        0 => String::from("no jobs"),
        _ => format!(
            "the sum of {}, {} each",
            counted(jobs, "job"),
            format_ns(nanoseconds / jobs)
        ),
    }
}

/// Formats a rate; `elapsed` in seconds.
pub(crate) fn rate(bytes: u64, elapsed: f64) -> String {
    format!("{:.1} MB/s", bytes as f64 / 1e6 / elapsed)
}

fn format_ns(nanoseconds: u64) -> String {
    size::display_time(Duration::from_nanos(nanoseconds))
}
