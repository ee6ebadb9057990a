//! Hostile packages: a whole one with changes, sealed again, so that its hashes are right and its
//! fields are not; or, where the input begins so, bytes of any kind. They are files of the
//! simulated disk of a storage without threads, so an execution makes no system call and wakes
//! nothing.

use std::sync::{Arc, OnceLock};

use millstream::{Backend, CodecId, DeviceMaker, Storage, StorageOptions};
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};
use millstream_pak::{Coding, Dictionaries, Item, Metadata, PackOptions, Package, write};

#[path = "../../../crates/millstream-pak/tests/support/seal.rs"]
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

pub fn storage() -> &'static Storage {
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
pub fn open(data: &[u8]) -> Option<Package> {
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
