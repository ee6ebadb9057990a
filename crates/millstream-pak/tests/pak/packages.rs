//! Packages from end to end: what goes in comes out, whole, in ranges and in batches.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::{Bench, codings, entries, items};
use millstream::CodecId;
use millstream_io::FileSystem as _;
use millstream_io::fs::OsFileSystem;
use millstream_pak::metadata::{Container, Dependency, Image, Kind, Metadata, Mip, Role};
use millstream_pak::{
    BatchOptions, Change, Coding, ErrorKind, Item, Mounts, PackOptions, PackPlan, Package,
    PackageOptions, Piece, Target, diff, encode_task, verify, visit, write_file, write_patch_file,
};
use millstream_source::Source;

#[test]
fn every_entry_comes_out_as_it_went_in_whatever_the_codec() {
    let bench = Bench::new();
    let entries = entries(1);
    for coding in codings() {
        let path = bench.pack("all.mpak", &entries, coding);
        let package = bench.open(&path);
        assert_eq!(package.len() as usize, entries.len());
        for (name, bytes) in &entries {
            let loaded = bench.load(&package, name).expect("loaded");
            assert!(loaded == *bytes, "{coding:?} {name}");
        }
        assert!(!package.exists(b"words/2").expect("asked"));
        let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
        assert_eq!(found.failures, 0, "{coding:?}: {:?}", found.errors);
        assert_eq!(found.entries as usize, entries.len());
    }
}

#[test]
fn a_package_opens_without_blocking_and_a_dropped_open_leaves_nothing_behind() {
    let bench = Bench::new();
    let entries = entries(1);
    let path = bench.pack("later.mpak", &entries, codings()[0]);
    let open = |path: &Path| {
        let (storage, path) = (bench.storage.clone(), path.to_path_buf());
        let opening = Package::open_async(storage, path, PackageOptions::default());
        let opening: Pin<Box<dyn Future<Output = _> + Send + 'static>> = Box::pin(opening);
        opening
    };
    // At every poll that it takes, and once before the first.
    for polls in 0..4 {
        let mut opening = open(&path);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            if opening.as_mut().poll(&mut context).is_ready() {
                break;
            }
        }
    }
    let opened = bench.storage.wait(open(&path), None).expect("waited");
    let package = opened.expect("no time was set").expect("open");
    assert_eq!(package.len() as usize, entries.len());
    let missing = bench.storage.wait(open(Path::new("missing")), None);
    let error = missing.expect("waited").expect("no time was set");
    let error = error.expect_err("there is no such file");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.path(), Some(Path::new("missing")));
    drop(package);
    assert_eq!(
        bench.storage.close(Duration::from_secs(60)).files,
        Vec::<PathBuf>::new()
    );
}

#[test]
fn ranges_land_just_their_bytes() {
    let bench = Bench::new();
    let entries = entries(2);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for coding in codings() {
        let path = bench.pack("ranges.mpak", &entries, coding);
        for verify in [false, true] {
            let options = PackageOptions {
                verify,
                ..PackageOptions::default()
            };
            let package = Package::open_with(&bench.storage, &path, options).expect("open");
            let queue = bench.queue();
            let mut batch = queue.batch();
            let mut tickets = Vec::new();
            for _ in 0..300 {
                let (name, bytes) = &entries[random.usize(..entries.len())];
                let start = random.usize(0..=bytes.len());
                let len = random.usize(0..=bytes.len() - start);
                let found = package
                    .lookup(name.as_bytes())
                    .expect("asked")
                    .expect("there");
                let request = package.range(found.index, start as u64, len as u64);
                let ticket = batch.add(request.expect("a request")).expect("room");
                tickets.push((ticket, &bytes[start..start + len], name));
            }
            batch.submit();
            for (mut ticket, want, name) in tickets {
                let loaded = ticket.wait().expect("loaded");
                assert!(*loaded == *want, "{coding:?} {name}");
            }
        }
    }
}

#[test]
fn batches_give_every_piece_and_merge_neighbors() {
    let bench = Bench::new();
    let entries = entries(3);
    let mut random = fastrand::Rng::with_seed(3);
    for coding in codings() {
        let path = bench.pack("batch.mpak", &entries, coding);
        let package = bench.open(&path);
        let queue = bench.queue();
        let all: Vec<u32> = entries
            .iter()
            .map(|(name, _)| {
                package
                    .lookup(name.as_bytes())
                    .expect("asked")
                    .expect("there")
                    .index
            })
            .collect();
        let batch = package
            .enqueue_all(&queue, &all, &BatchOptions::default())
            .expect("enqueued");
        assert!(
            batch.requests() < all.len() / 4,
            "{} requests",
            batch.requests()
        );
        for (nth, (name, bytes)) in entries.iter().enumerate() {
            assert!(
                *batch.wait(nth).expect("loaded") == bytes[..],
                "{coding:?} {name}"
            );
        }
        let pieces: Vec<Piece> = (0..500)
            .map(|_| {
                let nth = random.usize(..all.len());
                let len = entries[nth].1.len() as u64;
                let offset = random.u64(0..=len);
                let len = random.u64(0..=len - offset);
                Piece {
                    index: all[nth],
                    offset,
                    len,
                }
            })
            .collect();
        let batch = package.enqueue_pieces(&queue, &pieces, &BatchOptions::default());
        let batch = batch.expect("enqueued");
        for (nth, piece) in pieces.iter().enumerate() {
            let entry = all
                .iter()
                .position(|&index| index == piece.index)
                .expect("one of them");
            let start = piece.offset as usize;
            let want = &entries[entry].1[start..start + piece.len as usize];
            assert!(
                *batch.wait(nth).expect("loaded") == *want,
                "{coding:?} {piece:?}"
            );
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_bytes_on_any_number_of_threads() {
    let bench = Bench::new();
    let mut entries = entries(4);
    let path = bench.path("same.mpak");
    let mut bytes = Vec::new();
    for threads in [1, 2, 7] {
        let options = PackOptions {
            threads,
            ..PackOptions::default()
        };
        let report = write_file(items(&entries), &options, &path).expect("packed");
        assert!(report.duplicates >= 3);
        bytes.push(std::fs::read(&path).expect("read"));
        entries.reverse();
    }
    assert!(bytes.iter().all(|one| *one == bytes[0]));
}

/// Positions that wander, as meshes have them: the first bits of a float repeat, its last do not.
fn vertices(random: &mut fastrand::Rng, count: usize) -> Vec<u8> {
    let mut position = [8.0f32; 3];
    let mut bytes = Vec::with_capacity(count * 12);
    for _ in 0..count {
        for axis in &mut position {
            *axis += random.f32() - 0.5;
            let quantised = (*axis * 1024.0).round() / 1024.0;
            bytes.extend_from_slice(&quantised.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn auto_takes_gdeflate_where_it_wins_and_the_same_on_any_number_of_threads() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(12);
    let entries = vec![
        (String::from("mesh"), vertices(&mut random, 60_000)),
        (
            String::from("noise"),
            crate::support::noise(&mut random, 300_000),
        ),
    ];
    let gdeflate = usize::from(CodecId::GDEFLATE.0);
    let pack = |name: &str, coding, threads| {
        let path = bench.path(name);
        let options = PackOptions {
            coding,
            threads,
            ..PackOptions::default()
        };
        (
            write_file(items(&entries), &options, &path).expect("packed"),
            path,
        )
    };
    let target = |megabytes_per_second| {
        Coding::Auto(Target {
            megabytes_per_second,
            cores: 2,
        })
    };
    let (report, path) = pack("auto.mpak", target(550.0), 1);
    // All blocks of the mesh, none of noise.
    assert_eq!(report.blocks_by_codec[gdeflate], 3, "{report:?}");
    assert_eq!(report.blocks_by_codec[0], 2, "{report:?}");
    let (zlib, _) = pack("zlib.mpak", Coding::Fixed(CodecId::ZLIB), 1);
    assert!(report.file_bytes <= zlib.file_bytes + zlib.file_bytes / 20);
    let (_, again) = pack("again.mpak", target(550.0), 3);
    assert!(std::fs::read(&path).expect("read") == std::fs::read(again).expect("read"));
    // A device this fast leaves no time for it.
    let (fast, _) = pack("fast.mpak", target(30_000.0), 2);
    assert_eq!(fast.blocks_by_codec[gdeflate], 0, "{fast:?}");
    let package = bench.open(&path);
    for (name, bytes) in &entries {
        assert!(
            bench.load(&package, name).expect("loaded") == *bytes,
            "{name}"
        );
    }
    let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
    assert_eq!(found.failures, 0, "{:?}", found.errors);
}

#[test]
fn the_target_of_auto_is_recorded_and_gives_the_same_bytes_again() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(13);
    let entries = vec![(String::from("mesh"), vertices(&mut random, 20_000))];
    let pack = |name: &str, coding| {
        let path = bench.path(name);
        let options = PackOptions {
            coding,
            ..PackOptions::default()
        };
        write_file(items(&entries), &options, &path).expect("packed");
        path
    };
    // No whole number of bytes a second.
    let third = Target {
        megabytes_per_second: 1000.0 / 3.0,
        cores: 3,
    };
    let first = pack("first.mpak", Coding::Auto(third));
    let recorded = bench.open(&first).target().expect("recorded");
    assert_eq!(
        (recorded.megabytes_per_second, recorded.cores),
        (333.333_333, 3)
    );
    let again = pack("again.mpak", Coding::Auto(recorded));
    assert_eq!(
        std::fs::read(first).expect("read"),
        std::fs::read(again).expect("read")
    );
    let zlib = pack("zlib.mpak", Coding::Fixed(CodecId::ZLIB));
    assert_eq!(bench.open(&zlib).target(), None);
}

#[test]
fn entries_for_a_gpu_hold_gdeflate_and_stored_blocks_of_their_own() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(41);
    let [mesh, image, text] = [60_000, 30_000, 20_000].map(|count| vertices(&mut random, count));
    let noise = crate::support::noise(&mut random, 300_000);
    let small = vertices(&mut random, 500);
    let mut levels = Metadata::new(Kind::IMAGE);
    levels.image = Some(Image {
        container: Container::DDS,
        ..Image::default()
    });
    levels.mips = vec![Mip {
        row_bytes: 4096,
        bytes: image.len() as u64,
        ..Mip::default()
    }];
    let mut scene = Metadata::new(Kind::SCENE);
    for name in ["mesh", "noise", "small"] {
        let role = Role::BUFFER;
        let name = String::from(name);
        scene.dependencies.push(Dependency { role, name });
    }
    let entries = [
        ("copy of the mesh", mesh.clone(), Metadata::default()),
        ("image", image, levels),
        ("mesh", mesh, Metadata::default()),
        ("noise", noise, Metadata::default()),
        ("scene", vec![b' '; 40_000], scene),
        ("small", small, Metadata::default()),
        ("text", text, Metadata::default()),
    ];
    let items = entries.clone().map(|(name, bytes, record)| {
        let item = Item::from_bytes(name, bytes);
        match record == Metadata::default() {
            true => item,
            false => item.metadata(record),
        }
    });
    let options = || PackOptions {
        coding: Coding::Fixed(CodecId::ZSTD),
        gpu_megabytes_per_second: Some(10_000.0),
        ..PackOptions::default()
    };
    let path = bench.path("gpu.mpak");
    let report = write_file(items.to_vec(), &options(), &path).expect("packed");
    let package = bench.open(&path);
    for (name, bytes, _) in &entries {
        let found = package.lookup(name.as_bytes()).expect("asked");
        let found = found.expect("there");
        let codecs = package.storing(found.index).expect("a table").codecs;
        let expected = match *name {
            "text" | "scene" => CodecId::ZSTD,
            "noise" => CodecId::STORED,
            _ => CodecId::GDEFLATE,
        };
        assert_eq!(codecs, [expected], "{name}");
        assert!(!found.shared, "{name}");
        assert!(
            bench.load(&package, name).expect("loaded") == *bytes,
            "{name}"
        );
    }
    assert_eq!(report.duplicates, 1);

    // Blocks that other machines encode are the same.
    let plan = PackPlan::new(items.to_vec(), options()).expect("a plan");
    let task = plan.task(0..plan.block_count()).expect("a task");
    let again = bench.path("again.mpak");
    let made = plan.write_file([encode_task(&task).expect("encoded")], &again);
    assert_eq!(made.expect("packed"), report);

    let wrong = PackOptions {
        gpu_megabytes_per_second: Some(0.0),
        ..PackOptions::default()
    };
    let refused = write_file(items.to_vec(), &wrong, &path).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn tiny_files_cost_little_more_than_their_bytes() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(5);
    let entries: Vec<(String, Vec<u8>)> = (0..20_000)
        .map(|nth| {
            (
                format!("tiny/{}/{nth}.bin", nth / 100),
                crate::support::noise(&mut random, 200),
            )
        })
        .collect();
    let path = bench.pack("tiny.mpak", &entries, Coding::Auto(Default::default()));
    let package = std::fs::metadata(&path).expect("there").len();
    assert!(
        package * 2 <= 20_000 * 200 * 3,
        "{package} bytes for {}",
        20_000 * 200
    );
}

#[test]
fn entries_share_blocks_unless_they_are_to_be_read_alone() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(32);
    let files: Vec<(String, Vec<u8>)> = (0..20)
        .map(|nth| {
            (
                format!("{nth:02}"),
                crate::support::noise(&mut random, 3000 + nth),
            )
        })
        .collect();
    for (share_below, blocks) in [(None, 1), (Some(3010), 11), (Some(0), 20)] {
        let options = PackOptions {
            share_below,
            ..PackOptions::default()
        };
        let path = bench.path("shared.mpak");
        let report = write_file(items(&files), &options, &path).expect("packed");
        assert_eq!(report.blocks, blocks, "{share_below:?}");
        let package = bench.open(&path);
        for (name, raw) in &files {
            assert!(
                bench.load(&package, name).expect("loaded") == *raw,
                "{name}"
            );
        }
    }
    let options = PackOptions {
        share_below: Some((32 << 10) + 1),
        ..PackOptions::default()
    };
    let error = write_file(items(&files), &options, bench.path("none")).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn bad_names_and_duplicates_are_refused_and_nothing_is_left() {
    let bench = Bench::new();
    let path = bench.path("bad.mpak");
    let cases: [(&[&str], ErrorKind); 6] = [
        (&["../a"], ErrorKind::BadName),
        (&["/a"], ErrorKind::BadName),
        (&["a\0"], ErrorKind::BadName),
        (&["nul.txt"], ErrorKind::BadName),
        (&["a", "b", "a"], ErrorKind::Duplicate),
        (&["a", "a.b", "a/b"], ErrorKind::Duplicate),
    ];
    for (names, kind) in cases {
        let items = names
            .iter()
            .map(|&name| Item::from_bytes(name, *b"x"))
            .collect();
        let failed = write_file(items, &PackOptions::default(), &path).expect_err("refused");
        assert_eq!(failed.kind(), kind, "{failed}");
        let named = failed.entry_name().expect("one of them");
        let shown = |name: &&str| name.replace('\0', "\\x00");
        assert!(names.iter().any(|name| shown(name) == named), "{failed}");
    }
    let fold = PackOptions {
        fold_case: true,
        ..PackOptions::default()
    };
    let items = ["a/B", "A/b"].map(|name| Item::from_bytes(name, *b"x"));
    let failed = write_file(items.into(), &fold, &path).expect_err("refused");
    assert_eq!(failed.kind(), ErrorKind::Duplicate);
    assert_eq!(
        std::fs::read_dir(bench.folder.path())
            .expect("listed")
            .count(),
        0
    );
}

#[test]
fn names_can_be_found_without_regard_to_case() {
    let bench = Bench::new();
    let path = bench.path("fold.mpak");
    let options = PackOptions {
        fold_case: true,
        ..PackOptions::default()
    };
    write_file(
        vec![Item::from_bytes("Data/Größe.TXT", *b"x")],
        &options,
        &path,
    )
    .expect("packed");
    let package = bench.open(&path);
    assert!(package.exists("data/gRöße.txt".as_bytes()).expect("asked"));
    assert!(package.exists(b"./Data//").is_ok_and(|found| !found));
    assert_eq!(
        package.name(0).expect("a name"),
        "Data/Größe.TXT".as_bytes()
    );
}

#[test]
fn a_patch_may_change_the_case_of_a_name() {
    let bench = Bench::new();
    let options = PackOptions {
        fold_case: true,
        ..PackOptions::default()
    };
    let packed = |file: &str, name: &str, bytes: &[u8]| {
        let items = vec![
            Item::from_bytes(name, bytes),
            Item::from_bytes("same", *b"s"),
        ];
        write_file(items, &options, bench.path(file)).expect("packed");
        bench.open(&bench.path(file))
    };
    let (a, b) = (
        packed("a.mpak", "Name", b"old"),
        packed("b.mpak", "name", b"new"),
    );
    let path = bench.path("patch.mpak");
    write_patch_file(&a, &b, None, &path).expect("a patch");
    let patch = bench.open(&path).with_base(&a).expect("its base");
    assert_eq!(patch.len(), 1);
    for name in ["Name", "name", "NAME"] {
        assert_eq!(bench.load(&patch, name).as_deref(), Ok(&b"new"[..]));
    }
}

#[test]
fn inputs_longer_than_a_package_are_refused_before_they_are_read() {
    let bench = Bench::new();
    let path = bench.path("long");
    let file = std::fs::File::create(&path).expect("created");
    if let Err(error) = file.set_len(15 << 40) {
        println!("SKIP: no files of 15 TiB here: {error}");
        return;
    }
    let item = |nth: u32| Item::from_file(nth.to_string(), &path).expect("an item");
    let items = (0..300).map(item).collect();
    let failed = write_file(items, &PackOptions::default(), bench.path("p.mpak"));
    assert_eq!(failed.expect_err("too long").kind(), ErrorKind::Limit);
}

#[test]
fn patches_hold_what_changed_and_turn_one_package_into_the_other() {
    let bench = Bench::new();
    let old = entries(6);
    let mut new = old.clone();
    let mut random = fastrand::Rng::with_seed(7);
    let big = crate::support::words(&mut random, 20_000_000);
    let mut old = old;
    old.push((String::from("big"), big.clone()));
    old.push((String::from("removed/all/x"), vec![1; 10]));
    let mut changed = big;
    changed[10_000_000] ^= 1;
    changed.extend_from_slice(&[1; 100]);
    new.push((String::from("big"), changed));
    new.retain(|(name, _)| !name.starts_with("small/3") && name != "noise/65537");
    new.push((String::from("added/x"), vec![3; 70_000]));
    let coding = Coding::Auto(Default::default());
    let a = bench.open(&bench.pack("a.mpak", &old, coding));
    let b = bench.open(&bench.pack("b.mpak", &new, coding));
    let differences = diff(&a, &b).expect("compared");
    let of = |change| {
        differences
            .iter()
            .filter(move |it| it.change == change)
            .count()
    };
    assert_eq!(of(Change::Added), 1);
    assert_eq!(of(Change::Changed), 1);
    assert_eq!(of(Change::Removed), old.len() - (new.len() - 1));
    let patch = bench.path("patch.mpak");
    let report = write_patch_file(&a, &b, None, &patch).expect("patched");
    assert!(report.file_bytes < 1_500_000, "{} bytes", report.file_bytes);

    let mut mounts = Mounts::new();
    let alone = mounts
        .mount_package(&bench.storage, &patch)
        .expect_err("without its base");
    assert_eq!(alone.kind(), ErrorKind::Base);
    mounts.mount(a).expect("mounted");
    mounts
        .mount_package(&bench.storage, &patch)
        .expect("mounted");
    let queue = bench.queue();
    for (name, bytes) in &new {
        let found = mounts.find(name.as_bytes()).expect("asked").expect("there");
        let request = mounts.request(&found).expect("a request");
        let mut ticket = queue.submit(request).expect("room");
        let loaded = ticket
            .wait()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(*loaded == bytes[..], "{name}");
    }
    for (name, _) in old
        .iter()
        .filter(|(name, _)| !new.iter().any(|(other, _)| other == name))
    {
        assert!(!mounts.exists(name.as_bytes()).expect("asked"), "{name}");
    }
    let mut listed = Vec::new();
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        for part in mounts.folder(&folder).expect("listed").expect("there") {
            let mut name = folder.clone();
            name.extend_from_slice(if name.is_empty() { b"" } else { b"/" });
            match part.strip_suffix(b"/") {
                Some(part) => {
                    name.extend_from_slice(part);
                    folders.push(name);
                }
                None => {
                    name.extend_from_slice(&part);
                    listed.push(String::from_utf8(name).expect("UTF-8"));
                }
            }
        }
    }
    listed.sort();
    let mut want: Vec<String> = new.iter().map(|(name, _)| name.clone()).collect();
    want.sort();
    assert_eq!(listed, want);
    for gone in [&b"removed"[..], b"removed/all"] {
        assert_eq!(mounts.folder(gone).expect("asked"), None);
    }
    let all = mounts.folder(b"").expect("asked").expect("the root");
    assert!(!all.contains(&b"removed/".to_vec()), "it has nothing left");
    // The range of a patched entry that lies in its base alone.
    let found = mounts.find(b"big").expect("asked").expect("there");
    let request = mounts.request_range(&found, 1_000, 500).expect("a request");
    let mut ticket = queue.submit(request).expect("room");
    let want = &new.iter().find(|(name, _)| name == "big").expect("there").1[1_000..1_500];
    assert!(*ticket.wait().expect("loaded") == *want);
}

#[test]
fn loose_files_hide_packages_and_are_reloaded_when_they_change() {
    let bench = Bench::new();
    let base = [("a", "base a"), ("b", "base b"), ("dir/c", "base c")];
    let base = base.map(|(name, text)| (String::from(name), text.as_bytes().to_vec()));
    let path = bench.pack("base.mpak", &base, Coding::Fixed(CodecId::STORED));
    let loose = bench.path("loose");
    std::fs::create_dir_all(loose.join("dir")).expect("made");
    std::fs::write(loose.join("b"), b"loose b").expect("written");
    let mut mounts = Mounts::new();
    mounts
        .mount_package(&bench.storage, &path)
        .expect("mounted");
    mounts
        .mount_folder(&bench.storage, &loose)
        .expect("mounted");
    assert_eq!(mounts.writable_path(b"saves/1").expect("asked"), None);
    mounts
        .mount_writable(&bench.storage, bench.path("user"))
        .expect("mounted");
    let queue = bench.queue();
    let load = |name: &str| {
        let found = mounts.find(name.as_bytes()).expect("asked")?;
        let request = mounts.request(&found).expect("a request");
        let mut ticket = queue.submit(request).expect("room");
        let bytes = ticket.wait().expect("loaded").to_vec();
        Some(String::from_utf8(bytes).expect("text"))
    };
    assert_eq!(load("a").as_deref(), Some("base a"));
    assert_eq!(load("b").as_deref(), Some("loose b"));
    assert_eq!(load("dir/c").as_deref(), Some("base c"));
    assert_eq!(mounts.changes().expect("asked"), Vec::<Vec<u8>>::new());
    std::fs::write(loose.join("b"), b"changed b").expect("written");
    assert_eq!(mounts.changes().expect("asked"), [b"b".to_vec()]);
    assert_eq!(mounts.changes().expect("asked"), Vec::<Vec<u8>>::new());
    assert_eq!(load("b").as_deref(), Some("changed b"));
    std::fs::remove_file(loose.join("b")).expect("removed");
    if loose.join("b").exists() {
        println!("SKIP: Wine keeps the name of a file that is open");
    } else {
        assert_eq!(mounts.changes().expect("asked"), [b"b".to_vec()]);
        assert_eq!(load("b").as_deref(), Some("base b"));
    }
    let saved = mounts
        .writable_path(b"saves/1")
        .expect("asked")
        .expect("a folder");
    assert_eq!(saved, bench.path("user").join("saves/1"));
    assert!(mounts.writable_path(b"../1").is_err());
    std::fs::create_dir_all(saved.parent().expect("a folder")).expect("made");
    std::fs::write(&saved, b"saved").expect("written");
    assert_eq!(load("saves/1").as_deref(), Some("saved"));
    std::fs::create_dir(loose.join("empty")).expect("made");
    let folder = |name: &str| {
        let parts = mounts.folder(name.as_bytes()).expect("listed")?;
        Some(
            parts
                .iter()
                .map(|part| String::from_utf8_lossy(part).into_owned())
                .collect(),
        )
    };
    let list = |parts: &[&str]| {
        Some(
            parts
                .iter()
                .map(|part| String::from(*part))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(folder(""), list(&["a", "b", "dir/", "empty/", "saves/"]));
    assert_eq!(folder("dir"), list(&["c"]));
    assert_eq!(folder("empty"), list(&[]));
    assert_eq!(folder("none"), None);
    assert_eq!(folder("a"), None, "an entry of a package is no folder");
    assert_eq!(folder("saves/1"), None, "a loose file is no folder");
}

#[test]
fn mounts_that_fold_case_find_packed_and_loose_files_in_any_case() {
    let bench = Bench::new();
    let names = ["Data/Level", "data/LEVEL", "data/only", "größe"];
    let base = names.map(|name| (String::from(name), name.as_bytes().to_vec()));
    let path = bench.pack("base.mpak", &base, Coding::Fixed(CodecId::STORED));
    let loose = bench.path("loose");
    std::fs::create_dir_all(loose.join("Textures")).expect("made");
    std::fs::write(loose.join("Textures/Wall.PNG"), "loose").expect("written");
    let storage = &bench.storage;
    let mut exact = Mounts::new();
    exact.mount_package(storage, &path).expect("mounted");
    assert_eq!(exact.find(b"DATA/only").expect("asked"), None);
    let mut mounts = Mounts::new().fold_case();
    mounts.mount_package(storage, &path).expect("mounted");
    mounts.mount_folder(storage, &loose).expect("mounted");
    let queue = bench.queue();
    let load = |name: &str| {
        let found = mounts.find(name.as_bytes()).expect("asked")?;
        let request = mounts.request(&found).expect("a request");
        let mut ticket = queue.submit(request).expect("room");
        let bytes = ticket.wait().expect("loaded").to_vec();
        Some(String::from_utf8(bytes).expect("text"))
    };
    for (name, found) in [
        ("data/LEVEL", Some("data/LEVEL")),
        ("data/level", Some("Data/Level")),
        ("./DATA//ONLY", Some("data/only")),
        ("GRößE", Some("größe")),
        ("GRÖSSE", None),
        ("data", None),
        ("zzz", None),
        ("textures/wall.png", Some("loose")),
        ("textures/none.png", None),
    ] {
        assert_eq!(load(name).as_deref(), found, "{name}");
    }
    let listed = mounts.folder(b"DATA").expect("listed").expect("there");
    assert_eq!(listed, [&b"LEVEL"[..], b"Level", b"only"]);
    let listed = mounts.folder(b"textures").expect("listed").expect("there");
    assert_eq!(listed, [b"Wall.PNG"]);
    std::fs::write(loose.join("Textures/Wall.PNG"), "changed").expect("written");
    assert_eq!(mounts.changes().expect("asked"), [b"textures/wall.png"]);
    assert_eq!(load("textures/wall.png").as_deref(), Some("changed"));
}

// Under Wine and before Windows 10 a file that is open keeps its name when it is removed.
#[cfg(unix)]
#[test]
fn names_that_go_come_back_or_appear_over_a_package_are_changes() {
    let bench = Bench::new();
    let base = [(String::from("packed"), b"packed".to_vec())];
    let path = bench.pack("base.mpak", &base, Coding::Fixed(CodecId::STORED));
    let loose = bench.path("loose");
    std::fs::create_dir(&loose).expect("made");
    let mut mounts = Mounts::new();
    let storage = &bench.storage;
    mounts.mount_package(storage, &path).expect("mounted");
    mounts.mount_folder(storage, &loose).expect("mounted");
    let write = |name: &str| std::fs::write(loose.join(name), name).expect("written");
    let remove = |name: &str| std::fs::remove_file(loose.join(name)).expect("removed");
    let changes = || mounts.changes().expect("asked");
    write("loose");
    for name in ["loose", "packed", "./none"] {
        mounts.find(name.as_bytes()).expect("asked");
    }
    assert_eq!(changes(), Vec::<Vec<u8>>::new());
    for _ in 0..2 {
        remove("loose");
        assert_eq!(changes(), [b"loose"]);
        assert_eq!(changes(), Vec::<Vec<u8>>::new());
        write("loose");
        write("packed");
        // A lookup between does not hide the change.
        assert!(mounts.exists(b"packed").expect("asked"));
        assert_eq!(changes(), [&b"loose"[..], b"packed"]);
        write("none");
        assert_eq!(changes(), [b"none"]);
        remove("none");
        remove("packed");
        assert_eq!(changes(), [&b"none"[..], b"packed"]);
    }
}

#[cfg(unix)]
#[test]
fn changes_that_an_error_kept_back_are_returned_by_the_next_call() {
    let bench = Bench::new();
    let (first, second) = (bench.path("1"), bench.path("2"));
    let mut mounts = Mounts::new();
    mounts
        .mount_folder(&bench.storage, bench.path(""))
        .expect("mounted");
    for path in [&first, &second] {
        std::fs::write(path, b"loose").expect("written");
    }
    assert!(mounts.exists(b"1").expect("asked") && mounts.exists(b"2").expect("asked"));
    std::fs::remove_file(&first).expect("removed");
    std::fs::remove_file(&second).expect("removed");
    std::os::unix::fs::symlink(&second, &second).expect("a link to itself");
    let error = mounts.changes().expect_err("a loop of links");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    std::fs::remove_file(&second).expect("removed");
    assert_eq!(mounts.changes().expect("asked"), [b"1", b"2"]);
    assert_eq!(mounts.changes().expect("asked"), Vec::<Vec<u8>>::new());
}

#[test]
fn an_order_lays_out_what_is_loaded_together() {
    let bench = Bench::new();
    let entries = entries(9);
    let order: Vec<Vec<u8>> = ["words/1000001", "noise/32768", "small/1/1.txt", "none"]
        .map(|name| name.as_bytes().to_vec())
        .into();
    let options = PackOptions {
        order,
        coding: Coding::Fixed(CodecId::STORED),
        ..PackOptions::default()
    };
    let path = bench.path("ordered.mpak");
    write_file(items(&entries), &options, &path).expect("packed");
    let bytes = std::fs::read(&path).expect("read");
    let place = |name: &str| {
        let want = &entries
            .iter()
            .find(|(other, _)| other == name)
            .expect("there")
            .1;
        let found = bytes.windows(64).position(|window| window == &want[..64]);
        found.expect("stored as it is")
    };
    assert!(place("words/1000001") < place("noise/32768"));
    assert!(place("noise/32768") < place("noise/1000001"));
    let package = bench.open(&path);
    for (name, bytes) in &entries {
        assert!(
            bench.load(&package, name).expect("loaded") == *bytes,
            "{name}"
        );
    }
}

/// Whatever is asked in batches is answered as one by one: names that are there, that are not, and
/// that are not clean; before tables were found right and after.
#[test]
fn batches_of_lookups_say_what_single_ones_say() {
    let bench = Bench::new();
    let entry = |nth: u32| {
        (
            format!("folder-{}/{nth}", nth % 7),
            vec![1; nth as usize % 5],
        )
    };
    let entries: Vec<(String, Vec<u8>)> = (0..5000).map(entry).collect();
    let path = bench.pack("names.mpak", &entries, Coding::Fixed(CodecId::STORED));
    let package = bench.open(&path);
    let mut names: Vec<Vec<u8>> = Vec::new();
    for (nth, (name, _)) in entries.iter().enumerate() {
        names.push(name.clone().into_bytes());
        match nth % 3 {
            0 => names.push(format!("none/{nth}").into_bytes()),
            1 => names.push(format!(".//{name}").into_bytes()),
            _ => names.push(b"x".to_vec()),
        }
    }
    let hashes: Vec<u64> = names.iter().map(|name| package.hash_name(name)).collect();
    let (mut by_name, mut by_hash) = (vec![None; names.len()], vec![None; names.len()]);
    for preloaded in [false, true] {
        if preloaded {
            package.preload().expect("preloaded");
        }
        package.lookup_names(&names, &mut by_name).expect("asked");
        package.lookup_hashes(&hashes, &mut by_hash).expect("asked");
        for (nth, name) in names.iter().enumerate() {
            let single = package.lookup(name).expect("asked");
            let shown = String::from_utf8_lossy(name);
            assert_eq!(by_name[nth], single, "{shown}");
            let mut single = [None];
            package
                .lookup_hashes(&hashes[nth..=nth], &mut single)
                .expect("asked");
            assert_eq!([by_hash[nth]], single, "{shown}");
        }
        assert!(by_name.iter().flatten().count() >= entries.len() * 4 / 3);
    }
    let leads_out = package.lookup_names(&["../a"], &mut by_name);
    assert_eq!(leads_out.expect_err("refused").kind(), ErrorKind::BadName);
}

/// Two packages, the second with more before what the first has, and the patch.
fn patched(bench: &Bench) -> (Vec<(String, Vec<u8>)>, [std::path::PathBuf; 3]) {
    let mut random = fastrand::Rng::with_seed(31);
    let mut noise = |len| crate::support::noise(&mut random, len);
    let before = vec![(String::from("z"), noise(900_000))];
    let mut after = vec![(String::from("a"), noise(5_000_000)), before[0].clone()];
    after[1].1[7] ^= 1;
    let coding = Coding::Fixed(CodecId::STORED);
    let options = PackOptions {
        coding,
        block_bytes: Some(1 << 18),
        ..PackOptions::default()
    };
    let paths = ["old.mpak", "new.mpak", "patch.mpak"].map(|name| bench.path(name));
    write_file(items(&before), &options, &paths[0]).expect("packed");
    write_file(items(&after), &options, &paths[1]).expect("packed");
    let (old, new) = (bench.open(&paths[0]), bench.open(&paths[1]));
    write_patch_file(&old, &new, None, &paths[2]).expect("written");
    (after, paths)
}

#[test]
fn an_entry_of_blocks_in_two_files_is_loaded_in_batches() {
    let bench = Bench::new();
    let (after, [old, _, patch]) = patched(&bench);
    for verify in [true, false] {
        let options = PackageOptions {
            verify,
            ..PackageOptions::default()
        };
        let opened = Package::open_with(&bench.storage, &patch, options).expect("a package");
        let package = opened.with_base(&bench.open(&old)).expect("its base");
        // Each twice: both have the same blocks, of two files.
        let all: Vec<u32> = (0..package.len()).chain(0..package.len()).collect();
        let queue = bench.queue();
        let batch = package.enqueue_all(&queue, &all, &BatchOptions::default());
        let batch = batch.expect("enqueued");
        for (nth, &index) in all.iter().enumerate() {
            let name = package.name(index).expect("a name");
            let (_, bytes) = after
                .iter()
                .find(|(other, _)| other.as_bytes() == name)
                .expect("one of ours");
            assert!(*batch.wait(nth).expect("loaded") == **bytes);
        }
    }
}

/// A read for each of them would take time in the square of the package.
#[test]
fn entries_of_a_damaged_block_share_the_second_read_of_it() {
    let bench = Bench::new();
    let short: Vec<(String, Vec<u8>)> = (0..1000)
        .map(|nth| format!("{nth:04}"))
        .map(|name| (name.clone(), name.repeat(25).into_bytes()))
        .collect();
    let coding = Coding::Fixed(CodecId::STORED);
    let options = PackOptions {
        coding,
        block_bytes: Some(1 << 16),
        ..PackOptions::default()
    };
    let path = bench.path("short.mpak");
    write_file(items(&short), &options, &path).expect("packed");
    let mut bytes = std::fs::read(&path).expect("read");
    let place = bytes.windows(100).position(|it| *it == short[7].1);
    bytes[place.expect("of the first block")] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let package = bench.open(&path);
    let all: Vec<u32> = (0..package.len()).collect();
    let before = bench.storage.stats();
    let mut loaded = 0;
    let options = BatchOptions::default();
    visit(
        &package,
        &bench.queue(),
        &all,
        &options,
        &mut |piece, bytes| {
            if let Ok(bytes) = bytes {
                let name = package.name(piece.index).expect("a name");
                let (_, want) = &short[short.partition_point(|(it, _)| it.as_bytes() < name)];
                assert_eq!(*bytes, **want);
                loaded += 1;
            }
            ControlFlow::Continue(())
        },
    );
    assert_eq!(loaded, 1000 - 655, "all that are not in the first block");
    // One for each name in an error; of each group of entries its blocks together, and once more
    // each of them.
    let requests = bench.storage.stats().since(&before).requests;
    assert!((655 + 3..655 + 12).contains(&requests), "{requests}");
}

#[test]
fn a_base_or_package_that_was_replaced_is_refused() {
    let bench = Bench::new();
    let (_, [old, new, patch]) = patched(&bench);
    let (base, package) = (bench.open(&old), bench.open(&patch));
    std::fs::copy(&new, bench.path("other")).expect("copied");
    // Also where the file that is replaced is open.
    let files = OsFileSystem::new();
    files.rename(&bench.path("other"), &old).expect("renamed");
    let error = package.with_base(&base).expect_err("another file");
    assert_eq!(error.kind(), ErrorKind::Base, "{error}");
    // The storage that has the package open goes on with the file that it opened.
    let other = Bench::new();
    let error = verify(&other.storage, &base, None, &mut |_| true).expect_err("another file");
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
}

#[test]
fn blocks_that_were_encoded_as_tasks_give_the_package_of_one_machine() {
    let bench = Bench::new();
    let mut entries = entries(5);
    let folder = bench.path("loose");
    std::fs::create_dir(&folder).expect("a folder");
    let mut random = fastrand::Rng::with_seed(5);
    let (long, same) = (
        crate::support::words(&mut random, 600_000),
        entries[3].1.clone(),
    );
    entries.push((String::from("copy"), same));
    let mut all = items(&entries);
    for (name, bytes) in [("empty", &[][..]), ("long", &long), ("short", b"short")] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("written");
        all.push(Item::from_file(format!("loose/{name}"), path).expect("an item"));
    }
    let fixed = [CodecId::LZ4_BLOCK, CodecId::ZSTD].map(Coding::Fixed);
    for coding in fixed.into_iter().chain([Coding::Auto(Target::default())]) {
        let options = || PackOptions {
            coding,
            ..PackOptions::default()
        };
        let (alone, path) = (bench.path("alone.mpak"), bench.path("tasks.mpak"));
        let report = write_file(all.clone(), &options(), &alone).expect("packed");
        let plan = PackPlan::new(all.clone(), options()).expect("a plan");
        let quick = coding == Coding::Fixed(CodecId::LZ4_BLOCK);
        for raw_bytes in if quick {
            &[0, 300_000, u64::MAX][..]
        } else {
            &[300_000]
        } {
            let ranges = plan.ranges(*raw_bytes);
            assert_eq!(ranges.last().map(|last| last.end), Some(plan.block_count()));
            for blocks in &ranges {
                let fits = plan.raw_bytes(blocks.clone()) <= *raw_bytes;
                assert!(fits || blocks.len() == 1, "{blocks:?}");
            }
            let encode = |blocks| encode_task(&plan.task(blocks).expect("a task"));
            let encoded = ranges
                .into_iter()
                .map(|blocks| encode(blocks).expect("encoded"));
            let made = plan.write_file(encoded, &path).expect("packed");
            assert_eq!(made, report, "{coding:?}");
            let read = |path| std::fs::read(path).expect("read");
            assert!(read(&path) == read(&alone), "{coding:?}");
        }
    }
}

#[test]
fn builds_with_other_messages_refuse_the_tasks_of_each_other() {
    let items = vec![Item::from_bytes("a", *b"some bytes")];
    let plan = PackPlan::new(items, PackOptions::default()).expect("a plan");
    let task = plan.task(0..1).expect("a task");
    let (version, rest) = postcard::take_from_bytes::<&str>(&task).expect("begins with it");
    // What the first messages begin with, and what the builds that read them compare with.
    let first = env!("CARGO_PKG_VERSION");
    assert_ne!(version, first);
    let other = [&postcard::to_stdvec(first).expect("written")[..], rest].concat();
    let error = encode_task(&other).expect_err("of another build");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let both = format!("the task is of version {first}, not {version}");
    assert!(error.to_string().contains(&both), "{error}");
    encode_task(&task).expect("of this build");
}

#[test]
fn tasks_and_what_they_give_are_not_believed() {
    let bench = Bench::new();
    let file = bench.path("file");
    std::fs::write(&file, vec![7; 600_000]).expect("written");
    let mut all = items(&entries(6));
    all.push(Item::from_file("file", &file).expect("an item"));
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::LZ4_BLOCK),
        ..PackOptions::default()
    };
    let plan = PackPlan::new(all, options).expect("a plan");
    let blocks = plan.block_count();
    let task = plan.task(0..blocks).expect("a task");
    let encoded = encode_task(&task).expect("encoded");
    let write = |encoded: Vec<Vec<u8>>| plan.write_file(encoded, bench.path("p.mpak"));
    let kind = |encoded| write(encoded).expect_err("refused").kind();
    assert_eq!(kind(vec![]), ErrorKind::Stopped);
    let half = encode_task(&plan.task(0..blocks / 2).expect("a task")).expect("encoded");
    assert_eq!(kind(vec![half.clone()]), ErrorKind::Stopped);
    assert_eq!(kind(vec![half.clone(), half.clone()]), ErrorKind::Corrupt);
    assert_eq!(kind(vec![half, encoded.clone()]), ErrorKind::Corrupt);
    let mut random = fastrand::Rng::with_seed(6);
    for _ in 0..300 {
        let (mut task, mut encoded) = (task.clone(), encoded.clone());
        encoded.truncate(random.usize(..encoded.len()));
        assert_eq!(kind(vec![encoded]), ErrorKind::Corrupt);
        // Among the first bytes: of those of its parts, any are right.
        let at = random.usize(..400);
        task[at] ^= 1 << random.u8(..8);
        if let Ok(changed) = encode_task(&task) {
            let _ = write(vec![changed]);
        }
    }
    for _ in 0..100 {
        let cut = &task[..random.usize(..task.len())];
        assert!(encode_task(cut).is_err(), "{} bytes", cut.len());
    }
    std::fs::write(&file, vec![8; 600_000]).expect("written");
    let changed = encode_task(&plan.task(0..blocks).expect("a task"));
    assert_eq!(changed.expect_err("it changed").kind(), ErrorKind::Changed);
    assert!(!bench.path("p.mpak").exists() || write(vec![encoded]).is_ok());
}

#[test]
fn sections_of_several_pages_say_the_same_page_by_page_and_at_once() {
    let bench = Bench::new();
    let (path, mut entries) = crate::support::many_names(&bench);
    fastrand::Rng::with_seed(31).shuffle(&mut entries);
    for preload in [false, true] {
        let package = bench.open(&path);
        if preload {
            package.preload().expect("preloaded");
        }
        for (name, record) in &entries {
            let index = package.lookup(name).expect("asked").expect("there").index;
            assert_eq!(package.name(index).expect("a name"), &name[..]);
            let told = package.metadata(index).expect("asked").expect("there");
            assert_eq!(Metadata::decode(told).expect("decoded"), *record);
        }
        assert_eq!(package.lookup(b"textures/none").expect("asked"), None);
        let error = package.read("textures/none").expect_err("there is none");
        assert_eq!(error.kind(), millstream_pak::ErrorKind::NotFound);
        assert!(error.to_string().contains("'textures/none'"), "{error}");
        let listed = package.folder(b"textures").expect("listed");
        assert_eq!(listed.expect("there").len(), 61);
        let found = verify(&bench.storage, &package, None, &mut |_| true).expect("verified");
        assert_eq!(found.failures, 0, "{:?}", found.errors);
    }
}

#[test]
fn first_touches_of_pages_from_several_threads_agree() {
    let bench = Bench::new();
    let (path, entries) = crate::support::many_names(&bench);
    let package = bench.open(&path);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (package, entries) = (&package, &entries);
            scope.spawn(move || {
                for (name, _) in entries[thread..].iter().step_by(7) {
                    let index = package.lookup(name).expect("asked").expect("there").index;
                    assert!(package.metadata(index).expect("asked").is_some());
                }
            });
        }
    });
}
