//! Disks that are full or fail: what was there before stays, whole, and nothing is left beside it.

use std::path::Path;

use crate::support::{Bench, items};
use millstream::{Storage, StorageOptions};
use millstream_pak::{
    Coding, ErrorKind, Item, Mounts, PackOptions, Package, in_parallel, verify, write_file,
    write_patch_file,
};
use millstream_source::Source as _;
use millstream_testing::fuse::{Call, Effect, FaultFs, Rule};
use millstream_testing::{Child, LoopExt4, or_skip, seccomp, this_test};

fn names(folder: &Path) -> Vec<String> {
    let list = std::fs::read_dir(folder).expect("listed");
    let mut names: Vec<String> = list
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name != "lost+found")
        .collect();
    names.sort();
    names
}

#[test]
fn a_full_disk_leaves_the_old_package_and_nothing_beside_it() {
    let disk = or_skip!(LoopExt4::new(8 << 20));
    let path = disk.root().join("p.mpak");
    let mut random = fastrand::Rng::with_seed(31);
    let old = vec![(
        String::from("a"),
        crate::support::noise(&mut random, 100_000),
    )];
    write_file(items(&old), &PackOptions::default(), &path).expect("packed");
    let before = std::fs::read(&path).expect("read");
    for megabytes in [8, 9, 30] {
        let big = Item::from_bytes("big", crate::support::noise(&mut random, megabytes << 20));
        let failed = write_file(vec![big], &PackOptions::default(), &path);
        let failed = failed.expect_err("there is no room");
        assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
        let system = failed.system().map(std::io::Error::kind);
        assert_eq!(system, Some(std::io::ErrorKind::StorageFull), "{failed}");
        assert_eq!(names(disk.root()), ["p.mpak"]);
        assert!(
            std::fs::read(&path).expect("read") == before,
            "{megabytes} MiB"
        );
    }
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let package = Package::open(&storage, &path).expect("whole");
    let found = verify(&storage, &package, None, &mut |_| true).expect("verified");
    assert_eq!(found.failures, 0);
}

#[test]
fn a_patch_that_does_not_fit_leaves_nothing() {
    let disk = or_skip!(LoopExt4::new(8 << 20));
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(32);
    let coding = Coding::Auto(Default::default());
    let a = bench.pack("a.mpak", &[(String::from("a"), vec![1; 10])], coding);
    let big = crate::support::noise(&mut random, 20 << 20);
    let b = bench.pack("b.mpak", &[(String::from("a"), big)], coding);
    let (a, b) = (bench.open(&a), bench.open(&b));
    let failed = write_patch_file(&a, &b, None, disk.root().join("patch.mpak"));
    assert_eq!(failed.expect_err("there is no room").kind(), ErrorKind::Io);
    assert_eq!(names(disk.root()), Vec::<String>::new());
}

#[test]
fn an_input_that_changes_while_it_is_packed_is_an_error() {
    let bench = Bench::new();
    let input = bench.path("input");
    std::fs::write(&input, vec![7; 100_000]).expect("written");
    let item = Item::from_file("input", &input).expect("an item");
    for change in [50_000, 150_000] {
        std::fs::write(&input, vec![7; change]).expect("written");
        let path = bench.path("p.mpak");
        let failed = write_file(vec![item.clone()], &PackOptions::default(), &path);
        let failed = failed.expect_err("it changed");
        assert_eq!(failed.kind(), ErrorKind::Changed, "{failed}");
        assert_eq!(failed.entry_name(), Some("input"));
        assert_eq!(names(bench.folder.path()), ["input"]);
    }
    std::fs::remove_file(&input).expect("removed");
    std::os::unix::fs::symlink("/etc/hostname", &input).expect("linked");
    let failed = write_file(vec![item], &PackOptions::default(), bench.path("p.mpak"));
    assert_eq!(failed.expect_err("a link now").kind(), ErrorKind::Io);
    let link = Item::from_file("input", &input).expect_err("a link");
    assert_eq!(link.kind(), ErrorKind::NotAFile);
}

#[test]
fn packing_can_be_stopped() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(33);
    let item = Item::from_bytes("big", crate::support::noise(&mut random, 8 << 20));
    let options = PackOptions {
        progress: Some(&|done| done < 1 << 20),
        ..PackOptions::default()
    };
    let failed = write_file(vec![item], &options, bench.path("p.mpak"));
    assert_eq!(failed.expect_err("stopped").kind(), ErrorKind::Stopped);
    assert_eq!(names(bench.folder.path()), Vec::<String>::new());
}

#[test]
fn an_error_of_any_write_leaves_the_old_package_and_nothing_beside_it() {
    const ENOSPC: i32 = 28;
    const EIO: i32 = 5;
    let disk = or_skip!(FaultFs::mount(&[("p.mpak", b"the old package")]));
    let mut random = fastrand::Rng::with_seed(34);
    let entries: Vec<(String, Vec<u8>)> = (0..40)
        .map(|nth| (format!("{nth}"), crate::support::noise(&mut random, 9_000)))
        .collect();
    let pack = || {
        write_file(
            items(&entries),
            &PackOptions::default(),
            disk.path("p.mpak"),
        )
    };
    let mut writes = 0;
    for (call, errno) in [
        (Call::Write, EIO),
        (Call::Write, ENOSPC),
        (Call::Sync, EIO),
        (Call::Rename, EIO),
    ] {
        // Every call in turn fails once, until there are no more.
        for nth in 0.. {
            disk.inject(Rule::on(call, Effect::Fail(errno)).after(nth).times(1));
            let packed = pack();
            disk.heal();
            let Err(failed) = packed else {
                disk.put("p.mpak", b"the old package");
                writes += if call == Call::Write { nth } else { 0 };
                assert!(nth > 0, "{call:?} is never called");
                break;
            };
            assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
            let system = failed.system().and_then(std::io::Error::raw_os_error);
            assert_eq!(system, Some(errno), "{failed}");
            assert_eq!(disk.names(), ["p.mpak"], "{call:?} {nth}");
            let old = disk.content("p.mpak").expect("it stays");
            assert!(old == b"the old package", "{call:?} {nth}");
        }
    }
    assert!(writes >= 6, "data, tables and header are written apart");
}

#[test]
fn an_error_of_a_write_past_the_cache_leaves_the_old_package_and_nothing_beside_it() {
    const EIO: i32 = 5;
    let disk = or_skip!(FaultFs::mount(&[("p.mpak", b"the old package")]));
    let mut random = fastrand::Rng::with_seed(35);
    let long = Item::from_bytes("long", crate::support::noise(&mut random, 17 << 20));
    let options = PackOptions {
        coding: Coding::Fixed(millstream::CodecId::STORED),
        ..PackOptions::default()
    };
    let mut writes = 0;
    // The kernel hands a long write on in parts, and ends it short before one that fails: so what
    // fails goes on failing.
    for nth in (0..).step_by(5) {
        disk.inject(Rule::on(Call::Write, Effect::Fail(EIO)).after(nth));
        let packed = write_file(vec![long.clone()], &options, disk.path("p.mpak"));
        disk.heal();
        let Err(failed) = packed else {
            writes = nth;
            break;
        };
        let system = failed.system().and_then(std::io::Error::raw_os_error);
        assert_eq!(
            (failed.kind(), system),
            (ErrorKind::Io, Some(EIO)),
            "{failed}"
        );
        assert_eq!(disk.names(), ["p.mpak"], "write {nth}");
        let old = disk.content("p.mpak").expect("it stays");
        assert!(old == b"the old package", "write {nth}");
    }
    assert!(writes >= 4, "the data are longer than one write: {writes}");
    let whole = disk.content("p.mpak").expect("there");
    let beside = tempfile::tempdir().expect("a folder");
    let path = beside.path().join("p.mpak");
    write_file(vec![long], &options, &path).expect("packed");
    assert!(whole == std::fs::read(&path).expect("read"));
}

#[test]
fn a_refused_thread_is_no_panic() {
    // The leak sanitizer forks at the end of a process, which is refused too.
    let child = Child::of(this_test!()).leaks_on_purpose().run(|| {
        let folder = tempfile::tempdir().expect("a folder");
        or_skip!(seccomp::refuse_threads());
        let numbers = in_parallel(8, 4, Ok::<_, ()>);
        assert_eq!(numbers, Ok((0..8).collect()), "the caller works alone");
        let item = Item::from_bytes("a", vec![7; 100_000]);
        let path = folder.path().join("p.mpak");
        let failed = write_file(vec![item], &PackOptions::default(), &path);
        let failed = failed.expect_err("nothing encodes");
        assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
        assert_eq!(names(folder.path()), [] as [String; 0]);
    });
    or_skip!(child);
}

#[test]
fn a_new_inode_number_is_no_change_on_a_mount_that_can_hang() {
    let disk = or_skip!(FaultFs::mount(&[("a", b"same"), ("b", b"old")]));
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let mut mounts = Mounts::new();
    mounts.mount_folder(&storage, disk.root()).expect("mounted");
    let found = mounts.find(b"a").expect("asked");
    mounts.find(b"b").expect("asked");
    disk.renumber();
    assert_eq!(mounts.changes().expect("asked"), Vec::<Vec<u8>>::new());
    assert_eq!(mounts.find(b"a").expect("asked"), found);
    disk.put("b", b"longer");
    assert_eq!(mounts.changes().expect("asked"), [b"b"]);
}
