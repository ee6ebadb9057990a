//! Programs in C, over every compiler that is there.

use std::path::Path;

use crate::support::{Program, compilers, root};
use millstream::{Storage, StorageOptions};
use millstream_pak::{Item, PackOptions, Package, write_file, write_patch_file};

/// Compiles a program of `tests/c` with each compiler, runs it in a folder that `prepare` fills,
/// and expects "done" at its end.
fn runs_in(name: &str, prepare: impl Fn(&Path), arguments: &[&str]) {
    for compiler in compilers(["gcc", "clang"]) {
        let folder = tempfile::tempdir().expect("a folder");
        let source = root().join("tests/c").join(name);
        let program = Program::of_c(&source, folder.path(), compiler);
        let data = folder.path().join("data folder");
        std::fs::create_dir(&data).expect("created");
        prepare(&data);
        let data = data.display().to_string();
        let printed = program.run(&[&[&*data], arguments].concat());
        assert!(
            printed.ends_with("done\n"),
            "{name} {arguments:?}: {printed}"
        );
    }
}

fn runs(name: &str, arguments: &[&str]) {
    runs_in(name, |_| {}, arguments);
}

#[test]
fn requests_of_every_kind_complete_on_every_device() {
    for device in ["auto", "threads", "pumped"] {
        runs("requests.c", &[device]);
    }
}

#[test]
fn bad_arguments_are_errors_and_never_crash() {
    runs("bad.c", &[]);
}

#[test]
fn code_of_the_application_is_called_and_not_believed() {
    for jobs in ["workers", "jobs"] {
        runs("hooks.c", &[jobs]);
    }
}

#[test]
fn tickets_that_threads_race_for_are_claimed_and_notified_once() {
    runs("threads.c", &[]);
}

#[test]
fn a_batch_costs_no_allocation_per_request() {
    runs("allocations.c", &[]);
}

#[test]
fn packages_patches_and_mounts_are_read() {
    let prepare = |folder: &Path| {
        let items = |alpha: &str| {
            vec![
                Item::from_bytes("a.txt", alpha.as_bytes()),
                Item::from_bytes("b.txt", *b"beta"),
                Item::from_bytes("sub/c.txt", *b"gamma"),
            ]
        };
        let options = PackOptions::default();
        let base = folder.join("base.mpak");
        write_file(items("alpha of the base"), &options, &base).expect("packed");
        let new = folder.join("new.mpak");
        write_file(items("alpha of the patch"), &options, &new).expect("packed");
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let open = |path: &Path| Package::open(&storage, path).expect("packed above");
        let (base, new) = (open(&base), open(&new));
        write_patch_file(&base, &new, None, folder.join("patch.mpak")).expect("patched");
        std::fs::create_dir(folder.join("loose")).expect("created");
        std::fs::write(folder.join("loose/b.txt"), "loose").expect("written");
    };
    runs_in("packages.c", prepare, &[]);
}

#[test]
fn the_layer_for_cpp_works_with_and_without_coroutines() {
    for compiler in compilers(["g++", "clang++"]) {
        for standard in ["-std=c++17", "-std=c++20"] {
            let folder = tempfile::tempdir().expect("a folder");
            let source = root().join("tests/c/wrapper.cpp");
            let program = Program::compile(&source, folder.path(), compiler, &[standard]);
            let printed = program.run(&[&folder.path().display().to_string()]);
            assert!(
                printed.ends_with("done\n"),
                "{compiler} {standard}: {printed}"
            );
        }
    }
}
