//! The examples run and do what they say.

use std::path::PathBuf;
use std::process::Command;

/// The built example beside this test's own program; `cargo test` builds it unless told to build
/// tests alone.
fn example(name: &str) -> Option<Command> {
    let mut path: PathBuf = std::env::current_exe().expect("this program has a path");
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    let program = path.join("examples").join(name);
    if !program.exists() {
        println!("SKIP: the example {name} was not built");
        return None;
    }
    Some(Command::new(program))
}

fn said(command: &mut Command) -> String {
    let output = command.output().expect("the example runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

#[test]
fn load_tells_the_bytes_of_each_file_and_goes_on_after_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 70_000]).expect("written");
    let missing = folder.path().join("missing");
    let Some(mut load) = example("load") else {
        return;
    };
    let text = said(load.arg(&missing).arg(&path));
    assert!(text.contains("data: 70000 bytes"), "{text}");
    assert!(text.contains("NotFound"), "{text}");
}

#[test]
fn frames_ends_with_every_tile_read_or_cancelled() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("level");
    std::fs::write(&path, vec![1; 100 * 65_536]).expect("written");
    let Some(mut frames) = example("frames") else {
        return;
    };
    let text = said(frames.arg(&path));
    let numbers: Vec<u64> = text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers[1] + numbers[2], 100, "{text}");
}

#[test]
fn save_replaces_a_file_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("save");
    std::fs::write(&path, "old").expect("written");
    let Some(mut save) = example("save") else {
        return;
    };
    said(save.arg(&path).arg("new"));
    assert_eq!(std::fs::read(&path).expect("read"), b"new");
    let left = std::fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(left, 1, "nothing is left beside it");
}
