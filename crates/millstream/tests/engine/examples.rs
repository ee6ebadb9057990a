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

fn output_of(command: &mut Command) -> String {
    let output = command.output().expect("the example runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

#[test]
fn level_counts_what_landed_and_what_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 70_000]).expect("written");
    let Some(mut level) = example("level") else {
        return;
    };
    let text = output_of(level.arg(&path).arg(folder.path().join("missing")));
    assert!(text.contains("1 files, 70000 bytes, 1 failed"), "{text}");
    assert!(text.contains("no such file"), "{text}");
}

#[test]
fn stream_world_shows_every_tile() {
    let Some(mut stream_world) = example("stream_world") else {
        return;
    };
    let text = output_of(&mut stream_world);
    assert!(text.starts_with("100 tiles in "), "{text}");
    assert!(text.contains(" 0 failed"), "{text}");
}

#[test]
fn own_codec_decodes_and_refuses_damage() {
    let Some(mut own_codec) = example("own_codec") else {
        return;
    };
    let text = output_of(&mut own_codec);
    assert!(text.contains("12 stored bytes, 300 raw bytes"), "{text}");
    assert!(text.contains("a count without a byte"), "{text}");
}

#[test]
fn job_system_decodes_into_memory_of_the_application() {
    let Some(mut job_system) = example("job_system") else {
        return;
    };
    let text = output_of(&mut job_system);
    assert!(text.contains("sample 999 is 999; jobs: 1,"), "{text}");
}

#[test]
fn pump_reads_a_file_on_one_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 3_000_000]).expect("written");
    let Some(mut pump) = example("pump") else {
        return;
    };
    let text = output_of(pump.arg(&path));
    assert!(text.starts_with("3000000 of 3000000 bytes"), "{text}");
}

#[test]
fn async_runtime_awaits_a_task_for_each_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 70_000]).expect("written");
    let Some(mut async_runtime) = example("async_runtime") else {
        return;
    };
    let text = output_of(async_runtime.arg(&path).arg(folder.path().join("missing")));
    assert!(text.contains("70000 bytes"), "{text}");
    assert!(text.contains("1 files, 1 failed"), "{text}");
}

#[test]
fn save_replaces_a_file_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("save");
    std::fs::write(&path, "old").expect("written");
    let Some(mut save) = example("save") else {
        return;
    };
    output_of(save.arg(&path).arg("new"));
    assert_eq!(std::fs::read(&path).expect("read"), b"new");
    let left = std::fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(left, 1, "nothing is left beside it");
}
