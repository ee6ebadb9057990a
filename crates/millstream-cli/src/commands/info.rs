//! `info`: what this machine and a place on it offer, and what the engine makes of it.

use std::collections::BTreeMap;
use std::path::Path;

use millstream::{DeviceKind, Storage, StorageOptions};
use millstream_codec::CodecId;
use millstream_io::MountKind;
use millstream_io::backend::ring_features;
use millstream_io::device::UringFeatures;
use millstream_io::fs::probe::{self, Machine, Place};
use millstream_pak::{DictionaryUse, Package, Target};
use serde_json::{Value, json};

use crate::args::InfoArgs;
use crate::commands::load::backend_name;
use crate::failure::{Ending, Failure, refused, shown};
use crate::output;
use crate::package::{dictionary_rows, is_package, target_document, target_row};
use crate::size;
use crate::table::Table;

mod vulkan;

/// What was found out.
struct Found {
    backend: &'static str,
    reason: String,
    ring: Result<UringFeatures, String>,
    machine: Machine,
    place: Place,
    gpus: Result<Vec<vulkan::Device>, String>,
    /// Of a PATH that is a package; or why its tables cannot be read.
    package: Option<Result<AboutPackage, String>>,
}

/// What `info` shows of a package.
struct AboutPackage {
    content_version: u64,
    target: Option<Target>,
    dictionaries: Vec<DictionaryUse>,
}

/// Runs `info`.
pub(crate) fn info(args: &InfoArgs) -> Result<(), Ending> {
    let place = probe::place(&args.path).map_err(|error| {
        let system = std::io::Error::from_raw_os_error(error.errno.0);
        Failure::io(&args.path, error.call, &system)
    })?;
    // Before the storage: the kernel gives back a ring's share of locked memory only some time
    // after the ring is gone.
    let staging = millstream::limits::STAGING_BYTES_DEFAULT;
    let ring = ring_features(staging).map_err(|error| error.to_string());
    let storage = Storage::new(StorageOptions::default()).map_err(refused)?;
    let backend = backend_name(&storage);
    let reason = match storage.device_kind() {
        DeviceKind::Uring => String::from("the system allows io_uring"),
        _ => String::from(storage.device_reason()),
    };
    let about = || {
        let package = Package::open(&storage, &args.path)?;
        Ok(AboutPackage {
            content_version: package.content_version(),
            target: package.target(),
            dictionaries: package.dictionary_uses()?,
        })
    };
    let cause = |error: millstream_pak::Error| String::from(error.cause());
    let package = is_package(&args.path).then(|| about().map_err(cause));
    drop(storage);
    let found = Found {
        backend,
        reason,
        ring,
        machine: probe::machine(),
        place,
        gpus: vulkan::devices(),
        package,
    };
    if args.json {
        output::print_json(&document(&args.path, &found))
    } else {
        output::print(&table(&args.path, &found))
    }
}

fn mount_word(kind: MountKind) -> &'static str {
    match kind {
        MountKind::Local => "a disk of this machine",
        MountKind::Memory => "memory",
        MountKind::Slow => "a mount that may hang",
    }
}

fn table(path: &Path, found: &Found) -> String {
    let mut table = Table::default();
    table.row("version", env!("CARGO_PKG_VERSION"), "");
    table.row("backend", found.backend, &*found.reason);
    ring_rows(&mut table, found);
    machine_rows(&mut table, &found.machine);
    place_rows(&mut table, path, &found.place);
    vulkan::rows(&mut table, &found.gpus);
    match &found.package {
        None => {}
        Some(Ok(about)) => {
            let version = about.content_version;
            table.row("content", version, "version of the package's content");
            if let Some(target) = about.target {
                target_row(&mut table, target);
            }
            dictionary_rows(&mut table, &about.dictionaries);
        }
        Some(Err(why)) => {
            table.row("package", "?", &**why);
        }
    }
    for codec in crate::args::STREAM_CODECS {
        let levels = millstream_codec::level_range(codec);
        let default = millstream_codec::default_level(codec);
        let remark = match (levels.start(), levels.end()) {
            _ if levels.is_empty() => String::from("decoded only in this build"),
            (least, most) if least == most => String::from("one level"),
            (least, most) => format!("levels {least} to {most}, {default} by default"),
        };
        table.row("codec", codec.name(), remark);
    }
    for (name, kernel) in kernels() {
        let name = format!("kernel of {name}");
        table.row(&name, kernel, "chosen for this processor");
    }
    for (name, value) in limits() {
        let words = name.trim_end_matches("_bytes").replace('_', " ");
        let bytes = name.ends_with("_bytes");
        let shown = if bytes {
            size::display(value)
        } else {
            value.to_string()
        };
        table.row("limit", shown, words);
    }
    table.text()
}

fn ring_rows(table: &mut Table, found: &Found) {
    let features = match &found.ring {
        Ok(features) => features,
        Err(why) => {
            table.row("io_uring", "no", &**why);
            return;
        }
    };
    let entries = format!(
        "{} submission and {} completion entries",
        features.submission_entries, features.completion_entries
    );
    table.row("io_uring", "yes", entries);
    table.row("ring flags", "", ring_flags(features).join(" "));
    let registered = size::display(features.registered_bytes as u64);
    table.row("registered memory", registered, features.registered_why_not);
}

fn ring_flags(features: &UringFeatures) -> Vec<&'static str> {
    let flags = [
        (features.single_issuer, "single_issuer"),
        (features.defer_taskrun, "defer_taskrun"),
        (features.coop_taskrun, "coop_taskrun"),
        (features.task_run_flag, "task_run_flag"),
        (features.ext_arg, "ext_arg"),
        (features.resource_tags, "resource_tags"),
    ];
    flags
        .into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, name)| name)
        .collect()
}

fn machine_rows(table: &mut Table, machine: &Machine) {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| String::from("?"), size::display);
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| String::from("?"));
    let bound = |bound: Option<u64>| bound.map_or_else(|| String::from("none"), size::display);
    let files = machine.open_files_max;
    table
        .row("kernel", known(&machine.kernel), "")
        .row("processors", machine.cpus, known(&machine.cpu))
        .row("processor features", "", machine.cpu_features.join(" "))
        .row(
            "memory",
            bytes(machine.memory_bytes),
            format!("{} available", bytes(machine.memory_available_bytes)),
        )
        .row(
            "huge pages",
            machine.huge_pages.as_deref().unwrap_or("none"),
            "",
        )
        .row(
            "locked memory",
            bound(machine.memlock_max_bytes),
            "bound of registered memory",
        )
        .row(
            "open files",
            files.map_or_else(|| String::from("none"), |files| files.to_string()),
            "bound of the process",
        );
}

fn place_rows(table: &mut Table, path: &Path, place: &Place) {
    let disk = place.device_name.as_deref().unwrap_or("no disk");
    table
        .row("path", shown(path), "")
        .row(
            "file system",
            &*place.file_system,
            mount_word(place.mount_kind),
        )
        .row(
            "disk",
            disk,
            if place.rotating {
                "rotating: seeks cost"
            } else {
                "not rotating"
            },
        );
    match place.direct {
        Some(direct) => table.row(
            "direct I/O",
            "yes",
            format!(
                "memory aligned to {}, offsets and lengths to {}",
                direct.memory, direct.offset
            ),
        ),
        None => table.row(
            "direct I/O",
            "no",
            "or unknown: no file there to test it with",
        ),
    };
    let cachestat = match place.cachestat {
        true => "reported by cachestat",
        false if cfg!(windows) => "not reported by the system",
        false => "found by a read that does not wait",
    };
    table.row("what is cached", "", cachestat);
}

/// What decodes with kernels of its own, and with which here.
fn kernels() -> [(&'static str, String); 2] {
    let word = |kernel: &dyn std::fmt::Debug| format!("{kernel:?}").to_lowercase();
    [
        ("gdeflate", word(&gdeflate::Kernel::fastest())),
        ("pnm", word(&millstream_pnm::Kernel::fastest())),
    ]
}

/// The engine's bounds, by names that end in `_bytes` where they are bytes.
fn limits() -> [(&'static str, u64); 11] {
    use millstream::limits as of;
    [
        ("queue_depth", u64::from(of::DEPTH_DEFAULT)),
        ("block_bytes", of::BLOCK_BYTES_DEFAULT as u64),
        ("staging_bytes", of::STAGING_BYTES_DEFAULT as u64),
        ("in_flight_bytes", of::IN_FLIGHT_BYTES_MAX),
        ("descriptors", of::DESCRIPTORS_DEFAULT as u64),
        ("queue_capacity", u64::from(of::QUEUE_CAPACITY_DEFAULT)),
        ("queue_capacity_max", u64::from(of::QUEUE_CAPACITY_MAX)),
        ("unclaimed_tickets", u64::from(of::UNCLAIMED_DEFAULT)),
        ("queues", of::QUEUES_MAX as u64),
        ("retained_bytes", of::RETAINED_BYTES_DEFAULT as u64),
        ("trace_events", of::TRACE_EVENTS_MAX as u64),
    ]
}

fn document(path: &Path, found: &Found) -> Value {
    let ring = match &found.ring {
        Ok(features) => json!({
            "flags": ring_flags(features),
            "submission_entries": features.submission_entries,
            "completion_entries": features.completion_entries,
            "registered_bytes": features.registered_bytes,
            "registered_why_not": features.registered_why_not,
        }),
        Err(why) => json!({ "refused": why }),
    };
    let machine = &found.machine;
    let place = &found.place;
    let codecs: Vec<Value> = crate::args::STREAM_CODECS
        .into_iter()
        .map(codec_document)
        .collect();
    let limits: BTreeMap<&str, u64> = limits().into_iter().collect();
    let mut document = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "backend": found.backend,
        "backend_reason": found.reason,
        "io_uring": ring,
        "machine": {
            "kernel": machine.kernel,
            "cpu": machine.cpu,
            "cpus": machine.cpus,
            "cpu_features": machine.cpu_features,
            "memory_bytes": machine.memory_bytes,
            "memory_available_bytes": machine.memory_available_bytes,
            "memlock_max_bytes": machine.memlock_max_bytes,
            "open_files_max": machine.open_files_max,
            "huge_pages": machine.huge_pages,
        },
        "place": {
            "path": shown(path),
            "file_system": place.file_system,
            "mount": mount_word(place.mount_kind),
            "disk": place.device_name,
            "rotating": place.rotating,
            "direct_memory_alignment": place.direct.map(|direct| direct.memory),
            "direct_offset_alignment": place.direct.map(|direct| direct.offset),
            "cachestat": place.cachestat,
        },
        "vulkan": vulkan::document(&found.gpus),
        "codecs": codecs,
        "kernels": BTreeMap::from(kernels()),
        "limits": limits,
    });
    // Only for a package: the document of other places has no such keys.
    match &found.package {
        None => {}
        Some(Ok(about)) => {
            document["place"]["content_version"] = json!(about.content_version);
            document["place"]["target"] = json!(about.target.map(target_document));
            document["place"]["dictionaries"] = json!(about.dictionaries);
        }
        Some(Err(why)) => document["place"]["dictionaries"] = json!({ "refused": why }),
    }
    document
}

fn codec_document(codec: CodecId) -> Value {
    let levels = millstream_codec::level_range(codec);
    let encodes = !levels.is_empty();
    json!({
        "name": codec.name(),
        "encodes": encodes,
        "level_min": encodes.then_some(levels.start()),
        "level_max": encodes.then_some(levels.end()),
        "level_default": encodes.then(|| millstream_codec::default_level(codec)),
    })
}
