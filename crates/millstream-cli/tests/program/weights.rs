//! `weights`: what a model has, how long it takes to load, and what is refused.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{SmallDisk, expect_quiet_success, expect_status, millstream, names_in, run};

/// Writes a safetensors file with one tensor of the given name.
fn write(path: &Path, name: &str) {
    let header = json!({
        "__metadata__": {"format": "pt"},
        name: {"dtype": "F16", "shape": [3, 2], "data_offsets": [0, 12]},
    });
    let header = header.to_string();
    let mut file = Vec::from((header.len() as u64).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend([7; 12]);
    std::fs::write(path, file).expect("a file");
}

/// A folder with a model of two files.
fn model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder.path().join("1.safetensors"), "b");
    write(&folder.path().join("2.safetensors"), "a\n");
    let index = json!({"weight_map": {"b": "1.safetensors", "a\n": "2.safetensors"}});
    let path = folder.path().join("model.safetensors.index.json");
    std::fs::write(path, index.to_string()).expect("a file");
    folder
}

fn document(words: &[&str], folder: &Path) -> Value {
    let mut command = millstream(words);
    let output = run(command.arg("--json").current_dir(folder));
    expect_quiet_success(&output);
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn a_model_is_shown() {
    let folder = model();
    let document = document(&["weights", "info", "."], folder.path());
    assert_eq!(document["format"], "safetensors");
    assert_eq!(document["bytes"], 24);
    assert_eq!(document["metadata"], json!({"format": "pt"}));
    assert_eq!(document["files"][1]["path"], "./2.safetensors");
    let bytes = document["files"][1]["bytes"].as_u64().expect("a length");
    let expected = json!({
        "name": "a\n", "type": "F16", "shape": [3, 2], "file": 1,
        "offset": bytes - 12, "bytes": 12,
    });
    assert_eq!(document["tensors"][0], expected);
    assert_eq!(document["tensors"].as_array().map(Vec::len), Some(2));

    let output = run(millstream(&["weights", "info", "."]).current_dir(folder.path()));
    expect_quiet_success(&output);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for line in [
        "format   safetensors  2 files",
        "F16      3x2               a\\x0a",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_gguf_file_is_shown_with_its_metadata() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut file = Vec::from(*b"GGUF\x03\0\0\0");
    file.extend(1u64.to_le_bytes());
    file.extend(2u64.to_le_bytes());
    let text = |file: &mut Vec<u8>, text: &str| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    };
    text(&mut file, "tokens");
    file.extend([9u32.to_le_bytes(), 8u32.to_le_bytes()].concat());
    file.extend(2u64.to_le_bytes());
    text(&mut file, "a");
    text(&mut file, "b");
    text(&mut file, "layers");
    file.extend([4u32.to_le_bytes(), 30u32.to_le_bytes()].concat());
    text(&mut file, "t");
    file.extend(1u32.to_le_bytes());
    file.extend(256u64.to_le_bytes());
    file.extend(12u32.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.resize(file.len().next_multiple_of(32) + 144, 1);
    std::fs::write(folder.path().join("m.gguf"), &file).expect("a file");
    let document = document(&["weights", "info", "m.gguf"], folder.path());
    let metadata = json!({"layers": 30, "tokens": {"array": "string", "len": 2}});
    assert_eq!(document["metadata"], metadata);
    assert_eq!(document["tensors"][0]["type"], "Q4_K");
    assert_eq!(document["tensors"][0]["bytes"], 144);
}

#[test]
fn a_model_is_loaded_and_the_phases_are_timed() {
    let folder = model();
    let words = ["weights", "load", ".", "--backend", "threads"];
    let document = document(&words, folder.path());
    for (key, expected) in [("files", 2), ("tensors", 2), ("requests", 2), ("bytes", 24)] {
        assert_eq!(document[key], expected, "{document}");
    }
    assert_eq!(document["backend"], "threads");
    let seconds = |key: &str| document[key].as_f64().expect("a number");
    let phases = ["open_seconds", "plan_seconds", "read_seconds"].map(seconds);
    assert!((phases.iter().sum::<f64>() - seconds("seconds")).abs() < 1e-6);

    let output = run(millstream(&["weights", "load", "."]).current_dir(folder.path()));
    expect_quiet_success(&output);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for name in [
        "tensors", "bytes", "time", "open", "plan", "read", "backend",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
}

#[test]
fn a_model_is_loaded_several_times_cold_and_warm() {
    let folder = model();
    document(&["weights", "hash", "."], folder.path());
    let words = ["weights", "bench", ".", "--rounds", "3"];
    let check = ["--check", "model.checksums"];
    for (words, checked) in [(&words[..], false), (&[&words[..], &check].concat(), true)] {
        // Files in memory never leave the page cache, which is reported.
        let output = run(millstream(words).arg("--json").current_dir(folder.path()));
        expect_status(&output, 0);
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["rounds"], 3);
        for state in ["cold", "warm"] {
            let median = &document[state];
            assert_eq!(
                (&median["tensors"], &median["checked"]),
                (&json!(2), &json!(checked))
            );
            let seconds = |key: &str| median[key].as_f64().expect("a number");
            assert!(
                seconds("fastest_seconds") <= seconds("seconds"),
                "{document}"
            );
        }
    }
    let output = run(millstream(&words).current_dir(folder.path()));
    expect_status(&output, 0);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for line in ["cold", "warm", "open", "plan", "read"] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{text}");
    }
    let missing = ["weights", "bench", "missing"];
    expect_status(&run(millstream(&missing).current_dir(folder.path())), 1);
    let none = ["weights", "bench", ".", "--rounds", "0"];
    expect_status(&run(millstream(&none).current_dir(folder.path())), 2);
}

#[test]
fn wrong_models_are_failures_with_file_and_reason() {
    let folder = model();
    std::fs::write(folder.path().join("text"), "no model at all").expect("a file");
    let whole = std::fs::read(folder.path().join("1.safetensors")).expect("a file");
    std::fs::write(folder.path().join("cut"), &whole[..whole.len() - 1]).expect("a file");
    for (name, kind, part) in [
        ("none", "not_found", "No such file"),
        (
            "text",
            "wrong_format",
            "neither a GGUF nor a safetensors file",
        ),
        (
            "cut",
            "corrupt",
            "the tensors have 12 bytes, but the file 11",
        ),
    ] {
        for command in ["info", "load"] {
            let words = ["weights", command, name, "--json"];
            let output = run(millstream(&words).current_dir(folder.path()));
            let errors = expect_status(&output, 1);
            assert!(errors.contains(part) && errors.contains(name), "{errors}");
            let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(document["error"]["kind"], kind, "{document}");
            assert_eq!(document["error"]["path"], name, "{document}");
        }
    }
    for words in [
        &["weights"][..],
        &["weights", "info"],
        &["weights", "show", "."],
    ] {
        expect_status(&run(millstream(words).current_dir(folder.path())), 2);
    }
}

#[test]
fn checksums_are_written_and_compared() {
    let folder = model();
    let hashed = document(&["weights", "hash", "."], folder.path());
    assert_eq!(hashed["path"], "./model.checksums");
    assert_eq!(
        (&hashed["files"], &hashed["signed"]),
        (&json!(2), &json!(false))
    );
    let root = hashed["root"].as_str().expect("a text");
    assert_eq!(root.len(), 64);
    let check = ["weights", "load", ".", "--check", "model.checksums"];
    let loaded = document(&check, folder.path());
    assert_eq!(loaded["checked"], true);
    assert_eq!(loaded["read_bytes"], hashed["bytes"]);
    let output = run(millstream(&check).current_dir(folder.path()));
    expect_quiet_success(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("all bytes of the files"));
    let words = ["weights", "hash", "1.safetensors"];
    let output = run(millstream(&words).current_dir(folder.path()));
    expect_quiet_success(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("1.safetensors.checksums"), "{text}");

    let refused = |words: &[&str], place: &str, part: &str| {
        let mut command = millstream(words);
        let output = run(command.arg("--json").current_dir(folder.path()));
        let errors = expect_status(&output, 1);
        assert!(errors.contains(place) && errors.contains(part), "{errors}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        document["error"]["offset"].clone()
    };
    // Checksums of one file alone.
    let check_other = ["weights", "load", ".", "--check", "1.safetensors.checksums"];
    refused(&check_other, "2.safetensors", "another model");
    let path = folder.path().join("2.safetensors");
    let good = std::fs::read(&path).expect("a file");
    let mut bad = good.clone();
    *bad.last_mut().expect("bytes") ^= 1;
    std::fs::write(&path, &bad).expect("written");
    let offset = refused(&check, "2.safetensors", "checksum of a stored block");
    assert_eq!(offset, 0);
    std::fs::write(&path, &good).expect("written");
    let sums = folder.path().join("model.checksums");
    let whole = std::fs::read(&sums).expect("a file");
    std::fs::write(&sums, &whole[..40]).expect("written");
    assert!(refused(&check, "model.checksums", "exceed the file").is_u64());
    std::fs::write(&sums, "no checksums").expect("written");
    refused(&check, "model.checksums", "not a file of checksums");
    let missing = ["weights", "load", ".", "--check", "missing"];
    refused(&missing, "missing", "No such file");
    for words in [
        &["weights", "hash", ".", "-o", "-"][..],
        &["weights", "load", ".", "--key", "public"],
    ] {
        expect_status(&run(millstream(words).current_dir(folder.path())), 2);
    }
    let over = ["weights", "hash", ".", "-o", "1.safetensors"];
    refused(&over, "1.safetensors", "the command reads this file");
}

#[test]
fn signed_checksums_prove_who_made_them() {
    let folder = model();
    let pem = |what: &str, key: &str| {
        format!("-----BEGIN {what} KEY-----\n{key}\n-----END {what} KEY-----\n")
    };
    // RFC 8032, section 7.1, test 1, and the public key of test 2.
    for (name, what, key) in [
        (
            "secret",
            "PRIVATE",
            "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g",
        ),
        (
            "public",
            "PUBLIC",
            "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        ),
        (
            "other",
            "PUBLIC",
            "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=",
        ),
    ] {
        std::fs::write(folder.path().join(name), pem(what, key)).expect("written");
    }
    let sign = ["weights", "hash", ".", "-o", "sums", "--sign", "secret"];
    assert_eq!(document(&sign, folder.path())["signed"], true);
    document(&["weights", "hash", ".", "-o", "plain"], folder.path());
    let check = |sums: &str, key: &str| {
        let words = ["weights", "load", ".", "--check", sums, "--key", key];
        run(millstream(&words).current_dir(folder.path()))
    };
    expect_quiet_success(&check("sums", "public"));
    for (sums, key, part) in [
        ("sums", "other", "signed with another key"),
        ("plain", "public", "not signed"),
        ("sums", "secret", "not an Ed25519 public key"),
    ] {
        let errors = expect_status(&check(sums, key), 1);
        assert!(errors.contains(part), "{errors}");
    }
    let path = folder.path().join("sums");
    let mut sums = std::fs::read(&path).expect("a file");
    *sums.last_mut().expect("bytes") ^= 1;
    std::fs::write(&path, &sums).expect("written");
    let errors = expect_status(&check("sums", "public"), 1);
    assert!(errors.contains("signature does not match"), "{errors}");
}

#[test]
fn a_full_disk_leaves_no_part_of_a_file_of_checksums() {
    let (folder, target) = (model(), tempfile::tempdir().expect("a temporary folder"));
    let Some(disk) = SmallDisk::mount(target.path(), 256 << 10) else {
        return;
    };
    let filler = target.path().join("filler");
    std::fs::write(&filler, vec![1; 1 << 20]).expect_err("the disk is full");
    let path = target.path().join("sums");
    let mut command = millstream(&["weights", "hash", ".", "-o"]);
    let output = run(command.arg(&path).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(errors.contains("the disk is full"), "{errors}");
    assert_eq!(names_in(target.path()), ["filler"]);
    drop(disk);
}
