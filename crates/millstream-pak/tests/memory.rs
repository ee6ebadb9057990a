//! Verifying holds a page of a packed section at a time, not the section: as procfs tells.

#![cfg(target_os = "linux")]

mod support;

use std::path::Path;

use millstream_pak::{Item, PackOptions, verify, write_file};
use support::Bench;

/// Entries whose names have 4000 bytes: 80 MB that are packed to a few.
const ENTRIES: usize = 20_000;
const NAME_BYTES: usize = 4000;

/// What verifying may need beyond what the process has: tables, pages, the blocks being read.
const MEMORY_KIB_MAX: u64 = 40 << 10;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system's");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    peak.and_then(|peak| peak.parse().ok()).expect("a number")
}

#[test]
fn verifying_holds_no_packed_section() {
    if !cfg!(feature = "c") {
        println!("SKIP: without libzstd no section is packed");
        return;
    }
    let bench = Bench::new();
    let path = bench.path("p.mpak");
    let mut random = fastrand::Rng::with_seed(5);
    // Noise in a twentieth of each name, so that the section is packed by no more than it may be.
    let mut name = || {
        let noise: String = (0..200).map(|_| random.alphanumeric()).collect();
        let plain = "n".repeat(199) + "/";
        noise + "/" + &plain.repeat(NAME_BYTES / plain.len() - 1) + "end"
    };
    let items = (0..ENTRIES)
        .map(|_| Item::from_bytes(name(), &b"content"[..]))
        .collect();
    write_file(items, &PackOptions::default(), &path).expect("packed");
    let stored = std::fs::metadata(&path).expect("there").len();
    assert!(
        stored < (ENTRIES * NAME_BYTES / 8) as u64,
        "{stored} bytes: not packed"
    );
    let package = bench.open(&path);
    if std::fs::write(Path::new("/proc/self/clear_refs"), "5").is_err() {
        return;
    }
    let before = peak_kib();
    let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
    assert_eq!(
        (found.entries, found.failures),
        (ENTRIES as u64, 0),
        "{:?}",
        found.errors
    );
    let more = peak_kib() - before;
    assert!(more < MEMORY_KIB_MAX, "{more} KiB more");
}
