//! Hostile archives of other programs: bytes of any kind, as a file of the simulated disk of a
//! storage without threads.

use std::ops::ControlFlow;
use std::path::Path;

use millstream::{QueueOptions, Read};
use millstream_pak::{Archive, BatchOptions, PackageOptions};
use millstream_source::{Source as _, clean_name};

use crate::package::DISK;

/// The archive's name on the simulated disk.
const PATH: &str = "fuzzed.zip";

/// Entries, and raw bytes of one, that are loaded.
const ENTRIES_MAX: u32 = 32;
const RAW_BYTES_MAX: u64 = 4 << 20;

/// Opens an archive with and without checks of its bytes, looks its names up, and loads what it
/// has, whole and in part: with checks, both are the same.
pub fn read(data: &[u8]) {
    DISK.put(Path::new(PATH), data);
    let queue = DISK
        .storage
        .queue(QueueOptions::default())
        .expect("a queue");
    let load = |read: Read| queue.submit(read).expect("room").wait();
    for verify in [true, false] {
        let options = PackageOptions {
            verify,
            fold_case: verify,
            ..PackageOptions::default()
        };
        let Ok(archive) = Archive::open_with(&DISK.storage, PATH, options) else {
            return;
        };
        for index in 0..archive.len() {
            let name = archive.name(index);
            assert_eq!(clean_name(name).as_deref().ok(), Some(name));
            let found = archive.find(name).expect("a name").expect("it is listed");
            assert_eq!(found.place()[0], u64::from(index));
        }
        let few: Vec<u32> = (0..archive.len().min(ENTRIES_MAX))
            .filter(|&index| archive.info(index).raw_bytes <= RAW_BYTES_MAX)
            .collect();
        let visited = archive.visit(
            &queue,
            &few,
            &BatchOptions::default(),
            &mut |index, whole| {
                let raw_bytes = archive.info(index).raw_bytes;
                let (from, len) = (raw_bytes / 3, raw_bytes / 2);
                let part = archive.range(index, from, len).map(load);
                if let (Ok(whole), Ok(Ok(part))) = (&whole, part) {
                    assert_eq!(whole.len() as u64, raw_bytes);
                    assert!(part[..] == whole[from as usize..][..len as usize]);
                }
                ControlFlow::Continue(())
            },
        );
        visited.expect("a short list");
    }
}
