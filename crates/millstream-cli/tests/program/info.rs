//! `info`: facts about the machine and a place on it.

use crate::common::{SmallDisk, expect_quiet_success, expect_status, millstream, run};
use serde_json::Value;

fn info(path: &str) -> Value {
    let output = run(&mut millstream(&["info", "--json", path]));
    expect_quiet_success(&output);
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn the_environment_names_the_backend_of_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), "bytes").expect("a file");
    let path = folder.path().to_str().expect("UTF-8");
    let package = format!("{path}/package.mpak");
    expect_quiet_success(&run(&mut millstream(&["pack", "-o", &package, path])));
    let backend = |words: &[&str], named: &str| {
        let output = run(millstream(words).env("MILLSTREAM_BACKEND", named));
        expect_quiet_success(&output);
        let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        document["backend"].as_str().expect("a name").to_owned()
    };
    let auto = backend(&["info", "--json", path], "");
    for words in [["info", "--json", path], ["load", "--json", path]] {
        assert_eq!(backend(&words, "threads"), "threads");
        assert_eq!(backend(&words, "auto"), auto);
    }
    let words = ["load", "--json", "--backend", "auto", path];
    assert_eq!(backend(&words, "threads"), auto);
    for words in [
        &["info", path][..],
        &["load", path],
        &["list", &package],
        &["cat", &package, "file"],
        &["verify", &package],
    ] {
        let output = run(millstream(words).env("MILLSTREAM_BACKEND", "tape"));
        let errors = expect_status(&output, 2);
        assert!(
            errors.contains("none of auto, uring"),
            "{words:?}: {errors}"
        );
    }
}

#[test]
fn the_document_holds_what_was_promised() {
    let document = info("/");
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    let backend = document["backend"].as_str().expect("a name");
    assert!(["uring", "threads"].contains(&backend), "{backend}");
    assert!(
        document["backend_reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty())
    );
    if backend == "uring" {
        assert!(
            document["io_uring"]["registered_bytes"].is_u64(),
            "{}",
            document["io_uring"]
        );
    } else {
        assert!(
            document["io_uring"]["refused"].is_string(),
            "{}",
            document["io_uring"]
        );
    }
    assert!(document["machine"]["cpus"].as_u64() >= Some(1));
    assert!(document["machine"]["cpu_features"].is_array());
    assert!(document["place"]["rotating"].is_boolean());
    assert!(document["kernels"]["gdeflate"].is_string());
    assert!(document["kernels"]["pnm"].is_string());
    match &document["vulkan"]["devices"] {
        Value::Null => assert!(document["vulkan"]["refused"].is_string(), "{document}"),
        devices => {
            let device = &devices[0];
            assert!(device["name"].is_string() && device["extensions"].is_array());
            assert!(
                device["reason"]
                    .as_str()
                    .is_some_and(|reason| !reason.is_empty())
            );
        }
    }
    let codecs = document["codecs"].as_array().expect("a list");
    assert_eq!(codecs.len(), 6);
    assert!(document["limits"]["staging_bytes"].as_u64() >= Some(1));
}

#[test]
fn the_place_is_the_one_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path(), 1 << 20) else {
        return;
    };
    let place = &info(folder.path().to_str().expect("temporary names are UTF-8"))["place"];
    assert_eq!(place["file_system"], "tmpfs");
    assert_eq!(place["mount"], "memory");
    assert_eq!(place["rotating"], false);
    drop(disk);
}

#[test]
fn the_table_names_every_subject() {
    let output = run(&mut millstream(&["info"]));
    expect_quiet_success(&output);
    let table = String::from_utf8(output.stdout).expect("text");
    for row in [
        "backend",
        "io_uring",
        "kernel",
        "processors",
        "direct I/O",
        "GPU",
        "codec",
        "limit",
    ] {
        assert!(
            table.lines().any(|line| line.starts_with(row)),
            "no {row} in:\n{table}"
        );
    }
    let lz4 = table.lines().find(|line| line.contains("lz4"));
    assert!(
        lz4.is_some_and(|line| line.ends_with("one level")),
        "{table}"
    );
}

#[test]
fn a_missing_place_is_a_failure() {
    let output = run(&mut millstream(&["info", "/nonexistent"]));
    let errors = expect_status(&output, 1);
    assert!(
        errors.starts_with("millstream: 1 failure, the first: /nonexistent: "),
        "{errors}"
    );
}

#[test]
fn wrong_words_end_with_status_2() {
    for words in [
        &["info", "/", "/"][..],
        &["info", ""],
        &["info", "--nonsense"],
    ] {
        expect_status(&run(&mut millstream(words)), 2);
    }
}
