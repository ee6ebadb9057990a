//! What a report says of the machine: names and values, and the load.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use millstream::{DeviceKind, Storage, StorageOptions};
use millstream_io::fs::probe;

use crate::size;

/// Names and values.
pub(crate) type Facts = Vec<(String, String)>;

/// The commit that the program was built from, if whoever built it said so.
const COMMIT: Option<&str> = option_env!("MILLSTREAM_COMMIT");

/// The load averages over 1, 5 and 15 minutes, as the kernel writes them.
pub(crate) fn load_average() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let three: Vec<&str> = text.split_whitespace().take(3).collect();
    Some(three.join(" "))
}

/// What holds still while a benchmark runs. `place` is where its data lies.
pub(crate) fn facts(place: &Path) -> Facts {
    let mut facts = Facts::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push((name.to_owned(), value));
        }
    };
    let commit = COMMIT.map(|commit| format!(", commit {commit}"));
    let version = env!("CARGO_PKG_VERSION").to_owned() + &commit.unwrap_or_default();
    fact("millstream", Some(version));
    fact("date", Some(today()));
    let machine = probe::machine();
    fact("processor", machine.cpu);
    fact("cores", Some(machine.cpus.to_string()));
    fact("virtual", virtual_machine());
    fact("governor", governor());
    fact("memory", machine.memory_bytes.map(size::display));
    fact("system", system_name());
    fact("kernel", machine.kernel);
    fact("backend", Some(backend()));
    if let Ok(place) = probe::place(place) {
        fact("file system", Some(place.file_system));
        let seeks = if place.rotating {
            "rotating"
        } else {
            "not rotating"
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
    facts
}

fn backend() -> String {
    match Storage::new(StorageOptions::default()) {
        Ok(storage) if storage.device_kind() == DeviceKind::Uring => "io_uring".into(),
        Ok(storage) => format!("threads: {}", storage.device_reason()),
        Err(error) => format!("none: {error}"),
    }
}

/// Says so where a hypervisor shows itself: then the disk is not this machine's alone.
fn virtual_machine() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    let guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    guest.then(|| "yes: cores and disk may be shared with others".into())
}

fn governor() -> Option<String> {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    Some(text.trim().to_owned())
}

fn system_name() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The day, in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let days = since.map_or(0, |since| since.as_secs() / 86_400);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} (UTC)")
}

/// The date of a day, counted from 1970-01-01. Years are thought to begin in March, so that a leap
/// day is a year's last; 400 such years are 146,097 days, and 153 days are any five months of them.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let leap_days = day_of_era / 1_460 + day_of_era / 146_096;
    let year_of_era = (day_of_era + day_of_era / 36_524 - leap_days) / 365;
    let before = 365 * year_of_era + year_of_era / 4 - year_of_era / 100;
    let day_of_year = day_of_era - before;
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_088), (2024, 12, 31));
        assert_eq!(civil(20_089), (2025, 1, 1));
    }

    #[test]
    fn a_machine_has_a_kernel_and_cores() {
        let facts = facts(Path::new("."));
        for name in ["millstream", "date", "cores", "kernel", "backend"] {
            assert!(facts.iter().any(|(known, _)| known == name), "{facts:?}");
        }
    }
}
