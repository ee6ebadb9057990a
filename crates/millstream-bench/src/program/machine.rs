//! The facts of the machine and of the run that a page shows, as names and values.

use std::fs;
use std::path::Path;
use std::process::Command;

use indicatif::HumanBytes;
use millstream::{DeviceKind, Storage, StorageOptions};
use millstream_io::fs::probe;

pub(crate) type Facts = Vec<(String, String)>;

/// The commit that the program was built from, if the build set it.
const COMMIT: Option<&str> = option_env!("MILLSTREAM_COMMIT");

/// Returns the load averages over 1, 5 and 15 minutes, as the kernel formats them.
pub(crate) fn load_average() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let three: Vec<&str> = text.split_whitespace().take(3).collect();
    Some(three.join(" "))
}

/// Returns all facts, at the end of a run; `place` is the folder of the run's data.
pub(crate) fn facts(place: &Path, load_before: Option<String>) -> Facts {
    let mut facts = Facts::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push((name.to_owned(), value));
        }
    };
    let commit = COMMIT.map(|commit| format!(", commit {commit}"));
    let version = env!("CARGO_PKG_VERSION").to_owned() + &commit.unwrap_or_default();
    fact("millstream", Some(version));
    fact("date", today());
    let machine = probe::machine();
    fact("processor", machine.cpu);
    fact("cores", Some(machine.cpus.to_string()));
    fact("virtual", virtual_machine());
    let memory = machine.memory_bytes.map(HumanBytes);
    fact("memory", memory.map(|bytes| bytes.to_string()));
    fact("kernel", machine.kernel);
    fact("backend", Some(backend()));
    if let Ok(place) = probe::place(place) {
        fact("file system", Some(place.file_system));
        let seeks = match place.rotating {
            true => "rotating",
            false => "not rotating",
        };
        let disk = place.device_name.map(|name| format!("{name}, {seeks}"));
        fact("device", disk);
        let direct = place.direct.map(|direct| {
            format!(
                "memory aligned to {}, offsets to {}",
                direct.memory, direct.offset
            )
        });
        fact("direct I/O", Some(direct.unwrap_or_else(|| "none".into())));
    }
    let unknown = || Some("unknown".into());
    fact("load before", load_before.or_else(unknown));
    fact("load after", load_average().or_else(unknown));
    fact("call", Some(call()));
    facts
}

/// Returns the command line, which a comparable run must repeat.
fn call() -> String {
    let words: Vec<_> = std::env::args_os().collect();
    let peers = cfg!(feature = "peers");
    let words = words.join(" ".as_ref());
    words.to_string_lossy().into_owned() + if peers { ", with feature `peers`" } else { "" }
}

fn backend() -> String {
    match Storage::new(StorageOptions::default()) {
        Ok(storage) if storage.device_kind() == DeviceKind::Uring => "io_uring".into(),
        Ok(storage) => format!("threads: {}", storage.device_reason()),
        Err(error) => format!("none: {error}"),
    }
}

/// Reports whether there is a hypervisor: cores and disk may then be shared with other machines.
fn virtual_machine() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    let guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    guest.then(|| "yes: cores and disk may be shared with others".into())
}

/// Returns the current date in UTC, from the program `date`.
fn today() -> Option<String> {
    let output = Command::new("date")
        .args(["-u", "+%Y-%m-%d (UTC)"])
        .output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
