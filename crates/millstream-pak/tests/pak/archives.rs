//! Archives of other programs: what they hold is loaded byte for byte, by every route, and all that
//! is wrong with one is an error that names the entry.

use std::collections::HashMap;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::disk::Disk;
use crate::support::{Bench, entries, noise, words};
use crate::zip::{
    Around, DEFLATE, Entry, Pck, STORED, ZSTD, Zip, crc32, entry, godot, has_zstd, quake, zip,
};
use millstream::{Buffer, CodecId, Queue, QueueOptions, Storage};
use millstream_pak::{
    Archive, BatchOptions, Error, ErrorKind, Item, Mounts, PackOptions, PackageOptions, write_file,
};
use millstream_source::Source as _;
use millstream_testing::Unavailable;
use xxhash_rust::xxh3::xxh3_64;

impl Bench {
    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    fn archive(&self, bytes: &[u8]) -> Result<Archive, Error> {
        Archive::open(&self.storage, self.put("archive", bytes))
    }

    fn archive_of(&self, all: &[Entry]) -> Result<Archive, Error> {
        self.archive(&zip(all, &Around::default()).bytes)
    }
}

fn load(queue: &Queue, archive: &Archive, index: u32) -> Result<Vec<u8>, Error> {
    let (mut shown, options) = (Vec::new(), BatchOptions::default());
    archive.visit(queue, &[index], &options, &mut |_, loaded| {
        shown.push(loaded.map(|bytes| bytes.to_vec()));
        ControlFlow::Continue(())
    })?;
    shown.pop().expect("one entry")
}

fn range(
    queue: &Queue,
    archive: &Archive,
    index: u32,
    (offset, len): (u64, u64),
) -> Result<Vec<u8>, Error> {
    let mut ticket = queue.submit(archive.range(index, offset, len)?)?;
    Ok(ticket.wait()?.to_vec())
}

fn index(archive: &Archive, name: &str) -> u32 {
    let found = archive.lookup(name.as_bytes()).expect("a name");
    found.unwrap_or_else(|| panic!("{name} is missing"))
}

/// Entries in all methods and forms.
fn mixed(seed: u64) -> Vec<Entry> {
    let mut all = Vec::new();
    for (nth, (name, raw)) in entries(seed).into_iter().enumerate() {
        let methods = if has_zstd() { 3 } else { 2 };
        let mut one = entry(name, raw, [DEFLATE, STORED, ZSTD][nth % methods]);
        one.descriptor = nth % 5 == 1;
        one.zip64 = nth % 7 == 2;
        if nth % 4 == 3 {
            // A field of another program, as those that align stored entries.
            one.local_extra = [&[0x35, 0xd9, 100, 0][..], &[0; 100]].concat();
        }
        if nth % 6 == 0 {
            one.comment = b"a comment".to_vec();
        }
        one.mode = (nth % 2 == 0).then_some(0o100_755);
        one.flags = 1 << 11;
        all.push(one);
    }
    all
}

#[test]
fn every_entry_and_any_range_of_it_has_the_bytes_that_went_in() {
    let bench = Bench::new();
    let all = mixed(1);
    let around = Around {
        comment: b"of the archive".to_vec(),
        ..Around::default()
    };
    let path = bench.put("a.pk3", &zip(&all, &around).bytes);
    let mut random = fastrand::Rng::with_seed(2);
    for verify in [true, false] {
        let options = PackageOptions {
            verify,
            ..PackageOptions::default()
        };
        let archive = Archive::open_with(&bench.storage, &path, options).expect("sound");
        assert_eq!(archive.len() as usize, all.len());
        assert_eq!(archive.duplicates(), []);
        let queue = bench.queue();
        // Before and after headers were seen.
        for _ in 0..2 {
            for one in &all {
                let at = index(&archive, std::str::from_utf8(&one.name).expect("UTF-8"));
                let info = archive.info(at);
                assert_eq!(info.raw_bytes, one.raw.len() as u64);
                assert_eq!(info.executable, one.mode.is_some());
                let from = random.u64(0..=info.raw_bytes);
                let len = random.u64(0..=info.raw_bytes - from);
                let part = range(&queue, &archive, at, (from, len)).expect("sound");
                assert!(part == one.raw[from as usize..][..len as usize], "{info:?}");
                let whole = load(&queue, &archive, at).expect("sound");
                assert!(whole == one.raw, "{info:?}");
            }
        }
    }
}

#[test]
fn entries_longer_than_a_window_are_decoded_while_they_are_read() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(3);
    let raw = words(&mut random, 9_000_000);
    let mut methods = vec![STORED, DEFLATE];
    methods.extend(has_zstd().then_some(ZSTD));
    let of = |method: &u16| entry(format!("m{method}"), raw.clone(), *method);
    let all: Vec<Entry> = methods.iter().map(of).collect();
    let made = zip(&all, &Around::default());
    let archive = bench.archive(&made.bytes).expect("sound");
    let queue = bench.queue();
    for index in 0..archive.len() {
        for (from, len) in [
            (0, 9_000_000),
            (8_999_999, 1),
            (1_000_000, 5_000_000),
            (0, 10),
        ] {
            let part = range(&queue, &archive, index, (from, len)).expect("sound");
            assert!(part == raw[from as usize..][..len as usize]);
        }
    }
    // Damage in the last of many windows.
    for (nth, name) in methods.iter().enumerate() {
        let end = made.locals.get(nth + 1).unwrap_or(&made.entries[0]);
        let mut bytes = made.bytes.clone();
        bytes[end - 1000] ^= 0x10;
        let archive = bench.archive(&bytes).expect("the directory is sound");
        let error = load(&queue, &archive, index(&archive, &format!("m{name}")));
        let error = error.expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn a_stored_entry_whose_header_was_seen_is_read_without_a_worker() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(10);
    let raw = noise(&mut random, 200_000);
    let made = zip(&[entry("a", raw.clone(), STORED)], &Around::default());
    let path = bench.put("a.zip", &made.bytes);
    let options = PackageOptions {
        verify: false,
        ..PackageOptions::default()
    };
    let archive = Archive::open_with(&bench.storage, &path, options).expect("sound");
    let queue = bench.queue();
    let jobs = || bench.storage.stats().jobs;
    let before = jobs();
    assert!(load(&queue, &archive, 0).expect("sound") == raw);
    let seen = jobs();
    assert!(seen > before);
    assert!(load(&queue, &archive, 0).expect("sound") == raw);
    assert!(range(&queue, &archive, 0, (9, 100)).expect("sound") == raw[9..109]);
    assert_eq!(jobs(), seen);
    // With checks, a whole entry is compared with its checksum each time, and a part is not.
    let archive = Archive::open(&bench.storage, &path).expect("sound");
    assert!(load(&queue, &archive, 0).expect("sound") == raw);
    let seen = jobs();
    assert!(range(&queue, &archive, 0, (9, 100)).expect("sound") == raw[9..109]);
    assert_eq!(jobs(), seen);
    assert!(load(&queue, &archive, 0).expect("sound") == raw);
    assert!(jobs() > seen);
}

#[test]
fn a_range_far_into_a_stored_entry_reads_its_header_first() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(11);
    let raw = noise(&mut random, 3_000_000);
    let mut made = zip(&[entry("a", raw.clone(), STORED)], &Around::default());
    let archive = bench.archive(&made.bytes).expect("sound");
    let queue = bench.queue();
    let before = bench.storage.stats().jobs;
    let part = range(&queue, &archive, 0, (2_900_000, 1000)).expect("sound");
    assert!(part == raw[2_900_000..][..1000]);
    // Not decoded from the entry's start.
    assert_eq!(bench.storage.stats().jobs, before);
    made.bytes[made.locals[0] + 30] = b'b';
    let archive = bench.archive(&made.bytes).expect("the directory is sound");
    let error = range(&queue, &archive, 0, (2_900_000, 1000)).expect_err("another name");
    assert_eq!(
        (error.kind(), error.entry_name()),
        (ErrorKind::Corrupt, Some("a"))
    );
    assert!(
        error.to_string().contains("contradicts the directory"),
        "{error}"
    );
}

#[test]
fn zip64_programs_in_front_and_comments_are_read() {
    let bench = Bench::new();
    let all = [
        entry("a", b"1", STORED),
        entry("b/c", vec![7; 3000], DEFLATE),
    ];
    for zip64 in [false, true] {
        for ahead in [vec![], b"MZ and a program".to_vec(), vec![0x50; 70_000]] {
            for comment in [vec![], b"PK\x05\x06 is no end".to_vec(), vec![b'x'; 65_535]] {
                let around = Around {
                    ahead: ahead.clone(),
                    comment,
                    zip64,
                };
                let archive = bench.archive(&zip(&all, &around).bytes).expect("sound");
                let queue = bench.queue();
                assert_eq!(load(&queue, &archive, 0).expect("sound"), b"1");
                assert_eq!(load(&queue, &archive, 1).expect("sound"), vec![7; 3000]);
            }
        }
    }
    let empty = bench.archive(&zip(&[], &Around::default()).bytes);
    assert!(empty.expect("sound").is_empty());
}

#[test]
fn names_are_utf8_or_cp437_and_may_be_of_the_unicode_field() {
    let bench = Bench::new();
    let mut marked = entry("größe", b"1", STORED);
    marked.flags = 1 << 11;
    let mut field = entry(b"?.txt", b"4", STORED);
    let name = "日.txt".as_bytes();
    let size = name.len() as u8 + 5;
    field.extra = [
        &[0x75, 0x70, size, 0, 1][..],
        &crc32(b"?.txt").to_le_bytes(),
        name,
    ]
    .concat();
    let mut stale = entry(b"stale", b"5", STORED);
    stale.extra = [&[0x75, 0x70, size, 0, 1][..], &[9; 4], name].concat();
    let all = [
        marked,
        entry(b"na\x8bve", b"2", STORED),
        entry("naïve-utf8", b"3", STORED),
        field,
        stale,
        entry("folder/", b"", STORED),
        entry("./a//b", b"6", STORED),
    ];
    let archive = bench.archive_of(&all).expect("sound");
    let queue = bench.queue();
    let names = ["größe", "naïve", "naïve-utf8", "日.txt", "stale", "a/b"];
    for (name, raw) in names.into_iter().zip(b"123456") {
        let loaded = load(&queue, &archive, index(&archive, name)).expect("sound");
        assert_eq!(loaded, [*raw], "{name}");
    }
    assert_eq!(archive.len(), 6);
    let mut wrong = entry(b"na\x8bve", b"2", STORED);
    wrong.flags = 1 << 11;
    let all = [wrong, entry("ok", b"1", STORED)];
    refused(&bench.archive_of(&all).expect("opened"), "marked as UTF-8");
}

#[test]
fn quake_and_godot_archives_have_their_bytes() {
    let bench = Bench::new();
    let queue = bench.queue();
    let mut random = fastrand::Rng::with_seed(4);
    let all = [
        ("maps/e1m1.bsp", noise(&mut random, 300_000)),
        ("gfx.wad", noise(&mut random, 5)),
        ("empty", Vec::new()),
    ];
    let mut made = vec![quake(&all)];
    for version in 1..=3 {
        let pck = |flags| Pck {
            version,
            flags,
            entry_flags: 0,
        };
        made.push(godot(&all, pck(0)));
        let mut program = vec![0x7f; 4096];
        let archive = godot(&all, pck(2));
        program.extend_from_slice(&archive);
        program.extend_from_slice(&(archive.len() as u64).to_le_bytes());
        program.extend_from_slice(b"GDPC");
        // Only the later versions have offsets from their own start.
        if version > 1 {
            made.push(program);
        }
    }
    for bytes in made {
        let archive = bench.archive(&bytes).expect("sound");
        for (name, raw) in &all {
            let at = index(&archive, name);
            assert!(load(&queue, &archive, at).expect("sound") == *raw, "{name}");
            let part = (raw.len() as u64 / 2, raw.len() as u64 / 3);
            let part = range(&queue, &archive, at, part).expect("sound");
            assert!(part == raw[raw.len() / 2..][..raw.len() / 3]);
        }
    }
    let named = godot(
        &[("res://icon.png", vec![1])],
        Pck {
            version: 2,
            flags: 0,
            entry_flags: 0,
        },
    );
    let archive = bench.archive(&named).expect("sound");
    assert_eq!(archive.name(0), b"icon.png");
}

#[test]
fn encrypted_and_sparse_godot_archives_are_refused_by_name() {
    let bench = Bench::new();
    let all = [("a", vec![1; 10])];
    for (pck, wanted) in [
        (
            Pck {
                version: 2,
                flags: 1,
                entry_flags: 0,
            },
            "directory is encrypted",
        ),
        (
            Pck {
                version: 3,
                flags: 4,
                entry_flags: 0,
            },
            "sparse",
        ),
    ] {
        let error = bench.archive(&godot(&all, pck)).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let mut later = godot(
        &all,
        Pck {
            version: 1,
            flags: 0,
            entry_flags: 0,
        },
    );
    later[4] = 4;
    let error = bench.archive(&later).expect_err("refused");
    assert!(error.to_string().contains("version 4"), "{error}");
    let pck = Pck {
        version: 2,
        flags: 0,
        entry_flags: 1,
    };
    let archive = bench.archive(&godot(&all, pck)).expect("it can be listed");
    let error = load(&bench.queue(), &archive, 0).expect_err("encrypted");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.entry_name(), Some("a"));
    // An entry that a later archive removes.
    let pck = Pck {
        entry_flags: 2,
        ..pck
    };
    assert!(bench.archive(&godot(&all, pck)).expect("sound").is_empty());
}

/// The error of the one entry that an archive leaves out; the other, `ok`, is there.
fn refused(archive: &Archive, wanted: &str) {
    assert_eq!((archive.len(), archive.name(0)), (1, &b"ok"[..]));
    let [error] = archive.refused() else {
        panic!("{wanted}: {:?}", archive.refused());
    };
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::BadName, Some(archive.path()))
    );
    assert!(error.to_string().contains(wanted), "{error}");
    assert!(error.entry_name().is_some() && error.offset().is_some());
}

#[test]
fn entries_whose_names_lead_out_are_left_out_and_reported() {
    let bench = Bench::new();
    let deep = "a/".repeat(2100) + "b";
    for (name, wanted) in [
        ("../up", ".."),
        ("a/../../up", ".."),
        ("/etc/passwd", "absolute"),
        ("c:/windows", "drive"),
        ("./c:evil", "drive"),
        ("a\\..\\b", "backslash"),
        ("", "empty"),
        ("a\0b", "NUL"),
        (&deep, "4096"),
    ] {
        let all = [entry(name, b"1", STORED), entry("ok", b"1", STORED)];
        refused(&bench.archive_of(&all).expect("opened"), wanted);
        if name.len() < 56 && !name.contains('\0') && !name.is_empty() {
            let all = [(name, vec![1]), ("ok", vec![1])];
            refused(&bench.archive(&quake(&all)).expect("opened"), wanted);
            let pck = Pck {
                version: 2,
                flags: 0,
                entry_flags: 0,
            };
            refused(&bench.archive(&godot(&all, pck)).expect("opened"), wanted);
        }
    }
    let many: Vec<Entry> = (0..1001)
        .map(|nth| entry(format!("../{nth}"), b"", STORED))
        .collect();
    let error = bench.archive_of(&many).expect_err("too many");
    assert_eq!(
        (error.kind(), error.entry_name()),
        (ErrorKind::BadName, Some("../1000"))
    );
}

#[test]
fn the_last_of_several_entries_of_a_name_is_used_and_reported() {
    let bench = Bench::new();
    let all = [
        entry("b", b"old", STORED),
        entry("a", b"only", STORED),
        entry("b", b"newer", DEFLATE),
        entry("./b", b"newest", STORED),
    ];
    let archive = bench.archive_of(&all).expect("sound");
    assert_eq!(archive.len(), 2);
    let at = index(&archive, "b");
    assert_eq!(archive.duplicates(), [at]);
    assert_eq!(
        load(&bench.queue(), &archive, at).expect("sound"),
        b"newest"
    );
}

/// Puts bytes at an offset.
fn patch(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Opens a zip of `a`, `b` and `c` with some bytes of it changed, and loads `b`.
fn changed(bench: &Bench, all: &[Entry], change: impl FnOnce(&mut Zip)) -> Error {
    let mut made = zip(all, &Around::default());
    change(&mut made);
    let archive = match bench.archive(&made.bytes) {
        Ok(archive) => archive,
        Err(error) => return error,
    };
    let at = index(&archive, "b");
    load(&bench.queue(), &archive, at).expect_err("an error")
}

fn three(method: u16) -> Vec<Entry> {
    let of = |name| entry(name, vec![5; 1000], method);
    ["a", "b", "c"].map(of).to_vec()
}

#[test]
fn local_headers_that_contradict_the_directory_are_errors() {
    let bench = Bench::new();
    for method in [STORED, DEFLATE] {
        for (at, value, wanted) in [
            (0, &b"XX"[..], "no local header"),
            (6, &[1], "encryption"),
            (8, &[12], "compression method"),
            (14, &[1, 2, 3, 4], "checksum"),
            (18, &[1, 0, 0, 0], "size"),
            (22, &[1, 0, 0, 0], "size"),
            (26, &[2], "name"),
            (30, b"z", "name"),
            (28, &[0, 1], "into the next entry"),
        ] {
            let error = changed(&bench, &three(method), |made| {
                let local = made.locals[1];
                patch(&mut made.bytes, local + at, value);
            });
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let shown = error.to_string();
            assert!(
                shown.contains(wanted) && shown.contains("'b'"),
                "{method} {at}: {error}"
            );
        }
    }
}

#[test]
fn damaged_bytes_are_errors_that_name_the_entry() {
    let bench = Bench::new();
    for method in [STORED, DEFLATE] {
        let error = changed(&bench, &three(method), |made| {
            let next = made.locals[2];
            made.bytes[next - 3] ^= 0xff;
        });
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("'b'"), "{error}");
    }
    // The checksum of both headers is wrong.
    let error = changed(&bench, &three(STORED), |made| {
        let (local, at) = (made.locals[1], made.entries[1]);
        patch(&mut made.bytes, local + 14, &[1, 2, 3, 4]);
        patch(&mut made.bytes, at + 16, &[1, 2, 3, 4]);
    });
    assert!(error.to_string().contains("CRC-32"), "{error}");
}

#[test]
fn overlapping_entries_and_those_past_the_end_are_errors() {
    let bench = Bench::new();
    let at_of = |made: &Zip, nth: usize| (made.locals[nth] as u32).to_le_bytes();
    // The same bytes, as those of a bomb.
    let error = changed(&bench, &three(STORED), |made| {
        let (place, at) = (at_of(made, 0), made.entries[1]);
        patch(&mut made.bytes, at + 42, &place);
    });
    assert!(error.to_string().contains("overlaps entry 'b'"), "{error}");
    assert_eq!(
        (error.kind(), error.entry_name()),
        (ErrorKind::Corrupt, Some("a"))
    );
    // Longer than the room to the next entry, or to the directory.
    for (nth, wanted) in [
        (1, "overlaps entry 'c'"),
        (2, "overlaps the archive's directory"),
    ] {
        let error = changed(&bench, &three(STORED), |made| {
            let at = made.entries[nth];
            patch(&mut made.bytes, at + 20, &1001u32.to_le_bytes());
            patch(&mut made.bytes, at + 24, &1001u32.to_le_bytes());
        });
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let error = changed(&bench, &three(STORED), |made| {
        let at = made.entries[1];
        patch(&mut made.bytes, at + 42, &[0, 0, 0, 0x70]);
    });
    assert_eq!(
        (error.kind(), error.entry_name()),
        (ErrorKind::Truncated, Some("b"))
    );
    // The other formats.
    let mut bytes = quake(&[("a", vec![1; 10]), ("b", vec![2; 10])]);
    let at = bytes.len() - 8;
    patch(&mut bytes, at, &13u32.to_le_bytes());
    let error = bench.archive(&bytes).expect_err("an overlap");
    assert!(error.to_string().contains("overlaps entry 'b'"), "{error}");
    patch(&mut bytes, at, &0x7fff_ffffu32.to_le_bytes());
    let error = bench.archive(&bytes).expect_err("past the end");
    assert_eq!(
        (error.kind(), error.entry_name()),
        (ErrorKind::Truncated, Some("b"))
    );
}

#[test]
fn sizes_that_stored_bytes_cannot_have_are_refused_before_memory_is_taken() {
    let bench = Bench::new();
    let mut methods = vec![STORED, DEFLATE];
    methods.extend(has_zstd().then_some(ZSTD));
    for method in methods {
        let error = changed(&bench, &three(method), |made| {
            let at = made.entries[1];
            patch(&mut made.bytes, at + 24, &0xffff_fff0u32.to_le_bytes());
        });
        assert_eq!(
            (error.kind(), error.entry_name()),
            (ErrorKind::Corrupt, Some("b")),
            "{error}"
        );
        assert!(error.to_string().contains("4294967280"), "{error}");
    }
    // A size in both headers that is wrong but possible.
    for size in [999u32, 1001] {
        let error = changed(&bench, &three(DEFLATE), |made| {
            let (local, at) = (made.locals[1], made.entries[1]);
            patch(&mut made.bytes, local + 22, &size.to_le_bytes());
            patch(&mut made.bytes, at + 24, &size.to_le_bytes());
        });
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("'b'"), "{error}");
    }
}

#[test]
fn entries_that_cannot_be_loaded_are_listed_and_named() {
    let bench = Bench::new();
    let mut encrypted = three(STORED);
    encrypted[1].flags = 1;
    let mut link = three(STORED);
    link[1].mode = Some(0o120_777);
    let mut methods = three(STORED);
    methods[1].method = 14;
    for (all, wanted) in [
        (encrypted, "encrypted"),
        (link, "symbolic link"),
        (methods, "method 14 is not supported"),
    ] {
        let archive = bench.archive_of(&all).expect("it can be listed");
        assert_eq!((archive.len(), archive.info(1).codec), (3, None));
        assert_eq!(archive.info(0).codec, Some(CodecId::STORED));
        let error = load(&bench.queue(), &archive, 1).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(error.entry_name(), Some("b"));
        assert!(load(&bench.queue(), &archive, 2).is_ok());
    }
}

#[test]
fn empty_entries_are_checked_as_others() {
    let bench = Bench::new();
    let empty = |method| {
        let mut all = three(method);
        all[1].raw = Vec::new();
        all
    };
    for method in [STORED, DEFLATE] {
        let archive = bench.archive_of(&empty(method)).expect("sound");
        assert_eq!(load(&bench.queue(), &archive, 1).expect("sound"), b"");
        // Its checksum, and the size that only the directory has.
        let error = changed(&bench, &empty(method), |made| {
            let (local, at) = (made.locals[1], made.entries[1]);
            patch(&mut made.bytes, local + 14, &[1, 2, 3, 4]);
            patch(&mut made.bytes, at + 16, &[1, 2, 3, 4]);
        });
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("CRC-32"), "{error}");
        let error = changed(&bench, &three(method), |made| {
            let at = made.entries[1];
            patch(&mut made.bytes, at + 24, &[0; 4]);
        });
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn names_of_folders_and_slots_that_are_not_used_are_passed_over() {
    let bench = Bench::new();
    let mut all = three(STORED);
    all.push(entry("./", "", STORED));
    all.push(entry("/", "", STORED));
    let archive = bench.archive_of(&all).expect("sound");
    assert_eq!((archive.len(), archive.refused().len()), (3, 0));
    let archive = bench.archive(&quake(&[("a", b"1".to_vec()), ("", Vec::new())]));
    let archive = archive.expect("sound");
    assert_eq!((archive.len(), archive.refused().len()), (1, 0));
}

#[test]
fn directories_that_lie_are_errors() {
    let bench = Bench::new();
    let all = three(STORED);
    let made = zip(&all, &Around::default());
    let cases: Vec<(usize, Vec<u8>, &str)> = vec![
        (10, vec![4], "not 4 as its end says"),
        (
            12,
            vec![0xff, 0xff, 0xff, 0x7f],
            "at most 268435456 are read",
        ),
        (
            12,
            vec![0xff, 0xff, 0xff, 0x0f],
            "longer than what is in front",
        ),
        (16, vec![0xff, 0xff, 0xff, 0x0f], "begins past its own end"),
        (4, vec![1], "split over several files"),
        (16, vec![0xff; 4], "zip64 is missing"),
        (12, vec![60, 0, 0, 0], "no entry begins here"),
    ];
    for (at, value, wanted) in cases {
        let mut bytes = made.bytes.clone();
        patch(&mut bytes, made.end + at, &value);
        if at == 10 {
            patch(&mut bytes, made.end + 8, &value);
        }
        let error = bench.archive(&bytes).expect_err(wanted);
        assert!(error.to_string().contains(wanted), "{error}");
    }
    // An entry that ends behind the directory.
    let mut bytes = made.bytes.clone();
    patch(&mut bytes, made.entries[2] + 30, &[0xff, 0xff]);
    let error = bench.archive(&bytes).expect_err("truncated");
    assert!(
        error.to_string().contains("in the middle of an entry"),
        "{error}"
    );
    // zip64: no record where the locator says, another value than the short record has, and an
    // entry without its field.
    let around = Around {
        zip64: true,
        ..Around::default()
    };
    let made = zip(&all, &around);
    for (at, value, wanted) in [
        (made.end - 76, &b"XX"[..], "not where its locator says"),
        (made.end + 10, &[3, 0], "contradicts"),
        (made.end - 76 + 32, &[4], "not 4 as its end says"),
        (made.end - 76 + 40, &[0xff; 8], "at most 268435456 are read"),
        (
            made.entries[1] + 24,
            &[0xff; 4],
            "field of zip64 is missing",
        ),
    ] {
        let mut bytes = made.bytes.clone();
        patch(&mut bytes, at, value);
        if at == made.end + 10 {
            patch(&mut bytes, made.end + 8, &[9, 0]);
            patch(&mut bytes, at, &[9, 0]);
        }
        let error = bench.archive(&bytes).expect_err(wanted);
        assert!(error.to_string().contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn truncated_archives_and_other_files_are_errors() {
    let bench = Bench::new();
    let pck = |version| Pck {
        version,
        flags: 0,
        entry_flags: 0,
    };
    let all = [("a", vec![1; 10]), ("b", vec![2; 10])];
    let made = zip(&three(DEFLATE), &Around::default()).bytes;
    for len in 0..made.len() {
        let error = bench.archive(&made[..len]).expect_err("truncated");
        assert_eq!(error.kind(), ErrorKind::NotAPackage, "{len}: {error}");
    }
    // The others have their directory in front, or name its place there.
    let of_quake = quake(&all);
    for len in 4..of_quake.len() {
        let error = bench.archive(&of_quake[..len]).expect_err("truncated");
        assert_eq!(error.kind(), ErrorKind::Truncated, "{len}: {error}");
    }
    for version in 1..=3 {
        let made = godot(&all, pck(version));
        for len in 4..made.len() {
            let error = bench.archive(&made[..len]).expect_err("truncated");
            assert_eq!(error.kind(), ErrorKind::Truncated, "{len}: {error}");
        }
    }
    let mut odd = quake(&all);
    odd[8] += 1;
    let error = bench.archive(&odd).expect_err("odd");
    assert!(
        error.to_string().contains("not a multiple of 64"),
        "{error}"
    );
    let mut many = godot(&all, pck(2));
    patch(&mut many, 96, &[0xff; 4]);
    let error = bench.archive(&many).expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let mut named = godot(&all, pck(2));
    patch(&mut named, 100, &[0xff; 4]);
    let error = bench.archive(&named).expect_err("a long name");
    assert!(
        error.to_string().contains("a name of 4294967295 bytes"),
        "{error}"
    );
    let mut far = godot(&all, pck(3));
    patch(&mut far, 32, &[0xff; 8]);
    let error = bench.archive(&far).expect_err("far");
    assert!(error.to_string().contains("begins past the end"), "{error}");
    let mut program = vec![0; 100];
    program.extend_from_slice(&50u64.to_le_bytes());
    program.extend_from_slice(b"GDPC");
    let error = bench.archive(&program).expect_err("nothing there");
    assert_eq!(error.kind(), ErrorKind::NotAPackage, "{error}");
    let around = Around {
        comment: program,
        ..Around::default()
    };
    let commented = bench.archive(&zip(&three(STORED), &around).bytes);
    assert_eq!(commented.expect("a zip with a comment").len(), 3);
    let missing = Archive::open(&bench.storage, bench.path("missing")).expect_err("missing");
    assert_eq!(missing.kind(), ErrorKind::Io);
    // The file was cut after its directory was read.
    let path = bench.put("cut", &zip(&three(STORED), &Around::default()).bytes);
    let archive = Archive::open(&bench.storage, &path).expect("sound");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opened");
    file.set_len(1500).expect("cut");
    let error = load(&bench.queue(), &archive, 2).expect_err("cut");
    assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
}

#[test]
fn ranges_past_the_end_and_entries_of_others_are_errors() {
    let bench = Bench::new();
    let archive = bench.archive_of(&three(DEFLATE)).expect("sound");
    for (from, len) in [(0, 1001), (1000, 1), (u64::MAX, 2)] {
        let error = archive
            .range(0, from, len)
            .map(|_| ())
            .expect_err("past the end");
        assert_eq!(
            (error.kind(), error.entry_name()),
            (ErrorKind::PastEnd, Some("a"))
        );
    }
    let error = archive.read("none").map(|_| ()).expect_err("missing");
    assert_eq!(
        (error.kind(), error.entry_name()),
        (ErrorKind::NotFound, Some("none"))
    );
    let other = bench.archive_of(&three(DEFLATE)).expect("sound");
    let found = archive.find(b"a").expect("a name").expect("there");
    assert!(other.request(0).is_ok());
    let error = millstream_source::Source::request(&other, &found).map(|_| ());
    let error = error.expect_err("of another archive");
    assert_eq!(error.kind(), millstream::ErrorKind::InvalidArgument);
}

#[test]
fn names_are_found_without_case_if_asked() {
    let bench = Bench::new();
    let all = [
        entry("Maps/DM1.bsp", b"1", STORED),
        entry("maps/dm1.bsp", b"2", STORED),
        entry("SOUND/a.WAV", b"3", STORED),
    ];
    let path = bench.put("a.zip", &zip(&all, &Around::default()).bytes);
    let options = PackageOptions {
        fold_case: true,
        ..PackageOptions::default()
    };
    let folded = Archive::open_with(&bench.storage, &path, options).expect("sound");
    let exact = Archive::open(&bench.storage, &path).expect("sound");
    let queue = bench.queue();
    for (name, raw) in [
        ("maps/dm1.bsp", b"2"),
        ("Maps/DM1.bsp", b"1"),
        ("MAPS/dm1.BSP", b"1"),
        ("sound/A.wav", b"3"),
    ] {
        assert_eq!(
            load(&queue, &folded, index(&folded, name)).expect("sound"),
            raw,
            "{name}"
        );
    }
    assert_eq!(exact.lookup(b"sound/A.wav").expect("a name"), None);
    assert_eq!(folded.lookup(b"sound/b.wav").expect("a name"), None);
    assert_eq!(
        (
            folded.matching(b"MAPS").len(),
            exact.matching(b"MAPS").len()
        ),
        (2, 0)
    );
    let mut mounts = Mounts::new().fold_case();
    mounts
        .mount_archive(&bench.storage, &path)
        .expect("mounted");
    assert!(mounts.exists(b"sound/A.wav").expect("a name"));
}

#[test]
fn archives_are_mounted_beside_packages_and_folders() {
    let bench = Bench::new();
    let items = vec![
        Item::from_bytes("a", *b"package"),
        Item::from_bytes("d/b", *b"package"),
    ];
    let package = bench.path("base.mpak");
    write_file(items, &PackOptions::default(), &package).expect("packed");
    let all = [
        entry("d/b", b"archive", DEFLATE),
        entry("d/c", b"archive", STORED),
    ];
    let archive = bench.put("a.pk3", &zip(&all, &Around::default()).bytes);
    std::fs::create_dir_all(bench.path("loose/d")).expect("a folder");
    std::fs::write(bench.path("loose/d/c"), b"loose").expect("written");
    let mut mounts = Mounts::new();
    mounts
        .mount_package(&bench.storage, &package)
        .expect("mounted");
    mounts
        .mount_archive(&bench.storage, &archive)
        .expect("mounted");
    mounts
        .mount_folder(&bench.storage, bench.path("loose"))
        .expect("mounted");
    let queue = bench.queue();
    for (name, raw) in [("a", "package"), ("d/b", "archive"), ("d/c", "loose")] {
        let found = mounts
            .find(name.as_bytes())
            .expect("a name")
            .expect("there");
        let mut ticket = queue
            .submit(mounts.request(&found).expect("a request"))
            .expect("room");
        assert_eq!(
            &ticket.wait().expect("loaded")[..],
            raw.as_bytes(),
            "{name}"
        );
    }
    let listed = mounts.folder(b"").expect("listed").expect("the root");
    assert_eq!(listed, [b"a".to_vec(), b"d/".to_vec()]);
    let listed = mounts.folder(b"d").expect("listed").expect("a folder");
    assert_eq!(listed, [b"b".to_vec(), b"c".to_vec()]);
    let found = mounts.find(b"d/b").expect("a name").expect("there");
    let bytes = std::fs::metadata(&archive).expect("there").len();
    assert_eq!(mounts.stored_in(&found).1, bytes);
    assert_eq!(mounts.metadata(&found).expect("none is read"), None);
}

#[test]
fn a_visit_shows_every_entry_in_the_order_of_the_file_and_goes_on_after_errors() {
    let bench = Bench::new();
    let all = mixed(5);
    let mut made = zip(&all, &Around::default());
    let damaged = 7;
    made.bytes[made.locals[damaged]] ^= 1;
    let archive = bench.archive(&made.bytes).expect("sound");
    let indices: Vec<u32> = (0..archive.len()).collect();
    let options = BatchOptions::default();
    let mut shown = Vec::new();
    let visit = archive.visit(&bench.queue(), &indices, &options, &mut |index, loaded| {
        shown.push((
            archive.name(index).to_vec(),
            loaded.map(|bytes| bytes.to_vec()),
        ));
        ControlFlow::Continue(())
    });
    visit.expect("room");
    assert_eq!(shown.len(), all.len());
    // An entry without bytes is where its header is, too.
    for (nth, ((name, loaded), one)) in shown.iter().zip(&all).enumerate() {
        assert_eq!(*name, one.name);
        match loaded {
            Ok(bytes) => assert!(*bytes == one.raw && nth != damaged),
            Err(error) => assert_eq!(nth, damaged, "{error}"),
        }
    }
    let mut count = 0;
    let visit = archive.visit(&bench.queue(), &indices, &options, &mut |_, _| {
        count += 1;
        ControlFlow::Break(())
    });
    visit.expect("room");
    assert_eq!(count, 1);
}

#[test]
fn an_archive_becomes_a_package_of_the_same_bytes() {
    let bench = Bench::new();
    let all = mixed(6);
    let archive = bench
        .archive(&zip(&all, &Around::default()).bytes)
        .expect("sound");
    let items = archive.items(&bench.queue(), &|_| true).expect("loaded");
    let path = bench.path("made.mpak");
    write_file(items, &PackOptions::default(), &path).expect("packed");
    let package = bench.open(&path);
    assert_eq!(package.len(), archive.len());
    for one in &all {
        let name = std::str::from_utf8(&one.name).expect("UTF-8");
        assert!(
            bench.load(&package, name).expect("loaded") == one.raw,
            "{name}"
        );
        let info = package.lookup(&one.name).expect("sound").expect("there");
        assert_eq!(info.executable, one.mode.is_some());
    }
    let stopped = archive.items(&bench.queue(), &|_| false);
    assert_eq!(
        stopped.map(|_| ()).map_err(|error| error.kind()),
        Err(ErrorKind::Stopped)
    );
}

/// Names and contents.
type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// The archives whose bytes are changed, and what is in them.
fn subjects() -> Vec<(Vec<u8>, Contents)> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut all = vec![
        entry("a", words(&mut random, 400), DEFLATE),
        entry("dir/b", noise(&mut random, 90), STORED),
        entry("dir/c", words(&mut random, 700), DEFLATE),
        entry("dir/d", b"", STORED),
    ];
    (all[0].zip64, all[1].descriptor) = (true, true);
    all[2].local_extra = vec![1, 2, 3, 0, 0, 0, 0];
    if has_zstd() {
        all.push(entry("z", words(&mut random, 300), ZSTD));
    }
    let known = |all: &[Entry]| {
        all.iter()
            .map(|it| (it.name.clone(), it.raw.clone()))
            .collect()
    };
    let around = Around {
        zip64: true,
        comment: b"!".to_vec(),
        ..Around::default()
    };
    let mut subjects = vec![
        (zip(&all, &around).bytes, known(&all)),
        (
            zip(
                &all,
                &Around {
                    ahead: vec![9; 40],
                    ..Around::default()
                },
            )
            .bytes,
            known(&all),
        ),
    ];
    let named = [
        ("a", noise(&mut random, 60)),
        ("dir/b", Vec::new()),
        ("c", vec![1; 9]),
    ];
    let of_named = named
        .iter()
        .map(|(name, raw)| (name.as_bytes().to_vec(), raw.clone()));
    let of_named: Vec<_> = of_named.collect();
    subjects.push((quake(&named), of_named.clone()));
    for version in 1..=3 {
        let pck = Pck {
            version,
            flags: 2,
            entry_flags: 0,
        };
        subjects.push((godot(&named, pck), of_named.clone()));
    }
    subjects
}

/// Opens a changed archive and loads all of it. Returns how many entries of zips were loaded.
fn read_all(storage: &Storage, queue: &Queue, path: &Path, sound: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let Ok(archive) = Archive::open(storage, path) else {
        return 0;
    };
    let is_zip = !sound.iter().any(|(name, _)| name == b"c");
    let mut loaded = 0;
    for index in 0..archive.len().min(64) {
        // What a lie declares is bounded by what is stored.
        assert!(archive.info(index).raw_bytes <= archive.file_bytes() << 15);
        let Ok(bytes) = load(queue, &archive, index) else {
            continue;
        };
        loaded += 1;
        // Only zips have checksums of their bytes, and none has one of its names.
        if is_zip {
            let is_known = sound.iter().any(|(_, raw)| *raw == bytes);
            assert!(
                is_known,
                "{:?}",
                String::from_utf8_lossy(archive.name(index))
            );
        }
        let half = archive.info(index).raw_bytes / 2;
        if let Ok(part) = range(queue, &archive, index, (half, bytes.len() as u64 - half)) {
            assert!(part == bytes[half as usize..]);
        }
    }
    loaded
}

#[test]
fn ten_thousand_changed_archives_give_an_error_or_the_right_bytes() {
    let (disk, path) = (Disk::new(), Path::new("/archive"));
    let queue = disk
        .storage
        .queue(QueueOptions::default())
        .expect("a queue");
    let mut random = fastrand::Rng::with_seed(8);
    let subjects = subjects();
    let (mut loaded, mut failed) = (0, 0);
    for round in 0..10_000 {
        let (sound, known) = &subjects[round % subjects.len()];
        let mut bytes = sound.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.u32(..6) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.usize(..5)],
                2 => {
                    let value = [u32::MAX, 0x7fff_ffff, 0, 1][random.usize(..4)];
                    let len = 4.min(bytes.len() - at);
                    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
                }
                3 => {
                    let piece = bytes[at..].to_vec();
                    bytes.extend_from_slice(&piece[..piece.len().min(200)]);
                }
                _ => bytes[at] ^= 1 << random.u32(..8),
            }
        }
        disk.put(path, &bytes);
        let count = read_all(&disk.storage, &queue, path, known);
        loaded += count;
        failed += usize::from(count < known.len());
    }
    // Neither is the test empty, nor does it change nothing.
    assert!(
        loaded > 10_000 && failed > 3_000,
        "{loaded} loaded, {failed} failed"
    );
}

#[test]
fn archives_of_other_programs_have_the_same_bytes() {
    let bench = Bench::new();
    let folder = bench.path("tree");
    let all: Vec<_> = entries(9).into_iter().step_by(5).collect();
    for (name, raw) in &all {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, raw).expect("written");
    }
    let python = "import sys,zipfile\n\
                  z=zipfile.ZipFile(sys.argv[1],'w',zipfile.ZIP_DEFLATED,allowZip64=True)\n\
                  [z.write(n,n) for n in sys.argv[2:]]\nz.close()";
    let names = || all.iter().map(|(name, _)| name);
    let zipped = |name| bench.path(name).into_os_string();
    let mut zip_command = Command::new("zip");
    zip_command.arg("-q").arg(zipped("zip.zip")).args(names());
    let mut python_command = Command::new("python3");
    python_command
        .args(["-c", python])
        .arg(zipped("py.zip"))
        .args(names());
    for (mut command, made) in [(zip_command, "zip.zip"), (python_command, "py.zip")] {
        let made = bench.path(made);
        match command.current_dir(&folder).status() {
            Ok(status) if status.success() => {}
            other => {
                println!("SKIP: {command:?}: {other:?}");
                continue;
            }
        }
        let archive = Archive::open(&bench.storage, &made).expect("sound");
        assert_eq!(archive.len() as usize, all.len());
        for (name, raw) in &all {
            let loaded = load(&bench.queue(), &archive, index(&archive, name)).expect("sound");
            assert!(loaded == *raw, "{name}");
        }
    }
}

/// The zips below a folder.
fn zips_below(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = listed.map(|entry| entry.expect("listed").path());
    let mut found = Vec::new();
    for path in paths.filter(|path| !path.is_symlink()) {
        match path.extension().and_then(|it| it.to_str()) {
            _ if path.is_dir() => found.extend(zips_below(&path)),
            Some("zip" | "pk3" | "jar") => found.push(path),
            _ => {}
        }
    }
    found
}

/// Compares every entry with what `unzip` finds; returns their number.
fn compare_with_unzip(bench: &Bench, path: &Path) -> u32 {
    let unzip = |option: &str, name: &[u8]| {
        let mut command = Command::new("unzip");
        command.arg(option).arg(path).stdout(Stdio::piped());
        if !name.is_empty() {
            command.arg(str::from_utf8(name).expect("UTF-8"));
        }
        command.spawn().expect("unzip starts")
    };
    let archive = Archive::open(&bench.storage, path).expect("sound");
    let (all, mut hashes) = ((0..archive.len()).collect::<Vec<u32>>(), HashMap::new());
    let options = BatchOptions::default();
    let hash = &mut |index, loaded: Result<Buffer, Error>| {
        let bytes = loaded.unwrap_or_else(|error| panic!("{error}"));
        hashes.insert(index, (bytes.len(), xxh3_64(&bytes)));
        ControlFlow::Continue(())
    };
    let visited = archive.visit(&bench.queue(), &all, &options, hash);
    visited.expect("sound");
    // It lists and writes entries in the order of the directory.
    let names = unzip("-Z1", b"").wait_with_output().expect("listed").stdout;
    let mut writer = unzip("-p", b"");
    let mut written = writer.stdout.take().expect("a pipe");
    let mut refused = 0;
    let is_file = |name: &&[u8]| !name.is_empty() && !name.ends_with(b"/");
    for name in names.split(|&byte| byte == b'\n').filter(is_file) {
        let shown = String::from_utf8_lossy(name);
        let (len, hash) = match archive.lookup(name) {
            Ok(found) => {
                let hash = found.and_then(|index| hashes.remove(&index));
                hash.unwrap_or_else(|| panic!("{path:?} has no {shown}"))
            }
            // It leads out, as one in a package of OpenArena does.
            Err(_) => {
                refused += 1;
                let alone = unzip("-p", name).wait_with_output().expect("written");
                (alone.stdout.len(), xxh3_64(&alone.stdout))
            }
        };
        let mut wanted = vec![0; len];
        written.read_exact(&mut wanted).expect("as many bytes");
        assert_eq!(hash, xxh3_64(&wanted), "{path:?}: {shown}");
    }
    assert_eq!(refused, archive.refused().len(), "{path:?}");
    assert_eq!(written.read(&mut [0]).expect("read"), 0, "{path:?}");
    assert!(writer.wait().expect("waited for").success() && hashes.is_empty());
    archive.len()
}

#[test]
fn archives_of_real_programs_have_the_bytes_that_unzip_extracts() {
    let Some(folder) = std::env::var_os("MILLSTREAM_ARCHIVES") else {
        let why = "MILLSTREAM_ARCHIVES names no folder of archives: `.ci/full archives`";
        return Unavailable::because(why).announce();
    };
    let bench = Bench::new();
    let all = zips_below(Path::new(&folder));
    assert!(!all.is_empty(), "{folder:?} has no archive");
    for path in all {
        let entries = compare_with_unzip(&bench, &path);
        println!("{}: {entries} entries", path.display());
        millstream_testing::alive();
    }
}
