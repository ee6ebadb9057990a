//! Packages through the program: pack, list, extract, cat, verify, diff and load.

#[path = "../../../millstream-pak/tests/pak/support/sheet.rs"]
mod sheet;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Stdio;

use crate::common::{
    expect_quiet_success, expect_status, limited, millstream, mixed_bytes, names_in, run, wait,
};
use millstream_pak::format::section;
use millstream_pak::{Item, PackOptions, write_file};
use serde_json::{Value, json};
use sheet::Sheet;

/// A folder of files of all sizes, and their bytes.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(11);
    let mut files = BTreeMap::new();
    for (nth, size) in [0, 1, 200, 5000, 33_000, 70_000, 300_000, 1_500_000]
        .iter()
        .enumerate()
    {
        let noise: Vec<u8> = (0..*size).map(|_| random.u8(..)).collect();
        files.insert(format!("noise/{nth}"), noise);
        let words: Vec<u8> = (0..*size).map(|at| (at / 50 % 90) as u8 + 33).collect();
        files.insert(format!("words/deep/{nth}.txt"), words);
    }
    files.insert(String::from("same"), files["noise/5"].clone());
    files.insert(String::from("größe"), vec![1; 40]);
    for (name, bytes) in &files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
    files
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn told(words: &[&str]) -> Value {
    let output = run(&mut millstream(words));
    expect_quiet_success(&output);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

struct Packed {
    folder: tempfile::TempDir,
    files: BTreeMap<String, Vec<u8>>,
}

impl Packed {
    fn new(words: &[&str]) -> Packed {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let files = files(&folder.path().join("in"));
        let packed = Packed { folder, files };
        let (root, package) = (packed.path("in"), packed.path("p.mpak"));
        let mut all = vec!["pack", &root, "-o", &package];
        all.extend_from_slice(words);
        expect_quiet_success(&run(&mut millstream(&all)));
        packed
    }

    fn path(&self, name: &str) -> String {
        String::from(text(&self.folder.path().join(name)))
    }
}

#[test]
fn what_is_packed_is_listed_extracted_shown_and_verified() {
    for codec in ["auto", "stored", "zlib", "gdeflate", "lz4", "zstd"] {
        if codec == "zstd" && !cfg!(feature = "c") {
            continue;
        }
        let packed = Packed::new(&["--codec", codec]);
        let (package, out) = (packed.path("p.mpak"), packed.path("out"));
        let list = told(&["list", &package, "--json"]);
        let list = list.as_array().expect("an array");
        let names: Vec<&str> = list.iter().filter_map(|row| row["name"].as_str()).collect();
        let want: Vec<&str> = packed.files.keys().map(String::as_str).collect();
        assert_eq!(names, want);
        for row in list {
            let bytes = &packed.files[row["name"].as_str().expect("a name")];
            assert_eq!(row["raw_bytes"], bytes.len());
            let hash = row["blake3"].as_str().expect("a hash");
            assert_eq!(hash.len(), 64);
            for key in ["stored_bytes", "codec", "blocks", "meta"] {
                assert!(row.get(key).is_some(), "{row}");
            }
        }
        expect_quiet_success(&run(&mut millstream(&["list", &package])));
        expect_quiet_success(&run(&mut millstream(&["extract", &package, &out])));
        for (name, bytes) in &packed.files {
            let extracted = std::fs::read(Path::new(&out).join(name)).expect("extracted");
            assert!(extracted == *bytes, "{codec} {name}");
            let shown = run(&mut millstream(&["cat", &package, name]));
            expect_quiet_success(&shown);
            assert!(shown.stdout == *bytes, "{codec} {name}");
        }
        assert_eq!(names_in(Path::new(&out)).len(), 4);
        let verified = told(&["verify", &package, "--json"]);
        assert_eq!(verified["failed"], 0);
        assert_eq!(verified["entries"], packed.files.len());
    }
}

#[test]
fn a_package_is_loaded_entry_by_entry_with_the_hashes_of_the_loose_files() {
    let packed = Packed::new(&[]);
    let (root, package) = (packed.path("in"), packed.path("p.mpak"));
    let loose = run(&mut millstream(&["load", "--hash", &root]));
    expect_quiet_success(&loose);
    for backend in ["uring", "threads"] {
        let words = ["load", "--hash", "--backend", backend, &package];
        let output = run(&mut millstream(&words));
        if backend == "uring" && output.status.code() != Some(0) {
            eprintln!("SKIP: no io_uring here");
            continue;
        }
        expect_quiet_success(&output);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&loose.stdout)
        );
    }
    let document = told(&["load", "--cold", "--json", &package]);
    assert_eq!(document["files"], packed.files.len());
    assert_eq!(document["failed"], 0);
    let raw: usize = packed.files.values().map(Vec::len).sum();
    assert_eq!(document["raw_bytes"], raw);
    assert!(
        document["stored_bytes"].as_u64() < Some(raw as u64),
        "{document}"
    );
    // Below a walked folder a package is a file like any other.
    let document = told(&["load", "--json", text(packed.folder.path())]);
    assert_eq!(document["files"], packed.files.len() + 1);
}

#[test]
fn a_trace_of_a_load_orders_a_package() {
    let packed = Packed::new(&[]);
    let (root, package, trace) = (
        packed.path("in"),
        packed.path("p.mpak"),
        packed.path("t.json"),
    );
    let wanted = ["in/noise/7", "in/noise/6"].map(|name| packed.path(name));
    let words = ["load", &wanted[0], &wanted[1], "--trace", &trace];
    expect_quiet_success(&run(&mut millstream(&words)));
    let ordered = packed.path("ordered.mpak");
    let words = [
        "pack", &root, "-o", &ordered, "--order", &trace, "--codec", "stored",
    ];
    expect_quiet_success(&run(&mut millstream(&words)));
    let bytes = std::fs::read(&ordered).expect("read");
    let place = |name: &str| {
        let head = &packed.files[name][..64];
        bytes
            .windows(64)
            .position(|window| window == head)
            .expect("stored")
    };
    assert!(place("noise/7") < place("noise/6"));
    assert!(place("noise/6") < place("noise/4"));
    // The trace of a package names its entries.
    expect_quiet_success(&run(&mut millstream(&[
        "load", &package, "--trace", &trace,
    ])));
    let again = packed.path("again.mpak");
    let words = ["pack", &root, "-o", &again, "--order", &trace];
    expect_quiet_success(&run(&mut millstream(&words)));
    expect_quiet_success(&run(&mut millstream(&["verify", &again])));
    // A trace of other files orders nothing, and the program says so.
    let other = packed.path("other");
    std::fs::write(&other, "x").expect("a file");
    expect_quiet_success(&run(&mut millstream(&["load", &other, "--trace", &trace])));
    let errors = expect_status(&run(&mut millstream(&words)), 0);
    assert!(errors.contains("names no file of the folder"), "{errors}");
}

#[test]
fn a_traced_load_issues_the_requests_of_an_untraced_one_and_names_every_entry() {
    for words in [&[][..], &["--codec", "stored"]] {
        let packed = Packed::new(words);
        let (package, trace) = (packed.path("p.mpak"), packed.path("t.json"));
        let plain = told(&["load", "--json", &package]);
        let traced = told(&["load", "--json", &package, "--trace", &trace]);
        assert_eq!(traced["requests"], plain["requests"]);
        assert!(plain["requests"].as_u64() < Some(packed.files.len() as u64));
        let text = std::fs::read(&trace).expect("read");
        let trace: Value = serde_json::from_slice(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("a list");
        // Reads of the package's own tables carry the name of its file.
        let is_request =
            |event: &&Value| event["ph"] == "X" && event["tid"] == 1 && event["name"] != "p.mpak";
        let requests: Vec<&Value> = events.iter().filter(is_request).collect();
        assert_eq!(plain["requests"], requests.len());
        let mut names: Vec<&str> = Vec::new();
        for event in requests {
            match event["args"]["names"].as_array() {
                Some(several) => names.extend(several.iter().filter_map(Value::as_str)),
                None => names.extend(event["name"].as_str()),
            }
        }
        names.sort_unstable();
        let expected: Vec<&str> = packed.files.keys().map(String::as_str).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn what_fails_is_not_counted_and_has_no_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (root, package) = (folder.path().join("in"), folder.path().join("p.mpak"));
    std::fs::create_dir(&root).expect("made");
    // Longer than one piece of a load, so that its first bytes land before the damage is found.
    std::fs::write(root.join("long"), mixed_bytes(3, 40 << 20)).expect("written");
    let words = [
        "pack",
        text(&root),
        "-o",
        text(&package),
        "--codec",
        "stored",
    ];
    expect_quiet_success(&run(&mut millstream(&words)));
    let mut bytes = std::fs::read(&package).expect("read");
    let at = bytes.len() - (2 << 20);
    bytes[at] ^= 1;
    std::fs::write(&package, bytes).expect("written");
    let output = run(&mut millstream(&["load", "--json", text(&package)]));
    expect_status(&output, 1);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["raw_bytes"], 0);
    assert_eq!(document["stored_bytes"], 0);
    for words in [
        ["load", text(&package)].as_slice(),
        &["load", "/nonexistent/file"],
        &["extract", text(&package), text(&folder.path().join("out"))],
    ] {
        let output = run(&mut millstream(words));
        expect_status(&output, 1);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{words:?}");
    }
}

#[test]
fn links_are_followed_inside_the_folder_skipped_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (root, package) = (folder.path().join("in"), folder.path().join("p.mpak"));
    std::fs::create_dir_all(root.join("sub")).expect("made");
    std::fs::write(root.join("a"), "content").expect("written");
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, root.join(name)).expect("linked");
    };
    link("a", "b");
    link("../a", "sub/c");
    link("sub", "dir");
    let pack = |links: &str| {
        let words = ["pack", text(&root), "-o", text(&package), "--links", links];
        run(&mut millstream(&words))
    };
    let listed = || -> Vec<String> {
        let listed = told(&["list", "--json", text(&package)]);
        let entries = listed.as_array().expect("a list").iter();
        let names = entries.filter_map(|entry| entry["name"].as_str());
        names.map(String::from).collect()
    };
    expect_quiet_success(&pack("follow"));
    assert_eq!(listed(), ["a", "b", "dir/c", "sub/c"]);
    let output = run(&mut millstream(&["cat", text(&package), "dir/c"]));
    assert_eq!(output.stdout, b"content");
    link("../outside", "out");
    std::fs::write(folder.path().join("outside"), "not packed").expect("written");
    let left_out = expect_status(&pack("inside"), 0);
    assert!(
        left_out.contains("left out 1 link to what is outside"),
        "{left_out}"
    );
    assert_eq!(listed(), ["a", "b", "dir/c", "sub/c"]);
    std::fs::remove_file(root.join("out")).expect("removed");
    expect_quiet_success(&pack("skip"));
    assert_eq!(listed(), ["a"]);
    assert!(expect_status(&pack("refuse"), 1).contains("3 failures"));
    for (target, name, cause) in [
        ("/etc/passwd", "out", "leads out of the folder"),
        ("..", "above", "leads out of the folder"),
        ("..", "sub/loop", "has no end"),
        ("self", "self", "leads to itself"),
        ("nothing", "dangling", "dangling"),
    ] {
        link(target, name);
        let errors = expect_status(&pack("follow"), 1);
        assert!(errors.contains(cause) && errors.contains(name), "{errors}");
        assert!(errors.contains("--links skip"), "{errors}");
        std::fs::remove_file(root.join(name)).expect("removed");
    }
    // Two folders that lead to each other.
    std::fs::create_dir(root.join("other")).expect("made");
    link("../sub", "other/x");
    link("../other", "sub/y");
    assert!(expect_status(&pack("follow"), 1).contains("has no end"));
    // Folders with two links each to the next: 2^40 paths, and no loop.
    for rung in 0..40 {
        std::fs::create_dir(root.join(format!("rung{rung}"))).expect("made");
    }
    for rung in 1..40 {
        for side in ["a", "b"] {
            let name = format!("rung{}/{side}", rung - 1);
            link(&format!("../rung{rung}"), &name);
        }
    }
    assert!(expect_status(&pack("follow"), 1).contains("than a walk may"));
}

#[test]
fn what_is_excluded_is_neither_packed_nor_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("in");
    std::fs::create_dir_all(root.join("build/deep")).expect("made");
    std::fs::create_dir_all(root.join("art/build")).expect("made");
    let kept = ["a.txt", "art/build/x", "art/logo.psd"];
    // The last is a name that no package may have.
    let left = ["art/hero.psd", "build/deep/x", "aux.txt"];
    for name in kept.iter().chain(&left) {
        std::fs::write(root.join(name), "x").expect("written");
    }
    let pack = |words: &[&str]| {
        let all = [&["pack", "in", "-o", "p.mpak"], words].concat();
        run(millstream(&all).current_dir(folder.path()))
    };
    let errors = expect_status(&pack(&[]), 1);
    assert!(errors.contains("--exclude leaves it out"), "{errors}");
    let rules = "# sources\r\n*.psd\r\n\n!logo.psd\n/build/\n";
    std::fs::write(root.join(".millstreamignore"), rules).expect("written");
    expect_quiet_success(&pack(&["--exclude", "a?x.*", "--exclude", "none"]));
    let listed = told(&["list", "--json", text(&folder.path().join("p.mpak"))]);
    let names = listed.as_array().expect("a list").iter();
    let names: Vec<&str> = names.filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, kept);
    expect_quiet_success(&pack(&["--exclude", "!*.psd", "--exclude", "aux.txt"]));
    let listed = told(&["list", "--json", text(&folder.path().join("p.mpak"))]);
    assert_eq!(listed.as_array().map(Vec::len), Some(4));
}

#[test]
fn a_file_of_sysfs_is_said_to_be_one() {
    let (place, name) = ("/sys/kernel/mm/transparent_hugepage", "enabled");
    let file = format!("{place}/{name}");
    if !Path::new(&file).exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let package = folder.path().join("p.mpak");
    for words in [
        ["load", &file, "--hash", "--json"],
        ["pack", place, "-o", text(&package)],
    ] {
        let errors = expect_status(&run(&mut millstream(&words)), 1);
        assert!(errors.contains("sysfs"), "{errors}");
    }
}

#[test]
fn patterns_choose_what_is_extracted() {
    let packed = Packed::new(&[]);
    let (package, out) = (packed.path("p.mpak"), packed.path("out"));
    let words = [
        "extract",
        &package,
        &out,
        "words/**/3.txt",
        "noise",
        "--json",
    ];
    assert_eq!(told(&words)["entries"], 9);
    assert!(Path::new(&out).join("words/deep/3.txt").exists());
    assert!(!Path::new(&out).join("same").exists());
    expect_status(
        &run(&mut millstream(&["extract", &package, &out, "nothing*"])),
        1,
    );
    expect_status(&run(&mut millstream(&["cat", &package, "nothing"])), 1);
}

#[test]
fn extraction_follows_no_link_out_of_its_folder() {
    let packed = Packed::new(&[]);
    let package = packed.path("p.mpak");
    let (out, outside) = (packed.path("out"), packed.path("outside"));
    std::fs::create_dir_all(&out).expect("made");
    std::fs::create_dir_all(&outside).expect("made");
    std::fs::write(Path::new(&outside).join("kept"), b"kept").expect("written");
    std::os::unix::fs::symlink(&outside, Path::new(&out).join("noise")).expect("linked");
    let kept = Path::new(&outside).join("kept");
    std::os::unix::fs::symlink(&kept, Path::new(&out).join("same")).expect("linked");
    let output = run(&mut millstream(&["extract", &package, &out]));
    expect_status(&output, 1);
    assert_eq!(names_in(Path::new(&outside)), ["kept"]);
    assert_eq!(std::fs::read(&kept).expect("read"), b"kept");
    let same = Path::new(&out).join("same");
    assert!(
        std::fs::symlink_metadata(&same).expect("there").is_file(),
        "the link was replaced"
    );
    assert!(
        Path::new(&out).join("words/deep/6.txt").exists(),
        "the others are extracted"
    );
    let left = names_in(Path::new(&out));
    assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
}

#[test]
fn a_patch_turns_one_package_into_the_other() {
    let packed = Packed::new(&[]);
    let (root, before, after) = (
        packed.path("in"),
        packed.path("p.mpak"),
        packed.path("q.mpak"),
    );
    let file = |name: &str| Path::new(&root).join(name);
    std::fs::remove_file(file("noise/1")).expect("removed");
    std::fs::write(file("added"), b"new").expect("written");
    let mut changed = packed.files["noise/7"].clone();
    changed[700_000] ^= 1;
    std::fs::write(file("noise/7"), &changed).expect("written");
    expect_quiet_success(&run(&mut millstream(&["pack", &root, "-o", &after])));
    let patch = packed.path("patch.mpak");
    let output = run(&mut millstream(&["diff", &before, &after, "-o", &patch]));
    expect_quiet_success(&output);
    let bytes = std::fs::metadata(&patch).expect("written").len();
    let shown = String::from_utf8_lossy(&output.stdout);
    let names = format!("+ added\n- noise/1\n~ noise/7\n= {patch}: {bytes} bytes, ");
    assert!(shown.starts_with(&names), "{shown}");
    assert!(bytes < 350_000, "the patch has {bytes} bytes");
    // Over its base all of it can be read; alone, or over another, it cannot.
    let over = ["--base", &before];
    let alone = told(&["verify", &patch, "--json"]);
    let both = told(&["verify", &patch, "--json", over[0], over[1]]);
    let entries = |told: &Value| told["entries"].as_u64().zip(told["skipped"].as_u64());
    // What was added, what is gone, and the blocks of what was changed that stay.
    assert_eq!(
        (entries(&alone), entries(&both)),
        (Some((2, 1)), Some((3, 0)))
    );
    let output = run(&mut millstream(&["verify", &patch]));
    expect_quiet_success(&output);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("1 more in the base"), "{told}");
    expect_quiet_success(&run(millstream(&["verify", &patch]).args(over)));
    let read = run(millstream(&["cat", &patch, "noise/7"]).args(over));
    expect_quiet_success(&read);
    assert!(read.stdout == changed);
    expect_status(&run(&mut millstream(&["cat", &patch, "noise/7"])), 1);
    let other = run(&mut millstream(&["verify", &patch, "--base", &after]));
    expect_status(&other, 1);
    // Each name once, from the patch where that has it.
    let hashed = |paths: &[&str]| {
        let loaded = run(millstream(&["load", "--hash"]).args(paths));
        expect_quiet_success(&loaded);
        let lines = String::from_utf8(loaded.stdout).expect("text");
        let mut lines: Vec<String> = lines.lines().map(String::from).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(hashed(&[&before, &patch]), hashed(&[&after]));
    let unchanged = run(millstream(&["cat", &patch, "words/deep/6.txt"]).args(over));
    assert!(unchanged.stdout == packed.files["words/deep/6.txt"]);
    let gone = run(millstream(&["cat", &patch, "noise/1"]).args(over));
    expect_status(&gone, 1);
    let (out, whole) = (packed.path("patched"), packed.path("whole"));
    expect_quiet_success(&run(millstream(&["extract", &patch, &out]).args(over)));
    expect_quiet_success(&run(&mut millstream(&["extract", &after, &whole])));
    let hashes = |folder: &str| {
        let loaded = run(millstream(&["load", "--hash", "."]).current_dir(folder));
        expect_quiet_success(&loaded);
        String::from_utf8(loaded.stdout).expect("text")
    };
    assert_eq!(hashes(&out), hashes(&whole));
    let some = packed.path("some");
    expect_quiet_success(&run(millstream(&[
        "extract", &patch, &some, "noise", "added",
    ])
    .args(over)));
    assert!(std::fs::read(Path::new(&some).join("noise/7")).expect("extracted") == changed);
    assert_eq!(names_in(Path::new(&some)), ["added", "noise"]);
    expect_status(
        &run(millstream(&["extract", &patch, &some, "noise/1"]).args(over)),
        1,
    );
    let same = run(&mut millstream(&["diff", &before, &before]));
    expect_quiet_success(&same);
    assert!(same.stdout.is_empty());
}

/// It has more raw bytes than are allowed, which is of the base alone.
#[test]
fn a_patch_is_loaded_over_a_base_that_is_refused() {
    let packed = Packed::new(&[]);
    let (root, before) = (packed.path("in"), packed.path("p.mpak"));
    let (after, patch) = (packed.path("q.mpak"), packed.path("patch.mpak"));
    let mut changed = packed.files["noise/7"].clone();
    changed[700_000] ^= 1;
    std::fs::write(Path::new(&root).join("noise/7"), &changed).expect("written");
    expect_quiet_success(&run(&mut millstream(&["pack", &root, "-o", &after])));
    let diff = ["diff", &before, &after, "-o", &patch];
    expect_quiet_success(&run(&mut millstream(&diff)));
    let words = ["load", &before, &patch, "--max-bytes", "2M", "--json"];
    let output = run(&mut millstream(&words));
    expect_status(&output, 1);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["failed"], 1, "{document}");
    assert_eq!(document["error"]["path"], before, "{document}");
    assert_eq!(document["raw_bytes"], changed.len(), "{document}");
}

#[test]
fn the_base_of_a_new_enough_patch_may_be_older_and_no_other_package() {
    let packed = Packed::new(&["--content-version", "6"]);
    let (root, before) = (packed.path("in"), packed.path("p.mpak"));
    let (after, patch) = (packed.path("q.mpak"), packed.path("patch.mpak"));
    std::fs::write(Path::new(&root).join("added"), b"new").expect("written");
    let pack = ["pack", &root, "-o", &after, "--content-version", "7"];
    expect_quiet_success(&run(&mut millstream(&pack)));
    let diff = ["diff", &before, &after, "-o", &patch];
    expect_quiet_success(&run(&mut millstream(&diff)));
    let load = |paths: &[&str], least: &str| {
        let words = [&["load"], paths, &["--min-version", least]].concat();
        run(&mut millstream(&words))
    };
    expect_status(&load(&[&before, &patch], "7"), 0);
    for (paths, least) in [(&[&*before][..], "7"), (&[&before, &patch], "8")] {
        let errors = expect_status(&load(paths, least), 1);
        assert!(errors.contains("at least"), "{errors}");
    }
    let verify = ["verify", &patch, "--base", &before, "--min-version", "7"];
    expect_status(&run(&mut millstream(&verify)), 0);
    let verify = ["verify", &before, "--min-version", "7", "--json"];
    let refused = run(&mut millstream(&verify));
    expect_status(&refused, 1);
    let told: serde_json::Value = serde_json::from_slice(&refused.stdout).expect("a document");
    assert_eq!(told["content_version"], 6);
}

#[test]
fn a_signature_is_made_and_verified() {
    let key = tempfile::tempdir().expect("a folder");
    let (secret, public) = (key.path().join("secret"), key.path().join("public"));
    // RFC 8032, section 7.1, test 1, and the public key of test 2.
    let secret_key = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
";
    let pem = |key| format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n");
    let public_key = pem("MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    let other_key = pem("MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=");
    std::fs::write(&secret, secret_key).expect("written");
    std::fs::write(&public, &public_key).expect("written");
    let packed = Packed::new(&["--sign", text(&secret), "--content-version", "7"]);
    let package = packed.path("p.mpak");
    let with_key = ["--key", text(&public)];
    let verified = told(&["verify", &package, with_key[0], with_key[1], "--json"]);
    assert_eq!(verified["signature_verified"], true);
    assert_eq!(verified["content_version"], 7);
    let about = told(&["info", &package, "--json"]);
    assert_eq!(about["place"]["content_version"], 7);
    let min_version = |command: &str, number: &str| {
        let words = [command, &package, "--min-version", number];
        run(&mut millstream(&words))
    };
    for command in ["verify", "load"] {
        expect_status(&min_version(command, "7"), 0);
        let errors = expect_status(&min_version(command, "8"), 1);
        assert!(errors.contains("is 7,") && errors.contains('8'), "{errors}");
        assert!(errors.contains(&package), "{errors}");
    }
    // A patch is signed, too.
    let patch = packed.path("patch.mpak");
    let words = [
        "diff",
        &package,
        &package,
        "-o",
        &patch,
        "--sign",
        text(&secret),
    ];
    expect_quiet_success(&run(&mut millstream(&words)));
    let verified = told(&["verify", &patch, with_key[0], with_key[1], "--json"]);
    assert_eq!(verified["signature_verified"], true);
    let words = [
        "diff",
        &package,
        &package,
        "-o",
        text(&secret),
        "--sign",
        text(&secret),
    ];
    let errors = expect_status(&run(&mut millstream(&words)), 1);
    assert!(errors.contains("the command reads this file"), "{errors}");
    for wrong in [&other_key, secret_key] {
        std::fs::write(&public, wrong).expect("written");
        expect_status(&run(millstream(&["verify", &package]).args(with_key)), 1);
    }
    let unsigned = Packed::new(&[]).path("p.mpak");
    std::fs::write(&public, public_key).expect("written");
    expect_status(&run(millstream(&["verify", &unsigned]).args(with_key)), 1);
}

#[test]
fn damage_is_found_and_named() {
    let packed = Packed::new(&["--codec", "stored"]);
    let package = packed.path("p.mpak");
    let mut bytes = std::fs::read(&package).expect("read");
    let head = &packed.files["noise/7"][..64];
    let at = bytes
        .windows(64)
        .position(|window| window == head)
        .expect("stored")
        + 1000;
    bytes[at] ^= 0x10;
    std::fs::write(&package, &bytes).expect("written");
    let output = run(&mut millstream(&["verify", &package]));
    expect_status(&output, 1);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("noise/7") && told.contains("checksum"),
        "{told}"
    );
    // Whatever is written or counted is verified.
    let out = packed.path("out");
    let kept = packed.files.len() - 1;
    let output = run(&mut millstream(&["extract", &package, &out, "--json"]));
    assert!(expect_status(&output, 1).contains("noise/7"));
    assert!(!Path::new(&out).join("noise/7").exists());
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["entries"], kept);
    let output = run(&mut millstream(&["cat", &package, "noise/7"]));
    expect_status(&output, 1);
    assert!(packed.files["noise/7"].starts_with(&output.stdout));
    let output = run(&mut millstream(&["load", &package, "--json"]));
    assert!(expect_status(&output, 1).contains("noise/7"));
    let output = run(&mut millstream(&["load", &package, "--hash"]));
    expect_status(&output, 1);
    let hashes = String::from_utf8(output.stdout).expect("text");
    assert_eq!(hashes.lines().count(), kept);
    assert!(!hashes.contains("noise/7"), "{hashes}");
    expect_quiet_success(&run(&mut millstream(&["load", "--no-verify", &package])));
    for len in [0, 7, 4095, 4096, 8191, 8192, bytes.len() - 1] {
        std::fs::write(&package, &bytes[..len]).expect("written");
        for command in ["verify", "list"] {
            expect_status(&run(&mut millstream(&[command, &package])), 1);
        }
    }
}

/// Short entries share blocks, and reads that bring several blocks.
#[test]
fn what_shared_a_read_with_damage_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (root, package) = (folder.path().join("in"), folder.path().join("p.mpak"));
    std::fs::create_dir(&root).expect("made");
    for nth in 0..40 {
        std::fs::write(root.join(format!("{nth:02}")), mixed_bytes(nth, 20_000)).expect("written");
    }
    let words = [
        "pack",
        text(&root),
        "-o",
        text(&package),
        "--codec",
        "stored",
    ];
    expect_quiet_success(&run(&mut millstream(&words)));
    let mut sheet = Sheet {
        bytes: std::fs::read(&package).expect("read"),
    };
    sheet.data()[1000] ^= 0x10;
    std::fs::write(&package, &sheet.bytes).expect("written");
    let sound = |name: &str| {
        let output = run(&mut millstream(&["cat", text(&package), name]));
        output.status.success()
    };
    let want: Vec<String> = (0..40).map(|nth| format!("{nth:02}")).collect();
    let want: Vec<String> = want.into_iter().filter(|name| sound(name)).collect();
    assert!((20..40).contains(&want.len()), "{want:?}");
    let out = folder.path().join("out");
    let output = run(&mut millstream(&["extract", text(&package), text(&out)]));
    expect_status(&output, 1);
    assert_eq!(names_in(&out), want);
    let output = run(&mut millstream(&["load", text(&package), "--hash"]));
    expect_status(&output, 1);
    let lines = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = lines.lines().map(|line| &line[18..]).collect();
    assert_eq!(names, want);
}

/// Both have one root, so that one was taken for the other.
#[test]
fn a_damaged_copy_is_not_loaded_from_its_original() {
    let packed = Packed::new(&["--codec", "stored"]);
    let (package, copy) = (packed.path("p.mpak"), packed.path("copy.mpak"));
    let mut sheet = Sheet {
        bytes: std::fs::read(&package).expect("read"),
    };
    sheet.data().iter_mut().for_each(|byte| *byte ^= 0x10);
    std::fs::write(&copy, &sheet.bytes).expect("written");
    let output = run(&mut millstream(&["load", &package, &copy, "--json"]));
    expect_status(&output, 1);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // All but an empty entry.
    assert_eq!(document["failed"], packed.files.len() - 2, "{document}");
    for error in document["errors"].as_array().expect("a list") {
        assert_eq!(error["path"], copy);
    }
}

#[test]
fn entries_of_impossible_lengths_end_a_load() {
    let packed = Packed::new(&[]);
    let package = packed.path("p.mpak");
    let mut sheet = Sheet {
        bytes: std::fs::read(&package).expect("read"),
    };
    for record in sheet.section(section::ENTRIES).chunks_exact_mut(32) {
        record[8..16].copy_from_slice(&(1_u64 << 62).to_le_bytes());
    }
    sheet.seal();
    std::fs::write(&package, &sheet.bytes).expect("written");
    let all = u64::MAX.to_string();
    let mut child = millstream(&["load", &package, "--json", "--max-bytes", &all])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait(&mut child);
    let output = child.wait_with_output().expect("it has ended");
    expect_status(&output, 1);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["failed"], packed.files.len(), "{document}");
    assert_eq!(document["error"]["kind"], "corrupt", "{document}");
}

/// The next run would remove what has such a name.
#[test]
fn files_with_names_of_temporary_ones_are_neither_packed_nor_extracted() {
    const TEMPORARY: &str = ".millstream-5-0.tmp";
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), "bytes").expect("written");
    std::fs::create_dir(path("below")).expect("made");
    for left in [path(TEMPORARY), path("below").join(TEMPORARY)] {
        std::fs::write(left, "left").expect("written");
    }
    let words = ["pack", ".", "-o", "p.mpak", "--json"];
    let output = run(millstream(&words).current_dir(folder.path()));
    expect_quiet_success(&output);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["entries"], 1);

    let items = [TEMPORARY, "b/.millstream-5-0.tmp", "c"].map(|name| Item::from_bytes(name, *b"x"));
    let options = PackOptions::default();
    write_file(items.into(), &options, path("p.mpak")).expect("packed");
    let output = run(millstream(&["extract", "p.mpak", "out"]).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(errors.contains("2 failures"), "{errors}");
    assert!(errors.contains("out/.millstream-5-0.tmp: "), "{errors}");
    assert_eq!(names_in(&path("out")), ["b", "c"]);
    assert!(names_in(&path("out/b")).is_empty());
}

#[test]
fn what_cannot_be_packed_leaves_no_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, package) = (folder.path().join("in"), folder.path().join("p.mpak"));
    files(&root);
    std::os::unix::fs::symlink("/", root.join("link")).expect("linked");
    let words = ["pack", text(&root), "-o", text(&package)];
    let output = run(&mut millstream(&words));
    expect_status(&output, 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("link"));
    assert_eq!(names_in(folder.path()), ["in"]);
    std::fs::remove_file(root.join("link")).expect("removed");
    expect_status(&run(&mut millstream(&["pack", "-o", text(&package)])), 2);
    for wrong in [
        ["--block", "5000"],
        ["--codec", "rar"],
        ["--level", "99"],
        ["--threads", "0"],
    ] {
        let mut all = words.to_vec();
        all.extend_from_slice(&wrong);
        expect_status(&run(&mut millstream(&all)), 2);
    }
    let missing = folder.path().join("missing");
    expect_status(
        &run(&mut millstream(&[
            "pack",
            text(&missing),
            "-o",
            text(&package),
        ])),
        1,
    );
    assert_eq!(names_in(folder.path()), ["in"]);
}

#[test]
fn a_pack_killed_at_any_moment_leaves_the_old_package_whole() {
    let packed = Packed::new(&["--codec", "stored"]);
    let (root, package) = (packed.path("in"), packed.path("p.mpak"));
    let old = std::fs::read(&package).expect("read");
    let other = packed.path("new.mpak");
    expect_quiet_success(&run(&mut millstream(&["pack", &root, "-o", &other])));
    let new = std::fs::read(&other).expect("read");
    assert!(old != new);
    let (mut killed, mut finished) = (0, 0);
    for step in 0..40 {
        std::fs::write(&package, &old).expect("written");
        let mut command = millstream(&["pack", &root, "-o", &package]);
        command.stdout(std::process::Stdio::null());
        let mut child = command.spawn().expect("started");
        std::thread::sleep(std::time::Duration::from_micros(step * 700));
        child.kill().expect("ours");
        child.wait().expect("ours");
        let left = std::fs::read(&package).expect("there");
        assert!(
            left == old || left == new,
            "after {step} steps: {} bytes",
            left.len()
        );
        killed += u32::from(left == old);
        finished += u32::from(left == new);
    }
    println!("{killed} times the old one, {finished} times the new one");
    assert!(killed > 0);
}

#[test]
fn an_interrupted_pack_leaves_nothing_beside_the_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("in");
    std::fs::create_dir(&root).expect("made");
    let mut random = fastrand::Rng::with_seed(12);
    let noise: Vec<u8> = (0..64 << 20).map(|_| random.u8(0..16)).collect();
    std::fs::write(root.join("big"), noise).expect("written");
    let package = folder.path().join("p.mpak");
    let words = ["pack", text(&root), "-o", text(&package), "--codec", "zlib"];
    let mut child = millstream(&words).spawn().expect("started");
    crate::common::wait_until_unfinished(&child, folder.path());
    crate::common::kill(&child, rustix::process::Signal::TERM);
    let status = crate::common::wait(&mut child);
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(rustix::process::Signal::TERM.as_raw())
    );
    assert_eq!(names_in(folder.path()), ["in"]);
}

#[test]
fn a_package_that_cannot_be_written_is_named() {
    let packed = Packed::new(&[]);
    let folder = packed.folder.path();
    for words in [
        &["pack", "in", "-o", "out.mpak"][..],
        &["diff", "p.mpak", "p.mpak", "-o", "out.mpak"],
    ] {
        let mut command = limited("-f 1", words);
        let errors = expect_status(&run(command.current_dir(folder)), 1);
        assert!(errors.contains("first: out.mpak: at offset "), "{errors}");
        assert!(errors.contains("cannot write the package"), "{errors}");
        assert!(!folder.join("out.mpak").exists());
        let standard = [&words[..words.len() - 1], &["-"]].concat();
        let output = run(millstream(&standard).current_dir(folder));
        expect_status(&output, 2);
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn a_package_in_its_own_folder_is_no_entry_of_itself() {
    let packed = Packed::new(&[]);
    let folder = packed.folder.path();
    let words = ["pack", "in", "-o", "in/own.mpak"];
    let mut made = Vec::new();
    for _ in 0..2 {
        run(millstream(&words).current_dir(folder));
        made.push(std::fs::read(folder.join("in/own.mpak")).expect("a package"));
    }
    assert!(made[0] == made[1], "the second differs from the first");
}

#[test]
fn what_was_not_extracted_is_not_counted() {
    let packed = Packed::new(&[]);
    let folder = packed.folder.path();
    std::fs::remove_dir_all(folder.join("in")).expect("ours");
    std::fs::create_dir(folder.join("in")).expect("ours");
    std::fs::write(folder.join("in/small"), "12345").expect("a file");
    std::fs::write(folder.join("in/large"), mixed_bytes(8, 100_000)).expect("a file");
    let words = ["pack", "in", "-o", "two.mpak"];
    expect_quiet_success(&run(millstream(&words).current_dir(folder)));
    // So many blocks of 512 bytes (of 1024 where the shell is bash).
    let mut command = limited("-f 20", &["extract", "two.mpak", "out", "--json"]);
    let output = run(command.current_dir(folder));
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("first: out/large: at offset 0: "),
        "{errors}"
    );
    let told: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(
        (&told["raw_bytes"], &told["failed"]),
        (&json!(5), &json!(1))
    );
    let mut command = millstream(&["extract", "none.mpak", "out", "--json"]);
    let output = run(command.current_dir(folder));
    expect_status(&output, 1);
    let told: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let first = told["first_error"].as_str().expect("words");
    assert!(first.starts_with("none.mpak: "), "{first}");
    assert_eq!(told["failed"], 1);
}

#[test]
fn names_in_failures_are_text_without_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("in")).expect("a folder");
    let name = std::ffi::OsStr::from_bytes(b"back\\slash\n\xff");
    std::fs::write(folder.path().join("in").join(name), "x").expect("a file");
    let output = run(millstream(&["pack", "in", "-o", "p.mpak"]).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    let shown = r"back\x5cslash\x0a\xff";
    let words = format!("first: in/{shown}: entry '{shown}': ");
    assert!(errors.contains(&words), "{errors}");
}

#[test]
fn files_that_only_say_they_are_empty_are_not_packed_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["pack", "/proc/sys/kernel/random", "-o", "out.mpak"];
    let errors = expect_status(&run(millstream(&words).current_dir(folder.path())), 1);
    assert!(
        errors.contains("first: /proc/sys/kernel/random/"),
        "{errors}"
    );
    assert!(
        errors.contains("says that it is empty, and is not"),
        "{errors}"
    );
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn no_more_raw_bytes_are_decoded_than_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("in");
    std::fs::create_dir(&root).expect("made");
    // 2 GiB in 256 names of the same zeros.
    let zeros = std::fs::File::create(root.join("0")).expect("a file");
    zeros.set_len(8 << 20).expect("a hole");
    for nth in 1..256 {
        std::fs::hard_link(root.join("0"), root.join(nth.to_string())).expect("linked");
    }
    let words = ["pack", "in", "-o", "p.mpak"];
    let errors = expect_status(&run(millstream(&words).current_dir(folder.path())), 0);
    assert!(errors.contains("unless --max-bytes allows it"), "{errors}");
    let package = std::fs::metadata(folder.path().join("p.mpak")).expect("packed");
    assert!(package.len() < 1 << 20, "{} bytes", package.len());
    let calls: [&[&str]; 3] = [
        &["extract", "p.mpak", "out", "--json"],
        &["verify", "p.mpak", "--json"],
        &["load", "p.mpak", "--json"],
    ];
    for words in calls {
        let output = run(millstream(words).current_dir(folder.path()));
        let errors = expect_status(&output, 1);
        assert!(
            errors.contains("1073741824 raw bytes") && errors.contains("--max-bytes"),
            "{errors}"
        );
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["error"]["kind"], "limit", "{document}");
        assert_eq!(names_in(folder.path()), ["in", "p.mpak"]);
    }
    let words = ["verify", "p.mpak", "--max-bytes", "2G"];
    expect_quiet_success(&run(millstream(&words).current_dir(folder.path())));
    for (most, status) in [("8388607", 1), ("8M", 0)] {
        let words = ["extract", "p.mpak", "out", "7", "--max-bytes", most];
        let output = run(millstream(&words).current_dir(folder.path()));
        assert_eq!(output.status.code(), Some(status), "{most}");
    }
    // What fails counts, too.
    let path = folder.path().join("p.mpak");
    let mut sheet = Sheet {
        bytes: std::fs::read(&path).expect("read"),
    };
    sheet.data().iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(&path, &sheet.bytes).expect("written");
    let words = ["verify", "p.mpak", "--max-bytes", "100M"];
    let errors = expect_status(&run(millstream(&words).current_dir(folder.path())), 1);
    assert!(errors.contains("--max-bytes"), "{errors}");
}

#[test]
fn pack_measures_this_machine_or_takes_the_target_of_a_package() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("in");
    std::fs::create_dir_all(&root).expect("made");
    for nth in 0..20 {
        let lines = (nth * 500..nth * 500 + 500).map(|line| format!("line {line}\n"));
        std::fs::write(root.join(nth.to_string()), lines.collect::<String>()).expect("written");
    }
    let path = |name: &str| text(&folder.path().join(name)).to_owned();
    let (root, here, again, zlib) = (text(&root), path("here"), path("again"), path("zlib"));
    let measured = ["pack", root, "-o", &here, "--target", "here", "--json"];
    let tried = run(&mut millstream(&measured));
    if String::from_utf8_lossy(&tried.stderr).contains("cannot be bypassed") {
        eprintln!("SKIP: the temporary folder has no direct I/O");
        return;
    }
    let packed = told(&measured);
    let target = &packed["target"];
    assert!(target["bytes_per_second"].as_f64() >= Some(1e5), "{packed}");
    assert!(target["cores"].as_u64() >= Some(1), "{packed}");
    assert_eq!(told(&["info", &here, "--json"])["place"]["target"], *target);
    let repacked = told(&["pack", root, "-o", &again, "--target", &here, "--json"]);
    assert_eq!(repacked["target"], *target);
    let read = |name| std::fs::read(name).expect("read");
    assert!(read(&here) == read(&again));
    // The scratch file is gone.
    let names = std::fs::read_dir(folder.path()).expect("listed");
    assert_eq!(names.count(), 3);

    told(&["pack", root, "-o", &zlib, "--codec", "zlib", "--json"]);
    let refused = run(&mut millstream(&[
        "pack", root, "-o", &again, "--target", &zlib,
    ]));
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("records no target"), "{error}");
    for more in [["--target-mbps", "5"], ["--codec", "zlib"]] {
        let words = ["pack", root, "-o", &again, "--target", "here"];
        let both = run(&mut millstream(&[&words[..], &more].concat()));
        assert_eq!(both.status.code(), Some(2), "{more:?}");
    }
}

#[test]
fn executable_files_are_executable_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::create_dir(folder.join("in")).expect("a folder");
    let set = |name: &str, mode: u32| {
        let path = folder.join("in").join(name);
        std::fs::write(&path, "#!/bin/sh\n").expect("a file");
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).expect("set");
    };
    let of_owner = |path: &str| {
        let about = std::fs::metadata(folder.join(path)).expect("there");
        about.permissions().mode() & 0o700
    };
    let quiet = |words: &[&str]| expect_quiet_success(&run(millstream(words).current_dir(folder)));
    // The same content: an entry has its own bit, and that of its owner alone.
    set("run", 0o700);
    set("read", 0o655);
    quiet(&["pack", "in", "-o", "a.mpak"]);
    quiet(&["extract", "a.mpak", "out"]);
    assert_eq!((of_owner("out/run"), of_owner("out/read")), (0o700, 0o600));
    set("read", 0o755);
    quiet(&["pack", "in", "-o", "b.mpak"]);
    let output = run(millstream(&["diff", "a.mpak", "b.mpak", "-o", "p.mpak"]).current_dir(folder));
    expect_quiet_success(&output);
    assert!(output.stdout.starts_with(b"~ read\n= p.mpak: "));
    quiet(&["extract", "p.mpak", "out", "--base", "a.mpak"]);
    assert_eq!((of_owner("out/run"), of_owner("out/read")), (0o700, 0o700));
    let output = run(millstream(&["list", "a.mpak", "--json"]).current_dir(folder));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let told = |nth: usize| {
        (
            rows[nth]["name"].as_str(),
            rows[nth]["executable"].as_bool(),
        )
    };
    assert_eq!(told(0), (Some("read"), Some(false)));
    assert_eq!(told(1), (Some("run"), Some(true)));
}

#[test]
fn pack_warns_of_names_that_differ_in_case_only() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("in")).expect("made");
    for name in ["straße", "STRASSE", "other"] {
        std::fs::write(folder.path().join("in").join(name), "x").expect("written");
    }
    let output = run(millstream(&["pack", "in", "-o", "p.mpak"]).current_dir(folder.path()));
    let errors = expect_status(&output, 0);
    let words = "1 name, the first: straße: the name of 'STRASSE' in another case";
    assert!(errors.contains(words), "{errors}");
}

#[test]
fn documents_have_names_as_they_are_and_words_may_have_them_as_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let call = |words: &[&str]| {
        let output = run(millstream(words).current_dir(folder.path()));
        expect_status(&output, 0);
        output.stdout
    };
    let document =
        |words: &[&str]| serde_json::from_slice::<Value>(&call(words)).expect("a document");
    let odd = "back\\slash\n\u{202e}name";
    let items = vec![Item::from_bytes(odd, *b"odd"), Item::from_bytes("a", *b"a")];
    let (all, one) = (folder.path().join("p.mpak"), folder.path().join("q.mpak"));
    write_file(items, &PackOptions::default(), &all).expect("packed");
    let items = vec![Item::from_bytes("a", *b"a")];
    write_file(items, &PackOptions::default(), &one).expect("packed");

    assert_eq!(document(&["list", "p.mpak", "--json"])[1]["name"], odd);
    let loaded = document(&["load", "p.mpak", "--hash", "--json"]);
    assert_eq!(loaded["hashes"][1]["name"], odd);
    let different = document(&["diff", "p.mpak", "q.mpak", "--json"]);
    assert_eq!(different["removed"], json!([odd]));
    let listed = String::from_utf8(call(&["list", "p.mpak"])).expect("text");
    let shown = listed
        .lines()
        .last()
        .and_then(|line| line.split_once("  back"));
    let shown = format!("back{}", shown.expect("the odd one is last").1);
    assert_eq!(call(&["cat", "p.mpak", &shown]), b"odd");
    assert_eq!(call(&["cat", "p.mpak", odd]), b"odd");
    call(&["extract", "p.mpak", "out", &shown]);
    assert_eq!(names_in(&folder.path().join("out")), [odd]);

    let name = std::ffi::OsStr::from_bytes(b"\xff");
    std::fs::write(folder.path().join("out").join(name), "x").expect("written");
    let loaded = document(&["load", "out", "--hash", "--json"]);
    assert_eq!(loaded["hashes"][1]["name"], Value::Null);
    assert_eq!(loaded["hashes"][1]["name_hex"], "ff");
    assert_eq!(loaded["hashes"][0].get("name_hex"), None);
}

#[test]
fn names_are_found_in_another_case_if_asked_for() {
    let packed = Packed::new(&[]);
    let package = packed.path("p.mpak");
    expect_status(
        &run(&mut millstream(&["cat", &package, "Words/Deep/3.TXT"])),
        1,
    );
    let words = ["cat", &package, "Words/Deep/3.TXT", "--fold-case"];
    let output = run(&mut millstream(&words));
    assert_eq!(output.stdout, packed.files["words/deep/3.txt"]);
    let out = packed.path("out");
    let words = [
        "extract",
        &package,
        &out,
        "WORDS/*/?.TXT",
        "--fold-case",
        "--json",
    ];
    assert_eq!(told(&words)["entries"], 8);
    let call = |words: &[&str]| run(millstream(words).current_dir(packed.folder.path()));
    expect_status(&call(&["load", "IN/Words", "P.mpak"]), 1);
    let output = call(&["load", "IN/Words", "P.mpak", "--fold-case", "--json"]);
    expect_quiet_success(&output);
    let loaded: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(loaded["files"], 8 + packed.files.len());
}
