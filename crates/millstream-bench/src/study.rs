//! The studies' own figures, to stand beside ours.

/// The study of 2007: MB/s (minimum, maximum, average) of reading 100 MB from a disk of 46.8 MB/s
/// and a DVD of 2.4 MB/s.
struct Reading {
    contender: &'static str,
    /// Part of the case's name: the rate that stands for the device.
    device: &'static str,
    form: &'static str,
    figures: &'static str,
}

const HDD: &str = " 48 MB/s ";
const DVD: &str = " 2.4 MB/s ";

const fn reading(
    contender: &'static str,
    device: &'static str,
    form: &'static str,
    figures: &'static str,
) -> Reading {
    Reading {
        contender,
        device,
        form,
        figures,
    }
}

const READINGS: [Reading; 16] = [
    reading("stdio", HDD, "stored", "47.847 / 48.828 / 48.527"),
    reading("stdio", DVD, "stored", "2.381 / 2.386 / 2.383"),
    reading("stdio", HDD, "zlib", "59.067 / 69.348 / 67.558 (+39 %)"),
    reading("stdio", DVD, "zlib", "2.469 / 2.476 / 2.472 (+3 %)"),
    reading("read", HDD, "stored", "47.483 / 48.852 / 48.497"),
    reading("read", DVD, "stored", "2.383 / 2.390 / 2.386"),
    reading("read", HDD, "zlib", "67.797 / 69.396 / 68.446 (+41 %)"),
    reading("read", DVD, "zlib", "3.437 / 3.467 / 3.455 (+44 %)"),
    reading("map-windows", HDD, "stored", "45.830 / 48.828 / 48.190"),
    reading("map-windows", DVD, "stored", "2.524 / 2.528 / 2.526"),
    reading(
        "map-windows",
        HDD,
        "zlib",
        "52.247 / 53.562 / 52.980 (+10 %)",
    ),
    reading("map-windows", DVD, "zlib", "3.713 / 3.724 / 3.720 (+47 %)"),
    reading("async-8", HDD, "stored", "48.239 / 48.852 / 48.700"),
    reading("async-8", DVD, "stored", "2.384 / 2.408 / 2.399"),
    reading("async-8", HDD, "zlib", "68.634 / 69.832 / 69.242 (+42 %)"),
    reading("async-8", DVD, "zlib", "3.464 / 3.475 / 3.470 (+44 %)"),
];

/// Cases of workload `pnm` that the study has figures for.
const PICTURES: [&str; 8] = [
    "P3 big flat warm",
    "P3 medium flat warm",
    "P3 small flat warm",
    "P6 big flat warm",
    "P6 medium flat warm",
    "P6 small flat warm",
    "P3 big flat cold",
    "P6 big flat cold",
];

/// Its five stages, and reading without parsing: cycles a byte at 4.1 GHz.
struct Stage {
    contender: &'static str,
    figures: [&'static str; 8],
}

const STAGES: [Stage; 6] = [
    Stage {
        contender: "stage-1",
        figures: [
            "461.609 ± 0.120",
            "462.346",
            "479.017",
            "2.440",
            "1.717",
            "18.279",
            "464.65",
            "26.64",
        ],
    },
    Stage {
        contender: "stage-2",
        figures: [
            "133.137 ± 0.111",
            "133.296",
            "138.546",
            "1.001",
            "0.330",
            "16.497",
            "137.33",
            "24.63",
        ],
    },
    Stage {
        contender: "stage-3",
        figures: [
            "37.103 ± 0.036",
            "37.131",
            "41.093",
            "2.651",
            "1.660",
            "17.600",
            "71.26",
            "26.33",
        ],
    },
    Stage {
        contender: "stage-4",
        figures: [
            "11.777 ± 0.015",
            "11.816",
            "15.640",
            "2.677",
            "1.651",
            "17.937",
            "45.87",
            "26.59",
        ],
    },
    Stage {
        contender: "stage-5",
        figures: [
            "10.213 ± 0.021",
            "10.325",
            "15.982",
            "1.270",
            "1.032",
            "18.178",
            "36.04",
            "23.77",
        ],
    },
    Stage {
        contender: "read-only",
        figures: [
            "1.993 ± 0.007",
            "1.916",
            "5.274",
            "2.012",
            "1.178",
            "17.043",
            "36.01",
            "23.01",
        ],
    },
];

/// The study of streams: seconds for 300,000 calls of four bytes, or for one of all.
const STREAMS: [(&str, &str, &str); 7] = [
    (
        "memory write 4",
        "millstream",
        "0.22 s, memory stream (733 ns/call)",
    ),
    (
        "memory read 4",
        "millstream",
        "0.09 s, memory stream (300 ns/call)",
    ),
    (
        "file write new 4",
        "millstream",
        "3.11 s, file stream (10,367 ns/call)",
    ),
    (
        "file read 4",
        "millstream",
        "1.22 s, file stream (4,067 ns/call)",
    ),
    (
        "file read 4",
        "millstream-view",
        "1.52 s, checked view (5,067 ns/call)",
    ),
    ("file write new bulk", "millstream", "0.00 s, one call"),
    (
        "file write disturbed 4",
        "millstream",
        "writes up to 50 % slower, reads about 10 %",
    ),
];

/// A table of a study that stands alone: its scenes and its game cannot be had.
pub struct Published {
    /// The workload it belongs to.
    pub workload: &'static str,
    /// What it shows.
    pub caption: &'static str,
    /// Names of its columns.
    pub columns: &'static [&'static str],
    /// Its lines, a text for each column.
    pub lines: &'static [&'static [&'static str]],
}

/// The published figures of DirectStorage (2022 to 2024).
pub const PUBLISHED: &[Published] = &[
    Published {
        workload: "scenes",
        caption: "DirectStorage as published: loading five scenes with it on and off. The scenes \
                  are not ours to load; the shape of the generated ones is theirs",
        columns: &["scene", "stored MiB", "raw MiB", "on, ms", "off, ms"],
        lines: &[
            &["CheckerPlane", "0", "0", "48.31", "138.12"],
            &["CommandModule", "915.3", "2758.72", "503.25", "2343.35"],
            &["BoomBox", "10.86", "85.37", "61.12", "229.83"],
            &["SpaceShuttle", "926.78", "2475.79", "517.91", "2125.09"],
            &["X1", "29.37", "170.69", "142.85", "668.82"],
        ],
    },
    Published {
        workload: "startup",
        caption: "DirectStorage as published: the start of a game, load to game / texture load, s",
        columns: &["disk", "off", "on"],
        lines: &[
            &["SATA SSD", "1.13 / 2.36", "0.67 / 1.16"],
            &["NVMe, 3.5 GB/s", "0.57 / 1.45", "0.53 / 1.07"],
        ],
    },
    Published {
        workload: "codecs",
        caption: "DirectStorage as published: the same textures decompressed",
        columns: &["by", "s"],
        lines: &[&["GDeflate on a GPU", "0.8"], &["zlib on the CPU", "2.36"]],
    },
];

/// The study's figure beside a row of ours, if it has one. A case without a throttle shows the
/// figures of its hard disk: they are the same experiment on another device.
#[must_use]
pub fn beside(workload: &str, case: &str, contender: &str) -> Option<&'static str> {
    match workload {
        "read" => READINGS
            .iter()
            .find(|reading| {
                let device = case.contains(reading.device)
                    || (reading.device == HDD && case.starts_with("100MB cold "));
                let form = case.ends_with(&format!(" {}", reading.form));
                device && form && reading.contender == contender
            })
            .map(|reading| reading.figures),
        "pnm" => STAGES
            .iter()
            .find(|stage| stage.contender == contender)
            .and_then(|stage| {
                let cases = PICTURES.iter().zip(stage.figures);
                cases
                    .filter(|(name, _)| **name == case)
                    .map(|(_, figures)| figures)
                    .next()
            }),
        "startup" => match contender {
            "folded-name" => Some("folding and hashing at every look-up of every tick"),
            "hash-32" => Some("0.030 ms folding, 7.9 ms hashing in 1000 frames"),
            _ => None,
        },
        "streams" => STREAMS
            .iter()
            .find(|(of, who, _)| *of == case && *who == contender)
            .map(|(_, _, figures)| *figures),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_lines_have_a_text_for_each_column() {
        for table in PUBLISHED {
            let whole = |line: &&[&str]| line.len() == table.columns.len();
            assert!(table.lines.iter().all(whole), "{}", table.caption);
            assert!(crate::Workload::from_name(table.workload).is_some());
        }
    }

    #[test]
    fn figures_stand_beside_the_case_they_are_of() {
        let stored = beside("read", "8MB 2.4 MB/s stored", "stdio");
        assert_eq!(stored, Some("2.381 / 2.386 / 2.383"));
        assert!(
            beside("read", "100MB 48 MB/s zlib", "async-8")
                .unwrap()
                .contains("+42 %")
        );
        assert!(beside("read", "100MB cold stored", "read").is_some());
        assert_eq!(beside("read", "1GiB cold stored", "read"), None);
        assert_eq!(beside("read", "100MB 550 MB/s stored", "read"), None);
        assert_eq!(beside("read", "100MB cold zstd", "read"), None);
        assert_eq!(beside("requests", "100MB cold stored", "read"), None);
    }
}
