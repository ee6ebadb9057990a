//! Dictionaries of shared blocks: where they are made, what they save, and that packages with them
//! are read, verified, patched and refused as others are.

#[path = "support/seal.rs"]
mod seal;
mod support;

use std::sync::LazyLock;

use millstream::CodecId;
use millstream_pak::format::{BlockRecord, Header, section};
use millstream_pak::{
    BatchOptions, Coding, Dictionaries, ErrorKind, Item, Mounts, PackOptions, PackReport, Package,
    Piece, Target, diff, verify, write_file, write_patch_file,
};
use millstream_source::Source;
use support::{Bench, items};
use zerocopy::FromBytes;

type Entries = Vec<(String, Vec<u8>)>;

/// What the texts are made of, from a seed: more words than a block of texts has.
static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(9);
    let mut word = || {
        (0..random.usize(4..10))
            .map(|_| random.lowercase())
            .collect()
    };
    (0..2000).map(|_| word()).collect()
});

/// Short texts of one kind.
fn texts(count: usize, seed: u64) -> Entries {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = |nth: usize| {
        let mut word = || &WORDS[random.usize(..WORDS.len())];
        let text = format!(
            "{{\"name\": \"{}-{nth}\", \"kind\": \"{}\", \"tags\": [\"{} {}\", \"{} {}\"], \
             \"material\": \"textures/{}/{}.ktx2\"}}\n",
            word(),
            word(),
            word(),
            word(),
            word(),
            word(),
            word(),
            word()
        );
        (
            format!("objects/{:02}/{nth:05}.json", nth / 500),
            text.into_bytes(),
        )
    };
    (0..count).map(&mut text).collect()
}

fn slow() -> Coding {
    Coding::Auto(Target {
        megabytes_per_second: 48.0,
        cores: 4,
    })
}

fn packed(
    bench: &Bench,
    name: &str,
    entries: &Entries,
    coding: Coding,
    dictionaries: Dictionaries<'_>,
) -> (Package, PackReport) {
    let options = PackOptions {
        coding,
        dictionaries,
        ..PackOptions::default()
    };
    let path = bench.path(name);
    let report = write_file(items(entries), &options, &path).expect("packed");
    (bench.open(&path), report)
}

/// Whether dictionaries can be made; says so if not.
fn can_make() -> bool {
    if !cfg!(feature = "c") {
        println!("SKIP: without libzstd no dictionary is made");
    }
    cfg!(feature = "c")
}

fn assert_whole(bench: &Bench, package: &Package, entries: &Entries) {
    let all: Vec<u32> = (0..package.len()).collect();
    let queue = bench.queue();
    let batch = package.enqueue_all(&queue, &all, &BatchOptions::default());
    let batch = batch.expect("enqueued");
    let mut loaded = std::collections::HashMap::new();
    for &index in &all {
        let name = package.name(index).expect("a name");
        loaded.insert(name, batch.wait(index as usize).expect("loaded"));
    }
    for (name, bytes) in entries {
        assert!(loaded[name.as_bytes()][..] == bytes[..], "{name}");
    }
    let found = verify(&bench.storage, package, None, &mut |_| true).expect("verified");
    assert_eq!(found.failures, 0, "{:?}", found.errors);
}

#[test]
fn auto_makes_a_dictionary_where_it_pays_and_nowhere_else() {
    if !can_make() {
        return;
    }
    let bench = Bench::new();
    let entries = texts(30_000, 1);
    let (plain, report) = packed(&bench, "plain", &entries, slow(), Dictionaries::Never);
    assert_eq!(report.blocks_with_dictionary, 0);
    assert_eq!(plain.dictionary(1).expect("asked"), None);
    let (with, report) = packed(&bench, "with", &entries, slow(), Dictionaries::Auto);
    assert!(report.blocks_with_dictionary > 0, "{report:?}");
    assert!(with.file_bytes() < plain.file_bytes());
    assert!(plain.dictionary_uses().expect("asked").is_empty());
    let uses = with.dictionary_uses().expect("asked");
    assert_eq!(uses.len(), 1);
    assert_eq!(uses[0].blocks, report.blocks_with_dictionary);
    assert_eq!(uses[0].entries, entries.len() as u64);
    let dictionary = with.dictionary(1).expect("asked").expect("there");
    assert_eq!(uses[0].bytes, dictionary.len());
    let raw_bytes: usize = entries.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(uses[0].raw_bytes, raw_bytes as u64);
    assert!(uses[0].stored_bytes < uses[0].raw_bytes / 2);
    assert_whole(&bench, &with, &entries);

    // Among long entries short texts are a small part of the loading.
    let mut mixed = entries.clone();
    let mut random = fastrand::Rng::with_seed(2);
    mixed.push((String::from("long"), support::noise(&mut random, 24 << 20)));
    let (_, report) = packed(&bench, "mixed", &mixed, slow(), Dictionaries::Auto);
    assert_eq!(report.blocks_with_dictionary, 0);
    // Noise teaches nothing, and LZ4 takes no dictionary.
    let noise = |nth| (format!("{nth}"), support::noise(&mut random, 200));
    let noise: Entries = (0..6000).map(noise).collect();
    let (_, report) = packed(&bench, "noise", &noise, slow(), Dictionaries::Auto);
    assert_eq!(report.blocks_with_dictionary, 0);
    let lz4 = Coding::Fixed(CodecId::LZ4_BLOCK);
    let (package, _) = packed(&bench, "lz4", &entries, lz4, Dictionaries::Made);
    assert_eq!(package.dictionary(1).expect("asked"), None);
}

#[test]
fn the_number_of_threads_does_not_change_a_byte() {
    if !can_make() {
        return;
    }
    let bench = Bench::new();
    let entries = texts(3000, 3);
    let roots = [1, 2, 5].map(|threads| {
        let options = PackOptions {
            coding: Coding::Fixed(CodecId::ZSTD),
            dictionaries: Dictionaries::Made,
            threads,
            ..PackOptions::default()
        };
        let report = write_file(items(&entries), &options, bench.path("same")).expect("packed");
        assert!(report.blocks_with_dictionary > 0);
        report.root
    });
    assert_eq!(roots, [roots[0]; 3]);
}

#[test]
fn the_next_version_with_the_same_dictionary_makes_a_short_patch() {
    if !can_make() {
        return;
    }
    let bench = Bench::new();
    let zstd = Coding::Fixed(CodecId::ZSTD);
    let old = texts(6000, 4);
    let mut new = old.clone();
    new[3000].1 = b"{\"name\": \"changed\"}".to_vec();
    let (a, _) = packed(&bench, "a", &old, zstd, Dictionaries::Made);
    let given = a.dictionary(1).expect("asked").expect("one was made");
    let (b, _) = packed(&bench, "b", &new, zstd, Dictionaries::Given(given));
    assert_eq!(b.dictionary(1).expect("asked"), Some(given));
    assert_eq!(diff(&a, &b).expect("compared").len(), 1);
    let path = bench.path("patch");
    let report = write_patch_file(&a, &b, None, &path).expect("a patch");
    assert_eq!((report.entries, report.blocks), (1, 1), "{report:?}");
    let patch = bench.open(&path).with_base(&a).expect("its base");
    let loaded = bench.load(&patch, &new[3000].0).expect("loaded");
    assert!(loaded == new[3000].1);
    let found = verify(&bench.storage, &patch, None, &mut |_| true).expect("verified");
    assert_eq!(found.failures, 0, "{:?}", found.errors);
}

/// A patch whose block lies in the base, and names a dictionary: an entry that only moved.
#[test]
fn a_block_in_the_base_is_decoded_with_the_patch_s_dictionary() {
    if !can_make() {
        return;
    }
    let bench = Bench::new();
    let zstd = Coding::Fixed(CodecId::ZSTD);
    let old = texts(2000, 5);
    let mut new = old.clone();
    // One more name for a content that is there.
    new.push((String::from("objects/00/again.json"), old[7].1.clone()));
    let (a, _) = packed(&bench, "a", &old, zstd, Dictionaries::Made);
    let given = a.dictionary(1).expect("asked").expect("one was made");
    let (b, _) = packed(&bench, "b", &new, zstd, Dictionaries::Given(given));
    let path = bench.path("patch");
    let report = write_patch_file(&a, &b, None, &path).expect("a patch");
    assert_eq!(report.blocks_with_dictionary, 1, "{report:?}");
    assert_eq!(report.blocks_by_codec[usize::from(CodecId::ZSTD.0)], 0);
    let mut mounts = Mounts::new();
    mounts.mount(a).expect("mounted");
    mounts.mount(bench.open(&path)).expect("mounted");
    let queue = bench.queue();
    let found = mounts.find(b"objects/00/again.json");
    let found = found.expect("asked").expect("there");
    let request = mounts.request(&found).expect("a request");
    let mut ticket = queue.submit(request).expect("room");
    assert!(*ticket.wait().expect("loaded") == old[7].1[..]);
}

#[test]
fn bytes_that_are_no_dictionary_are_refused_when_packing() {
    if !can_make() {
        return;
    }
    let bench = Bench::new();
    for given in [&b"no dictionary"[..], &[0x37; 70_000]] {
        let options = PackOptions {
            coding: Coding::Fixed(CodecId::ZSTD),
            dictionaries: Dictionaries::Given(given),
            ..PackOptions::default()
        };
        let item = vec![Item::from_bytes("a", *b"bytes")];
        let failed = write_file(item, &options, bench.path("none")).expect_err("refused");
        assert_eq!(failed.kind(), ErrorKind::InvalidArgument, "{failed}");
    }
}

/// A package with a dictionary, changed and sealed again.
struct Sheet(Vec<u8>);

impl Sheet {
    fn header(&mut self) -> &mut Header {
        Header::mut_from_bytes(&mut self.0[..4096]).expect("a header")
    }

    fn record(&mut self, kind: u32) -> &mut millstream_pak::format::SectionRecord {
        let records = &mut self.header().sections;
        let found = records.iter_mut().find(|it| it.kind.get() == kind);
        found.expect("the section is there")
    }

    fn section(&mut self, kind: u32) -> &mut [u8] {
        let record = *self.record(kind);
        let start = record.offset.get() as usize;
        &mut self.0[start..start + record.raw_bytes.get() as usize]
    }

    fn resize(&mut self, bytes: u64) {
        let record = self.record(section::DICTIONARIES);
        record.stored_bytes.set(bytes);
        record.raw_bytes.set(bytes);
    }

    fn block(&mut self) -> &mut BlockRecord {
        BlockRecord::mut_from_prefix(self.section(section::BLOCKS))
            .expect("a record")
            .0
    }
}

struct Row(&'static str, bool, fn(&mut Sheet));

/// What is wrong, whether it still opens, and how it is made.
const ROWS: &[Row] = &[
    Row("another number", true, |s| s.block().dictionary.set(2)),
    Row("a number far off", true, |s| {
        s.block().dictionary.set(u16::MAX)
    }),
    Row("no number", true, |s| s.block().dictionary.set(0)),
    Row("a block that is not zstd", true, |s| {
        s.block().codec = CodecId::ZLIB.0
    }),
    Row("section gone", true, |s| {
        s.record(section::DICTIONARIES).kind.set(99);
        s.record(99).flags.set(0);
    }),
    Row("section empty", true, |s| s.resize(0)),
    Row("section of a byte", true, |s| s.resize(1)),
    Row("section cut", true, |s| s.resize(500)),
    Row("section huge", false, |s| s.resize(17 << 16)),
    Row("section cold", false, |s| {
        let at = s.0.len() as u64 - 4096 - 600;
        s.record(section::DICTIONARIES).offset.set(at);
        s.resize(500);
    }),
    Row("length none", true, |s| {
        s.section(section::DICTIONARIES)[..2].fill(0)
    }),
    Row("length beyond the page", true, |s| {
        s.section(section::DICTIONARIES)[..2].fill(0xff)
    }),
    Row("length shorter", true, |s| {
        s.section(section::DICTIONARIES)[..2].copy_from_slice(&20u16.to_le_bytes());
    }),
    Row("magic", true, |s| s.section(section::DICTIONARIES)[2] ^= 1),
    Row("its own number", true, |s| {
        s.section(section::DICTIONARIES)[6] ^= 1
    }),
    Row("its own number none", true, |s| {
        s.section(section::DICTIONARIES)[6..10].fill(0)
    }),
    Row("tables of entropy", true, |s| {
        s.section(section::DICTIONARIES)[10..60].fill(0xff)
    }),
    Row("its content", true, |s| {
        let section = s.section(section::DICTIONARIES);
        let half = section.len() / 2;
        section[half..].iter_mut().for_each(|byte| *byte ^= 0x55);
    }),
];

#[test]
fn every_field_of_dictionaries_is_checked() {
    if !can_make() {
        return;
    }
    let bench = Bench::new();
    let entries = texts(1500, 6);
    let zstd = Coding::Fixed(CodecId::ZSTD);
    let (_, report) = packed(&bench, "valid", &entries, zstd, Dictionaries::Made);
    assert!(report.blocks_with_dictionary > 0);
    let valid = std::fs::read(bench.path("valid")).expect("read");
    let path = bench.path("changed");
    for Row(what, opens, change) in ROWS {
        let mut sheet = Sheet(valid.clone());
        change(&mut sheet);
        seal::seal(&mut sheet.0);
        std::fs::write(&path, &sheet.0).expect("written");
        let Some(package) = bench.open_changed(&path, what, *opens) else {
            continue;
        };
        let mut wrong = 0;
        for (name, bytes) in &entries {
            match bench.load(&package, name) {
                // A block without a checksum of its raw bytes may decode to others: that is for
                // `verify` to find, by the contents' hashes.
                Ok(loaded) => wrong += u32::from(loaded != *bytes),
                Err(error) => {
                    wrong += 1;
                    assert!(!error.is_empty());
                }
            }
            if wrong > 3 {
                break;
            }
        }
        assert!(wrong > 0, "{what}: loaded as if nothing were wrong");
        let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
        assert!(found.failures > 0, "{what}: verified");
    }
}

#[test]
fn a_broken_dictionary_holds_up_only_the_entries_that_need_it() {
    if !can_make() {
        return;
    }
    let bench = Bench::new();
    let mut entries = texts(1500, 8);
    let mut random = fastrand::Rng::with_seed(8);
    let long: Vec<u8> = (0..40_000).map(|_| random.u8(..)).collect();
    entries.push((String::from("zz/long"), long.clone()));
    let zstd = Coding::Fixed(CodecId::ZSTD);
    packed(&bench, "valid", &entries, zstd, Dictionaries::Made);
    let mut sheet = Sheet(std::fs::read(bench.path("valid")).expect("read"));
    sheet.section(section::DICTIONARIES)[2] ^= 1;
    seal::seal(&mut sheet.0);
    let path = bench.path("changed");
    std::fs::write(&path, &sheet.0).expect("written");
    let package = bench.open_changed(&path, "magic", true).expect("it opens");

    let piece = |index| Piece {
        index,
        offset: 0,
        len: package.info(index).expect("an entry").raw_bytes,
    };
    let pieces: Vec<Piece> = (0..package.len()).map(piece).collect();
    let whole = package.lookup(b"zz/long").expect("asked").expect("there");
    let (queue, options) = (bench.queue(), BatchOptions::default());
    let batch = package
        .enqueue_pieces(&queue, &pieces, &options)
        .expect("memory");
    let mut failed = 0;
    for (nth, piece) in pieces.iter().enumerate() {
        match batch.wait(nth) {
            Ok(bytes) if piece.index == whole.index => assert!(bytes[..] == long[..]),
            Ok(_) => {}
            Err(error) => {
                failed += 1;
                assert_ne!(piece.index, whole.index, "{error}");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            }
        }
    }
    assert!(failed > 1000, "{failed}");
}
