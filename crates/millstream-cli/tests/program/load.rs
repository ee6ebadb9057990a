//! `load`: every byte right, whatever the words, and what cannot be loaded said.

use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{
    SmallDisk, as_ordinary_user, expect_quiet_success, expect_status, installed, is_root, kill,
    limited, make_fifo, millstream, mixed_bytes, names_in, ordinary_user_can_start, run, wait,
};
use millstream_testing::wait_for;
use rustix::process::Signal;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

/// What `--json` must hold, no more and no less.
const KEYS: [&str; 13] = [
    "backend",
    "cancelled",
    "cpu_seconds",
    "decode_wait_seconds",
    "device_idle_seconds",
    "failed",
    "files",
    "first_error",
    "raw_bytes",
    "requests",
    "seconds",
    "staging_peak_bytes",
    "stored_bytes",
];

fn load(words: &[&str], paths: &[&Path]) -> Command {
    let mut command = millstream(&["load"]);
    command.args(words).args(paths);
    command
}

fn json(output: &Output) -> Value {
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let keys: Vec<&str> = document
        .as_object()
        .expect("an object")
        .keys()
        .map(|k| &**k)
        .collect();
    assert_eq!(
        keys.into_iter()
            .filter(|key| !["hashes", "error", "errors"].contains(key))
            .collect::<Vec<_>>(),
        KEYS
    );
    document
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("lines are UTF-8")
}

/// A folder of files whose sizes lie around every border that counts, and the lines of their
/// hashes.
fn folder_of_files(seed: u64) -> (tempfile::TempDir, String, u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sizes = [
        0,
        1,
        511,
        512,
        513,
        4095,
        4096,
        4097,
        65_535,
        65_536,
        65_537,
        1 << 20,
        (1 << 20) + 1,
        3_000_001,
        (8 << 20) - 1,
    ];
    let mut lines = Vec::new();
    for (index, size) in sizes.into_iter().enumerate() {
        let name = format!("{}/file {index:02}", ["a", "b/c", "b-c"][index % 3]);
        let path = folder.path().join(&name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        let bytes = mixed_bytes(seed + index as u64, size);
        std::fs::write(path, &bytes).expect("a file");
        lines.push((name.clone(), format!("{:016x}  {name}\n", xxh3_64(&bytes))));
    }
    lines.sort();
    let text = lines.into_iter().map(|(_, line)| line).collect();
    (folder, text, sizes.into_iter().sum::<usize>() as u64)
}

#[test]
fn every_way_of_loading_gives_the_same_hashes() {
    let (folder, expected, _) = folder_of_files(100);
    let ways: &[&[&str]] = &[
        &[],
        &["--backend", "threads"],
        &["--direct", "never"],
        &["--direct", "never", "--backend", "threads"],
        &["--cold"],
        &["--cold", "--backend", "threads"],
        &["--queue-depth", "1", "--workers", "1"],
        &[
            "--queue-depth",
            "1",
            "--workers",
            "1",
            "--backend",
            "threads",
        ],
        &["--block", "4K", "--staging", "64K"],
        &[
            "--block",
            "4K",
            "--staging",
            "64K",
            "--backend",
            "threads",
            "--cold",
        ],
        &["--block", "64M", "--staging", "1M"],
        &["--timeout", "60"],
    ];
    for way in ways {
        let output = run(load(way, &[folder.path()]).arg("--hash"));
        assert_eq!(crate::common::errors(&output), "", "{way:?}");
        expect_quiet_success(&output);
        assert_eq!(text(&output), expected, "{way:?}");
    }
}

#[test]
fn direct_reads_give_the_same_hashes_where_there_are_any() {
    let (folder, expected, _) = folder_of_files(200);
    for backend in ["auto", "threads"] {
        let words = ["--direct", "always", "--hash", "--backend", backend];
        let output = run(&mut load(&words, &[folder.path()]));
        if crate::common::errors(&output).contains("irect") {
            println!("SKIP: no direct I/O in {}", folder.path().display());
            return;
        }
        expect_quiet_success(&output);
        assert_eq!(text(&output), expected);
    }
}

#[test]
fn the_ring_gives_the_same_hashes_where_it_is_allowed() {
    let (folder, expected, _) = folder_of_files(300);
    let output = run(&mut load(
        &["--backend", "uring", "--hash"],
        &[folder.path()],
    ));
    if output.status.code() == Some(1) && crate::common::errors(&output).contains("io_uring") {
        println!("SKIP: {}", crate::common::errors(&output).trim());
        return;
    }
    expect_quiet_success(&output);
    assert_eq!(text(&output), expected);
}

fn plain(line: &str) -> String {
    let bsd = line
        .strip_prefix("XXH3 (")
        .and_then(|rest| rest.rsplit_once(") = "));
    match bsd {
        Some((name, hash)) => format!("{hash}  {name}"),
        None => String::from(line.strip_prefix("XXH3_").unwrap_or(line)),
    }
}

#[test]
fn hashes_are_those_of_xxhsum() {
    if !installed("xxhsum") {
        return;
    }
    let (folder, _, _) = folder_of_files(400);
    for name in ["a", "b/c", "b-c"] {
        let inner = folder.path().join(name);
        let theirs = Command::new("sh")
            .args(["-c", "xxhsum -q -H3 -- *"])
            .current_dir(&inner)
            .output()
            .expect("it starts");
        // Versions differ in style: "HASH  NAME", with or without a prefix, or "XXH3 (NAME) =
        // HASH".
        let theirs: String = text(&theirs)
            .lines()
            .map(|line| plain(line) + "\n")
            .collect();
        let ours = text(&run(&mut load(&["--hash"], &[&inner])));
        assert_eq!(ours, theirs);
    }
}

#[test]
fn the_hash_of_nothing_is_the_published_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("nothing");
    std::fs::write(&path, "").expect("a file");
    let output = run(&mut load(&["--hash"], &[&path]));
    expect_quiet_success(&output);
    assert_eq!(text(&output), "2d06800538d394c2  nothing\n");
}

#[test]
fn a_file_of_several_pieces_is_hashed_as_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("big");
    let bytes = mixed_bytes(500, (70 << 20) + 4321);
    std::fs::write(&path, &bytes).expect("a file");
    for way in [
        &["--cold", "--json", "--hash"][..],
        &["--json", "--hash", "--backend", "threads"],
    ] {
        let output = run(&mut load(way, &[&path]));
        expect_quiet_success(&output);
        let document = json(&output);
        assert_eq!(document["files"], 1);
        assert!(document["requests"].as_u64() >= Some(2), "{document}");
        assert_eq!(document["raw_bytes"], bytes.len());
        assert_eq!(
            document["hashes"][0]["hash"],
            format!("{:016x}", xxh3_64(&bytes))
        );
        assert_eq!(document["hashes"][0]["name"], "big");
    }
}

#[test]
fn the_document_has_the_promised_keys_and_sums() {
    let (folder, _, bytes) = folder_of_files(600);
    for backend in ["auto", "threads"] {
        let output = run(&mut load(
            &["--json", "--backend", backend],
            &[folder.path()],
        ));
        expect_quiet_success(&output);
        let document = json(&output);
        assert_eq!(document["files"], 15);
        assert_eq!(document["requests"], 15);
        assert_eq!(document["stored_bytes"], bytes);
        assert_eq!(document["raw_bytes"], bytes);
        assert_eq!(document["failed"], 0);
        assert_eq!(document["cancelled"], 0);
        assert!(document["first_error"].is_null());
        assert!(document["seconds"].as_f64() > Some(0.0));
        assert!(document["cpu_seconds"].as_f64() > Some(0.0));
        for key in ["device_idle_seconds", "decode_wait_seconds"] {
            assert!(document[key].as_f64() >= Some(0.0), "{key}");
        }
        assert!(document["staging_peak_bytes"].is_u64());
        assert!(["uring", "threads"].contains(&document["backend"].as_str().expect("a name")));
        if backend == "threads" {
            assert_eq!(document["backend"], "threads");
        }
    }
}

#[test]
fn the_table_says_where_the_time_went() {
    let (folder, _, _) = folder_of_files(700);
    let output = run(&mut load(&[], &[folder.path()]));
    expect_quiet_success(&output);
    let table = text(&output);
    for row in [
        "files",
        "requests",
        "bytes",
        "time",
        "device idle",
        "decode wait",
        "opens",
        "staging peak",
        "latency normal",
    ] {
        assert!(
            table.lines().any(|line| line.starts_with(row)),
            "no {row} in:\n{table}"
        );
    }
    // The device is busy or idle at most all of the time.
    let shares = table.lines().filter(|line| line.starts_with("device"));
    let shares = shares.filter_map(|line| line.split_once(" %")?.0.split(' ').next_back());
    let sum: u32 = shares
        .map(|share| share.parse::<u32>().expect("a number"))
        .sum();
    assert!(sum <= 101, "rounded shares of {sum} % in:\n{table}");
}

#[test]
fn paths_keep_their_order_and_names_are_sorted_below_each() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("two/a")).expect("a folder");
    std::fs::create_dir_all(at("one")).expect("a folder");
    for name in ["two/a/z", "two/a-b", "two/B", "one/only", "alone"] {
        std::fs::write(at(name), "x").expect("a file");
    }
    let odd = std::ffi::OsStr::from_bytes(b"two/\xff\n\\");
    std::fs::write(folder.path().join(odd), "x").expect("a file");
    symlink("two", at("link")).expect("a link");
    let hash = format!("{:016x}", xxh3_64(b"x"));
    let two = ["B", "a-b", "a/z", "\\xff\\x0a\\x5c"];

    let paths = [at("two"), at("alone"), at("one/"), at("link")];
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let output = run(&mut load(&["--hash"], &paths));
    expect_quiet_success(&output);
    let expected: String = two
        .into_iter()
        .chain(["alone", "only"])
        .chain(two)
        .map(|name| format!("{hash}  {name}\n"))
        .collect();
    assert_eq!(text(&output), expected);
}

#[test]
fn what_is_no_file_fails_and_the_rest_is_loaded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("sub")).expect("a folder");
    std::fs::write(at("good"), "x").expect("a file");
    std::fs::write(at("sub/inner"), "x").expect("a file");
    make_fifo(&at("fifo"));
    symlink("nowhere", at("dangling")).expect("a link");
    symlink("loop", at("loop")).expect("a link");
    symlink("good", at("to-good")).expect("a link");
    symlink("sub", at("to-sub")).expect("a link");
    symlink("fifo", at("to-fifo")).expect("a link");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");

    let output = run(&mut load(&["--hash", "--json"], &[folder.path()]));
    let errors = expect_status(&output, 1);
    assert!(
        errors.starts_with("millstream: 5 failures, the first: "),
        "{errors}"
    );
    assert!(
        errors.contains("/dangling: a dangling symbolic link"),
        "{errors}"
    );
    let document = json(&output);
    assert_eq!(document["files"], 8);
    assert_eq!(document["failed"], 5);
    assert_eq!(document["requests"], 3);
    let first = document["first_error"].as_str().expect("there is one");
    assert!(
        first.ends_with("/dangling: a dangling symbolic link"),
        "{first}"
    );
    let names: Vec<&str> = document["hashes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["good", "sub/inner", "to-good"]);

    for path in [
        "fifo", "dangling", "missing", "loop", "socket", "to-fifo", "good/",
    ] {
        let output = run(&mut load(&["--json"], &[&at(path), &at("good")]));
        let errors = expect_status(&output, 1);
        assert!(
            errors.starts_with("millstream: 1 failure, the first: "),
            "{errors}"
        );
        assert_eq!(json(&output)["raw_bytes"], 1, "{path}");
    }
    let output = run(&mut load(&[], &[Path::new("/dev/null")]));
    assert!(expect_status(&output, 1).contains("/dev/null: a device"));
}

#[test]
fn nothing_to_load_is_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run(&mut load(&["--json"], &[folder.path()]));
    expect_quiet_success(&output);
    assert_eq!(json(&output)["files"], 0);
    let output = run(&mut load(&["--hash"], &[folder.path()]));
    expect_quiet_success(&output);
    assert_eq!(text(&output), "");
}

#[test]
fn an_ordinary_user_loads_what_he_may() {
    if !ordinary_user_can_start() {
        return;
    }
    let (folder, expected, _) = folder_of_files(800);
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("permissions");
    let words = ["--hash", "--cold"];
    let output = run(as_ordinary_user(&mut load(&words, &[folder.path()])));
    expect_status(&output, 0);
    assert_eq!(text(&output), expected);

    let closed = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(folder.path().join("a/file 00"), closed.clone()).expect("permissions");
    std::fs::set_permissions(folder.path().join("b"), closed).expect("permissions");
    let output = run(as_ordinary_user(&mut load(&["--json"], &[folder.path()])));
    let errors = expect_status(&output, 1);
    assert!(
        errors.starts_with("millstream: 2 failures, the first: "),
        "{errors}"
    );
    assert!(
        errors.contains("a/file 00: ") && errors.contains("ermission denied"),
        "{errors}"
    );
    assert_eq!(json(&output)["requests"], 10);
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path().join("b"), open).expect("permissions");
}

#[test]
fn direct_always_fails_where_there_is_no_direct_io() {
    // Since 6.6 tmpfs takes O_DIRECT and ignores it; only a file system that refuses it shows
    // anything.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path(), 1 << 20) else {
        return;
    };
    std::fs::write(folder.path().join("file"), "x").expect("a file");
    let output = run(&mut load(
        &["--direct", "always", "--json"],
        &[folder.path()],
    ));
    let errors = expect_status(&output, 1);
    assert!(errors.contains("direct"), "{errors}");
    assert_eq!(json(&output)["failed"], 1);
    drop(disk);
}

#[test]
fn wrong_words_end_with_status_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), "x").expect("a file");
    let calls: &[&[&str]] = &[
        &["load"],
        &["load", ""],
        &["load", "--backend", "kqueue", "file"],
        &["load", "--direct", "sometimes", "file"],
        &["load", "--disk", "tape", "file"],
        &["load", "--disk", "seek=8ms", "file"],
        &["load", "--disk", "read=120M,read=1M", "file"],
        &["load", "--disk", "read=120M,depth=0", "file"],
        &["load", "--queue-depth", "0", "file"],
        &["load", "--queue-depth", "-1", "file"],
        &["load", "--queue-depth", "99999999999", "file"],
        &["load", "--queue-depth", "1000000", "file"],
        &["load", "--block", "0", "file"],
        &["load", "--block", "3K", "file"],
        &["load", "--block", "2K", "file"],
        &["load", "--block", "1.5M", "file"],
        &["load", "--block", "1G", "file"],
        &["load", "--block", "99999999999999T", "file"],
        &["load", "--staging", "1", "file"],
        &["load", "--staging", "65G", "file"],
        &["load", "--staging", "1T", "file"],
        &["load", "--staging", "1MB", "file"],
        &["load", "--workers", "0", "file"],
        &["load", "--workers", "99999", "file"],
        &["load", "--timeout", "0", "file"],
        &["load", "--timeout", "-1", "file"],
        &["load", "--timeout", "nan", "file"],
        &["load", "--timeout", "inf", "file"],
        &["load", "--timeout", "1e300", "file"],
        &["load", "--timeout", "1e-300", "file"],
        &["load", "--timeout", "soon", "file"],
        &["load", "--trace", "", "file"],
        &["load", "--trace", "-", "file"],
        &["load", "--trace", "-", "--json", "file"],
        &["scene", "--trace", "-", "file"],
        &["load", "--nonsense", "file"],
    ];
    for words in calls {
        let output = run(millstream(words).current_dir(folder.path()));
        let errors = expect_status(&output, 2);
        assert!(!errors.is_empty(), "{words:?} says nothing");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn an_imitated_disk_takes_its_time_and_changes_no_byte() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bytes = mixed_bytes(7, 200_000);
    std::fs::write(folder.path().join("file"), &bytes).expect("a file");
    let mut command = load(&["--disk", "read=1M", "--json", "--hash"], &[folder.path()]);
    let output = run(&mut command);
    expect_quiet_success(&output);
    let document = json(&output);
    let seconds = document["seconds"].as_f64().expect("a number");
    assert!(seconds >= 0.2, "{seconds} s for 200 KB at 1 MB/s");
    let hash = format!("{:016x}", xxh3_64(&bytes));
    assert_eq!(document["hashes"][0]["hash"], hash);
}

#[test]
fn a_request_that_takes_too_long_is_said_to() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), mixed_bytes(7, 1 << 20)).expect("a file");
    let words = [
        "load",
        "--timeout",
        "0.01",
        "--disk",
        "seek=1s,read=120M",
        "file",
    ];
    let output = run(millstream(&words).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("file: at offset 0: it took longer than its timeout"),
        "{errors}"
    );
}

#[test]
fn a_trace_is_chrome_json_with_its_lanes() {
    let (folder, _, _) = folder_of_files(900);
    let place = tempfile::tempdir().expect("a temporary folder");
    let path = place.path().join("trace.json");
    let mut command = load(&["--json", "--trace"], &[&path, folder.path()]);
    let output = run(&mut command);
    expect_quiet_success(&output);
    assert_eq!(names_in(place.path()), ["trace.json"]);
    let trace: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("it is there")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list of events");
    let lanes: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    for lane in ["queue", "device", "decode"] {
        assert!(lanes.contains(&lane), "{lanes:?}");
    }
    let spans = events.iter().filter(|event| event["ph"] == "X").count();
    assert!(spans >= 15, "{spans} spans");
    assert!(events.iter().any(|event| event["ph"] == "C"), "no counters");

    let output = run(&mut load(
        &["--trace", "/nonexistent/trace"],
        &[folder.path()],
    ));
    assert!(expect_status(&output, 1).contains("/nonexistent/trace"));
    let output = run(&mut load(&["--trace", "/dev/full"], &[folder.path()]));
    assert!(expect_status(&output, 1).contains("/dev/full"));
}

#[test]
fn a_closed_pipe_ends_it_without_a_word() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for index in 0..3000 {
        std::fs::write(folder.path().join(format!("{index}")), "x").expect("a file");
    }
    let mut child = load(&["--hash"], &[folder.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdout = child.stdout.take().expect("a pipe was asked for");
    stdout.read_exact(&mut [0]).expect("at least one byte");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(crate::common::errors(&output), "");
    // The pipe may have held all that was printed before it was closed.
    if !output.status.success() {
        crate::common::expect_signal(&output, Signal::PIPE);
    }

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = run(load(&[], &[folder.path()]).stdout(writer));
    assert_eq!(crate::common::expect_signal(&output, Signal::PIPE), "");
}

/// A file with nothing in it but a length; takes no space.
fn hole(folder: &Path, len: u64) -> PathBuf {
    let path = folder.join("hole");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(len).expect("the file system has large files");
    path
}

#[test]
fn hashes_are_printed_while_the_rest_is_loaded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for index in 0..2000 {
        std::fs::write(folder.path().join(format!("{index}")), "x").expect("a file");
    }
    // Behind the others, and longer than any test may take.
    hole(folder.path(), 1 << 40);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut child = load(&["--hash"], &[folder.path()])
        .stdout(full.expect("there is /dev/full"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait(&mut child);
    let output = child.wait_with_output().expect("it has ended");
    let errors = expect_status(&output, 1);
    assert!(errors.contains("standard output: "), "{errors}");
}

#[test]
fn memory_is_bounded_whatever_the_size() {
    const MEMORY_KIB_MAX: u64 = 700 << 10;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = hole(folder.path(), 6 << 30);
    let mut child = load(&["--json"], &[&path])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let has_ended = wait_for(|| {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak.unwrap_or(peak_kib);
        child.try_wait().expect("it is our child").is_some()
    });
    assert!(has_ended, "the program hangs");
    let output = child.wait_with_output().expect("it has ended");
    expect_status(&output, 0);
    assert_eq!(json(&output)["raw_bytes"], 6_u64 << 30);
    assert!(peak_kib > 0 && peak_kib < MEMORY_KIB_MAX, "{peak_kib} KiB");
}

#[test]
fn an_engine_or_a_list_of_files_that_memory_does_not_suffice_for_is_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for index in 0..20_000 {
        let name = format!("{index:0200}");
        std::fs::write(folder.path().join(name), "x").expect("a file");
    }
    let path = folder.path().to_str().expect("a plain path");
    let words = [
        "load",
        "--backend",
        "threads",
        "--staging",
        "1M",
        "--workers",
        "1",
        path,
    ];
    let mut lacking = ["no memory for the requests", "no memory for a list"].into_iter();
    let mut wanted = lacking.next();
    for kib in (50_000..2_000_000).step_by(1_500) {
        let output = run(&mut limited(&format!("-v {kib}"), &words));
        match (wanted, output.status.code()) {
            (None, _) | (_, Some(0)) => break,
            (Some(cause), Some(1)) if crate::common::errors(&output).contains(cause) => {
                wanted = lacking.next();
            }
            _ => {}
        }
    }
    assert_eq!(wanted, None, "memory never lacked for it");
}

/// Waits until a child has opened a file: then its requests are on their way.
fn wait_until_open(child: &std::process::Child, path: &Path) {
    let descriptors = PathBuf::from(format!("/proc/{}/fd", child.id()));
    let is_open = wait_for(|| {
        let entries = std::fs::read_dir(&descriptors);
        let mut entries = entries.into_iter().flatten().flatten();
        entries.any(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == path))
    });
    assert!(is_open, "{} is never opened", path.display());
}

#[test]
fn an_interruption_cancels_and_tells() {
    for (signal, words) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = hole(folder.path(), 1 << 40);
        let trace = folder.path().join("trace");
        let mut child = load(&["--json", "--trace"], &[&trace, &path])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        wait_until_open(&child, &path);
        kill(&child, signal);
        let status = wait(&mut child);
        let output = child.wait_with_output().expect("it has ended");
        assert_eq!(status.signal(), Some(signal.as_raw()));
        assert_eq!(
            crate::common::errors(&output),
            format!("millstream: interrupted by {words}\n")
        );
        let document = json(&output);
        assert_eq!(document["cancelled"], 1);
        assert_eq!(document["failed"], 0);
        assert_eq!(names_in(folder.path()), ["hole"]);
    }
}

#[test]
fn an_interrupted_load_begins_no_other_package() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = hole(folder.path(), 1 << 40);
    let (root, package) = (folder.path().join("in"), folder.path().join("p.mpak"));
    std::fs::create_dir(&root).expect("made");
    for name in ["a", "b"] {
        std::fs::write(root.join(name), name).expect("a file");
    }
    let mut pack = millstream(&["pack"]);
    expect_quiet_success(&run(pack.arg(&root).arg("-o").arg(&package)));
    let mut child = load(&["--json", "--disk", "seek=1s,read=1G"], &[&path, &package])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_until_open(&child, &path);
    kill(&child, Signal::INT);
    wait(&mut child);
    let output = child.wait_with_output().expect("it has ended");
    let document = json(&output);
    assert_eq!(document["cancelled"], 3, "{document}");
}

#[test]
fn few_descriptors_suffice_for_many_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for index in 0..5000 {
        std::fs::write(folder.path().join(format!("{index}")), "x").expect("a file");
    }
    let script = "ulimit -n 64; exec \"$0\" load --json \"$1\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_millstream")])
        .arg(folder.path());
    let output = run(&mut command);
    expect_quiet_success(&output);
    assert_eq!(json(&output)["raw_bytes"], 5000);
}

#[test]
fn a_trace_that_cannot_be_written_is_a_failure_beside_the_document() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), "12345").expect("a file");
    let words = ["load", "--json", "--trace", "/dev/full", "."];
    let output = run(millstream(&words).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("first: /dev/full: at offset 0: "),
        "{errors}"
    );
    assert_eq!(json(&output)["raw_bytes"], 5);
    // One that cannot even be begun is told before the work.
    let words = ["load", "--json", "--trace", "none/trace", "."];
    let output = run(millstream(&words).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("first: none/trace: cannot write: "),
        "{errors}"
    );
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert!(document["error"]["path"].is_string(), "{document}");
    // The trace of a walked folder is none of its files.
    let words = ["load", "--json", "--trace", "trace", "."];
    let output = run(millstream(&words).current_dir(folder.path()));
    expect_quiet_success(&output);
    assert_eq!(json(&output)["files"], 1);
}

#[test]
fn a_file_of_another_user_is_dropped_from_the_page_cache_too() {
    if !is_root() || !ordinary_user_can_start() {
        println!("SKIP: needs root, to be another than the file's owner");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, vec![1; 100_000]).expect("a file");
    // Pages that are not written back yet stay.
    std::fs::File::open(&file)
        .and_then(|file| file.sync_all())
        .expect("ours");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("ours");
    let mut command = load(&["--cold", "--json"], &[&file]);
    let output = run(as_ordinary_user(&mut command));
    // On a busy machine pages may stay; that the user owns no file is no reason.
    let errors = expect_status(&output, 0);
    let stayed = errors.contains("stay in the page cache");
    assert!(errors.is_empty() || stayed, "{errors}");
    assert_eq!(json(&output)["raw_bytes"], 100_000);
}
