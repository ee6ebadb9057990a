//! The program on a file system that fails: errors, hangs, and a kernel without io_uring.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use crate::common::{
    expect_quiet_success, expect_status, kill, millstream, mixed_bytes, run, run_with, wait,
};
use millstream_testing::PATIENCE;
use millstream_testing::fuse::{Call, Effect, FaultFs, Rule};
use rustix::process::Signal;
use serde_json::Value;

const EIO: Effect = Effect::Fail(5);

/// A mount with these files; `None`, with SKIP said, where there is no FUSE.
fn mount(files: &[(&str, &[u8])]) -> Option<FaultFs> {
    FaultFs::mount(files)
        .map_err(|unavailable| unavailable.announce())
        .ok()
}

fn names(mount: &FaultFs) -> Vec<String> {
    mount
        .names()
        .into_iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

fn document(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn a_failing_read_is_told_with_its_place_and_the_rest_is_loaded() {
    let bytes = mixed_bytes(1, 2_000_000);
    let Some(mount) = mount(&[("a", &bytes), ("bad", &bytes), ("c", b"x")]) else {
        return;
    };
    mount.inject(
        Rule::on(Call::Read, EIO)
            .of("bad")
            .touching(1_500_000..1_500_001),
    );
    for backend in ["auto", "threads"] {
        let mut command = millstream(&["load", "--json", "--backend", backend]);
        let output = run(command.arg(mount.root()));
        let errors = expect_status(&output, 1);
        assert!(errors.contains("/bad: at offset "), "{errors}");
        assert!(errors.contains("Input/output error"), "{errors}");
        let document = document(&output);
        assert_eq!(document["failed"], 1);
        assert_eq!(document["raw_bytes"], bytes.len() + 1);
    }
}

#[test]
fn a_failing_input_is_told_with_its_place_and_leaves_no_output() {
    let bytes = mixed_bytes(2, 2_000_000);
    let Some(mount) = mount(&[("bad", &bytes)]) else {
        return;
    };
    mount.inject(Rule::on(Call::Read, EIO).touching(1_500_000..1_500_001));
    let mut command = millstream(&["compress", "--codec", "lz4", "bad", "out"]);
    let output = run(command.current_dir(mount.root()));
    let errors = expect_status(&output, 1);
    assert!(errors.contains("first: bad: at offset "), "{errors}");
    assert_eq!(names(&mount), ["bad"]);
}

#[test]
fn failing_writes_syncs_and_renames_leave_the_old_file() {
    let Some(mount) = mount(&[("out", b"old")]) else {
        return;
    };
    for call in [Call::Write, Call::Sync, Call::Rename, Call::Create] {
        mount.inject(Rule::on(call, EIO));
        let mut command = millstream(&["compress", "--codec", "lz4", "-", "out"]);
        let output = run_with(
            command.current_dir(mount.root()),
            &mixed_bytes(3, 1_000_000),
        );
        let errors = expect_status(&output, 1);
        assert!(errors.contains("first: out: "), "{call:?}: {errors}");
        assert!(errors.contains("Input/output error"), "{call:?}: {errors}");
        mount.heal();
        assert_eq!(names(&mount), ["out"], "{call:?}");
        assert_eq!(
            mount.content("out").as_deref(),
            Some(&b"old"[..]),
            "{call:?}"
        );
    }
}

/// A process cannot end while the kernel holds one of its reads, so what it has said by then is
/// looked at before the read is let go.
#[test]
fn a_timeout_ends_the_wait_for_a_read_that_hangs() {
    let bytes = mixed_bytes(4, 300_000);
    let Some(mount) = mount(&[("a", &bytes), ("hangs", &bytes), ("z", &bytes)]) else {
        return;
    };
    for backend in ["auto", "threads"] {
        mount.inject(Rule::on(Call::Read, Effect::Hang).of("hangs").times(1));
        let mut command = millstream(&["load", "--json", "--timeout", "0.5"]);
        let mut child = command
            .args(["--backend", backend])
            .arg(mount.root())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let document: Value =
            serde_json::from_str(&line_of(child.stdout.take())).expect("one JSON document");
        assert_eq!(document["failed"], 1);
        assert_eq!(document["raw_bytes"], 2 * bytes.len());
        let held = line_of(child.stderr.take());
        assert!(
            held.contains("the system still holds 1 operation of ") && held.ends_with("hangs\n"),
            "{held}"
        );
        mount.release();
        assert_eq!(wait(&mut child).code(), Some(1));
        mount.heal();
    }
}

/// The next line that a child says.
fn line_of(pipe: Option<impl std::io::Read>) -> String {
    let mut line = String::new();
    let pipe = pipe.expect("a pipe was asked for");
    BufReader::new(pipe).read_line(&mut line).expect("a line");
    line
}

/// The program in the mount's folder, interrupted while its first read hangs.
fn interrupted(mount: &FaultFs, words: &[&str]) -> Child {
    mount.inject(Rule::on(Call::Read, Effect::Hang).times(1));
    let child = millstream(words)
        .current_dir(mount.root())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    assert!(mount.wait_held(1, PATIENCE), "{words:?} reads nothing");
    kill(&child, Signal::TERM);
    child
}

#[test]
fn an_interruption_ends_what_hangs() {
    let Some(mount) = mount(&[("hangs", &mixed_bytes(5, 300_000))]) else {
        return;
    };
    let calls: [&[&str]; 2] = [
        &["load", "hangs"],
        &["compress", "--codec", "lz4", "hangs", "out"],
    ];
    for words in calls {
        let mut child = interrupted(&mount, words);
        assert_eq!(
            line_of(child.stderr.take()),
            "millstream: interrupted by SIGTERM\n"
        );
        assert_eq!(names(&mount), ["hangs"]);
        mount.release();
        let ended = wait(&mut child).signal();
        assert_eq!(ended, Some(Signal::TERM.as_raw()), "{words:?}");
        mount.heal();
    }
}

#[test]
fn an_interrupted_scene_says_so_once_and_leaves_no_trace() {
    let Some(mount) = mount(&[("scene.gltf", b"{\"asset\": {\"version\": \"2.0\"}}")]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace");
    let trace = trace.to_str().expect("a plain path");
    for words in [
        &["scene", "scene.gltf"][..],
        &["scene", "scene.gltf", "--trace", trace],
    ] {
        let mut child = interrupted(&mount, words);
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe was asked for"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line");
        assert_eq!(line, "millstream: interrupted by SIGTERM\n");
        mount.release();
        let ended = wait(&mut child).signal();
        assert_eq!(ended, Some(Signal::TERM.as_raw()), "{words:?}");
        line.clear();
        errors.read_line(&mut line).expect("the end");
        assert_eq!(line, "", "{words:?}");
        assert!(crate::common::names_in(folder.path()).is_empty());
        mount.heal();
    }
}

#[test]
fn without_io_uring_everything_is_the_same() {
    // Built beside this program when the tests of the whole workspace run.
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_millstream"));
    let wrapper = program.with_file_name("no-uring");
    if !wrapper.exists() {
        println!("SKIP: {} is not built", wrapper.display());
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for index in 0..50 {
        let bytes = mixed_bytes(index, 1 << (index % 20));
        std::fs::write(folder.path().join(format!("{index}")), bytes).expect("a file");
    }
    let mut command = millstream(&["load", "--hash"]);
    let expected = run(command.arg(folder.path()));
    expect_quiet_success(&expected);
    for refusal in ["eperm", "enosys"] {
        let refused = |words: &[&str]| {
            let mut command = Command::new(&wrapper);
            command
                .arg(refusal)
                .arg(program)
                .args(words)
                .arg(folder.path());
            run(&mut command)
        };
        let output = refused(&["load", "--hash"]);
        expect_quiet_success(&output);
        assert_eq!(output.stdout, expected.stdout);
        assert_eq!(
            document(&refused(&["load", "--json"]))["backend"],
            "threads"
        );
        let info = document(&refused(&["info", "--json"]));
        assert_eq!(info["backend"], "threads");
        assert!(info["io_uring"]["refused"].is_string(), "{info}");
        let output = refused(&["load", "--backend", "uring"]);
        assert!(expect_status(&output, 1).contains("io_uring"));
    }
}
