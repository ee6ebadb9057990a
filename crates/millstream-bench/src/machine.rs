//! The facts of the machine and of the run that a page shows, as names and values.

use std::fs;
use std::path::Path;
use std::process::Command;

use millstream::DeviceKind;
use millstream_io::fs::probe;

const COMMIT: Option<&str> = option_env!("MILLSTREAM_COMMIT");

pub(crate) fn load_average() -> Option<String> {
    Some(fs::read_to_string("/proc/loadavg").ok()?.trim().to_owned())
}

/// Returns all facts, at the end of a run; `place` is the folder of the run's data.
pub(crate) fn facts(place: &Path, load_before: Option<String>) -> Vec<(String, String)> {
    let (machine, place) = (probe::machine(), probe::place(place).ok());
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let seeks = |rotating| if rotating { "rotating" } else { "not rotating" };
    let words: Vec<String> = std::env::args().collect();
    let peers = format!(", feature `peers`: {}", cfg!(feature = "peers"));
    let version = env!("CARGO_PKG_VERSION");
    let facts = [
        (
            "millstream",
            Some(format!("{version} {}", COMMIT.unwrap_or_default())),
        ),
        ("date", today()),
        ("processor", machine.cpu),
        ("cores", Some(machine.cpus.to_string())),
        ("virtual", virtual_machine()),
        ("memory", machine.memory_bytes.map(gib)),
        ("kernel", machine.kernel),
        ("backend", Some(backend())),
        (
            "file system",
            place.as_ref().map(|it| it.file_system.clone()),
        ),
        (
            "device",
            place.and_then(|it| Some(format!("{}, {}", it.device_name?, seeks(it.rotating)))),
        ),
        ("load before", load_before),
        ("load after", load_average()),
        // A comparable run must repeat it.
        ("call", Some(words.join(" ") + &peers)),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

fn backend() -> String {
    match crate::ours::storage("") {
        Ok(storage) if storage.device_kind() == DeviceKind::Uring => "io_uring".into(),
        Ok(storage) => format!("threads: {}", storage.device_reason()),
        Err(error) => format!("none: {error}"),
    }
}

/// Reports whether there is a hypervisor: cores and disk may then be shared with other machines.
fn virtual_machine() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let guest = text.split_whitespace().any(|flag| flag == "hypervisor");
    guest.then(|| "yes: cores and disk may be shared with others".into())
}

fn today() -> Option<String> {
    let output = Command::new("date")
        .args(["-u", "+%Y-%m-%d (UTC)"])
        .output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    Some(text.trim().to_owned())
}
