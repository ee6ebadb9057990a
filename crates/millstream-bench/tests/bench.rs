//! The program `millstream-bench` as a user calls it.

use std::path::Path;
use std::process::{Command, Output};

millstream_testing::watch!();

fn bench(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream-bench"));
    let output = command.args(words).current_dir(folder).output();
    output.expect("the program starts")
}

fn expect_status(output: &Output, status: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    errors
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.flatten().map(name).collect();
    names.sort();
    names
}

#[test]
fn wrong_options_are_usage_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for words in [
        &["nonsense"][..],
        &["--runs", "0"],
        &["--runs", "many"],
        &["--throttle", "fast"],
        &["--throttle", "48,0"],
        &["--throttle", "inf"],
    ] {
        let output = bench(folder.path(), words);
        assert!(!expect_status(&output, 2).is_empty(), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_part_of_a_name_that_no_case_has_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["--quick", "--corpus", "corpus", "--only", "such", "codecs"];
    let errors = expect_status(&bench(folder.path(), &words), 1);
    assert!(
        errors.contains("no case") && errors.contains("such"),
        "{errors}"
    );
}

#[test]
fn a_backend_of_the_environment_that_does_not_exist_fails_before_the_benchmark_begins() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream-bench"));
    command
        .args(["--quick", "--corpus", "corpus", "pnm"])
        .current_dir(folder.path());
    let output = command.env("MILLSTREAM_BACKEND", "tape").output();
    let errors = expect_status(&output.expect("the program starts"), 1);
    assert!(errors.contains("none of auto, uring"), "{errors}");
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn outputs_that_cannot_be_written_fail_before_the_benchmark_begins() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["--quick", "--runs", "1", "pnm", "--corpus", "corpus"];
    let with = |more: &[&str]| bench(folder.path(), &[&words[..], more].concat());
    let errors = expect_status(&with(&["--rows", "none/rows"]), 1);
    assert!(errors.contains("write to none/rows"), "{errors}");
    let errors = expect_status(&with(&["--report", "none/page.html"]), 1);
    assert!(errors.contains("none/page.html"), "{errors}");
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_quick_run_writes_rows_and_a_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Wrong bytes of anyone would fail the run.
    let words = ["read", "startup", "streams", "--quick", "--runs", "1"];
    let outputs = [
        "--corpus",
        "corpus",
        "--report",
        "page.html",
        "--rows",
        "rows.jsonl",
    ];
    let output = bench(folder.path(), &[&words[..], &outputs].concat());
    expect_status(&output, 0);
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page");
    for part in ["files cold", "kernel", "load before", "Goals"] {
        assert!(page.contains(part), "{part} is missing");
    }
    let names = ["corpus", "page.html", "rows.jsonl"];
    assert_eq!(names_in(folder.path()), names);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let study = "3.11 s, file stream";
    for part in ["startup: ", "limit (", study, "goals: "] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}
