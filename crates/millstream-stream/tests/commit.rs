//! A commit that is killed at any of its calls leaves the old content or the new, whole.
//!
//! The file system is ours: it holds the commit at one kind of call after the other, and there the
//! process is killed. What a reader then finds is compared. (That what was renamed lasts through a
//! crash of the machine is the sync before it, which is among the calls.)

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use millstream::{Storage, StorageOptions};
use millstream_stream::{Streams, WriteStream};
use millstream_testing::{Call, Effect, FaultFs, Rule, or_skip};

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
    let storage = Arc::new(Storage::new(StorageOptions::default()).expect("a storage"));
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
                .args(["replaces_the_file_it_is_told_to", "--exact"])
                .env(PATH, fs.path("a"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a child");
            while fs.call_count(call) < before + skipped
                && child.try_wait().expect("our child").is_none()
            {
                std::thread::yield_now();
            }
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
