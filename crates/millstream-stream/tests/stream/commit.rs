//! A commit that is killed at any of its calls leaves the old content or the new, whole.
//!
//! The file system is ours: it holds the commit at one kind of call after the other, and there the
//! process is killed. What a reader then finds is compared. (That what was renamed lasts through a
//! crash of the machine is the sync before it, which is among the calls.)

use std::process::{Command, Stdio};
use std::time::Duration;

use millstream::{Storage, StorageOptions};
use millstream_stream::{Streams, WriteStream};
use millstream_testing::{Call, Effect, FaultFs, Rule, or_skip, wait_for};

/// In the process to be killed: which file to replace.
const PATH: &str = "MILLSTREAM_STREAM_COMMIT";
const OLD: &[u8] = b"old content";
/// More than is written on the calling thread.
const NEW_BYTES: usize = 2_700_000;

fn new_content() -> Vec<u8> {
    (0..NEW_BYTES).map(|at| (at % 253) as u8).collect()
}

/// The process to be killed is this test alone, run once more with the path set.
#[test]
fn replaces_the_file_it_is_told_to() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let streams = Streams::new(&storage).expect("streams");
    let mut out = streams.replace(path).expect("begun");
    for piece in new_content().chunks(1000) {
        out.write_slice(piece).expect("written");
    }
    out.commit().expect("committed");
}

#[test]
fn killed_at_every_call_it_leaves_the_old_content_or_the_new() {
    if std::env::var_os(PATH).is_some() {
        return;
    }
    let mut held_at = 0;
    for call in [
        Call::Create,
        Call::Write,
        Call::Sync,
        Call::Rename,
        Call::SyncFolder,
        Call::Open,
    ] {
        // The first so many calls of the kind pass.
        for skipped in 0..3 {
            let fs = or_skip!(FaultFs::mount(&[("a", OLD)]));
            let before = fs.call_count(call);
            let mut child = Command::new(std::env::current_exe().expect("our own program"))
                .args(["commit::replaces_the_file_it_is_told_to", "--exact"])
                .env(PATH, fs.path("a"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a child");
            assert!(wait_for(|| {
                fs.call_count(call) >= before + skipped
                    || child.try_wait().expect("our child").is_some()
            }));
            let rule = fs.inject(Rule::on(call, Effect::Hang).times(1));
            let mut ended = false;
            while !ended && !fs.wait_held(1, Duration::from_millis(5)) {
                ended = child.try_wait().expect("our child").is_some();
            }
            if !ended {
                held_at += 1;
                child.kill().expect("it can be killed");
            }
            fs.lift(rule);
            fs.release();
            child.wait().expect("it ends");
            let content = fs.content("a").expect("there is always a file of the name");
            let whole = content == OLD || content == new_content();
            assert!(
                whole,
                "killed at {call:?} {skipped}: {} bytes",
                content.len()
            );
        }
    }
    assert!(held_at >= 6, "killed at {held_at} points only");
}

/// Only the owner may read the new content of a private file, at any time.
#[test]
fn what_replaces_a_private_file_is_private_while_it_is_written() {
    use std::os::unix::fs::PermissionsExt;
    let mode_of = |path: &std::path::Path| {
        let status = std::fs::metadata(path).expect("there");
        status.permissions().mode() & 0o7777
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, OLD).expect("written");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, private).expect("made private");
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let streams = Streams::new(&storage).expect("streams");
    let mut out = streams.replace(&path).expect("begun");
    out.write_slice(&new_content()).expect("written");
    let entries = std::fs::read_dir(folder.path()).expect("listed");
    let modes: Vec<u32> = entries
        .map(|entry| mode_of(&entry.expect("an entry").path()))
        .collect();
    assert_eq!(modes, [0o600, 0o600]);
    out.commit().expect("committed");
    assert_eq!(mode_of(&path), 0o600);
    assert!(std::fs::read(&path).expect("there") == new_content());
}
