//! The house style as a test: what a machine can check, it checks here, over every file of the
//! repository.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::TokenStream;

use imports::Imports;
use product::Product;

mod dead;
mod functions;
mod imports;
mod licenses;
mod product;
mod watched;

millstream_testing::watch!();

/// Longest file of Rust.
const FILE_LINES_MAX: usize = 1500;

/// Longest line of Rust outside string tables.
const LINE_COLUMNS_MAX: usize = 100;

/// Most lines of source, without tests, of groups of crates: the first has all crates that no other
/// group names.
const LINES_MAX: &[(&str, usize, &[&str])] = &[
    ("the product", 85_500, &[]),
    (
        "the crates that measure and test",
        16_350,
        &[
            "millstream-bench",
            "millstream-peers",
            "millstream-report",
            "millstream-sim",
            "millstream-testing",
        ],
    ),
    ("DirectStorage", 4_660, &["millstream-dstorage"]),
    // 70 of them for the tasks that wait while an urgent asset is ahead.
    ("Bevy", 970, &["bevy_millstream"]),
    (
        "archives of other programs",
        2_000,
        &[
            "millstream-pak/src/archive",
            "millstream-pak/src/archive.rs",
            "millstream-cli/src/archive.rs",
        ],
    ),
    (
        "model weights",
        4_310,
        &[
            "millstream-weights",
            "millstream-cli/src/commands/weights.rs",
            "millstream-capi/src/experts.rs",
        ],
    ),
];

/// Largest file that is not a test vector.
const FILE_BYTES_MAX: u64 = 400 << 10;

/// What must not be left in the code, and what to do instead. Put together from halves, so that
/// this file does not find itself.
const BANNED: &[(&[&str], &str)] = &[
    (&["dbg", "!("], "remove it"),
    (&["FIX", "ME"], "do it, or say in the docs what is not done"),
    (&["TO", "DO"], "do it, or say in the docs what is not done"),
    (&["X", "XX"], "say what it is"),
    (&["unimple", "mented!("], "write it, or return an error"),
    (&["to", "do!("], "write it, or return an error"),
    (&["#[al", "low("], "#[expect(..., reason = \"...\")]"),
    (&["#![al", "low("], "#![expect(..., reason = \"...\")]"),
    (
        &["std::env::", "set_var"],
        "the product and its tests share one environment",
    ),
    (&["static ", "mut "], "an atomic, a cell or a lock"),
];

/// Folders whose files are data: never style, and test vectors may be large.
const VECTOR_FOLDERS: &[&str] = &["vectors", "corpus", "seeds", "golden", "record"];

#[test]
fn the_tree_is_tidy() {
    let root = root();
    let mut findings = Vec::new();
    let (mut texts, mut products) = (BTreeMap::new(), BTreeMap::new());
    let files = files(&root);
    assert!(files.len() > 20, "only {} files found", files.len());
    for file in &files {
        let shown = file.strip_prefix(&root).unwrap_or(file);
        // A file may be deleted between the listing and now, or be listed and not checked out.
        let Ok(metadata) = fs::symlink_metadata(file) else {
            continue;
        };
        if is_vector(shown) || !metadata.is_file() {
            continue;
        }
        if metadata.len() > FILE_BYTES_MAX && shown != Path::new("Cargo.lock") {
            findings.push(format!("{}: {} bytes", shown.display(), metadata.len()));
        }
        if shown.extension() == Some(OsStr::new("rs"))
            && let Some((text, tokens)) = check_rust(file, shown, &mut findings)
        {
            texts.insert(shown.to_owned(), text);
            products.insert(shown.to_owned(), Product::of(&tokens));
        }
    }
    for path in dead::dead(&texts) {
        findings.push(format!("{}: no module declares it", path.display()));
    }
    products.retain(|path, _| in_crate(path).is_some());
    let of_tests = |path: &PathBuf| product::is_of_tests(path, &products);
    let paths: Vec<&PathBuf> = products.keys().filter(|path| !of_tests(path)).collect();
    check_imports(&paths, &products, &mut findings);
    check_lines(&paths, &products, &texts, &mut findings);
    for path in watched::unwatched(&texts) {
        let path = path.display();
        findings.push(format!(
            "{path}: tests without `millstream_testing::watch!();`"
        ));
    }
    assert!(findings.is_empty(), "untidy:\n{}", findings.join("\n"));
}

/// The folder of a crate's sources in which a file lies, or that of a program in it.
fn in_crate(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| folder.ends_with("src"))
}

fn check_imports(
    paths: &[&PathBuf],
    products: &BTreeMap<PathBuf, Product>,
    findings: &mut Vec<String>,
) {
    let mut crates: BTreeMap<&Path, Imports> = BTreeMap::new();
    for path in paths {
        let mut folders = path.ancestors().skip(1);
        let is_root = |folder: &&Path| {
            folder.ends_with("src") || products.contains_key(&folder.join("main.rs"))
        };
        let root = folders.find(is_root).expect("below `src`");
        let below = path.strip_prefix(root).expect("below its root");
        let imports = crates.entry(root).or_default();
        imports.add(below, &products[*path].tokens);
    }
    for (root, imports) in crates {
        let cycles = imports.cycles().into_iter();
        let root = root.display();
        findings.extend(cycles.map(|cycle| format!("{root}: these import each other: {cycle}")));
    }
}

fn check_lines(
    paths: &[&PathBuf],
    products: &BTreeMap<PathBuf, Product>,
    texts: &BTreeMap<PathBuf, String>,
    findings: &mut Vec<String>,
) {
    let mut counts = vec![0; LINES_MAX.len()];
    for path in paths {
        let Ok(below) = path.strip_prefix("crates") else {
            continue;
        };
        let is_in =
            |(_, _, crates): &(_, _, &[&str])| crates.iter().any(|it| below.starts_with(it));
        let group = LINES_MAX.iter().position(is_in).unwrap_or(0);
        counts[group] += product::lines(&texts[*path], &products[*path]);
    }
    for ((what, most, _), lines) in LINES_MAX.iter().zip(counts) {
        println!("{what}: {lines} lines without tests");
        if lines > *most {
            findings.push(format!(
                "{what}: {lines} lines without tests, {most} at most"
            ));
        }
    }
}

#[test]
fn tests_that_the_documents_name_exist() {
    let root = root();
    let in_rust_or_python = |file: &PathBuf| {
        let extension = file.extension().and_then(OsStr::to_str);
        matches!(extension, Some("rs" | "py"))
    };
    let files = files(&root).into_iter().filter(in_rust_or_python);
    let sources: Vec<String> = files.flat_map(fs::read_to_string).collect();
    let document = fs::read_to_string(root.join("docs/RELIABILITY.md")).expect("read");
    // Every other part lies between two backticks.
    let names = document.split('`').skip(1).step_by(2);
    let names = names.map(|name| name.rsplit("::").next().unwrap_or(name));
    let names: Vec<&str> = names
        .filter(|name| name.matches('_').count() >= 3 && !name.contains(['/', ' ', '=', '.']))
        .collect();
    assert!(names.len() > 100, "only {} tests are named", names.len());
    let is_defined = |name: &&str| {
        let defined = [format!("fn {name}("), format!("def {name}(")];
        let has = |source: &String| defined.iter().any(|it| source.contains(it));
        sources.iter().any(has)
    };
    let missing: Vec<&str> = names.into_iter().filter(|name| !is_defined(name)).collect();
    assert!(missing.is_empty(), "named and not there: {missing:?}");
}

#[test]
fn the_checks_find_what_they_are_for() {
    let mut long = "// ok\n".repeat(FILE_LINES_MAX);
    long.push_str(&format!("// {}\n", "x".repeat(LINE_COLUMNS_MAX)));
    for (halves, _) in BANNED {
        long.push_str(&format!("    {}\n", halves.concat()));
    }
    let mut findings = Vec::new();
    check_text(&long, Path::new("a.rs"), &mut findings);
    assert_eq!(findings.len(), 2 + BANNED.len(), "{findings:?}");
    findings.clear();
    let table = format!("    \"{}\",\n", "x".repeat(LINE_COLUMNS_MAX));
    check_text(&table, Path::new("a.rs"), &mut findings);
    assert!(findings.is_empty(), "{findings:?}");
    let root = PathBuf::from("crates/a/tests/a.rs");
    let mut sources = BTreeMap::from([(root.clone(), String::from("#[test]\n"))]);
    assert_eq!(watched::unwatched(&sources), [&root]);
    sources.insert(
        root,
        String::from("millstream_testing::watch!();\n#[test]\n"),
    );
    assert!(watched::unwatched(&sources).is_empty());
}

/// Checks a file; returns its text and tokens.
fn check_rust(
    file: &Path,
    shown: &Path,
    findings: &mut Vec<String>,
) -> Option<(String, TokenStream)> {
    let mut failed = |error: &dyn Display| findings.push(format!("{}: {error}", shown.display()));
    let text = fs::read_to_string(file)
        .map_err(|error| failed(&error))
        .ok()?;
    let tokens: TokenStream = text.parse().map_err(|error| failed(&error)).ok()?;
    check_text(&text, shown, findings);
    // A test may be one long table of cases.
    if !in_tests(shown) {
        functions::check(&tokens, shown, findings);
    }
    Some((text, tokens))
}

fn check_text(text: &str, shown: &Path, findings: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(format!("{}: {lines} lines", shown.display()));
    }
    for (index, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", shown.display(), index + 1);
        let columns = line.chars().count();
        if columns > LINE_COLUMNS_MAX && !is_string_table(line) {
            findings.push(format!("{}: {columns} columns", place()));
        }
        for (halves, instead) in BANNED {
            let banned = halves.concat();
            // What several test programs share is not used whole by each of them.
            let shared_by_tests = banned.ends_with("allow(") && in_tests(shown);
            if line.contains(&banned) && !shared_by_tests {
                findings.push(format!("{}: `{banned}`; instead: {instead}", place()));
            }
        }
    }
}

/// A line that is a string and nothing else, or a link, cannot be broken.
fn is_string_table(line: &str) -> bool {
    let line = line.trim().trim_start_matches("b\"").trim_end_matches(',');
    line.starts_with('"') || line.ends_with('"') || line.contains("https://")
}

fn in_tests(shown: &Path) -> bool {
    shown.components().any(|part| part.as_os_str() == "tests")
}

fn is_vector(shown: &Path) -> bool {
    shown.components().any(|component| {
        let name = component.as_os_str();
        VECTOR_FOLDERS.iter().any(|folder| name == *folder)
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders deep")
        .to_owned()
}

/// The repository's files: as git knows them, or by walking where there is no git.
fn files(root: &Path) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output();
    match listed {
        Ok(listed) if listed.status.success() && !listed.stdout.is_empty() => listed
            .stdout
            .split(|&byte| byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| root.join(String::from_utf8_lossy(name).as_ref()))
            .collect(),
        Ok(_) | Err(_) => {
            let mut found = Vec::new();
            walk(root, &mut found);
            found
        }
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}
