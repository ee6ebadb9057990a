//! Parameters of a disk, and their notation on a command line.
//!
//! Rates are decimal, as drive makers count: `120M` is 120,000,000 bytes per second. (Sizes of
//! files elsewhere in this project are powers of two.)

use std::fmt;
use std::str::FromStr;

use crate::limits::{MODEL_DEPTH_MAX, MODEL_RATE_MAX, MODEL_RATE_MIN, MODEL_TIME_NS_MAX};

/// The parameters that determine how long a disk takes.
///
/// ```
/// use millstream_io::DiskModel;
/// let slow: DiskModel = "hdd".parse().unwrap();
/// assert_eq!(slow.bytes_per_second, 48_000_000);
/// let own: DiskModel = "seek=8ms,read=120M,depth=1".parse().unwrap();
/// assert_eq!((own.seek_ns, own.bytes_per_second, own.depth), (8_000_000, 120_000_000, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskModel {
    /// Name, for display.
    pub name: String,
    /// Time of a seek: added when an operation does not begin where the last one ended, while
    /// nothing else is transferred.
    pub seek_ns: u64,
    /// Latency before every transfer, overlapping for up to `depth` operations.
    pub latency_ns: u64,
    /// Transfer rate; transfers are made one after the other.
    pub bytes_per_second: u64,
    /// Number of operations that the disk works on at a time.
    pub depth: u32,
}

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// Predefined disks: nanoseconds of a seek and of latency, bytes per second, depth.
const NAMED: [(&str, u64, u64, u64, u32); 5] = [
    ("dvd", 100 * MS, 0, 2_400_000, 1),
    // A seek is 8 ms and half a revolution at 7200 rpm.
    ("hdd", 12 * MS, 0, 48_000_000, 32),
    ("sata", 0, 80 * US, 550_000_000, 32),
    // SSDs on PCIe 3 and 5.
    ("nvme3", 0, 80 * US, 3_500_000_000, 256),
    ("nvme5", 0, 50 * US, 10_000_000_000, 1024),
];

impl DiskModel {
    fn fixed(name: &str, seek_ns: u64, latency_ns: u64, rate: u64, depth: u32) -> DiskModel {
        DiskModel {
            name: name.to_owned(),
            seek_ns,
            latency_ns,
            bytes_per_second: rate,
            depth,
        }
    }

    /// Returns the time of a transfer.
    pub(super) fn transfer_ns(&self, bytes: u64) -> u64 {
        let rate = u128::from(self.bytes_per_second.max(1));
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(rate);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// Why a text describes no disk, as a message for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskModelError(String);

impl fmt::Display for DiskModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DiskModelError {}

impl FromStr for DiskModel {
    type Err = DiskModelError;

    /// Parses one of the names `dvd`, `hdd`, `sata`, `nvme3`, `nvme5`, or parameters:
    /// `read=120M[,seek=8ms][,latency=80us][,depth=32][,name=mine]` in any order. Rates are decimal
    /// (K, M, G), times end in ns, us, ms or s.
    fn from_str(text: &str) -> Result<DiskModel, DiskModelError> {
        if let Some((name, seek_ns, latency_ns, rate, depth)) =
            NAMED.into_iter().find(|named| named.0 == text)
        {
            return Ok(DiskModel::fixed(name, seek_ns, latency_ns, rate, depth));
        }
        let mut model = DiskModel::fixed("custom", 0, 0, 0, 32);
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                let names = "dvd, hdd, sata, nvme3, nvme5, or figures such as seek=8ms,read=120M";
                return Err(DiskModelError(format!(
                    "\"{part}\" is not a disk; known are {names}"
                )));
            };
            if seen.contains(&key) {
                return Err(DiskModelError(format!("\"{key}\" is given twice")));
            }
            seen.push(key);
            match key {
                "seek" => model.seek_ns = time_ns(key, value)?,
                "latency" => model.latency_ns = time_ns(key, value)?,
                "read" => model.bytes_per_second = rate(value)?,
                "depth" => model.depth = depth(value)?,
                "name" => value.clone_into(&mut model.name),
                _ => {
                    let keys = "seek, read, latency, depth, name";
                    return Err(DiskModelError(format!(
                        "a disk has no figure \"{key}\"; it has {keys}"
                    )));
                }
            }
        }
        if model.bytes_per_second == 0 {
            let cause = "the rate is missing: add read=120M, for example";
            return Err(DiskModelError(cause.to_owned()));
        }
        Ok(model)
    }
}

/// Parses a non-negative decimal number; returns it and the rest of the text.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    value.is_finite().then_some((value, &text[end..]))
}

fn time_ns(key: &str, text: &str) -> Result<u64, DiskModelError> {
    let wrong = |what: &str| DiskModelError(format!("{key}={text}: {what}"));
    let (value, unit) = number(text).ok_or_else(|| wrong("not a time; write 8ms, for example"))?;
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong("a time ends in ns, us, ms or s")),
    };
    let ns = (value * unit_ns).round();
    if ns > MODEL_TIME_NS_MAX as f64 {
        return Err(wrong("longer than 60 s"));
    }
    Ok(ns as u64)
}

fn rate(text: &str) -> Result<u64, DiskModelError> {
    let wrong = |what: &str| DiskModelError(format!("read={text}: {what}"));
    let (value, unit) = number(text).ok_or_else(|| wrong("not a rate; write 120M, for example"))?;
    let factor = match unit {
        "" => 1.0,
        "K" | "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => {
            return Err(wrong(
                "a rate ends in K, M or G (decimal, bytes per second)",
            ));
        }
    };
    let rate = (value * factor).round();
    if rate < MODEL_RATE_MIN as f64 || rate > MODEL_RATE_MAX as f64 {
        return Err(wrong("a rate is from 1K to 1000G bytes per second"));
    }
    Ok(rate as u64)
}

fn depth(text: &str) -> Result<u32, DiskModelError> {
    let depth: Option<u32> = text.parse().ok();
    depth
        .filter(|depth| (1..=MODEL_DEPTH_MAX).contains(depth))
        .ok_or_else(|| {
            DiskModelError(format!(
                "depth={text}: a depth is a number from 1 to {MODEL_DEPTH_MAX}"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_figures_are_read() {
        let known = "".parse::<DiskModel>().unwrap_err().to_string();
        let rates = [
            ("dvd", 2_400_000),
            ("hdd", 48_000_000),
            ("sata", 550_000_000),
            ("nvme3", 3_500_000_000),
            ("nvme5", 10_000_000_000),
        ];
        assert_eq!(NAMED.map(|(name, .., rate, _)| (name, rate)), rates);
        for (name, rate) in rates {
            let model: DiskModel = name.parse().unwrap();
            assert_eq!((model.name.as_str(), model.bytes_per_second), (name, rate));
            assert!(known.contains(name), "{known}");
        }
        let model: DiskModel = "latency=1.5us,read=2.4M,name=mine,seek=2s,depth=7"
            .parse()
            .unwrap();
        let expected = DiskModel::fixed("mine", 2_000_000_000, 1_500, 2_400_000, 7);
        assert_eq!(model, expected);
        let model: DiskModel = "read=1500".parse().unwrap();
        assert_eq!(
            (model.bytes_per_second, model.name.as_str()),
            (1_500, "custom")
        );
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, expected) in [
            ("", "\"\" is not a disk"),
            ("floppy", "\"floppy\" is not a disk"),
            ("seek=8ms", "the rate is missing"),
            ("read=1M,read=2M", "\"read\" is given twice"),
            ("read=1M,turns=7200", "no figure \"turns\""),
            ("read=1M,seek=8", "a time ends in ns, us, ms or s"),
            ("read=1M,seek=ms", "not a time"),
            ("read=1M,seek=-1ms", "not a time"),
            ("read=1M,latency=61s", "longer than 60 s"),
            ("read=1MB", "a rate ends in K, M or G"),
            ("read=.", "not a rate"),
            ("read=10", "a rate is from 1K to 1000G"),
            ("read=1e9", "a rate ends in"),
            ("read=9999999999999999999999G", "a rate is from 1K to 1000G"),
            ("read=1M,depth=0", "a number from 1 to 65536"),
            ("read=1M,depth=many", "a number from 1 to 65536"),
        ] {
            let error = text.parse::<DiskModel>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn transfers_never_overflow() {
        let model = DiskModel::fixed("", 0, 0, 0, 0);
        assert_eq!(model.transfer_ns(u64::MAX), u64::MAX);
        assert_eq!(
            "hdd".parse::<DiskModel>().unwrap().transfer_ns(48_000_000),
            1_000_000_000
        );
    }
}
