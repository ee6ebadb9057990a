//! Malformed packages: changes of several fields that fit each other, and what they are found by.
//! Changes of a single field are in `hostile.rs`.
//!
//! A package is changed and then sealed again (page hashes, digests, root, copy), so that not the
//! hashes but a check must find it: as if someone had made the package so.

use crate::sheet;
use std::path::PathBuf;

use crate::support::Bench;
use millstream::{CodecId, FileOptions, Read};
use millstream_pak::format::{Header, entry_flag, section};
use millstream_pak::{
    BatchOptions, Coding, ErrorKind, Item, PackOptions, Package, SecretKey, verify, visit, write,
    write_patch_file,
};
use sheet::Sheet;
use zerocopy::{FromBytes, IntoBytes};

/// By what a fault is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Opening fails, with this kind.
    Open(ErrorKind),
    /// It opens; verifying, and loading everything, find it.
    Load,
    /// It opens and loads; only verifying finds it (what is wrong concerns no bytes).
    Verify,
    /// Nothing is wrong with it.
    Fine,
}

struct Row(&'static str, By, fn(&mut Sheet));

const CORRUPT: By = By::Open(ErrorKind::Corrupt);
const UNSUPPORTED: By = By::Open(ErrorKind::Unsupported);

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"))
}

/// The place of the entry record of the longest entry, which has several blocks.
fn long(sheet: &mut Sheet) -> usize {
    let table = sheet.section(section::ENTRIES);
    let records = (0..table.len() / 32).map(|nth| nth * 32);
    records
        .max_by_key(|at| get64(table, at + 8))
        .expect("there are entries")
}

/// The place of the block record of the long entry's second block.
fn second(sheet: &mut Sheet) -> usize {
    let at = long(sheet);
    (get32(sheet.section(section::ENTRIES), at + 16) as usize + 1) * 32
}

const ROWS: &[Row] = &[
    Row("magic", By::Open(ErrorKind::NotAPackage), |s| {
        s.header().magic[0] = b'P'
    }),
    Row("a later version", UNSUPPORTED, |s| s.header().major.set(3)),
    Row("required unknown", UNSUPPORTED, |s| {
        s.header().required.set(1 << 40)
    }),
    Row("case folded, of lower-case names", By::Fine, |s| {
        s.header().required.set(1)
    }),
    Row("file longer", By::Open(ErrorKind::Truncated), |s| {
        let bytes = s.bytes.len() as u64;
        s.header().file_bytes.set(bytes + 1);
    }),
    Row("kind unknown and required", UNSUPPORTED, |s| {
        s.record(section::NAMES).kind.set(99)
    }),
    Row("kind unknown and optional", By::Fine, |s| {
        s.record(section::METADATA_INDEX).kind.set(98);
        s.record(section::METADATA).kind.set(99);
    }),
    Row("kinds exchanged", CORRUPT, |s| {
        s.record(section::BLOCKS).kind.set(70);
        s.record(section::ENTRIES).kind.set(section::BLOCKS);
        s.record(70).kind.set(section::ENTRIES);
    }),
    Row("hot section cold", CORRUPT, |s| {
        let end = s.bytes.len() as u64 - 4096 - 32;
        s.record(section::BUCKETS).offset.set(end);
    }),
    Row("length zero", By::Load, |s| {
        s.record(section::NAMES).bytes.set(0);
    }),
    Row("buckets no power of two", CORRUPT, |s| {
        let record = s.record(section::BUCKETS);
        let bytes = record.bytes.get() - 4;
        record.bytes.set(bytes);
    }),
    Row("hashes over the data", CORRUPT, |s| {
        let data = s.header().data_offset.get();
        s.record(section::NAMES).hashes_offset.set(data);
    }),
    Row("signature short", CORRUPT, |s| {
        s.record(section::SIGNATURE).bytes.set(95);
    }),
    Row("buckets out of order", By::Verify, |s| {
        let table = s.section(section::BUCKETS);
        let end = get32(table, table.len() - 4);
        table
            .chunks_exact_mut(8)
            .for_each(|pair| put32(pair, 0, end));
    }),
    Row("buckets all of all", By::Fine, |s| {
        // Slower, and right: a bucket may hold entries of others.
        let table = s.section(section::BUCKETS);
        let end = get32(table, table.len() - 4);
        if table.len() == 12 {
            put32(table, 4, end);
        }
    }),
    Row("entries out of order", By::Verify, |s| {
        let table = s.section(section::ENTRIES);
        let (first, second) = table.split_at_mut(32);
        first.swap_with_slice(&mut second[..32]);
    }),
    Row("entry twice", By::Verify, |s| {
        let table = s.section(section::ENTRIES);
        table.copy_within(0..32, 32);
    }),
    Row("name leads out", By::Verify, |s| {
        let names = s.section(section::NAMES);
        names[2..5].copy_from_slice(b"../");
    }),
    Row("name absolute", By::Verify, |s| {
        s.section(section::NAMES)[2] = b'/'
    }),
    Row("name with NUL", By::Verify, |s| {
        s.section(section::NAMES)[3] = 0
    }),
    Row("name not UTF-8", By::Verify, |s| {
        s.section(section::NAMES)[3] = 0xff
    }),
    Row("a bomb: decodes to more than it says", By::Load, |s| {
        // The last block and its entry say one byte; what is stored decodes to 113,568.
        let at = long(s);
        let table = s.section(section::ENTRIES);
        let blocks = get64(table, at + 8).div_ceil(1 << 18) - 1;
        put64(table, at + 8, (blocks << 18) + 1);
        let last = (get32(table, at + 16) + blocks as u32) as usize * 32;
        put32(s.section(section::BLOCKS), last + 12, 1);
    }),
    Row("stored byte", By::Load, |s| {
        let at = second(s);
        let place = get64(s.section(section::BLOCKS), at) as usize;
        s.bytes[place + 5] ^= 1;
    }),
    Row("padding", By::Verify, |s| {
        let end = s.header().data_offset.get() as usize;
        s.bytes[end - 1] = 1;
    }),
];

/// Entries of all forms: shared, of several blocks, with metadata.
fn valid(bench: &Bench) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(21);
    let mut items = Vec::new();
    for nth in 0..5 {
        items.push(Item::from_bytes(
            format!("small/{nth}"),
            crate::support::words(&mut random, 500),
        ));
    }
    items.push(Item::from_bytes(
        "long",
        crate::support::words(&mut random, 900_000),
    ));
    items.push(Item::from_bytes("sound.wav", vec![5; 300]).metadata(crate::support::sound()));
    let key = SecretKey::from_bytes(&[3; 32]);
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::LZ4_BLOCK),
        sign: Some(&key),
        ..PackOptions::default()
    };
    let path = bench.path("valid.mpak");
    let file = std::fs::File::create(&path).expect("created");
    write(items, &options, &file).expect("packed");
    std::fs::read(&path).expect("read")
}

/// What loading every entry, by number and by name, finds.
fn load_everything(bench: &Bench, package: &Package) -> Result<(), millstream_pak::Error> {
    let queue = bench.queue();
    let all: Vec<u32> = (0..package.len()).collect();
    let mut first = None;
    for &index in &all {
        if let Err(error) = package.name(index).map(<[u8]>::to_vec) {
            first.get_or_insert(error);
        }
    }
    visit(
        package,
        &queue,
        &all,
        &BatchOptions::default(),
        &mut |_, loaded| {
            if let Err(error) = loaded {
                first.get_or_insert(error);
            }
            std::ops::ControlFlow::Continue(())
        },
    );
    first.map_or(Ok(()), Err)
}

fn try_row(bench: &Bench, valid: &[u8], row: &Row, path: &PathBuf) -> Result<(), String> {
    let Row(name, by, change) = row;
    let mut sheet = Sheet {
        bytes: valid.to_vec(),
    };
    change(&mut sheet);
    sheet.seal();
    std::fs::write(path, &sheet.bytes).expect("written");
    let opened = Package::open(&bench.storage, path);
    let package = match (opened, by) {
        (Err(error), By::Open(kind)) => {
            let right = error.kind() == *kind && error.path().is_some();
            return right
                .then_some(())
                .ok_or_else(|| format!("{name}: {error}"));
        }
        (Ok(_), By::Open(_)) => return Err(format!("{name}: opened")),
        (Err(error), _) => return Err(format!("{name}: {error}")),
        (Ok(package), _) => package,
    };
    let loaded = load_everything(bench, &package);
    match (&loaded, by) {
        (Ok(()), By::Load) => return Err(format!("{name}: loaded")),
        (Err(error), By::Fine) => return Err(format!("{name}: {error}")),
        _ => {}
    }
    let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
    let right = (found.failures == 0) == (*by == By::Fine);
    right
        .then_some(())
        .ok_or_else(|| format!("{name}: verified: {:?}", found.errors))
}

#[test]
fn fields_are_checked_together() {
    let bench = Bench::new();
    let valid = valid(&bench);
    let path = bench.path("changed.mpak");
    let nothing = Row("nothing", By::Fine, |_| {});
    let wrong: Vec<String> = std::iter::once(&nothing)
        .chain(ROWS)
        .filter_map(|row| try_row(&bench, &valid, row, &path).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A megabyte would be decoded and held for each byte that is asked for.
#[test]
fn a_short_entry_of_a_long_block_is_refused() {
    let bench = Bench::new();
    let mut sheet = Sheet {
        bytes: valid(&bench),
    };
    let at = long(&mut sheet);
    let table = sheet.section(section::ENTRIES);
    put64(table, at + 8, 1);
    table[at + 29] |= entry_flag::SHARED;
    sheet.seal();
    let path = bench.path("short.mpak");
    std::fs::write(&path, &sheet.bytes).expect("written");
    let error = load_everything(&bench, &bench.open(&path)).expect_err("refused");
    assert!(
        error.cause().contains("shared block is too long"),
        "{error}"
    );
}

#[test]
fn a_change_that_is_not_sealed_is_found_by_the_hashes() {
    let bench = Bench::new();
    let valid = valid(&bench);
    let path = bench.path("flipped.mpak");
    let mut random = fastrand::Rng::with_seed(22);
    let mut places: Vec<usize> = (0..120).map(|_| random.usize(..valid.len())).collect();
    places.extend([0, 9, 4064, 4095, 4096, valid.len() - 4096, valid.len() - 1]);
    for at in places {
        let mut bytes = valid.clone();
        bytes[at] ^= 1 << random.u8(0..8);
        std::fs::write(&path, &bytes).expect("written");
        let Ok(package) = Package::open(&bench.storage, &path) else {
            continue;
        };
        let key = SecretKey::from_bytes(&[3; 32]).public();
        let found = verify(&bench.storage, &package, Some(&key), &mut |_| true);
        assert!(found.expect("verified").failures > 0, "byte {at}");
    }
}

#[test]
fn a_package_that_is_refused_leaves_the_file_open_for_others() {
    let bench = Bench::new();
    let path = bench.path("lacking.mpak");
    let mut sheet = Sheet {
        bytes: valid(&bench),
    };
    let record = sheet.record(section::NAMES);
    record.flags.set(0);
    record.kind.set(70);
    sheet.seal();
    std::fs::write(&path, &sheet.bytes).expect("written");
    let options = FileOptions {
        package: true,
        ..FileOptions::default()
    };
    let file = bench.storage.open(&path, options);
    let queue = bench.queue();
    let read = || queue.submit(Read::range(file, 0, 16))?.wait();
    read().expect("it is open");
    Package::open(&bench.storage, &path).expect_err("refused");
    // More than one, so that the engine has taken in every close before the last.
    for _ in 0..3 {
        read().expect("it is still open");
    }
}

/// Looks for it in procfs.
#[cfg(target_os = "linux")]
#[test]
fn a_package_that_is_refused_is_closed() {
    let bench = Bench::new();
    let valid = valid(&bench);
    let path = bench.path("lacking.mpak");
    let kinds = [
        section::BUCKETS,
        section::ENTRIES,
        section::BLOCKS,
        section::NAMES,
    ];
    for kind in kinds {
        let mut sheet = Sheet {
            bytes: valid.clone(),
        };
        let record = sheet.record(kind);
        record.flags.set(0);
        record.kind.set(70);
        sheet.seal();
        std::fs::write(&path, &sheet.bytes).expect("written");
        let error = Package::open(&bench.storage, &path).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        // Closed by the engine, which does so beside other work.
        let is_open = || {
            let open = std::fs::read_dir("/proc/self/fd").expect("Linux");
            let mut open = open.flatten().map(|fd| std::fs::read_link(fd.path()));
            open.any(|found| found.is_ok_and(|found| found == path))
        };
        let is_closed = millstream_testing::wait_for(|| !is_open());
        assert!(is_closed, "section {kind}: it stays open");
        // The name means what it leads to now.
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, &valid).expect("written");
        Package::open(&bench.storage, &path).expect("opened");
    }
}

#[test]
fn a_cut_package_is_refused_at_every_length() {
    let bench = Bench::new();
    let valid = valid(&bench);
    let path = bench.path("cut.mpak");
    let mut lens: Vec<usize> = (0..64).map(|nth| nth * valid.len() / 64).collect();
    lens.extend([1, 7, 8, 4095, 4096, 4097, 8191, 8192, valid.len() - 1]);
    for len in lens {
        std::fs::write(&path, &valid[..len]).expect("written");
        let error = Package::open(&bench.storage, &path).expect_err("refused");
        let kinds = [ErrorKind::Truncated, ErrorKind::NotAPackage];
        assert!(kinds.contains(&error.kind()), "{len} bytes: {error}");
    }
}

#[test]
fn a_package_changed_under_its_reader_gives_errors_and_never_other_bytes() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(23);
    let entries: Vec<(String, Vec<u8>)> = (0..40)
        .map(|nth| (format!("{nth}"), crate::support::words(&mut random, 60_000)))
        .collect();
    let path = bench.pack("live.mpak", &entries, Coding::Fixed(CodecId::LZ4_BLOCK));
    let package = bench.open(&path);
    let mut bytes = std::fs::read(&path).expect("read");
    let header = Header::read_from_bytes(&bytes[..4096]).expect("a header");
    let data = header.data_offset.get() as usize;
    assert_eq!(header.as_bytes().len(), 4096);
    for at in (data..data + header.data_bytes.get() as usize).step_by(5000) {
        bytes[at] ^= 0x55;
    }
    // In place: the reader has the very file open.
    std::fs::write(&path, &bytes).expect("written");
    let mut failed = 0;
    for (name, raw) in &entries {
        match bench.load(&package, name) {
            Ok(loaded) => assert!(loaded == *raw, "{name}"),
            Err(error) => {
                assert!(error.contains("checksum"), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 30, "{failed} of 40");
}

/// Without sealing: the hashes of a section of several pages find it.
#[test]
fn damaged_pages_of_names_are_found_by_their_hashes() {
    let bench = Bench::new();
    let (path, entries) = crate::support::many_names(&bench);
    let mut valid = Sheet {
        bytes: std::fs::read(&path).expect("read"),
    };
    let names = *valid.record(section::NAMES);
    assert!(names.hashes_bytes() > 2 * 32, "several pages");
    let mut random = fastrand::Rng::with_seed(32);
    for _ in 0..40 {
        let mut bytes = valid.bytes.clone();
        let at = match random.bool() {
            true => names.offset.get() + random.u64(..names.bytes.get()),
            false => names.hashes_offset.get() + random.u64(..names.hashes_bytes()),
        };
        bytes[at as usize] ^= 1 << random.u8(..8);
        std::fs::write(&path, &bytes).expect("written");
        let package = bench.open(&path);
        let error = package.preload().expect_err("damaged");
        assert!(error.cause().contains("hash"), "{error}");
        let mut missed = entries
            .iter()
            .filter(|(name, _)| package.lookup(name).is_err());
        assert!(missed.next().is_some(), "byte {at}");
    }
}

/// A package of the format before this one, as its header begins.
#[test]
fn a_package_of_version_1_is_refused_by_name() {
    let bench = Bench::new();
    let path = bench.path("old.mpak");
    let mut bytes = valid(&bench);
    // Its hashes are laid out in another way, so nothing else of it is right.
    bytes[8] = 1;
    std::fs::write(&path, &bytes).expect("written");
    let error = Package::open(&bench.storage, &path).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.offset(), Some(8), "{error}");
    for version in ["format version 1", "reads version 2"] {
        assert!(error.cause().contains(version), "{error}");
    }
}

/// A package of which entry `n` has all blocks from block `n` on, and the names of its entries.
fn overlapping(bench: &Bench, count: u32) -> (PathBuf, Vec<String>) {
    const BLOCK_BYTES: u32 = 4096;
    let entry = |nth: u32| {
        let mut bytes = vec![0; 9 * BLOCK_BYTES as usize];
        for block in bytes.chunks_exact_mut(BLOCK_BYTES as usize) {
            block[..4].copy_from_slice(&nth.to_le_bytes());
        }
        (format!("{nth:04}"), bytes)
    };
    let entries: Vec<_> = (0..count).map(entry).collect();
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::LZ4_BLOCK),
        block_bytes: Some(BLOCK_BYTES),
        ..PackOptions::default()
    };
    let path = bench.path("b.mpak");
    millstream_pak::write_file(crate::support::items(&entries), &options, &path).expect("packed");
    let mut sheet = Sheet {
        bytes: std::fs::read(&path).expect("read"),
    };
    let blocks = sheet.header().block_count.get() as u32;
    assert_eq!(blocks, 9 * count);
    let table = sheet.section(section::ENTRIES);
    for (record, first) in table.chunks_exact_mut(32).zip(0..) {
        put64(record, 8, u64::from((blocks - first) * BLOCK_BYTES));
        put32(record, 16, first);
    }
    sheet.seal();
    std::fs::write(&path, &sheet.bytes).expect("written");
    (path, entries.into_iter().map(|(name, _)| name).collect())
}

#[test]
fn entries_that_name_the_same_blocks_over_and_over_are_not_all_looked_at() {
    let bench = Bench::new();
    let (path, _) = overlapping(&bench, 1500);
    let package = bench.open(&path);
    let refused = package.check_sharing().expect_err("the square of it");
    assert_eq!(refused.kind(), ErrorKind::Limit);
    let report = verify(&bench.storage, &package, None, &mut |_| true).expect("it opens");
    let kinds: Vec<_> = report.errors.iter().map(|error| error.kind()).collect();
    assert_eq!((kinds, report.raw_bytes), (vec![ErrorKind::Limit], 0));
    // Few may.
    let bench = Bench::new();
    let few = bench.open(&overlapping(&bench, 40).0);
    few.check_sharing().expect("it is not much");
}

#[test]
fn a_patch_has_each_block_once_however_many_entries_name_it() {
    let bench = Bench::new();
    let (path, names) = overlapping(&bench, 40);
    let a = bench.pack("a.mpak", &[], Coding::Fixed(CodecId::STORED));
    let (a, b) = (bench.open(&a), bench.open(&path));
    let patch = bench.path("patch.mpak");
    let report = write_patch_file(&a, &b, None, &patch).expect("a patch");
    assert_eq!(report.blocks, 9 * 40);
    // Each entry is loaded out of the patch as out of the package.
    let patch = bench.open(&patch).with_base(&a).expect("its base");
    for name in &names {
        assert_eq!(bench.load(&patch, name), bench.load(&b, name), "{name}");
    }
}
