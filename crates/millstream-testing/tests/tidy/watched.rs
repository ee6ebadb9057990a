//! Test programs that a watchdog does not abort when they hang.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const WATCH: &str = "::watch!();";

/// Returns the roots of test programs that have tests and no watchdog.
pub(crate) fn unwatched(sources: &BTreeMap<PathBuf, String>) -> Vec<&Path> {
    let has_tests = |root: &Path| {
        let folder = root.parent().expect("a file");
        let mut below = sources.iter().filter(|(path, _)| path.starts_with(folder));
        below.any(|(_, text)| text.contains("#[test]"))
    };
    let roots = sources.iter().filter(|(path, _)| is_root(path));
    roots
        .filter(|(path, text)| !text.contains(WATCH) && has_tests(path))
        .map(|(path, _)| path.as_path())
        .collect()
}

/// Whether a file is the root of a program of tests, unit tests among them.
fn is_root(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts[..] {
        [.., "tests", _] | [.., "tests", _, "main.rs"] => true,
        [.., "src", file] => ["lib.rs", "main.rs"].contains(&file),
        _ => false,
    }
}
