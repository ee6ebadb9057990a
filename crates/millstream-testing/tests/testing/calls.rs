//! Calls are seen, refused, and the last of a program.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use millstream_testing::calls::{Answer, Ended, Op, answered, answered_at};
use millstream_testing::{Unavailable, or_skip};

/// A shell that writes two files with calls of its own.
fn writes_two(folder: &Path) -> Command {
    let mut shell = Command::new("sh");
    let script = "echo one > first; echo two > second; echo done";
    shell.args(["-c", script]).current_dir(folder);
    shell
}

/// Runs it with one call answered otherwise; what is in the files then.
fn ran(number: usize, answer: Answer) -> Result<(Ended, [Option<String>; 2]), Unavailable> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    let (ended, _) = answered_at(&mut writes_two(path), path, number, answer)?;
    let files = ["first", "second"].map(|name| std::fs::read_to_string(path.join(name)).ok());
    Ok((ended, files))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn calls_below_the_folder_are_seen_in_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, mut other) = (folder.path(), 0);
    let ended = or_skip!(answered(&mut writes_two(path), path, |_| {
        other += 1;
        Answer::Allow
    }));
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stdout, b"done\n");
    let path = path.canonicalize().expect("it is there");
    let of = |name: &str, bytes: &[u8]| {
        let (path, bytes) = (path.join(name), bytes.to_vec());
        let create = (path.clone(), Op::Create { unnamed: false });
        [create, (path, Op::Write { offset: 0, bytes })]
    };
    let expected = [of("first", b"one\n"), of("second", b"two\n")].concat();
    let seen: Vec<(_, _)> = ended
        .calls
        .iter()
        .map(|it| (it.path.clone(), it.op.clone()))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(other, expected.len());
    assert!(ended.calls.iter().all(|call| call.inode.is_some()));
    assert_eq!(ended.calls[1].result, Some(4));
}

#[test]
fn a_program_dies_before_or_after_a_call() {
    let (ended, files) = or_skip!(ran(0, Answer::KillBefore));
    assert_eq!(ended.status.signal(), Some(9));
    assert_eq!(files, [None, None]);
    let (_, files) = or_skip!(ran(1, Answer::KillBefore));
    assert_eq!(files, [text(""), None]);
    let (ended, files) = or_skip!(ran(1, Answer::KillAfter));
    assert_eq!(ended.status.signal(), Some(9));
    assert_eq!(files, [text("one\n"), None]);
}

#[test]
fn a_call_fails_without_being_made() {
    let (ended, files) = or_skip!(ran(2, Answer::Fail(libc::EROFS)));
    assert!(ended.stderr.contains("Read-only file system"), "{ended:?}");
    assert_eq!(files, [text("one\n"), None]);
    let (ended, files) = or_skip!(ran(1, Answer::Fail(libc::ENOSPC)));
    assert_eq!(ended.calls[1].result, Some(-i64::from(libc::ENOSPC)));
    assert!(ended.stderr.contains("echo"), "{ended:?}");
    assert_eq!(files, [text(""), text("two\n")]);
}
