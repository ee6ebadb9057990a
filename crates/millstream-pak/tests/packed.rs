//! Cold sections whose pages are compressed: names, metadata and their index.

#[path = "support/seal.rs"]
mod seal;
mod support;

use millstream::CodecId;
use millstream_codec::{Scratch, encode_block};
use millstream_pak::format::{Header, SectionRecord, section};
use millstream_pak::metadata::{Image, Kind};
use millstream_pak::{Coding, ErrorKind, Item, Metadata, PackOptions, verify, write_file};
use support::Bench;
use zerocopy::FromBytes;

const PAGE_BYTES: usize = 64 << 10;
const ENTRIES: u32 = 6000;

fn name_of(nth: u32) -> String {
    format!("textures/region-{:02}/tile-{nth:05}.ktx2", nth % 61)
}

fn record_of(nth: u32) -> Metadata {
    let mut record = Metadata::new(Kind::IMAGE);
    record.image = Some(Image {
        width: 1 + nth % 4096,
        height: 1024,
        depth: 1,
        layers: 1,
        ..Image::default()
    });
    record
}

/// A package whose names and metadata are packed; `None` where that cannot be done.
fn packed(bench: &Bench) -> Option<Vec<u8>> {
    if !cfg!(feature = "c") {
        println!("SKIP: without libzstd no section is packed");
        return None;
    }
    let item =
        |nth: u32| Item::from_bytes(name_of(nth), nth.to_le_bytes()).metadata(record_of(nth));
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::STORED),
        ..PackOptions::default()
    };
    let path = bench.path("valid.mpak");
    write_file((0..ENTRIES).map(item).collect(), &options, &path).expect("packed");
    Some(std::fs::read(path).expect("read"))
}

fn header(bytes: &mut [u8]) -> &mut Header {
    Header::mut_from_bytes(&mut bytes[..4096]).expect("a header")
}

fn record(bytes: &mut [u8], kind: u32) -> &mut SectionRecord {
    let records = &mut header(bytes).sections;
    let found = records.iter_mut().find(|it| it.kind.get() == kind);
    found.expect("the section is there")
}

/// The place of the stored lengths of a section's pages.
fn lens(bytes: &mut [u8], kind: u32) -> usize {
    let record = *record(bytes, kind);
    (record.hashes_offset.get() + record.hashes_bytes() / 36 * 32) as usize
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

#[test]
fn names_and_metadata_are_packed_and_content_hashes_are_not() {
    let bench = Bench::new();
    let Some(mut bytes) = packed(&bench) else {
        return;
    };
    for kind in [section::NAMES, section::METADATA, section::METADATA_INDEX] {
        let record = record(&mut bytes, kind);
        let (stored, raw) = (record.stored_bytes.get(), record.raw_bytes.get());
        assert!(stored * 2 < raw, "section {kind}: {stored} of {raw}");
    }
    assert!(record(&mut bytes, section::NAMES).raw_bytes.get() > 3 * PAGE_BYTES as u64);
    for kind in 1..=3 {
        assert!(!record(&mut bytes, kind).is_packed());
    }
    assert!(!record(&mut bytes, section::CONTENTS).is_packed());
}

#[test]
fn packed_sections_say_the_same_page_by_page_and_at_once() {
    let bench = Bench::new();
    if packed(&bench).is_none() {
        return;
    }
    let mut order: Vec<u32> = (0..ENTRIES).collect();
    fastrand::Rng::with_seed(31).shuffle(&mut order);
    for preload in [false, true] {
        let package = bench.open(&bench.path("valid.mpak"));
        if preload {
            package.preload().expect("preloaded");
        }
        for &nth in &order {
            let name = name_of(nth);
            let found = package.lookup(name.as_bytes()).expect("asked");
            let index = found.expect("there").index;
            assert_eq!(package.name(index).expect("a name"), name.as_bytes());
            let told = package.metadata(index).expect("asked").expect("there");
            assert_eq!(Metadata::decode(told).expect("decoded"), record_of(nth));
        }
        assert_eq!(package.lookup(b"textures/none").expect("asked"), None);
        assert_eq!(
            package
                .folder(b"textures")
                .expect("listed")
                .expect("there")
                .len(),
            61
        );
        let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
        assert_eq!(found.failures, 0, "{:?}", found.errors);
    }
}

/// All threads touch all pages for the first time.
#[test]
fn first_touches_from_several_threads_agree() {
    let bench = Bench::new();
    if packed(&bench).is_none() {
        return;
    }
    let package = bench.open(&bench.path("valid.mpak"));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let package = &package;
            scope.spawn(move || {
                for nth in (thread..ENTRIES).step_by(7) {
                    let found = package.lookup(name_of(nth).as_bytes());
                    let index = found.expect("asked").expect("there").index;
                    assert!(package.metadata(index).expect("asked").is_some());
                }
            });
        }
    });
}

#[test]
fn short_sections_stay_as_they_are() {
    let bench = Bench::new();
    let entries: Vec<(String, Vec<u8>)> = (0..200).map(|nth| (name_of(nth), vec![1])).collect();
    let path = bench.pack("short.mpak", &entries, Coding::Fixed(CodecId::STORED));
    let mut bytes = std::fs::read(path).expect("read");
    assert!(!record(&mut bytes, section::NAMES).is_packed());
}

/// Replaces the first stored page of the names by another of at most its length, and the rest of
/// it by zeros that belong to the page too.
fn replace_first_page(bytes: &mut [u8], page: &[u8]) {
    let at = lens(bytes, section::NAMES);
    let start = record(bytes, section::NAMES).offset.get() as usize;
    let len = get32(bytes, at) as usize;
    assert!(page.len() <= len, "{} of {len} bytes", page.len());
    bytes[start..start + len].fill(0);
    bytes[start..start + page.len()].copy_from_slice(page);
}

fn zeros_as_zstd(len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut scratch = Scratch::default();
    encode_block(CodecId::ZSTD, 3, &mut scratch, &vec![0; len], &mut out).expect("encoded");
    out
}

/// What is wrong, whether the package still opens, and how it is made.
struct Row(&'static str, bool, fn(&mut Vec<u8>));

const ROWS: &[Row] = &[
    Row("raw bytes beyond any ratio", false, |b| {
        let record = record(b, section::NAMES);
        let stored = record.stored_bytes.get();
        record.raw_bytes.set(stored * 65);
    }),
    Row("raw bytes of many more pages", false, |b| {
        let record = record(b, section::NAMES);
        let stored = record.stored_bytes.get();
        record.raw_bytes.set(stored * 64);
        record.hashes_offset.set(u64::MAX - 100);
    }),
    Row("raw bytes fewer than stored", false, |b| {
        let record = record(b, section::NAMES);
        let stored = record.stored_bytes.get();
        record.raw_bytes.set(stored - 1);
    }),
    Row("raw bytes one more page", false, |b| {
        let record = record(b, section::NAMES);
        let raw = record.raw_bytes.get();
        record.raw_bytes.set(raw + PAGE_BYTES as u64);
    }),
    Row("raw bytes fewer", true, |b| {
        let record = record(b, section::NAMES);
        let raw = record.raw_bytes.get();
        record.raw_bytes.set(raw - 1);
    }),
    Row("a page of no bytes", true, |b| {
        let at = lens(b, section::NAMES);
        put32(b, at, 0);
    }),
    Row("a page longer than a page", true, |b| {
        let at = lens(b, section::NAMES);
        put32(b, at, u32::MAX);
    }),
    Row("pages that are not all", true, |b| {
        let at = lens(b, section::NAMES);
        let len = get32(b, at);
        put32(b, at, len - 1);
    }),
    Row("pages beyond the section", true, |b| {
        let at = lens(b, section::NAMES);
        let len = get32(b, at + 4);
        put32(b, at + 4, len + 1);
    }),
    Row("lengths exchanged", true, |b| {
        let at = lens(b, section::NAMES);
        let (one, other) = (get32(b, at), get32(b, at + 4));
        put32(b, at, other + 1);
        put32(b, at + 4, one - 1);
    }),
    Row("a page that is no zstd", true, |b| {
        replace_first_page(b, b"no frame")
    }),
    Row("a page that decodes to less", true, |b| {
        let page = zeros_as_zstd(1000);
        replace_first_page(b, &page);
    }),
    Row("a page that decodes to more", true, |b| {
        let page = zeros_as_zstd(16 << 20);
        replace_first_page(b, &page);
    }),
    Row("a page of zeros instead of names", true, |b| {
        let page = zeros_as_zstd(PAGE_BYTES);
        replace_first_page(b, &page);
    }),
    Row("a byte of metadata", true, |b| {
        let at = record(b, section::METADATA).offset.get() as usize;
        b[at + 30] ^= 0x10;
    }),
    Row("a byte of the index of metadata", true, |b| {
        let at = record(b, section::METADATA_INDEX).offset.get() as usize;
        b[at + 30] ^= 0x10;
    }),
];

#[test]
fn every_field_of_packed_sections_is_checked() {
    let bench = Bench::new();
    let Some(valid) = packed(&bench) else { return };
    let path = bench.path("changed.mpak");
    for Row(what, opens, change) in ROWS {
        let mut bytes = valid.clone();
        change(&mut bytes);
        seal::seal(&mut bytes);
        std::fs::write(&path, &bytes).expect("written");
        let Some(package) = bench.open_changed(&path, what, *opens) else {
            continue;
        };
        let mut wrong = 0;
        for nth in 0..ENTRIES {
            let found = match package.lookup(name_of(nth).as_bytes()) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    wrong += 1;
                    continue;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                    wrong += 1;
                    continue;
                }
            };
            wrong += u32::from(package.metadata(found.index).is_err());
        }
        let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
        assert!(found.failures > 0, "{what}: verified, {wrong} wrong");
        let first = found.errors.into_iter().next().expect("the first failure");
        assert_eq!(first.path(), Some(package.path()), "{what}: {first}");
    }
}

/// Without sealing: the hashes find it, before anything is decoded.
#[test]
fn damaged_pages_are_found_by_their_hashes() {
    let bench = Bench::new();
    let Some(valid) = packed(&bench) else { return };
    let path = bench.path("damaged.mpak");
    let mut random = fastrand::Rng::with_seed(32);
    for _ in 0..40 {
        let mut bytes = valid.clone();
        let names = *record(&mut bytes, section::NAMES);
        let at = match random.bool() {
            true => names.offset.get() + random.u64(..names.stored_bytes.get()),
            false => names.hashes_offset.get() + random.u64(..names.hashes_bytes()),
        };
        bytes[at as usize] ^= 1 << random.u8(..8);
        std::fs::write(&path, &bytes).expect("written");
        let package = bench.open(&path);
        let error = package.preload().expect_err("damaged");
        assert!(error.cause().contains("hash"), "{error}");
        let missed = (0..ENTRIES).filter(|&nth| package.lookup(name_of(nth).as_bytes()).is_err());
        assert!(missed.count() > 0, "byte {at}");
    }
}
