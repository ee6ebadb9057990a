//! Programs in C, over every compiler that is there.

use std::path::Path;

use crate::support::{Program, compilers, refused, root};
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
        // A header, the bytes of the one entry, and the directory.
        let mut archive = b"PACK\x14\0\0\0\x40\0\0\0of quakeMaps/a.bsp".to_vec();
        archive.resize(76, 0);
        archive.extend_from_slice(&[12, 0, 0, 0, 8, 0, 0, 0]);
        std::fs::write(folder.join("pak0.pak"), archive).expect("written");
    };
    runs_in("packages.c", prepare, &[]);
}

#[test]
fn experts_are_read_on_demand_and_stay_while_they_are_used() {
    let prepare = |folder: &Path| {
        let part = |key: u8| [key; 5000];
        let content: Vec<u8> = (0..8).chain(0..8).flat_map(part).collect();
        std::fs::write(folder.join("experts"), content).expect("written");
    };
    runs_in("experts.c", prepare, &[]);
}

const STANDARDS: [&str; 2] = ["-std=c++17", "-std=c++20"];

/// A program in C++ with this in `main`, as a file.
fn in_main(folder: &Path, inside: &str) -> std::path::PathBuf {
    let path = folder.join("program.cpp");
    let program = format!(
        "#include <millstream.hpp>\nstatic millstream::result<millstream::storage> make() {{\n\
         return millstream::storage::create(); }}\nint main() {{ (void)make;\n{inside}\n}}\n"
    );
    std::fs::write(&path, program).expect("written");
    path
}

#[test]
fn the_example_of_the_header_for_cpp_compiles_without_a_warning() {
    let header = std::fs::read_to_string(root().join("include/millstream.hpp")).expect("read");
    let lines = header
        .lines()
        .filter_map(|line| line.strip_prefix(" *     "));
    let example: Vec<&str> = lines.collect();
    assert!(example.len() > 5, "{example:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let source = in_main(folder.path(), &example.join("\n"));
    for compiler in compilers(["g++", "clang++"]) {
        for standard in STANDARDS {
            // There is no such file, which the example tells.
            Program::compile(&source, folder.path(), compiler, &[standard]).run(&[]);
        }
    }
}

#[test]
fn the_example_of_an_executor_compiles_as_cpp20() {
    let header = std::fs::read_to_string(root().join("include/millstream.hpp")).expect("read");
    let lines = header
        .lines()
        .filter_map(|line| line.strip_prefix("     *     "));
    let example: Vec<&str> = lines.collect();
    assert!(example.len() == 2, "{example:?}");
    let program = format!(
        "#include <millstream.hpp>\n#include <functional>\n\
         struct jobs_of_a_thread {{ void push(std::function<void()> job) {{ job(); }} }};\n\
         struct task {{ struct promise_type {{\n\
         task get_return_object() {{ return {{}}; }}\n\
         std::suspend_never initial_suspend() {{ return {{}}; }}\n\
         std::suspend_never final_suspend() noexcept {{ return {{}}; }}\n\
         void return_void() {{}}\nvoid unhandled_exception() {{}}\n}}; }};\n\
         task load(const millstream::queue &queue, mst_read_desc desc, jobs_of_a_thread &jobs) {{\n\
         {}\n(void)done;\n}}\nint main() {{}}\n",
        example.join("\n")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("executor.cpp");
    std::fs::write(&source, program).expect("written");
    for compiler in compilers(["g++", "clang++"]) {
        Program::compile(&source, folder.path(), compiler, &["-std=c++20"]);
    }
}

#[test]
fn results_are_read_where_they_are_const_and_never_refer_to_temporaries() {
    let folder = tempfile::tempdir().expect("a folder");
    let read = "const millstream::result<int> r(3); const auto &copy = *r; \
                const auto taken = *make();\n\
                return r.value() == copy && make().value().get() && taken.get() ? 0 : 1;";
    let as_msvc = "#if MST_CPLUSPLUS != 202002L\n#error \"_MSVC_LANG is what MSVC has\"\n#endif";
    for compiler in compilers(["g++", "clang++"]) {
        for standard in STANDARDS {
            let source = in_main(folder.path(), read);
            Program::compile(&source, folder.path(), compiler, &[standard]).run(&[]);
            for dangling in [
                "auto &storage = *make();",
                "auto &storage = make().value();",
                "return make()->get() != nullptr;",
                "auto &why = make().error();",
            ] {
                let source = in_main(folder.path(), dangling);
                let said = refused(&source, compiler, standard);
                assert!(said.contains("program.cpp:5"), "{dangling}: {said}");
            }
        }
        let source = in_main(folder.path(), as_msvc);
        let options = ["-std=c++20", "-D_MSVC_LANG=202002L"];
        Program::compile(&source, folder.path(), compiler, &options);
        let said = refused(&source, compiler, "-std=c++17");
        assert!(said.contains("_MSVC_LANG is what MSVC has"), "{said}");
    }
}

#[test]
fn the_layer_for_cpp_works_with_and_without_coroutines() {
    for compiler in compilers(["g++", "clang++"]) {
        for standard in STANDARDS {
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
