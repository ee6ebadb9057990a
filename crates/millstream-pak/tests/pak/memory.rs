//! Verifying holds a page of a section at a time, not the section, and visits list no more than
//! they load ahead: as procfs tells.

use std::ops::ControlFlow;
use std::path::Path;

use crate::support::Bench;
use millstream_pak::{BatchOptions, Item, PackOptions, verify, visit, write_file};
use millstream_testing::{Child, or_skip, this_test};

/// Entries whose names have 4000 bytes: 80 MB.
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

/// What a piece of work adds to the peak of the process; `None` where the system has no such count.
fn peak_of(work: impl FnOnce()) -> Option<u64> {
    std::fs::write(Path::new("/proc/self/clear_refs"), "5").ok()?;
    let before = peak_kib();
    work();
    Some(peak_kib() - before)
}

#[test]
fn a_visit_lists_no_more_than_it_loads_ahead() {
    // The peak is that of the process, and other tests would add to it.
    let child = Child::of(this_test!()).run(|| {
        let bench = Bench::new();
        let path = bench.path("p.mpak");
        // Sixteen pieces, a million times.
        let items = vec![Item::from_bytes("zeros", vec![0; 64 << 20])];
        write_file(items, &PackOptions::default(), &path).expect("packed");
        let package = bench.open(&path);
        let entries = vec![0; 1 << 20];
        let more = peak_of(|| {
            let mut shown = 0;
            let options = BatchOptions::default();
            visit(
                &package,
                &bench.queue(),
                &entries,
                &options,
                &mut |_, loaded| {
                    loaded.expect("sound");
                    shown += 1;
                    ControlFlow::Break(())
                },
            );
            assert_eq!(shown, 1);
        });
        // The places of the entries, and what is loaded ahead; the pieces would be 384 MiB.
        if let Some(more) = more {
            assert!(more < 160 << 10, "{more} KiB more");
        }
    });
    or_skip!(child);
}

#[test]
fn verifying_holds_a_page_of_names_and_not_all() {
    let child = Child::of(this_test!()).run(|| {
        let bench = Bench::new();
        let path = bench.path("p.mpak");
        let folder = "n".repeat(199) + "/";
        let folders = folder.repeat(NAME_BYTES / folder.len() - 1);
        let items = (0..ENTRIES)
            .map(|nth| Item::from_bytes(format!("{folders}{nth}"), &b"content"[..]))
            .collect();
        write_file(items, &PackOptions::default(), &path).expect("packed");
        let stored = std::fs::metadata(&path).expect("there").len();
        assert!(stored > (ENTRIES * folders.len()) as u64, "{stored} bytes");
        let package = bench.open(&path);
        let more = peak_of(|| {
            let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
            assert_eq!(
                (found.entries, found.failures),
                (ENTRIES as u64, 0),
                "{:?}",
                found.errors
            );
        });
        if let Some(more) = more {
            assert!(more < MEMORY_KIB_MAX, "{more} KiB more");
        }
    });
    or_skip!(child);
}

/// The directory of a zip is read piece by piece into a table of some 48 bytes for each entry.
#[cfg(feature = "archives")]
#[test]
fn the_directory_of_a_hundred_thousand_entries_takes_few_bytes() {
    let child = Child::of(this_test!()).run(|| {
        let bench = Bench::new();
        let path = bench.path("a.zip");
        let of = |nth: u32| {
            let name = format!("textures/region-{:02}/tile-{nth:06}.tga", nth % 61);
            crate::zip::entry(name, nth.to_le_bytes(), crate::zip::STORED)
        };
        let all: Vec<_> = (0..100_000).map(of).collect();
        let made = crate::zip::zip(&all, &crate::zip::Around::default()).bytes;
        std::fs::write(&path, &made).expect("written");
        drop((all, made));
        let more = peak_of(|| {
            let archive = millstream_pak::Archive::open(&bench.storage, &path).expect("sound");
            let names = (0..archive.len()).map(|index| archive.name(index).len());
            assert_eq!((archive.len(), names.sum::<usize>()), (100_000, 3_400_000));
        });
        let Some(more) = more else {
            println!("SKIP: no peak of memory that can be reset");
            return;
        };
        println!("{more} KiB");
        assert!(more < 40 << 10, "{more} KiB");
    });
    or_skip!(child);
}
