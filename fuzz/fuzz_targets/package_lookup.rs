//! Lookups in hostile packages: by name, by hash, of everything.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod package;

fuzz_target!(|data: &[u8]| {
    let Some(opened) = package::open(data) else {
        return;
    };
    for name in ["long", "small/3", "none", "a/../b", ""] {
        let _ = opened.lookup(name.as_bytes());
    }
    let hashes: Vec<u64> = data
        .chunks_exact(8)
        .map(|it| u64::from_le_bytes(it.try_into().expect("eight")))
        .collect();
    let mut found = vec![None; hashes.len()];
    let _ = opened.lookup_hashes(&hashes, &mut found);
    for index in 0..opened.len().min(1000) {
        let _ = (
            opened.name(index),
            opened.metadata(index),
            opened.storing(index),
        );
    }
    let _ = (
        opened.by_name(),
        opened.matching(b"**"),
        opened.folder(b"small"),
    );
});
