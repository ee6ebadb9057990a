//! The words of calls: help, versions, completions, manual pages, and what is refused.

use crate::common::{CODECS, expect_quiet_success, expect_status, millstream, names_in, run};

/// Every command that the program has.
fn commands() -> Vec<String> {
    let output = run(&mut millstream(&["--help"]));
    expect_quiet_success(&output);
    let help = String::from_utf8(output.stdout).expect("help is UTF-8");
    let list = help
        .split("Commands:\n")
        .nth(1)
        .expect("the help lists the commands");
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(String::from)
        .collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands = commands();
    assert!(commands.len() >= 7, "{commands:?}");
    for command in &commands {
        for words in [
            [command.as_str(), "--help"],
            [command.as_str(), "-h"],
            ["help", command],
        ] {
            let output = run(&mut millstream(&words));
            expect_quiet_success(&output);
            let help = String::from_utf8(output.stdout).expect("help is UTF-8");
            assert!(
                help.contains(&format!("millstream {command} ")),
                "{words:?}: {help}"
            );
            assert!(help.contains("Example"), "{words:?}: {help}");
            assert!(help.contains("--json"), "{words:?}: {help}");
        }
    }
}

#[test]
fn the_version_is_the_crates() {
    let output = run(&mut millstream(&["--version"]));
    expect_quiet_success(&output);
    let expected = format!("millstream {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn help_that_cannot_be_printed_is_a_failure_with_words() {
    for words in [&["--help"][..], &["load", "--help"], &["--version"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = run(millstream(words).stdout(full.expect("there is /dev/full")));
        let errors = expect_status(&output, 1);
        let start = "millstream: 1 failure, the first: standard output: cannot write: ";
        assert!(errors.starts_with(start), "{words:?}: {errors}");
    }
}

#[test]
fn wrong_words_end_with_status_2_and_touch_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "bytes").expect("a file");
    let calls: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["--nonsense"],
        &["compress"],
        &["compress", "in", "out"],
        &["compress", "--codec", "zstd"],
        &["compress", "--codec", "zstd", "in"],
        &["compress", "--codec", "zstd", "in", ""],
        &["compress", "--codec", "zstd", "in", "-o", "out", "out"],
        &["compress", "--codec", "zstd", "", "out"],
        &["compress", "--codec", "zstd", "in", "out", "more"],
        &["compress", "--codec", "lzma", "in", "out"],
        &["compress", "--codec", "stored", "in", "out"],
        &[
            "compress", "--codec", "zstd", "--level", "high", "in", "out",
        ],
        &[
            "compress",
            "--codec",
            "zstd",
            "--level",
            "99999999999999",
            "in",
            "out",
        ],
        &["compress", "--codec", "zstd", "--json=1", "in", "out"],
        &["compress", "--codec", "zstd", "--json", "in", "-"],
        &[
            "compress", "--codec", "zstd", "--codec", "zstd", "in", "out",
        ],
        &["decompress", "--codec", "zstd", "--level", "3", "in", "out"],
        &["decompress", "--codec", "zstd", "--json", "in", "-"],
        &["completions"],
        &["completions", "cmd.exe"],
        &["man"],
    ];
    for words in calls {
        let output = run(millstream(words).current_dir(folder.path()));
        let errors = expect_status(&output, 2);
        assert!(!errors.is_empty(), "{words:?} says nothing");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert_eq!(names_in(folder.path()), ["in"]);
    let words = ["compress", "--codec", "zstd", "--level", "99", "in", "out"];
    let errors = expect_status(&run(millstream(&words).current_dir(folder.path())), 2);
    assert!(
        errors.ends_with("try: millstream compress --help\n"),
        "{errors}"
    );
}

#[test]
fn every_command_that_fails_prints_a_document_with_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "no package, image or trace").expect("a file");
    std::fs::create_dir(folder.path().join("many")).expect("a folder");
    for nth in 10..25 {
        let link = folder.path().join(format!("many/{nth}"));
        std::os::unix::fs::symlink("nowhere", link).expect("a link");
    }
    for (words, path, kind) in [
        ("load none", "none", "not_found"),
        ("info none", "none", "not_found"),
        ("compress --codec lz4 none out", "none", "not_found"),
        ("decompress --codec lz4 in out", "in", "corrupt"),
        ("pack none -o out", "none", "not_found"),
        ("scene none", "none", ""),
        ("list in", "in", "not_a_package"),
        ("extract in out", "in", "not_a_package"),
        ("cat in name", "in", "not_a_package"),
        ("verify in", "in", "not_a_package"),
        ("diff in in", "in", "not_a_package"),
        ("decode in out", "in", "not_pnm"),
        ("report in -o out", "in", "invalid_data"),
        ("weights info in", "in", "wrong_format"),
        ("weights load none", "none", "not_found"),
        ("man none", "none/millstream.1", "not_found"),
        ("load many", "many/10", ""),
    ] {
        let mut command = millstream(&words.split(' ').collect::<Vec<_>>());
        let output = run(command.arg("--json").current_dir(folder.path()));
        let errors = crate::common::expect_status(&output, 1);
        let document: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON document");
        let error = &document["error"];
        assert_eq!(error["path"], path, "{words}: {document}");
        if !kind.is_empty() {
            assert_eq!(error["kind"], kind, "{words}: {document}");
        }
        assert!(error.get("offset").is_some(), "{words}: {document}");
        let message = error["message"].as_str().expect("words");
        assert!(errors.contains(message), "{words}: {document} {errors}");
        if words == "load many" {
            assert_eq!(document["failed"], 15);
            assert_eq!(document["errors"].as_array().map(Vec::len), Some(10));
            assert!(
                errors.contains("many/19") && errors.contains("and 5 more"),
                "{errors}"
            );
        }
    }
}

#[test]
fn levels_out_of_range_are_wrong_words_for_every_codec() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "bytes").expect("a file");
    for &codec in CODECS {
        for level in ["-1000000000", "1000"] {
            let words = ["compress", "--codec", codec, "--level", level, "in", "out"];
            let output = run(millstream(&words).current_dir(folder.path()));
            let errors = expect_status(&output, 2);
            assert!(errors.contains(codec) && errors.contains(level), "{errors}");
        }
    }
    assert_eq!(names_in(folder.path()), ["in"]);
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&mut millstream(&["completions", shell]));
        expect_quiet_success(&output);
        let script = String::from_utf8(output.stdout).expect("scripts are UTF-8");
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
        let output = run(&mut millstream(&["completions", "--json", shell]));
        expect_quiet_success(&output);
        let document: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert_eq!(document["script"], script);
    }
}

#[test]
fn manual_pages_cover_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("temporary names are UTF-8");
    let output = run(&mut millstream(&["man", path, "--json"]));
    expect_quiet_success(&output);
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON document");
    let mut expected = vec![String::from("millstream.1")];
    expected.extend(
        commands()
            .iter()
            .map(|command| format!("millstream-{command}.1")),
    );
    let of_weights =
        ["bench", "hash", "info", "load"].map(|it| format!("millstream-weights-{it}.1"));
    expected.extend(of_weights);
    expected.sort();
    assert_eq!(names_in(folder.path()), expected);
    assert_eq!(
        document["pages"].as_array().map(Vec::len),
        Some(expected.len())
    );
    for name in &expected {
        let page = std::fs::read_to_string(folder.path().join(name)).expect("a page");
        assert!(
            page.contains(".TH") && page.contains("NAME"),
            "{name}: {page}"
        );
    }

    for (command, words) in [
        ("pack", "millstream pack"),
        ("pack", r" \-\-output <FILE.mpak>"),
        ("pack", r" [\-\-level <N>]"),
        ("pack", r" [\-\-target\-gpu[=<N>]]"),
        ("pack", r" <DIR|ARCHIVE>"),
        ("extract", " [GLOB]..."),
        (
            "weights-load",
            r"millstream weights load [\-\-backend <BACKEND>]",
        ),
    ] {
        let page = folder.path().join(format!("millstream-{command}.1"));
        let page = std::fs::read_to_string(page).expect("a page");
        let synopsis = page.split(".SH ").find(|it| it.starts_with("SYNOPSIS"));
        let synopsis = synopsis.expect("every page has one");
        assert!(synopsis.contains(words), "{words}: {synopsis}");
    }
    let output = run(&mut millstream(&["man", "/nonexistent/folder"]));
    let errors = expect_status(&output, 1);
    assert!(errors.contains("/nonexistent/folder"), "{errors}");
}
