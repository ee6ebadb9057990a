//! Files that no module declares: they are never compiled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of Rust with their text, of which those below `crates` must be part of a crate.
pub(crate) fn dead(files: &BTreeMap<PathBuf, String>) -> Vec<PathBuf> {
    let below = files.keys().filter(|path| path.starts_with("crates"));
    let dead = below.filter(|path| !is_root(path) && !is_declared(path, files));
    dead.cloned().collect()
}

/// Whether cargo finds it.
fn is_root(path: &Path) -> bool {
    let folder = path.parent().map(last).unwrap_or_default();
    ["lib.rs", "main.rs", "build.rs"].contains(&last(path))
        || ["bin", "tests", "examples"].contains(&folder)
}

/// The last part of a path.
fn last(path: &Path) -> &str {
    let name = path.file_name().unwrap_or_default();
    name.to_str().expect("names of sources are ASCII")
}

fn is_declared(path: &Path, files: &BTreeMap<PathBuf, String>) -> bool {
    let file = last(path);
    let own = path.parent().unwrap_or(path);
    let (folder, name) = match file {
        "mod.rs" => (own.parent().unwrap_or(own), last(own)),
        _ => (own, file.trim_end_matches(".rs")),
    };
    let is_parent = |other: &Path| {
        let beside = other.parent() == Some(folder);
        let is_top = is_root(other) || last(other) == "mod.rs";
        other == folder.with_extension("rs") || (beside && is_top)
    };
    let line = format!("mod {name};");
    let paths = [
        format!("path = \"{}/{file}\"", last(folder)),
        format!("path = \"{file}\""),
    ];
    files.iter().any(|(other, text)| {
        let has_line = is_parent(other) && text.contains(&line);
        has_line || paths.iter().any(|path| text.contains(path))
    })
}

#[test]
fn a_file_that_no_module_declares_is_found() {
    let root = "mod b; #[cfg_attr(unix, path = \"c/unix.rs\")] mod system;";
    let files = [
        ("crates/a/src/lib.rs", root),
        ("crates/a/src/b.rs", ""),
        ("crates/a/src/b/tests.rs", ""),
        ("crates/a/src/c/unix.rs", ""),
        ("crates/a/tests/all/main.rs", "mod rig;"),
        ("crates/a/tests/all/rig.rs", ""),
        ("crates/a/tests/one.rs", "mod common;"),
        ("crates/a/tests/common/mod.rs", ""),
        ("fuzz/src/bytes.rs", ""),
    ];
    let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
    let found = dead(&BTreeMap::from(files));
    assert_eq!(found, [Path::new("crates/a/src/b/tests.rs")], "{found:?}");
}
