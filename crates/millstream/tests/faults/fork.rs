//! A process that forks while it has a storage: in the child its calls return, and the parent's
//! storage is not disturbed.
#![expect(unsafe_code, reason = "forks, and waits for the child")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use millstream::{Buffer, ErrorKind, Fence, FileOptions, Group, Read, Ticket};
use millstream_testing::this_test;

use crate::rig::{PATIENCE, Rig, each, landed, pattern};

/// What the forked child does; 0 if all is well, else the number of the step that failed.
fn in_the_child(rig: Rig, mut pending: Ticket<Buffer>, group: &Group) -> i32 {
    let closed = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Closed);
    if !closed(pending.wait().err().map(|error| error.kind())) {
        return 1;
    }
    let waited = pending.wait_timeout(Duration::from_millis(10));
    if !closed(waited.err().map(|error| error.kind())) {
        return 2;
    }
    let waited = rig.storage.wait(group, None);
    if !closed(waited.err().map(|error| error.kind())) {
        return 3;
    }
    if rig.storage.close(Duration::MAX).operations > 0 {
        return 4;
    }
    // None of these waits for threads that the child does not have.
    drop(pending);
    drop(rig);
    0
}

/// Runs `child` in a forked child, which must end by itself; its exit status.
fn forked(child: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child calls only code that this test is about, and leaves by `_exit`.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "a process");
    if id == 0 {
        // A panic must not unwind into the test harness, which belongs to the parent.
        let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(100);
        // SAFETY: ends the child without running what belongs to its parent.
        unsafe { libc::_exit(status) }
    }
    let until = Instant::now() + PATIENCE;
    let mut status = 0;
    loop {
        // SAFETY: waits for the child above, and writes one number.
        let waited = unsafe { libc::waitpid(id, &raw mut status, libc::WNOHANG) };
        if waited == id {
            return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        }
        if Instant::now() > until {
            // SAFETY: ends and reaps the child above.
            unsafe {
                libc::kill(id, libc::SIGKILL);
                libc::waitpid(id, &raw mut status, 0);
            }
            panic!("the forked child waits for ever");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_forked_child_can_wait_close_and_drop_and_the_parent_goes_on() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(1 << 20));
        std::fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        let (fence, group) = (Fence::new(0), Group::new());
        let held = Read::whole(file).after(&fence, 1).group(&group);
        let pending = rig.submit(held);
        // The child's copies of both; the parent keeps its own.
        let mut moved = Some((rig, pending));
        let status = forked(|| {
            let (rig, pending) = moved.take().expect("moved in the child only");
            in_the_child(rig, pending, &group)
        });
        assert_eq!(status, Some(0), "{name}: the step that failed");
        let (rig, pending) = moved.expect("the parent's are where they were");
        assert!(!pending.is_complete(), "{name}");
        fence.signal(1);
        assert!(landed(pending)[..] == content, "{name}");
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        rig.finish();
    });
}
