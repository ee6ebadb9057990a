//! `info`: what this machine and a path on it offer, and what the engine uses of it.
//!
//! Each subject adds its rows to the table and returns its part of the document.

use std::collections::BTreeMap;

use millstream::{DeviceKind, IoError, Storage};
use millstream_codec::CodecId;
use millstream_io::MountKind;
use millstream_io::backend::ring_features;
use millstream_io::device::UringFeatures;
use millstream_io::fs::{names, probe};
use millstream_pak::Package;
use serde_json::{Value, json};

use crate::args::{InfoArgs, stream_codecs};
use crate::backend;
use crate::commands::load::backend_name;
use crate::failure::{Ending, Failure, refused, set_path, shown};
use crate::output;
use crate::package::{is_package, target_document, target_row};
use crate::size;
use crate::table::Table;

mod vulkan;

/// Runs `info`.
pub(crate) fn info(args: &InfoArgs, json: bool) -> Result<(), Ending> {
    let found = probe::place(&args.path).map_err(|error| {
        let system = std::io::Error::from_raw_os_error(error.errno.0);
        Failure::io(&args.path, error.call, &system)
    })?;
    // Before the storage is made: the kernel releases a closed ring's locked memory only some time
    // later.
    let features = ring_features(millstream::limits::STAGING_BYTES_DEFAULT);
    let storage = Storage::new(backend::options(None)?).map_err(refused)?;
    let reason = match storage.device_kind() {
        DeviceKind::Uring => "the system allows io_uring",
        _ => storage.device_reason(),
    };
    let mut table = Table::default();
    table.row("version", env!("CARGO_PKG_VERSION"), "").row(
        "backend",
        backend_name(&storage),
        reason,
    );
    let ring = ring(&mut table, features);
    let machine = machine(&mut table);
    let mut place = place(&mut table, args, &found);
    let vulkan = vulkan::devices(&mut table);
    // Only for a package: the document of other paths has no such keys.
    if is_package(&args.path)
        && let Err(error) = package(&mut table, &mut place, &storage, args)
    {
        table.row("package", "?", error.cause());
        place["refused"] = json!(error.cause());
    }
    let document = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "backend": backend_name(&storage),
        "backend_reason": reason,
        "io_uring": ring,
        "machine": machine,
        "place": place,
        "vulkan": vulkan,
        "codecs": stream_codecs().map(|codec| codec_levels(&mut table, codec)).collect::<Value>(),
        "kernels": kernels(&mut table),
        "limits": limits(&mut table),
    });
    match json {
        true => output::print_json(&document),
        false => output::print(&table.text()),
    }
}

fn package(
    table: &mut Table,
    place: &mut Value,
    storage: &Storage,
    args: &InfoArgs,
) -> millstream_pak::Result<()> {
    let package = Package::open(storage, &args.path)?;
    let (version, target) = (package.content_version(), package.target());
    table.row("content", version, "version of the package's content");
    if let Some(target) = target {
        target_row(table, target);
    }
    place["content_version"] = json!(version);
    place["target"] = json!(target.map(target_document));
    Ok(())
}

fn ring(table: &mut Table, features: Result<UringFeatures, IoError>) -> Value {
    let features = match features {
        Ok(features) => features,
        Err(error) => {
            table.row("io_uring", "no", &error);
            return json!({ "refused": error.to_string() });
        }
    };
    let flags = [
        (features.single_issuer, "single_issuer"),
        (features.defer_taskrun, "defer_taskrun"),
        (features.coop_taskrun, "coop_taskrun"),
        (features.task_run_flag, "task_run_flag"),
        (features.ext_arg, "ext_arg"),
        (features.resource_tags, "resource_tags"),
    ];
    let flags = flags.into_iter().filter(|(has, _)| *has);
    let flags: Vec<&str> = flags.map(|(_, name)| name).collect();
    let entries = format!(
        "{} submission and {} completion entries",
        features.submission_entries, features.completion_entries
    );
    let registered = size::display(features.registered_bytes as u64);
    table
        .row("io_uring", "yes", entries)
        .row("ring flags", "", flags.join(" "))
        .row("registered memory", registered, features.registered_why_not);
    json!({
        "flags": flags,
        "submission_entries": features.submission_entries,
        "completion_entries": features.completion_entries,
        "registered_bytes": features.registered_bytes,
        "registered_why_not": features.registered_why_not,
    })
}

fn machine(table: &mut Table) -> Value {
    let machine = probe::machine();
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
    json!({
        "kernel": machine.kernel,
        "cpu": machine.cpu,
        "cpus": machine.cpus,
        "cpu_features": machine.cpu_features,
        "memory_bytes": machine.memory_bytes,
        "memory_available_bytes": machine.memory_available_bytes,
        "memlock_max_bytes": machine.memlock_max_bytes,
        "open_files_max": machine.open_files_max,
        "huge_pages": machine.huge_pages,
    })
}

fn place(table: &mut Table, args: &InfoArgs, place: &probe::MountFacts) -> Value {
    let mount = match place.mount_kind {
        MountKind::Local => "a disk of this machine",
        MountKind::Memory => "memory",
        MountKind::Slow => "a mount that may hang",
    };
    let disk = place.device_name.as_deref().unwrap_or("no disk");
    table
        .row("path", shown(&args.path), "")
        .row("file system", &*place.file_system, mount)
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
    let mut document = json!({
        "file_system": place.file_system,
        "mount": mount,
        "disk": place.device_name,
        "rotating": place.rotating,
        "direct_memory_alignment": place.direct.map(|direct| direct.memory),
        "direct_offset_alignment": place.direct.map(|direct| direct.offset),
        "cachestat": place.cachestat,
    });
    set_path(&mut document, &names::bytes(&args.path));
    document
}

/// Adds the decoders that have SIMD kernels, and the kernel each uses on this machine.
fn kernels(table: &mut Table) -> Value {
    let gdeflate = format!("{:?}", gdeflate::Kernel::fastest()).to_lowercase();
    let pnm = millstream_pnm::Kernel::fastest().name();
    table
        .row("kernel of gdeflate", &gdeflate, "chosen for this processor")
        .row("kernel of pnm", pnm, "chosen for this processor");
    json!({ "gdeflate": gdeflate, "pnm": pnm })
}

/// Returns the engine's limits; the names of those in bytes end in `_bytes`.
fn limits(table: &mut Table) -> Value {
    use millstream::limits as of;
    let limits = [
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
    ];
    for (name, value) in limits {
        match name.strip_suffix("_bytes") {
            Some(words) => table.row("limit", size::display(value), words.replace('_', " ")),
            None => table.row("limit", value, name.replace('_', " ")),
        };
    }
    json!(BTreeMap::from(limits))
}

fn codec_levels(table: &mut Table, codec: CodecId) -> Value {
    let levels = millstream_codec::level_range(codec);
    let default = millstream_codec::default_level(codec);
    let encodes = !levels.is_empty();
    let remark = match (levels.start(), levels.end()) {
        _ if !encodes => String::from("decoded only in this build"),
        (least, most) if least == most => String::from("one level"),
        (least, most) => format!("levels {least} to {most}, {default} by default"),
    };
    table.row("codec", codec.name(), remark);
    json!({
        "name": codec.name(),
        "encodes": encodes,
        "level_min": encodes.then_some(levels.start()),
        "level_max": encodes.then_some(levels.end()),
        "level_default": encodes.then_some(default),
    })
}
