//! The program for Windows under Wine beside the one of this system: the same lines for the same
//! files, and packages that travel both ways.
//!
//! `MILLSTREAM_WINDOWS_PROGRAM` names the program for Windows and `MILLSTREAM_WINE` what runs it;
//! `.ci/run windows` builds the one, installs the other, and sets both.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{
    expect_quiet_success, expect_status, millstream, mixed_bytes, names_in, run, wait,
};

/// The program for Windows, about to be started in a folder; `None`, with SKIP said, without it.
fn windows(folder: &Path, words: &[&str]) -> Option<Command> {
    let program = std::env::var_os("MILLSTREAM_WINDOWS_PROGRAM");
    let Some((program, wine)) = program.zip(std::env::var_os("MILLSTREAM_WINE")) else {
        println!("SKIP: no MILLSTREAM_WINDOWS_PROGRAM and MILLSTREAM_WINE: .ci/run windows");
        return None;
    };
    let mut command = Command::new(wine);
    command.arg(program).args(words).current_dir(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Some(command)
}

/// Runs a command that must not wait for anything. Wine rarely ends with status 1, without a word,
/// before the program begins: then it is run again, since the program says why it fails each time.
fn run_in_time(mut command: Command) -> Output {
    let mut once = || {
        let mut child = command.spawn().expect("the command starts");
        wait(&mut child);
        child.wait_with_output().expect("it has ended")
    };
    let output = once();
    let silent = output.stdout.is_empty() && output.stderr.is_empty();
    match output.status.code() {
        Some(1) if silent => once(),
        _ => output,
    }
}

/// What this system's program prints.
fn native(folder: &Path, words: &[&str]) -> Vec<u8> {
    let output = run(millstream(words).current_dir(folder));
    expect_quiet_success(&output);
    output.stdout
}

/// Small files and large ones, compressible and not, with names beyond ASCII and a long path.
fn sample(folder: &Path) {
    let deep = ["d"; 3].map(|letter| letter.repeat(100)).join("/");
    let names = [
        "a",
        "tex/b.png",
        "tex/größe/漢字.txt",
        &format!("{deep}/file"),
    ];
    for (seed, name) in names.into_iter().enumerate() {
        let path = folder.join("in").join(name);
        std::fs::create_dir_all(path.parent().expect("below a folder")).expect("created");
        std::fs::write(path, mixed_bytes(seed as u64, 700_000 * seed + 77)).expect("written");
    }
    std::fs::write(folder.join("in/empty"), "").expect("written");
}

#[test]
fn a_folder_has_the_same_hashes_on_both_systems_by_every_device() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    sample(folder);
    let expected = native(folder, &["load", "--hash", "in"]);
    assert_eq!(expected.iter().filter(|&&byte| byte == b'\n').count(), 5);
    let hashed = ["load", "--hash", "in"];
    for more in [
        &["--backend", "iocp", "--cold"][..],
        &["--backend", "iocp"],
        &["--backend", "threads"],
        &["--direct", "always"],
    ] {
        let Some(command) = windows(folder, &[&hashed[..], more].concat()) else {
            return;
        };
        let output = run_in_time(command);
        expect_quiet_success(&output);
        assert!(output.stdout == expected, "{more:?}: {output:?}");
    }
}

#[test]
fn packages_travel_both_ways() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    sample(folder);
    let Some(packs) = windows(folder, &["pack", "in", "-o", "windows.mpak"]) else {
        return;
    };
    expect_status(&run_in_time(packs), 0);
    native(folder, &["pack", "in", "-o", "native.mpak"]);
    let read = |name: &str| std::fs::read(folder.join(name)).expect("packed");
    assert!(
        read("windows.mpak") == read("native.mpak"),
        "the same input gives the same bytes"
    );

    let expected = native(folder, &["load", "--hash", "in"]);
    assert_eq!(
        native(folder, &["load", "--hash", "windows.mpak"]),
        expected
    );
    let loads = windows(folder, &["load", "--hash", "native.mpak"]).expect("as before");
    let output = run_in_time(loads);
    expect_quiet_success(&output);
    assert!(output.stdout == expected);

    let extracts = windows(folder, &["extract", "native.mpak", "out"]).expect("as before");
    expect_status(&run_in_time(extracts), 0);
    native(folder, &["extract", "windows.mpak", "back"]);
    for out in ["out", "back"] {
        assert_eq!(
            native(&folder.join(out), &["load", "--hash", "."]),
            expected
        );
    }
}

#[test]
fn names_that_windows_forbids_are_not_extracted_and_the_reason_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let odd = [
        "ab:stream",
        "back\\..\\..\\out",
        "dot.",
        "end ",
        "what?",
        "com\u{b9}",
    ];
    std::fs::create_dir(folder.join("in")).expect("created");
    for name in odd.into_iter().chain(["good"]) {
        std::fs::write(folder.join("in").join(name), name).expect("written");
    }
    native(folder, &["pack", "in", "-o", "odd.mpak"]);
    let Some(command) = windows(folder, &["extract", "odd.mpak", "out"]) else {
        return;
    };
    let errors = expect_status(&run_in_time(command), 1);
    assert!(errors.contains("6 failures"), "{errors}");
    for reason in [
        "forbids control characters",
        "end of a name",
        "for a device",
    ] {
        assert!(errors.contains(reason), "{reason}: {errors}");
    }
    assert_eq!(names_in(&folder.join("out")), ["good"]);
    assert_eq!(names_in(folder), ["in", "odd.mpak", "out"]);
}

#[test]
fn words_that_name_no_file_are_errors_and_nothing_waits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    std::fs::write(folder.join("file"), "bytes").expect("written");
    for (words, reason) in [
        (&["load", "con"][..], "device"),
        (&["load", "aux.txt"], "device"),
        (&["load", r"\\.\pipe\none"], "device"),
        (
            &["load", "Z:file"],
            "relative to the current folder of a drive",
        ),
        (&["load", r"\\?\Z:\nothing\here"], "os error"),
        (&["load", "file."], "end of a name"),
        (&["compress", "--codec", "zlib", "con", "out"], "device"),
        (&["compress", "--codec", "zlib", "file", "nul"], "device"),
        (&["pack", "prn", "-o", "out"], "device"),
        (&["pack", ".", "-o", "ab:c"], "forbids"),
        (&["extract", "con", "out"], "device"),
        (&["scene", "lpt1"], "device"),
    ] {
        let Some(command) = windows(folder, words) else {
            return;
        };
        let errors = expect_status(&run_in_time(command), 1);
        assert!(errors.contains(reason), "{words:?}: {errors}");
    }
    assert_eq!(names_in(folder), ["file"]);
}
