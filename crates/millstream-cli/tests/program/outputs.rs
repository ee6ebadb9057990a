//! Outputs: whole or not there, whatever happens on the way.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{
    SmallDisk, as_ordinary_user, expect_quiet_success, expect_signal, expect_status, is_root, kill,
    make_fifo, millstream, mixed_bytes, names_in, ordinary_user_can_start, run, run_with,
    unfinished_of, wait, wait_until_unfinished,
};
use millstream_testing::{wait_for, wait_for_end};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Pid, Signal};

const COMPRESS: [&str; 3] = ["compress", "--codec", "lz4"];

fn compress(folder: &Path, input: &str, output: &str) -> std::process::Command {
    let mut command = millstream(&COMPRESS);
    command.args([input, output]).current_dir(folder);
    command
}

fn decompressed(path: &Path) -> Vec<u8> {
    let mut command = millstream(&["decompress", "--codec", "lz4"]);
    let output = run(command.arg(path).arg("-"));
    expect_quiet_success(&output);
    output.stdout
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "no lz4 frame at all").expect("a file");
    std::fs::write(folder.path().join("out"), "old").expect("a file");
    let mut command = millstream(&["decompress", "--codec", "lz4", "in", "out"]);
    let output = run(command.current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(
        errors.starts_with("millstream: 1 failure, the first: in: at offset "),
        "{errors}"
    );
    assert_eq!(names_in(folder.path()), ["in", "out"]);
    assert_eq!(
        std::fs::read(folder.path().join("out")).expect("it stays"),
        b"old"
    );
}

#[test]
fn an_output_never_replaces_a_file_that_the_command_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let call = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        run(millstream(&words).current_dir(folder.path()))
    };
    let key = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
    std::fs::create_dir(at("d")).expect("a folder");
    std::fs::write(at("d/x"), "bytes").expect("a file");
    std::fs::write(at("key"), key).expect("a file");
    std::fs::write(at("t.json"), "{\"traceEvents\":[]}").expect("a file");
    std::fs::write(at("s.gltf"), "{}").expect("a file");
    expect_status(&call("pack d -o a --sign key"), 0);
    std::fs::copy(at("a"), at("b")).expect("a copy");
    let contents =
        || ["a", "b", "key", "s.gltf", "t.json"].map(|name| std::fs::read(at(name)).ok());
    let before = contents();
    for words in [
        "pack d -o key --sign key",
        "pack d -o t.json --order t.json",
        "diff a b -o a",
        "diff a b -o b",
        "load d a --trace a",
        "scene s.gltf --trace s.gltf",
        "report t.json -o t.json",
    ] {
        let errors = expect_status(&call(words), 1);
        assert!(
            errors.contains("the command reads this file"),
            "{words}: {errors}"
        );
    }
    assert!(contents() == before, "every input is as it was");
}

#[test]
fn what_cannot_be_read_or_written_is_said_and_not_made() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("sub")).expect("a folder");
    std::fs::write(folder.path().join("in"), "bytes").expect("a file");
    symlink("loop", folder.path().join("loop")).expect("a link");
    let before = names_in(folder.path());
    let pairs = [
        ("missing", "out", "missing"),
        ("sub", "out", "sub"),
        ("in/", "out", "in/"),
        ("loop", "out", "loop"),
        ("in", "sub", "sub"),
        ("in", "sub/", "sub/"),
        ("in", ".", "."),
        ("in", "none/out", "none/out"),
        ("in", "out/", "out/"),
        ("in", "in/out", "in/out"),
        ("in", "loop", "loop"),
        ("in", "/dev/full", "/dev/full"),
    ];
    for (input, output, named) in pairs {
        let done = run(&mut compress(folder.path(), input, output));
        let errors = expect_status(&done, 1);
        let start = format!("millstream: 1 failure, the first: {named}: ");
        assert!(errors.starts_with(&start), "{input} to {output}: {errors}");
        assert_eq!(names_in(folder.path()), before);
    }
}

#[test]
fn a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("sub")).expect("a folder");
    std::fs::write(at("in"), "bytes").expect("a file");
    std::fs::write(at("sub/real"), "old").expect("a file");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(at("sub/real"), private).expect("permissions");
    symlink("sub/real", at("link")).expect("a link");
    symlink("sub/new", at("link-to-nothing")).expect("a link");

    expect_quiet_success(&run(&mut compress(folder.path(), "in", "link")));
    expect_quiet_success(&run(&mut compress(folder.path(), "in", "link-to-nothing")));
    assert_eq!(
        names_in(folder.path()),
        ["in", "link", "link-to-nothing", "sub"]
    );
    assert_eq!(names_in(&at("sub")), ["new", "real"]);
    assert!(at("link").is_symlink() && at("link-to-nothing").is_symlink());
    assert_eq!(
        std::fs::metadata(at("sub/real"))
            .expect("it is there")
            .mode()
            & 0o7777,
        0o600
    );
    assert_eq!(decompressed(&at("sub/real")), b"bytes");
    assert_eq!(decompressed(&at("sub/new")), b"bytes");
}

#[test]
fn the_output_may_replace_the_input() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raw = mixed_bytes(7, 3 << 20);
    std::fs::write(folder.path().join("file"), &raw).expect("a file");
    expect_quiet_success(&run(&mut compress(folder.path(), "file", "file")));
    assert_eq!(names_in(folder.path()), ["file"]);
    assert_eq!(decompressed(&folder.path().join("file")), raw);
}

#[test]
fn an_output_may_be_named_by_an_option() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "bytes").expect("a file");
    let call = |words: &[&str]| run(millstream(words).current_dir(folder.path()));
    expect_quiet_success(&call(&["compress", "--codec", "lz4", "in", "-o", "stored"]));
    let output = call(&["decompress", "--codec", "lz4", "-o", "-", "stored"]);
    assert_eq!(output.stdout, b"bytes");
    std::fs::write(folder.path().join("image"), b"P5 1 1 255\n\x07").expect("a file");
    expect_quiet_success(&call(&["decode", "image", "--output", "raw"]));
    assert_eq!(
        std::fs::read(folder.path().join("raw")).expect("decoded"),
        [7]
    );
}

#[test]
fn standard_output_onto_the_input_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file");
    std::fs::write(&path, "bytes").expect("a file");
    let file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("it is there");
    let output = run(compress(folder.path(), "file", "-").stdout(file));
    expect_status(&output, 1);
    assert_eq!(std::fs::read(&path).expect("it stays"), b"bytes");
}

#[test]
fn what_is_no_file_is_written_through() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "bytes").expect("a file");
    expect_quiet_success(&run(&mut compress(folder.path(), "in", "/dev/null")));

    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    let mut child = compress(folder.path(), "in", "fifo")
        .spawn()
        .expect("it starts");
    let mut through = Vec::new();
    std::fs::File::open(&fifo)
        .and_then(|mut file| file.read_to_end(&mut through))
        .expect("bytes");
    assert!(wait(&mut child).success());
    expect_quiet_success(&run(&mut compress(folder.path(), "in", "file")));
    assert_eq!(
        through,
        std::fs::read(folder.path().join("file")).expect("it is there")
    );

    // The shell has the file open as standard output; a rename would leave it with the old one.
    let redirected = std::fs::File::create(folder.path().join("redirected")).expect("a file");
    let output = run(compress(folder.path(), "in", "/dev/stdout").stdout(redirected));
    expect_quiet_success(&output);
    assert_eq!(
        through,
        std::fs::read(folder.path().join("redirected")).expect("it is there")
    );
    assert_eq!(
        names_in(folder.path()),
        ["fifo", "file", "in", "redirected"]
    );
}

#[test]
fn names_need_not_be_short_or_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let odd = std::ffi::OsStr::from_bytes(b"-\xff\n\\");
    std::fs::write(folder.path().join(odd), "bytes").expect("a file");
    let long = "n".repeat(255);
    let mut command = millstream(&COMPRESS);
    let output = run(command
        .arg("--")
        .arg(odd)
        .arg(&long)
        .current_dir(folder.path()));
    expect_quiet_success(&output);
    assert_eq!(decompressed(&folder.path().join(&long)), b"bytes");

    let mut command = millstream(&["decompress", "--codec", "lz4", "--"]);
    let output = run(command.arg(odd).arg("out").current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("first: -\\xff\\x0a\\x5c: at offset "),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn a_closed_pipe_ends_the_program_without_a_word() {
    let mut child = millstream(&["compress", "--codec", "lz4", "/dev/zero", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdout = child.stdout.take().expect("a pipe was asked for");
    stdout.read_exact(&mut [0]).expect("at least one byte");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(expect_signal(&output, Signal::PIPE), "");

    for words in [
        &["--help"][..],
        &["completions", "bash"],
        &["compress", "--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = run(millstream(words).stdout(writer));
        assert_eq!(expect_signal(&output, Signal::PIPE), "", "{words:?}");
    }
}

/// The program run by a shell, with redirections behind the call.
fn redirected(folder: &Path, words: &str, redirections: &str) -> std::process::Output {
    let script = format!("exec \"$0\" {words} {redirections}");
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_millstream")])
        .current_dir(folder);
    run(&mut command)
}

#[test]
fn standard_streams_that_are_closed_are_failures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "bytes").expect("a file");
    for words in [
        "compress --codec lz4 in -",
        "load in",
        "--help",
        "info --json",
    ] {
        let output = redirected(folder.path(), words, ">&-");
        let errors = expect_status(&output, 1);
        assert!(errors.contains("it was closed"), "{words}: {errors}");
        // What goes to /dev/null is not lost by mistake, however it was opened.
        let output = redirected(folder.path(), words, "1<>/dev/null");
        expect_quiet_success(&output);
    }
    let output = redirected(folder.path(), "compress --codec lz4 - out", "<&-");
    assert!(expect_status(&output, 1).contains("it was closed"));
    assert_eq!(names_in(folder.path()), ["in"]);
    // Who needs neither does not mind.
    let words = "compress --codec lz4 in out";
    expect_quiet_success(&redirected(folder.path(), words, "<&- >&- 2>&-"));
    assert_eq!(decompressed(&folder.path().join("out")), b"bytes");
}

#[test]
fn a_fifo_is_refused_and_never_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make_fifo(&folder.path().join("fifo"));
    for words in [
        "compress --codec lz4 fifo out",
        "decompress --codec lz4 fifo out",
        "decode fifo out",
        "report fifo -o out",
        "pack . -o out --sign fifo",
        "verify fifo --key fifo",
    ] {
        let mut child = millstream(&words.split(' ').collect::<Vec<_>>())
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        wait(&mut child);
        let output = child.wait_with_output().expect("it has ended");
        let errors = expect_status(&output, 1);
        assert!(errors.contains("fifo: a FIFO"), "{words}: {errors}");
        assert_eq!(names_in(folder.path()), ["fifo"]);
    }
    let empty = tempfile::tempdir().expect("a temporary folder");
    let mut child = millstream(&["pack", "-o", "fifo"])
        .arg(empty.path())
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait(&mut child);
    let errors = expect_status(&child.wait_with_output().expect("it has ended"), 1);
    assert!(
        errors.contains("fifo: a package is written to a regular file"),
        "{errors}"
    );
    let piped = "printf bytes | \"$0\" compress --codec lz4 /dev/stdin out";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", piped, env!("CARGO_BIN_EXE_millstream")]);
    expect_quiet_success(&run(command.current_dir(folder.path())));
    assert_eq!(decompressed(&folder.path().join("out")), b"bytes");
}

#[test]
fn a_killed_process_leaves_nothing_where_files_need_no_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    if let Err(refused) = rustix::fs::open(folder.path(), flags, Mode::RUSR) {
        println!("SKIP: the file system has no files without names: {refused}");
        return;
    }
    let mut killed = begin_endless(folder.path(), 4 << 20);
    kill(&killed, Signal::KILL);
    wait(&mut killed);
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in"), "bytes").expect("a file");
    let left = folder.path().join(".millstream-1-7.tmp");
    std::fs::write(&left, "left").expect("a file");
    // What a living process is still writing stays.
    let name = format!(".millstream-{}-7.tmp", std::process::id());
    let living = std::fs::File::create(folder.path().join(&name)).expect("a file");
    rustix::fs::flock(&living, FlockOperation::NonBlockingLockExclusive).expect("ours");
    expect_quiet_success(&run(&mut compress(folder.path(), "in", "other")));
    assert_eq!(names_in(folder.path()), [&name, "in", "other"]);
    // Not by closing it: a child that another test starts just now may have it open, too.
    rustix::fs::flock(&living, FlockOperation::Unlock).expect("ours");
    // A shell's `kill -9` of `extract` leaves many files.
    for number in 0..3 {
        let name = format!(".millstream-1-{number}.tmp");
        std::fs::write(folder.path().join(name), "left").expect("a file");
    }
    std::fs::create_dir(folder.path().join("empty")).expect("a folder");
    expect_quiet_success(&run(
        millstream(&["pack", "empty", "-o", "p.mpak"]).current_dir(folder.path())
    ));
    let left = names_in(folder.path());
    assert!(!left.iter().any(|name| name.ends_with(".tmp")), "{left:?}");
    std::fs::write(folder.path().join("empty/.millstream-1-1.tmp"), "left").expect("a file");
    expect_quiet_success(&run(
        millstream(&["extract", "p.mpak", "empty"]).current_dir(folder.path())
    ));
    assert!(names_in(&folder.path().join("empty")).is_empty());
}

#[test]
fn what_replaces_a_private_file_is_private_from_the_beginning() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    std::fs::write(&out, "old").expect("a file");
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let mut child = begin_endless(folder.path(), 1);
    let (unfinished, _) = unfinished_of(&child, folder.path()).expect("waited for");
    let mode = std::fs::metadata(unfinished).expect("there").mode() & 0o777;
    kill(&child, Signal::TERM);
    wait(&mut child);
    assert_eq!(mode, 0o600);
}

#[test]
fn standard_output_that_is_full_is_a_failure() {
    for words in [&["--help"][..], &["completions", "bash"]] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let output = run(millstream(words).stdout(full));
        expect_status(&output, 1);
    }
}

/// Starts a compression whose input never ends, feeds it `fed_bytes`, and waits until the
/// unfinished output is there.
fn begin_endless(folder: &Path, fed_bytes: usize) -> Child {
    let mut child = compress(folder, "-", "out")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    stdin
        .write_all(&mixed_bytes(1, fed_bytes))
        .expect("it reads");
    child.stdin = Some(stdin);
    wait_until_unfinished(&child, folder);
    child
}

#[test]
fn an_interruption_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = begin_endless(folder.path(), 4 << 20);
        kill(&child, signal);
        let status = wait(&mut child);
        assert_eq!(status.signal(), Some(signal.as_raw()));
        let mut errors = String::new();
        let mut stderr = child.stderr.take().expect("a pipe was asked for");
        stderr.read_to_string(&mut errors).expect("text");
        assert!(
            errors.starts_with("millstream: interrupted by SIG"),
            "{errors}"
        );
        assert!(
            names_in(folder.path()).is_empty(),
            "{:?}",
            names_in(folder.path())
        );
    }
}

/// The first signal waits for somebody to read its message.
#[test]
fn a_second_signal_ends_what_cannot_report_the_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).expect("ours");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, OFlags::empty()).expect("ours");
    let mut child = compress(folder.path(), "-", "out")
        .stdin(Stdio::piped())
        .stderr(writer)
        .spawn()
        .expect("it starts");
    wait_until_unfinished(&child, folder.path());
    let mut signals = [Signal::INT, Signal::TERM].into_iter().cycle();
    let has_ended = wait_for(|| {
        kill(&child, signals.next().expect("a cycle"));
        wait_for_end(Pid::from_child(&child), Duration::from_millis(20))
    });
    // Before a failure, which would leave it behind.
    let _ = child.kill();
    assert!(has_ended, "it hangs");
    let signal = child.wait().expect("it is our child").signal();
    assert!(
        [Signal::INT, Signal::TERM]
            .map(|it| Some(it.as_raw()))
            .contains(&signal),
        "{signal:?}"
    );
    assert!(names_in(folder.path()).is_empty());
    drop(reader);
}

#[test]
fn an_interruption_keeps_the_old_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("out"), "old").expect("a file");
    let mut child = begin_endless(folder.path(), 1);
    kill(&child, Signal::TERM);
    assert_eq!(wait(&mut child).signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(names_in(folder.path()), ["out"]);
    assert_eq!(
        std::fs::read(folder.path().join("out")).expect("it stays"),
        b"old"
    );
}

#[test]
fn what_the_parent_ignores_stays_ignored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "trap '' HUP INT; exec \"$0\" compress --codec lz4 - out";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_millstream")])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_until_unfinished(&child, folder.path());
    kill(&child, Signal::HUP);
    kill(&child, Signal::INT);
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    stdin.write_all(b"bytes").expect("it still reads");
    drop(stdin);
    assert!(wait(&mut child).success());
    assert_eq!(decompressed(&folder.path().join("out")), b"bytes");
}

#[test]
fn a_file_size_limit_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "ulimit -f 64; exec \"$0\" compress --codec lz4 - out";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_millstream")])
        .current_dir(folder.path());
    let output = run_with(&mut command, &mixed_bytes(3, 4 << 20));
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("first: out: at offset ") && errors.contains("ulimit"),
        "{errors}"
    );
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path(), 256 << 10) else {
        return;
    };
    let output = run_with(
        &mut compress(folder.path(), "-", "out"),
        &mixed_bytes(4, 4 << 20),
    );
    let errors = expect_status(&output, 1);
    assert!(errors.contains("first: out: at offset "), "{errors}");
    assert!(errors.contains("the disk is full"), "{errors}");
    assert!(names_in(folder.path()).is_empty());
    drop(disk);
}

#[test]
fn permissions_are_respected() {
    if !ordinary_user_can_start() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let set = |name: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(at(name), permissions).expect("permissions");
    };
    std::fs::write(at("in"), "bytes").expect("a file");
    std::fs::write(at("secret"), "bytes").expect("a file");
    std::fs::create_dir(at("closed")).expect("a folder");
    std::fs::create_dir(at("open")).expect("a folder");
    std::fs::write(at("open/protected"), "old").expect("a file");
    if is_root() {
        let nobody = Some(crate::common::NOBODY);
        for name in ["secret", "closed", "open", "open/protected"] {
            std::os::unix::fs::chown(at(name), nobody, nobody).expect("root may");
        }
    }
    set("", 0o755);
    set("in", 0o644);
    set("secret", 0o000);
    set("closed", 0o555);
    set("open/protected", 0o444);

    for (input, output) in [
        ("secret", "open/out"),
        ("in", "closed/out"),
        ("in", "open/protected"),
    ] {
        let output = run(as_ordinary_user(&mut compress(
            folder.path(),
            input,
            output,
        )));
        let errors = expect_status(&output, 1);
        assert!(errors.contains("Permission denied"), "{errors}");
    }
    assert!(names_in(&at("closed")).is_empty());
    assert_eq!(names_in(&at("open")), ["protected"]);
    assert_eq!(
        std::fs::read(at("open/protected")).expect("it stays"),
        b"old"
    );
    let output = run(as_ordinary_user(&mut compress(
        folder.path(),
        "in",
        "open/out",
    )));
    expect_quiet_success(&output);
}
