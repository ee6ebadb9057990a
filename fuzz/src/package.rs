//! Hostile packages: a whole one with changes, sealed again, so that its hashes are right and its
//! fields are not; or, where the input begins so, bytes of any kind. They are files of the
//! simulated disk of a storage without threads, so an execution makes no system call and wakes
//! nothing.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use millstream::{CodecId, QueueOptions, Storage};
use millstream_pak::{
    BatchOptions, Coding, Item, Metadata, PackOptions, Package, visit, write_file,
};

#[path = "../../crates/millstream-pak/tests/pak/support/disk.rs"]
mod disk;
#[path = "../../crates/millstream-pak/tests/pak/support/seal.rs"]
mod seal;

/// Longest run of bytes that one change replaces.
const CHANGE_BYTES_MAX: usize = 16;

/// The package's name on the simulated disk.
const PATH: &str = "fuzzed.mpak";

pub(crate) static DISK: LazyLock<disk::Disk> = LazyLock::new(disk::Disk::new);
static PLAIN: LazyLock<Vec<u8>> = LazyLock::new(|| written(write_plain));
static NAMED: LazyLock<Vec<u8>> = LazyLock::new(|| written(write_named));

fn storage() -> &'static Storage {
    &DISK.storage
}

/// Shared entries, one of several blocks, stored and encoded.
fn write_plain(path: &Path) {
    let words: Vec<u8> = (0..10_000u32).map(|at| (at / 7 % 97) as u8).collect();
    let mut items = vec![Item::from_bytes("long", words.clone())];
    items.extend((0..6).map(|nth| {
        let bytes = &words[nth..nth * 100];
        Item::from_bytes(format!("small/{nth}"), bytes)
    }));
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::LZ4_BLOCK),
        block_bytes: Some(4096),
        ..PackOptions::default()
    };
    write_file(items, &options, path).expect("packed");
}

/// Names of two pages, metadata, an entry without bytes, blocks of GDeflate.
fn write_named(path: &Path) {
    let item = |nth: usize| {
        let name = format!("{}object-{nth:02}", "folder/".repeat(560));
        let bytes: Vec<u8> = (0..nth * 90).map(|at| (at / 5 % 97) as u8).collect();
        Item::from_bytes(name, bytes).metadata(Metadata::default())
    };
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::GDEFLATE),
        fold_case: true,
        ..PackOptions::default()
    };
    write_file((0..18).map(item).collect(), &options, path).expect("packed");
}

/// The bytes of a package.
fn written(write: fn(&Path)) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("millstream-fuzz-{}.mpak", std::process::id()));
    write(&path);
    let bytes = std::fs::read(&path).expect("read");
    std::fs::remove_file(&path).expect("removed");
    bytes
}

/// The package that an input means, opened; most are refused.
fn open(data: &[u8]) -> Option<Package> {
    let (&kind, rest) = data.split_first()?;
    let bytes = match kind {
        0 => rest.to_vec(),
        1 => changed(&NAMED, rest),
        _ => changed(&PLAIN, rest),
    };
    DISK.put(Path::new(PATH), &bytes);
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
