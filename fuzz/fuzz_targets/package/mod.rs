//! Hostile packages: a whole one with changes, sealed again, so that its hashes are right and its
//! fields are not; or, where the input begins so, bytes of any kind.

use std::path::PathBuf;
use std::sync::OnceLock;

use millstream::{CodecId, Storage, StorageOptions};
use millstream_pak::{Coding, Dictionaries, Item, Metadata, PackOptions, Package, write};

#[path = "../../../crates/millstream-pak/tests/support/seal.rs"]
mod seal;

/// Longest run of bytes that one change replaces.
const CHANGE_BYTES_MAX: usize = 16;

pub fn storage() -> &'static Storage {
    static STORAGE: OnceLock<Storage> = OnceLock::new();
    STORAGE.get_or_init(|| Storage::new(StorageOptions::default()).expect("a storage"))
}

/// A file in memory, of this process.
pub fn path() -> PathBuf {
    let folder = PathBuf::from("/dev/shm");
    let folder = if folder.is_dir() {
        folder
    } else {
        std::env::temp_dir()
    };
    folder.join(format!("millstream-fuzz-{}.mpak", std::process::id()))
}

/// Shared entries, one of several blocks, stored and encoded.
fn valid() -> &'static [u8] {
    static VALID: OnceLock<Vec<u8>> = OnceLock::new();
    VALID.get_or_init(|| {
        let words: Vec<u8> = (0..150_000u32).map(|at| (at / 7 % 97) as u8).collect();
        let mut items = vec![Item::from_bytes("long", words.clone())];
        for nth in 0..6 {
            items.push(Item::from_bytes(
                format!("small/{nth}"),
                &words[nth..nth * 300],
            ));
        }
        let options = PackOptions {
            coding: Coding::Fixed(CodecId::LZ4_BLOCK),
            block_bytes: Some(65_536),
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
            let name = format!("small/objects/object-{nth:05}.xml");
            Item::from_bytes(name, text.repeat(2).into_bytes()).metadata(Metadata::default())
        };
        let options = PackOptions {
            coding: Coding::Fixed(CodecId::ZSTD),
            dictionaries: Dictionaries::Made,
            ..PackOptions::default()
        };
        packed((0..900).map(item).collect(), &options)
    })
}

fn packed(items: Vec<Item>, options: &PackOptions<'_>) -> Vec<u8> {
    let path = path();
    let file = std::fs::File::create(&path).expect("created");
    write(items, options, &file).expect("packed");
    std::fs::read(&path).expect("read")
}

/// The package that an input means, opened; most are refused.
pub fn open(data: &[u8]) -> Option<Package> {
    let (&kind, rest) = data.split_first()?;
    let bytes = match kind {
        0 => rest.to_vec(),
        1 => changed(with_dictionary(), rest),
        _ => changed(valid(), rest),
    };
    let path = path();
    std::fs::write(&path, bytes).expect("written");
    Package::open(storage(), &path).ok()
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
