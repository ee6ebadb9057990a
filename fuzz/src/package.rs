//! Hostile packages: a whole one with changes, sealed again, so that its hashes are right and its
//! fields are not; or, where the input begins so, bytes of any kind. They are files of the
//! simulated disk of a storage without threads, so an execution makes no system call and wakes
//! nothing.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use millstream::{Backend, CodecId, DeviceMaker, QueueOptions, Storage, StorageOptions};
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use millstream_pak::{
    BatchOptions, Coding, Dictionaries, Item, Metadata, PackOptions, Package, visit, write,
};

#[path = "../../crates/millstream-pak/tests/support/seal.rs"]
mod seal;

/// Longest run of bytes that one change replaces.
const CHANGE_BYTES_MAX: usize = 16;

/// Its name on the simulated disk.
const PATH: &str = "fuzzed.mpak";

struct Machine {
    storage: Storage,
    files: SimFiles,
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let (sim, files) = Sim::new(SimOptions::default());
        let maker = DeviceMaker::new(move || Ok(Box::new(sim)));
        let mut options = StorageOptions::default();
        options.backend = Backend::Custom(maker, Arc::new(files.clone()));
        options.threads.pumped = true;
        let storage = Storage::new(options).expect("a storage");
        Machine { storage, files }
    })
}

fn storage() -> &'static Storage {
    &machine().storage
}

/// Shared entries, one of several blocks, stored and encoded.
fn valid() -> &'static [u8] {
    static VALID: OnceLock<Vec<u8>> = OnceLock::new();
    VALID.get_or_init(|| {
        let words: Vec<u8> = (0..10_000u32).map(|at| (at / 7 % 97) as u8).collect();
        let mut items = vec![Item::from_bytes("long", words.clone())];
        for nth in 0..6 {
            items.push(Item::from_bytes(
                format!("small/{nth}"),
                &words[nth..nth * 100],
            ));
        }
        let options = PackOptions {
            coding: Coding::Fixed(CodecId::LZ4_BLOCK),
            block_bytes: Some(4096),
            ..PackOptions::default()
        };
        packed(items, &options)
    })
}

/// Short texts whose blocks name a dictionary, under so many names that those are packed.
fn with_dictionary() -> &'static [u8] {
    static VALID: OnceLock<Vec<u8>> = OnceLock::new();
    VALID.get_or_init(|| {
        let item = |nth: u32| {
            let text = format!("<object number=\"{nth}\" of=\"{}\"/>", nth * 7919 % 1009);
            let name = format!("{}/object-{nth:05}.xml", "folder".repeat(20));
            Item::from_bytes(name, text.repeat(2).into_bytes()).metadata(Metadata::default())
        };
        let options = PackOptions {
            coding: Coding::Fixed(CodecId::ZSTD),
            dictionaries: Dictionaries::Made,
            ..PackOptions::default()
        };
        packed((0..130).map(item).collect(), &options)
    })
}

fn packed(items: Vec<Item>, options: &PackOptions<'_>) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("millstream-fuzz-{}.mpak", std::process::id()));
    let file = std::fs::File::create(&path).expect("created");
    write(items, options, &file).expect("packed");
    let bytes = std::fs::read(&path).expect("read");
    std::fs::remove_file(&path).expect("removed");
    bytes
}

/// The package that an input means, opened; most are refused.
fn open(data: &[u8]) -> Option<Package> {
    let (&kind, rest) = data.split_first()?;
    let bytes = match kind {
        0 => rest.to_vec(),
        1 => changed(with_dictionary(), rest),
        _ => changed(valid(), rest),
    };
    let options = SimFileOptions::default();
    machine().files.add(PATH, bytes, options);
    Package::open(storage(), PATH).ok()
}

/// Opens a package, and verifies one that opens.
pub fn verify(data: &[u8]) {
    if let Some(opened) = open(data) {
        let found = millstream_pak::verify(storage(), &opened, None, &mut |_| true);
        assert!(found.is_ok_and(|found| (found.failures > 0) != found.errors.is_empty()));
    }
}

/// Looks names up in a package: by name, by hash, all of them.
pub fn look_up(data: &[u8]) {
    let Some(opened) = open(data) else {
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
}

/// Raw bytes beyond which an entry says nothing new.
const RAW_BYTES_MAX: u64 = 8 << 20;

/// Reads entries of a package: those that are given have the length that it says.
pub fn read(data: &[u8]) {
    let Some(opened) = open(data) else {
        return;
    };
    let queue = storage().queue(QueueOptions::default()).expect("a queue");
    let short = |index: &u32| {
        opened
            .info(*index)
            .is_ok_and(|it| it.raw_bytes <= RAW_BYTES_MAX)
    };
    let entries: Vec<u32> = (0..opened.len().min(64)).filter(short).collect();
    visit(
        &opened,
        &queue,
        &entries,
        &BatchOptions::default(),
        &mut |piece, loaded| {
            if let Ok(bytes) = loaded {
                assert_eq!(bytes.len() as u64, piece.len);
            }
            ControlFlow::Continue(())
        },
    );
    for &index in entries.iter().take(8) {
        let len = opened.info(index).map_or(0, |info| info.raw_bytes);
        let (offset, len) = (len / 3, len / 2);
        if let Ok(request) = opened.range(index, offset, len)
            && let Ok(mut ticket) = queue.submit(request)
            && let Ok(bytes) = ticket.wait()
        {
            assert_eq!(bytes.len() as u64, len);
        }
    }
}

/// Changes: a place of four bytes, a length, and so many bytes.
fn changed(valid: &[u8], mut data: &[u8]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    while let Some((head, rest)) = data.split_at_checked(5) {
        let at = u32::from_le_bytes(head[..4].try_into().expect("four")) as usize % bytes.len();
        let len = usize::from(head[4]) % CHANGE_BYTES_MAX + 1;
        let len = len.min(rest.len()).min(bytes.len() - at);
        bytes[at..at + len].copy_from_slice(&rest[..len]);
        data = &rest[len..];
    }
    seal::seal(&mut bytes);
    bytes
}
